//! OpenAI chat completions: request to neutral, neutral to answer and frames.
//!
//! A client that works with OpenAI must work here, so what is unknown is tolerated; but what is understood is checked
//! to the end, because a request that fails at the provider has already cost a run.
//!
//! Reading order: [`parse`] and what it gives, [`history`] for sessions, then [`answer`] and [`frames`].

pub mod answer;
pub mod frames;
pub mod history;
pub mod problem;

mod extra;
mod message;
mod raw;
mod tool;

pub use problem::BadRequest;

use self::raw::{Node, Object};
use events::message::Message;
use events::prompt::{Catalogue, Params};
use std::collections::BTreeMap;

/// Characters of a model's name, `provider:` included: 256. The longest names in use, file names of local models,
/// have about a hundred.
const MODEL_CHARS_MAX: usize = 256;
/// Messages of one request: 10,000. The body's limit binds first for all but empty messages.
const MESSAGES_MAX: usize = 10_000;
/// Pairs of metadata: 16, as at OpenAI; with the two below it bounds what a run carries for its caller's use alone.
const METADATA_MAX: usize = 16;
/// Characters of a key of metadata: 64, as at OpenAI.
const METADATA_KEY_CHARS_MAX: usize = 64;
/// Characters of a value of metadata: 512, as at OpenAI.
const METADATA_VALUE_CHARS_MAX: usize = 512;

/// What a client asked for, in neutral words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The model as the client spells it: a bare name, `provider:name`, `provider/name`, `role:name`.
    pub model: String,
    /// The whole conversation, at least one message.
    pub messages: Vec<Message>,
    /// The tools that the client runs itself.
    pub tools: Catalogue,
    /// What is meant for the model besides; `extra` is a JSON object with sorted keys, `{}` when it is empty.
    pub params: Params,
    /// How the answer is to come.
    pub stream: Stream,
    /// The client's own pairs, for its own use: never sent to a model.
    pub metadata: BTreeMap<String, String>,
}

/// How the answer is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// As one object.
    Whole,
    /// As server-sent events.
    Events {
        /// Whether a chunk with the usage is to come last.
        usage: UsageChunk,
    },
}

/// Whether a stream ends with a chunk that holds the usage (`stream_options.include_usage`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageChunk {
    /// The client asked for it.
    Wanted,
    /// Clients that did not ask may not expect a chunk without choices.
    Unwanted,
}

/// Reads the body of a `POST /v1/chat/completions`.
///
/// # Errors
///
/// [`BadRequest`], which names the field, the rule and the mend: for the caller, as a 400.
pub fn parse(body: &[u8]) -> Result<Asked, BadRequest> {
    let tree = raw::read(body)?;
    let top = Node::top(&tree).object()?;
    refuse_legacy(&top)?;
    let tools = tool::catalogue(top.get("tools"))?;
    let messages = top.need("messages", "send a list of at least one message")?;
    Ok(Asked {
        model: model(&top)?,
        messages: message::messages(&messages)?,
        params: Params { output_max: extra::output_max(&top)?, extra: extra::extra(&top, &tools)? },
        tools,
        stream: stream(&top)?,
        metadata: metadata(&top)?,
    })
}

fn model(top: &Object<'_, '_>) -> Result<String, BadRequest> {
    let mend = "name a model of GET /v1/models";
    let node = top.need("model", mend)?;
    let model = node.text()?;
    if model.trim().is_empty() {
        return Err(node.refuse("must not be empty", mend));
    }
    if model.chars().count() > MODEL_CHARS_MAX {
        return Err(node.refuse(format!("is longer than {MODEL_CHARS_MAX} characters"), mend));
    }
    Ok(model)
}

/// The fields that tools replaced. Left out silently, the model would never call what the client counts on.
fn refuse_legacy(top: &Object<'_, '_>) -> Result<(), BadRequest> {
    if let Some(node) = top.get("functions") {
        let mend = "send tools: [{\"type\": \"function\", \"function\": {…}}] instead";
        return Err(node.refuse("is the legacy form, which is not supported", mend));
    }
    if let Some(node) = top.get("function_call") {
        let mend = "send tool_choice instead";
        return Err(node.refuse("is the legacy form, which is not supported", mend));
    }
    Ok(())
}

fn stream(top: &Object<'_, '_>) -> Result<Stream, BadRequest> {
    let streams = match top.get("stream") {
        Some(node) => node.flag()?,
        None => false,
    };
    if !streams {
        return Ok(Stream::Whole);
    }
    let wanted = match top.get("stream_options") {
        Some(options) => match options.object()?.get("include_usage") {
            Some(node) => node.flag()?,
            None => false,
        },
        None => false,
    };
    let usage = if wanted { UsageChunk::Wanted } else { UsageChunk::Unwanted };
    Ok(Stream::Events { usage })
}

fn metadata(top: &Object<'_, '_>) -> Result<BTreeMap<String, String>, BadRequest> {
    let mut pairs = BTreeMap::new();
    let Some(node) = top.get("metadata") else { return Ok(pairs) };
    let object = node.object()?;
    if object.len() > METADATA_MAX {
        let rule = format!("has {} pairs and the most is {METADATA_MAX}", object.len());
        return Err(node.refuse(rule, "leave some out"));
    }
    for (key, value) in object.all() {
        if key.chars().count() > METADATA_KEY_CHARS_MAX {
            let rule = format!("has a key of more than {METADATA_KEY_CHARS_MAX} characters");
            return Err(node.refuse(rule, "shorten the key"));
        }
        let text = value.text()?;
        if text.chars().count() > METADATA_VALUE_CHARS_MAX {
            let rule = format!("is longer than {METADATA_VALUE_CHARS_MAX} characters");
            return Err(value.refuse(rule, "shorten it, or keep it on your side under a key"));
        }
        pairs.insert(key.to_owned(), text);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
