//! The head of a request, with the key in it, and the head of a reply, which says what its body is.

use crate::anthropic;
use crate::class::{Charge, Class, Failure};
use crate::endpoint::{Auth, Endpoint};
use crate::family::Family;
use crate::secret::Secret;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

/// What a success is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Events,
    Whole,
    /// A web page: the address is another server's.
    Page,
}

/// Tells by the type, and where that does not say, by the first byte.
pub(super) fn form(headers: &HeaderMap, first: &[u8]) -> Form {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let said = said.to_ascii_lowercase();
    let opens = first.trim_ascii_start().first();
    if said.contains("event-stream") {
        Form::Events
    } else if said.contains("text/html") {
        Form::Page
    } else if said.contains("json") || matches!(opens, Some(b'{' | b'[')) {
        Form::Whole
    } else {
        Form::Events
    }
}

/// A header can not be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("the key has characters that no header takes: read it again without its line end")]
    Key,
    /// Its value may be a secret: only its name is ever said.
    #[error("configured header {0:?} is not one of HTTP: mend its name or its value")]
    Configured(String),
}

impl From<HeaderError> for Failure {
    fn from(error: HeaderError) -> Self {
        let class = match error {
            HeaderError::Key => Class::AuthInvalid,
            HeaderError::Configured(_) => Class::InvalidRequest,
        };
        Self::ours(class, Charge::NotCharged, &error.to_string())
    }
}

/// A key as the value of a header, without a copy left behind.
fn secret(before: &str, key: &Secret) -> Result<HeaderValue, HeaderError> {
    let mut bytes = format!("{before}{}", key.expose()).into_bytes();
    let value = HeaderValue::from_bytes(&bytes);
    bytes.fill(0);
    std::hint::black_box(&bytes);
    let mut value = value.map_err(|_| HeaderError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The headers of a call: what is accepted, the family's own, the key, and what is configured, which wins.
pub(super) fn headers(endpoint: &Endpoint, accept: &'static str) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    match endpoint.family {
        Family::OpenaiChat => {}
        Family::AnthropicMessages => {
            let version = HeaderValue::from_static(anthropic::VERSION);
            headers.insert("anthropic-version", version);
        }
    }
    if let Some(key) = &endpoint.key {
        let (name, value) = match (endpoint.family, endpoint.quirks.auth) {
            (Family::OpenaiChat, Auth::Usual | Auth::Bearer)
            | (Family::AnthropicMessages, Auth::Bearer) => (AUTHORIZATION, secret("Bearer ", key)?),
            (Family::AnthropicMessages, Auth::Usual) => {
                (HeaderName::from_static("x-api-key"), secret("", key)?)
            }
        };
        headers.insert(name, value);
    }
    for (name, value) in &endpoint.headers {
        let odd = || HeaderError::Configured(name.clone());
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| odd())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| odd())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}
