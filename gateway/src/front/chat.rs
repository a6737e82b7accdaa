//! OpenAI chat completions: request to neutral, neutral to answer and frames.
//!
//! A client that works with OpenAI must work here, so what is unknown is tolerated; but what is understood is checked
//! to the end, because a request that fails at the provider has already cost a run.
//!
//! Reading order: [`parse`] and what it gives, then [`answer`] and [`frames`].

pub mod answer;
pub mod frames;
pub mod problem;

mod extra;
mod message;
mod tool;

use super::asked::{self, Asked};
use super::bad_request::BadRequest;
use super::tree::{self, Node, Object};
use events::prompt::Params;

/// A request in this API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked for.
    pub asked: Asked,
    /// How the answer is to come.
    pub stream: Stream,
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
pub fn parse(body: &[u8]) -> Result<Request, BadRequest> {
    let tree = tree::read(body)?;
    let top = Node::top(&tree).object()?;
    refuse_legacy(&top)?;
    let tools = tool::catalogue(top.get("tools"))?;
    let messages = top.need("messages", "send a list of at least one message")?;
    let asked = Asked {
        model: asked::model(&top)?,
        messages: message::messages(&messages)?,
        params: Params { output_max: extra::output_max(&top)?, extra: extra::extra(&top, &tools)? },
        tools,
        metadata: asked::metadata(&top)?,
    };
    Ok(Request { asked, stream: stream(&top)? })
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

#[cfg(test)]
mod tests;
