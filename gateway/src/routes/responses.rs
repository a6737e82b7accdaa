//! `/v1/responses`: the door of OpenAI's newer clients, and what it keeps.
//!
//! A response is a run that stands alone. What it goes on from is read from that run's own stream, so that any node
//! knows it, a restart forgets nothing, and two requests may go on from one response.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::{Query, Whole};
use crate::front::asked::Asked;
use crate::front::door::{Door, Ending, Failure};
use crate::front::responses::object::{self, Standing};
use crate::front::responses::{self, Mark, Style};
use crate::routes::turn::{self, refused};
use actors::order::Lane;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use events::id::RunId;
use events::journal;
use events::message::{Body, Message, NotAMessage};
use events::run::life::Outcome;
use events::run::spec::Spec;
use events::run::{self, Run};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Runs that the items of one request name: 256, the newest first. Each is read from its stream; a conversation that
/// resends the reasoning of more turns goes on without that of the oldest.
const NAMED_MAX: usize = 256;
/// What binds the other doors to a session.
const SESSION: &str = "x-piton-session-id";

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/responses", post(create))
        .route("/v1/responses/{id}", get(show).delete(delete))
}

/// Answers a request.
///
/// # Errors
///
/// 400 for a malformed body, 404 for a response to go on from that is not there, and those of [`turn::answer`].
pub async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    if headers.contains_key(SESSION) {
        let why = format!(
            "{SESSION}: a response is no part of a session; go on with previous_response_id"
        );
        return Err(ApiError::new(Code::InvalidRequest, why).param(SESSION));
    }
    let request = responses::parse(&body).map_err(|bad| refused(&bad))?;
    let before = match request.previous {
        Some(run) => before(&app, &caller, run).await?,
        None => vec![],
    };
    let answers = named(&app, &caller, &request).await?;
    let messages = request.messages(before, &answers).map_err(|bad| refused(&bad))?;
    if messages.is_empty() {
        let why = "input: says nothing; send at least one message";
        return Err(ApiError::new(Code::InvalidRequest, why).param("input"));
    }
    fits(&app, &messages)?;
    let mark = Mark::of(&request, app.clock().now());
    let door = Door::Responses(Box::new(Style::of(&request, mark.clone())));
    let responses::Request { model, tools, params, mut metadata, .. } = request;
    mark.keep(&mut metadata);
    let asked = Asked { model, messages, tools, params, metadata };
    let request = turn::Request { asked, door, input_hash: journal::hash(&body), headers };
    turn::answer(&app, &caller, request).await
}

/// What may be asked of a read.
#[derive(Debug, Deserialize)]
pub struct Read {
    stream: Option<bool>,
}

/// Gives a response again.
///
/// # Errors
///
/// 404 for one that is not there, was not stored, was deleted, or is another caller's.
pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(read): Query<Read>,
) -> Result<Json<Value>, ApiError> {
    if read.stream == Some(true) {
        let why =
            "stream: a response is read as it stands; for its events read GET /v1/runs/{id}/events";
        return Err(ApiError::new(Code::InvalidRequest, why).param("stream"));
    }
    let run = responses::run(&id).ok_or_else(|| unknown(&id))?;
    let state = stored(&app, &caller, run).await?.ok_or_else(|| unknown(&id))?;
    let style = state.spec.as_deref().and_then(Style::frozen).ok_or_else(|| unknown(&id))?;
    Ok(Json(shown(run, &state, &style)))
}

/// Deletes a response: its id is known no more, neither to be read nor to go on from. One that is being worked on is
/// stopped. The run's journal keeps it, and what went on from it holds its words too.
///
/// # Errors
///
/// 404 for one that is not there, was not stored, was deleted before, or is another caller's.
pub async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let run = responses::run(&id).ok_or_else(|| unknown(&id))?;
    stored(&app, &caller, run).await?.ok_or_else(|| unknown(&id))?;
    let order = app.order(run::Command::withhold(), caller.actor, Lane::Control);
    app.decide::<Run>(run, order).await?;
    Ok(Json(object::deleted(run)))
}

/// The object of a run as it stands.
fn shown(run: RunId, state: &run::State, style: &Style) -> Value {
    let Some(end) = state.ended() else { return object::object(run, Standing::Working, style) };
    if end.outcome == Outcome::Cancelled {
        return object::object(run, Standing::Cancelled, style);
    }
    match turn::answered(state) {
        Ok((message, finish)) => {
            let end = Ending { message: &message, finish, usage: &state.usage };
            object::object(run, Standing::Ended(&end), style)
        }
        Err(error) => {
            let (kind, code) = error.words();
            let (status, message) = (error.status().as_u16(), error.message());
            let failure = Failure { status, class: error.failed(), message, kind, code };
            object::object(run, Standing::Failed(&failure), style)
        }
    }
}

fn unknown(id: &str) -> ApiError {
    let why = format!(
        "there is no response {id:?} that was stored for you: it is another key's, was not stored, was deleted, or never was"
    );
    ApiError::new(Code::NotFound, why)
}

/// A response of this caller's own that was not deleted, whether it was stored or not.
async fn own(
    app: &App,
    caller: &Caller,
    run: RunId,
) -> Result<Option<(Arc<run::State>, Mark)>, ApiError> {
    let state = app.observe::<Run>(run).await?.state;
    let theirs = |spec: &&Spec| spec.caller == caller.actor && !state.withheld;
    let mark = state.spec.as_deref().filter(theirs).and_then(Mark::read);
    Ok(mark.map(|mark| (state, mark)))
}

/// One that may be read again.
async fn stored(
    app: &App,
    caller: &Caller,
    run: RunId,
) -> Result<Option<Arc<run::State>>, ApiError> {
    let found = own(app, caller, run).await?;
    Ok(found.filter(|(_, mark)| mark.is_stored()).map(|(state, _)| state))
}

/// What was said up to a response, its answer included.
async fn before(app: &App, caller: &Caller, run: RunId) -> Result<Vec<Message>, ApiError> {
    const FIELD: &str = "previous_response_id";
    let id = responses::id(run);
    let found = own(app, caller, run).await?.filter(|(_, mark)| mark.is_stored());
    let (state, mark) = found.ok_or_else(|| unknown(&id).param(FIELD))?;
    if state.ended().is_none() || turn::answered(&state).is_err() {
        let why = format!(
            "{FIELD}: {id} has no answer to go on from; wait for it, or go on from the one before"
        );
        return Err(ApiError::new(Code::InvalidRequest, why).param(FIELD));
    }
    let said: Result<Vec<Message>, NotAMessage> =
        state.transcript.iter().map(Body::message).collect();
    Ok(mark.said(said.map_err(ApiError::unreadable)?))
}

/// The answers that the items of a request name, as far as they are the caller's.
async fn named(
    app: &App,
    caller: &Caller,
    request: &responses::Request,
) -> Result<BTreeMap<RunId, Message>, ApiError> {
    let mut answers = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for run in request.items.iter().rev().filter_map(responses::input::Item::names) {
        if seen.len() >= NAMED_MAX || !seen.insert(run) {
            continue;
        }
        let Some((state, _)) = own(app, caller, run).await? else { continue };
        if let Some(answer) = state.answer() {
            answers.insert(run, answer.message().map_err(ApiError::unreadable)?);
        }
    }
    Ok(answers)
}

/// A conversation is frozen whole with each of its responses, so it is bounded as a body is.
fn fits(app: &App, messages: &[Message]) -> Result<(), ApiError> {
    let bytes = messages.iter().map(|message| message.body().json().as_bytes().len());
    let (all, most) = (bytes.sum::<usize>(), app.config.limits.max_body_bytes);
    if all <= most {
        return Ok(());
    }
    let why = format!(
        "the conversation has {all} bytes with what previous_response_id brings and the most is {most} \
         (limits.max_body_bytes): summarise it into a new one"
    );
    Err(ApiError::new(Code::PayloadTooLarge, why).param("input"))
}
