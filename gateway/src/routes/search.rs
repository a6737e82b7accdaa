//! Search: what was said and written, by its words.

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::extract::Query;
use crate::wire;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use projections::search::{Kind, NoQuery, Query as Asked, Words};
use serde::Deserialize;
use serde_json::Value;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/search", get(search))
}

/// What a caller may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    q: String,
    project: Option<String>,
    kind: Option<String>,
    limit: Option<u16>,
}

/// The texts that have all these words, the best first.
///
/// # Errors
///
/// 400 for a question without a word or a kind that is none; 503 while the read model can not be read.
pub async fn search(
    State(app): State<App>,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let Filter { q, project, kind, limit } = filter;
    let words = Words::of(&q).map_err(|why: NoQuery| {
        ApiError::new(Code::InvalidRequest, format!("q: {why}")).param("q")
    })?;
    let named = |word: String| {
        let words = Kind::ALL.map(Kind::word).join(", ");
        let none = || format!("kind: {word:?} is none of {words}");
        Kind::named(&word).ok_or_else(|| ApiError::new(Code::InvalidRequest, none()).param("kind"))
    };
    let kind = kind.map(named).transpose()?;
    let query = Asked { words, project, kind, limit: limit.unwrap_or(0) };
    Ok(Json(wire::search::list(&app.projections.search(query).await?)))
}
