//! What went wrong with a model call: the one error class, the delay hint, and whether it can have cost anything.
//!
//! Status codes lie (a bad key is 400 at some, a context overflow 429 at others), so the body's own code counts
//! first and its words last. This module says what happened; what is done about it is `events::model_call`.

pub(crate) mod date;
pub(crate) mod envelope;
pub(crate) mod hint;
mod words;

use crate::secret::{Secret, cut, redact};
use envelope::Envelope;
pub use events::model_call::Class;
use events::quantity::{Instant, Millis};
use events::usage::Usage;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Bytes of a provider's words that are kept.
pub const MESSAGE_BYTES_MAX: usize = 2_048;
/// Bytes of a provider's request id that are kept; the longest seen has 64.
const REQUEST_ID_BYTES_MAX: usize = 128;
/// Where a provider's request id stands, in order.
const REQUEST_ID_HEADERS: [&str; 4] =
    ["x-request-id", "request-id", "x-oai-request-id", "x-amzn-requestid"];
/// Where AWS names the error, before a colon; its body has the words only.
const ERROR_TYPE_HEADER: &str = "x-amzn-errortype";

/// Whether a failed call can have cost anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// It was refused before any work, or never left: proven.
    NotCharged,
    /// Nobody proved that it was free.
    Unknown,
}

/// A model call that gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", class.name())]
pub struct Failure {
    /// The one error class.
    pub class: Class,
    /// HTTP status, where one came.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long the provider wants to be left alone: a floor for the next try.
    pub hint: Option<Millis>,
    /// The provider's words or ours, without keys, at most [`MESSAGE_BYTES_MAX`] bytes.
    pub message: String,
    /// Whether it can have cost anything.
    pub charge: Charge,
    /// Usage that was reported before it failed.
    pub partial: Usage,
}

impl Failure {
    /// A failure that this side saw.
    pub(crate) fn ours(class: Class, charge: Charge, message: &str) -> Self {
        Self {
            class,
            status: None,
            request_id: None,
            hint: None,
            message: cut(message, MESSAGE_BYTES_MAX).to_owned(),
            charge,
            partial: Usage::default(),
        }
    }
}

/// A reply that is not a success.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// HTTP status.
    pub status: u16,
    /// HTTP headers.
    pub headers: &'a HeaderMap,
    /// The body, or its start.
    pub body: &'a [u8],
    /// Now, for hints that name an instant; they are skipped without it.
    pub now: Option<Instant>,
}

/// Classifies a reply whose status is not a success.
#[must_use]
pub fn classify(reply: &Reply<'_>, key: Option<&Secret>) -> Failure {
    let mut envelope = Envelope::read(reply.body);
    if let Some(name) = reply.headers.get(ERROR_TYPE_HEADER).and_then(|name| name.to_str().ok()) {
        envelope.code = name.split(':').next().unwrap_or_default().to_lowercase();
    }
    let class = class_of(Some(reply.status), &envelope);
    let fallback = match reply.status {
        300..400 => {
            format!("HTTP {}: redirects are not followed, set the address itself", reply.status)
        }
        status => format!("HTTP {status} without a message"),
    };
    Failure {
        class,
        status: Some(reply.status),
        request_id: request_id(reply.headers),
        hint: hint::hint(reply, &envelope),
        message: words_of(&envelope, &fallback, key),
        charge: charge(reply.status, class),
        partial: Usage::default(),
    }
}

/// Classifies an error that came inside a success: a 200 is not an answer until its terminal event.
#[must_use]
pub fn classify_inside(
    error: &Value,
    reply: &Reply<'_>,
    began: Began,
    key: Option<&Secret>,
) -> Failure {
    let envelope = Envelope::of(error);
    let class = match (class_of(envelope.status(), &envelope), began) {
        // The request was good enough to be answered in part: it is the stream that failed.
        (Class::InvalidRequest | Class::Unknown, Began::Yes) => Class::StreamError,
        (class, Began::Yes | Began::No) => class,
    };
    Failure {
        class,
        status: Some(reply.status),
        request_id: request_id(reply.headers),
        hint: hint::hint(reply, &envelope),
        message: words_of(&envelope, "the answer is an error without a message", key),
        charge: Charge::Unknown,
        partial: Usage::default(),
    }
}

/// Whether an answer had begun when its error came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Began {
    /// Some of it was there.
    Yes,
    /// The error came first.
    No,
}

/// The provider's id of a request, from its headers.
#[must_use]
pub fn request_id(headers: &HeaderMap) -> Option<String> {
    let found = REQUEST_ID_HEADERS.into_iter().find_map(|name| headers.get(name)?.to_str().ok());
    found.map(|id| cut(id, REQUEST_ID_BYTES_MAX).to_owned())
}

/// The provider's own clock, for hints that name an instant: it is the clock that they were written by.
#[must_use]
pub fn server_now(headers: &HeaderMap) -> Option<Instant> {
    headers.get("date").and_then(|value| value.to_str().ok()).and_then(date::http)
}

fn words_of(envelope: &Envelope, fallback: &str, key: Option<&Secret>) -> String {
    let words = if envelope.message.is_empty() { &envelope.code } else { &envelope.message };
    let words = if words.is_empty() { fallback } else { words };
    redact(words, key, MESSAGE_BYTES_MAX)
}

/// A refusal by 3xx or 4xx comes before any work, but for the ones that speak of a time-out or of content, which is
/// read (and by some charged) before it is refused. Behind a 5xx work may have been done.
fn charge(status: u16, class: Class) -> Charge {
    let is_refusal = (300..500).contains(&status) && !matches!(status, 408 | 499);
    if is_refusal && class != Class::ContentPolicy { Charge::NotCharged } else { Charge::Unknown }
}

/// The class of an error with this status, as far as there is one, and this body.
fn class_of(status: Option<u16>, envelope: &Envelope) -> Class {
    if status == Some(429) {
        return words::limited(envelope);
    }
    // Codes that say no more than that the key is wrong stand beside words that say that it was right.
    if status == Some(401) && words::expired(envelope) {
        return Class::AuthExpired;
    }
    if let Some(class) = words::coded(envelope) {
        return class;
    }
    match status.or_else(|| words::implied(envelope)).unwrap_or_default() {
        401 => Class::AuthInvalid,
        402 => Class::Billing,
        403 => words::forbidden(envelope),
        404 => words::missing(envelope),
        408 | 504 | 524 => Class::Timeout,
        // A lock or a conflict at the provider: its own clients try again.
        409 | 425 => Class::ServerError,
        413 => words::spoken(envelope)
            .filter(|c| *c == Class::ContextOverflow)
            .unwrap_or(Class::PayloadTooLarge),
        503 | 529 => Class::Overloaded,
        300..500 => words::spoken(envelope).unwrap_or(Class::InvalidRequest),
        500..600 => words::spoken(envelope)
            .filter(|c| *c == Class::ContextOverflow)
            .unwrap_or(Class::ServerError),
        _ => words::spoken(envelope).unwrap_or(Class::Unknown),
    }
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
