//! Where a call goes: one provider's address, key, headers, deadlines and quirks.
//!
//! A quirk is a fact of one provider's wire, looked up in the registry's table; no code asks for a provider by name.

use crate::family::{Family, Mode};
use crate::secret::Secret;
use events::message::Seal;
use std::fmt;
use std::time::Duration;
use url::Url;

/// The longest silence between two bytes of an answer. Reasoning models think for a minute without a word.
pub const IDLE: Duration = Duration::from_secs(120);
/// The longest a whole call takes, silence or not.
pub const TOTAL: Duration = Duration::from_secs(600);

/// One endpoint, as configured. Its debug print shows no key and no header's value.
#[derive(Clone)]
pub struct Endpoint {
    /// Provider id: a label, and part of the seal of reasoning.
    pub provider: String,
    /// What is spoken there.
    pub family: Family,
    /// Base address; the family's own path is put behind it.
    pub base_url: Url,
    /// The key, where one is needed.
    pub key: Option<Secret>,
    /// The credential profile, part of the seal of reasoning; empty for the only one.
    pub profile: String,
    /// The account that a login belongs to, where a call must name it and its token may not say it.
    pub account: Option<String>,
    /// The region that requests are signed for, where the family signs them and the address does not say it.
    pub region: Option<String>,
    /// More headers. Their values are marked as sensitive.
    pub headers: Vec<(String, String)>,
    /// The longest silence between two bytes of a stream.
    pub idle: Duration,
    /// The longest a whole call takes.
    pub total: Duration,
    /// What this provider does in its own way.
    pub quirks: Quirks,
}

impl Endpoint {
    /// An endpoint with the usual deadlines, no headers and the only profile.
    #[must_use]
    pub fn new(
        provider: &str,
        family: Family,
        base_url: Url,
        key: Option<Secret>,
        quirks: Quirks,
    ) -> Self {
        let (profile, headers) = (String::new(), Vec::new());
        let provider = provider.to_owned();
        let (account, region, idle, total) = (None, None, IDLE, TOTAL);
        Self {
            provider,
            family,
            base_url,
            key,
            profile,
            account,
            region,
            headers,
            idle,
            total,
            quirks,
        }
    }

    /// Whether it says which models it has, when it is asked for them.
    #[must_use]
    pub fn lists_models(&self) -> bool {
        self.family.models_url(self).is_some()
    }

    /// Whom the reasoning of a model here belongs to.
    #[must_use]
    pub fn seal(&self, model: &str) -> Seal {
        Seal {
            family: self.family.name().to_owned(),
            endpoint: self.base_url.as_str().to_owned(),
            profile: self.profile.clone(),
            model: model.to_owned(),
        }
    }

    /// How an answer is asked for that is wanted in this way.
    pub(crate) fn mode(&self, wanted: Mode) -> Mode {
        match self.quirks.dialect {
            Dialect::Usual => wanted,
            Dialect::Codex => Mode::Stream,
        }
    }

    /// The address of a path below the base, with one slash between them. The query of the base is kept: some
    /// accounts have their API version there.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        url.set_path(&format!("{}/{path}", self.base_url.path().trim_end_matches('/')));
        url
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("family", &self.family)
            .field("host", &self.base_url.host_str())
            .field("path", &self.base_url.path())
            .field("key", &self.key)
            .field("profile", &self.profile)
            .field("account", &self.account.as_ref().map(|_| "set"))
            .field("region", &self.region)
            .field("headers", &names)
            .field("idle", &self.idle)
            .field("total", &self.total)
            .field("quirks", &self.quirks)
            .finish()
    }
}

/// What a provider does in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// How the bound on output is spelled.
    pub output_max: OutputMax,
    /// The most tools of one request, where the provider has a cap.
    pub tools_max: Option<usize>,
    /// How reasoning of earlier turns is sent back.
    pub reasoning: Reasoning,
    /// Whether the caller's temperature is sent.
    pub temperature: Temperature,
    /// Whether the caller's `thinking` is sent.
    pub thinking: Thinking,
    /// Which parts a user's message may have.
    pub parts: Parts,
    /// Whether a cache key is sent.
    pub cache_key: CacheKey,
    /// How the key is presented.
    pub auth: Auth,
    /// Which form of its family it speaks.
    pub dialect: Dialect,
    /// Fields that are sent unless the caller sends them: name and JSON.
    pub defaults: &'static [(&'static str, &'static str)],
}

impl Quirks {
    /// A provider that does as the older field names of the family say; safe with an unknown one.
    pub const STANDARD: Self = Self {
        output_max: OutputMax::MaxTokens,
        tools_max: None,
        reasoning: Reasoning::Dropped,
        temperature: Temperature::Sent,
        thinking: Thinking::Sent,
        parts: Parts::All,
        cache_key: CacheKey::Omitted,
        auth: Auth::Usual,
        dialect: Dialect::Usual,
        defaults: &[],
    };
}

/// How the bound on output is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMax {
    /// `max_tokens`: every compatible knows it.
    MaxTokens,
    /// `max_completion_tokens`: OpenAI's reasoning models refuse the other.
    MaxCompletionTokens,
}

/// How reasoning of earlier turns is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasoning {
    /// Not at all.
    Dropped,
    /// As `reasoning_content` of the assistant's message, which some demand after a tool call.
    ReasoningContent,
}

/// Whether the caller's temperature is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temperature {
    /// As the caller says.
    Sent,
    /// Never: the server sets it and refuses another.
    Omitted,
}

/// Whether the caller's `thinking` is sent, a word of Anthropic's that some compatibles took over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// As the caller says; those that do not know it read past it.
    Sent,
    /// Never: the server refuses what it does not know.
    Omitted,
}

/// Which parts a user's message may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Text, images and what else the family knows.
    All,
    /// Text only; an image is refused here rather than there.
    TextOnly,
}

/// Whether `prompt_cache_key` is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKey {
    /// A hash of the stable prefix is sent, so that equal prefixes meet the same cache.
    Sent,
    /// The provider does not know it.
    Omitted,
}

/// How the key is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// As the family does.
    Usual,
    /// As a bearer token, whatever the family does.
    Bearer,
}

/// Which form of its family a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The one that its vendor documents.
    Usual,
    /// Responses behind a ChatGPT subscription: in pieces only, with instructions always, and with fewer fields.
    Codex,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, then: &str) {
        let endpoint =
            Endpoint::new("p", Family::OpenaiChat, base.parse().unwrap(), None, Quirks::STANDARD);
        assert_eq!(endpoint.url("chat/completions").as_str(), then);
    }

    #[test]
    fn a_path_is_put_behind_the_base() {
        check("https://a.b/v1", "https://a.b/v1/chat/completions");
        check("https://a.b/v1/", "https://a.b/v1/chat/completions");
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080/chat/completions");
        check("https://a.b/v1?api-version=7", "https://a.b/v1/chat/completions?api-version=7");
    }

    #[test]
    fn an_endpoint_prints_without_its_secrets() {
        let key = Some(Secret::new("topsecret".to_owned()));
        let base = "https://a.b/v1?sig=topsecret".parse().unwrap();
        let mut endpoint = Endpoint::new("p", Family::OpenaiChat, base, key, Quirks::STANDARD);
        endpoint.headers.push(("x-token".into(), "topsecret".into()));
        let shown = format!("{endpoint:?}");
        assert!(!shown.contains("topsecret") && shown.contains("x-token"), "{shown}");
    }
}
