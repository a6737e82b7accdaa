//! The conversation of a request as neutral messages.
//!
//! Blocks of unknown types are kept as they came, except those that spell a type of the neutral model: stored, they
//! would read back as one.

use super::{result, thought};
use crate::front::asked::some_messages;
use crate::front::bad_request::BadRequest;
use crate::front::image;
use crate::front::pairing::Called;
use crate::front::tree::{Node, Object, Sort, quoted};
use events::message::{Message, Part, Role, ToolCall};

/// Calls of one message: 256. Providers make up to 128; each is compared with the others.
const CALLS_MAX: usize = 256;
/// Types of the neutral model that are none of this API.
const NEUTRAL: [&str; 3] = ["tool_call", "reasoning", "refusal"];

const ROLES: &str = "use user or assistant; instructions go into the field system";
const TEXT: &str = "send {\"type\": \"text\", \"text\": …}";
const BLOCKS: &str = "send a string, or a list of blocks";

/// The system text and the messages in order, at least one message.
pub(super) fn messages(
    system: Option<Node<'_, '_>>,
    node: &Node<'_, '_>,
) -> Result<Vec<Message>, BadRequest> {
    some_messages(node)?;
    let mut all = Vec::new();
    if let Some(system) = system {
        let parts = texts(&system)?;
        if !parts.is_empty() {
            all.push(Message { role: Role::System, name: None, parts });
        }
    }
    let mut called = Called::default();
    for item in node.list()?.iter() {
        let object = item.object()?;
        let role = object.need("role", ROLES)?;
        let content = object.need("content", BLOCKS)?;
        let said = match role.word()? {
            "user" => user(&content)?,
            "assistant" => vec![assistant(&content)?],
            "system" => vec![Message { role: Role::System, name: None, parts: texts(&content)? }],
            other => {
                let rule = format!("is {}, which is no role here", quoted(other));
                return Err(role.refuse(rule, ROLES));
            }
        };
        for message in said {
            called.admit(
                &item,
                &message,
                "send the assistant message with its tool_use before it",
            )?;
            all.push(message);
        }
    }
    Ok(all)
}

/// Text alone, as a string or as blocks.
fn texts(content: &Node<'_, '_>) -> Result<Vec<Part>, BadRequest> {
    let mut parts = Vec::new();
    let whole = each(content, |kind, object| match kind.word()? {
        "text" => text(object, &mut parts),
        other => Err(kind.refuse(format!("is {}, and here stands text", quoted(other)), TEXT)),
    })?;
    if let Some(text) = whole {
        push_text(&mut parts, text);
    }
    Ok(parts)
}

/// Calls `block` for each block of a list with its type; a string comes back as it is.
pub(super) fn each(
    content: &Node<'_, '_>,
    mut block: impl FnMut(&Node<'_, '_>, &Object<'_, '_>) -> Result<(), BadRequest>,
) -> Result<Option<String>, BadRequest> {
    match content.sort() {
        Sort::Text => content.text().map(Some),
        Sort::List => {
            for item in content.list()?.iter() {
                let object = item.object()?;
                block(&object.need("type", TEXT)?, &object)?;
            }
            Ok(None)
        }
        Sort::Number | Sort::Flag | Sort::Object | Sort::Null => {
            Err(content.missorted("a string or a list of blocks"))
        }
    }
}

pub(super) fn text(object: &Object<'_, '_>, parts: &mut Vec<Part>) -> Result<(), BadRequest> {
    push_text(parts, object.need("text", TEXT)?.text()?);
    Ok(())
}

/// Empty text is no part: providers refuse empty blocks.
fn push_text(parts: &mut Vec<Part>, text: String) {
    if !text.is_empty() {
        parts.push(Part::Text { text });
    }
}

/// The results of a user's message come first, each as a message of its own; then what else the user says, and the
/// images of the results, which no result can hold here.
fn user(content: &Node<'_, '_>) -> Result<Vec<Message>, BadRequest> {
    let (mut all, mut parts) = (Vec::new(), Vec::new());
    let whole = each(content, |kind, object| {
        match kind.word()? {
            "text" => text(object, &mut parts)?,
            "image" => parts.push(picture(object)?),
            "tool_result" => all.push(result::message(object, &mut parts)?),
            "tool_use" | "thinking" | "redacted_thinking" => {
                return Err(kind.refuse("is a block that only an assistant has", TEXT));
            }
            word => parts.push(opaque(word, kind, object)?),
        }
        Ok(())
    })?;
    if let Some(text) = whole {
        push_text(&mut parts, text);
    }
    if !parts.is_empty() || all.is_empty() {
        all.push(Message { role: Role::User, name: None, parts });
    }
    Ok(all)
}

fn assistant(content: &Node<'_, '_>) -> Result<Message, BadRequest> {
    let mut parts = Vec::new();
    let whole = each(content, |kind, object| {
        match kind.word()? {
            "text" => text(object, &mut parts)?,
            "thinking" => parts.extend(thought::shown(object)?),
            "redacted_thinking" => parts.extend(thought::unread(object)?),
            "tool_use" => call(kind, object, &mut parts)?,
            "image" | "tool_result" => {
                return Err(kind.refuse("is a block that only a user has", TEXT));
            }
            word => parts.push(opaque(word, kind, object)?),
        }
        Ok(())
    })?;
    if let Some(text) = whole {
        push_text(&mut parts, text);
    }
    Ok(Message { role: Role::Assistant, name: None, parts })
}

fn opaque(word: &str, kind: &Node<'_, '_>, object: &Object<'_, '_>) -> Result<Part, BadRequest> {
    if NEUTRAL.contains(&word) {
        return Err(kind.refuse(format!("is {word:?}, which is no block of this API"), TEXT));
    }
    Ok(Part::Opaque(object.value()))
}

fn call(
    kind: &Node<'_, '_>,
    object: &Object<'_, '_>,
    parts: &mut Vec<Part>,
) -> Result<(), BadRequest> {
    let shape = "send {\"type\": \"tool_use\", \"id\": …, \"name\": …, \"input\": {…}}";
    let input = object.need("input", shape)?;
    if input.sort() != Sort::Object {
        return Err(input.missorted("an object"));
    }
    let call = ToolCall {
        id: object.need("id", shape)?.name("send the id that the model gave")?,
        name: object.need("name", shape)?.name("name the tool that is called")?,
        arguments: input.json(),
    };
    let calls = || parts.iter().filter(|part| matches!(part, Part::ToolCall(_)));
    if calls().count() >= CALLS_MAX {
        let rule = format!("is one call too many: {CALLS_MAX} is the most of one message");
        return Err(kind.refuse(rule, "spread them over several messages"));
    }
    if calls().any(|part| matches!(part, Part::ToolCall(other) if other.id == call.id)) {
        let rule = format!("has the id {} of another call", quoted(&call.id));
        return Err(kind.refuse(rule, "give each call an id of its own"));
    }
    parts.push(Part::ToolCall(call));
    Ok(())
}

/// An image, by address or in base 64.
pub(super) fn picture(object: &Object<'_, '_>) -> Result<Part, BadRequest> {
    let shape = "send {\"type\": \"image\", \"source\": {\"type\": \"base64\", \"media_type\": …, \"data\": …}}, or a url";
    let source = object.need("source", shape)?.object()?;
    let kind = source.need("type", shape)?;
    let url = match kind.word()? {
        "base64" => {
            let media = source.need("media_type", shape)?;
            let media_type = media.word()?;
            if !media_type.starts_with("image/") || media_type.contains([';', ',']) {
                let rule = format!("is {}, which is no type of image", quoted(media_type));
                return Err(
                    media.refuse(rule, "send image/png, image/jpeg, image/gif or image/webp")
                );
            }
            format!("data:{media_type};base64,{}", source.need("data", shape)?.word()?)
        }
        "url" => image::address(&source.need("url", shape)?)?,
        other => {
            let rule = format!("is {}, and no files are kept here", quoted(other));
            return Err(kind.refuse(rule, shape));
        }
    };
    Ok(Part::Image { url, detail: None })
}
