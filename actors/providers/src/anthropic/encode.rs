//! The neutral request as a Messages body.
//!
//! A pure function: equal requests give equal bytes, and what a longer conversation repeats is written as before, so
//! that the provider's cache stays warm; only the mark on the last message moves.

mod conversation;
mod wishes;

use crate::encode::{EncodeError, Fields, Offered, viewed};
use crate::endpoint::Endpoint;
use crate::family::Mode;
use crate::schema::rooted;
use conversation::{Content, Conversation};
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use wishes::Wishes;

/// Characters of a tool's name that the family takes.
const NAME_CHARS_MAX: usize = 128;
/// Marks that one request may carry.
const MARKS_MAX: usize = 4;

/// A place up to which the provider keeps the request in its cache.
#[derive(Debug, Clone, Copy, Serialize)]
struct Mark {
    r#type: &'static str,
}

impl Mark {
    /// Kept for five minutes after its last use.
    const SHORT: Self = Self { r#type: "ephemeral" };
}

#[derive(Serialize)]
struct Tool {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    input_schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

/// Writes the body of a request.
///
/// # Errors
///
/// [`EncodeError`] for what the family is known to refuse.
pub(crate) fn encode(
    endpoint: &Endpoint,
    request: &Request,
    mode: Mode,
) -> Result<Vec<u8>, EncodeError> {
    if request.model.is_empty() {
        return Err(EncodeError::NoModel);
    }
    let mut tools = tools(endpoint, request)?;
    let Conversation { mut system, note, mut messages, marks } =
        conversation::conversation(endpoint, request)?;
    let mut wishes = Wishes::read(endpoint, request)?;
    if conversation::is_thoughtless(&messages) {
        wishes.think_no_longer();
    }
    // The caller's own marks come first: more than the family takes would be refused.
    let mut left = MARKS_MAX.saturating_sub(marks);
    let mut mark = |place: Option<&mut Option<Mark>>| {
        if let Some(place) = place.filter(|_| left > 0) {
            left -= 1;
            *place = Some(Mark::SHORT);
        }
    };
    mark(
        messages
            .last_mut()
            .and_then(|message| message.content.iter_mut().rev().find_map(Content::mark)),
    );
    mark(system.last_mut().and_then(Content::mark));
    mark(tools.last_mut().map(|tool| &mut tool.cache_control));
    system.extend(note);
    let mut fields: Fields = wishes.fields;
    let mut put = |name: &str, value| drop(fields.insert(name.to_owned(), value));
    put("model", to_raw_value(&request.model)?);
    put("max_tokens", to_raw_value(&wishes.output_max)?);
    put("messages", to_raw_value(&messages)?);
    put("stream", to_raw_value(&(mode == Mode::Stream))?);
    if !system.is_empty() {
        put("system", to_raw_value(&system)?);
    }
    if !tools.is_empty() {
        put("tools", to_raw_value(&tools)?);
    }
    Ok(serde_json::to_vec(&fields)?)
}

fn tools(endpoint: &Endpoint, request: &Request) -> Result<Vec<Tool>, EncodeError> {
    let tool = |mut offered: Offered| {
        let (name, description) = (std::mem::take(&mut offered.name), offered.description.take());
        // A tool is strict only when its maker says so: the family limits how many may be.
        let strict = offered.strict.filter(|strict| *strict);
        let input_schema = rooted(offered.schema()?);
        Ok(input_schema.map(|input_schema| Tool {
            name,
            description,
            input_schema,
            strict,
            cache_control: None,
        }))
    };
    viewed(endpoint, &request.tools, NAME_CHARS_MAX, tool)
}

#[cfg(test)]
mod tests;
