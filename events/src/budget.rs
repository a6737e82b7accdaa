//! A budget: what may be spent on models by a session, a key, a project or all. Runs hold slices of it, and draw on
//! those with the intent of each call; what a run did not use comes back with its end.
//!
//! Invariant: what was spent and what runs hold is never granted beyond the limit. A slice is closed only by the run
//! that holds it, so an owner that dies, a lost answer and a repeat change nothing: unknown stays spent.

mod scope;
mod terms;

pub use scope::{NotAScope, Scope, Whose, Width};
pub use terms::{Amount, MARKS_MAX, Renewal, Short, Terms, Unpriced};

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::id::RunId;
use crate::quantity::{Instant, MicroUsd};
use crate::record::{Entry, StreamKey, StreamKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Runs that hold a slice of one budget at a time (4,096): as many as a few nodes have at work.
pub const SLICES_MAX: usize = 4_096;
/// Ended runs that a budget remembers (256), so that a question of theirs that comes late gets nothing.
const REMEMBERED: usize = 256;
/// Budgets of one installation (4,096): every node knows which there are.
pub const SCOPES_MAX: usize = 4_096;

crate::events! {
    /// What can have happened to a budget.
    pub enum Event {
        /// This much is allowed from now on.
        Set(Set) = 500 / 1 "set";
        /// Nothing is limited any more.
        Removed(Removed) = 501 / 1 "removed";
        /// A run holds more of it.
        Granted(Granted) = 502 / 1 "slice_granted";
        /// A run holds none of it any more.
        Returned(Returned) = 503 / 1 "slice_returned";
        /// A mark was crossed.
        Crossed(Crossed) = 504 / 1 "threshold_crossed";
        /// It begins anew.
        Renewed(Renewed) = 505 / 1 "renewed";
        /// There is a budget of that scope; said in the stream of all.
        Listed(Listed) = 506 / 1 "listed";
        /// There is none any more.
        Unlisted(Listed) = 507 / 1 "unlisted";
    }
}

/// This much is allowed from now on; what was spent stays spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// How much.
    pub terms: Terms,
    /// When it begins anew.
    pub until: Option<Instant>,
}

/// Nothing is limited any more, and what was spent is forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {}

/// A run holds more of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Which run.
    pub run: RunId,
    /// Which of its questions this answers; they ascend.
    pub ask: u32,
    /// How much more.
    pub amount: Amount,
}

/// A run holds none of it any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Which run.
    pub run: RunId,
    /// What it spent of its slice, lost outcomes at their worst.
    pub used: Amount,
}

/// A mark was crossed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossed {
    /// Which one: percent of the limit.
    pub percent: u8,
}

/// It begins anew: nothing is spent; what runs hold they hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// When it does so again.
    pub until: Option<Instant>,
}

/// Which budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its scope.
    pub scope: Scope,
}

/// A run asks for more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Which budget: the one that is asked.
    pub scope: Scope,
    /// Which run.
    pub run: RunId,
    /// Numbers its questions.
    pub ask: u32,
    /// How much money; none for a model without a price.
    pub usd: Option<MicroUsd>,
    /// How many calls.
    pub calls: u64,
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Allow this much.
    Set(Terms),
    /// Limit nothing.
    Remove,
    /// Let a run hold more.
    Grant(Wanted),
    /// Take back what a run holds.
    Return(Returned),
    /// Look whether a window has ended.
    Due,
    /// Remember that there is this budget; asked of the one of all.
    List(Scope),
    /// Forget that there is this budget; asked of the one of all.
    Unlist(Scope),
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It does not fit.
    #[error("{0}")]
    Short(Box<Short>),
    /// Too many runs hold a slice.
    #[error("{SLICES_MAX} runs hold a slice of this budget: wait until one has ended")]
    Crowded,
    /// The run gave its slice back: it has ended.
    #[error("the run has ended")]
    RunEnded,
    /// The terms make no sense.
    #[error(
        "limit money or calls, and give at most {MARKS_MAX} marks of 1 to 100 percent in ascending order"
    )]
    BadTerms,
    /// There are too many.
    #[error("there are {SCOPES_MAX} budgets: remove one first")]
    Full,
}

/// What a run holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Its newest question that was answered.
    pub ask: u32,
    /// How much.
    pub held: Amount,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// How much is allowed; nothing is limited without.
    pub terms: Option<Terms>,
    /// When it begins anew.
    pub until: Option<Instant>,
    /// What was spent in this window by runs that gave their slice back.
    pub spent: Amount,
    /// What runs hold, in all.
    pub held: Amount,
    /// What each of them holds.
    pub slices: BTreeMap<RunId, Slice>,
    /// Runs that gave their slice back, the newest last.
    pub closed: VecDeque<RunId>,
    /// The highest mark that was crossed in this window.
    pub warned: u8,
    /// Which other budgets there are; only the one of all says so.
    pub scopes: BTreeSet<Scope>,
}

impl State {
    /// What can not be granted any more.
    #[must_use]
    pub fn taken(&self) -> Amount {
        self.spent.plus(self.held)
    }
}

/// Marker: the rules of a budget. It owes the world nothing: whoever holds a slice brings it back.
#[derive(Debug)]
pub struct Budget;

/// A budget has no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

fn fold(state: &State, events: &[Event]) -> Option<State> {
    let mut state = state.clone();
    events.iter().try_for_each(|event| apply(&mut state, event))?;
    Some(state)
}

/// The event that begins a new window, once the old one is over.
fn renewal(state: &State, now: Instant) -> Vec<Event> {
    let Some(terms) = &state.terms else { return vec![] };
    let over = state.until.is_some_and(|until| until <= now);
    if over { vec![Event::Renewed(Renewed { until: terms.renews.until(now) })] } else { vec![] }
}

/// Extends events by the marks that are crossed after them.
fn with_marks(state: &State, mut events: Vec<Event>) -> Vec<Event> {
    if let Some(after) = fold(state, &events)
        && let Some(terms) = &after.terms
    {
        let reached = terms.reached(after.taken(), after.warned);
        events.extend(reached.map(|percent| Event::Crossed(Crossed { percent })));
    }
    events
}

fn set(state: &State, terms: &Terms, now: Instant) -> Result<Vec<Event>, Refusal> {
    if !terms.is_sound() {
        return Err(Refusal::BadTerms);
    }
    if state.terms.as_ref() == Some(terms) {
        return Ok(vec![]);
    }
    let set = Set { terms: terms.clone(), until: terms.renews.until(now) };
    Ok(vec![Event::Set(set)])
}

fn grant(state: &State, wanted: &Wanted) -> Result<Vec<Event>, Refusal> {
    let &Wanted { scope, run, ask, usd, calls } = wanted;
    if state.closed.contains(&run) {
        return Err(Refusal::RunEnded);
    }
    match state.slices.get(&run) {
        Some(slice) if slice.ask >= ask => return Ok(vec![]),
        Some(_) => {}
        None if state.slices.len() >= SLICES_MAX => return Err(Refusal::Crowded),
        None => {}
    }
    let amount = Amount { usd: usd.unwrap_or_default(), calls };
    if let Some(terms) = &state.terms {
        let priced = usd.is_some() || terms.usd.is_none() || terms.unpriced == Unpriced::Allow;
        if !priced || !terms.allows(state.taken().plus(amount)) {
            return Err(Refusal::Short(Box::new(Short {
                scope,
                usd: terms.usd,
                calls: terms.calls,
                spent: state.spent,
                reserved: state.held,
                wanted: usd,
                renews: terms.renews,
                renews_at: state.until,
            })));
        }
    }
    Ok(vec![Event::Granted(Granted { run, ask, amount })])
}

fn decide_in_window(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
    match command {
        Command::Set(terms) => set(state, terms, now),
        Command::Remove if state.terms.is_none() => Ok(vec![]),
        Command::Remove => Ok(vec![Event::Removed(Removed {})]),
        Command::Grant(wanted) => grant(state, wanted),
        Command::Return(returned) if state.closed.contains(&returned.run) => Ok(vec![]),
        Command::Return(returned) => Ok(vec![Event::Returned(returned.clone())]),
        Command::Due => Ok(vec![]),
        Command::List(scope) if state.scopes.contains(scope) => Ok(vec![]),
        Command::List(_) if state.scopes.len() >= SCOPES_MAX => Err(Refusal::Full),
        Command::List(scope) => Ok(vec![Event::Listed(Listed { scope: *scope })]),
        Command::Unlist(scope) if state.scopes.contains(scope) => {
            Ok(vec![Event::Unlisted(Listed { scope: *scope })])
        }
        Command::Unlist(_) => Ok(vec![]),
    }
}

impl Aggregate for Budget {
    type Id = Scope;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Budget;
    const FOLD: u32 = 1;

    fn stream(id: &Scope) -> StreamKey {
        StreamKey::named(StreamKind::Budget, id.as_str())
    }

    fn id(stream: &StreamKey) -> Option<Scope> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        let mut events = renewal(state, now);
        let begun = fold(state, &events).unwrap_or_default();
        let more = decide_in_window(if events.is_empty() { state } else { &begun }, command, now)?;
        events.extend(more);
        Ok(if events.is_empty() { events } else { with_marks(state, events) })
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        if apply(&mut state, event).is_some() {
            return Ok(state);
        }
        let before = format!("a budget of {} slices", state.slices.len());
        Err(IllegalEvent { event: event.name().to_owned(), before })
    }

    fn awake(_state: &State) -> Vec<Event> {
        vec![]
    }

    fn pending(_state: &State) -> Vec<(Never, Never)> {
        vec![]
    }

    /// One that was not touched in its window need not begin anew.
    fn wake(state: &State) -> Wake {
        let touched = state.spent != Amount::default() || state.warned > 0;
        match state.until.filter(|_| touched) {
            Some(until) => Wake::At(until),
            None => Wake::OnCommand,
        }
    }

    fn due() -> Option<Command> {
        Some(Command::Due)
    }

    fn lost(effect: &Never) -> Command {
        match *effect {}
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        Event::decode(kind, schema, payload)
    }
}

/// `None` when the event may not follow.
fn apply(state: &mut State, event: &Event) -> Option<()> {
    match event {
        Event::Set(set) => {
            (state.terms, state.until, state.warned) = (Some(set.terms.clone()), set.until, 0);
        }
        Event::Removed(_) => {
            state.terms.take()?;
            (state.until, state.spent, state.warned) = (None, Amount::default(), 0);
        }
        Event::Granted(granted) => {
            (!state.closed.contains(&granted.run)).then_some(())?;
            let &Granted { run, ask, amount } = granted;
            let before = state.slices.get(&run);
            before.is_none_or(|slice| slice.ask < ask).then_some(())?;
            let held = before.map_or(amount, |slice| slice.held.plus(amount));
            state.slices.insert(run, Slice { ask, held });
            state.held = state.held.plus(granted.amount);
        }
        Event::Returned(returned) => {
            // Of a run that asked and got no answer nothing is held; it is remembered, for its question may yet come.
            if let Some(slice) = state.slices.remove(&returned.run) {
                state.held = state.held.less(slice.held);
                state.spent = state.spent.plus(returned.used);
            }
            (!state.closed.contains(&returned.run)).then_some(())?;
            if state.closed.len() == REMEMBERED {
                state.closed.pop_front();
            }
            state.closed.push_back(returned.run);
        }
        Event::Crossed(crossed) => {
            (crossed.percent > state.warned).then_some(())?;
            state.warned = crossed.percent;
        }
        Event::Renewed(renewed) => {
            state.terms.as_ref()?;
            (state.until, state.spent, state.warned) = (renewed.until, Amount::default(), 0);
        }
        Event::Listed(listed) => state.scopes.insert(listed.scope).then_some(())?,
        Event::Unlisted(listed) => state.scopes.remove(&listed.scope).then_some(())?,
    }
    Some(())
}

#[cfg(test)]
mod tests;
