//! What a run's calls used and cost, who served them instead of whom, and when their cost is worth a word.

use super::spec::{Candidate, Spec, Unfit};
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

/// The word about the cost, the first time that it is due.
pub(super) fn crossed(state: &State) -> Option<Event> {
    let alert = state.spec.as_ref()?.limits.spend_alert?;
    let spent = state.total.cost?;
    let is_new = !state.spend_crossed && spent > alert;
    is_new.then_some(Event::SpendCrossed(SpendCrossed { alert, spent }))
}

pub(super) fn on_crossed(state: &mut State, event: &SpendCrossed) -> Option<()> {
    let is_due = state.total.cost == Some(event.spent) && !state.spend_crossed;
    is_due.then(|| state.spend_crossed = true)
}

/// That a call was served by another model than the one that was meant to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallback<'a> {
    /// Provider and model that were meant to serve.
    pub primary: (&'a str, &'a str),
    /// Who served.
    pub by: &'a Candidate,
    /// Why: `call_failed`, `model_mismatch` or `capability_unsupported`.
    pub reason: &'static str,
}

/// What is said of a primary that was asked and did not answer.
const CALL_FAILED: &str = "call_failed";

impl Spec {
    /// Whether an answer of this candidate of the route, by its place, came from another than the primary.
    #[must_use]
    pub fn fallback(&self, candidate: u32) -> Option<Fallback<'_>> {
        let by = self.route.get(usize::try_from(candidate).ok()?)?;
        if let Some(dropped) = self.dropped.first() {
            let primary = (dropped.provider.as_str(), dropped.model.as_str());
            return Some(Fallback { primary, by, reason: Unfit::name(dropped.unfit) });
        }
        let first = self.route.first().filter(|_| candidate > 0)?;
        let primary = (first.provider.as_str(), first.model.as_str());
        Some(Fallback { primary, by, reason: CALL_FAILED })
    }
}
