//! A chat completion bound to a session. Clients resend whole histories: what they send must begin with what the
//! session has, and only the new tail is appended. If it does not, the client is told the first difference, or gets a
//! session of its own when it asks for a fork.

use super::reply::Reply;
use super::spec;
use crate::app::{App, place_of};
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::front::chat::Asked;
use crate::front::chat::history::{self, Difference, History};
use actors::live::Reader;
use actors::order::{Lane, Observed};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use events::id::{RunId, SessionId, digest};
use events::message::{Body, Message, Role};
use events::record::Hash;
use events::run::{self, Run};
use events::session::{Command, OnBusy, Session, State};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Characters of a session's name.
const NAME_MAX: usize = 128;
/// How often a submission is written anew because the conversation went on meanwhile.
const TRIES_MAX: u32 = 8;

/// The session that a request is bound to: an id, or a name that the caller chose.
pub(super) fn session(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("x-piton-session-id") else { return Ok(None) };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    let name = value
        .to_str()
        .ok()
        .filter(|name| !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(allowed));
    name.map(|name| Some(name.to_owned())).ok_or_else(|| {
        let rule = format!("x-piton-session-id must have 1 to {NAME_MAX} of a-z A-Z 0-9 _ - . :");
        ApiError::new(Code::InvalidRequest, rule).param("x-piton-session-id")
    })
}

fn session_id(caller: &Caller, name: &str) -> SessionId {
    let actor = caller.actor.to_string();
    let parts: [&[u8]; 3] = [b"piton/session", actor.as_bytes(), name.as_bytes()];
    name.parse().unwrap_or_else(|_chosen| SessionId::derived(place_of(digest(&parts)), &parts))
}

fn wants_fork(headers: &HeaderMap) -> bool {
    headers.get("x-piton-history").and_then(|value| value.to_str().ok()) == Some("fork")
}

pub(super) async fn complete(
    app: &App,
    caller: &Caller,
    name: &str,
    headers: &HeaderMap,
    (asked, input_hash): (Asked, Hash),
    room: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    let mut id = session_id(caller, name);
    for _ in 0..TRIES_MAX {
        let seen = app.observe::<Session>(id).await?;
        if let Some(taken) = resume(app, caller, &seen.state, &asked).await? {
            return follow(app, id, taken, asked, room).await;
        }
        let tail_from = match history::compare(&messages(&seen.state.messages)?, &asked.messages) {
            History::Continues { tail_from } => tail_from,
            History::Differs { at, .. } if wants_fork(headers) => {
                id = fork(app, caller, (id, &seen.state), at).await?;
                continue;
            }
            History::Differs { at, why } => return Err(mismatch(id, at, &why)),
        };
        let input = asked.messages.get(tail_from..).unwrap_or_default();
        if input.is_empty() {
            let why = format!(
                "session {id} already has all {tail_from} messages: send a new one at the end"
            );
            return Err(ApiError::new(Code::InvalidRequest, why).param("messages"));
        }
        let run = RunId::new(id.place(), app.entropy().draw());
        let reader = app.live.reader(run);
        let spec = Arc::new(spec(app, caller, &asked, input, input_hash)?);
        let count = u32::try_from(seen.state.messages.len()).unwrap_or(u32::MAX);
        let command = Command::Submit { run, spec, on_busy: OnBusy::Queue, seen: Some(count) };
        let order = app.order(command, caller.actor, Lane::Data);
        match app.bus.decide::<Session>(id, order).await? {
            Ok(_taken) => {
                let observed = app.observe::<Run>(run).await?;
                return follow(app, id, (run, observed, reader), asked, room).await;
            }
            Err(events::session::Refusal::HistoryMoved { .. }) => (),
            Err(refusal) => return Err(refusal.into()),
        }
    }
    let why = format!(
        "session {id} went on {TRIES_MAX} times while this request was read: send it again"
    );
    Err(ApiError::new(Code::SessionBusy, why))
}

type Taken = (RunId, Observed<Run>, Reader);

async fn follow(
    app: &App,
    id: SessionId,
    (run, observed, reader): Taken,
    asked: Asked,
    room: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    let reply = Reply { app: app.clone(), run, session: Some(id), asked, reader, _room: room };
    let mut response = reply.send(observed).await?;
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert("x-piton-session-id", value);
    }
    Ok(response)
}

/// A run of the session that waits for the caller's tools is given their results; if the caller goes on without them,
/// it is ended first.
async fn resume(
    app: &App,
    caller: &Caller,
    session: &State,
    asked: &Asked,
) -> Result<Option<Taken>, ApiError> {
    let Some(lock) = &session.lock else { return Ok(None) };
    let observed = app.observe::<Run>(lock.run).await?;
    if observed.state.held.is_none() {
        return Ok(None);
    }
    let said: Vec<Body> =
        session.messages.iter().chain(&observed.state.transcript).cloned().collect();
    let results = match history::compare(&messages(&said)?, &asked.messages) {
        History::Continues { tail_from } => asked.messages.get(tail_from..).unwrap_or_default(),
        History::Differs { .. } => &[],
    };
    if results.is_empty() || results.iter().any(|message| message.role != Role::Tool) {
        let order = app.order(run::Command::ClientGone, caller.actor, Lane::Control);
        app.decide::<Run>(lock.run, order).await?;
        released(app, session, lock.run).await?;
        return Ok(None);
    }
    let mut reader = app.live.reader(lock.run);
    // What came before the calls has been sent with them.
    let _sent = reader.take();
    let command =
        run::Command::ClientAnswer { results: results.iter().map(Message::body).collect() };
    let order = app.order(command, caller.actor, Lane::Data);
    let observed = app.decide::<Run>(lock.run, order).await?;
    Ok(Some((lock.run, observed, reader)))
}

/// Waits until the session has taken the run's end, so that what is compared next is what it has.
async fn released(app: &App, session: &State, run: RunId) -> Result<(), ApiError> {
    let id = session.lock.as_ref().filter(|lock| lock.run == run).map(|lock| lock.run);
    let observed = app.observe::<Run>(run).await?;
    let (Some(_), Some(session)) = (id, observed.state.session) else { return Ok(()) };
    let mut beliefs = app.directory.sessions.watch(session).await?;
    let free = |observed: &Observed<Session>| {
        observed.state.lock.as_ref().is_none_or(|lock| lock.run != run)
    };
    let wait = beliefs.wait_for(free);
    match tokio::time::timeout(std::time::Duration::from_millis(crate::app::DECISION.0), wait).await
    {
        Ok(_free) => Ok(()),
        Err(_late) => Err(actors::order::NoDecision::TimedOut.into()),
    }
}

async fn fork(
    app: &App,
    caller: &Caller,
    (parent, state): (SessionId, &State),
    at: usize,
) -> Result<SessionId, ApiError> {
    let id = SessionId::new(parent.place(), app.entropy().draw());
    let command = Command::Fork {
        parent,
        at: u32::try_from(at).unwrap_or(u32::MAX),
        messages: state.messages.iter().take(at).cloned().collect(),
        project: "default".to_owned(),
        by: caller.actor,
    };
    let order = app.order(command, caller.actor, Lane::Data);
    app.decide::<Session>(id, order).await?;
    Ok(id)
}

fn messages(bodies: &[Body]) -> Result<Vec<Message>, ApiError> {
    bodies.iter().map(|body| body.message().map_err(ApiError::unreadable)).collect()
}

fn mismatch(id: SessionId, at: usize, why: &Difference) -> ApiError {
    let mend = "send the session's own messages first, or `x-piton-history: fork` for a session of its own";
    let message = format!("session {id}: messages[{at}] {why}; {mend}");
    ApiError::new(Code::HistoryMismatch, message).param(format!("messages[{at}]"))
}
