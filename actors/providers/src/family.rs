//! The API families: what is spoken at an endpoint, from the request's bytes to the reader of the answer.
//!
//! A closed set. A new family is a module, a variant here and its arms below; nothing else asks which family it is
//! but the head of a request, which carries the key in the family's own way.

use crate::decode::{Decoder, Sse};
use crate::encode::EncodeError;
use crate::endpoint::{Dialect, Endpoint};
use crate::{anthropic, bedrock, gemini, openai_chat, openai_responses};
use bytes::Bytes;
use events::prompt::Request;
use url::Url;

/// How an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Piece by piece.
    Stream,
    /// In one body.
    Whole,
}

/// What is spoken at an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// OpenAI chat completions, and the many that speak it.
    OpenaiChat,
    /// Anthropic Messages, and the twins that speak it.
    AnthropicMessages,
    /// Gemini's `generateContent`.
    Gemini,
    /// Bedrock's Converse.
    Bedrock,
    /// OpenAI Responses, with an API key or behind a ChatGPT subscription.
    OpenaiResponses,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::OpenaiChat,
        Self::AnthropicMessages,
        Self::Gemini,
        Self::Bedrock,
        Self::OpenaiResponses,
    ];

    /// Its name in configuration and in the seal of reasoning. Part of stored seals: never changed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai_chat",
            Self::AnthropicMessages => "anthropic_messages",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock_converse",
            Self::OpenaiResponses => "openai_responses",
        }
    }

    /// The family of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Writes the body of a request.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] for what the family or this provider is known to refuse.
    pub fn encode(
        self,
        endpoint: &Endpoint,
        request: &Request,
        mode: Mode,
    ) -> Result<Vec<u8>, EncodeError> {
        match self {
            Self::OpenaiChat => openai_chat::encode::encode(endpoint, request, mode),
            Self::AnthropicMessages => anthropic::encode::encode(endpoint, request, mode),
            Self::Gemini => gemini::encode::encode(endpoint, request, mode),
            Self::Bedrock => bedrock::encode::encode(endpoint, request, mode),
            Self::OpenaiResponses => openai_responses::encode::encode(endpoint, request, mode),
        }
    }

    /// A reader of the answer to a request with these bytes, from which ids are made where the provider gives none.
    #[must_use]
    pub fn decoder(self, request: Bytes) -> Box<dyn Decoder> {
        match self {
            Self::OpenaiChat => Box::new(Sse::new(openai_chat::decode::Reader::new(request))),
            Self::AnthropicMessages => Box::new(Sse::new(anthropic::decode::Reader::new(request))),
            Self::Gemini => Box::new(Sse::new(gemini::decode::Reader::new(request))),
            Self::Bedrock => Box::new(bedrock::decode::Reader::new(request)),
            Self::OpenaiResponses => {
                Box::new(Sse::new(openai_responses::decode::Reader::new(request)))
            }
        }
    }

    /// Where a model is asked.
    pub(crate) fn ask_url(self, endpoint: &Endpoint, model: &str, mode: Mode) -> Url {
        match self {
            Self::OpenaiChat => endpoint.url("chat/completions"),
            Self::AnthropicMessages => anthropic::url(endpoint, "messages"),
            Self::Gemini => gemini::ask_url(endpoint, model, mode),
            Self::Bedrock => endpoint.url(&bedrock::path(model, mode)),
            Self::OpenaiResponses => endpoint.url("responses"),
        }
    }

    /// Where the models are listed; `None` where they are not.
    pub(crate) fn models_url(self, endpoint: &Endpoint) -> Option<Url> {
        match self {
            // A subscription lists its own client's models in a form of its own.
            Self::OpenaiResponses if endpoint.quirks.dialect == Dialect::Codex => None,
            Self::OpenaiChat | Self::OpenaiResponses => Some(endpoint.url("models")),
            Self::AnthropicMessages => Some(anthropic::models_url(endpoint)),
            Self::Gemini => Some(gemini::models_url(endpoint)),
            // They are listed by another service under another name, which needs rights of its own.
            Self::Bedrock => None,
        }
    }

    /// What an answer is asked for as.
    pub(crate) const fn accept(self, mode: Mode) -> &'static str {
        match (mode, self) {
            (Mode::Stream, Self::Bedrock) => bedrock::FRAMES,
            (
                Mode::Stream,
                Self::OpenaiChat | Self::AnthropicMessages | Self::Gemini | Self::OpenaiResponses,
            ) => "text/event-stream",
            (Mode::Whole, _) => "application/json",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_family() {
        for family in Family::ALL {
            assert_eq!(Family::named(family.name()), Some(family));
        }
        assert_eq!(Family::named("openai"), None);
    }
}
