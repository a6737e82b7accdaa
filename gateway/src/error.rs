//! Every failure on its way out: what the caller may know, and what only the log may.
//!
//! The message is written for the caller and names the input, the rule and the mend. The cause stays in the log, under
//! the request's id: a path, a statement or a provider's key in an answer would be a leak.

mod code;
mod envelope;
mod exit;
mod map;

pub use code::{Code, Repeat};
pub use envelope::{Plane, on_plane};
pub use exit::Exit;

use self::envelope::Sent;
use crate::auth::AuthError;
use crate::telemetry;
use crate::wire::time::rfc3339;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use events::budget::Short;
use events::id::{NotAnId, RunId};
use events::model_call::Class;
use events::quantity::Millis;
use serde::Serialize;
use serde_json::Value;
use std::error::Error;
use std::fmt;

/// The wait that is asked for when nobody knows a better one (1 s): long enough for a queue of 256 to move on.
const RETRY_AFTER: Millis = Millis(1_000);
/// Characters of the longest message that is sent (2,000): one that quotes a body must not send it back whole.
const MESSAGE_CHARS_MAX: usize = 2_000;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const RUN_ID: HeaderName = HeaderName::from_static("x-piton-run-id");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// One attempt at a provider, as a caller may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Who was asked.
    pub provider: String,
    /// For which model.
    pub model: String,
    /// With which of the provider's profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Which class of error came.
    pub class: String,
    /// With which status, if there was an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the provider took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How long the next one waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// A failure on its way to a caller.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    message: Box<str>,
    param: Option<String>,
    retry_after: Option<Millis>,
    repeatable: bool,
    // Boxed: an error is small, and few have one.
    run: Option<Box<RunId>>,
    class: Option<Class>,
    provider_status: Option<StatusCode>,
    attempts: Vec<Attempt>,
    budget: Option<Box<Value>>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl ApiError {
    /// An error with a message for the caller.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            // A message may quote what somebody sent us, and people send keys in the wrong field.
            message: telemetry::redact::patterns(&message.into())
                .chars()
                .take(MESSAGE_CHARS_MAX)
                .collect(),
            param: None,
            retry_after: None,
            repeatable: code.repeat() == Repeat::Harmless,
            run: None,
            class: None,
            provider_status: None,
            attempts: Vec::new(),
            budget: None,
            cause: None,
        }
    }

    /// A defect of ours: the caller learns nothing, the log everything.
    #[must_use]
    pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let message = "this is a defect of the node; its log has the cause under x-request-id";
        Self::new(Code::Internal, message).because(cause)
    }

    /// The field or parameter that is at fault.
    #[must_use]
    pub fn param(mut self, name: impl Into<String>) -> Self {
        self.param = Some(name.into());
        self
    }

    /// When a repeat may be accepted.
    #[must_use]
    pub fn retry_after(mut self, wait: Millis) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Somebody who could answer said to come back then: until it has come nothing is gained by a repeat, and after it
    /// there may be.
    #[must_use]
    pub fn ready_in(self, wait: Millis) -> Self {
        Self { repeatable: true, ..self.retry_after(wait) }
    }

    /// The request had an idempotency key, so a repeat does nothing twice.
    #[must_use]
    pub fn keyed(mut self) -> Self {
        self.repeatable |= self.code.repeat() == Repeat::WithKey;
        self
    }

    /// What the last provider answered, which a client knows how to take: sent in place of the code's own status.
    #[must_use]
    pub fn provider(mut self, status: StatusCode, attempts: Vec<Attempt>) -> Self {
        let failed = status.is_client_error() || status.is_server_error();
        self.provider_status = failed.then_some(status);
        self.attempts = attempts;
        self
    }

    /// A call that does not fit a budget: which one, what it allows, what is spent and reserved, and how to raise it.
    #[must_use]
    pub fn short(short: &Short) -> Self {
        let renews = short.renews_at.map(|at| format!("; it begins anew at {}", rfc3339(at)));
        let message = format!("{short}{}", renews.unwrap_or_default());
        let budget = Some(Box::new(crate::wire::budget::short(short)));
        Self { budget, ..Self::new(Code::BudgetExceeded, message) }
    }

    /// The run that ended so.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(Box::new(run));
        self
    }

    /// The class of the model call that failed; clients of a model API are told in that API's words.
    #[must_use]
    pub const fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Type and code as clients of a model API know them.
    #[must_use]
    pub fn words(&self) -> (&'static str, &'static str) {
        self.class.and_then(map::words).unwrap_or((self.code.kind(), self.code.name()))
    }

    /// The class of the model call that failed, if one did.
    #[must_use]
    pub const fn failed(&self) -> Option<Class> {
        self.class
    }

    /// Why, for the log only.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// What the caller may know, as it was written: keys are taken out when it is sent.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The status that is sent.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match (self.code, self.provider_status) {
            (Code::ProvidersExhausted, Some(status)) => status,
            _ => self.code.status(),
        }
    }

    /// The answer in the envelope of a plane; also writes the log line, so it is called once.
    #[must_use]
    pub fn respond(self, plane: Plane) -> Response {
        self.log();
        let status = self.status();
        let headers = self.headers();
        let sent = Sent::of(&self);
        let body = sent.body(plane, None);
        let mut response = (status, headers, body).into_response();
        response.extensions_mut().insert(sent);
        response
    }

    /// The body alone, for a stream whose status has already gone out.
    #[must_use]
    pub fn body(&self, plane: Plane) -> String {
        Sent::of(self).body(plane, None)
    }

    fn log(&self) {
        let (code, status) = (self.code.name(), self.status().as_u16());
        let cause = self.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
        if self.status().is_server_error() {
            tracing::error!(code, status, cause, message = &*self.message);
        } else {
            tracing::debug!(code, status, cause, message = &*self.message);
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            SHOULD_RETRY,
            HeaderValue::from_static(if self.repeatable { "true" } else { "false" }),
        );
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(run) =
            self.run.as_ref().and_then(|run| HeaderValue::from_str(&run.to_string()).ok())
        {
            headers.insert(RUN_ID, run);
        }
        let wait = self.retry_after.or_else(|| self.repeatable.then_some(RETRY_AFTER));
        if let Some(Millis(millis)) = wait {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(millis.div_ceil(1_000)));
            headers.insert(RETRY_AFTER_MS, HeaderValue::from(millis));
        }
        headers
    }
}

/// An error of the run plane; the guard takes its words and puts them into the envelope of the plane that was asked.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.respond(Plane::Run)
    }
}

/// An error and what is behind it, on one line.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut behind = error.source();
    while let Some(cause) = behind {
        said.push_str(": ");
        said.push_str(&cause.to_string());
        behind = cause.source();
    }
    said
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let code = match error {
            AuthError::NoKey | AuthError::NotAKey | AuthError::Unknown => Code::Unauthorized,
            AuthError::MayNot { .. } | AuthError::Nobody => Code::Forbidden,
        };
        Self::new(code, error.to_string())
    }
}

impl From<NotAnId> for ApiError {
    fn from(error: NotAnId) -> Self {
        Self::new(Code::InvalidRequest, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    async fn body(response: Response) -> Value {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn header(response: &Response, name: &str) -> Option<String> {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn each_plane_has_its_envelope() {
        let error = || ApiError::new(Code::InvalidModel, "no").param("model");
        let run = error().into_response();
        assert_eq!(run.status(), StatusCode::BAD_REQUEST);
        let expected = json!({"error": {
            "code": "invalid_model", "message": "no", "param": "model",
            "runbook": "deploy/runbooks/errors.md#invalid_model",
        }});
        assert_eq!(body(run).await, expected);
        let model = on_plane(error().into_response(), Plane::Model, None);
        assert_eq!(model.status(), StatusCode::BAD_REQUEST);
        assert_eq!(header(&model, "content-type").as_deref(), Some("application/json"));
        let expected = json!({"error": {
            "message": "no", "type": "invalid_request_error", "param": "model", "code": "invalid_model",
        }});
        assert_eq!(body(model).await, expected);
        let messages = on_plane(error().into_response(), Plane::Messages, Some("req_1"));
        assert_eq!(messages.status(), StatusCode::BAD_REQUEST);
        let expected = json!({"type": "error", "request_id": "req_1", "error": {
            "type": "invalid_request_error", "message": "no", "code": "invalid_model",
        }});
        assert_eq!(body(messages).await, expected);
    }

    #[tokio::test]
    async fn an_overloaded_provider_has_the_number_of_the_api_that_was_asked() {
        let error = || ApiError::of_class(Class::Overloaded, "busy").into_response();
        assert_eq!(on_plane(error(), Plane::Model, None).status(), 503);
        let messages = on_plane(error(), Plane::Messages, None);
        assert_eq!(messages.status(), 529);
        assert_eq!(body(messages).await["error"]["type"], "overloaded_error");
    }

    #[tokio::test]
    async fn what_is_no_error_passes_the_model_plane_unchanged() {
        let response = (StatusCode::IM_A_TEAPOT, "short").into_response();
        let response = on_plane(response, Plane::Messages, None);
        assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
        assert_eq!(axum::body::to_bytes(response.into_body(), 10).await.unwrap(), "short");
    }

    #[test]
    fn a_client_is_told_whether_and_when_to_repeat() {
        let of = |error: ApiError| {
            let response = error.into_response();
            ["x-should-retry", "retry-after", "retry-after-ms"].map(|name| header(&response, name))
        };
        let said = |texts: [&str; 3]| {
            texts.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()))
        };
        let new = |code| ApiError::new(code, "no");
        assert_eq!(of(new(Code::Busy)), said(["true", "1", "1000"]));
        assert_eq!(
            of(new(Code::TooManyRuns).retry_after(Millis(2_001))),
            said(["true", "3", "2001"])
        );
        assert_eq!(of(new(Code::InvalidRequest)), said(["false", "", ""]));
        let exhausted = || ApiError::of_class(Class::QuotaExhausted, "no");
        assert_eq!(of(exhausted()), said(["false", "", ""]));
        assert_eq!(of(exhausted().ready_in(Millis(57_500))), said(["true", "58", "57500"]));
        assert_eq!(of(new(Code::InvalidRequest).keyed()), said(["false", "", ""]));
        assert_eq!(of(new(Code::Lost)), said(["false", "", ""]));
        assert_eq!(of(new(Code::Lost).keyed()), said(["true", "1", "1000"]));
    }

    #[tokio::test]
    async fn the_cause_and_a_key_in_a_message_stay_here() {
        let cause = std::io::Error::other("/var/lib/piton/journal.db: planted-cause");
        let answer = body(ApiError::internal(cause).into_response()).await.to_string();
        assert!(!answer.contains("planted"), "{answer}");
        let error = ApiError::new(Code::InvalidRequest, "model sk-planted0123456789 is unknown");
        let answer = body(error.into_response()).await.to_string();
        assert!(!answer.contains("planted"), "{answer}");
        let long = ApiError::new(Code::InvalidRequest, "x".repeat(10_000)).body(Plane::Run);
        assert!(long.len() < 3_000);
    }

    #[tokio::test]
    async fn an_exhausted_provider_speaks_with_its_own_status_and_nobody_else_does() {
        let attempt = Attempt {
            provider: "openai".to_owned(),
            model: "gpt".to_owned(),
            profile: None,
            class: "quota_exhausted".to_owned(),
            status: Some(429),
            request_id: None,
            duration_ms: None,
            wait_ms: None,
        };
        let of = |code, status| ApiError::new(code, "no").provider(status, vec![attempt.clone()]);
        let response =
            of(Code::ProvidersExhausted, StatusCode::TOO_MANY_REQUESTS).respond(Plane::Model);
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(header(&response, "x-should-retry").as_deref(), Some("false"));
        let expected = json!([{"provider": "openai", "model": "gpt", "class": "quota_exhausted", "status": 429}]);
        assert_eq!(body(response).await["error"]["attempts"], expected);
        assert_eq!(of(Code::ProvidersExhausted, StatusCode::OK).status(), StatusCode::BAD_GATEWAY);
        assert_eq!(of(Code::Busy, StatusCode::NOT_FOUND).status(), StatusCode::TOO_MANY_REQUESTS);
    }

    #[test]
    fn a_path_has_its_plane() {
        for path in
            ["/v1/models", "/v1/models/openai/gpt", "/v1/chat/completions", "/api/v1/models"]
        {
            assert_eq!(Plane::of(path), Plane::Model, "{path}");
        }
        for path in ["/v1/messages", "/v1/messages/count_tokens", "/api/v1/messages"] {
            assert_eq!(Plane::of(path), Plane::Messages, "{path}");
        }
        for path in ["/v1/runs", "/v1/modelship", "/health", "/"] {
            assert_eq!(Plane::of(path), Plane::Run, "{path}");
        }
    }

    #[test]
    fn an_unknown_caller_is_asked_for_a_key() {
        let response = ApiError::from(AuthError::NoKey).into_response();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(header(&response, "www-authenticate").as_deref(), Some("Bearer"));
        assert_eq!(ApiError::from(AuthError::Nobody).code(), Code::Forbidden);
    }
}
