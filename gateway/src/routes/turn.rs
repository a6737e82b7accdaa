//! A turn asked for through a model's API: one run for each request, alone or in a session, whichever door it came
//! through.
//!
//! A session is bound by `x-piton-session-id` and nothing else. A disconnect does not cancel the run: what was asked
//! is paid for, and its journal ends as it would have.

mod bound;
mod open;
mod reply;

use crate::app::{App, place_of};
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::front::asked::Asked;
use crate::front::bad_request::BadRequest;
use crate::front::created;
use crate::front::door::Door;
use crate::routes::runs::start::{IDEMPOTENCY_KEY, idempotency_key};
use crate::routes::spec::{Draft, draft, model_or_role, needs};
use actors::order::Lane;
use axum::http::HeaderMap;
use axum::response::Response;
use events::id::{RunId, SessionId, digest};
use events::message::Message;
use events::record::Hash;
use events::role::Role;
use events::run::life::Life;
use events::run::spec::{ApprovalMode, Plane, Spec};
use events::run::terms::Source;
use events::run::{Command, Run};
use reply::Repeat;
pub(super) use reply::answer as answered;
use std::sync::Arc;

/// What a client asks for, and how it is to be answered.
#[derive(Debug)]
pub struct Request {
    /// What is asked.
    pub asked: Asked,
    /// In whose shape.
    pub door: Door,
    /// Names the request's bytes.
    pub input_hash: Hash,
    /// The rest of the request.
    pub headers: HeaderMap,
}

/// What a client is told of a body that is none.
#[must_use]
pub fn refused(bad: &BadRequest) -> ApiError {
    ApiError::new(Code::InvalidRequest, bad.to_string()).param(&bad.field)
}

/// Answers a request.
///
/// # Errors
///
/// 400 for a model without a route, 409 for a history that is not the session's, 429 when there is no room, and what
/// the provider said when nothing was left to try.
pub async fn answer(
    app: &App,
    caller: &Caller,
    mut request: Request,
) -> Result<Response, ApiError> {
    app.admit_run()?;
    let room = Arc::clone(&app.room).try_acquire_owned();
    // As many callers wait as runs may be at work.
    let Ok(room) = room else { return Err(app.full()) };
    created::keep(app.clock().now(), &mut request.asked.metadata);
    if let Some(name) = bound::session(&request.headers)? {
        return bound::answer(app, caller, &name, request, room).await;
    }
    let (run, repeat) = run_id(app, caller, &request, None).await?;
    let spec = Arc::new(spec(app, caller, &request, None, &request.asked.messages)?);
    let reader = app.live.reader(run);
    let command = Command::Open { spec, session: None, grant: None };
    let order = app.order(command, caller.actor, Lane::Data);
    let observed =
        app.decide::<Run>(run, order).await.map_err(|error| keyed(error, &request.headers))?;
    if observed.state.withheld {
        let why = "the response of this idempotency key was deleted: ask again under another one";
        return Err(ApiError::new(Code::NotFound, why).run(run));
    }
    let (app, request) = (app.clone(), (request, repeat));
    reply::Reply::new(app, (run, None), request, reader, room).send(observed).await
}

/// A request with an idempotency key may be repeated whatever became of it.
fn keyed(error: ApiError, headers: &HeaderMap) -> ApiError {
    if headers.contains_key(IDEMPOTENCY_KEY) { error.keyed() } else { error }
}

/// A drawn id, or the one that the caller's idempotency key always gives; then also whether it is a repeat.
async fn run_id(
    app: &App,
    caller: &Caller,
    request: &Request,
    session: Option<SessionId>,
) -> Result<(RunId, Repeat), ApiError> {
    let Some(key) = request.headers.get(IDEMPOTENCY_KEY) else {
        let place = session.map_or_else(|| app.place(), SessionId::place);
        return Ok((RunId::new(place, app.entropy().draw()), Repeat::First));
    };
    idempotency_key(key)?;
    let purpose = format!("piton/idempotency/{}", request.door.name());
    let (actor, session) =
        (caller.actor.to_string(), session.map(|id| (id.place(), id.to_string())));
    let name = session.as_ref().map_or("", |(_, name)| name);
    let parts: [&[u8]; 4] = [purpose.as_bytes(), actor.as_bytes(), name.as_bytes(), key.as_bytes()];
    let place = session.as_ref().map_or_else(|| place_of(digest(&parts)), |(place, _)| *place);
    let run = RunId::derived(place, &parts);
    let known = app.observe::<Run>(run).await?.state.life != Life::New;
    Ok((run, if known { Repeat::Again } else { Repeat::First }))
}

fn spec(
    app: &App,
    caller: &Caller,
    request: &Request,
    session: Option<SessionId>,
    input: &[Message],
) -> Result<Spec, ApiError> {
    let asked = &request.asked;
    let (model, role) = model_or_role(&asked.model)?;
    let plane = request.door.plane();
    let role = match (plane, model) {
        (Plane::Embeddings, Some(_named)) => Role::embedding(),
        (Plane::Model | Plane::Run, _) | (Plane::Embeddings, None) => role,
    };
    let said = Draft {
        plane,
        delivery: request.door.delivery(),
        caller: caller.actor,
        project: "default".to_owned(),
        session,
        model,
        role,
        needs: needs(&asked.messages),
        phase: None,
        tools: asked.tools.clone(),
        server_tools: vec![],
        params: asked.params.clone(),
        input: input.iter().map(Message::body).collect(),
        limits: app.run_limits(plane),
        approval_mode: ApprovalMode::Hold,
        source: Source::default(),
        metadata: asked.metadata.clone(),
        input_hash: request.input_hash,
    };
    let spec = draft(app, said)?;
    if plane == Plane::Embeddings { alone(spec, model) } else { Ok(spec) }
}

/// Vectors of two models can not be compared: nobody stands in for the one that was asked for.
fn alone(mut spec: Spec, named: Option<&str>) -> Result<Spec, ApiError> {
    spec.route.truncate(1);
    let Some(first) = spec.route.first() else { return Ok(spec) };
    let stands_in = named.is_some_and(|named| !named.trim().ends_with(&first.model));
    if !stands_in && spec.dropped.is_empty() {
        return Ok(spec);
    }
    let (named, by) = (named.unwrap_or_default(), format!("{}:{}", first.provider, first.model));
    let why = format!(
        "model: {named} is not served here, and {by} does not stand in for it, for vectors of two models can not \
         be compared: name {by}, or a model of another provider"
    );
    Err(ApiError::new(Code::InvalidModel, why).param("model"))
}
