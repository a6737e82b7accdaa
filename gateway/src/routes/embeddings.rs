//! `POST /v1/embeddings`: vectors of texts, passed through.
//!
//! A request is a run of one step, as any model call is: its intent and what it may cost at most are committed before
//! anything leaves, budgets count it, its use is in every sum, and a repeat under its key is answered from the journal.
//! Nobody stands in for its model: vectors of two models can not be compared.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::Whole;
use crate::front::door::Door;
use crate::front::embeddings;
use crate::routes::turn::{self, refused};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use events::journal;

/// What binds the doors of conversations to a session.
const SESSION: &str = "x-piton-session-id";

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/embeddings", post(create))
}

/// Answers a request.
///
/// # Errors
///
/// 400 for a malformed body and for a model that another would have to stand in for, and those of [`turn::answer`].
pub async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    if headers.contains_key(SESSION) {
        let why = format!("{SESSION}: vectors are no part of a session; send it without");
        return Err(ApiError::new(Code::InvalidRequest, why).param(SESSION));
    }
    let asked = embeddings::parse(&body).map_err(|bad| refused(&bad))?;
    let (door, input_hash) = (Door::Embeddings, journal::hash(&body));
    turn::answer(&app, &caller, turn::Request { asked, door, input_hash, headers }).await
}
