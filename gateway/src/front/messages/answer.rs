//! The whole answer as one `message` object.
//!
//! What is not known is null, never zero: a client that adds up zeros believes its bill.

use super::{Thoughts, thought};
use crate::front::blocks::Sealed;
use crate::front::door::{Ending, Head};
use crate::front::finish::Finish;
use bytes::Bytes;
use events::message::{Message, Part};
use events::quantity::Tokens;
use events::usage::Usage;
use serde::Serialize;
use serde_json::value::RawValue;

/// The whole answer. Parts that this API has no place for are left out.
#[must_use]
pub fn whole(head: &Head<'_>, end: &Ending<'_>, thoughts: Thoughts) -> Bytes {
    let answer = Answer {
        id: id(head),
        kind: "message",
        role: "assistant",
        model: head.model,
        content: end.message.parts.iter().filter_map(|part| Block::of(part, thoughts)).collect(),
        stop_reason: Some(word(end.finish, Words::of(end.message))),
        stop_sequence: (),
        usage: UsageWire::of(end.usage),
    };
    // Strings, integers and JSON that was read as such; serialising them can not fail.
    Bytes::from(serde_json::to_vec(&answer).unwrap_or_default())
}

pub(super) fn id(head: &Head<'_>) -> String {
    format!("msg_{}", head.run)
}

/// What the words of an answer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// What was asked for.
    Answer,
    /// The model's refusal.
    Refusal,
}

impl Words {
    fn of(message: &Message) -> Self {
        let refuses = |part: &Part| matches!(part, Part::Refusal { .. });
        if message.parts.iter().any(refuses) { Self::Refusal } else { Self::Answer }
    }
}

/// The word of this API for how an answer ended. Which stop sequence was met no provider of another family says, so
/// an answer that met one ends its turn.
pub(super) const fn word(finish: Finish, words: Words) -> &'static str {
    match (finish, words) {
        (Finish::ToolCalls, _) => "tool_use",
        (Finish::Length, _) => "max_tokens",
        (Finish::ContentFilter, _) | (Finish::Stop, Words::Refusal) => "refusal",
        (Finish::Stop, Words::Answer) => "end_turn",
    }
}

/// A message object, also the empty one that opens a stream.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: Vec<Block<'a>>,
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: (),
    pub(super) usage: UsageWire,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str, signature: String },
    RedactedThinking { data: String },
    ToolUse { id: &'a str, name: &'a str, input: Input<'a> },
}

impl<'a> Block<'a> {
    fn of(part: &'a Part, thoughts: Thoughts) -> Option<Self> {
        match part {
            Part::Text { text } | Part::Refusal { text } if !text.is_empty() => {
                Some(Self::Text { text })
            }
            Part::Reasoning { text, seal, sealed } if thoughts == Thoughts::Shown => {
                let signature = thought::signature(&Sealed::of(seal, sealed.as_ref()));
                Some(if text.is_empty() {
                    Self::RedactedThinking { data: signature }
                } else {
                    Self::Thinking { thinking: text, signature }
                })
            }
            Part::ToolCall(call) => {
                let input = Input::of(&call.arguments);
                Some(Self::ToolUse { id: &call.id, name: &call.name, input })
            }
            Part::Text { .. }
            | Part::Refusal { .. }
            | Part::Reasoning { .. }
            | Part::Image { .. }
            | Part::ToolResult(_)
            | Part::Opaque(_) => None,
        }
    }
}

/// The arguments of a call, byte for byte as the model wrote them.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Json(Box<RawValue>),
    /// No JSON: given as the text that it is. An empty object in its place would be run as a call that nobody made.
    Text(&'a str),
}

impl<'a> Input<'a> {
    fn of(arguments: &'a str) -> Self {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        RawValue::from_string(text.to_owned()).map_or(Self::Text(arguments), Self::Json)
    }
}

/// The usage object. This API counts what came from a cache apart from the rest of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct UsageWire {
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct OutputDetails {
    thinking_tokens: u64,
}

impl UsageWire {
    pub(super) fn of(usage: &Usage) -> Self {
        let count = |tokens: Option<Tokens>| tokens.map(|tokens| tokens.0);
        let (read, written) = (count(usage.cached_input), count(usage.cache_write));
        let cached = read.unwrap_or_default().saturating_add(written.unwrap_or_default());
        Self {
            input_tokens: count(usage.prompt).map(|all| all.saturating_sub(cached)),
            cache_creation_input_tokens: written,
            cache_read_input_tokens: read,
            output_tokens: count(usage.completion),
            output_tokens_details: count(usage.reasoning)
                .map(|thinking_tokens| OutputDetails { thinking_tokens }),
        }
    }

    /// What opens a stream: nothing has been counted yet, clients demand numbers here, and what stands at the end
    /// replaces them.
    pub(super) const fn not_yet() -> Self {
        Self {
            input_tokens: Some(0),
            cache_creation_input_tokens: None,
            cache_read_input_tokens: None,
            output_tokens: Some(0),
            output_tokens_details: None,
        }
    }
}
