//! `POST /v1/messages` and `/v1/messages/count_tokens`: an Anthropic client's door.
//!
//! Any `anthropic-version` is served alike, and betas are read past: what they change is in the body.

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::extract::Whole;
use crate::front::door::Door;
use crate::front::messages;
use crate::routes::spec::{model_or_role, route};
use crate::routes::turn::{self, refused};
use actors::routing::Wanted;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Json, Router};
use events::journal;
use serde_json::{Value, json};

/// Says of a count that it is a bound and no measurement.
const COUNT_IS: [(&str, &str); 1] = [("x-piton-token-count", "upper-bound")];

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/messages", post(create))
        .route("/v1/messages/count_tokens", post(count_tokens))
}

/// Answers a message.
///
/// # Errors
///
/// 400 for a malformed body, and those of [`turn::answer`].
pub async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let messages::Request { asked, style } = messages::parse(&body).map_err(|bad| refused(&bad))?;
    let (door, input_hash) = (Door::Messages(style), journal::hash(&body));
    turn::answer(&app, &caller, turn::Request { asked, door, input_hash, headers }).await
}

/// Bounds the tokens of a request from above. Nothing is sent to anybody, and nothing is recorded.
///
/// # Errors
///
/// 400 for a malformed body, 400 or 503 for a model without a route.
pub async fn count_tokens(
    State(app): State<App>,
    Whole(body): Whole,
) -> Result<([(&'static str, &'static str); 1], Json<Value>), ApiError> {
    let (model, count) = messages::count(&body).map_err(|bad| refused(&bad))?;
    let (model, role) = model_or_role(&model)?;
    route(&app, &Wanted::model(model, &role))?;
    Ok((COUNT_IS, Json(json!({"input_tokens": count.0}))))
}
