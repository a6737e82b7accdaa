//! The HTTP service: the routes behind one guard, and a listener with a bound.
//!
//! Every request passes the guard: an id of its own, who is asking, whether they may, whether there is room. Nothing
//! behind it is reached without.

mod guard;
mod listener;

pub use listener::Bounded;

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::routes;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware;

/// The whole service. `/api/v1` mirrors `/v1`.
pub fn router(app: App) -> Router {
    let limit = app.config.limits.max_body_bytes;
    Router::new()
        .merge(routes::routes())
        .nest("/api", routes::routes())
        .fallback(nowhere)
        .layer(DefaultBodyLimit::max(limit))
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}

async fn nowhere(uri: Uri) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is nothing at {}", uri.path()))
}
