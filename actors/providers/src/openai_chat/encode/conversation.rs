//! The messages of a conversation on the wire.

use super::NAME_CHARS_MAX;
use crate::encode::{EncodeError, Said, Turn, history_name, turns, unmarked};
use crate::endpoint::{Endpoint, Parts, Reasoning};
use events::message::{Part, Seal, ToolCall};
use events::prompt::Request;
use events::run::chosen::NOTE;
use serde::Serialize;
use serde_json::Value;

/// One message on the wire. Fields are written in this order.
#[derive(Serialize, Default)]
pub(super) struct Wire {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    content: Content,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize, Default)]
#[serde(untagged)]
enum Content {
    /// Nothing is said: the message is its calls.
    #[default]
    Null,
    Text(String),
    Parts(Vec<WirePart>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum WirePart {
    Text { r#type: &'static str, text: String },
    Image { r#type: &'static str, image_url: ImageUrl },
    Opaque(Value),
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

#[derive(Serialize)]
struct WireCall {
    id: String,
    r#type: &'static str,
    function: CallFunction,
}

#[derive(Serialize)]
struct CallFunction {
    name: String,
    arguments: String,
}

/// All messages of the request.
///
/// # Errors
///
/// What the family or the provider is known to refuse, with the message's place.
pub(super) fn messages(endpoint: &Endpoint, request: &Request) -> Result<Vec<Wire>, EncodeError> {
    let seal = endpoint.seal(&request.model);
    let conversation = Conversation { endpoint, seal };
    turns(request)?.into_iter().map(|turn| conversation.wire(turn)).collect()
}

struct Conversation<'a> {
    endpoint: &'a Endpoint,
    /// Whose reasoning may go back.
    seal: Seal,
}

impl Conversation<'_> {
    fn wire(&self, turn: Turn) -> Result<Wire, EncodeError> {
        let Turn { position, name, said } = turn;
        let name = name.filter(|name| name != NOTE);
        Ok(match said {
            Said::System(texts) => {
                Wire { role: "system", name, content: system(texts), ..Wire::default() }
            }
            Said::User(parts) => {
                Wire { role: "user", name, content: self.user(position, parts)?, ..Wire::default() }
            }
            Said::Assistant(parts) => self.assistant(name, parts),
            Said::Result(result) => {
                let (call, text) = unmarked(result);
                let content = Content::Text(text);
                Wire { role: "tool", content, tool_call_id: Some(call), ..Wire::default() }
            }
        })
    }

    fn user(&self, position: usize, parts: Vec<Part>) -> Result<Content, EncodeError> {
        let wire: Vec<WirePart> = parts
            .into_iter()
            .map(|part| match (part, self.endpoint.quirks.parts) {
                (Part::Text { text } | Part::Refusal { text }, Parts::All | Parts::TextOnly) => {
                    Ok(text_part(text))
                }
                (Part::Image { url, detail }, Parts::All) => {
                    Ok(WirePart::Image { r#type: "image_url", image_url: ImageUrl { url, detail } })
                }
                (Part::Opaque(value), Parts::All) => Ok(WirePart::Opaque(value)),
                (Part::Image { .. } | Part::Opaque(_), Parts::TextOnly) => Err("more than text"),
                // None of them is a user's: see `turns`.
                (
                    Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning { .. },
                    Parts::All | Parts::TextOnly,
                ) => Err("a part that only an assistant has"),
            })
            .collect::<Result<_, _>>()
            .map_err(|what| EncodeError::Part { position, what })?;
        // Plain text is sent as text: older compatibles know no parts.
        Ok(match <[WirePart; 1]>::try_from(wire) {
            Ok([WirePart::Text { text, .. }]) => Content::Text(text),
            Ok(one) => Content::Parts(one.into()),
            Err(none) if none.is_empty() => Content::Text(String::new()),
            Err(several) => Content::Parts(several),
        })
    }

    fn assistant(&self, name: Option<String>, parts: Vec<Part>) -> Wire {
        let mut wire = Wire { role: "assistant", name, ..Wire::default() };
        let (mut text, mut refusal, mut reasoning) = (String::new(), String::new(), String::new());
        for part in parts {
            match part {
                Part::Text { text: more } => text.push_str(&more),
                Part::Refusal { text: more } => refusal.push_str(&more),
                Part::Reasoning { text: more, seal, .. } if self.may_see(&seal) => {
                    reasoning.push_str(&more);
                }
                Part::ToolCall(call) => wire.tool_calls.push(wire_call(call)),
                // Another reader's reasoning, or an item of another family that this build does not know: of no use
                // here, and refused by the family if it were sent. Results and images are none of an assistant's.
                Part::Reasoning { .. }
                | Part::Opaque(_)
                | Part::ToolResult(_)
                | Part::Image { .. } => {}
            }
        }
        let silent = text.is_empty() && (!wire.tool_calls.is_empty() || !refusal.is_empty());
        wire.content = if silent { Content::Null } else { Content::Text(text) };
        wire.refusal = (!refusal.is_empty()).then_some(refusal);
        wire.reasoning_content = (!reasoning.is_empty()).then_some(reasoning);
        wire
    }

    /// Whether reasoning goes back to exactly the one who gave it, and wants it.
    fn may_see(&self, seal: &Seal) -> bool {
        self.endpoint.quirks.reasoning == Reasoning::ReasoningContent && *seal == self.seal
    }
}

fn wire_call(call: ToolCall) -> WireCall {
    let ToolCall { id, name, arguments } = call;
    // A call without arguments is stored as the model wrote it, and servers that parse them want an object.
    let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
    let name = history_name(&name, NAME_CHARS_MAX);
    WireCall { id, r#type: "function", function: CallFunction { name, arguments } }
}

fn text_part(text: String) -> WirePart {
    WirePart::Text { r#type: "text", text }
}

fn system(texts: Vec<String>) -> Content {
    match <[String; 1]>::try_from(texts) {
        Ok([text]) => Content::Text(text),
        Err(none) if none.is_empty() => Content::Text(String::new()),
        Err(several) => Content::Parts(several.into_iter().map(text_part).collect()),
    }
}
