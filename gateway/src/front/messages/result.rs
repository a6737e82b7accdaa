//! What came of a tool, as a message of its own.

use super::message::{each, picture, text};
use crate::front::bad_request::BadRequest;
use crate::front::tree::{Object, quoted};
use events::message::{Message, Part, Role, ToolResult};

/// The message of a `tool_result` block. Its images go to `beside`: a neutral result is text.
pub(super) fn message(
    object: &Object<'_, '_>,
    beside: &mut Vec<Part>,
) -> Result<Message, BadRequest> {
    let shape = "send {\"type\": \"tool_result\", \"tool_use_id\": …, \"content\": …}";
    let call =
        object.need("tool_use_id", shape)?.name("send the id of the call that this answers")?;
    let is_error = object.get("is_error").map(|node| node.flag()).transpose()?.unwrap_or_default();
    let mut said = Vec::new();
    let whole = match object.get("content") {
        None => None,
        Some(content) => each(&content, |kind, object| match kind.word()? {
            "text" => text(object, &mut said),
            "image" => {
                beside.push(picture(object)?);
                Ok(())
            }
            other => {
                let rule = format!("is {}, and a tool answers in text and images", quoted(other));
                Err(kind.refuse(rule, "put its text into a text block"))
            }
        })?,
    };
    let content = match whole {
        Some(text) => text,
        None => Message { role: Role::Tool, name: None, parts: said }.plain(),
    };
    let result = ToolResult { call, content, is_error };
    Ok(Message { role: Role::Tool, name: None, parts: vec![Part::ToolResult(result)] })
}
