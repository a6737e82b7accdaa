//! Runs: start, show, list, stop, follow, and the journal of one.

pub mod follow;
pub mod invocations;
pub mod journal;
pub mod list;
mod offer;
pub mod start;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::wire;
use actors::order::{Lane, Observed};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use events::aggregate::Aggregate;
use events::id::RunId;
use events::quantity::Instant;
use events::record::{Entry, Version};
use events::run::life::Life;
use events::run::{Command, Event, Run};
use serde_json::Value;

/// A run's last events: its end, a slice back to each of four budgets, and that its answer was withheld.
const END_AND_AFTER: u64 = 6;
/// The name of the end.
const END: &str = "finished";

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/runs", post(start::start).get(list::list))
        .route("/v1/runs/usage/summary", get(list::usage))
        .route("/v1/usage", get(list::usage))
        .route("/v1/runs/{id}", get(show))
        .route("/v1/runs/{id}/events", get(follow::events))
        .route("/v1/runs/{id}/stop", post(stop))
        .route("/v1/runs/{id}/resume", post(invocations::resume))
        .route("/v1/runs/{id}/tool-invocations", get(invocations::list).post(invocations::invoke))
        .route(
            "/v1/runs/{id}/tool-invocations/{invocation}/reconcile",
            post(invocations::reconcile),
        )
        .route("/v1/runs/{id}/journal", get(journal::export))
        .route("/v1/runs/{id}/verify", get(journal::verify))
        .route("/v1/runs/{id}/replay", post(journal::replay))
}

/// Reads a run id.
///
/// # Errors
///
/// 400 for text that is not one.
pub fn run_id(text: &str) -> Result<RunId, ApiError> {
    text.parse().map_err(|error: events::id::NotAnId| {
        ApiError::new(Code::InvalidRequest, error.to_string())
    })
}

/// What the owner of a run knows.
///
/// # Errors
///
/// 404 for a run that does not exist; 503 while its owner can not answer.
pub async fn observe(app: &App, id: RunId) -> Result<Observed<Run>, ApiError> {
    let observed = app.observe::<Run>(id).await?;
    match observed.state.life {
        Life::New => Err(ApiError::new(Code::NotFound, format!("there is no run {id}"))),
        Life::Queued | Life::Running | Life::Ended(_) => Ok(observed),
    }
}

/// The run object with the times that its stream says.
///
/// # Errors
///
/// 503 when the stream can not be read.
pub async fn object(app: &App, id: RunId, observed: &Observed<Run>) -> Result<Value, ApiError> {
    let stream = Run::stream(&id);
    let first = app.store().read(&stream, Version::EMPTY, 1).await?;
    let created = first.first().map(|recorded| recorded.commit.at);
    let finished = match observed.state.ended() {
        Some(_) => ended_at(app, id, observed.version).await?,
        None => None,
    };
    Ok(wire::run::object(id, &observed.state, created, finished))
}

async fn ended_at(app: &App, id: RunId, version: Version) -> Result<Option<Instant>, ApiError> {
    let before = Version(version.0.saturating_sub(END_AND_AFTER));
    let limit = usize::try_from(END_AND_AFTER).unwrap_or(usize::MAX);
    let last = app.store().read(&Run::stream(&id), before, limit).await?;
    let is_end = |entry: &Entry| Event::TABLE.iter().any(|row| row.0 == entry.kind && row.2 == END);
    let end = last.iter().rev().find(|recorded| recorded.commit.entries.iter().any(is_end));
    Ok(end.map(|recorded| recorded.commit.at))
}

/// Shows a run.
///
/// # Errors
///
/// 400 for a malformed id, 404 for an unknown run.
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let id = run_id(&id)?;
    let observed = observe(&app, id).await?;
    Ok(Json(object(&app, id, &observed).await?))
}

/// Stops a run; one that has ended stays as it is.
///
/// # Errors
///
/// 400 for a malformed id, 404 for an unknown run.
pub async fn stop(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = run_id(&id)?;
    observe(&app, id).await?;
    let order = app.order(Command::stop(), caller.actor, Lane::Control);
    let observed = app.decide::<Run>(id, order).await?;
    Ok(Json(object(&app, id, &observed).await?))
}
