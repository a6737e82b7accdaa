//! The conversation on the wire: users and assistants by turns, results first in what a user says, no empty text.

use super::{Mark, NAME_CHARS_MAX};
use crate::encode::{CallIds, EncodeError, Said, history_name, turns};
use crate::endpoint::{Endpoint, Parts};
use events::message::{Part, Seal, ToolCall, ToolResult};
use events::prompt::Request;
use events::run::chosen::NOTE;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Images that the family reads.
const MEDIA: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Parts of the family's own that a user may send and that have no neutral form.
const FOREIGN: [&str; 3] = ["document", "search_result", "container_upload"];
/// How results begin that tell of a failure, as our tools and the loss of an outcome write them.
const FAILED: [&str; 2] = [r#"{"status":"error""#, r#"{"status":"unknown""#];

/// What is said, ready to be marked.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) system: Vec<Content>,
    /// Our note about this one request: it stands behind the system's texts and under no mark, for it changes while they
    /// stay in the provider's cache.
    pub(super) note: Vec<Content>,
    pub(super) messages: Vec<Wire>,
    /// Marks that the caller set.
    pub(super) marks: usize,
}

/// One message on the wire.
#[derive(Serialize)]
pub(super) struct Wire {
    role: &'static str,
    pub(super) content: Vec<Content>,
}

/// One block of content.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content {
    Ours(Box<Block>),
    /// Bytes of the family's own.
    Raw(Box<RawValue>),
}

/// A block that is written here. Fields are written in this order.
#[derive(Serialize, Default)]
pub(super) struct Block {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source {
    Base64 { media_type: String, data: String },
    Url { url: String },
}

impl Content {
    fn block(block: Block) -> Self {
        Self::Ours(Box::new(block))
    }

    fn text(text: String) -> Self {
        Self::block(Block { r#type: "text", text: Some(text), ..Block::default() })
    }

    /// Where a mark may stand: not on what must go back unchanged.
    pub(super) fn mark(&mut self) -> Option<&mut Option<Mark>> {
        match self {
            Self::Ours(block) => Some(&mut block.cache_control),
            Self::Raw(_) => None,
        }
    }
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
        out: Conversation::default(),
    };
    for turn in turns(request)? {
        let position = turn.position;
        let (role, content) = match turn.said {
            Said::System(texts) if turn.name.as_deref() == Some(NOTE) => {
                writer.out.note.extend(texts.into_iter().map(Content::text));
                continue;
            }
            Said::System(texts) => match writer.system(texts) {
                Some(late) => ("user", late),
                None => continue,
            },
            Said::User(parts) => ("user", writer.user(position, parts)?),
            Said::Assistant(parts) => ("assistant", writer.assistant(position, parts)?),
            Said::Result(result) => ("user", vec![writer.result(result)]),
        };
        writer.say(position, role, content)?;
    }
    if writer.out.messages.is_empty() {
        return Err(EncodeError::NoMessages);
    }
    Ok(writer.out)
}

/// Whether calls are being answered that were made without a thought of this model, as those of another model are.
pub(super) fn is_thoughtless(messages: &[Wire]) -> bool {
    let is_call = |content: &Content| matches!(content, Content::Ours(block) if block.id.is_some());
    let last = messages.iter().rev().find(|message| message.role == "assistant");
    last.is_some_and(|message| {
        message.content.iter().any(is_call)
            && matches!(message.content.first(), Some(Content::Ours(_)))
    })
}

struct Writer {
    /// Whose reasoning may go back.
    seal: Seal,
    parts: Parts,
    ids: CallIds,
    out: Conversation,
}

impl Writer {
    /// Two turns of one role are one message.
    fn say(
        &mut self,
        position: usize,
        role: &'static str,
        content: Vec<Content>,
    ) -> Result<(), EncodeError> {
        if content.is_empty() {
            return Ok(());
        }
        match self.out.messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            None if role == "assistant" => {
                let what = "no user's message before it";
                return Err(EncodeError::Part { position, what });
            }
            Some(_) | None => self.out.messages.push(Wire { role, content }),
        }
        Ok(())
    }

    /// Texts before the conversation are the system's; later ones have no place of their own there, and are said by
    /// the user under a mark that no user's text of ours carries.
    fn system(&mut self, texts: Vec<String>) -> Option<Vec<Content>> {
        let said = texts.into_iter().filter(|text| !text.trim().is_empty());
        if self.out.messages.is_empty() {
            self.out.system.extend(said.map(Content::text));
            return None;
        }
        Some(said.map(|text| Content::text(format!("<system>\n{text}\n</system>"))).collect())
    }

    fn user(&mut self, position: usize, parts: Vec<Part>) -> Result<Vec<Content>, EncodeError> {
        let odd = |what| EncodeError::Part { position, what };
        let mut content = Vec::with_capacity(parts.len());
        for part in parts {
            match (part, self.parts) {
                (Part::Text { text } | Part::Refusal { text }, Parts::All | Parts::TextOnly) => {
                    if !text.trim().is_empty() {
                        content.push(Content::text(text));
                    }
                }
                (Part::Image { url, .. }, Parts::All) => {
                    let source = Some(source(url).map_err(odd)?);
                    let block = Block { r#type: "image", source, ..Block::default() };
                    content.push(Content::block(block));
                }
                (Part::Opaque(value), Parts::All) => content.push(self.foreign(&value, odd)?),
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
        if content.is_empty() { Err(odd("nothing but empty text")) } else { Ok(content) }
    }

    fn foreign(
        &mut self,
        value: &Value,
        odd: impl Fn(&'static str) -> EncodeError,
    ) -> Result<Content, EncodeError> {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        if !FOREIGN.contains(&kind) {
            return Err(odd("a part that this family does not have"));
        }
        if value.get("cache_control").is_some_and(|mark| !mark.is_null()) {
            self.out.marks += 1;
        }
        Ok(Content::Raw(to_raw_value(value)?))
    }

    fn assistant(
        &mut self,
        position: usize,
        parts: Vec<Part>,
    ) -> Result<Vec<Content>, EncodeError> {
        self.ids.turn();
        let mut content = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Text { text } | Part::Refusal { text } => {
                    if !text.trim().is_empty() {
                        content.push(Content::text(text));
                    }
                }
                Part::Reasoning { seal, sealed: Some(sealed), .. } if seal == self.seal => {
                    let odd =
                        |_| EncodeError::Part { position, what: "a sealed part that is no JSON" };
                    content.push(Content::Raw(RawValue::from_string(sealed).map_err(odd)?));
                }
                Part::ToolCall(call) => content.push(self.call(call)?),
                // Another reader's reasoning, or a part of another family. Images and results are none of an
                // assistant's: see `turns`.
                Part::Reasoning { .. }
                | Part::Opaque(_)
                | Part::Image { .. }
                | Part::ToolResult(_) => {}
            }
        }
        Ok(content)
    }

    fn call(&mut self, call: ToolCall) -> Result<Content, EncodeError> {
        let ToolCall { id, name, arguments } = call;
        // What the model wrote need not be an object, and the family takes nothing else. Its result says what was
        // wrong with it.
        let is_object = arguments.trim_start().starts_with('{');
        let input = RawValue::from_string(arguments).ok().filter(|_| is_object);
        let input = match input {
            Some(input) => input,
            None => RawValue::from_string("{}".to_owned())?,
        };
        Ok(Content::block(Block {
            r#type: "tool_use",
            id: Some(self.ids.call(&id)),
            name: Some(history_name(&name, NAME_CHARS_MAX)),
            input: Some(input),
            ..Block::default()
        }))
    }

    fn result(&self, result: ToolResult) -> Content {
        let ToolResult { call, content, is_error } = result;
        let is_failed = is_error || FAILED.into_iter().any(|failed| content.starts_with(failed));
        Content::block(Block {
            r#type: "tool_result",
            tool_use_id: Some(self.ids.result(&call)),
            content: (!content.is_empty()).then_some(content),
            is_error: is_failed.then_some(true),
            ..Block::default()
        })
    }
}

fn source(url: String) -> Result<Source, &'static str> {
    let Some(rest) = url.strip_prefix("data:") else {
        return if url.starts_with("https://") || url.starts_with("http://") {
            Ok(Source::Url { url })
        } else {
            Err("an image that is neither at https:// nor in a data: address")
        };
    };
    let (media_type, data) =
        rest.split_once(";base64,").ok_or("an image whose data: address is not base64")?;
    if !MEDIA.contains(&media_type) {
        return Err("an image that is no JPEG, PNG, GIF or WebP");
    }
    Ok(Source::Base64 { media_type: media_type.to_owned(), data: data.to_owned() })
}
