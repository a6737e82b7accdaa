//! The neutral request as a chat completions body.
//!
//! A pure function: equal requests give equal bytes, so that caches of the provider stay warm and a replay can be
//! compared. What the family is known to refuse is refused here and named, before it costs a round trip.

mod conversation;

use crate::encode::{EncodeError, Fields, Offered, viewed, wishes};
use crate::endpoint::{CacheKey, Endpoint, OutputMax, Quirks, Temperature, Thinking};
use crate::family::Mode;
use crate::schema::folded;
use events::message::{Body, Role};
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Characters of a tool's name that the family takes.
pub(super) const NAME_CHARS_MAX: usize = 64;
/// Fields that are ours; a caller's are dropped.
const OURS: [&str; 5] = ["messages", "model", "stream", "stream_options", "tools"];
/// The two spellings of the bound on output.
const OUTPUT_MAX: [&str; 2] = ["max_completion_tokens", "max_tokens"];
/// Fields that are refused by the family when no tool is offered.
const WITH_TOOLS: [&str; 2] = ["tool_choice", "parallel_tool_calls"];
/// Bytes of the hash in a cache key; enough to tell prefixes apart, short enough for every provider.
const CACHE_KEY_BYTES: usize = 16;

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

/// Writes the body of a request.
///
/// # Errors
///
/// [`EncodeError`] for what the family or this provider is known to refuse.
pub(crate) fn encode(
    endpoint: &Endpoint,
    request: &Request,
    mode: Mode,
) -> Result<Vec<u8>, EncodeError> {
    if request.model.is_empty() {
        return Err(EncodeError::NoModel);
    }
    let quirks = &endpoint.quirks;
    let tools = tools(endpoint, request)?;
    let mut fields = extra(request, quirks, &tools)?;
    for (name, json) in quirks.defaults {
        if !fields.contains_key(*name) {
            fields.insert((*name).to_owned(), RawValue::from_string((*json).to_owned())?);
        }
    }
    let mut put = |name: &str, value| drop(fields.insert(name.to_owned(), value));
    put("model", to_raw_value(&request.model)?);
    put("messages", to_raw_value(&conversation::messages(endpoint, request)?)?);
    if !tools.is_empty() {
        put("tools", to_raw_value(&tools)?);
    }
    put("stream", to_raw_value(&(mode == Mode::Stream))?);
    if mode == Mode::Stream {
        put("stream_options", to_raw_value(&StreamOptions { include_usage: true })?);
    }
    if let Some(max) = request.params.output_max {
        let name = match quirks.output_max {
            OutputMax::MaxTokens => "max_tokens",
            OutputMax::MaxCompletionTokens => "max_completion_tokens",
        };
        put(name, to_raw_value(&max.0)?);
    }
    Ok(serde_json::to_vec(&fields)?)
}

/// What the caller wants of the model, less what is ours to say, plus the cache key.
fn extra(request: &Request, quirks: &Quirks, tools: &[Tool]) -> Result<Fields, EncodeError> {
    let mut fields = wishes(request.params.extra.as_bytes())?;
    let bounded = request.params.output_max.is_some();
    let temperature = quirks.temperature == Temperature::Omitted;
    let thinking = quirks.thinking == Thinking::Omitted;
    fields.retain(|name, _| {
        let name = name.as_str();
        !(OURS.contains(&name)
            || (bounded && OUTPUT_MAX.contains(&name))
            || (tools.is_empty() && WITH_TOOLS.contains(&name))
            || (temperature && name == "temperature")
            || (thinking && name == "thinking"))
    });
    if quirks.cache_key == CacheKey::Sent && !fields.contains_key("prompt_cache_key") {
        fields.insert("prompt_cache_key".to_owned(), to_raw_value(&cache_key(request))?);
    }
    Ok(fields)
}

/// Names the stable prefix: the tools and the system messages.
pub(crate) fn cache_key(request: &Request) -> String {
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

fn tools(endpoint: &Endpoint, request: &Request) -> Result<Vec<Tool>, EncodeError> {
    let tool = |mut offered: Offered| {
        let (name, description) = (std::mem::take(&mut offered.name), offered.description.take());
        let (strict, parameters) = (offered.strict, folded(offered.schema()?));
        Ok(parameters.map(|parameters| {
            let function = Function { name, description, parameters, strict };
            Tool { r#type: "function", function }
        }))
    };
    viewed(endpoint, &request.tools, NAME_CHARS_MAX, tool)
}

#[cfg(test)]
mod tests;
