//! The answer to a turn: whole, or as it comes. A stream ends in one of three honest ways: done,
//! incomplete with its reason, or an error in so many words.

use super::Request;
use super::open::Open;
use crate::app::App;
use crate::error::{ApiError, Attempt, Code};
use crate::front::asked::Asked;
use crate::front::created;
use crate::front::door::{Door, Ending, Head};
use crate::front::finish::Finish;
use crate::stream::sse;
use crate::wire;
use crate::wire::usage::dollars;
use actors::live::{Found, Reader};
use actors::order::Observed;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use events::id::{RunId, SessionId};
use events::message::{Message, Role};
use events::model_call::Class;
use events::quantity::{Instant, Millis};
use events::run::life::{Finished, Outcome, Reason};
use events::run::spec::{Candidate, Delivery};
use events::run::step::Stop;
use events::run::tried::Tried;
use events::run::{Run, State};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Whether a request was sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    First,
    Again,
}

/// One request that waits for its run.
pub(super) struct Reply {
    pub(super) app: App,
    pub(super) run: RunId,
    pub(super) session: Option<SessionId>,
    /// The model that was asked for.
    model: String,
    /// When this request came.
    came: Option<Instant>,
    door: Door,
    repeat: Repeat,
    pub(super) reader: Reader,
    /// Held until the answer is complete.
    _room: OwnedSemaphorePermit,
}

/// What the caller waits for: the run's end, or that it is held for the caller's own tools.
pub(super) fn is_answered(state: &State) -> bool {
    state.ended().is_some() || state.held.is_some()
}

impl Reply {
    pub(super) fn new(
        app: App,
        (run, session): (RunId, Option<SessionId>),
        (request, repeat): (Request, Repeat),
        reader: Reader,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let Request { asked: Asked { model, metadata, .. }, door, .. } = request;
        let came = created::read(&metadata);
        Self { app, run, session, model, came, door, repeat, reader, _room: room }
    }

    pub(super) async fn send(mut self, observed: Observed<Run>) -> Result<Response, ApiError> {
        self.door = self.door.frozen(observed.state.spec.as_deref());
        match self.door.delivery() {
            Delivery::Whole => {
                let run = self.run;
                let mut wait = Wait { app: self.app.clone(), run, beliefs: None };
                let observed = wait.answered(observed).await.map_err(|error| error.run(run))?;
                self.whole(&observed.state)
            }
            Delivery::Live => self.stream(observed).await,
        }
    }

    /// What is known of the run once it knows of the call that these pieces are of: they may come before its intent is
    /// seen, and the call before it was somebody else's.
    async fn knows(
        &self,
        newest: Observed<Run>,
        pieces: &[Found],
    ) -> Result<Observed<Run>, ApiError> {
        let call = pieces.iter().find_map(|piece| match piece {
            Found::Delta(delta) => Some(delta.call),
            Found::Gap => None,
        });
        match call {
            Some(call) if newest.state.next_call <= call => self.app.observe::<Run>(self.run).await,
            Some(_) | None => Ok(newest),
        }
    }

    /// A run that goes on with results began when it was opened, and its repeats say the same.
    fn head(&self, state: &State) -> Head<'_> {
        let frozen = state.spec.as_deref().and_then(|spec| created::read(&spec.metadata));
        let created = frozen.or(self.came).unwrap_or_default();
        Head { run: self.run, created, model: &self.model }
    }

    fn whole(&self, state: &State) -> Result<Response, ApiError> {
        let (message, finish) = answer(state).map_err(|error| self.failed(state, error))?;
        let end = Ending { message: &message, finish, usage: &state.usage };
        let body = self.door.whole(&self.head(state), &end);
        let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
        self.provenance(response.headers_mut(), state);
        // What this request cost, if all of it is known; a run that was held has answered others before.
        let cost = if state.total.is_lower_bound() { None } else { state.usage.cost };
        if let Value::Number(cost) = dollars(cost) {
            set(response.headers_mut(), "x-piton-cost-usd", &cost.to_string());
        }
        Ok(response)
    }

    /// The error with its run, and with when a repeat may fare better, where a provider said so.
    fn failed(&self, state: &State, error: ApiError) -> ApiError {
        let error = error.run(self.run);
        let status = error.status();
        let may_pass = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let ready = state.attempts.ready_at.filter(|_| may_pass && error.failed().is_some());
        match ready.map(|at| at.since(self.app.clock().now())) {
            Some(wait @ Millis(1..)) => error.ready_in(wait),
            Some(Millis(0)) | None => error,
        }
    }

    fn provenance(&self, headers: &mut HeaderMap, state: &State) {
        set(headers, "x-piton-run-id", &self.run.to_string());
        if self.repeat == Repeat::Again {
            set(headers, "idempotency-replayed", "true");
        }
        // A stream begins before its answer is there: then whoever is asked serves it.
        if let Some(by) = state.serving() {
            set(headers, "x-piton-served-by", &wire::run::name(&by));
            if let Some(warning) = wire::run::warning(&by) {
                set(headers, "x-piton-warning", &warning);
            }
        }
        if let Some(session) = self.session {
            set(headers, "x-piton-session-id", &session.to_string());
        }
    }

    /// The first piece decides: until then an error is still an HTTP status.
    async fn stream(mut self, observed: Observed<Run>) -> Result<Response, ApiError> {
        let mut wait = Wait { app: self.app.clone(), run: self.run, beliefs: None };
        let mut newest = observed;
        let first = loop {
            let found = self.reader.take();
            if !found.is_empty() {
                break found;
            }
            if is_answered(&newest.state) {
                answer(&newest.state).map_err(|error| self.failed(&newest.state, error))?;
                break vec![];
            }
            newest = wait.change(&mut self.reader, newest).await?;
        };
        newest = self.knows(newest, &first).await?;
        let Some(frames) = self.door.frames(&self.head(&newest.state)) else {
            let newest = wait.answered(newest).await.map_err(|error| error.run(self.run))?;
            return self.whole(&newest.state);
        };
        let mut headers = HeaderMap::new();
        self.provenance(&mut headers, &newest.state);
        let open = Open::new(self, wait, newest, frames, first);
        let body = stream::unfold(open, |mut open| async move {
            let bytes = open.next().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), open))
        });
        let kind = [(header::CONTENT_TYPE, sse::CONTENT_TYPE), (header::CACHE_CONTROL, "no-store")];
        Ok((kind, headers, Body::from_stream(body)).into_response())
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// The message and how it stopped, or what the caller is told instead.
pub(in crate::routes) fn answer(state: &State) -> Result<(Message, Finish), ApiError> {
    if let Some(end) = state.ended().filter(|end| end.outcome != Outcome::Completed) {
        return Err(failure(state, end));
    }
    let message = match state.answer().map(events::message::Body::message) {
        Some(message) => message.map_err(ApiError::unreadable)?,
        None => Message { role: Role::Assistant, name: None, parts: vec![] },
    };
    let calls = message.calls().next().is_some();
    let finish = match state.stop {
        Some(Stop::Length) => Finish::Length,
        Some(Stop::ContentFilter) => Finish::ContentFilter,
        Some(Stop::ToolCalls) => Finish::ToolCalls,
        Some(Stop::End) if calls => Finish::ToolCalls,
        Some(Stop::End) | None => Finish::Stop,
    };
    Ok((message, finish))
}

fn failure(state: &State, end: &Finished) -> ApiError {
    let detail = end.detail.as_str();
    match &end.reason {
        Reason::ModelFailed(class) | Reason::ContextUnfit(class) => {
            ApiError::of_attempts(*class, detail, state.attempts().map(attempt).collect())
        }
        Reason::ModelUnknown => {
            ApiError::new(Code::ProvidersExhausted, format!("the model call was lost: {detail}"))
        }
        Reason::Budget => match &state.short {
            Some(short) => ApiError::short(short),
            None if end.outcome == Outcome::Errored => ApiError::new(Code::Busy, detail),
            None => ApiError::new(Code::BudgetExceeded, detail),
        },
        Reason::NotIndependent => ApiError::new(Code::ProvidersExhausted, detail),
        Reason::Stopped => ApiError::new(Code::RunEnded, "the run was stopped".to_owned()),
        Reason::Answered
        | Reason::ToolCalls
        | Reason::Length
        | Reason::ContentFilter
        | Reason::StepLimit
        | Reason::ClientToolGone => {
            ApiError::new(Code::RunEnded, format!("the run ended: {detail}"))
        }
    }
}

fn attempt((tried, candidate): (&Tried, &Candidate)) -> Attempt {
    Attempt {
        provider: candidate.provider.clone(),
        model: candidate.model.clone(),
        profile: tried.profile.clone(),
        class: tried.class.map_or("lost", Class::name).to_owned(),
        status: tried.status,
        request_id: tried.request_id.clone(),
        duration_ms: tried.took.map(|took| took.0),
        wait_ms: tried.wait.map(|wait| wait.0),
    }
}

/// Follows a run's beliefs.
pub(super) struct Wait {
    app: App,
    run: RunId,
    beliefs: Option<watch::Receiver<Observed<Run>>>,
}

impl Wait {
    async fn beliefs(&mut self) -> Result<&mut watch::Receiver<Observed<Run>>, ApiError> {
        let beliefs = match self.beliefs.take() {
            Some(beliefs) => beliefs,
            None => self.app.watch::<Run>(self.run).await?,
        };
        Ok(self.beliefs.insert(beliefs))
    }

    async fn answered(&mut self, observed: Observed<Run>) -> Result<Observed<Run>, ApiError> {
        let mut newest = observed;
        while !is_answered(&newest.state) {
            let beliefs = self.beliefs().await?;
            let found = beliefs
                .wait_for(|observed| is_answered(&observed.state))
                .await
                .map(|found| found.clone());
            match found {
                Ok(found) => newest = found,
                // The host went away; another one answers.
                Err(_gone) => {
                    self.beliefs = None;
                    newest = self.app.observe::<Run>(self.run).await?;
                }
            }
        }
        Ok(newest)
    }

    /// Waits for a piece or a belief, whichever comes first.
    pub(super) async fn change(
        &mut self,
        reader: &mut Reader,
        seen: Observed<Run>,
    ) -> Result<Observed<Run>, ApiError> {
        let beliefs = self.beliefs().await?;
        if beliefs.borrow_and_update().version > seen.version {
            return Ok(beliefs.borrow().clone());
        }
        let lives = tokio::select! {
            biased;
            () = reader.changed() => true,
            changed = beliefs.changed() => changed.is_ok(),
        };
        if lives {
            return Ok(beliefs.borrow().clone());
        }
        self.beliefs = None;
        self.app.observe::<Run>(self.run).await
    }
}
