//! A run's invocations: listed, made from outside, given up, and the run resumed.

use super::{object, observe, run_id};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::Json as Body;
use crate::wire::call::{self, correlation_id};
use actors::order::Lane;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use events::id::RunId;
use events::run::mediated::{Invocation, Invoke, invocation_id, policy};
use events::run::spec::Plane;
use events::run::{Command, Run, State as Folded};
use serde::Deserialize;
use serde_json::{Value, json};

/// The body of a call from outside.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The model-facing name.
    tool: String,
    /// Its arguments; an object.
    arguments: Value,
    /// 32 lowercase hexadecimal digits; the same one again is the same call.
    correlation_id: String,
}

/// The body of a decision.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// 32 lowercase hexadecimal digits that name it.
    request_id: String,
}

fn hexadecimal(field: &'static str, text: &str) -> Result<u128, ApiError> {
    let is_id =
        text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(text, 16).ok().filter(|_| is_id).ok_or_else(|| {
        let why = format!("{field}: give 32 lowercase hexadecimal digits");
        ApiError::new(Code::InvalidRequest, why).param(field)
    })
}

/// The invocation that an id names: its own (`inv_…`) or its correlation id.
fn find<'a>(run: RunId, state: &'a Folded, id: &str) -> Option<&'a Invocation> {
    let named = |one: &&Invocation| {
        let correlation = correlation_id(run, one.call, one.admission.correlation);
        id == format!("{correlation:032x}") || id == invocation_id(run.unique(), correlation)
    };
    state.invocations.iter().find(named)
}

fn found<'a>(run: RunId, state: &'a Folded, id: &str) -> Result<&'a Invocation, ApiError> {
    find(run, state, id).ok_or_else(|| {
        let short: String = id.chars().take(80).collect();
        ApiError::new(Code::NotFound, format!("run {run} has no invocation {short}"))
    })
}

/// What a run's calls through the broker came to, and what is left of its budget.
///
/// # Errors
///
/// 400 for a malformed id, 404 for an unknown run.
pub async fn list(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let run = run_id(&id)?;
    let state = observe(&app, run).await?.state;
    let policy = policy(&state);
    let all: Vec<Value> = state.invocations.iter().map(|one| call::invocation(run, one)).collect();
    let used = u32::try_from(all.len()).unwrap_or(u32::MAX);
    Ok(Json(json!({
        "object": "list",
        "count": all.len(),
        "policy_revision": policy.revision,
        "calls_limit": policy.policy.calls_limit,
        "calls_left": policy.policy.calls_limit.saturating_sub(used),
        "data": all,
    })))
}

/// Makes a call in the run's name, or says what came of it before.
///
/// # Errors
///
/// 400 for arguments that do not fit, 404 for an unknown run or tool, 409 for an id that was used for another input, while
/// an outcome is unknown or an invocation is under way, and when the budget is used up.
pub async fn invoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(asked): Body<Asked>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let run = run_id(&id)?;
    let correlation = hexadecimal("correlation_id", &asked.correlation_id)?;
    let state = observe(&app, run).await?.state;
    let Some(spec) = state.spec.as_ref().filter(|spec| spec.plane == Plane::Run) else {
        let why = "only a run of the runs API takes calls from outside".to_owned();
        return Err(ApiError::new(Code::InvalidRequest, why).run(run));
    };
    if let Some(own) = find(run, &state, &asked.correlation_id).filter(|one| one.is_models) {
        let same = own.name == asked.tool
            && serde_json::from_slice(own.arguments.as_bytes()).ok().as_ref()
                == Some(&asked.arguments);
        let stored = || Ok((StatusCode::OK, Json(call::invocation(run, own))));
        return if same { stored() } else { Err(events::run::Refusal::OtherInvocation.into()) };
    }
    let judged = app.judge.judge(run, spec, (&asked.tool, &asked.arguments.to_string())).await;
    let admitted =
        judged.map_err(|refused| ApiError::new(Code::InvalidRequest, refused.told).run(run))?;
    let (arguments, terms) = (admitted.arguments, admitted.terms);
    let command =
        Command::Invoke(Box::new(Invoke { correlation, name: asked.tool, arguments, terms }));
    let order = app.order(command, caller.actor, Lane::Data);
    let observed = app.decide::<Run>(run, order).await?;
    let one = found(run, &observed.state, &asked.correlation_id)?;
    Ok((StatusCode::ACCEPTED, Json(call::invocation(run, one))))
}

/// Gives up an invocation whose outcome is unknown: nothing is sent, and no budget comes back.
///
/// # Errors
///
/// 400 for a malformed id, 404 for an unknown one, 409 before the lease has ended, for an invocation that is settled, and
/// for an id that named another decision.
pub async fn reconcile(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, invocation)): Path<(String, String)>,
    Body(decision): Body<Decision>,
) -> Result<Json<Value>, ApiError> {
    let run = run_id(&id)?;
    hexadecimal("request_id", &decision.request_id)?;
    let state = observe(&app, run).await?.state;
    let call = found(run, &state, &invocation)?.call;
    let command = Command::Abandon { call, request: decision.request_id, by: caller.actor };
    let order = app.order(command, caller.actor, Lane::Control);
    let observed = app.decide::<Run>(run, order).await?;
    Ok(Json(call::invocation(run, found(run, &observed.state, &invocation)?)))
}

/// Lets a halted run go on.
///
/// # Errors
///
/// 400 for a malformed id, 404 for an unknown run, 409 while an outcome is unknown or the run is not halted.
pub async fn resume(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let run = run_id(&id)?;
    observe(&app, run).await?;
    let order = app.order(Command::Resume { by: caller.actor }, caller.actor, Lane::Control);
    let observed = app.decide::<Run>(run, order).await?;
    Ok(Json(object(&app, run, &observed).await?))
}
