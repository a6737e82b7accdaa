//! Model calls that never left: certain, free, and asked again. No budget, no try and no candidate is used up by one;
//! only its pace slows, so that a node that can send nothing does not fill its journal with intents.

use super::draw::{self, Took};
use super::step::{self, CallNo, OpenCall};
use super::{Command, Event, State, recovery};
use crate::leave::NotSent;
use crate::model_call;
use crate::quantity::Instant;
use crate::usage::Usage;
use serde::{Deserialize, Serialize};

/// The model was not asked: the call came too late to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelNotSent {
    /// Which wire call.
    pub call: CallNo,
    /// Why not.
    pub why: NotSent,
}

/// What the owner's node knows of the call in flight when its run is told to end; whoever says so need not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flight {
    /// It may have left; so much was reported of its usage so far.
    Left(Usage),
    /// It waited for its time, a place or a key, and was called off: nothing of it left, and nothing will.
    Stayed(CallNo),
}

impl Default for Flight {
    fn default() -> Self {
        Self::Left(Usage::default())
    }
}

impl Command {
    /// To end now.
    #[must_use]
    pub fn stop() -> Self {
        Self::Stop { seen: Flight::default() }
    }

    /// To end now, and to give the answer out no more.
    #[must_use]
    pub fn withhold() -> Self {
        Self::Withhold { seen: Flight::default() }
    }
}

/// Calls that were not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unsent {
    /// Of the whole run; they count against no budget.
    pub in_all: u32,
    /// Since the last one that was sent.
    pub in_a_row: u32,
}

/// It never left, so it was no try: the same candidate is asked again under a new number, without cost.
pub(super) fn not_sent(state: &State, open: &OpenCall, why: NotSent, now: Instant) -> Vec<Event> {
    let Some(spec) = &state.spec else { return vec![] };
    let (limits, before) = (&spec.limits.recovery, state.unsent.in_a_row);
    let not_before = model_call::again(before, limits, recovery::jitter(spec, open), now);
    let event = Event::ModelNotSent(ModelNotSent { call: open.asked.call, why });
    step::and_then(state, vec![event], |after| {
        let candidate = usize::try_from(open.asked.candidate).unwrap_or(usize::MAX);
        step::ask(after, candidate, not_before)
    })
}

/// Gives up the call in flight of a run that ends: what is known not to have left costs nothing.
pub(super) fn give_up(state: &State, flight: &Flight) -> Option<Event> {
    let open = state.model.as_ref()?.asked.call;
    match flight {
        Flight::Stayed(call) if *call == open => {
            Some(Event::ModelNotSent(ModelNotSent { call: open, why: NotSent::CalledOff }))
        }
        // Of another one: of this one nothing is known.
        Flight::Stayed(_) => step::give_up(state, &Usage::default()),
        Flight::Left(seen) => step::give_up(state, seen),
    }
}

pub(super) fn on_not_sent(state: &mut State, event: &ModelNotSent) -> Option<()> {
    let row = state.unsent.in_a_row;
    let open = step::take_open(state, event.call)?;
    draw::settle(state, &open, Took::Nothing);
    state.unsent.in_all = state.unsent.in_all.checked_add(1)?;
    state.unsent.in_a_row = row.saturating_add(1);
    Some(())
}
