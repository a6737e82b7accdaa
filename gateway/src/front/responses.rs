//! OpenAI Responses: request to neutral, neutral to answer and frames.
//!
//! One response is one run, and its id says which. What the object repeats of the request is frozen with the run, under
//! a key of the metadata that no caller can write: a response that is read later, at another node, is the one that was
//! given. What is unknown is tolerated, what is understood is checked to the end.
//!
//! Reading order: [`parse`] and what it gives, [`Style`], then [`object`] and [`frames`].

pub mod frames;
pub mod input;
pub mod object;

mod items;
mod style;
mod wish;

pub use style::{Mark, Style};

use super::asked;
use super::bad_request::BadRequest;
use super::catalogue::{self, Tool};
use super::tree::{self, Node, Object, quoted};
use events::id::RunId;
use events::message::{Message, Role};
use events::prompt::{Catalogue, Params};
use events::run::spec::Delivery;
use input::Item;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the id of a response begins with.
const SIGN: &str = "resp_";

/// The id of the response that a run gives.
#[must_use]
pub fn id(run: RunId) -> String {
    format!("{SIGN}{run}")
}

/// The run that a response came of.
#[must_use]
pub fn run(id: &str) -> Option<RunId> {
    id.strip_prefix(SIGN)?.parse().ok()
}

/// A request in this API. Its conversation is whole only with what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The model as the client spells it.
    pub model: String,
    /// How the answer is read.
    pub delivery: Delivery,
    /// What a system message says before all others.
    pub instructions: Option<String>,
    /// What is new.
    pub items: Vec<Item>,
    /// The response that this one goes on from.
    pub previous: Option<RunId>,
    /// Whether it may be read and gone on from later.
    pub store: bool,
    /// What of the model's reasoning is given out.
    pub thoughts: Thoughts,
    /// The tools that the client runs itself.
    pub tools: Catalogue,
    /// What is meant for the model besides.
    pub params: Params,
    /// The caller's own pairs.
    pub metadata: BTreeMap<String, String>,
}

/// What of the model's reasoning is given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Thoughts {
    /// Nothing: nobody asked for it.
    Hidden,
    /// Its words (`reasoning.summary`).
    Words,
    /// What brings it back (`include: ["reasoning.encrypted_content"]`).
    Key,
    /// Both.
    All,
}

impl Thoughts {
    /// With the words too.
    const fn with_words(self) -> Self {
        match self {
            Self::Hidden | Self::Words => Self::Words,
            Self::Key | Self::All => Self::All,
        }
    }

    /// With the key too.
    const fn with_key(self) -> Self {
        match self {
            Self::Hidden | Self::Key => Self::Key,
            Self::Words | Self::All => Self::All,
        }
    }

    const fn words(self) -> bool {
        matches!(self, Self::Words | Self::All)
    }

    const fn key(self) -> bool {
        matches!(self, Self::Key | Self::All)
    }
}

/// Reads the body of a `POST /v1/responses`.
///
/// # Errors
///
/// [`BadRequest`], which names the field, the rule and the mend: for the caller, as a 400.
pub fn parse(body: &[u8]) -> Result<Request, BadRequest> {
    let tree = tree::read(body)?;
    let top = Node::top(&tree).object()?;
    refuse_unserved(&top)?;
    let flag = |name| top.get(name).map(|node| node.flag()).transpose();
    let tools = tools(&top)?;
    let items = top.need("input", "send a string, or a list of items")?;
    Ok(Request {
        model: asked::model(&top)?,
        delivery: if flag("stream")?.unwrap_or_default() {
            Delivery::Live
        } else {
            Delivery::Whole
        },
        instructions: top
            .get("instructions")
            .map(|node| node.text())
            .transpose()?
            .filter(|text| !text.is_empty()),
        items: input::items(&items)?,
        previous: previous(&top)?,
        store: flag("store")?.unwrap_or(true),
        thoughts: wish::thoughts(&top)?,
        params: Params { output_max: wish::output_max(&top)?, extra: wish::extra(&top, &tools)? },
        tools,
        metadata: asked::metadata(&top)?,
    })
}

/// What changes the answer and is not done here. Left out silently, the caller would get another answer than the one
/// that was asked for.
fn refuse_unserved(top: &Object<'_, '_>) -> Result<(), BadRequest> {
    if let Some(node) = top.get("background")
        && node.flag()?
    {
        let mend = "leave it out and stream, or start a run with POST /v1/runs";
        return Err(node.refuse("is not served here", mend));
    }
    for (name, mend) in [
        ("conversation", "go on with previous_response_id"),
        ("prompt", "send instructions and input, since no prompts are kept here"),
    ] {
        if let Some(node) = top.get(name) {
            return Err(node.refuse("is not served here", mend));
        }
    }
    match top.get("truncation") {
        Some(node) if node.word()? != "disabled" => {
            let rule = format!("is {}, and nothing is cut out silently here", quoted(node.word()?));
            Err(node.refuse(rule, "leave it out, or send \"disabled\""))
        }
        Some(_) | None => Ok(()),
    }
}

fn previous(top: &Object<'_, '_>) -> Result<Option<RunId>, BadRequest> {
    let Some(node) = top.get("previous_response_id") else { return Ok(None) };
    let unknown = || {
        let rule = format!(
            "is {}, which is no response of this server",
            quoted(node.word().unwrap_or_default())
        );
        node.refuse(rule, "send the id of a response that it gave")
    };
    run(node.word()?).map(Some).ok_or_else(unknown)
}

/// The client's own tools; those of any other type are the provider's and are ignored.
fn tools(top: &Object<'_, '_>) -> Result<Catalogue, BadRequest> {
    let shape = "send {\"type\": \"function\", \"name\": …, \"parameters\": {…}}";
    catalogue::catalogue(top.get("tools"), |object| match object.need("type", shape)?.word()? {
        "function" => Tool::read(object, "parameters", shape).map(Some),
        _ => Ok(None),
    })
}

impl Request {
    /// The whole conversation: the instructions of this request alone, what was said before, and what is new. Of the
    /// runs that the items name, `answers` has those that are the caller's.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for an item that names nothing, a call without its output and an output without its call.
    pub fn messages(
        &self,
        before: Vec<Message>,
        answers: &BTreeMap<RunId, Message>,
    ) -> Result<Vec<Message>, BadRequest> {
        let instructions = self.instructions.as_deref();
        let mut all: Vec<Message> =
            instructions.map(|text| Message::text(Role::System, text)).into_iter().collect();
        all.extend(before);
        input::append(&mut all, &self.items, answers)?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
