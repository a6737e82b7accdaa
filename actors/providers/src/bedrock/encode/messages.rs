//! The conversation as Converse has it: the leading system texts apart, speakers in turns, all results of one turn
//! at the head of the next message, and no block that says nothing.

use super::NAME_CHARS_MAX;
use crate::bedrock::Sealed;
use crate::encode::{CallIds, EncodeError, Said, history_name, turns};
use crate::endpoint::Endpoint;
use crate::image::Inline;
use events::message::{Part, Seal, ToolResult};
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// The pictures that the family reads.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A conversation on the wire.
pub(super) struct Conversation {
    pub(super) system: Vec<SystemText>,
    pub(super) messages: Vec<Message>,
    /// The tools that were called in it.
    pub(super) called: BTreeSet<String>,
    ids: CallIds,
}

#[derive(Serialize)]
pub(super) struct SystemText {
    text: String,
}

#[derive(Serialize)]
pub(super) struct Message {
    role: &'static str,
    content: Vec<Block>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Block {
    Text(String),
    Image(Image),
    ToolUse(Use),
    ToolResult(Answer),
    ReasoningContent(Thought),
}

#[derive(Serialize)]
struct Image {
    format: &'static str,
    source: Source,
}

#[derive(Serialize)]
struct Source {
    bytes: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Use {
    tool_use_id: String,
    name: String,
    input: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    tool_use_id: String,
    content: Vec<SystemText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Thought {
    ReasoningText { text: String, signature: String },
    RedactedContent(String),
}

/// The conversation.
///
/// # Errors
///
/// What the family is known to refuse, with the message's place.
pub(super) fn messages(
    endpoint: &Endpoint,
    request: &Request,
) -> Result<Conversation, EncodeError> {
    let seal = endpoint.seal(&request.model);
    let (system, messages) = (Vec::new(), Vec::new());
    let (called, ids) = (BTreeSet::new(), CallIds::default());
    let mut conversation = Conversation { system, messages, called, ids };
    for turn in turns(request)? {
        match turn.said {
            Said::System(texts) => conversation.instruct(texts),
            Said::User(parts) => {
                let blocks = user(turn.position, parts)?;
                conversation.say("user", blocks);
            }
            Said::Result(ToolResult { call, content, is_error }) => {
                // An empty text is refused, an empty answer is not.
                let content = Some(content).filter(|text| !is_blank(text));
                let content = content.into_iter().map(|text| SystemText { text }).collect();
                let status = is_error.then_some("error");
                let tool_use_id = conversation.ids.result(&call);
                let answer = Answer { tool_use_id, content, status };
                conversation.say("user", vec![Block::ToolResult(answer)]);
            }
            Said::Assistant(parts) => {
                if conversation.messages.is_empty() {
                    let what = "an assistant's words before any of the user's";
                    return Err(EncodeError::Part { position: turn.position, what });
                }
                let blocks = conversation.assistant(parts, &seal)?;
                conversation.say("assistant", blocks);
            }
        }
    }
    if conversation.messages.is_empty() { Err(EncodeError::NoMessages) } else { Ok(conversation) }
}

impl Conversation {
    /// Puts blocks behind what the same speaker said before: speakers take turns.
    fn say(&mut self, role: &'static str, blocks: Vec<Block>) {
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            Some(_) | None if blocks.is_empty() => {}
            Some(_) | None => self.messages.push(Message { role, content: blocks }),
        }
    }

    /// Before anything was said it is the instruction; later, the family has no place for it but the asker's.
    fn instruct(&mut self, texts: Vec<String>) {
        let texts = texts.into_iter().filter(|text| !is_blank(text));
        if self.messages.is_empty() {
            self.system.extend(texts.map(|text| SystemText { text }));
        } else {
            let text = |text| Block::Text(format!("<system>\n{text}\n</system>"));
            self.say("user", texts.map(text).collect());
        }
    }

    fn assistant(&mut self, parts: Vec<Part>, seal: &Seal) -> Result<Vec<Block>, EncodeError> {
        self.ids.turn();
        let mut blocks = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Text { text } | Part::Refusal { text } => {
                    if !is_blank(&text) {
                        blocks.push(Block::Text(text));
                    }
                }
                Part::Reasoning { text, seal: of, sealed } if of == *seal => {
                    let sealed = sealed.and_then(|sealed| serde_json::from_str(&sealed).ok());
                    // Thoughts that nobody signed are refused.
                    blocks.extend(sealed.map(|sealed| {
                        Block::ReasoningContent(match sealed {
                            Sealed::Signature(signature) => {
                                Thought::ReasoningText { text, signature }
                            }
                            Sealed::RedactedContent(data) => Thought::RedactedContent(data),
                        })
                    }));
                }
                Part::ToolCall(call) => {
                    let name = history_name(&call.name, NAME_CHARS_MAX);
                    self.called.insert(name.clone());
                    let (tool_use_id, input) = (self.ids.call(&call.id), input(&call.arguments)?);
                    blocks.push(Block::ToolUse(Use { tool_use_id, name, input }));
                }
                // Another reader's reasoning, and items that no family takes from an assistant.
                Part::Reasoning { .. }
                | Part::Opaque(_)
                | Part::Image { .. }
                | Part::ToolResult(_) => {}
            }
        }
        Ok(blocks)
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The arguments as an object; what a model wrote that is none can not be sent, and its result says so.
fn input(text: &str) -> Result<Box<RawValue>, EncodeError> {
    let raw = serde_json::from_str::<Box<RawValue>>(text.trim());
    match raw.ok().filter(|raw| raw.get().starts_with('{')) {
        Some(object) => Ok(object),
        None => Ok(RawValue::from_string("{}".to_owned())?),
    }
}

fn user(position: usize, parts: Vec<Part>) -> Result<Vec<Block>, EncodeError> {
    let odd = |what| EncodeError::Part { position, what };
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text { text } | Part::Refusal { text } => {
                if !is_blank(&text) {
                    blocks.push(Block::Text(text));
                }
            }
            Part::Image { url, .. } => {
                let Inline { kind, data } = Inline::read(&url, &IMAGES).map_err(odd)?;
                let format = kind.strip_prefix("image/").unwrap_or(kind);
                let source = Source { bytes: data.to_owned() };
                blocks.push(Block::Image(Image { format, source }));
            }
            Part::Opaque(_) => return Err(odd("a part that Converse does not know")),
            Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning { .. } => {
                return Err(odd("a part that only an assistant has"));
            }
        }
    }
    if blocks.is_empty() { Err(odd("no content, which Converse refuses")) } else { Ok(blocks) }
}
