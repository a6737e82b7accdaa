//! The neutral request as a chat completions body.
//!
//! A pure function: equal requests give equal bytes, so that caches of the provider stay warm and a replay can be
//! compared. What the family is known to refuse is refused here and named, before it costs a round trip.

mod conversation;

use super::Mode;
use crate::class::{Charge, Class, Failure};
use crate::endpoint::{CacheKey, Endpoint, OutputMax, Quirks, Temperature};
use events::message::{Body, NotAMessage, Role};
use events::prompt::{Catalogue, Request};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Characters of a tool's name that the family takes.
const NAME_CHARS_MAX: usize = 64;
/// Fields that are ours; a caller's are dropped.
const OURS: [&str; 5] = ["messages", "model", "stream", "stream_options", "tools"];
/// The two spellings of the bound on output.
const OUTPUT_MAX: [&str; 2] = ["max_completion_tokens", "max_tokens"];
/// Fields that are refused by the family when no tool is offered.
const WITH_TOOLS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];
/// Bytes of the hash in a cache key; enough to tell prefixes apart, short enough for every provider.
const CACHE_KEY_BYTES: usize = 16;

/// Why a request was not sent. Nothing has left; another family or a mended request may work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The request names no model.
    #[error("the request names no model")]
    NoModel,
    /// The request has no message.
    #[error("the request has no message: give at least one")]
    NoMessages,
    /// A stored message does not read.
    #[error("message {position} does not read: {source}")]
    Message {
        /// Its place, from 0.
        position: usize,
        /// What is wrong with it.
        source: NotAMessage,
    },
    /// A message has a part that this provider does not take there.
    #[error("message {position} has {what}: remove it or choose another provider")]
    Part {
        /// Its place, from 0.
        position: usize,
        /// What it has.
        what: &'static str,
    },
    /// A result answers no call of the assistant's message before it.
    #[error(
        "message {position} answers tool call {call:?}, which the assistant's message before it did not make"
    )]
    ResultWithoutCall {
        /// Its place, from 0.
        position: usize,
        /// The id that it answers.
        call: String,
    },
    /// Two calls of one message have one id, or one has none.
    #[error("message {position} has tool call id {id:?} twice, or empty: give each call its own")]
    CallId {
        /// Its place, from 0.
        position: usize,
        /// The id.
        id: String,
    },
    /// The parameters are not a JSON object.
    #[error("the parameters are not a JSON object: {0}")]
    Params(String),
    /// More than one answer is asked for.
    #[error("n is {0}: exactly one answer is kept, so ask for one")]
    Several(String),
    /// The tools are not a JSON array of `{name, description, parameters}`.
    #[error("the tools do not read: {0}")]
    Catalogue(String),
    /// A tool's name is not one of the family.
    #[error("tool name {0:?} is not 1 to {NAME_CHARS_MAX} of a-z A-Z 0-9 _ -")]
    ToolName(String),
    /// Two tools have one name.
    #[error("tool name {0:?} stands twice")]
    ToolTwice(String),
    /// More tools than the provider takes.
    #[error("{count} tools are offered, {provider} takes {max}: offer fewer")]
    TooManyTools {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
        /// Who takes no more.
        provider: String,
    },
}

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Self {
        let class = match error {
            EncodeError::TooManyTools { .. } => Class::ToolsTooMany,
            EncodeError::NoModel
            | EncodeError::NoMessages
            | EncodeError::Message { .. }
            | EncodeError::Part { .. }
            | EncodeError::ResultWithoutCall { .. }
            | EncodeError::CallId { .. }
            | EncodeError::Params(_)
            | EncodeError::Several(_)
            | EncodeError::Catalogue(_)
            | EncodeError::ToolName(_)
            | EncodeError::ToolTwice(_) => Class::InvalidRequest,
        };
        Self::ours(class, Charge::NotCharged, &error.to_string())
    }
}

/// A tool as the catalogue has it.
#[derive(Deserialize)]
struct Offered {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Box<RawValue>>,
    #[serde(default)]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct Tool {
    r#type: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    parameters: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The fields of a body by name: sorted, so that equal requests give equal bytes.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Writes the body of a request.
///
/// # Errors
///
/// [`EncodeError`] for what the family or this provider is known to refuse.
pub fn encode(endpoint: &Endpoint, request: &Request, mode: Mode) -> Result<Vec<u8>, EncodeError> {
    if request.model.is_empty() {
        return Err(EncodeError::NoModel);
    }
    let quirks = &endpoint.quirks;
    let tools = tools(endpoint, &request.tools)?;
    let mut fields = extra(request, quirks, &tools)?;
    for (name, json) in quirks.defaults {
        if !fields.contains_key(*name) {
            fields.insert(
                (*name).to_owned(),
                RawValue::from_string((*json).to_owned()).map_err(|e| params(&e))?,
            );
        }
    }
    let mut put = |name: &str, value: Result<Box<RawValue>, serde_json::Error>| {
        value
            .map(|value| drop(fields.insert(name.to_owned(), value)))
            .map_err(|error| params(&error))
    };
    put("model", to_raw_value(&request.model))?;
    put("messages", to_raw_value(&conversation::messages(endpoint, request)?))?;
    if !tools.is_empty() {
        put("tools", to_raw_value(&tools))?;
    }
    put("stream", to_raw_value(&(mode == Mode::Stream)))?;
    if mode == Mode::Stream {
        put("stream_options", to_raw_value(&StreamOptions { include_usage: true }))?;
    }
    if let Some(max) = request.params.output_max {
        let name = match quirks.output_max {
            OutputMax::MaxTokens => "max_tokens",
            OutputMax::MaxCompletionTokens => "max_completion_tokens",
        };
        put(name, to_raw_value(&max.0))?;
    }
    serde_json::to_vec(&fields).map_err(|error| params(&error))
}

fn params(error: &serde_json::Error) -> EncodeError {
    EncodeError::Params(error.to_string())
}

/// What the caller wants of the model, less what is ours to say, plus the cache key.
fn extra(request: &Request, quirks: &Quirks, tools: &[Tool]) -> Result<Fields, EncodeError> {
    let parsed: Result<Option<Fields>, _> = serde_json::from_slice(request.params.extra.as_bytes());
    let mut fields = parsed.map_err(|error| params(&error))?.unwrap_or_default();
    if let Some(several) = fields.get("n").map(|n| n.get()).filter(|n| !matches!(*n, "1" | "null"))
    {
        return Err(EncodeError::Several(several.chars().take(20).collect()));
    }
    let bounded = request.params.output_max.is_some();
    let temperature = quirks.temperature == Temperature::Omitted;
    fields.retain(|name, _| {
        let name = name.as_str();
        !(OURS.contains(&name)
            || (bounded && OUTPUT_MAX.contains(&name))
            || (tools.is_empty() && WITH_TOOLS.contains(&name))
            || (temperature && name == "temperature"))
    });
    if quirks.cache_key == CacheKey::Sent && !fields.contains_key("prompt_cache_key") {
        let key = to_raw_value(&cache_key(request)).map_err(|error| params(&error))?;
        fields.insert("prompt_cache_key".to_owned(), key);
    }
    Ok(fields)
}

/// Names the stable prefix: the tools and the system messages.
fn cache_key(request: &Request) -> String {
    let mut hasher = Sha256::new();
    hasher.update(request.tools.hash().0);
    let is_system = |body: &&Body| body.message().is_ok_and(|message| message.role == Role::System);
    for body in request.messages.iter().take_while(is_system) {
        hasher.update(body.hash().0);
    }
    let mut key = "piton-".to_owned();
    for byte in hasher.finalize().iter().take(CACHE_KEY_BYTES) {
        // Writing to a string can not fail.
        let _infallible = write!(key, "{byte:02x}");
    }
    key
}

fn tools(endpoint: &Endpoint, catalogue: &Catalogue) -> Result<Vec<Tool>, EncodeError> {
    if catalogue.is_empty() {
        return Ok(Vec::new());
    }
    let offered: Vec<Offered> = serde_json::from_slice(catalogue.json().as_bytes())
        .map_err(|error| EncodeError::Catalogue(error.to_string()))?;
    if let Some(max) = endpoint.quirks.tools_max.filter(|max| offered.len() > *max) {
        let provider = endpoint.provider.clone();
        return Err(EncodeError::TooManyTools { count: offered.len(), max, provider });
    }
    let mut names = BTreeSet::new();
    let mut tools = Vec::with_capacity(offered.len());
    for Offered { name, description, parameters, strict } in offered {
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_name_char) {
            return Err(EncodeError::ToolName(name.chars().take(NAME_CHARS_MAX * 2).collect()));
        }
        if !names.insert(name.clone()) {
            return Err(EncodeError::ToolTwice(name));
        }
        let parameters = match parameters.filter(|schema| schema.get() != "null") {
            Some(schema) => schema,
            None => RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned())
                .map_err(|e| params(&e))?,
        };
        let function = Function { name, description, parameters, strict };
        tools.push(Tool { r#type: "function", function });
    }
    Ok(tools)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// A name that a model made up, as the family takes it in the history: the call is bound to its result by id, and a
/// refusal of the name would make the whole conversation unanswerable.
fn history_name(name: &str) -> String {
    let safe: String =
        name.chars().take(NAME_CHARS_MAX).map(|c| if is_name_char(c) { c } else { '_' }).collect();
    if safe.is_empty() { "unnamed".to_owned() } else { safe }
}

#[cfg(test)]
mod tests;
