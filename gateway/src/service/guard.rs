//! What every request passes before a handler sees it: an id of its own, who is asking, whether they may.

use crate::app::App;
use crate::auth::Caller;
use crate::auth::route::{self, need};
use crate::error::{ApiError, Code, Plane};
use crate::{extract, metric};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use events::quantity::Millis;
use futures_util::StreamExt;
use std::time::{Duration, Instant};
use tracing::{Instrument, info_span};

/// Bytes of a body over the limit that are read so that its sender sees the answer (64 MiB), and for how long.
const SWALLOW_BYTES_MAX: usize = 64 << 20;
const SWALLOW_MAX: Duration = Duration::from_secs(5);
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Where Anthropic's clients look for it.
const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// Characters of a request id that a client sends; a longer one is replaced by ours.
const REQUEST_ID_MAX: usize = 128;

pub(super) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&app, &request);
    let plane = Plane::of(request.uri().path());
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let pattern = route
        .as_deref()
        .and_then(|route| route::pattern(request.method(), route))
        .unwrap_or("none");
    let span = info_span!("request", id = id.to_str().unwrap_or_default(), method, route = pattern);
    let answer = async {
        match admit(&app, &request, route.as_deref()) {
            Ok(None) => next.run(request).await,
            Ok(Some(caller)) if fits(&app, &request) => {
                request.extensions_mut().insert(caller);
                next.run(request).await
            }
            Ok(Some(_)) => {
                swallow(request).await;
                extract::too_large().respond(plane)
            }
            Err(error) => error.respond(plane),
        }
    };
    let mut response = answer.instrument(span).await;
    response = crate::error::on_plane(response, plane, id.to_str().ok());
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        metric::refused(metric::Limit::Body);
    }
    metric::answered(method, pattern, response.status().as_u16(), started.elapsed());
    if plane == Plane::Messages {
        response.headers_mut().insert(ANTHROPIC_REQUEST_ID, id.clone());
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        _ => "OTHER",
    }
}

fn request_id(app: &App, request: &Request) -> HeaderValue {
    let sent = request
        .headers()
        .get(&REQUEST_ID)
        .filter(|id| !id.is_empty() && id.len() <= REQUEST_ID_MAX);
    let drawn = || HeaderValue::from_str(&format!("req_{:032x}", app.entropy().draw()));
    sent.cloned().or_else(|| drawn().ok()).unwrap_or(HeaderValue::from_static("req"))
}

fn admit(app: &App, request: &Request, route: Option<&str>) -> Result<Option<Caller>, ApiError> {
    let path = request.uri().path();
    let Some(row) = route.and_then(|route| need(request.method(), route)) else {
        let why = format!("{} {path} is not served here", request.method());
        return Err(ApiError::new(Code::NotFound, why));
    };
    let caller = app
        .verifier
        .admit(Some(row), request.headers())
        .inspect_err(|_no| metric::unadmitted("auth"))?;
    if caller.is_some() && *app.stopping.borrow() {
        let why = "the node is stopping: ask again in a moment";
        return Err(ApiError::new(Code::StoreUnavailable, why).retry_after(Millis(1_000)));
    }
    Ok(caller)
}

/// Whether the body is within the limit, as far as its head says.
fn fits(app: &App, request: &Request) -> bool {
    let length = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    length.is_none_or(|length: usize| length <= app.config.limits.max_body_bytes)
}

/// Reads a body that is too large and forgets it, for a moment: a client that is still sending reads no answer.
async fn swallow(request: Request) {
    let mut body = request.into_body().into_data_stream();
    let read = async {
        let mut left = SWALLOW_BYTES_MAX;
        while let Some(Ok(bytes)) = body.next().await {
            left = left.saturating_sub(bytes.len());
            if left == 0 {
                return;
            }
        }
    };
    // Whoever sends longer than that is cut off.
    let _rest = tokio::time::timeout(SWALLOW_MAX, read).await;
}
