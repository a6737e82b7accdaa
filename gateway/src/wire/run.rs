//! A run on the wire: its state as its owner knows it.

use super::{fact, time::rfc3339, usage};
use crate::front::asked::RESERVED;
use events::id::RunId;
use events::model_call::Class;
use events::quantity::Instant;
use events::run::State;
use events::run::halt::Halt;
use events::run::life::{Life, Outcome};
use events::run::served::ServedBy;
use events::run::spec::{Candidate, Plane, Spec};
use events::run::tried::Tried;
use events::run::{approval, mediated};
use events::usage::Total;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The state word of the API.
#[must_use]
pub fn status(state: &State) -> &'static str {
    match &state.life {
        Life::New | Life::Queued => "queued",
        Life::Running if state.halt.is_some() => state.halt.as_ref().map_or("running", Halt::word),
        Life::Running if approval::open(state).next().is_some() => "waiting_for_approval",
        Life::Running if state.held.is_some() => "waiting_for_client_tools",
        Life::Running if state.delayed.is_some() => "paused",
        Life::Running => "running",
        Life::Ended(end) => match end.outcome {
            Outcome::Completed => "completed",
            Outcome::Exhausted | Outcome::Errored => "failed",
            Outcome::Cancelled => "cancelled",
        },
    }
}

/// The text of the newest answer.
#[must_use]
pub fn output(state: &State) -> Option<String> {
    state.answer().and_then(|body| body.message().ok()).map(|message| message.plain())
}

/// What its calls used and cost, and the same by model, role and phase.
fn usages(state: &State) -> Value {
    let mut all = usage::total(&state.total);
    let Some((map, spec)) = all.as_object_mut().zip(state.spec.as_deref()) else { return all };
    let named = |name: String, total: &Total| {
        let mut sum = usage::total(total);
        if let Some(map) = sum.as_object_mut() {
            map.insert("name".to_owned(), Value::from(name));
        }
        sum
    };
    let by_model = state.by_candidate.iter().filter_map(|(place, total)| {
        let one = spec.route.get(usize::try_from(*place).ok()?)?;
        Some(named(format!("{}:{}", one.provider, one.model), total))
    });
    map.insert("by_model".to_owned(), by_model.collect());
    let by_role = vec![named(spec.role.to_string(), &state.total)];
    map.insert("by_role".to_owned(), Value::from(by_role));
    let by_phase = spec.phase.iter().map(|phase| named(phase.clone(), &state.total));
    map.insert("by_phase".to_owned(), by_phase.collect());
    all
}

/// What was tried in the current step and failed: all that the run remembers of it.
fn attempts(state: &State) -> Value {
    let one = |(tried, candidate): (&Tried, &Candidate)| {
        json!({
            "provider": candidate.provider,
            "model": candidate.model,
            "profile": tried.profile,
            "class": tried.class.map_or("lost", Class::name),
            "status": tried.status,
            "request_id": tried.request_id,
            "duration_ms": tried.took.map(|took| took.0),
            "wait_ms": tried.wait.map(|wait| wait.0),
        })
    };
    state.attempts().map(one).collect()
}

/// What the conversation that its model is sent is made of: while it runs before the next call, at the end after the last.
/// Tokens are estimates of four bytes each, of a synopsis the most that it may have.
pub(super) fn context(state: &State) -> Option<Value> {
    let sizes = state.context()?;
    let parts = sizes.parts().map(|(name, tokens)| (name.to_owned(), Value::from(tokens.0)));
    Some(json!({
        "phase": if state.ended().is_some() { "final" } else { "running" },
        "tokens": sizes.total().0,
        "trace_tokens": sizes.trace.0,
        "parts": serde_json::Map::from_iter(parts),
        "messages": sizes.messages,
        "messages_folded": sizes.folded,
    }))
}

/// The caller's own pairs: what a model API keeps beside them for itself is in the journal.
fn metadata(spec: &Spec) -> BTreeMap<&str, &str> {
    let theirs = |name: &str| spec.plane == Plane::Run || !name.starts_with(RESERVED);
    let pairs = spec.metadata.iter().filter(|(name, _)| theirs(name));
    pairs.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Who gave an answer: `provider:model`.
#[must_use]
pub fn name(by: &ServedBy) -> String {
    format!("{}:{}", by.provider, by.model)
}

/// Who was meant to give it, and why that one did not; nothing where the primary did.
#[must_use]
pub fn instead_of(by: &ServedBy) -> Option<Value> {
    let meant = by.instead_of.as_ref()?;
    let model = format!("{}:{}", meant.provider, meant.model);
    Some(json!({"model": model, "reason": meant.why.name()}))
}

/// What whoever reads a verdict should know of it.
#[must_use]
pub fn warning(by: &ServedBy) -> Option<String> {
    let why = format!(
        "the evaluator was served by {}, which also served the generator of this session (evaluator_independence = warn)",
        by.provider
    );
    by.judges_itself.then_some(why)
}

/// The run object.
#[must_use]
pub fn object(
    id: RunId,
    state: &State,
    created: Option<Instant>,
    finished: Option<Instant>,
) -> Value {
    let spec = state.spec.as_deref();
    let primary = spec.and_then(|spec| spec.route.first());
    let ended = state.ended();
    json!({
        "id": id.to_string(),
        "run_id": id.to_string(),
        "object": "run",
        "status": status(state),
        "outcome": ended.map(|end| fact::outcome(end.outcome)),
        "reason": ended.map(|end| fact::reason(&end.reason)),
        "class": ended.and_then(|end| fact::class(&end.reason)).map(Class::name),
        "detail": ended.map(|end| end.detail.as_str()).filter(|detail| !detail.is_empty()),
        "session_id": state.session.map(|session| session.to_string()),
        "project_id": spec.map(|spec| spec.project.as_str()),
        "role": spec.map(|spec| spec.role.as_str()),
        "phase": spec.and_then(|spec| spec.phase.as_deref()),
        "model": primary.map(|one| format!("{}:{}", one.provider, one.model)),
        "route_source": spec.map(|spec| spec.route_source.as_str()),
        "served_by": state.served_by.as_ref().map(name),
        "instead_of": state.served_by.as_ref().and_then(instead_of),
        "warning": state.served_by.as_ref().and_then(warning),
        "created_at": created.map(rfc3339),
        "finished_at": finished.map(rfc3339),
        "metadata": spec.map(metadata),
        "steps": state.step,
        "model_calls": state.model_calls(),
        "tool_calls": state.next_tool.0,
        "tool_calls_unknown": state.tools_unknown,
        "waiting_for": state.held.as_ref().map(|held| json!({"calls": held.calls, "until": rfc3339(held.until)})),
        "approvals": super::call::approvals_open(id, state),
        "paused": super::call::paused(state),
        "unresolved": mediated::unresolved(state).map(|one| super::call::invocation(id, one)),
        "tool_policy_revision": mediated::policy(state).revision,
        "budget_refusal": state.short.as_deref().map(super::budget::short),
        "output": output(state),
        "context": context(state),
        "usage": usages(state),
        "attempts": attempts(state),
    })
}
