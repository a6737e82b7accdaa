//! The head of a request, with the key in it, and the head of a reply, which says what its body is.

use crate::bedrock::sign::{Ask, Credentials, sign};
use crate::class::{Charge, Class, Failure};
use crate::endpoint::{Auth, Dialect, Endpoint};
use crate::family::Family;
use crate::login::account_of;
use crate::{anthropic, bedrock, gemini};
use events::quantity::Instant;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};

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

/// The coding of a body, when it is one that nobody asked for: read as it stands, parts of it could pass for an answer.
pub(super) fn coding(headers: &HeaderMap) -> Option<String> {
    let said = headers.get(CONTENT_ENCODING)?;
    let said = String::from_utf8_lossy(said.as_bytes()).trim().to_ascii_lowercase();
    (!said.is_empty() && said != "identity").then(|| said.chars().take(40).collect())
}

/// A header can not be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("the key has characters that no header takes: read it again without its line end")]
    Key,
    #[error("the login's account has characters that no header takes: log in again")]
    Account,
    /// Its value may be a secret: only its name is ever said.
    #[error("configured header {0:?} is not one of HTTP: mend its name or its value")]
    Configured(String),
    #[error("requests to this provider are signed for a region: set AWS_REGION")]
    NoRegion,
    /// A fault of whoever built the client.
    #[error(
        "requests to this provider are signed with the time, and this client was given no clock"
    )]
    NoClock,
}

impl From<HeaderError> for Failure {
    fn from(error: HeaderError) -> Self {
        let class = match error {
            HeaderError::Key | HeaderError::Account => Class::AuthInvalid,
            HeaderError::Configured(_) | HeaderError::NoRegion | HeaderError::NoClock => {
                Class::InvalidRequest
            }
        };
        Self::ours(class, Charge::NotCharged, &error.to_string())
    }
}

/// A secret as the value of a header, without a copy left behind.
fn secret(before: &str, text: &str) -> Result<HeaderValue, HeaderError> {
    let mut bytes = format!("{before}{text}").into_bytes();
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
    if endpoint.quirks.dialect == Dialect::Codex {
        headers.insert("originator", HeaderValue::from_static(super::ORIGINATOR));
        let said = endpoint.key.as_ref().and_then(|key| account_of(key.expose()));
        if let Some(account) = endpoint.account.clone().or(said) {
            let mut value = HeaderValue::from_str(&account).map_err(|_| HeaderError::Account)?;
            value.set_sensitive(true);
            headers.insert("chatgpt-account-id", value);
        }
    }
    match endpoint.family {
        Family::OpenaiChat | Family::OpenaiResponses | Family::Gemini | Family::Bedrock => {}
        Family::AnthropicMessages => {
            let version = HeaderValue::from_static(anthropic::VERSION);
            headers.insert("anthropic-version", version);
        }
    }
    if let Some(key) = &endpoint.key {
        let bearer = || Ok::<_, HeaderError>((AUTHORIZATION, secret("Bearer ", key.expose())?));
        let named = |name| Ok((HeaderName::from_static(name), secret("", key.expose())?));
        let header = match (endpoint.family, endpoint.quirks.auth) {
            (Family::OpenaiChat | Family::OpenaiResponses, Auth::Usual) | (_, Auth::Bearer) => {
                Some(bearer()?)
            }
            (Family::AnthropicMessages, Auth::Usual) => Some(named("x-api-key")?),
            (Family::Gemini, Auth::Usual) => Some(named(gemini::KEY_HEADER)?),
            // A key that signs never travels: its signature is put on once the body is known.
            (Family::Bedrock, Auth::Usual) if Credentials::read(key).is_some() => None,
            (Family::Bedrock, Auth::Usual) => Some(bearer()?),
        };
        if let Some((name, value)) = header {
            headers.insert(name, value);
        }
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

/// The headers of a signature over a POST with this type and body, for the family that signs; none for others.
pub(super) fn signature(
    endpoint: &Endpoint,
    ask: &Ask<'_>,
    now: Option<Instant>,
) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    let key = endpoint.key.as_ref().filter(|_| endpoint.family == Family::Bedrock);
    let Some(credentials) = key.and_then(Credentials::read) else { return Ok(headers) };
    let region = bedrock::region(endpoint).ok_or(HeaderError::NoRegion)?;
    let signature = sign(&credentials, region, ask, now.ok_or(HeaderError::NoClock)?);
    let date = HeaderValue::from_str(&signature.date).map_err(|_| HeaderError::Key)?;
    headers.insert(HeaderName::from_static("x-amz-date"), date);
    if let Some(token) = signature.token {
        headers.insert(HeaderName::from_static("x-amz-security-token"), secret("", &token)?);
    }
    headers.insert(AUTHORIZATION, secret("", &signature.authorization)?);
    Ok(headers)
}
