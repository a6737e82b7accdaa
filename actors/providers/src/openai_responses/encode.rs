//! The neutral request as a Responses body.
//!
//! A pure function: equal requests give equal bytes, so that caches of the provider stay warm and a replay can be
//! compared.

mod conversation;
mod wishes;

use crate::encode::{EncodeError, Fields, Offered, viewed};
use crate::endpoint::{CacheKey, Dialect, Endpoint};
use crate::family::Mode;
use crate::openai_chat::encode::cache_key;
use crate::schema::folded;
use conversation::Conversation;
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// Characters of a tool's name that the family takes.
const NAME_CHARS_MAX: usize = 64;
/// The least bound on output that the family takes.
const OUTPUT_MIN: u64 = 16;
/// How models are called that do not reason: they refuse to be asked for encrypted reasoning.
const PLAIN: [&str; 3] = ["gpt-3", "gpt-4", "chatgpt-"];

#[derive(Serialize)]
struct Tool {
    r#type: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    parameters: Box<RawValue>,
    /// Always said: left out, the family takes it for true.
    strict: bool,
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
    let dialect = endpoint.quirks.dialect;
    let tools = tools(endpoint, request)?;
    let Conversation { instructions, input } = conversation::conversation(endpoint, request)?;
    let mut fields: Fields = wishes::read(endpoint, request)?;
    let mut put = |name: &str, value| drop(fields.insert(name.to_owned(), value));
    put("model", to_raw_value(&request.model)?);
    put("input", to_raw_value(&input)?);
    if !instructions.is_empty() || dialect == Dialect::Codex {
        put("instructions", to_raw_value(&instructions)?);
    }
    if !tools.is_empty() {
        put("tools", to_raw_value(&tools)?);
    }
    put("stream", to_raw_value(&(endpoint.mode(mode) == Mode::Stream))?);
    put("store", to_raw_value(&false)?);
    if !PLAIN.into_iter().any(|plain| request.model.starts_with(plain)) {
        put("include", to_raw_value(&["reasoning.encrypted_content"])?);
    }
    // The subscription refuses a bound on output by name, whatever it is; many clients send one with every request.
    if let Some(max) = request.params.output_max.filter(|_| dialect == Dialect::Usual) {
        if max.0 < OUTPUT_MIN {
            let rule = format!("is {}", max.0);
            let mend = "give at least 16, or leave it out";
            return Err(EncodeError::Param { name: "max_output_tokens", rule, mend });
        }
        put("max_output_tokens", to_raw_value(&max.0)?);
    }
    if endpoint.quirks.cache_key == CacheKey::Sent && !fields.contains_key("prompt_cache_key") {
        fields.insert("prompt_cache_key".to_owned(), to_raw_value(&cache_key(request))?);
    }
    Ok(serde_json::to_vec(&fields)?)
}

fn tools(endpoint: &Endpoint, request: &Request) -> Result<Vec<Tool>, EncodeError> {
    let tool = |mut offered: Offered| {
        let (name, description) = (std::mem::take(&mut offered.name), offered.description.take());
        let (strict, parameters) = (offered.strict.unwrap_or_default(), folded(offered.schema()?));
        Ok(parameters.map(|parameters| Tool {
            r#type: "function",
            name,
            description,
            parameters,
            strict,
        }))
    };
    viewed(endpoint, &request.tools, NAME_CHARS_MAX, tool)
}

#[cfg(test)]
mod tests;
