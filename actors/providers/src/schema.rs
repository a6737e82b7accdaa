//! Schema views: what is sent of a JSON schema to a family that takes less than all of it.
//!
//! A view is a pure function of the schema: what a family does not know is rewritten where its meaning can be kept and
//! left out where it can not, so a view accepts at least what the schema accepts. The exact schema stays with whoever
//! checks the arguments. Where there is no view, the tool is left out of the request, and the request goes on.

mod gemini;
mod rooted;

use crate::family::Family;
pub(crate) use gemini::gemini;
pub(crate) use rooted::{folded, rooted};
use serde_json::Value;
use serde_json::value::to_raw_value;

/// What a schema is or has that a family can not be told; it follows the words "its schema".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unfit(pub(crate) &'static str);

/// Why a tool with this schema is not offered to providers of a family; none where it is. `null` is no schema.
#[must_use]
pub fn unfit(family: Family, schema: &Value) -> Option<&'static str> {
    if schema.is_null() {
        return None;
    }
    match family {
        Family::Gemini => no_object(schema),
        Family::OpenaiChat
        | Family::AnthropicMessages
        | Family::Bedrock
        | Family::OpenaiResponses => {
            let raw = to_raw_value(schema).ok()?;
            rooted(raw).err().map(|Unfit(why)| why)
        }
    }
}

/// Gemini's view is total below the root; at the root it must be an object.
pub(crate) fn no_object(schema: &Value) -> Option<&'static str> {
    let view = gemini(schema);
    let is_object = view.get("type").is_none_or(|kind| kind == "OBJECT");
    let is_empty = *schema == Value::Bool(false);
    (!is_object || is_empty).then_some("describes no object at its root")
}
