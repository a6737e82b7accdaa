//! The conversation on the wire: a list of items, in which each call is followed by its output.

use super::NAME_CHARS_MAX;
use crate::encode::{CallIds, EncodeError, Said, history_name, turns, unmarked};
use crate::endpoint::{Endpoint, Parts};
use events::message::{Part, Seal, ToolCall};
use events::prompt::Request;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Parts of the family's own that a user may send and that have no neutral form.
const FOREIGN: [&str; 1] = ["input_file"];

/// What is said.
pub(super) struct Conversation {
    /// The operator's texts before the conversation.
    pub(super) instructions: String,
    pub(super) input: Vec<Item>,
}

/// One item on the wire.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Item {
    Message {
        r#type: &'static str,
        role: &'static str,
        content: Vec<Content>,
    },
    Call {
        r#type: &'static str,
        call_id: String,
        name: String,
        arguments: String,
    },
    Output {
        r#type: &'static str,
        call_id: String,
        output: String,
    },
    /// An item of the provider's, byte for byte.
    Sealed(Box<RawValue>),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text {
        r#type: &'static str,
        text: String,
    },
    Refusal {
        r#type: &'static str,
        refusal: String,
    },
    Image {
        r#type: &'static str,
        image_url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    Foreign(Box<RawValue>),
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow)]
    r#type: std::borrow::Cow<'a, str>,
}

/// All turns of the request.
///
/// # Errors
///
/// What the family is known to refuse, with the message's place.
pub(super) fn conversation(
    endpoint: &Endpoint,
    request: &Request,
) -> Result<Conversation, EncodeError> {
    let mut writer = Writer {
        seal: endpoint.seal(&request.model),
        parts: endpoint.quirks.parts,
        ids: CallIds::default(),
        out: Conversation { instructions: String::new(), input: Vec::new() },
    };
    for turn in turns(request)? {
        let position = turn.position;
        match turn.said {
            Said::System(texts) => writer.system(texts),
            Said::User(parts) => {
                let content = writer.user(position, parts)?;
                writer.message("user", content);
            }
            Said::Assistant(parts) => writer.assistant(position, parts)?,
            Said::Result(result) => {
                let (call, output) = unmarked(result);
                let call_id = writer.ids.result(&call);
                let output = Item::Output { r#type: "function_call_output", call_id, output };
                writer.out.input.push(output);
            }
        }
    }
    if writer.out.input.is_empty() {
        return Err(EncodeError::NoMessages);
    }
    Ok(writer.out)
}

struct Writer {
    /// Whose reasoning may go back.
    seal: Seal,
    parts: Parts,
    ids: CallIds,
    out: Conversation,
}

impl Writer {
    fn message(&mut self, role: &'static str, content: Vec<Content>) {
        if !content.is_empty() {
            self.out.input.push(Item::Message { r#type: "message", role, content });
        }
    }

    /// Texts before the conversation are the instructions; later ones stand where they were said.
    fn system(&mut self, texts: Vec<String>) {
        let said = texts.into_iter().filter(|text| !text.is_empty());
        if self.out.input.is_empty() {
            for text in said {
                if !self.out.instructions.is_empty() {
                    self.out.instructions.push_str("\n\n");
                }
                self.out.instructions.push_str(&text);
            }
            return;
        }
        let content = said.map(|text| Content::Text { r#type: "input_text", text }).collect();
        self.message("developer", content);
    }

    fn user(&self, position: usize, parts: Vec<Part>) -> Result<Vec<Content>, EncodeError> {
        let odd = |what| EncodeError::Part { position, what };
        let mut content = Vec::with_capacity(parts.len());
        for part in parts {
            match (part, self.parts) {
                (Part::Text { text } | Part::Refusal { text }, Parts::All | Parts::TextOnly) => {
                    content.push(Content::Text { r#type: "input_text", text });
                }
                (Part::Image { url, detail }, Parts::All) => {
                    content.push(Content::Image { r#type: "input_image", image_url: url, detail });
                }
                (Part::Opaque(value), Parts::All) => {
                    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
                    if !FOREIGN.contains(&kind) {
                        return Err(odd("a part that this family does not have"));
                    }
                    content.push(Content::Foreign(to_raw_value(&value)?));
                }
                (Part::Image { .. } | Part::Opaque(_), Parts::TextOnly) => {
                    return Err(odd("more than text"));
                }
                // None of them is a user's: see `turns`.
                (
                    Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning { .. },
                    Parts::All | Parts::TextOnly,
                ) => {}
            }
        }
        Ok(content)
    }

    fn assistant(&mut self, position: usize, parts: Vec<Part>) -> Result<(), EncodeError> {
        self.ids.turn();
        // Words that stand together are one message.
        let mut words = Vec::new();
        for part in parts {
            match part {
                Part::Text { text } if text.is_empty() => {}
                Part::Text { text } => words.push(Content::Text { r#type: "output_text", text }),
                Part::Refusal { text } => {
                    words.push(Content::Refusal { r#type: "refusal", refusal: text });
                }
                Part::Reasoning { seal, sealed: Some(sealed), .. } if seal == self.seal => {
                    self.message("assistant", std::mem::take(&mut words));
                    self.sealed(position, sealed)?;
                }
                Part::ToolCall(call) => {
                    self.message("assistant", std::mem::take(&mut words));
                    self.call(call);
                }
                // Another reader's reasoning, or a part of another family. Images and results are none of an
                // assistant's: see `turns`.
                Part::Reasoning { .. }
                | Part::Opaque(_)
                | Part::Image { .. }
                | Part::ToolResult(_) => {}
            }
        }
        self.message("assistant", words);
        // Reasoning that nothing follows is refused: what it led to is not there.
        while matches!(self.out.input.last(), Some(Item::Sealed(_))) {
            self.out.input.pop();
        }
        Ok(())
    }

    /// Only reasoning goes back: other items of the provider's can not be found there again.
    fn sealed(&mut self, position: usize, sealed: String) -> Result<(), EncodeError> {
        let odd = |_| EncodeError::Part { position, what: "a sealed part that is no JSON" };
        let is_reasoning =
            serde_json::from_str::<Typed<'_>>(&sealed).map_err(odd)?.r#type == "reasoning";
        if is_reasoning {
            self.out.input.push(Item::Sealed(RawValue::from_string(sealed).map_err(odd)?));
        }
        Ok(())
    }

    fn call(&mut self, call: ToolCall) {
        let ToolCall { id, name, arguments } = call;
        let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
        let call_id = self.ids.call(&id);
        let name = history_name(&name, NAME_CHARS_MAX);
        self.out.input.push(Item::Call { r#type: "function_call", call_id, name, arguments });
    }
}
