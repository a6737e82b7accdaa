//! The messages of a conversation on the wire, with every tool call answered exactly once and at once.
//!
//! A call whose result never came (the node died between the two) gets one synthetic result: without it the family
//! refuses the conversation for ever, and with a made-up one the model would believe what nobody knows.

use super::{EncodeError, history_name};
use crate::endpoint::{Endpoint, Parts, Reasoning};
use crate::openai_chat::FAMILY;
use events::message::{Message, Part, Role, Seal, ToolCall, ToolResult};
use events::prompt::Request;
use events::run::ledger::UNKNOWN_RESULT;
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

struct Conversation<'a> {
    endpoint: &'a Endpoint,
    model: &'a str,
    out: Vec<Wire>,
    /// Calls of the last assistant's message that have no result yet.
    open: Vec<String>,
}

/// All messages of the request.
///
/// # Errors
///
/// What the family or the provider is known to refuse, with the message's place.
pub(super) fn messages(endpoint: &Endpoint, request: &Request) -> Result<Vec<Wire>, EncodeError> {
    if request.messages.is_empty() {
        return Err(EncodeError::NoMessages);
    }
    let mut conversation =
        Conversation { endpoint, model: &request.model, out: Vec::new(), open: Vec::new() };
    for (position, body) in request.messages.iter().enumerate() {
        let message = body.message().map_err(|source| EncodeError::Message { position, source })?;
        conversation.push(position, message)?;
    }
    conversation.close();
    Ok(conversation.out)
}

impl Conversation<'_> {
    fn push(&mut self, position: usize, message: Message) -> Result<(), EncodeError> {
        let Message { role, name, parts } = message;
        let (results, parts): (Vec<Part>, Vec<Part>) =
            parts.into_iter().partition(|part| matches!(part, Part::ToolResult(_)));
        let answers = !results.is_empty();
        for part in results {
            if let Part::ToolResult(result) = part {
                self.result(position, result)?;
            }
        }
        let wire = match role {
            Role::Tool | Role::User if answers && parts.is_empty() => return Ok(()),
            Role::Tool => {
                return Err(EncodeError::Part {
                    position,
                    what: "no tool result, or more than results",
                });
            }
            Role::System => {
                Wire { role: "system", name, content: system(position, parts)?, ..Wire::default() }
            }
            Role::User => {
                Wire { role: "user", name, content: self.user(position, parts)?, ..Wire::default() }
            }
            Role::Assistant => {
                // Before its own calls open.
                self.close();
                self.assistant(position, name, parts)?
            }
        };
        if role != Role::Assistant {
            self.close();
        }
        self.out.push(wire);
        Ok(())
    }

    fn result(&mut self, position: usize, result: ToolResult) -> Result<(), EncodeError> {
        let ToolResult { call, content } = result;
        let Some(at) = self.open.iter().position(|open| *open == call) else {
            return Err(EncodeError::ResultWithoutCall { position, call });
        };
        self.open.remove(at);
        self.answer(call, content);
        Ok(())
    }

    fn answer(&mut self, call: String, content: String) {
        let content = Content::Text(content);
        self.out.push(Wire { role: "tool", content, tool_call_id: Some(call), ..Wire::default() });
    }

    /// Answers what is still open.
    fn close(&mut self) {
        for call in std::mem::take(&mut self.open) {
            self.answer(call, UNKNOWN_RESULT.to_owned());
        }
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

    fn assistant(
        &mut self,
        position: usize,
        name: Option<String>,
        parts: Vec<Part>,
    ) -> Result<Wire, EncodeError> {
        let mut wire = Wire { role: "assistant", name, ..Wire::default() };
        let (mut text, mut refusal, mut reasoning) = (String::new(), String::new(), String::new());
        for part in parts {
            match part {
                Part::Text { text: more } => text.push_str(&more),
                Part::Refusal { text: more } => refusal.push_str(&more),
                Part::Reasoning { text: more, seal } if self.may_see(&seal) => {
                    reasoning.push_str(&more);
                }
                Part::ToolCall(call) => wire.tool_calls.push(self.call(position, call)?),
                Part::Image { .. } => {
                    return Err(EncodeError::Part { position, what: "an assistant's image" });
                }
                // Another reader's reasoning, or an item of another family that this build does not know: of no use
                // here, and refused by the family if it were sent. Results were taken out before.
                Part::Reasoning { .. } | Part::Opaque(_) | Part::ToolResult(_) => {}
            }
        }
        let silent = text.is_empty() && (!wire.tool_calls.is_empty() || !refusal.is_empty());
        wire.content = if silent { Content::Null } else { Content::Text(text) };
        wire.refusal = (!refusal.is_empty()).then_some(refusal);
        wire.reasoning_content = (!reasoning.is_empty()).then_some(reasoning);
        Ok(wire)
    }

    fn call(&mut self, position: usize, call: ToolCall) -> Result<WireCall, EncodeError> {
        let ToolCall { id, name, arguments } = call;
        if id.is_empty() || self.open.contains(&id) {
            return Err(EncodeError::CallId { position, id });
        }
        self.open.push(id.clone());
        // A call without arguments is stored as the model wrote it, and servers that parse them want an object.
        let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
        Ok(WireCall {
            id,
            r#type: "function",
            function: CallFunction { name: history_name(&name), arguments },
        })
    }

    /// Whether reasoning goes back to exactly the one who gave it, and wants it.
    fn may_see(&self, seal: &Seal) -> bool {
        self.endpoint.quirks.reasoning == Reasoning::ReasoningContent
            && seal.family == FAMILY
            && seal.endpoint == self.endpoint.base_url.as_str()
            && seal.profile == self.endpoint.profile
            && seal.model == self.model
    }
}

fn text_part(text: String) -> WirePart {
    WirePart::Text { r#type: "text", text }
}

fn system(position: usize, parts: Vec<Part>) -> Result<Content, EncodeError> {
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text { text } => texts.push(text),
            Part::Image { .. }
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Reasoning { .. }
            | Part::Refusal { .. }
            | Part::Opaque(_) => {
                return Err(EncodeError::Part {
                    position,
                    what: "more than text in a system message",
                });
            }
        }
    }
    Ok(match <[String; 1]>::try_from(texts) {
        Ok([text]) => Content::Text(text),
        Err(none) if none.is_empty() => Content::Text(String::new()),
        Err(several) => Content::Parts(several.into_iter().map(text_part).collect()),
    })
}
