//! A turn bound to a session. Clients resend whole histories: what they send must begin with what the
//! session has, and only the new tail is appended. If it does not, the client is told the first difference, or gets a
//! session of its own when it asks for a fork.

use super::reply::{Repeat, Reply};
use super::{Request, spec};
use crate::app::{App, DECISION, place_of};
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::front::asked::Asked;
use crate::front::history::{self, Difference, History};
use crate::routes::runs::start::IDEMPOTENCY_KEY;
use crate::routes::spec::{model_or_role, needs};
use actors::live::Reader;
use actors::order::{Lane, Observed};
use actors::routing::Wanted;
use axum::http::HeaderMap;
use axum::response::Response;
use events::id::{RunId, SessionId, digest};
use events::message::{Body, Message, Role};
use events::run::life::Outcome;
use events::run::{self, Run};
use events::session::{Command, OnBusy, Session, State};
use std::sync::Arc;
use std::time::Duration;
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

pub(super) async fn answer(
    app: &App,
    caller: &Caller,
    name: &str,
    request: Request,
    room: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    let mut id = session_id(caller, name);
    for _ in 0..TRIES_MAX {
        let seen = app.observe::<Session>(id).await?;
        let taken = match repeated(app, caller, (id, &seen.state), &request).await? {
            Some(again) => Step::Follow(again, Repeat::Again),
            None => step(app, caller, (id, &seen.state), &request).await?,
        };
        match taken {
            Step::Follow(taken, repeat) => {
                return follow(app, id, taken, (request, repeat), room).await;
            }
            Step::Fork(fork) => id = fork,
            Step::Again => (),
        }
    }
    let why = format!(
        "session {id} went on {TRIES_MAX} times while this request was read: send it again"
    );
    Err(ApiError::new(Code::SessionBusy, why))
}

/// What one look at the session came to.
enum Step {
    /// A run answers the request.
    Follow(Taken, Repeat),
    /// It goes on in a session of its own.
    Fork(SessionId),
    /// The session moved: look again.
    Again,
}

type Taken = (RunId, Observed<Run>, Reader);

/// The request continues what the session has, answers what its run is held for, or does not fit.
async fn step(
    app: &App,
    caller: &Caller,
    (id, session): (SessionId, &State),
    request: &Request,
) -> Result<Step, ApiError> {
    let asked = &request.asked;
    let held = held(app, session).await?;
    if let Some((run, observed)) = &held
        && goes_on(app, &observed.state, asked)
        && let Some(results) = results(session, &observed.state, asked)?
    {
        let taken = tell(app, caller, (*run, observed), results).await?;
        return Ok(taken.map_or(Step::Again, |taken| Step::Follow(taken, Repeat::First)));
    }
    if let Some(taken) = told(app, session, asked).await? {
        return Ok(Step::Follow(taken, Repeat::Again));
    }
    let tail_from = match history::compare(&messages(&session.messages)?, &asked.messages) {
        History::Continues { tail_from } => tail_from,
        History::Differs { at, .. } if wants_fork(&request.headers) => {
            // Of a past that only ends earlier, what is said last is asked anew.
            let at = at.min(asked.messages.len().saturating_sub(1));
            return fork(app, caller, (id, session), at, &request.headers).await.map(Step::Fork);
        }
        History::Differs { at, why } => return Err(mismatch(id, &request.door.place(at), &why)),
    };
    let input = asked.messages.get(tail_from..).unwrap_or_default();
    if input.is_empty() {
        let why =
            format!("session {id} already has all {tail_from} messages: send a new one at the end");
        return Err(ApiError::new(Code::InvalidRequest, why).param("messages"));
    }
    if let Some((run, _)) = held {
        // The caller goes on without the results that its run waits for.
        let order = app.order(run::Command::ClientGone, caller.actor, Lane::Control);
        app.decide::<Run>(run, order).await?;
        released(app, id, run).await?;
        return Ok(Step::Again);
    }
    submit(app, caller, (id, session), request, input).await
}

async fn submit(
    app: &App,
    caller: &Caller,
    (id, session): (SessionId, &State),
    request: &Request,
    input: &[Message],
) -> Result<Step, ApiError> {
    let (run, repeat) = super::run_id(app, caller, request, Some(id)).await?;
    let reader = app.live.reader(run);
    let spec = Arc::new(spec(app, caller, request, Some(id), input)?);
    let count = u32::try_from(session.messages.len()).unwrap_or(u32::MAX);
    // What another request has in flight will be part of the conversation: this one was written without it.
    let command = Command::Submit { run, spec, on_busy: OnBusy::Reject, seen: Some(count) };
    let order = app.order(command, caller.actor, Lane::Data);
    match app.ask::<Session>(id, order).await? {
        // From here on the work is done whatever becomes of this request.
        Ok(_taken) => match app.observe::<Run>(run).await {
            Ok(observed) => Ok(Step::Follow((run, observed, reader), repeat)),
            Err(error) => Err(ApiError::new(Code::Lost, error.to_string()).run(run)),
        },
        Err(events::session::Refusal::HistoryMoved { .. }) => Ok(Step::Again),
        Err(events::session::Refusal::Busy) => busy(app, caller, id, request).await,
        Err(refusal) => Err(refusal.into()),
    }
}

/// Somebody was quicker. If it was this very request, its run answers; if that run is over, its end is on the way into
/// the session; else the caller is told.
async fn busy(
    app: &App,
    caller: &Caller,
    id: SessionId,
    request: &Request,
) -> Result<Step, ApiError> {
    let session = app.observe::<Session>(id).await?.state;
    if let Some(taken) = repeated(app, caller, (id, &session), request).await? {
        return Ok(Step::Follow(taken, Repeat::Again));
    }
    let Some(lock) = &session.lock else { return Ok(Step::Again) };
    let observed = app.observe::<Run>(lock.run).await?;
    if observed.state.ended().is_none() {
        return Err(events::session::Refusal::Busy.into());
    }
    released(app, id, lock.run).await?;
    Ok(Step::Again)
}

async fn follow(
    app: &App,
    id: SessionId,
    (run, observed, reader): Taken,
    request: (Request, Repeat),
    room: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    Reply::new(app.clone(), (run, Some(id)), request, reader, room).send(observed).await
}

/// A request that was sent before, as clients do when they lost an answer: by its idempotency key, or because it is,
/// byte for byte, the one that is at work or made the newest turn. It is answered by that run. Without a key, what made
/// no turn is asked again.
async fn repeated(
    app: &App,
    caller: &Caller,
    (id, session): (SessionId, &State),
    request: &Request,
) -> Result<Option<Taken>, ApiError> {
    let keyed = match super::run_id(app, caller, request, Some(id)).await? {
        (run, Repeat::Again) => Some(run),
        (_, Repeat::First) => None,
    };
    let at_work = session.lock.as_ref().map(|lock| lock.run);
    for run in [keyed, at_work, session.ended.back().copied()].into_iter().flatten() {
        let observed = app.observe::<Run>(run).await?;
        let is_keyed = keyed == Some(run);
        let is_same =
            observed.state.spec.as_ref().is_some_and(|spec| spec.input_hash == request.input_hash);
        if is_same && (is_keyed || !in_vain(&observed.state)) {
            return Ok(Some((run, observed, app.live.reader(run))));
        }
        if is_keyed {
            return Err(run::Refusal::OtherInput.into());
        }
    }
    Ok(None)
}

/// Whether a run is over and made no turn.
fn in_vain(run: &run::State) -> bool {
    run.ended().is_some_and(|end| end.outcome != Outcome::Completed)
}

/// A request whose results the newest run has been told before, sent again by a client that lost the answer: that run
/// has all of its messages and at most the answer besides. It was opened by another request, so no hash tells.
async fn told(app: &App, session: &State, asked: &Asked) -> Result<Option<Taken>, ApiError> {
    let at_work = session.lock.as_ref().map(|lock| lock.run);
    let Some(run) = at_work.or(session.ended.back().copied()) else { return Ok(None) };
    if asked.messages.last().is_none_or(|last| last.role != Role::Tool) {
        return Ok(None);
    }
    let observed = app.observe::<Run>(run).await?;
    let state = &observed.state;
    if in_vain(state) || !goes_on(app, state, asked) {
        return Ok(None);
    }
    let own = state.transcript.iter().chain(&state.answers).filter(|_| at_work.is_some());
    let said: Vec<Body> = session.messages.iter().chain(own).cloned().collect();
    let said = messages(&said)?;
    let is_repeat = match history::after(&asked.messages, &said) {
        Some([]) => state.ended().is_none(),
        Some([answer]) => answer.role == Role::Assistant,
        Some([_, _, ..]) | None => false,
    };
    if !is_repeat {
        return Ok(None);
    }
    let mut reader = app.live.reader(run);
    // What was said before these results is no part of this answer.
    reader.begin(state.model.as_ref().map_or(state.next_call, |open| open.asked.call));
    Ok(Some((run, observed, reader)))
}

/// The session's run that waits for the caller's tools.
async fn held(app: &App, session: &State) -> Result<Option<(RunId, Observed<Run>)>, ApiError> {
    let Some(lock) = &session.lock else { return Ok(None) };
    let observed = app.observe::<Run>(lock.run).await?;
    Ok(observed.state.held.is_some().then_some((lock.run, observed)))
}

/// Whether the request wants the same model to go on in the same way; otherwise it is a run of its own, over the same
/// messages.
fn goes_on(app: &App, run: &run::State, asked: &Asked) -> bool {
    let Ok((model, role)) = model_or_role(&asked.model) else { return false };
    let needs = needs(&asked.messages);
    let project = run.spec.as_ref().map_or("default", |spec| &*spec.project);
    let routed = app.routing().route(&Wanted { needs, project, ..Wanted::model(model, &role) });
    run.spec.as_ref().is_some_and(|spec| {
        let same_route = routed.is_ok_and(|routed| routed.route == spec.route);
        spec.params == asked.params && spec.tools == asked.tools && spec.role == role && same_route
    })
}

/// The results of the caller's tools, if that is what the request adds to what was said.
fn results<'a>(
    session: &State,
    run: &run::State,
    asked: &'a Asked,
) -> Result<Option<&'a [Message]>, ApiError> {
    let said: Vec<Body> = session.messages.iter().chain(&run.transcript).cloned().collect();
    let History::Continues { tail_from } = history::compare(&messages(&said)?, &asked.messages)
    else {
        return Ok(None);
    };
    let tail = asked.messages.get(tail_from..).unwrap_or_default();
    let is_results = !tail.is_empty() && tail.iter().all(|message| message.role == Role::Tool);
    Ok(is_results.then_some(tail))
}

/// Brings the results; none if the run has gone on meanwhile, as it does when the same request comes twice at once.
async fn tell(
    app: &App,
    caller: &Caller,
    (run, held): (RunId, &Observed<Run>),
    results: &[Message],
) -> Result<Option<Taken>, ApiError> {
    let mut reader = app.live.reader(run);
    // What came before the calls has been sent with them; from another node it may only come now.
    reader.begin(held.state.next_call);
    let command =
        run::Command::ClientAnswer { results: results.iter().map(Message::body).collect() };
    let order = app.order(command, caller.actor, Lane::Data);
    let refusal = match app.ask::<Run>(run, order).await? {
        Ok(observed) => return Ok(Some((run, observed, reader))),
        Err(refusal) => refusal,
    };
    let now = app.observe::<Run>(run).await?;
    if now.version == held.version { Err(refusal.into()) } else { Ok(None) }
}

/// Waits until the session has taken the run's end, so that what is compared next is what it has.
async fn released(app: &App, id: SessionId, run: RunId) -> Result<(), ApiError> {
    let mut beliefs = app.watch::<Session>(id).await?;
    let free = |observed: &Observed<Session>| {
        observed.state.lock.as_ref().is_none_or(|lock| lock.run != run)
    };
    let wait = beliefs.wait_for(free);
    match tokio::time::timeout(Duration::from_millis(DECISION.0), wait).await {
        // A host that went away is looked at again by the caller.
        Ok(_free_or_gone) => Ok(()),
        Err(_late) => Err(actors::order::NoDecision::TimedOut.into()),
    }
}

async fn fork(
    app: &App,
    caller: &Caller,
    (parent, state): (SessionId, &State),
    at: usize,
    headers: &HeaderMap,
) -> Result<SessionId, ApiError> {
    let id = match headers.get(IDEMPOTENCY_KEY) {
        // A repeat finds the fork that its first one made, and there its run.
        Some(key) => {
            let (actor, from) = (caller.actor.to_string(), parent.to_string());
            let parts: [&[u8]; 4] =
                [b"piton/fork", actor.as_bytes(), from.as_bytes(), key.as_bytes()];
            SessionId::derived(parent.place(), &parts)
        }
        None => SessionId::new(parent.place(), app.entropy().draw()),
    };
    let command = Command::Fork {
        parent,
        at: u32::try_from(at).unwrap_or(u32::MAX),
        messages: state.messages.iter().take(at).cloned().collect(),
        project: state
            .opened
            .as_ref()
            .map_or_else(|| "default".to_owned(), |opened| opened.project.clone()),
        by: caller.actor,
    };
    let order = app.order(command, caller.actor, Lane::Data);
    app.decide::<Session>(id, order).await?;
    Ok(id)
}

fn messages(bodies: &[Body]) -> Result<Vec<Message>, ApiError> {
    bodies.iter().map(|body| body.message().map_err(ApiError::unreadable)).collect()
}

fn mismatch(id: SessionId, place: &str, why: &Difference) -> ApiError {
    let mend = "send the session's own messages first, or `x-piton-history: fork` for a session of its own";
    let message = format!("session {id}: {place} {why}; {mend}");
    ApiError::new(Code::HistoryMismatch, message).param(place)
}
