//! The whole journal: how large it is, and a verified copy of it.

use crate::app::App;
use crate::error::{ApiError, Code};
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use events::id::Partition;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/journal/stats", get(stats)).route("/v1/journal/backup", post(backup))
}

/// How large the journal is.
///
/// # Errors
///
/// 503 while the store can not be read.
pub async fn stats(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let stats = app.store().stats().await?;
    Ok(Json(json!({
        "journal": app.store().journal().to_string(),
        "epoch": app.store().epoch(Partition::default()).0,
        "commits": stats.commits,
        "entries": stats.entries,
        "streams": stats.streams,
        "blobs": stats.blobs,
        "file_bytes": stats.file_bytes,
        "wal_bytes": stats.wal_bytes,
        "restores": stats.restores,
    })))
}

/// The body of `POST /v1/journal/backup`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// A path on the node's machine that does not exist yet.
    path: PathBuf,
}

/// Copies the journal while it is written to, then verifies the copy.
///
/// # Errors
///
/// 400 for a path that is not absolute or exists; 500 `integrity` when the copy does not verify.
pub async fn backup(
    State(app): State<App>,
    crate::extract::Json(asked): crate::extract::Json<Asked>,
) -> Result<Json<Value>, ApiError> {
    if !asked.path.is_absolute() {
        let why = format!("path: {} is not absolute", asked.path.display());
        return Err(ApiError::new(Code::InvalidRequest, why));
    }
    let report = app.store().backup(&asked.path, |_done, _total| {}).await.map_err(|error| {
        ApiError::new(Code::InvalidRequest, format!("backup to {}: {error}", asked.path.display()))
    })?;
    if let Some(problem) = report.problems.first() {
        return Err(ApiError::new(Code::Integrity, format!("the copy does not verify: {problem}")));
    }
    Ok(Json(json!({
        "path": asked.path.display().to_string(),
        "commits": report.commits,
        "entries": report.entries,
        "streams": report.streams,
        "verified": true,
    })))
}
