//! The durable selection: the model that serves every role without a route. It is an event of the journal, followed by
//! every node within a second; a route of the call, a project, the environment or the table file goes before it.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::Json as Body;
use crate::wire;
use actors::order::{Lane, Observed};
use axum::extract::State;
use axum::routing::get;
use axum::{Extension, Json, Router};
use events::role::family_check;
use events::settings::{Command, Settings, SettingsId};
use providers::registry;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// How long a change is waited for until this node itself goes by it; the others are as quick.
const FOLLOWED: Duration = Duration::from_secs(1);

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/harness/selection", get(show).put(set).delete(clear))
}

/// The body of `PUT /v1/harness/selection`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    provider: String,
    model: String,
}

/// What is selected, whether it is in force here, and what stands instead where it is not.
///
/// # Errors
///
/// When its owner can not be asked.
pub async fn show(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let observed = app.observe::<Settings>(SettingsId::Harness).await?;
    Ok(object(&app, &observed))
}

/// Selects a model. One whose provider has no key here is taken, for a login can come later, and shown as a problem.
///
/// # Errors
///
/// 400 for a provider that is unknown, or a model that is plainly another vendor's.
pub async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(Asked { provider, model }): Body<Asked>,
) -> Result<Json<Value>, ApiError> {
    let refused = |param: &str, why: String| ApiError::new(Code::ConfigError, why).param(param);
    // The scripted model is in no registry.
    let provider = if app.routing().is_configured(&provider) {
        provider
    } else {
        let known = registry::provider(&provider);
        known.map_err(|error| refused("provider", error.to_string()))?.id.to_owned()
    };
    let model = model.trim().to_owned();
    family_check(&provider, &model).map_err(|mismatch| refused("model", mismatch.to_string()))?;
    let select = Command::Select { provider, model, by: caller.actor };
    let order = app.order(select, caller.actor, Lane::Control);
    let observed = app.decide::<Settings>(SettingsId::Harness, order).await?;
    followed(&app, &observed).await;
    Ok(object(&app, &observed))
}

/// Selects none.
///
/// # Errors
///
/// When its owner can not be asked.
pub async fn clear(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, ApiError> {
    let unselect = Command::Unselect { by: caller.actor };
    let order = app.order(unselect, caller.actor, Lane::Control);
    let observed = app.decide::<Settings>(SettingsId::Harness, order).await?;
    followed(&app, &observed).await;
    Ok(object(&app, &observed))
}

fn object(app: &App, observed: &Observed<Settings>) -> Json<Value> {
    let selected = observed.state.selection.as_ref();
    Json(wire::settings::selection(selected, &app.routing()))
}

/// Whoever was answered finds what was set with the next request to this node.
async fn followed(app: &App, observed: &Observed<Settings>) {
    let mut changes = app.settings.changes();
    let known =
        changes.wait_for(|_| app.settings.get(&SettingsId::Harness).version >= observed.version);
    if tokio::time::timeout(FOLLOWED, known).await.is_err() {
        tracing::warn!("selection_not_followed: this node learns of what was selected later");
    }
}
