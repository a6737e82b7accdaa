//! Holds: listed, shown, and answered through any node.

use super::runs::{observe, run_id};
use crate::app::App;
use crate::auth::role::may;
use crate::auth::{Caller, Right};
use crate::error::{ApiError, Code};
use crate::extract::{Json as Body, Query};
use crate::wire::{call, inbox};
use actors::order::Lane;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use events::grant::Pattern;
use events::id::RunId;
use events::record::Hash;
use events::run::approval::{Answer, Approval, ApprovalNo, Edited, Reach, Resolution};
use events::run::{Command, Run, State as Folded};
use serde::Deserialize;
use serde_json::Value;

/// Rows of a page where the caller does not say, and at most.
const PAGE: (u16, u16) = (50, 200);
/// Bytes of an approver's words.
const REASON_MAX: usize = 2_000;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/approvals", get(list))
        .route("/v1/tools/invocations", get(invocations))
        .route("/v1/approvals/{id}", get(show))
        .route("/v1/approvals/{id}/approve", post(approve))
        .route("/v1/approvals/{id}/deny", post(deny))
}

/// The body of an approval.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approving {
    /// How far it reaches: `call` (default) or `run`.
    #[serde(default)]
    reach: Far,
    /// Other arguments; checked again.
    arguments: Option<Value>,
    /// What the approver saw: the `subject` of the hold.
    subject: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Far {
    #[default]
    Call,
    Run,
}

/// The body of a denial.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denying {
    /// Why; the model is told.
    #[serde(default)]
    reason: String,
    /// What the approver saw.
    subject: Option<String>,
}

fn bad(why: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidRequest, why.into())
}

/// `<run>.<n>`.
fn approval_id(text: &str) -> Result<(RunId, ApprovalNo), ApiError> {
    let parts = text.rsplit_once('.');
    let (run, number) =
        parts.ok_or_else(|| bad("an approval is named by its run and its number: run_….0"))?;
    let number = number.parse().map_err(|_| bad(format!("{number:?} numbers no approval")))?;
    Ok((run_id(run)?, ApprovalNo(number)))
}

fn subject(text: Option<&str>) -> Result<Option<Hash>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || bad("subject: give the 64 hexadecimal digits that the hold shows");
    if text.len() != 64 || !text.is_ascii() {
        return Err(wrong());
    }
    let mut hash = [0_u8; 32];
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(Some(Hash(hash)))
}

fn found(state: &Folded, run: RunId, number: ApprovalNo) -> Result<&Approval, ApiError> {
    let held = state.approvals.iter().find(|one| one.asked.approval == number);
    held.ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("run {run} holds nothing under {}", number.0))
    })
}

/// What a caller of a list may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    status: Option<String>,
    state: Option<String>,
    project: Option<String>,
    limit: Option<u16>,
    after: Option<String>,
}

impl Filter {
    fn limit(&self) -> u16 {
        let (usual, most) = PAGE;
        self.limit.unwrap_or(usual).clamp(1, most)
    }
}

/// The holds of every run, the newest first.
///
/// # Errors
///
/// 400 for a filter that means nothing; 503 while the read model can not be read.
pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    if filter.state.is_some() {
        return Err(bad("state: a hold has a status: give status=waiting").param("state"));
    }
    if may(caller.role, Right::HoldAnswer) {
        app.approvers.looked(app.clock().now());
    }
    let asked = inbox::approvals_filter(
        filter.status.as_deref(),
        filter.project.as_deref(),
        filter.limit(),
        filter.after.as_deref(),
    );
    Ok(Json(inbox::approvals(&app.projections.approvals(asked.map_err(bad)?).await?)))
}

/// The invocations of every run, the newest first.
///
/// # Errors
///
/// 400 for a filter that means nothing; 503 while the read model can not be read.
pub async fn invocations(
    State(app): State<App>,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    if filter.status.is_some() {
        return Err(bad("status: an invocation has a state: give state=unknown").param("status"));
    }
    let asked = inbox::invocations_filter(
        filter.state.as_deref(),
        filter.project.as_deref(),
        filter.limit(),
        filter.after.as_deref(),
    );
    Ok(Json(inbox::invocations(&app.projections.invocations(asked.map_err(bad)?).await?)))
}

/// Shows a hold.
///
/// # Errors
///
/// 400 for a malformed id, 404 for an unknown one.
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let (run, number) = approval_id(&id)?;
    let state = observe(&app, run).await?.state;
    Ok(Json(call::approval(run, &state, found(&state, run, number)?)))
}

/// Agrees to a call, perhaps with other arguments, perhaps for the rest of the run.
///
/// # Errors
///
/// 400 for arguments that do not fit, 404 for an unknown hold, 409 when it was answered otherwise or its run has ended.
pub async fn approve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(asked): Body<Approving>,
) -> Result<Json<Value>, ApiError> {
    let (run, number) = approval_id(&id)?;
    let seen = subject(asked.subject.as_deref())?;
    let state = observe(&app, run).await?.state;
    let held = found(&state, run, number)?;
    let edited = match &asked.arguments {
        None => None,
        Some(arguments) => Some(Box::new(edit(&app, run, &state, held, arguments).await?)),
    };
    let arguments = edited.as_ref().map_or(&held.asked.arguments, |edited| &edited.arguments);
    let reach = match asked.reach {
        Far::Call => Reach::Call,
        Far::Run => Reach::Run(Pattern::exact(arguments)),
    };
    let resolution = Resolution::Approved { edited, reach };
    let answer = Answer { subject: seen, resolution, by: caller.actor };
    answered(&app, &caller, (run, number), answer).await
}

async fn edit(
    app: &App,
    run: RunId,
    state: &Folded,
    held: &Approval,
    arguments: &Value,
) -> Result<Edited, ApiError> {
    let Some(spec) = &state.spec else { return Err(bad("the run has no request")) };
    let judged = app.judge.judge(run, spec, (&held.asked.name, &arguments.to_string())).await;
    let admitted = judged.map_err(|refused| bad(refused.told).param("arguments"))?;
    Ok(Edited { arguments: admitted.arguments, terms: admitted.terms })
}

/// Refuses a call. The model is told, with the reason.
///
/// # Errors
///
/// 404 for an unknown hold, 409 when it was answered otherwise or its run has ended.
pub async fn deny(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(asked): Body<Denying>,
) -> Result<Json<Value>, ApiError> {
    let (run, number) = approval_id(&id)?;
    if asked.reason.len() > REASON_MAX {
        return Err(bad(format!("reason: give at most {REASON_MAX} bytes")).param("reason"));
    }
    observe(&app, run).await?;
    let subject = subject(asked.subject.as_deref())?;
    let resolution = Resolution::Denied { reason: asked.reason };
    let answer = Answer { subject, resolution, by: caller.actor };
    answered(&app, &caller, (run, number), answer).await
}

async fn answered(
    app: &App,
    caller: &Caller,
    (run, number): (RunId, ApprovalNo),
    answer: Answer,
) -> Result<Json<Value>, ApiError> {
    let command = Command::Approval { approval: number, answer: Box::new(answer) };
    let order = app.order(command, caller.actor, Lane::Control);
    let observed = app.decide::<Run>(run, order).await?;
    Ok(Json(call::approval(run, &observed.state, found(&observed.state, run, number)?)))
}
