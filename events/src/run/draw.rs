//! What a run draws on: its slices of the budgets that count it. A slice is asked for before the intent that needs it,
//! narrow to wide; the intent draws its worst case on all of them in its own commit.
//!
//! Settled by what was used, released when nothing left, kept as spent when nobody knows. The budgets learn of it when
//! the run has ended: only then, and only from here, is a slice closed.

use super::spec::{Candidate, Spec};
use super::step::{self, Charge, OpenCall};
use super::{Event, Refusal, State, life, owed};
use crate::budget::{Amount, Scope, Short};
use crate::quantity::{Instant, MicroUsd};
use crate::usage::{Billing, Usage};
use life::{Life, Outcome, Reason};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Numbers the questions of a run to its budgets, from 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct SliceNo(pub u32);

/// More of a budget is asked for; the call that needs it waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceAsked {
    /// Which question.
    pub ask: SliceNo,
    /// Which budget.
    pub scope: Scope,
    /// How much money is missing; none for a model without a price.
    pub usd: Option<MicroUsd>,
    /// How many calls are missing.
    pub calls: u64,
    /// Which candidate is to be asked with it.
    pub candidate: u32,
    /// Not before then.
    pub not_before: Instant,
}

/// The run holds what it asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceGranted {
    /// Which question.
    pub ask: SliceNo,
}

/// It does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceRefused {
    /// Which question.
    pub ask: SliceNo,
    /// What the budget said, where it said it.
    pub short: Option<Box<Short>>,
}

/// A budget has taken its slice back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceReturned {
    /// Which budget.
    pub scope: Scope,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settled {
    /// The run holds it.
    Granted,
    /// It does not fit.
    Refused(Box<Short>),
    /// Nobody who could say was reached in time; what for is in the words.
    Unreached,
    /// The task that asked died without a word: it is asked again, under the same number.
    Lost,
}

/// A run's part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slice {
    /// What was granted.
    pub granted: Amount,
    /// What settled calls used of it.
    pub used: Amount,
    /// What the open call may use of it.
    pub drawn: Amount,
    /// Whether its budget lets models without a price be asked.
    pub takes_unpriced: bool,
}

impl Slice {
    /// What another call may draw.
    #[must_use]
    pub fn room(&self) -> Amount {
        self.granted.less(self.used.plus(self.drawn))
    }
}

/// The most that a call can take of each budget; `None` for a model without a price.
fn worst(who: &Candidate, reserved: Option<MicroUsd>) -> Option<MicroUsd> {
    match (reserved, who.billing) {
        (Some(reserved), _) => Some(reserved),
        // Spends no money.
        (None, Billing::Subscription) => Some(MicroUsd(0)),
        (None, Billing::Metered) => None,
    }
}

const fn amount(reserved: Option<MicroUsd>) -> Amount {
    let usd = match reserved {
        Some(reserved) => reserved,
        None => MicroUsd(0),
    };
    Amount { usd, calls: 1 }
}

/// The question that comes before the intent, when a slice is too small for it.
pub(super) fn short(
    state: &State,
    spec: &Spec,
    (candidate, who): (usize, &Candidate),
    reserved: Option<MicroUsd>,
    not_before: Instant,
) -> Option<Event> {
    let (needed, worst) = (amount(reserved), worst(who, reserved));
    let fits =
        |slice: &Slice| needed.fits(slice.room()) && (worst.is_some() || slice.takes_unpriced);
    let lacks = |scope: &&Scope| !state.slices.get(scope).is_some_and(fits);
    let scope = *spec.budgets.iter().find(lacks)?;
    // What was used beyond the slice is asked for too: it is spent, and the budget has to know.
    let held = state.slices.get(&scope).copied().unwrap_or_default();
    let missing = needed.plus(held.used.plus(held.drawn)).less(held.granted);
    Some(Event::SliceAsked(SliceAsked {
        ask: SliceNo(state.next_slice.0.saturating_add(1)),
        scope,
        usd: worst.map(|_priced| missing.usd),
        calls: missing.calls,
        candidate: u32::try_from(candidate).unwrap_or(u32::MAX),
        not_before,
    }))
}

pub(super) fn settled(
    state: &State,
    ask: SliceNo,
    outcome: &Settled,
) -> Result<Vec<Event>, Refusal> {
    let Some(open) = state.asking.as_ref().filter(|open| open.ask == ask) else {
        return if ask <= state.next_slice { Ok(vec![]) } else { Err(Refusal::NoSuchSlice(ask)) };
    };
    let refused = |short: Option<Box<Short>>, outcome, detail| {
        let event = Event::SliceRefused(SliceRefused { ask, short });
        step::and_then(state, vec![event], |after| {
            life::close(after, outcome, Reason::Budget, detail)
        })
    };
    Ok(match outcome {
        Settled::Granted => {
            let event = Event::SliceGranted(SliceGranted { ask });
            let candidate = usize::try_from(open.candidate).unwrap_or(usize::MAX);
            let not_before = open.not_before;
            step::and_then(state, vec![event], |after| step::ask(after, candidate, not_before))
        }
        Settled::Refused(short) => {
            refused(Some(short.clone()), Outcome::Exhausted, short.to_string())
        }
        Settled::Unreached => {
            let detail = format!("the owner of budget {} could not be asked in time", open.scope);
            refused(None, Outcome::Errored, detail)
        }
        Settled::Lost => vec![],
    })
}

pub(super) fn returned(state: &State, scope: Scope) -> Vec<Event> {
    let ended = matches!(state.life, Life::Ended(_));
    if ended && state.slices.contains_key(&scope) {
        vec![Event::SliceReturned(SliceReturned { scope })]
    } else {
        vec![]
    }
}

/// What the budgets are owed by a run that has ended: each slice, with what was used of it.
pub(super) fn owed(state: &State) -> impl Iterator<Item = (Scope, Amount)> {
    let ended = matches!(state.life, Life::Ended(_));
    let owed = move |(scope, slice): (&Scope, &Slice)| ended.then_some((*scope, slice.used));
    state.slices.iter().filter_map(owed)
}

pub(super) fn on_asked(state: &mut State, event: &SliceAsked) -> Option<()> {
    let running = matches!(state.life, Life::Running);
    let next = SliceNo(state.next_slice.0.checked_add(1)?);
    if !running || owed::busy(state) || event.ask != next {
        return None;
    }
    state.next_slice = next;
    // The wait for a time, if there was one, is over.
    state.delayed = None;
    state.asking = Some(event.clone());
    Some(())
}

pub(super) fn on_granted(state: &mut State, event: &SliceGranted) -> Option<()> {
    let asked = state.asking.take_if(|open| open.ask == event.ask)?;
    let more = Amount { usd: asked.usd.unwrap_or_default(), calls: asked.calls };
    let slice = state.slices.entry(asked.scope).or_default();
    slice.granted = slice.granted.plus(more);
    slice.takes_unpriced |= asked.usd.is_none();
    Some(())
}

pub(super) fn on_refused(state: &mut State, event: &SliceRefused) -> Option<()> {
    let asked = state.asking.take_if(|open| open.ask == event.ask)?;
    match &event.short {
        Some(short) => state.short = Some(short.clone()),
        // It may have been granted all the same: it is given back.
        None => {
            state.slices.entry(asked.scope).or_default();
        }
    }
    Some(())
}

pub(super) fn on_returned(state: &mut State, event: &SliceReturned) -> Option<()> {
    matches!(state.life, Life::Ended(_)).then_some(())?;
    state.slices.remove(&event.scope).map(drop)
}

/// An open question of a run that ends may have been granted, or may yet be: its slice is given back too.
pub(super) fn on_finished(state: &mut State) {
    if let Some(asked) = state.asking.take() {
        state.slices.entry(asked.scope).or_default();
    }
}

/// The intent draws its worst case; `None` when a slice has no room for it.
pub(super) fn on_intent(state: &mut State, reserved: Option<MicroUsd>) -> Option<()> {
    let needed = amount(reserved);
    let spec = Arc::clone(state.spec.as_ref()?);
    for scope in &spec.budgets {
        let slice = state.slices.get_mut(scope).filter(|slice| needed.fits(slice.room()))?;
        slice.drawn = slice.drawn.plus(needed);
    }
    Some(())
}

/// What a settled call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Took {
    /// Nothing: it is proven that nothing was worked on.
    Nothing,
    /// This much.
    Cost(Option<MicroUsd>),
    /// Nobody knows: all that it drew, or what was reported so far where that is more.
    Worst(Option<MicroUsd>),
}

impl Took {
    /// What a failed call took, of whose usage this was reported.
    pub(super) const fn failed(charge: Charge, partial: &Usage) -> Self {
        match charge {
            Charge::Nothing => Self::Nothing,
            Charge::Reserved => Self::Worst(partial.cost),
        }
    }
}

pub(super) fn settle(state: &mut State, open: &OpenCall, took: Took) {
    let drawn = amount(open.asked.reserved);
    let subscribed =
        step::candidate(state, open).is_some_and(|who| who.billing == Billing::Subscription);
    let used = match took {
        Took::Nothing => Amount::default(),
        Took::Cost(_) if subscribed && open.asked.reserved.is_none() => amount(None),
        Took::Cost(Some(cost)) => amount(Some(cost)),
        Took::Cost(None) => drawn,
        Took::Worst(seen) => Amount { usd: drawn.usd.max(seen.unwrap_or_default()), ..drawn },
    };
    for slice in state.slices.values_mut() {
        slice.drawn = slice.drawn.less(drawn);
        slice.used = slice.used.plus(used);
    }
}
