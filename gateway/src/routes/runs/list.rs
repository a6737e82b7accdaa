//! Lists and totals: read models, which say the position they were folded up to.

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::extract::Query;
use crate::wire;
use axum::Json;
use axum::extract::State;
use projections::usage::By;
use serde::Deserialize;
use serde_json::Value;

/// Rows of a page where the caller does not say, and at most.
const PAGE: (u16, u16) = (50, 200);

/// What a caller of `GET /v1/runs` may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    state: Option<String>,
    session_id: Option<String>,
    limit: Option<u16>,
    after: Option<String>,
}

/// The newest runs first.
///
/// # Errors
///
/// 400 for a filter that means nothing; 503 while the read model can not be read.
pub async fn list(
    State(app): State<App>,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let (usual, most) = PAGE;
    let limit = filter.limit.unwrap_or(usual).clamp(1, most);
    let asked = wire::list::runs_filter(
        filter.state.as_deref(),
        filter.session_id.as_deref(),
        limit,
        filter.after.as_deref(),
    )
    .map_err(|why| ApiError::new(Code::InvalidRequest, why))?;
    let page = app.projections.runs(asked).await?;
    Ok(Json(wire::list::runs(&page)))
}

/// What a caller of a usage summary may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    window_hours: Option<u32>,
    by: Option<String>,
}

fn property(word: &str) -> Result<By, ApiError> {
    match word {
        "run" => Ok(By::Run),
        "project" => Ok(By::Project),
        "provider" => Ok(By::Provider),
        "model" => Ok(By::Model),
        "role" => Ok(By::Role),
        "phase" => Ok(By::Phase),
        "caller" => Ok(By::Caller),
        "key" => Ok(By::Key),
        "profile" => Ok(By::Profile),
        "day" => Ok(By::Day),
        other => {
            let why = format!(
                "by: {other:?} is none of run, project, provider, model, role, phase, caller, key, profile, day"
            );
            Err(ApiError::new(Code::InvalidRequest, why))
        }
    }
}

/// Hours that a summary may span: a year and a day.
const WINDOW_HOURS_MAX: u32 = projections::usage::WINDOW_HOURS_MAX;

/// Totals of a trailing window, by model and by provider.
///
/// # Errors
///
/// 503 while the read model can not be read.
pub async fn usage(
    State(app): State<App>,
    Query(window): Query<Window>,
) -> Result<Json<Value>, ApiError> {
    if let Some(by) = window.by.as_deref() {
        let totals = app.projections.usage(property(by)?).await?;
        return Ok(Json(wire::list::totals(&totals)));
    }
    let hours = window.window_hours.unwrap_or(24).clamp(1, WINDOW_HOURS_MAX);
    let summary = app.projections.usage_summary(hours, app.clock().now()).await?;
    Ok(Json(wire::list::usage(hours, &summary)))
}
