//! The scripted provider on its socket: a request becomes an act, an act becomes bytes in time. Ours alone: no framework,
//! because a connection must be able to close without an answer.

use super::beats::{self, Beat, Body as Playing};
use super::play::{self, Act};
use super::schedule::Schedule;
use super::script::Provider;
use super::vectors;
use actors::clock::Clock;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use providers::play::{CREATED, Complaint, Refused, family_at, hear};
use providers::{Class, Family, Mode};
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;

/// Bytes of a request: 16 MiB, room for a few images; it is held in memory.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One provider of a script, and how far it has come.
#[derive(Debug)]
pub(super) struct Stage {
    seed: u64,
    provider: Provider,
    calls: AtomicU64,
    answering: Arc<AtomicU64>,
    schedule: Schedule,
}

/// An answer on its way, for as long as somebody reads it.
struct UnderWay(Arc<AtomicU64>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Stage {
    pub(super) fn new(seed: u64, provider: Provider) -> Self {
        let (calls, answering) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        Self { seed, provider, calls, answering, schedule: Schedule::default() }
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(super) fn answering(&self) -> u64 {
        self.answering.load(Ordering::SeqCst)
    }

    fn begin(&self) -> UnderWay {
        self.answering.fetch_add(1, Ordering::SeqCst);
        UnderWay(Arc::clone(&self.answering))
    }
}

/// Serves one connection to its end.
pub(super) async fn connection(stream: TcpStream, stage: Arc<Stage>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&stage)));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Whoever went away, or was sent away, knows.
    let _over = served.await;
}

/// An error closes the connection without a word.
async fn answer(request: Request<Incoming>, stage: Arc<Stage>) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if head.method == Method::GET {
        return Ok(listed(&stage, path));
    }
    if path.ends_with("/embeddings") && head.method == Method::POST && stage.provider.talks() {
        return Ok(embedded(&stage.provider, body).await);
    }
    let family = family_at(path).filter(|family| {
        stage.provider.family.is_none_or(|own| own == *family) && head.method == Method::POST
    });
    let Some(family) = family else { return Ok(nowhere(path)) };
    let Ok(body) = to_bytes(Body::new(body), BODY_BYTES_MAX).await else {
        return Ok(unread(family));
    };
    let heard = match hear(family, path, &body) {
        Ok(heard) => heard,
        Err(fault) => return Ok(odd(family, 400, fault.field, &fault.to_string())),
    };
    let provider = &stage.provider;
    if !has_model(provider, &heard.model) {
        return Ok(no_such_model(family, provider, &heard.model));
    }
    let call = stage.calls.fetch_add(1, Ordering::SeqCst);
    let salt = stage.seed.to_be_bytes();
    let digest = events::id::digest(&[b"piton/scripted", &salt, provider.name.as_bytes(), &body]);
    let turn = provider.turn(stage.seed, call);
    let now = Clock::System.now();
    let under_way = stage.begin();
    let response = match play::act(provider, turn, &heard, &stage.schedule) {
        Act::Refuse(complaint) => refused(providers::play::refuse(family, &complaint, now)),
        Act::Say(line, how) => {
            let mut answer = line.answer(family, &heard.model, digest);
            if heard.mode == Mode::Stream && !heard.wants_usage {
                answer.usage = events::usage::Usage::default();
            }
            match beats::beats((family, heard.mode), &answer, &how, now) {
                Playing::Headed { coding, beats } => {
                    let media = match heard.mode {
                        Mode::Stream => providers::play::stream_type(family),
                        Mode::Whole => JSON,
                    };
                    played(media, coding, beats, under_way)
                }
                Playing::Headless(silence) => {
                    tokio::time::sleep(silence).await;
                    return Err(io::Error::other("the script closes the connection here"));
                }
            }
        }
    };
    Ok(named(response, family, digest))
}

/// The vectors of one who talks.
async fn embedded(provider: &Provider, body: Incoming) -> Response<Body> {
    let family = Family::OpenaiChat;
    let Ok(body) = to_bytes(Body::new(body), BODY_BYTES_MAX).await else {
        return unread(family);
    };
    match crate::front::embeddings::parse(&body) {
        Err(fault) => odd(family, 400, &fault.field, &fault.to_string()),
        Ok(asked) if !has_model(provider, &asked.model) => {
            no_such_model(family, provider, &asked.model)
        }
        Ok(asked) => json_of(200, vectors::answer(&asked)),
    }
}

fn unread(family: Family) -> Response<Body> {
    let message = format!("the scripted provider reads up to {BODY_BYTES_MAX} bytes");
    odd(family, 413, "body", &message)
}

const JSON: &str = "application/json";

fn has_model(provider: &Provider, model: &str) -> bool {
    provider.models.is_empty() || provider.models.iter().any(|own| own == model)
}

/// The provider's own id of the request, where the family has it.
fn named(mut response: Response<Body>, family: Family, digest: u128) -> Response<Body> {
    let name = match family {
        Family::OpenaiChat | Family::OpenaiResponses | Family::Gemini => "x-request-id",
        Family::AnthropicMessages => "request-id",
        Family::Bedrock => "x-amzn-requestid",
    };
    if let Ok(id) = HeaderValue::try_from(format!("req_{digest:032x}")) {
        response.headers_mut().insert(HeaderName::from_static(name), id);
    }
    response
}

fn played(
    media: &'static str,
    coding: Option<&'static str>,
    beats: Vec<Beat>,
    under_way: UnderWay,
) -> Response<Body> {
    let body = stream::iter(beats).then(move |Beat { after, bytes }| {
        // Lives as long as the body does.
        let _held = &under_way;
        async move {
            if after > Duration::ZERO {
                tokio::time::sleep(after).await;
            }
            bytes.ok_or_else(|| io::Error::other("the script cuts the connection here"))
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    response
}

fn refused(refused: Refused) -> Response<Body> {
    let mut response = json_of(refused.status, refused.body);
    for (name, value) in refused.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn json_of(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// The models, in the words of all families that list them, and how far the script has come.
fn listed(stage: &Stage, path: &str) -> Response<Body> {
    let Stage { provider, .. } = stage;
    let described = |name: &String| json!({"id": name, "object": "model", "created": CREATED, "owned_by": "piton"});
    if path == "/scripted" {
        let body = json!({"provider": provider.name, "calls": stage.calls(), "answering": stage.answering()});
        return json_of(200, body.to_string());
    }
    if path.ends_with("/models") {
        let data: Vec<_> = provider.models.iter().map(described).collect();
        let google = |name: &String| json!({"name": format!("models/{name}"), "supportedGenerationMethods": ["generateContent"]});
        let models: Vec<_> = provider.models.iter().map(google).collect();
        let body = json!({"object": "list", "data": data, "models": models});
        return json_of(200, body.to_string());
    }
    match path.rsplit_once("/models/") {
        Some((_, name)) if has_model(provider, name) => {
            json_of(200, described(&name.to_owned()).to_string())
        }
        Some((_, name)) => no_such_model(Family::OpenaiChat, provider, name),
        None => nowhere(path),
    }
}

/// A refusal of ours, which no script asked for, in the family's own shape.
fn odd(family: Family, status: u16, field: &str, message: &str) -> Response<Body> {
    if family == Family::OpenaiChat {
        let error = json!({"message": message, "type": "invalid_request_error", "param": field,
            "code": "invalid_request"});
        return json_of(status, json!({"error": error}).to_string());
    }
    let words = message.to_owned();
    let complaint =
        Complaint { status: Some(status), words, ..Complaint::of(Class::InvalidRequest) };
    refused(providers::play::refuse(family, &complaint, Clock::System.now()))
}

fn no_such_model(family: Family, provider: &Provider, name: &str) -> Response<Body> {
    let name: String = name.chars().take(80).collect();
    let known = provider.models.join(" or ");
    let words = format!("the scripted provider has no model {name:?}; ask for {known}");
    let complaint = Complaint { words, ..Complaint::of(Class::ModelNotFound) };
    refused(providers::play::refuse(family, &complaint, Clock::System.now()))
}

fn nowhere(path: &str) -> Response<Body> {
    let message = format!(
        "the scripted provider does nothing at {path}; it has POST of each family that it speaks, and GET of the models"
    );
    let error = json!({"message": message, "type": "invalid_request_error", "param": null,
        "code": "not_found"});
    json_of(404, json!({"error": error}).to_string())
}
