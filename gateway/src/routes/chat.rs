//! `POST /v1/chat/completions`: an OpenAI client's door.

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::extract::Whole;
use crate::front::chat;
use crate::front::door::Door;
use crate::routes::turn::{self, refused};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use events::journal;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/chat/completions", post(complete))
}

/// Answers a chat completion.
///
/// # Errors
///
/// 400 for a malformed body, and those of [`turn::answer`].
pub async fn complete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let chat::Request { asked, stream } = chat::parse(&body).map_err(|bad| refused(&bad))?;
    let (door, input_hash) = (Door::Chat(stream), journal::hash(&body));
    turn::answer(&app, &caller, turn::Request { asked, door, input_hash, headers }).await
}
