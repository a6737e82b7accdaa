//! What a run waits for from outside: today the results of the caller's own tools, later a person's approval. Its
//! deadline is the run's wake, so it passes while the run sleeps and while its node is down.

use super::ledger::{Ask, Verdict};
use super::life::{self, Outcome, Reason};
use super::{Event, Refusal, State, course, step};
use crate::message::Body;
use crate::quantity::Instant;
use serde::{Deserialize, Serialize};

/// The caller is asked to run tools of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientAsked {
    /// The provider's ids of the calls.
    pub calls: Vec<String>,
    /// The run ends if they are not answered by then.
    pub until: Instant,
}

/// The caller has run them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientAnswered {
    /// One tool message or more, answering every call.
    pub results: Vec<Body>,
}

/// The caller will not come back with them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientGone {
    /// The calls that stay unanswered.
    pub calls: Vec<String>,
}

/// What is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The provider's ids of the calls.
    pub calls: Vec<String>,
    /// Until then.
    pub until: Instant,
}

/// Whether the run is over because its caller goes on by itself: it has no session to come back to, or this run has no
/// step left for what it would bring.
pub(super) fn hands_over(state: &State, asks: &[Ask]) -> bool {
    let no_more = state.spec.as_ref().is_some_and(|spec| state.step >= spec.limits.steps_max);
    let alone = state.session.is_none();
    (alone || no_more) && asks.iter().any(|ask| ask.verdict == Verdict::Client)
}

/// Holds the run until the caller comes back with the results of its own tools.
pub(super) fn ask(state: &State, asks: &[Ask], now: Instant) -> Option<Event> {
    let calls: Vec<String> = asks
        .iter()
        .filter(|ask| ask.verdict == Verdict::Client)
        .map(|ask| ask.id.clone())
        .collect();
    let spec = state.spec.as_ref().filter(|_| !calls.is_empty())?;
    Some(Event::ClientAsked(ClientAsked { calls, until: now.after(spec.limits.client_wait) }))
}

pub(super) fn answer(state: &State, results: &[Body], now: Instant) -> Result<Vec<Event>, Refusal> {
    let Some(held) = &state.held else { return Err(Refusal::NothingHeld) };
    let answered: Vec<String> = results
        .iter()
        .filter_map(|body| body.message().ok())
        .flat_map(|message| message.results().map(|result| result.call.clone()).collect::<Vec<_>>())
        .collect();
    if let Some(missing) = held.calls.iter().find(|call| !answered.contains(call)) {
        return Err(Refusal::ResultMissing(missing.clone()));
    }
    if let Some(stray) = answered.iter().find(|call| !held.calls.contains(call)) {
        return Err(Refusal::ResultStray(stray.clone()));
    }
    let event = Event::ClientAnswered(ClientAnswered { results: results.to_vec() });
    Ok(step::and_then(state, vec![event], |after| course::go_on(after, now)))
}

pub(super) fn gone(state: &State) -> Vec<Event> {
    match &state.held {
        None => vec![],
        Some(held) => {
            let detail =
                format!("{} calls of the caller's tools stayed unanswered", held.calls.len());
            life::close(state, Outcome::Errored, Reason::ClientToolGone, detail)
        }
    }
}

pub(super) fn due(state: &State, now: Instant) -> Vec<Event> {
    match &state.held {
        Some(held) if held.until <= now => gone(state),
        Some(_) | None => vec![],
    }
}

pub(super) fn give_up(state: &State) -> Option<Event> {
    state.held.as_ref().map(|held| Event::ClientGone(ClientGone { calls: held.calls.clone() }))
}

pub(super) fn on_asked(state: &mut State, event: &ClientAsked) -> Option<()> {
    if state.held.is_some() || !state.between_steps || !super::owed::at_work(state) {
        return None;
    }
    state.held = Some(Held { calls: event.calls.clone(), until: event.until });
    Some(())
}

pub(super) fn on_answered(state: &mut State, event: &ClientAnswered) -> Option<()> {
    state.held.take()?;
    state.answers.extend(event.results.iter().cloned());
    Some(())
}

pub(super) fn on_gone(state: &mut State, _event: &ClientGone) -> Option<()> {
    state.held.take()?;
    Some(())
}
