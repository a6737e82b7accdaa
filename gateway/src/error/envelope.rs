//! In whose envelope an error goes out: each API has its own, and its clients read no other.

use super::{ApiError, Attempt, Code};
use crate::front::messages::problem;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use events::model_call::Class;
use serde::Serialize;
use serde_json::Value;

/// What clients of a path expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plane {
    /// The envelope of OpenAI's API.
    Model,
    /// That of Anthropic's.
    Messages,
    /// Ours.
    Run,
}

impl Plane {
    /// The plane of a path.
    #[must_use]
    pub fn of(path: &str) -> Self {
        const MODEL: [&str; 4] =
            ["/v1/chat/completions", "/v1/models", "/v1/responses", "/v1/embeddings"];
        let path = path.strip_prefix("/api").unwrap_or(path);
        let below = |route: &str| {
            path.strip_prefix(route).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if below("/v1/messages") {
            return Self::Messages;
        }
        if MODEL.iter().any(|route| below(route)) { Self::Model } else { Self::Run }
    }
}

/// Puts an error into the envelope of a plane; any other answer passes unchanged.
#[must_use]
pub fn on_plane(response: Response, plane: Plane, request_id: Option<&str>) -> Response {
    let Some(sent) = response.extensions().get::<Sent>().filter(|_| plane != Plane::Run) else {
        return response;
    };
    let body = sent.body(plane, request_id);
    let status = sent.status(plane, response.status());
    let (mut parts, _) = response.into_parts();
    parts.status = status;
    // The other body's length.
    parts.headers.remove(header::CONTENT_LENGTH);
    (parts, body).into_response()
}

/// What the caller sees of an error. Goes with the response, so that another envelope can be put round it.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    code: Code,
    class: Option<Class>,
    status: StatusCode,
    words: (&'static str, &'static str),
    message: String,
    param: Option<String>,
    attempts: Vec<Attempt>,
    budget: Option<Box<Value>>,
}

#[derive(Serialize)]
struct Model<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attempts: &'a [Attempt],
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a Value>,
}

#[derive(Serialize)]
struct Run<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
    runbook: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attempts: &'a [Attempt],
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a Value>,
}

#[derive(Serialize)]
struct Envelope<T> {
    error: T,
}

impl Sent {
    pub(super) fn of(error: &ApiError) -> Self {
        Self {
            code: error.code,
            class: error.class,
            status: error.status(),
            words: error.words(),
            message: error.message.to_string(),
            param: error.param.clone(),
            attempts: error.attempts.clone(),
            budget: error.budget.clone(),
        }
    }

    /// The status on a plane, where it is `status` on all others.
    fn status(&self, plane: Plane, status: StatusCode) -> StatusCode {
        match plane {
            Plane::Messages => {
                let number = problem::status(status.as_u16(), self.class);
                StatusCode::from_u16(number).unwrap_or(status)
            }
            Plane::Model | Plane::Run => status,
        }
    }

    pub(super) fn body(&self, plane: Plane, request_id: Option<&str>) -> String {
        let Self { code, words: (kind, word), message, param, attempts, .. } = self;
        let (param, code) = (param.as_deref(), *code);
        let budget = self.budget.as_deref();
        let body = match plane {
            Plane::Model => {
                let error = Model { message, r#type: kind, param, code: word, attempts, budget };
                serde_json::to_string(&Envelope { error })
            }
            Plane::Messages => {
                let status = self.status(plane, self.status);
                return problem::body(status.as_u16(), message, word, request_id);
            }
            Plane::Run => {
                let error = Run {
                    code: code.name(),
                    message,
                    param,
                    runbook: code.runbook(),
                    attempts,
                    budget,
                };
                serde_json::to_string(&Envelope { error })
            }
        };
        // Strings and numbers always serialise.
        body.unwrap_or_default()
    }
}
