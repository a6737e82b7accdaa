//! Budgets: set, shown and removed. The one of all lists the others, so that every node knows which there are.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::routes::runs::start::micro_usd;
use crate::wire;
use actors::order::Lane;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Extension, Json, Router};
use events::budget::{Budget, Command, Renewal, Scope, State as Folded, Terms, Unpriced};
use serde::Deserialize;
use serde_json::{Value, json};

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/budgets", get(list))
        .route("/v1/budgets/{scope}", get(show).put(set).delete(remove))
}

/// The body of `PUT /v1/budgets/{scope}`: all of what the budget allows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    usd: Option<f64>,
    calls: Option<u64>,
    per: Option<Per>,
    #[serde(default)]
    warn_at: Vec<u8>,
    #[serde(default)]
    unpriced: Policy,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Per {
    Hour,
    Day,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    #[default]
    Refuse,
    Allow,
}

impl Asked {
    fn terms(self) -> Result<Terms, ApiError> {
        Ok(Terms {
            usd: self.usd.map(|usd| micro_usd("usd", usd)).transpose()?,
            calls: self.calls,
            renews: match self.per {
                None => Renewal::Never,
                Some(Per::Hour) => Renewal::Hour,
                Some(Per::Day) => Renewal::Day,
            },
            warn_at: self.warn_at,
            unpriced: match self.unpriced {
                Policy::Refuse => Unpriced::Refuse,
                Policy::Allow => Unpriced::Allow,
            },
        })
    }
}

fn scope(text: &str) -> Result<Scope, ApiError> {
    text.parse().map_err(|error: events::budget::NotAScope| {
        ApiError::new(Code::InvalidRequest, error.to_string()).param("scope")
    })
}

fn found(scope: Scope, state: &Folded) -> Result<Json<Value>, ApiError> {
    let none = || ApiError::new(Code::NotFound, format!("there is no budget {scope}"));
    wire::budget::object(scope, state).map(Json).ok_or_else(none)
}

/// Allows this much; what was spent stays spent. It counts what begins once a node knows of it, within a second.
///
/// # Errors
///
/// 400 for a scope or terms that make no sense.
pub async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(named): Path<String>,
    crate::extract::Json(asked): crate::extract::Json<Asked>,
) -> Result<Json<Value>, ApiError> {
    let scope = scope(&named)?;
    let terms = asked.terms()?;
    // Listed first: a list that names a budget without terms harms nobody, one that lacks a budget would.
    if scope != Scope::ALL {
        let list = app.order(Command::List(scope), caller.actor, Lane::Control);
        app.decide::<Budget>(Scope::ALL, list).await?;
    }
    let order = app.order(Command::Set(terms), caller.actor, Lane::Control);
    let observed = app.decide::<Budget>(scope, order).await?;
    found(scope, &observed.state)
}

/// Limits nothing any more, and forgets what was spent.
///
/// # Errors
///
/// 400 for what is no scope.
pub async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(named): Path<String>,
) -> Result<StatusCode, ApiError> {
    let scope = scope(&named)?;
    let order = app.order(Command::Remove, caller.actor, Lane::Control);
    app.decide::<Budget>(scope, order).await?;
    let unlist = app.order(Command::Unlist(scope), caller.actor, Lane::Control);
    app.decide::<Budget>(Scope::ALL, unlist).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// One budget, as its owner knows it.
///
/// # Errors
///
/// 400 for what is no scope, 404 where nothing is limited.
pub async fn show(
    State(app): State<App>,
    Path(named): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let scope = scope(&named)?;
    found(scope, &app.observe::<Budget>(scope).await?.state)
}

/// Every budget, as this node knows it.
pub async fn list(State(app): State<App>) -> Json<Value> {
    let all = app.budgets.all();
    let rows: Vec<Value> =
        all.iter().filter_map(|(scope, one)| wire::budget::object(*scope, &one.state)).collect();
    Json(json!({"object": "list", "count": rows.len(), "data": rows}))
}
