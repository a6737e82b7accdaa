//! Which calls of an answer begin, and when. They wait in the model's order. What nobody has to agree to is intended at
//! once, all of it together; an invocation waits for the one before it; and once somebody has to agree to one of them, they
//! run one after the other. What is refused is refused before anybody is asked about it.

use super::ledger::{Ask, Call, Standing, ToolAsked, ToolRefused, ToolRepeated, Verdict};
use super::terms::Consent;
use super::{Event, State, approval, duplicate, mediated, owed};
use crate::quantity::Instant;

/// The calls of an answer that are not the caller's, all of them waiting.
pub(super) fn waiting(asks: &[Ask]) -> Vec<Call> {
    let ours = (0_u32..).zip(asks).filter(|(_, ask)| ask.verdict != Verdict::Client);
    let call = |(index, ask): (u32, &Ask)| Call {
        call: None,
        index,
        id: ask.id.clone(),
        name: ask.name.clone(),
        arguments: ask.arguments.clone(),
        verdict: ask.verdict.clone(),
        standing: Standing::Waiting,
    };
    ours.map(call).collect()
}

/// What can be done now about the calls that wait: each is intended, refused, asked about, or waits on.
pub(super) fn admit(state: &State, now: Instant) -> Vec<Event> {
    let (mut events, mut after) = (vec![], state.clone());
    // Each event takes one call out of those that wait.
    while let Some(event) = next(&after, now) {
        match super::fold(&after, std::slice::from_ref(&event)) {
            Ok(then) => after = then,
            Err(_) => return events,
        }
        events.push(event);
    }
    events
}

/// Whether the calls of this answer run one after the other.
fn is_serial(state: &State) -> bool {
    let asks = |one: &Call| {
        one.terms().is_some_and(|t| matches!(t.consent, Consent::Needed | Consent::Approved(_)))
    };
    state.tools.iter().any(asks)
}

fn next(state: &State, now: Instant) -> Option<Event> {
    if !owed::at_work(state) {
        return None;
    }
    let mut waiting: Vec<&Call> =
        state.tools.iter().filter(|one| one.standing == Standing::Waiting).collect();
    waiting.sort_by_key(|one| one.index);
    let refused = waiting.iter().find_map(|one| refusal(state, one).map(|why| refuse(one, why)));
    if refused.is_some() {
        return refused;
    }
    let repeated = waiting.iter().find_map(|one| repeated(state, one));
    if repeated.is_some() {
        return repeated;
    }
    let waiting: Vec<&Call> = waiting.into_iter().filter(|one| !is_twin(state, one)).collect();
    if is_serial(state) {
        let at_work =
            |one: &Call| matches!(one.standing, Standing::Open { .. } | Standing::Held(_));
        let first = waiting.first().filter(|_| !state.tools.iter().any(at_work))?;
        return start(state, first, now);
    }
    waiting.into_iter().find_map(|one| start(state, one, now))
}

/// The earlier call of the same answer that asks the same.
fn twin<'a>(state: &'a State, call: &Call) -> Option<&'a Call> {
    let same = |one: &&Call| {
        one.index < call.index && one.name == call.name && one.arguments == call.arguments
    };
    state.tools.iter().filter(|one| one.terms().is_some()).find(same)
}

/// Whether it waits for the outcome of one that asks the same.
fn is_twin(state: &State, call: &Call) -> bool {
    twin(state, call).is_some_and(Call::is_unsettled)
}

/// A call that was made before in this turn, or in this answer: its outcome stands.
fn repeated(state: &State, call: &Call) -> Option<Event> {
    call.terms()?;
    let told = |one: &Call| match &one.standing {
        Standing::Settled(content) => Some(content.clone()),
        Standing::Waiting | Standing::Held(_) | Standing::Open { .. } => None,
    };
    let content = match state.done.judge(&[(&call.name, &call.arguments)]).pop() {
        Some(duplicate::Verdict::Again(content)) => content,
        Some(duplicate::Verdict::New | duplicate::Verdict::Twin(_)) | None => {
            twin(state, call).and_then(told)?
        }
    };
    let (index, id, name) = (call.index, call.id.clone(), call.name.clone());
    Some(Event::ToolRepeated(ToolRepeated { index, id, name, content }))
}

/// Why a call is not run at all: known before anybody is asked about it.
fn refusal(state: &State, call: &Call) -> Option<String> {
    let most = state.spec.as_ref().map_or(0, |spec| spec.limits.calls_per_step_max);
    let terms = match &call.verdict {
        Verdict::Refused(content) => return Some(content.clone()),
        Verdict::Server(terms) => terms,
        Verdict::Client => return None,
    };
    if call.index >= most {
        let hint = format!("at most {most} calls of one answer run; this one was NOT executed");
        return Some(told("too_many_calls", &hint));
    }
    let builds_on = terms.mediated.is_some() || terms.writes();
    if builds_on && mediated::unresolved(state).is_some() {
        let hint = "the outcome of an earlier call is unknown and not settled, so this one was NOT executed";
        return Some(told("unresolved_invocation", hint));
    }
    let (limit, which) =
        terms.mediated.as_ref().and_then(|_| mediated::spent(state, &call.name))?;
    let hint = format!("the run's {which} of {limit} is used up, so the call was NOT executed");
    Some(told("tool_budget_exhausted", &hint))
}

fn told(error: &str, hint: &str) -> String {
    serde_json::json!({ "status": "error", "error": error, "hint": hint }).to_string()
}

fn refuse(call: &Call, content: String) -> Event {
    let (index, id, name) = (call.index, call.id.clone(), call.name.clone());
    Event::ToolRefused(ToolRefused { index, id, name, content })
}

/// Intends a call, or asks about it; `None` while it has to wait.
fn start(state: &State, call: &Call, now: Instant) -> Option<Event> {
    let mut terms = call.terms()?.clone();
    if terms.consent == Consent::Needed {
        match approval::covers(state, &call.name, &call.arguments) {
            Some(before) => terms.consent = Consent::Approved(before),
            None => return approval::ask(state, call, now),
        }
    }
    let waits = state.halt.is_some() || mediated::under_way(state);
    if terms.mediated.is_some() && waits {
        return None;
    }
    let subject = (call.name.as_str(), &call.arguments, &terms);
    let admission = mediated::admission(state, None, subject, now);
    Some(Event::ToolAsked(ToolAsked {
        call: state.next_tool,
        index: Some(call.index),
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        terms,
        admission,
    }))
}
