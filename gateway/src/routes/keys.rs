//! Access keys: issued, listed, revoked. The secret is shown once, in the answer that issues it.

use crate::app::App;
use crate::auth::{Caller, role, text};
use crate::error::{ApiError, Code};
use crate::wire;
use actors::order::Lane;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use events::id::KeyId;
use events::key::{Command, Issued, Key, State as Folded};
use serde::Deserialize;
use serde_json::{Value, json};

/// Bytes of a key's name.
const NAME_MAX: usize = 64;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/keys", post(issue).get(list))
        .route("/v1/keys/{id}", get(show).delete(revoke))
}

/// The body of `POST /v1/keys`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    name: String,
    role: String,
}

fn key_id(text: &str) -> Result<KeyId, ApiError> {
    text.parse().map_err(|error: events::id::NotAnId| {
        ApiError::new(Code::InvalidRequest, error.to_string())
    })
}

/// Issues a key. Its secret is in this answer and nowhere else.
///
/// # Errors
///
/// 400 for a role or name that is none.
pub async fn issue(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    crate::extract::Json(asked): crate::extract::Json<Asked>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let role = role::named(&asked.role).ok_or_else(|| {
        let roles = role::ROLES.map(role::name).join(", ");
        ApiError::new(Code::InvalidRequest, format!("role: {} is none of {roles}", asked.role))
    })?;
    if asked.name.is_empty() || asked.name.len() > NAME_MAX {
        return Err(ApiError::new(
            Code::InvalidRequest,
            format!("name: give 1 to {NAME_MAX} bytes"),
        ));
    }
    let id = KeyId::new(app.place(), app.entropy().draw());
    let mut drawn = [0; 32];
    let (low, high) = drawn.split_at_mut(16);
    low.copy_from_slice(&app.entropy().draw().to_le_bytes());
    high.copy_from_slice(&app.entropy().draw().to_le_bytes());
    let secret = text::issued(id, drawn);
    let issued = Issued { name: asked.name, role, hash: text::hash(secret.expose()) };
    let order = app.order(Command::Issue(issued.clone()), caller.actor, Lane::Data);
    app.decide::<Key>(id, order).await?;
    app.verifier.insert(id, &issued);
    let answer = json!({
        "id": id.to_string(),
        "object": "key",
        "name": issued.name,
        "role": wire::fact::role(role),
        "key": secret.expose(),
    });
    Ok((StatusCode::CREATED, Json(answer)))
}

/// Revokes a key: it opens nothing from now on.
///
/// # Errors
///
/// 404 for an unknown key.
pub async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let id = key_id(&id)?;
    // First closed, then recorded: if this request dies in between, the key opens nothing until the next start.
    app.verifier.remove(id);
    let order = app.order(Command::Revoke, caller.actor, Lane::Control);
    app.decide::<Key>(id, order).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn object(id: KeyId, state: &Folded) -> Option<Value> {
    let issued = state.issued.as_ref()?;
    Some(json!({
        "id": id.to_string(),
        "object": "key",
        "name": issued.name,
        "role": wire::fact::role(issued.role),
        "revoked": state.revoked,
    }))
}

/// One key, without its secret.
///
/// # Errors
///
/// 404 for an unknown key.
pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let id = key_id(&id)?;
    let observed = app.observe::<Key>(id).await?;
    let unknown = || ApiError::new(Code::NotFound, format!("there is no key {id}"));
    object(id, &observed.state).map(Json).ok_or_else(unknown)
}

/// Every key, without secrets.
///
/// # Errors
///
/// 503 while the read model can not be read.
pub async fn list(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let page = app.projections.keys(None).await?;
    Ok(Json(wire::list::keys(&page)))
}
