//! Standing grants of a project: listed, made and taken back by whoever may answer holds.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::{Json as Body, Query};
use crate::wire;
use actors::order::Lane;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Extension, Json, Router};
use events::grant::{Command, Grant, GrantId, NotAGrant, Pattern, Revoked, Wanted};
use events::json::Json as JsonBytes;
use events::project::Project;
use events::quantity::Millis;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Seconds of the longest grant that ends (366 days).
const SECONDS_MAX: u64 = 366 * 86_400;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/approvals/grants", get(list).post(add))
        .route("/v1/approvals/grants/{project}/{id}", delete(remove))
}

/// Whose grants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whose {
    project: Option<String>,
}

/// The body of `POST /v1/approvals/grants`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    #[serde(default = "default_project")]
    project: String,
    tool: String,
    /// By pointer: what stands there must be this.
    #[serde(default)]
    equal: BTreeMap<String, Value>,
    /// By pointer: the text there must match this.
    #[serde(default)]
    glob: BTreeMap<String, String>,
    /// When it ends; without it, when somebody takes it back.
    expires_in_seconds: Option<u64>,
}

fn default_project() -> String {
    "default".to_owned()
}

/// The grants that stand: a project's by the word of their owner, or those of all as the read model has them.
///
/// # Errors
///
/// When their owner or the read model can not be asked.
pub async fn list(
    State(app): State<App>,
    Query(whose): Query<Whose>,
) -> Result<Json<Value>, ApiError> {
    let now = app.clock().now();
    let rows: Vec<Value> = match whose.project {
        Some(project) => {
            let observed = app.observe::<Grant>(Project::of(&project)).await?;
            let standing = observed.state.standing(now);
            standing.map(|one| wire::grant::object(&project, one)).collect()
        }
        None => {
            let page = app.projections.grants().await?;
            let standing = page.rows.iter().filter(|row| row.stands(now));
            standing.map(|row| wire::grant::object(row.project.as_str(), &row.granted)).collect()
        }
    };
    Ok(Json(json!({"object": "list", "count": rows.len(), "data": rows})))
}

/// Grants calls like these: whoever asks may answer holds, so this is an answer given in advance.
///
/// # Errors
///
/// 400 for a tool or a pattern that makes no sense, 409 when too many stand.
pub async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(asked): Body<Asked>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let now = app.clock().now();
    let until = asked.expires_in_seconds.map(|seconds| {
        if (1..=SECONDS_MAX).contains(&seconds) {
            return Ok(now.after(Millis(seconds.saturating_mul(1_000))));
        }
        let why = format!("expires_in_seconds is {seconds}: give 1 to {SECONDS_MAX}, or none");
        Err(ApiError::new(Code::InvalidRequest, why).param("expires_in_seconds"))
    });
    let constant =
        |(pointer, value): (String, Value)| (pointer, JsonBytes::from(value.to_string()));
    let equal = asked.equal.into_iter().map(constant).collect();
    let id = GrantId(app.entropy().draw());
    let wanted = Wanted {
        id,
        // A tool is known by its own name (`note.append`) and by the model's (`note_append`).
        tool: asked.tool.replace('.', "_"),
        pattern: Pattern { equal, glob: asked.glob },
        by: caller.actor,
        until: until.transpose()?,
    };
    let order = app.order(Command::Grant(wanted), caller.actor, Lane::Control);
    let observed = app.decide::<Grant>(Project::of(&asked.project), order).await?;
    let granted = observed.state.grants.get(&id);
    let object = granted.map(|one| wire::grant::object(&asked.project, one));
    Ok((StatusCode::CREATED, Json(object.unwrap_or_default())))
}

/// Takes a grant back: calls like these are asked for again. What was let through stays so.
///
/// # Errors
///
/// 404 for a grant that there is none of.
pub async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((project, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let id: GrantId = id.parse().map_err(|error: NotAGrant| {
        ApiError::new(Code::InvalidRequest, error.to_string()).param("id")
    })?;
    let revoke = Command::Revoke(Revoked { id, by: caller.actor });
    let order = app.order(revoke, caller.actor, Lane::Control);
    app.decide::<Grant>(Project::of(&project), order).await?;
    Ok(StatusCode::NO_CONTENT)
}
