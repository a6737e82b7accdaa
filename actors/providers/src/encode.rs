//! What every family asks of a request before a byte of it leaves: tools that can be offered, and a conversation in
//! which each call is answered. What a family is known to refuse is refused here and named, before it costs a round
//! trip.

mod call_ids;
#[cfg(test)]
mod crossing;
#[cfg(test)]
mod legal;
mod offered;
mod schema;
mod turn;

use crate::class::{Charge, Class, Failure};
pub(crate) use call_ids::CallIds;
use events::message::NotAMessage;
pub(crate) use offered::{Offered, history_name, offered, viewed};
pub(crate) use schema::{closed, wanted};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
pub(crate) use turn::{Said, Turn, turns, unmarked};

/// The fields of a body by name: sorted, so that equal requests give equal bytes.
pub(crate) type Fields = BTreeMap<String, Box<RawValue>>;

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
    /// A parameter has a value that this family can not express.
    #[error("{name} {rule}: {mend}")]
    Param {
        /// The parameter.
        name: &'static str,
        /// What is wrong with its value.
        rule: String,
        /// What to do.
        mend: &'static str,
    },
    /// More than one answer is asked for.
    #[error("n is {0}: exactly one answer is kept, so ask for one")]
    Several(String),
    /// The tools are not a JSON array of `{name, description, parameters}`.
    #[error("the tools do not read: {0}")]
    Catalogue(String),
    /// A tool's name is not one of the family.
    #[error("tool name {name:?} is not 1 to {chars_max} of a-z A-Z 0-9 _ -")]
    ToolName {
        /// The name.
        name: String,
        /// Characters that a name may have.
        chars_max: usize,
    },
    /// Two tools have one name.
    #[error("tool name {0:?} stands twice")]
    ToolTwice(String),
    /// The provider's family has no vectors.
    #[error("provider {0} has no embeddings here: ask one that speaks chat completions")]
    NoVectors(String),
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
            | EncodeError::NoVectors(_)
            | EncodeError::NoMessages
            | EncodeError::Message { .. }
            | EncodeError::Part { .. }
            | EncodeError::ResultWithoutCall { .. }
            | EncodeError::CallId { .. }
            | EncodeError::Params(_)
            | EncodeError::Param { .. }
            | EncodeError::Several(_)
            | EncodeError::Catalogue(_)
            | EncodeError::ToolName { .. }
            | EncodeError::ToolTwice(_) => Class::InvalidRequest,
        };
        Self::ours(class, Charge::NotCharged, &error.to_string())
    }
}

impl From<serde_json::Error> for EncodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::Params(error.to_string())
    }
}

/// What the caller wants of the model besides the messages, by name. Exactly one answer is ever kept.
///
/// # Errors
///
/// [`EncodeError`] when it is no object, or asks for several answers.
pub(crate) fn wishes(extra: &[u8]) -> Result<Fields, EncodeError> {
    let fields = serde_json::from_slice::<Option<Fields>>(extra)?.unwrap_or_default();
    if let Some(several) = fields.get("n").map(|n| n.get()).filter(|n| !matches!(*n, "1" | "null"))
    {
        return Err(EncodeError::Several(several.chars().take(20).collect()));
    }
    Ok(fields)
}
