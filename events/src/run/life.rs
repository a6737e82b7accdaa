//! A run's life: queued, running, ended. What has ended owes nothing and takes no more commands but repeats.

use super::spec::Spec;
use super::unsent::{self, Flight};
use super::{
    Command, Event, Grant, Refusal, State, account, approval, course, draw, hold, ledger, mediated,
    step,
};
use crate::id::SessionId;
use crate::message::{Body, Role};
use crate::model_call::Class;
use crate::quantity::Instant;
use crate::record::Hash;
use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Names a message of the session's history without carrying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRef {
    /// SHA-256 of its stored bytes.
    pub hash: Hash,
    /// Its size, for reservations.
    pub bytes: u64,
    /// Who speaks, so that a conversation is folded between exchanges and never within one.
    pub role: Role,
}

impl From<&Body> for MessageRef {
    fn from(body: &Body) -> Self {
        let bytes = u64::try_from(body.json().as_bytes().len()).unwrap_or(u64::MAX);
        Self { hash: body.hash(), bytes, role: body.speaker() }
    }
}

/// Counts the locks of a session; the end of a run is taken only under its own.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Fence(pub u64);

/// The run exists, with everything it was asked frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// What it was asked.
    pub spec: Arc<Spec>,
    /// The conversation it belongs to; `None` for one that stands alone.
    pub session: Option<SessionId>,
}

/// It may begin: the session's lock is its own, and this is what was said before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The lock; `None` without a session.
    pub fence: Option<Fence>,
    /// The session's messages, by name.
    pub history: Vec<MessageRef>,
    /// The provider that last served the session's generator.
    pub generated_by: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It has its answer.
    Completed,
    /// A bound was reached first.
    Exhausted,
    /// It could not go on.
    Errored,
    /// Somebody stopped it.
    Cancelled,
}

/// Why it ended so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The model finished its answer.
    Answered,
    /// The model wants tools of the caller, who goes on in a request of its own.
    ToolCalls,
    /// The answer reached its token limit.
    Length,
    /// The provider cut the answer for its content.
    ContentFilter,
    /// More steps than allowed.
    StepLimit,
    /// The next call could cost more than is left, or is one more than allowed.
    Budget,
    /// A model call failed with this class and nothing was left to try.
    ModelFailed(Class),
    /// Model calls were lost too often.
    ModelUnknown,
    /// The caller did not come back with the results of its own tools.
    ClientToolGone,
    /// It was told to stop.
    Stopped,
    /// An evaluator has nobody left to ask but whom it judges.
    NotIndependent,
    /// What is to be said is longer than anybody of the route reads, and no fold makes it fit; the class it was refused as.
    ContextUnfit(Class),
}

/// The end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// How.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// For people: the failure's words, without secrets.
    pub detail: String,
    /// The lock it ran under.
    pub fence: Option<Fence>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Life {
    /// Its stream is empty.
    #[default]
    New,
    /// It waits for the session's lock.
    Queued,
    /// It is at work, waits for a time, or is held for the caller.
    Running,
    /// It is over.
    Ended(Finished),
}

pub(super) fn open(
    state: &State,
    spec: &Arc<Spec>,
    session: Option<SessionId>,
    grant: Option<&Grant>,
    now: Instant,
) -> Result<Vec<Event>, Refusal> {
    if let Some(frozen) = &state.spec
        && frozen.input_hash != spec.input_hash
    {
        return Err(Refusal::OtherInput);
    }
    let started = || {
        Event::Started(Started {
            fence: grant.map(|grant| grant.fence),
            history: grant.map(|grant| grant.history.clone()).unwrap_or_default(),
            generated_by: grant.and_then(|grant| grant.generated_by.clone()),
        })
    };
    let may_start = session.is_none() || grant.is_some();
    let mut events = vec![];
    match (&state.life, may_start) {
        (Life::New, _) => {
            events.push(Event::Queued(Queued { spec: Arc::clone(spec), session }));
            if may_start {
                events.push(started());
            }
        }
        (Life::Queued, true) => events.push(started()),
        (Life::Queued, false) | (Life::Running | Life::Ended(_), _) => return Ok(vec![]),
    }
    Ok(if may_start {
        step::and_then(state, events, |after| course::advance(after, now))
    } else {
        events
    })
}

pub(super) fn stop(state: &State, flight: &Flight) -> Vec<Event> {
    match &state.life {
        Life::New | Life::Ended(_) => vec![],
        Life::Queued | Life::Running => {
            let given_up = unsent::give_up(state, flight).into_iter().collect();
            let events = step::and_then(state, given_up, account::word);
            step::and_then(state, events, |after| {
                close(after, Outcome::Cancelled, Reason::Stopped, String::new())
            })
        }
    }
}

/// Ends the run and, in the same commit, everything that is still open.
pub(super) fn close(state: &State, outcome: Outcome, reason: Reason, detail: String) -> Vec<Event> {
    let mut events = vec![];
    events.extend(step::give_up(state, &Usage::default()));
    events.extend(ledger::give_up(state));
    events.extend(hold::give_up(state));
    events.extend(approval::give_up(state));
    let fence = state.fence;
    events.push(Event::Finished(Finished { outcome, reason, detail, fence }));
    events
}

pub(super) fn queued(state: &mut State, event: &Queued) -> Option<()> {
    if state.life != Life::New {
        return None;
    }
    state.spec = Some(Arc::clone(&event.spec));
    state.session = event.session;
    state.life = Life::Queued;
    Some(())
}

pub(super) fn started(state: &mut State, event: &Started) -> Option<()> {
    if state.life != Life::Queued || event.fence.is_some() != state.session.is_some() {
        return None;
    }
    state.fence = event.fence;
    state.history = event.history.clone().into();
    state.generated_by.clone_from(&event.generated_by);
    state.transcript = state.spec.as_ref().map(|spec| spec.input.clone()).unwrap_or_default();
    state.life = Life::Running;
    state.between_steps = true;
    Some(())
}

pub(super) fn finished(state: &mut State, event: &Finished) -> Option<()> {
    let open = state.model.is_some()
        || state.held.is_some()
        || ledger::open(state).next().is_some()
        || approval::open(state).next().is_some();
    let alive = matches!(state.life, Life::Queued | Life::Running);
    // What builds on an outcome that nobody knows is not delivered.
    let delivers = event.outcome == Outcome::Completed;
    let blocked = delivers && (state.halt.is_some() || mediated::unresolved(state).is_some());
    if !alive || open || blocked || event.fence != state.fence {
        return None;
    }
    state.delayed = None;
    state.halt = None;
    state.tools.clear();
    draw::on_finished(state);
    state.life = Life::Ended(event.clone());
    Some(())
}

/// The refusal that every command but a repeat gets from a run that is not at work.
pub(super) fn must_run(state: &State, command: &Command) -> Result<(), Refusal> {
    match (&state.life, command) {
        (Life::Running, _)
        | (Life::Queued | Life::Ended(_), Command::Withhold { .. })
        // What is unknown stays to be settled, and an answer that was given before stays given.
        | (Life::Ended(_), Command::Abandon { .. } | Command::Approval { .. })
        | (
            _,
            Command::Open { .. } | Command::Stop { .. } | Command::Due | Command::Returned { .. },
        ) => Ok(()),
        (Life::New, _) => Err(Refusal::NoSuchRun),
        (Life::Queued, _) => Err(Refusal::NotStarted),
        (Life::Ended(_), _) => Err(Refusal::Ended),
    }
}
