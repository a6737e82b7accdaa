//! The bounds of mediated tool calls: shown, and replaced as a whole by an administrator.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::Json as Body;
use crate::wire;
use actors::order::{Lane, Observed};
use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Json, Router};
use events::settings::{Command, Settings, SettingsId};
use events::tool_policy::{Field, OnUnknown, ToolPolicy};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// The longest that an answer waits for this node to know what was set (2 s).
const FOLLOWED: Duration = Duration::from_secs(2);

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/tools/policy", get(show).put(replace))
}

/// The body of `PUT /v1/tools/policy`: all of the policy. The numbers are judged one by one, so that whatever stands in
/// the place of one is named with its range.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    calls_limit: Value,
    per_tool_limit: Value,
    timeout_seconds: Value,
    max_result_bytes: Value,
    #[serde(default)]
    on_unknown: Unknown,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unknown {
    #[serde(default)]
    read_only: ReadOnly,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadOnly {
    #[default]
    Hold,
    Abandon,
}

fn number(field: Field, given: &Value) -> Result<u64, ApiError> {
    let range = field.range();
    given.as_u64().filter(|value| range.contains(value)).ok_or_else(|| {
        let why = format!("{field} is {given}: give {} to {}", range.start(), range.end());
        ApiError::new(Code::InvalidRequest, why).param(field.name())
    })
}

/// A number of a range that lies in 32 bits.
fn small(field: Field, given: &Value) -> Result<u32, ApiError> {
    Ok(u32::try_from(number(field, given)?).unwrap_or(u32::MAX))
}

impl Asked {
    fn policy(&self) -> Result<ToolPolicy, ApiError> {
        Ok(ToolPolicy {
            calls_limit: small(Field::CallsLimit, &self.calls_limit)?,
            per_tool_limit: small(Field::PerToolLimit, &self.per_tool_limit)?,
            timeout: ToolPolicy::seconds(number(Field::TimeoutSeconds, &self.timeout_seconds)?),
            max_result_bytes: number(Field::MaxResultBytes, &self.max_result_bytes)?,
            on_unknown_read_only: match self.on_unknown.read_only {
                ReadOnly::Hold => OnUnknown::Hold,
                ReadOnly::Abandon => OnUnknown::Abandon,
            },
        })
    }
}

/// What a run gets that is queued now.
///
/// # Errors
///
/// When its owner can not be asked.
pub async fn show(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let observed = app.observe::<Settings>(SettingsId::Tools).await?;
    Ok(Json(wire::settings::policy(&observed.state)))
}

/// Replaces the whole policy. Runs that are queued keep theirs.
///
/// # Errors
///
/// 400 for a bound outside its range.
pub async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(asked): Body<Asked>,
) -> Result<Json<Value>, ApiError> {
    let replace = Command::ReplaceToolPolicy { policy: asked.policy()?, by: caller.actor };
    let order = app.order(replace, caller.actor, Lane::Control);
    let observed = app.decide::<Settings>(SettingsId::Tools, order).await?;
    followed(&app, &observed).await;
    Ok(Json(wire::settings::policy(&observed.state)))
}

/// Whoever was answered finds what was set with the next run of this node.
async fn followed(app: &App, observed: &Observed<Settings>) {
    let mut changes = app.settings.changes();
    let known =
        changes.wait_for(|_| app.settings.get(&SettingsId::Tools).version >= observed.version);
    if tokio::time::timeout(FOLLOWED, known).await.is_err() {
        tracing::warn!("tool_policy_not_followed: this node learns of the new policy later");
    }
}
