//! The demo's HTTP: OpenAI chat completions, streamed and not, embeddings, and the list of its models.
//!
//! Ids come from a digest of the request and times from a constant, so that the same request gives the same bytes;
//! anything else would make a recorded run differ from its repeat.

use super::MODELS;
use super::fault::{Fault, STRIKES, Schedule};
use super::script::{self, Call, Turn};
use super::vectors;
use crate::front::asked::Asked;
use crate::front::bad_request::BadRequest;
use crate::front::chat::answer::{self, Head};
use crate::front::chat::frames::Frames;
use crate::front::chat::problem::Problem;
use crate::front::chat::{self, Stream};
use crate::front::finish::Finish;
use crate::stream::sse;
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use events::message::{Message, Part, Role, ToolCall};
use events::quantity::Tokens;
use events::usage::Usage;
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a request: 16 MiB, room for a few images; it is held in memory.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Answers that are under way at once: 256. More are told to come back.
const CALLS_MAX: usize = 256;
/// Between two words of a slow answer, and before a connection is cut so that what was said has left: 50 ms.
const PACE: Duration = Duration::from_millis(50);
/// How long a stalled answer is held if its client waits: 10 minutes, more than the idle deadlines in use.
const STALL: Duration = Duration::from_secs(600);
/// When every answer claims to be made: 2025-12-01T00:00:00Z, in seconds.
const CREATED: u64 = 1_764_547_200;

#[derive(Debug)]
struct Shared {
    schedule: Schedule,
    calls: Arc<Semaphore>,
}

/// The server's routes.
pub(super) fn routes() -> Router {
    let calls = Arc::new(Semaphore::new(CALLS_MAX));
    let shared = Arc::new(Shared { schedule: Schedule::default(), calls });
    Router::new()
        .route("/v1/chat/completions", post(completions))
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .fallback(nowhere)
        .method_not_allowed_fallback(nowhere)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared)
}

async fn models() -> Response {
    let data: Vec<_> = MODELS.iter().map(|name| described(name)).collect();
    json_of(StatusCode::OK, json!({"object": "list", "data": data}).to_string())
}

async fn model(Path(name): Path<String>) -> Response {
    if MODELS.contains(&name.as_str()) {
        json_of(StatusCode::OK, described(&name).to_string())
    } else {
        no_such_model(&name)
    }
}

fn described(name: &str) -> serde_json::Value {
    json!({"id": name, "object": "model", "created": CREATED, "owned_by": "piton"})
}

async fn nowhere(uri: Uri) -> Response {
    let path = uri.path();
    let message = format!(
        "the scripted demo does nothing at {path}; it has POST /v1/chat/completions, POST /v1/embeddings and GET /v1/models"
    );
    refusal(StatusCode::NOT_FOUND, "invalid_request_error", "not_found", &message)
}

async fn completions(
    State(shared): State<Arc<Shared>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return unreadable(&rejection),
    };
    let Ok(permit) = Arc::clone(&shared.calls).try_acquire_owned() else {
        let message = format!("the scripted demo answers {CALLS_MAX} calls at once; try again");
        return later(refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_error",
            "overloaded",
            &message,
        ));
    };
    let chat::Request { asked, stream } = match chat::parse(&body) {
        Ok(request) => request,
        Err(fault) => return bad_request(&fault),
    };
    if !MODELS.contains(&asked.model.as_str()) {
        return no_such_model(&asked.model);
    }
    let digest = events::id::digest(&[b"piton/demo", &body]);
    let mut response = act(&shared.schedule, (&asked, stream), digest, permit);
    if let Ok(id) = HeaderValue::try_from(format!("req_{digest:032x}")) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

async fn embeddings(body: Result<Bytes, BytesRejection>) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return unreadable(&rejection),
    };
    match crate::front::embeddings::parse(&body) {
        Err(fault) => bad_request(&fault),
        Ok(asked) if !MODELS.contains(&asked.model.as_str()) => no_such_model(&asked.model),
        Ok(asked) => json_of(StatusCode::OK, vectors::answer(&asked)),
    }
}

fn unreadable(rejection: &BytesRejection) -> Response {
    let message = format!("{rejection}; the scripted demo reads up to {BODY_BYTES_MAX} bytes");
    refusal(rejection.status(), "invalid_request_error", "body_unreadable", &message)
}

/// Does what the script says next.
fn act(
    schedule: &Schedule,
    (asked, stream): (&Asked, Stream),
    digest: u128,
    permit: OwnedSemaphorePermit,
) -> Response {
    let reply = |answer: Answer| Reply { asked, stream, digest, answer }.respond(permit);
    match script::turn(asked) {
        Turn::Say(text) => reply(Answer::saying(&text, asked)),
        Turn::SaySlowly(text) => reply(Answer { pace: PACE, ..Answer::saying(&text, asked) }),
        Turn::Call(calls) => reply(Answer::calling(calls, digest)),
        Turn::Fail(_) if asked.model != "demo" => {
            reply(Answer::saying(&script::spared(&asked.model), asked))
        }
        Turn::Fail(fault) => {
            let text = script::last_text(asked);
            match schedule.strike(events::id::digest(&[text.as_bytes()])) {
                None => reply(Answer::saying(&script::recovered(fault), asked)),
                Some(strike) => {
                    let which = format!(
                        "{} failure {strike} of {STRIKES} for {:?}",
                        script::SIGN,
                        text.chars().take(80).collect::<String>()
                    );
                    failing(fault, &which, asked, reply)
                }
            }
        }
    }
}

fn failing(
    fault: Fault,
    which: &str,
    asked: &Asked,
    reply: impl FnOnce(Answer) -> Response,
) -> Response {
    let half = |end: End| {
        let text = format!("{which}. This answer does not reach its end, so you never read this.");
        Answer { end, ..Answer::saying(&text, asked) }
    };
    match fault {
        Fault::RateLimited => {
            let message = format!("{which}: too many requests; wait one second");
            let (kind, code) = ("rate_limit_error", "rate_limit_exceeded");
            later(refusal(StatusCode::TOO_MANY_REQUESTS, kind, code, &message))
        }
        Fault::ServerError => {
            let message = format!("{which}: the server had an error; try again");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            refusal(status, "server_error", "server_error", &message)
        }
        Fault::KeyRefused => {
            let message = format!("{which}: incorrect API key provided");
            let kind = "invalid_request_error";
            refusal(StatusCode::UNAUTHORIZED, kind, "invalid_api_key", &message)
        }
        Fault::Cut => reply(half(End::Cut)),
        Fault::Stall => reply(half(End::Stall)),
    }
}

/// What an answer holds and how it comes.
#[derive(Debug)]
struct Answer {
    /// What is said, in the pieces of its stream.
    words: Vec<String>,
    calls: Vec<ToolCall>,
    finish: Finish,
    /// Between two words.
    pace: Duration,
    end: End,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Cut,
    Stall,
}

impl Answer {
    /// A text, as far as the request lets it go.
    fn saying(text: &str, asked: &Asked) -> Self {
        let Tokens(most) = asked.params.output_max.unwrap_or(Tokens(u64::MAX));
        let mut words: Vec<String> = Vec::new();
        let (mut said, mut finish) = (0, Finish::Stop);
        for piece in text.split_inclusive(char::is_whitespace) {
            let more = script::words(piece);
            if said + more > most {
                finish = Finish::Length;
                break;
            }
            said += more;
            words.push(piece.to_owned());
        }
        Self { words, calls: Vec::new(), finish, pace: Duration::ZERO, end: End::Complete }
    }

    /// Calls, announced by a word that says who makes them.
    fn calling(calls: Vec<Call>, digest: u128) -> Self {
        let called = calls.into_iter().enumerate().map(|(index, Call { name, arguments })| {
            let id = events::id::digest(&[&digest.to_be_bytes(), index.to_string().as_bytes()]);
            ToolCall { id: format!("call_{id:032x}"), name, arguments }
        });
        Self {
            words: vec![script::SIGN.to_owned()],
            calls: called.collect(),
            finish: Finish::ToolCalls,
            pace: Duration::ZERO,
            end: End::Complete,
        }
    }

    fn message(&self) -> Message {
        let mut parts = vec![Part::Text { text: self.words.concat() }];
        parts.extend(self.calls.iter().cloned().map(Part::ToolCall));
        Message { role: Role::Assistant, name: None, parts }
    }

    fn usage(&self, asked: &Asked) -> Usage {
        let said: u64 = self.words.iter().map(|word| script::words(word)).sum();
        let called: u64 = self.calls.iter().map(|call| script::words(&call.arguments)).sum();
        Usage {
            prompt: Some(Tokens(script::words_in(asked))),
            completion: Some(Tokens(said + called)),
            ..Usage::default()
        }
    }
}

/// A part of a body and the silence before it.
struct Beat {
    after: Duration,
    /// Nothing where the connection breaks.
    bytes: Option<Bytes>,
}

impl Beat {
    fn now(bytes: Bytes) -> Self {
        Self { after: Duration::ZERO, bytes: Some(bytes) }
    }

    fn end(end: End) -> Option<Self> {
        match end {
            End::Complete => None,
            End::Cut => Some(Self { after: PACE, bytes: None }),
            End::Stall => Some(Self { after: STALL, bytes: None }),
        }
    }
}

/// An answer to one request.
struct Reply<'a> {
    asked: &'a Asked,
    stream: Stream,
    digest: u128,
    answer: Answer,
}

impl Reply<'_> {
    fn respond(&self, permit: OwnedSemaphorePermit) -> Response {
        let head = Head {
            id: format!("chatcmpl-demo-{:032x}", self.digest),
            created: CREATED,
            model: self.asked.model.clone(),
        };
        let (beats, media) = match self.stream {
            Stream::Whole => (self.whole(&head), "application/json"),
            Stream::Events { usage } => {
                (self.streamed(Frames::new(&head, usage)), sse::CONTENT_TYPE)
            }
        };
        let body = stream::iter(beats).then(move |Beat { after, bytes }| {
            // The permit lives as long as the body does.
            let _held = &permit;
            async move {
                if !after.is_zero() {
                    tokio::time::sleep(after).await;
                }
                bytes.ok_or_else(|| io::Error::other("the script cuts the connection here"))
            }
        });
        (
            [(header::CONTENT_TYPE, media), (header::CACHE_CONTROL, "no-store")],
            Body::from_stream(body),
        )
            .into_response()
    }

    fn whole(&self, head: &Head) -> Vec<Beat> {
        let Answer { finish, pace, end, .. } = self.answer;
        let usage = self.answer.usage(self.asked);
        let mut bytes = answer::whole(head, &self.answer.message(), finish, &usage);
        if end != End::Complete {
            bytes.truncate(bytes.len() / 2);
        }
        let pauses = u32::try_from(self.answer.words.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let after = pace.saturating_mul(pauses);
        let beats = [Some(Beat { after, bytes: Some(bytes) }), Beat::end(end)];
        beats.into_iter().flatten().collect()
    }

    fn streamed(&self, mut frames: Frames) -> Vec<Beat> {
        let Answer { words, calls, finish, pace, end } = &self.answer;
        let mut beats = vec![Beat::now(frames.open())];
        let said = if *end == End::Complete { words.len() } else { words.len() / 2 };
        for (index, word) in words.iter().take(said).enumerate() {
            let after = if index == 0 { Duration::ZERO } else { *pace };
            beats.push(Beat { after, bytes: Some(frames.text(word)) });
        }
        for (index, call) in calls.iter().enumerate() {
            beats.push(Beat::now(frames.call(index, &call.id, &call.name)));
            // In two fragments, as models send them: whoever joins them wrongly shall notice here.
            let cut = call.arguments.floor_char_boundary(call.arguments.len() / 2);
            let (head, tail) = call.arguments.split_at_checked(cut).unwrap_or_default();
            beats.push(Beat::now(frames.arguments(index, head)));
            beats.push(Beat::now(frames.arguments(index, tail)));
        }
        match Beat::end(*end) {
            None => beats.push(Beat::now(frames.finish(*finish, &self.answer.usage(self.asked)))),
            Some(end) => beats.push(end),
        }
        beats
    }
}

fn bad_request(fault: &BadRequest) -> Response {
    let message = fault.to_string();
    let problem = Problem {
        message: &message,
        kind: "invalid_request_error",
        param: Some(&fault.field),
        code: Some("invalid_request"),
    };
    json_of(StatusCode::BAD_REQUEST, problem.body())
}

fn no_such_model(name: &str) -> Response {
    let name: String = name.chars().take(80).collect();
    let known = MODELS.join(" or ");
    let message = format!("the scripted demo has no model {name:?}; ask for {known}");
    refusal(StatusCode::NOT_FOUND, "invalid_request_error", "model_not_found", &message)
}

fn refusal(status: StatusCode, kind: &str, code: &str, message: &str) -> Response {
    let problem = Problem { message, kind, param: None, code: Some(code) };
    json_of(status, problem.body())
}

fn json_of(status: StatusCode, body: impl Into<Body>) -> Response {
    let body: Body = body.into();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn later(mut response: Response) -> Response {
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
