//! Anthropic Messages: request to neutral, neutral to answer and frames.
//!
//! One message of this API may be several of ours: results of tools stand inside a user's message here and are
//! messages of their own there. What is unknown is tolerated, what is understood is checked to the end.
//!
//! Reading order: [`parse`] and what it gives, then [`answer`] and [`frames`]; [`problem`] for the words of errors.

pub mod answer;
pub mod frames;
pub mod problem;

mod message;
mod result;
mod thought;
mod wish;

use super::asked::{self, Asked};
use super::bad_request::BadRequest;
use super::catalogue::{self, Tool};
use super::tree::{self, Node, Object};
use events::prompt::{Catalogue, Params, tokens_upper};
use events::quantity::Tokens;
use events::run::spec::Delivery;

/// A request in this API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub asked: Asked,
    /// How the answer is to look.
    pub style: Style,
}

/// How the answer is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whole or as it comes.
    pub delivery: Delivery,
    /// What becomes of reasoning.
    pub thoughts: Thoughts,
}

/// Whether reasoning is given to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thoughts {
    /// As `thinking` blocks: the caller asked for thinking.
    Shown,
    /// Left out: whoever did not ask takes the first block for the answer.
    Hidden,
}

/// Reads the body of a `POST /v1/messages`.
///
/// # Errors
///
/// [`BadRequest`], which names the field, the rule and the mend: for the caller, as a 400.
pub fn parse(body: &[u8]) -> Result<Request, BadRequest> {
    let tree = tree::read(body)?;
    let top = Node::top(&tree).object()?;
    let max = top.need("max_tokens", "say how many tokens the answer may have at most")?;
    let max = super::wishes::tokens(&max, "send at least 1")?;
    let asked = asked(&top, Some(max))?;
    let streams = top.get("stream").map(|node| node.flag()).transpose()?.unwrap_or_default();
    let delivery = if streams { Delivery::Live } else { Delivery::Whole };
    Ok(Request { asked, style: Style { delivery, thoughts: wish::thoughts(&top)? } })
}

/// Reads the body of a `POST /v1/messages/count_tokens` and bounds its tokens from above, by the same count that
/// reserves money before a call: a token is at least a byte. It is no estimate; prose has about a quarter of it. Gives
/// the model's name too.
///
/// # Errors
///
/// [`BadRequest`], as [`parse`].
pub fn count(body: &[u8]) -> Result<(String, Tokens), BadRequest> {
    let tree = tree::read(body)?;
    let asked = asked(&Node::top(&tree).object()?, None)?;
    let messages = asked.messages.iter().map(|message| message.body().json().as_bytes().len());
    let tools = if asked.tools.is_empty() { 0 } else { asked.tools.json().as_bytes().len() };
    let count = tokens_upper(messages.sum::<usize>().saturating_add(tools));
    Ok((asked.model, count))
}

fn asked(top: &Object<'_, '_>, output_max: Option<Tokens>) -> Result<Asked, BadRequest> {
    let model = asked::model(top)?;
    let messages = top.need("messages", "send a list of at least one message")?;
    let messages = message::messages(top.get("system"), &messages)?;
    let tools = tools(top)?;
    let extra = wish::extra(top, &tools)?;
    // This API has one pair, and it is for the provider.
    let metadata = std::collections::BTreeMap::new();
    Ok(Asked { model, messages, tools, params: Params { output_max, extra }, metadata })
}

/// The client's own tools; those of any other type are the provider's and are ignored.
fn tools(top: &Object<'_, '_>) -> Result<Catalogue, BadRequest> {
    let shape = "send {\"name\": …, \"input_schema\": {…}}";
    catalogue::catalogue(top.get("tools"), |object| {
        match object.get("type").map(|node| node.word()).transpose()? {
            None | Some("custom") => Tool::read(object, "input_schema", shape).map(Some),
            Some(_) => Ok(None),
        }
    })
}

#[cfg(test)]
mod tests;
