//! Where a run goes from here: the one place that every settled call, answer and decision comes back to.

use super::life::{self, Outcome, Reason};
use super::step::{Stop, and_then, ask};
use super::{Event, State, admit, ledger, owed};
use crate::quantity::Instant;

/// The next step of a run in which nothing is open.
pub(super) fn advance(state: &State, now: Instant) -> Vec<Event> {
    let Some(spec) = &state.spec else { return vec![] };
    if state.step >= spec.limits.steps_max {
        let detail = format!("{} steps were taken", state.step);
        return life::close(state, Outcome::Exhausted, Reason::StepLimit, detail);
    }
    ask(state, 0, now)
}

/// Goes on after something settled: with the calls that wait, and once none is left with the model, or with the end.
pub(super) fn go_on(state: &State, now: Instant) -> Vec<Event> {
    let admitted = admit::admit(state, now);
    and_then(state, admitted, |after| {
        if owed::busy(after) || !owed::at_work(after) {
            return vec![];
        }
        match (&after.delayed, after.between_steps) {
            // Nothing is delivered over a call whose outcome is still to come.
            _ if after.concluded && ledger::open(after).next().is_some() => vec![],
            _ if after.concluded => conclude(after),
            (_, true) => advance(after, now),
            (Some(delayed), false) if delayed.until > now => vec![],
            (Some(delayed), false) => {
                ask(after, usize::try_from(delayed.candidate).unwrap_or(usize::MAX), now)
            }
            // A halt came between a try and the next one.
            (None, false) => ask(after, after.attempts.candidate, now),
        }
    })
}

/// The model has said its last word.
fn conclude(state: &State) -> Vec<Event> {
    let reason = match state.stop {
        Some(Stop::End | Stop::ToolCalls) | None => Reason::Answered,
        Some(Stop::Length) => Reason::Length,
        Some(Stop::ContentFilter) => Reason::ContentFilter,
    };
    life::close(state, Outcome::Completed, reason, String::new())
}
