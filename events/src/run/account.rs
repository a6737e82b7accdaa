//! What a run's calls used and cost, who served them instead of whom, and when their cost is worth a word.

use super::step::OpenCall;
use super::{Event, State, step};
use crate::quantity::MicroUsd;
use crate::usage::{Billing, Total};
use serde::{Deserialize, Serialize};

/// The priced part of what a run cost has gone over the mark that was set for it. Said once; the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendCrossed {
    /// The mark.
    pub alert: MicroUsd,
    /// What it cost by then. Calls of unknown cost are not in it: they are neither zero nor over.
    pub spent: MicroUsd,
}

/// Counts a settled call, in the sum of all and in that of who was asked.
pub(super) fn count(state: &mut State, open: &OpenCall, add: impl Fn(&mut Total, Billing)) {
    let billing = step::candidate(state, open).map(|who| who.billing).unwrap_or_default();
    add(&mut state.total, billing);
    add(state.by_candidate.entry(open.asked.candidate).or_default(), billing);
}

/// The word about the cost, the first time that it is due: asked for after whatever may have cost something, an answer, a
/// failure or a call that was given up.
pub(super) fn word(state: &State) -> Vec<Event> {
    let crossed = || {
        let alert = state.spec.as_ref()?.limits.spend_alert?;
        let spent = state.total.cost?;
        let is_new = !state.spend_crossed && spent > alert;
        is_new.then_some(Event::SpendCrossed(SpendCrossed { alert, spent }))
    };
    crossed().into_iter().collect()
}

pub(super) fn on_crossed(state: &mut State, event: &SpendCrossed) -> Option<()> {
    let is_due = state.total.cost == Some(event.spent) && !state.spend_crossed;
    is_due.then(|| state.spend_crossed = true)
}
