//! What stops a run between two calls without ending it: an outcome that nobody knows, or a provider that refuses.
//!
//! Nothing inside goes on from there. A person does (`run resume`), or a time that the provider named, or the policy that
//! the run was queued with.

use super::rejection::Rejection;
use super::{Event, Refusal, State, course, mediated, step};
use crate::quantity::Instant;
use crate::record::Actor;
use serde::{Deserialize, Serialize};

/// Why a run stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Halt {
    /// An invocation's outcome is unknown, or was until somebody settled it.
    Reconciliation,
    /// A provider refused.
    Paused(Paused),
}

impl Halt {
    /// The word for people and wires.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Reconciliation => "needs_reconciliation",
            Self::Paused(_) => "paused",
        }
    }
}

/// The stage is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// What the provider said.
    pub class: Rejection,
    /// When it goes on by itself; `None` when somebody has to say so.
    pub until: Option<Instant>,
}

/// It goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Who said so.
    pub by: Decider,
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decider {
    /// Whoever holds this key.
    Actor(Actor),
    /// The policy of this revision.
    Policy(u32),
    /// The time that was named has come.
    Time,
}

/// Goes on, once nothing is unresolved.
pub(super) fn resume(state: &State, by: Decider, now: Instant) -> Result<Vec<Event>, Refusal> {
    if state.halt.is_none() {
        return Err(Refusal::NotHalted);
    }
    if let Some(open) = mediated::unresolved(state) {
        return Err(Refusal::Unresolved(open.call));
    }
    let event = Event::Resumed(Resumed { by });
    Ok(step::and_then(state, vec![event], |after| course::go_on(after, now)))
}

/// When something happens by itself.
pub(super) fn wake(state: &State) -> Option<Instant> {
    match state.halt.as_ref()? {
        Halt::Paused(paused) => paused.until,
        Halt::Reconciliation => mediated::abandons_at(state),
    }
}

pub(super) fn due(state: &State, now: Instant) -> Vec<Event> {
    match &state.halt {
        Some(Halt::Paused(Paused { until: Some(until), .. })) if *until <= now => {
            resume(state, Decider::Time, now).unwrap_or_default()
        }
        Some(Halt::Reconciliation) => mediated::abandon_by_policy(state, now),
        Some(Halt::Paused(_)) | None => vec![],
    }
}

pub(super) fn on_paused(state: &mut State, event: &Paused) -> Option<()> {
    if state.halt.is_some() || !super::owed::at_work(state) {
        return None;
    }
    state.halt = Some(Halt::Paused(event.clone()));
    Some(())
}

pub(super) fn on_resumed(state: &mut State, _event: &Resumed) -> Option<()> {
    if mediated::unresolved(state).is_some() {
        return None;
    }
    state.halt.take()?;
    Some(())
}
