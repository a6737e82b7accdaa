//! Sessions: the list is a read model, one session is asked of its owner.

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::extract::Query;
use crate::routes::runs::journal::{From, lines};
use crate::wire;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use events::aggregate::Aggregate;
use events::id::SessionId;
use events::session::{Session, State as Folded};
use projections::sessions::Query as Page;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Rows of a page where the caller does not say, and at most.
const PAGE: (u16, u16) = (50, 200);

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/sessions", get(list))
        .route("/v1/sessions/{id}", get(show))
        .route("/v1/sessions/{id}/messages", get(messages))
        .route("/v1/sessions/{id}/journal", get(journal))
}

/// What a caller of the list may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    limit: Option<u16>,
    after: Option<String>,
}

/// The sessions, latest activity first.
///
/// # Errors
///
/// 400 for a cursor that is none; 503 while the read model can not be read.
pub async fn list(
    State(app): State<App>,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let (usual, most) = PAGE;
    let limit = filter.limit.unwrap_or(usual).clamp(1, most);
    let before = wire::list::cursor(filter.after.as_deref())
        .map_err(|why| ApiError::new(Code::InvalidRequest, why))?;
    let page = app.projections.sessions(Page { project: None, before, limit }).await?;
    Ok(Json(wire::list::sessions(&page)))
}

async fn observe(app: &App, text: &str) -> Result<(SessionId, Arc<Folded>), ApiError> {
    let id: SessionId = text.parse().map_err(|error: events::id::NotAnId| {
        ApiError::new(Code::InvalidRequest, error.to_string())
    })?;
    let observed = app.observe::<Session>(id).await?;
    match observed.state.opened {
        Some(_) => Ok((id, observed.state)),
        None => Err(ApiError::new(Code::NotFound, format!("there is no session {id}"))),
    }
}

/// One session.
///
/// # Errors
///
/// 404 for an unknown session.
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let (id, state) = observe(&app, &id).await?;
    Ok(Json(json!({
        "id": id.to_string(),
        "object": "session",
        "project_id": state.opened.as_ref().map(|opened| opened.project.as_str()),
        "project_scope": state.scope,
        "parent": state.parent.map(|(parent, at)| json!({"session_id": parent.to_string(), "messages": at})),
        "messages": state.messages.len(),
        "bytes": state.bytes,
        "running": state.lock.as_ref().map(|lock| lock.run.to_string()),
        "waiting": state.inbox.iter().map(|waiting| waiting.run.to_string()).collect::<Vec<_>>(),
        "closed": state.closed,
    })))
}

/// The session's commits as lines of JSON, oldest first; with `?after=VERSION`, those that end behind it.
///
/// # Errors
///
/// 404 for an unknown session; a stream that breaks off ends with a line that says so.
pub async fn journal(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(from): Query<From>,
) -> Result<Response, ApiError> {
    let (id, _) = observe(&app, &id).await?;
    Ok(lines(app, Session::stream(&id), &from))
}

/// The conversation.
///
/// # Errors
///
/// 404 for an unknown session.
pub async fn messages(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let (id, state) = observe(&app, &id).await?;
    let data: Value = state.messages.iter().map(|body| wire::fact::raw(body.json())).collect();
    Ok(Json(json!({"session_id": id.to_string(), "data": data})))
}
