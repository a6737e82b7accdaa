//! Refusals as providers of each family write them: the status, the words and the place where a hint hides.
//!
//! The inverse of `class::classify`: what is refused here with a class is read there as that class.

use super::{Field, Frame, Part, event, list, object, quoted};
use crate::bedrock::frames::written;
use crate::class::{Class, date};
use crate::family::Family;
use events::quantity::{Instant, Millis};
use serde_json::Value;

/// What a provider has to complain of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The class that it shall be read as.
    pub class: Class,
    /// How long to leave the provider alone, and where that is said.
    pub hint: Option<(Millis, Place)>,
    /// The HTTP status, where it is not the class's usual one.
    pub status: Option<u16>,
    /// Words for a person; put before those that tell the class.
    pub words: String,
}

impl Complaint {
    /// Of this class, with nothing more to say.
    #[must_use]
    pub const fn of(class: Class) -> Self {
        Self { class, hint: None, status: None, words: String::new() }
    }
}

/// Where a hint hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The header `retry-after-ms`.
    RetryAfterMs,
    /// The header `retry-after`, in seconds.
    RetryAfter,
    /// The header `retry-after`, as a date.
    Date,
    /// `retryDelay` in the body's details, as Google's APIs say it.
    RetryInfo,
    /// `resets_at` of the body, in seconds since 1970.
    ResetsAt,
    /// The headers of a subscription's limit that is used up.
    Limit,
    /// "Please try again in 1.25s".
    Prose,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::RetryAfterMs,
        Self::RetryAfter,
        Self::Date,
        Self::RetryInfo,
        Self::ResetsAt,
        Self::Limit,
        Self::Prose,
    ];

    /// Its name in a script.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetryAfterMs => "retry-after-ms",
            Self::RetryAfter => "retry-after",
            Self::Date => "date",
            Self::RetryInfo => "retry-info",
            Self::ResetsAt => "resets-at",
            Self::Limit => "limit",
            Self::Prose => "prose",
        }
    }
}

/// A refusal on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// Headers besides the body's type.
    pub headers: Vec<(&'static str, String)>,
    /// The body: JSON.
    pub body: String,
}

/// How a family says a class: status, code (or AWS's name of the exception), type, words.
type Shape = (u16, &'static str, &'static str, &'static str);

/// A refusal before any answer; `now` is the provider's clock, which its `date` header must say.
#[must_use]
pub fn refuse(family: Family, complaint: &Complaint, now: Instant) -> Refused {
    let (usual, code, _, _) = shape(family, complaint.class);
    let status = complaint.status.unwrap_or(usual);
    let mut headers = Vec::new();
    if let Some((Millis(wait), place)) = complaint.hint {
        let until = Instant(now.0.saturating_add(micros(wait)));
        match place {
            Place::RetryAfterMs => headers.push(("retry-after-ms", wait.to_string())),
            Place::RetryAfter => headers.push(("retry-after", seconds(wait))),
            Place::Date => headers.push(("retry-after", date::text(until))),
            Place::Limit => {
                headers.push(("x-codex-primary-used-percent", "100".to_owned()));
                headers.push(("x-codex-primary-reset-at", epoch(until)));
            }
            Place::RetryInfo | Place::ResetsAt | Place::Prose => {}
        }
    }
    if family == Family::Bedrock {
        headers.push(("x-amzn-errortype", format!("{code}:http://internal.amazon.com/coral/")));
    }
    let fields = error(family, complaint, status, now);
    let body = match family {
        Family::AnthropicMessages => object(&[
            ("type", Some(quoted("error"))),
            ("error", Some(fields)),
            ("request_id", Some("null".to_owned())),
        ]),
        Family::Bedrock => fields,
        Family::OpenaiChat | Family::OpenaiResponses | Family::Gemini => {
            object(&[("error", Some(fields))])
        }
    };
    Refused { status, headers, body }
}

/// An error inside a stream whose status said success.
#[must_use]
pub fn break_off(family: Family, complaint: &Complaint, now: Instant) -> Vec<Frame> {
    let (usual, code, _, _) = shape(family, complaint.class);
    let fields = error(family, complaint, complaint.status.unwrap_or(usual), now);
    let error = || ("error", Some(fields.clone()));
    let typed = |name: &str, rest: &[Field<'_>]| {
        let own = ("type", Some(quoted(name)));
        event(name, &super::joined(&[std::slice::from_ref(&own), rest]))
    };
    let frames = match family {
        Family::OpenaiChat | Family::Gemini => vec![event("", &object(&[error()]))],
        Family::AnthropicMessages => vec![typed("error", &[error()])],
        Family::OpenaiResponses => {
            let status = ("status", Some(quoted("failed")));
            let response = object(&[status, error(), ("output", Some("[]".to_owned()))]);
            let failed = typed("response.failed", &[("response", Some(response))]);
            vec![typed("error", &[error()]), failed]
        }
        // AWS writes the names of exceptions small at their beginning when they come in a stream.
        Family::Bedrock => {
            let (first, rest) = code.split_at_checked(1).unwrap_or_default();
            let name = format!("{}{rest}", first.to_lowercase());
            vec![written::exception(&name, &fields)]
        }
    };
    frames.into_iter().map(|bytes| Frame { bytes, part: Part::Ends }).collect()
}

fn micros(wait: u64) -> i64 {
    i64::try_from(wait).unwrap_or(i64::MAX).saturating_mul(1_000)
}

/// Milliseconds as seconds, exact.
fn seconds(wait: u64) -> String {
    let (whole, rest) = (wait / 1_000, wait % 1_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}") }
}

fn epoch(at: Instant) -> String {
    at.0.div_euclid(1_000_000).to_string()
}

fn words(family: Family, complaint: &Complaint) -> String {
    let (_, _, _, telling) = shape(family, complaint.class);
    let mut said = complaint.words.clone();
    let mut add = |more: &str| {
        if !said.is_empty() && !more.is_empty() {
            said.push_str(": ");
        }
        said.push_str(more);
    };
    add(telling);
    if let Some((Millis(wait), Place::Prose)) = complaint.hint {
        add(&format!("Please try again in {}s.", seconds(wait)));
    }
    said
}

/// The error's own fields.
fn error(family: Family, complaint: &Complaint, status: u16, now: Instant) -> String {
    let (_, code, kind, _) = shape(family, complaint.class);
    let words = words(family, complaint);
    let words = words.as_str();
    let some = |text: &str| (!text.is_empty()).then(|| quoted(text));
    let is_upstream = complaint.class == Class::UpstreamRateLimited;
    let upstream = is_upstream.then(|| {
        object(&[("provider_name", Some(quoted("Elsewhere"))), ("raw", Some(quoted("busy")))])
    });
    let (details, resets) = (details(family, complaint), resets(complaint, now));
    let null = || Some("null".to_owned());
    let own: Vec<Field<'_>> = match family {
        Family::OpenaiChat | Family::OpenaiResponses => {
            let about = (complaint.class == Class::ToolsTooMany).then(|| quoted("tools"));
            vec![
                ("message", some(words)),
                ("type", some(kind)),
                ("param", about.or_else(null)),
                ("code", some(code).or_else(null)),
            ]
        }
        Family::AnthropicMessages => vec![("type", some(kind)), ("message", some(words))],
        Family::Gemini => vec![
            ("code", Some(status.to_string())),
            ("message", some(words)),
            ("status", some(kind)),
        ],
        Family::Bedrock => vec![("message", Some(Value::from(words).to_string()))],
    };
    super::joined(&[&own, &[("metadata", upstream), ("details", details), ("resets_at", resets)]])
}

/// What Google's APIs list beside an error, and others took over: why, which quota, how long.
fn details(family: Family, complaint: &Complaint) -> Option<String> {
    let typed = |kind: &str, rest: Field<'_>| {
        let kind = format!("type.googleapis.com/google.rpc.{kind}");
        object(&[("@type", Some(quoted(&kind))), rest])
    };
    let wait = match complaint.hint {
        Some((Millis(wait), Place::RetryInfo)) => Some(format!("{}s", seconds(wait))),
        Some(_) | None => None,
    };
    let quota = match (family, complaint.class) {
        (Family::Gemini, Class::RateLimited) => Some("GenerateRequestsPerMinutePerProject"),
        (Family::Gemini, Class::QuotaExhausted) => Some("GenerateRequestsPerDayPerProject"),
        (_, _) => None,
    };
    let is_key = family == Family::Gemini && complaint.class == Class::AuthInvalid;
    let all = [
        is_key.then(|| typed("ErrorInfo", ("reason", Some(quoted("API_KEY_INVALID"))))),
        quota.map(|id| {
            let violation = object(&[("quotaId", Some(quoted(id)))]);
            typed("QuotaFailure", ("violations", Some(list(&[violation]))))
        }),
        wait.map(|wait| typed("RetryInfo", ("retryDelay", Some(quoted(&wait))))),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| list(&all))
}

/// When the quota is new again.
fn resets(complaint: &Complaint, now: Instant) -> Option<String> {
    match complaint.hint {
        Some((Millis(wait), Place::ResetsAt)) => {
            Some(epoch(Instant(now.0.saturating_add(micros(wait)))))
        }
        Some(_) | None => None,
    }
}

fn shape(family: Family, class: Class) -> Shape {
    match family {
        Family::OpenaiChat | Family::OpenaiResponses => openai(class),
        Family::AnthropicMessages => anthropic(class),
        Family::Gemini => gemini(class),
        Family::Bedrock => bedrock(class),
    }
}

const REQUEST: &str = "invalid_request_error";
const LONG: &str = "prompt is too long: 300000 tokens, and the maximum context length is 200000";
const TOOLS: &str = "too many tools: at most 128";
const UPSTREAM: &str = "Provider returned error";

/// Transport, TLS and a cut stream have no words of the provider's; the nearest refusal stands in their place.
fn openai(class: Class) -> Shape {
    match class {
        Class::AuthExpired => (401, "token_expired", REQUEST, "the token is expired"),
        Class::AuthInvalid => (401, "invalid_api_key", REQUEST, "Incorrect API key provided"),
        Class::Billing => (402, "insufficient_credits", "billing", "Insufficient credits"),
        Class::RateLimited => (429, "rate_limit_exceeded", "requests", "Rate limit reached"),
        Class::QuotaExhausted => {
            let code = "insufficient_quota";
            (429, code, code, "You exceeded your current quota")
        }
        Class::UpstreamRateLimited => (429, "", "", UPSTREAM),
        Class::Overloaded => (503, "service_unavailable", "", "The engine is overloaded"),
        Class::ServerError
        | Class::Transport
        | Class::Tls
        | Class::StreamTruncated
        | Class::StreamError => (500, "server_error", "server_error", "The server had an error"),
        Class::Timeout => (504, "timeout_error", "", "The model took too long"),
        Class::ContextOverflow => (400, "context_length_exceeded", REQUEST, LONG),
        Class::PayloadTooLarge => (413, "request_too_large", REQUEST, "the body is too large"),
        Class::ModelNotFound => (404, "model_not_found", REQUEST, "The model does not exist"),
        Class::ToolsTooMany => (400, "array_above_max_length", REQUEST, TOOLS),
        Class::InvalidRequest => (400, "", REQUEST, "the request is not valid"),
        Class::ReplayRejected => {
            (400, "invalid_encrypted_content", REQUEST, "The encrypted content could not be read")
        }
        Class::ContentPolicy => (400, "content_filter", REQUEST, "the content was filtered"),
        Class::Unknown => (600, "", "", "something else"),
    }
}

fn anthropic(class: Class) -> Shape {
    match class {
        Class::AuthExpired => (401, "", "authentication_error", "OAuth token has expired"),
        Class::AuthInvalid => (401, "", "authentication_error", "invalid x-api-key"),
        Class::Billing => (402, "", "billing_error", "Your credit balance is too low"),
        Class::RateLimited => (429, "", "rate_limit_error", "This would exceed the rate limit"),
        Class::QuotaExhausted => (429, "", "rate_limit_error", "You have reached your usage limit"),
        Class::UpstreamRateLimited => (429, "", "rate_limit_error", UPSTREAM),
        Class::Overloaded => (529, "", "overloaded_error", "Overloaded"),
        Class::ServerError
        | Class::Transport
        | Class::Tls
        | Class::StreamTruncated
        | Class::StreamError => (500, "", "api_error", "Internal server error"),
        Class::Timeout => (504, "", "timeout_error", "The request timed out"),
        Class::ContextOverflow => (400, "", REQUEST, LONG),
        Class::PayloadTooLarge => (413, "", "request_too_large", "Request exceeds the size"),
        Class::ModelNotFound => (404, "", "not_found_error", "model: no such model"),
        Class::ToolsTooMany => (400, "", REQUEST, TOOLS),
        Class::InvalidRequest => (400, "", REQUEST, "messages: roles must alternate"),
        Class::ReplayRejected => (400, "", REQUEST, "Invalid `signature` in `thinking` block"),
        Class::ContentPolicy => (400, "", REQUEST, "Output blocked by content filter policy"),
        Class::Unknown => (600, "", "", "something else"),
    }
}

fn gemini(class: Class) -> Shape {
    let argument = "INVALID_ARGUMENT";
    match class {
        Class::AuthExpired => (401, "", "UNAUTHENTICATED", "the access token is expired"),
        Class::AuthInvalid => (400, "", argument, "API key not valid"),
        Class::Billing => (403, "", "PERMISSION_DENIED", "billing is disabled for the project"),
        Class::RateLimited => (429, "", "RESOURCE_EXHAUSTED", "Resource has been exhausted"),
        Class::QuotaExhausted => (429, "", "RESOURCE_EXHAUSTED", "You exceeded your current quota"),
        Class::UpstreamRateLimited => (429, "", "RESOURCE_EXHAUSTED", UPSTREAM),
        Class::Overloaded => (503, "", "UNAVAILABLE", "The model is overloaded."),
        Class::ServerError
        | Class::Transport
        | Class::Tls
        | Class::StreamTruncated
        | Class::StreamError => (500, "", "INTERNAL", "An internal error has occurred."),
        Class::Timeout => (504, "", "DEADLINE_EXCEEDED", "The deadline passed"),
        Class::ContextOverflow => {
            (400, "", argument, "The input exceeds the maximum number of tokens allowed")
        }
        Class::PayloadTooLarge => (413, "", argument, "the body is too large"),
        Class::ModelNotFound => (404, "", "NOT_FOUND", "models/x is not found"),
        Class::ToolsTooMany => (400, "", argument, TOOLS),
        Class::InvalidRequest => (400, "", argument, "contents: roles must alternate"),
        Class::ReplayRejected => {
            (400, "", argument, "Function call is missing a thought_signature")
        }
        Class::ContentPolicy => (400, "", argument, "refused under the content policy"),
        Class::Unknown => (600, "", "", "something else"),
    }
}

fn bedrock(class: Class) -> Shape {
    let validation = "ValidationException";
    match class {
        Class::AuthExpired => (403, "ExpiredTokenException", "", "The security token is expired"),
        Class::AuthInvalid => (403, "UnrecognizedClientException", "", "The token is invalid"),
        Class::Billing => (402, "AccessDeniedException", "", "payment required"),
        Class::RateLimited => (429, "ThrottlingException", "", "Too many requests"),
        Class::QuotaExhausted => (400, "ServiceQuotaExceededException", "", "a quota is used up"),
        Class::UpstreamRateLimited => (429, "ThrottlingException", "", UPSTREAM),
        Class::Overloaded => (503, "ServiceUnavailableException", "", "unavailable"),
        Class::ServerError | Class::Transport | Class::Tls | Class::StreamTruncated => {
            (500, "InternalServerException", "", "an internal error")
        }
        Class::StreamError => (424, "ModelStreamErrorException", "", "the stream failed"),
        Class::Timeout => (408, "ModelTimeoutException", "", "the model took too long"),
        Class::ContextOverflow => (400, validation, "", "Input is too long for requested model."),
        Class::PayloadTooLarge => (413, validation, "", "the body is too large"),
        Class::ModelNotFound => (404, "ResourceNotFoundException", "", "no such model"),
        Class::ToolsTooMany => (400, validation, "", TOOLS),
        Class::InvalidRequest => (400, validation, "", "messages: roles must alternate"),
        Class::ReplayRejected => (400, validation, "", "invalid signature in thinking block"),
        Class::ContentPolicy => (400, validation, "", "refused under the content policy"),
        Class::Unknown => (600, "UnknownException", "", "something else"),
    }
}
