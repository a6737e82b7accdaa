//! What a client asked for, in neutral words: the same whichever API it speaks.

use super::bad_request::BadRequest;
use super::tree::{Node, Object};
use events::message::Message;
use events::prompt::{Catalogue, Params};
use std::collections::BTreeMap;

/// Characters of a model's name, `provider:` included: 256. The longest names in use, file names of local models,
/// have about a hundred.
const MODEL_CHARS_MAX: usize = 256;
/// Messages of one request: 10,000. The body's limit binds first for all but empty messages.
pub(super) const MESSAGES_MAX: usize = 10_000;
/// Pairs of metadata: 16, as at OpenAI; with the two below it bounds what a run carries for its caller's use alone.
const METADATA_MAX: usize = 16;
/// Characters of a key of metadata: 64, as at OpenAI.
const METADATA_KEY_CHARS_MAX: usize = 64;
/// What keys of metadata that are this node's own begin with: what stands there decides what callers see.
pub(crate) const RESERVED: &str = "piton.";
/// Characters of a value of metadata: 512, as at OpenAI.
const METADATA_VALUE_CHARS_MAX: usize = 512;

/// What a client asked for.
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
    /// The client's own pairs, for its own use: never sent to a model.
    pub metadata: BTreeMap<String, String>,
}

/// The model's name.
pub(super) fn model(top: &Object<'_, '_>) -> Result<String, BadRequest> {
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

/// The items of a list of messages: at least one and not too many.
pub(super) fn some_messages(node: &Node<'_, '_>) -> Result<(), BadRequest> {
    let count = node.list()?.len();
    if count == 0 {
        return Err(node.refuse("must not be empty", "send at least one message"));
    }
    if count > MESSAGES_MAX {
        let rule = format!("has {count} messages and the most is {MESSAGES_MAX}");
        return Err(node.refuse(rule, "summarise the oldest ones"));
    }
    Ok(())
}

/// The caller's own pairs.
pub(super) fn metadata(top: &Object<'_, '_>) -> Result<BTreeMap<String, String>, BadRequest> {
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
        if key.starts_with(RESERVED) {
            let rule = format!("has a key that begins with {RESERVED}, which is this server's own");
            return Err(node.refuse(rule, "rename the key"));
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
