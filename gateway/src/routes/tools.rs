//! The tools of this node: what they are, what is ruled of them, why one can not be used, and a call of one outside any
//! run.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::Json as Body;
use crate::wire;
use ::tools::{Call, Entry, ToolError};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use events::json::Json as JsonBytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/tools", get(list))
        .route("/v1/tools/{name}", get(show))
        .route("/v1/tools/{name}/test", post(test))
}

/// Every tool, those that can not be used among them, with the reason.
async fn list(State(app): State<App>) -> Json<Value> {
    let usable = app.tools.entries().map(wire::tool::row);
    let aside = app.tools.quarantined().iter().map(wire::tool::aside);
    let rows: Vec<Value> = usable.chain(aside).collect();
    Json(json!({"object": "list", "count": rows.len(), "data": rows}))
}

fn entry<'a>(app: &'a App, name: &str) -> Result<&'a Entry, ApiError> {
    let unknown = || {
        let tools = app.tools.quarantined().iter();
        let aside = tools.clone().find(|one| one.name == name || one.tool.to_string() == name);
        let why = aside.map_or_else(
            || app.tools.unknown(name).to_string(),
            |one| format!("tool {} can not be used: {}", one.name, one.why),
        );
        ApiError::new(Code::NotFound, why)
    };
    app.tools.find(name).ok_or_else(unknown)
}

/// One tool, with its schema.
///
/// # Errors
///
/// 404 for a tool that is not there or can not be used.
async fn show(State(app): State<App>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    Ok(Json(wire::tool::object(entry(&app, &name)?)))
}

/// What to call it with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

/// Calls a tool once, outside any run and any budget of one. It is said in the log before it is sent and after, with who
/// asked and without what was sent: arguments may hold what nobody else may read.
///
/// # Errors
///
/// 400 for arguments that its schema does not admit: nothing was executed. 404 for a tool that is not there.
async fn test(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Body(Asked { arguments }): Body<Asked>,
) -> Result<Json<Value>, ApiError> {
    let entry = entry(&app, &name)?;
    let text = arguments.as_ref().map_or("", |raw| raw.get());
    let checked = entry.check(text).map_err(|invalid| {
        let first = invalid.violations.first();
        let words =
            first.map_or_else(String::new, |one| format!(" at {:?}: {}", one.path, one.message));
        ApiError::new(
            Code::InvalidRequest,
            format!("arguments do not fit the tool's schema{words}"),
        )
        .param("arguments")
    })?;
    let (began, timeout) = (app.clock().now(), entry.timeout());
    let correlation = app.entropy().draw();
    let arguments = JsonBytes::from_bytes(checked.json.as_bytes());
    let call = Call::new(correlation, arguments, began, began.after(timeout));
    let (tool, by) = (entry.name(), caller.actor.to_string());
    let correlation = format!("{correlation:032x}");
    tracing::info!(tool, by, correlation, "tool_test_sent");
    let answered = tokio::time::timeout(Duration::from_millis(timeout.0), entry.call(call)).await;
    let latency = app.clock().now().since(began).0;
    let (outcome, content) = match answered {
        Ok(Ok(content)) => ("succeeded", content),
        Ok(Err(error)) => (outcome(&error), error.content()),
        Err(_) => {
            ("unknown", ToolError::Unknown("it took longer than it may".to_owned()).content())
        }
    };
    tracing::info!(tool, by, correlation, outcome, latency_ms = latency, "tool_test_ended");
    Ok(Json(json!({
        "object": "tool_test", "tool": tool, "outcome": outcome, "ok": outcome == "succeeded",
        "latency_ms": latency, "correlation_id": correlation, "content": content,
    })))
}

const fn outcome(error: &ToolError) -> &'static str {
    match error {
        ToolError::Invalid(_)
        | ToolError::Failed(_)
        | ToolError::DeadlinePassed
        | ToolError::NotSent(_) => "failed",
        ToolError::Rejected { .. } => "rejected",
        ToolError::Unknown(_) | ToolError::TooLarge { .. } => "unknown",
    }
}
