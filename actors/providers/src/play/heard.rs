//! A request as its provider reads it: enough of it to answer by a script, and no more. What a real one would refuse is
//! not refused here; only what can not be read at all is.

use crate::family::{Family, Mode};
use crate::{anthropic, bedrock, gemini, openai_chat, openai_responses};
use events::message::{Message, Part, Role, ToolResult};
use events::quantity::Tokens;
use serde_json::Value;

/// A request, heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The model, as the request names it.
    pub model: String,
    /// How the answer is wanted.
    pub mode: Mode,
    /// Who said what: texts, calls and results. A result is a message of its own.
    pub messages: Vec<Message>,
    /// The names of the tools on offer.
    pub tools: Vec<String>,
    /// The most output.
    pub output_max: Option<Tokens>,
    /// Whether calls may be made.
    pub may_call: bool,
    /// Whether more than one call may be made at once.
    pub may_call_many: bool,
    /// Whether the stream is to say what it used.
    pub wants_usage: bool,
}

/// A request that can not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct Unheard {
    /// What can not be read.
    pub field: &'static str,
    /// What it should be.
    pub rule: &'static str,
}

impl Heard {
    /// Nothing said yet.
    pub(crate) const fn new(model: String, mode: Mode) -> Self {
        Self {
            model,
            mode,
            messages: Vec::new(),
            tools: Vec::new(),
            output_max: None,
            may_call: true,
            may_call_many: true,
            wants_usage: true,
        }
    }

    pub(crate) fn say(&mut self, role: Role, text: String) {
        self.parts(role, vec![Part::Text { text }]);
    }

    pub(crate) fn parts(&mut self, role: Role, parts: Vec<Part>) {
        self.messages.push(Message { role, name: None, parts });
    }

    pub(crate) fn result(&mut self, call: &str, content: String) {
        let result = ToolResult { call: call.to_owned(), content, is_error: false };
        self.parts(Role::Tool, vec![Part::ToolResult(result)]);
    }
}

/// The family whose requests come to this path, whatever stands before it.
#[must_use]
pub fn family_at(path: &str) -> Option<Family> {
    let ends = |end: &str| path.ends_with(end);
    if ends("/chat/completions") {
        Some(Family::OpenaiChat)
    } else if ends("/messages") {
        Some(Family::AnthropicMessages)
    } else if ends("/responses") {
        Some(Family::OpenaiResponses)
    } else if ends(":generateContent") || ends(":streamGenerateContent") {
        Some(Family::Gemini)
    } else if ends("/converse") || ends("/converse-stream") {
        Some(Family::Bedrock)
    } else {
        None
    }
}

/// Reads a request of the family that came to this path.
///
/// # Errors
///
/// [`Unheard`] names what can not be read.
pub fn hear(family: Family, path: &str, body: &[u8]) -> Result<Heard, Unheard> {
    let root: Value = serde_json::from_slice(body)
        .map_err(|_| Unheard { field: "body", rule: "must be a JSON object" })?;
    match family {
        Family::OpenaiChat => openai_chat::hear::hear(&root),
        Family::AnthropicMessages => anthropic::hear::hear(&root),
        Family::Gemini => gemini::hear::hear(path, &root),
        Family::Bedrock => bedrock::hear::hear(path, &root),
        Family::OpenaiResponses => openai_responses::hear::hear(&root),
    }
}

/// A request whose body names the model and says whether it is to be streamed.
pub(crate) fn hears(root: &Value) -> Result<Heard, Unheard> {
    let model = root.get("model").and_then(Value::as_str).unwrap_or_default();
    if model.is_empty() {
        return Err(Unheard { field: "model", rule: "must name a model" });
    }
    let streams = root.get("stream") == Some(&Value::Bool(true));
    let mode = if streams { Mode::Stream } else { Mode::Whole };
    Ok(Heard::new(model.to_owned(), mode))
}

/// A field's text; empty where there is none.
pub(crate) fn string(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The texts of a list of parts, or the one text that stands in its place.
pub(crate) fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => {
            let text = |part: &Value| part.get("text")?.as_str().map(str::to_owned);
            parts.iter().filter_map(text).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// The same as one text.
pub(crate) fn words(content: Option<&Value>) -> String {
    texts(content.unwrap_or(&Value::Null)).concat()
}

/// What stands between the last two of `before` and `after` in a path, its escapes read.
pub(crate) fn last_segment(path: &str, before: &str, after: &str) -> String {
    let named = path.rsplit_once(before).map_or("", |(_, rest)| rest);
    let named = named.split_once(after).map_or(named, |(name, _)| name);
    let mut bytes = Vec::with_capacity(named.len());
    let mut rest = named.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let escaped =
            after.split_at_checked(2).filter(|_| *byte == b'%').and_then(|(hex, more)| {
                let hex = std::str::from_utf8(hex).ok()?;
                u8::from_str_radix(hex, 16).ok().map(|byte| (byte, more))
            });
        let (byte, more) = escaped.unwrap_or((*byte, after));
        bytes.push(byte);
        rest = more;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
