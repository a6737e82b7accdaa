//! The answer to a chat completion: whole, or as it comes. A stream ends in one of three honest ways: done,
//! incomplete with its reason, or an error in so many words.

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::front::chat::answer::{Finish, Head, whole};
use crate::front::chat::frames::Frames;
use crate::front::chat::problem::Problem;
use crate::front::chat::{Asked, Stream, UsageChunk};
use crate::stream::sse;
use crate::wire::usage::dollars;
use actors::live::{Found, Reader};
use actors::order::Observed;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use events::id::{RunId, SessionId};
use events::message::{Message, Role};
use events::run::life::{Finished, Outcome, Reason};
use events::run::step::Stop;
use events::run::{Run, State};
use futures_util::stream;
use providers::Delta as Piece;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// One request that waits for its run.
pub(super) struct Reply {
    pub(super) app: App,
    pub(super) run: RunId,
    pub(super) session: Option<SessionId>,
    pub(super) asked: Asked,
    pub(super) reader: Reader,
    /// Held until the answer is complete.
    pub(super) _room: OwnedSemaphorePermit,
}

/// What the caller waits for: the run's end, or that it is held for the caller's own tools.
fn is_answered(state: &State) -> bool {
    state.ended().is_some() || state.held.is_some()
}

impl Reply {
    pub(super) async fn send(self, observed: Observed<Run>) -> Result<Response, ApiError> {
        match self.asked.stream {
            Stream::Whole => {
                let mut wait = Wait { app: self.app.clone(), run: self.run, beliefs: None };
                let observed = wait.answered(observed).await?;
                self.whole(&observed.state)
            }
            Stream::Events { usage } => self.stream(observed, usage).await,
        }
    }

    fn head(&self) -> Head {
        Head::of(self.run, self.app.clock().now(), &self.asked.model)
    }

    fn whole(&self, state: &State) -> Result<Response, ApiError> {
        let (message, finish) = answer(state)?;
        let body = whole(&self.head(), &message, finish, &state.usage);
        let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
        self.provenance(response.headers_mut(), state);
        if let Value::Number(cost) = dollars(state.total.cost) {
            set(response.headers_mut(), "x-piton-cost-usd", &cost.to_string());
        }
        Ok(response)
    }

    fn provenance(&self, headers: &mut HeaderMap, state: &State) {
        set(headers, "x-piton-run-id", &self.run.to_string());
        let served = state.served.as_ref().map(|(provider, model)| format!("{provider}:{model}"));
        let primary = || {
            state
                .spec
                .as_ref()
                .and_then(|spec| spec.route.first())
                .map(|one| format!("{}:{}", one.provider, one.model))
        };
        if let Some(by) = served.or_else(primary) {
            set(headers, "x-piton-served-by", &by);
        }
        if let Some(session) = self.session {
            set(headers, "x-piton-session-id", &session.to_string());
        }
    }

    /// The first piece decides: until then an error is still an HTTP status.
    async fn stream(
        mut self,
        observed: Observed<Run>,
        usage: UsageChunk,
    ) -> Result<Response, ApiError> {
        let mut wait = Wait { app: self.app.clone(), run: self.run, beliefs: None };
        let mut newest = observed;
        let first = loop {
            let found = self.reader.take();
            if !found.is_empty() {
                break found;
            }
            if is_answered(&newest.state) {
                answer(&newest.state)?;
                break vec![];
            }
            newest = wait.change(&mut self.reader, newest).await?;
        };
        let mut headers = HeaderMap::new();
        self.provenance(&mut headers, &newest.state);
        let frames = Frames::new(&self.head(), usage);
        let open = Open {
            reply: self,
            wait,
            newest,
            frames: Some(frames),
            said: Said::Nothing,
            found: first,
        };
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
fn answer(state: &State) -> Result<(Message, Finish), ApiError> {
    if let Some(end) = state.ended().filter(|end| end.outcome != Outcome::Completed) {
        return Err(failure(end));
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

fn failure(end: &Finished) -> ApiError {
    let detail = end.detail.as_str();
    match &end.reason {
        Reason::ModelFailed(class) => ApiError::of_class(*class, detail),
        Reason::ModelUnknown => {
            ApiError::new(Code::ProvidersExhausted, format!("the model call was lost: {detail}"))
        }
        Reason::Stopped => ApiError::new(Code::RunEnded, "the run was stopped".to_owned()),
        Reason::Answered
        | Reason::ToolCalls
        | Reason::Length
        | Reason::ContentFilter
        | Reason::StepLimit
        | Reason::Budget
        | Reason::ClientToolGone => {
            ApiError::new(Code::RunEnded, format!("the run ended: {detail}"))
        }
    }
}

/// Follows a run's beliefs.
struct Wait {
    app: App,
    run: RunId,
    beliefs: Option<watch::Receiver<Observed<Run>>>,
}

impl Wait {
    async fn beliefs(&mut self) -> Result<&mut watch::Receiver<Observed<Run>>, ApiError> {
        let beliefs = match self.beliefs.take() {
            Some(beliefs) => beliefs,
            None => self.app.directory.runs.watch(self.run).await?,
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
    async fn change(
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

/// What has gone out so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Opened,
    Something,
}

struct Open {
    reply: Reply,
    wait: Wait,
    newest: Observed<Run>,
    /// Taken by the last frame.
    frames: Option<Frames>,
    said: Said,
    found: Vec<Found>,
}

impl Open {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut out = BytesMut::new();
            let frames = self.frames.as_mut()?;
            if self.said == Said::Nothing {
                out.extend_from_slice(&frames.open());
                self.said = Said::Opened;
            }
            for found in std::mem::take(&mut self.found) {
                // A gap can only be if this reader was slower than a megabyte of text: the stream can not be honest then.
                let Found::Delta(delta) = found else { return Some(self.fail(&lagged())) };
                let bytes = frame(frames, &delta.piece);
                if !bytes.is_empty() {
                    self.said = Said::Something;
                    out.extend_from_slice(&bytes);
                }
            }
            if !out.is_empty() {
                return Some(out.freeze());
            }
            if let Some(last) = self.end() {
                return Some(last);
            }
            if let Err(error) = self.wait().await {
                return Some(self.fail(&error));
            }
            self.found = self.reply.reader.take();
        }
    }

    async fn wait(&mut self) -> Result<(), ApiError> {
        let seen = self.newest.clone();
        self.newest = self.wait.change(&mut self.reply.reader, seen).await?;
        Ok(())
    }

    /// The last frames, once the run has answered and every piece has gone out.
    fn end(&mut self) -> Option<Bytes> {
        if !is_answered(&self.newest.state) {
            return None;
        }
        self.found = self.reply.reader.take();
        if !self.found.is_empty() {
            return None;
        }
        match answer(&self.newest.state) {
            Ok((message, finish)) => {
                let mut frames = self.frames.take()?;
                let mut out = BytesMut::new();
                if self.said != Said::Something {
                    out.extend_from_slice(&frames.said(&message));
                }
                out.extend_from_slice(&frames.finish(finish, &self.newest.state.usage));
                Some(out.freeze())
            }
            Err(error) => Some(self.fail(&error)),
        }
    }

    fn fail(&mut self, error: &ApiError) -> Bytes {
        let Some(frames) = self.frames.take() else { return Bytes::new() };
        let code = error.code();
        frames.fail(&Problem {
            message: error.message(),
            kind: code.kind(),
            param: None,
            code: Some(code.name()),
        })
    }
}

fn lagged() -> ApiError {
    ApiError::new(
        Code::Lost,
        "the reader was too slow for the answer's text: read the run's answer instead".to_owned(),
    )
}

fn frame(frames: &mut Frames, piece: &Piece) -> Bytes {
    match piece {
        Piece::Text(text) => frames.text(text),
        Piece::Refusal(text) => frames.refusal(text),
        // This API has no place for it.
        Piece::Reasoning(_) => Bytes::new(),
        Piece::ToolCallStarted { index, id, name } => frames.call(*index, id, name),
        Piece::ToolCallArguments { index, fragment } => frames.arguments(*index, fragment),
    }
}
