//! The other side of each wire: an answer, a refusal and a break as a provider of the family writes them, and a request
//! as it reads one. Pure functions; whoever plays a provider on a socket adds the clock and the faults.
//!
//! The inverse of [`Family::encode`] and [`Family::decoder`]: what is played here and decoded there is the same answer,
//! however it is torn. An answer that its family has no form for in part (a refusal where there are none, arguments that
//! are no object) is played as near to it as the family comes.

mod heard;
mod refuse;

use crate::delta::Answer;
use crate::family::Family;
use crate::{anthropic, bedrock, gemini, openai_chat, openai_responses};
pub use heard::{Heard, Unheard, family_at, hear};
pub(crate) use heard::{hears, last_segment, string, texts, words};
pub use refuse::{Complaint, Place, Refused, break_off, refuse};
use serde_json::Value;
use serde_json::value::RawValue;

/// When every answer claims to be made, where a family says so: 2025-12-01T00:00:00Z, in seconds.
pub const CREATED: u64 = 1_764_547_200;

/// One frame of a stream, whole: an event with its blank line, or a binary one with its sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What it is for the stream.
    pub part: Part,
}

/// What a frame is for its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It says that an answer begins.
    Opens,
    /// It carries some of the answer.
    Says,
    /// It says that the answer is over, or stands behind one that does.
    Ends,
}

/// How texts and arguments are torn into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// A text word by word, arguments in two.
    Words,
    /// So many bytes each, or one character where that has more.
    Bytes(usize),
}

impl Pieces {
    /// A text in its pieces; none of nothing.
    pub(crate) fn of(self, text: &str) -> Vec<&str> {
        match self {
            Self::Words => text.split_inclusive(char::is_whitespace).collect(),
            Self::Bytes(size) => torn(text, size.max(1)),
        }
    }

    /// Arguments in their pieces; none of nothing.
    pub(crate) fn of_arguments(self, text: &str) -> Vec<&str> {
        match self {
            Self::Words => torn(text, text.len().div_ceil(2).max(1)),
            Self::Bytes(size) => torn(text, size.max(1)),
        }
    }
}

fn torn(text: &str, size: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let at = rest.floor_char_boundary(size).max(first);
        let (piece, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The frames of an answer that is streamed. A usage of which nothing is known is not reported.
#[must_use]
pub fn stream(family: Family, answer: &Answer, pieces: Pieces) -> Vec<Frame> {
    match family {
        Family::OpenaiChat => openai_chat::play::stream(answer, pieces),
        Family::AnthropicMessages => anthropic::play::stream(answer, pieces),
        Family::Gemini => gemini::play::stream(answer, pieces),
        Family::Bedrock => bedrock::play::stream(answer, pieces),
        Family::OpenaiResponses => openai_responses::play::stream(answer, pieces),
    }
}

/// The body of an answer that comes whole.
#[must_use]
pub fn whole(family: Family, answer: &Answer) -> String {
    match family {
        Family::OpenaiChat => openai_chat::play::whole(answer),
        Family::AnthropicMessages => anthropic::play::whole(answer),
        Family::Gemini => gemini::play::whole(answer),
        Family::Bedrock => bedrock::play::whole(answer),
        Family::OpenaiResponses => openai_responses::play::whole(answer),
    }
}

/// What a part of reasoning carries besides its text, so that the family takes it back: `None` where nothing does.
#[must_use]
pub fn sealed(family: Family, text: &str, signature: &str) -> Option<String> {
    match family {
        Family::OpenaiChat => None,
        Family::AnthropicMessages => Some(anthropic::play::thinking(text, signature)),
        Family::Gemini => gemini::play::signed(signature),
        Family::Bedrock => bedrock::play::signed(signature),
        Family::OpenaiResponses => Some(openai_responses::play::encrypted(text, signature)),
    }
}

/// The type of a streamed body.
#[must_use]
pub const fn stream_type(family: Family) -> &'static str {
    match family {
        Family::Bedrock => bedrock::FRAMES,
        Family::OpenaiChat
        | Family::AnthropicMessages
        | Family::Gemini
        | Family::OpenaiResponses => "text/event-stream; charset=utf-8",
    }
}

/// A frame of this many bytes that says nothing, and that no reader of the family can take for a part of an answer.
#[must_use]
pub fn long_frame(family: Family, bytes: usize) -> Vec<u8> {
    let filler = "x".repeat(bytes);
    match family {
        Family::Bedrock => {
            let payload = object(&[("p", Some(quoted(&filler)))]);
            bedrock::frames::written::event("metadata", &payload)
        }
        Family::OpenaiChat
        | Family::AnthropicMessages
        | Family::Gemini
        | Family::OpenaiResponses => event("", &object(&[("filler", Some(quoted(&filler)))])),
    }
}

/// CRC-32 as in zlib, which the frames of AWS and the ends of gzip carry.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    bedrock::frames::crc32(bytes)
}

/// A server-sent event of this JSON. A line feed in it, which JSON allows between its tokens, begins another data line.
pub(crate) fn event(name: &str, json: &str) -> Vec<u8> {
    let mut text = String::with_capacity(json.len() + name.len() + 24);
    if !name.is_empty() {
        text.push_str("event: ");
        text.push_str(name);
        text.push('\n');
    }
    for line in json.split('\n') {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into_bytes()
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Arguments as the JSON value that some families want them as: as they were written, or a text where they are no JSON.
pub(crate) fn value(arguments: &str) -> String {
    // A carriage return would end the line of an event; it can only stand between tokens.
    match serde_json::from_str::<&RawValue>(arguments) {
        Ok(raw) if !raw.get().contains('\r') => raw.get().to_owned(),
        Ok(_) => serde_json::from_str::<Value>(arguments).unwrap_or_default().to_string(),
        Err(_) => quoted(arguments),
    }
}

/// JSON values behind one another.
pub(crate) fn list(values: &[String]) -> String {
    format!("[{}]", values.join(","))
}

/// A field's name and its JSON.
pub(crate) type Field<'a> = (&'a str, Option<String>);

/// An object of these fields; one without a value is left out.
pub(crate) fn object(fields: &[Field<'_>]) -> String {
    joined(&[fields])
}

/// An object of all these fields.
pub(crate) fn joined(fields: &[&[Field<'_>]]) -> String {
    let fields = fields.iter().flat_map(|fields| fields.iter());
    let known = fields
        .filter_map(|(name, json)| json.as_ref().map(|json| format!("{}:{json}", quoted(name))));
    format!("{{{}}}", known.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
