//! `POST /v1/chat/completions`: an OpenAI client's door. One run for each request, alone or in a session.
//!
//! A session is bound by `x-piton-session-id` and nothing else. A disconnect does not cancel the run: what was asked
//! is paid for, and its journal ends as it would have.

mod bound;
mod open;
mod reply;

use crate::app::{App, place_of};
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::Whole;
use crate::front::chat::{self, Asked, Stream};
use crate::routes::runs::start::{IDEMPOTENCY_KEY, idempotency_key};
use crate::routes::spec::{Draft, draft, model_or_role};
use actors::order::Lane;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use events::id::{RunId, SessionId, digest};
use events::journal;
use events::message::Message;
use events::run::life::Life;
use events::run::spec::{Delivery, Plane, Spec};
use events::run::{Command, Run};
use reply::Repeat;
use std::sync::Arc;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/chat/completions", post(complete))
}

/// Answers a chat completion.
///
/// # Errors
///
/// 400 for a malformed body or a model without a route, 409 for a history that is not the session's, 429 when there
/// is no room, and what the provider said when nothing was left to try.
pub async fn complete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let asked = chat::parse(&body)
        .map_err(|bad| ApiError::new(Code::InvalidRequest, bad.to_string()).param(&bad.field))?;
    app.admit_run()?;
    let room = Arc::clone(&app.room).try_acquire_owned();
    // As many callers wait as runs may be at work.
    let Ok(room) = room else { return Err(app.full()) };
    match bound::session(&headers)? {
        Some(name) => {
            let request = bound::Request { name, asked, input_hash: journal::hash(&body), headers };
            bound::complete(&app, &caller, request, room).await
        }
        None => {
            let (run, repeat) = run_id(&app, &caller, &headers, None).await?;
            let spec =
                Arc::new(spec(&app, &caller, &asked, &asked.messages, journal::hash(&body))?);
            let reader = app.live.reader(run);
            let command = Command::Open { spec, session: None, grant: None };
            let order = app.order(command, caller.actor, Lane::Data);
            let observed =
                app.decide::<Run>(run, order).await.map_err(|error| keyed(error, &headers))?;
            reply::Reply { app, run, session: None, asked, repeat, reader, _room: room }
                .send(observed)
                .await
        }
    }
}

/// A request with an idempotency key may be repeated whatever became of it.
fn keyed(error: ApiError, headers: &HeaderMap) -> ApiError {
    if headers.contains_key(IDEMPOTENCY_KEY) { error.keyed() } else { error }
}

/// A drawn id, or the one that the caller's idempotency key always gives; then also whether it is a repeat.
async fn run_id(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    session: Option<SessionId>,
) -> Result<(RunId, Repeat), ApiError> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        let place = session.map_or_else(|| app.place(), SessionId::place);
        return Ok((RunId::new(place, app.entropy().draw()), Repeat::First));
    };
    idempotency_key(key)?;
    let (actor, session) =
        (caller.actor.to_string(), session.map(|id| (id.place(), id.to_string())));
    let name = session.as_ref().map_or("", |(_, name)| name);
    let parts: [&[u8]; 4] =
        [b"piton/idempotency/chat", actor.as_bytes(), name.as_bytes(), key.as_bytes()];
    let place = session.as_ref().map_or_else(|| place_of(digest(&parts)), |(place, _)| *place);
    let run = RunId::derived(place, &parts);
    let known = app.observe::<Run>(run).await?.state.life != Life::New;
    Ok((run, if known { Repeat::Again } else { Repeat::First }))
}

fn spec(
    app: &App,
    caller: &Caller,
    asked: &Asked,
    input: &[Message],
    input_hash: events::record::Hash,
) -> Result<Spec, ApiError> {
    let delivery = match asked.stream {
        Stream::Whole => Delivery::Whole,
        Stream::Events { .. } => Delivery::Live,
    };
    let (model, role) = model_or_role(&asked.model)?;
    let said = Draft {
        plane: Plane::Model,
        delivery,
        caller: caller.actor,
        project: "default".to_owned(),
        model,
        role,
        phase: None,
        tools: asked.tools.clone(),
        server_tools: vec![],
        params: asked.params.clone(),
        input: input.iter().map(Message::body).collect(),
        limits: app.run_limits(Plane::Model),
        metadata: asked.metadata.clone(),
        input_hash,
    };
    draft(app, said)
}
