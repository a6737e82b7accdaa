//! The conversation of a request as neutral messages.
//!
//! Parts of unknown types are kept as they came, except those that spell a type of the neutral model: stored, they
//! would read back as one, and a client could forge a tool's result or a sealed reasoning.

use crate::front::asked::some_messages;
use crate::front::bad_request::BadRequest;
use crate::front::image;
use crate::front::pairing::Called;
use crate::front::tree::{Node, Object, Sort, quoted};
use events::message::{Message, Part, Role, ToolCall, ToolResult};

/// Calls of one message: 256. Providers make up to 128; each is compared with the others.
const CALLS_MAX: usize = 256;
/// Types of the neutral model that are none of this API.
const NEUTRAL: [&str; 4] = ["image", "tool_call", "tool_result", "reasoning"];

const ROLES: &str = "use system, developer, user, assistant or tool";
const TEXT_PART: &str = "send {\"type\": \"text\", \"text\": …}";

/// The messages in order, at least one.
pub(super) fn messages(node: &Node<'_, '_>) -> Result<Vec<Message>, BadRequest> {
    some_messages(node)?;
    let mut called = Called::default();
    let mut messages = Vec::new();
    for item in node.list()?.iter() {
        let message = message(&item)?;
        called.admit(
            &item,
            &message,
            "send the assistant message with its tool_calls before it",
        )?;
        messages.push(message);
    }
    Ok(messages)
}

fn message(node: &Node<'_, '_>) -> Result<Message, BadRequest> {
    let object = node.object()?;
    let role = object.need("role", ROLES)?;
    match role.word()? {
        "system" | "developer" => spoken(Role::System, &object),
        "user" => spoken(Role::User, &object),
        "assistant" => assistant(&object),
        "tool" => tool(&object),
        "function" => Err(role.refuse(
            "is the legacy form, which is not supported",
            "send role \"tool\" with tool_call_id",
        )),
        other => Err(role.refuse(format!("is {}, which is no role here", quoted(other)), ROLES)),
    }
}

fn spoken(role: Role, object: &Object<'_, '_>) -> Result<Message, BadRequest> {
    let content = object.need("content", "send a string, or a list of parts")?;
    let mut said = Vec::new();
    parts(role, &content, &mut said)?;
    Ok(Message { role, name: name(object)?, parts: said })
}

fn assistant(object: &Object<'_, '_>) -> Result<Message, BadRequest> {
    if let Some(node) = object.get("function_call") {
        let mend = "send tool_calls: [{\"id\": …, \"type\": \"function\", \"function\": {…}}]";
        return Err(node.refuse("is the legacy form, which is not supported", mend));
    }
    let role = Role::Assistant;
    let mut said = Vec::new();
    if let Some(content) = object.get("content") {
        parts(role, &content, &mut said)?;
    }
    if let Some(node) = object.get("refusal") {
        said.extend(
            Some(node.text()?).filter(|text| !text.is_empty()).map(|text| Part::Refusal { text }),
        );
    }
    if let Some(calls) = object.get("tool_calls") {
        let list = calls.list()?;
        if list.len() > CALLS_MAX {
            let rule = format!("has {} calls and the most is {CALLS_MAX}", list.len());
            return Err(calls.refuse(rule, "spread them over several messages"));
        }
        for item in list.iter() {
            let call = call(&item)?;
            let is_same =
                |part: &Part| matches!(part, Part::ToolCall(other) if other.id == call.id);
            if said.iter().any(is_same) {
                let rule = format!("has the id {} of another call", quoted(&call.id));
                return Err(item.refuse(rule, "give each call an id of its own"));
            }
            said.push(Part::ToolCall(call));
        }
    }
    Ok(Message { role, name: name(object)?, parts: said })
}

fn call(node: &Node<'_, '_>) -> Result<ToolCall, BadRequest> {
    let object = node.object()?;
    if let Some(kind) = object.get("type")
        && kind.word()? != "function"
    {
        let rule = format!("is {}, and only functions are supported", quoted(kind.word()?));
        return Err(kind.refuse(rule, "send type \"function\""));
    }
    let shape = "send {\"id\": …, \"type\": \"function\", \"function\": {\"name\": …, \"arguments\": \"…\"}}";
    let function = object.need("function", shape)?.object()?;
    let arguments = function.need("arguments", shape)?;
    if arguments.sort() == Sort::Object {
        let mend = "send the JSON as text, exactly as the model wrote it";
        return Err(arguments.refuse("must be a string, not an object", mend));
    }
    Ok(ToolCall {
        id: object.need("id", shape)?.name("send the id that the model gave")?,
        name: function.need("name", shape)?.name("name the tool that is called")?,
        arguments: arguments.text()?,
    })
}

fn tool(object: &Object<'_, '_>) -> Result<Message, BadRequest> {
    let id = object.need("tool_call_id", "send the id of the call that this answers")?;
    let content = object.need("content", "send the result as a string; it may be empty")?;
    let call = id.name("send the id of the call that this answers")?;
    let text = if content.sort() == Sort::List {
        let mut text = String::new();
        for item in content.list()?.iter() {
            let part = item.object()?;
            let kind = part.need("type", TEXT_PART)?;
            if kind.word()? != "text" {
                let rule = format!("is {}, and a tool answers in text", quoted(kind.word()?));
                return Err(kind.refuse(rule, "put anything else into a user message"));
            }
            text.push_str(part.need("text", TEXT_PART)?.word()?);
        }
        text
    } else {
        content.text()?
    };
    let result = ToolResult { call, content: text, is_error: false };
    Ok(Message { role: Role::Tool, name: None, parts: vec![Part::ToolResult(result)] })
}

fn name(object: &Object<'_, '_>) -> Result<Option<String>, BadRequest> {
    let name = object.get("name").map(|node| node.text()).transpose()?;
    Ok(name.filter(|name| !name.is_empty()))
}

/// Empty text is no part: providers refuse empty blocks, and `""` and null are the same to every client.
fn parts(role: Role, content: &Node<'_, '_>, out: &mut Vec<Part>) -> Result<(), BadRequest> {
    match content.sort() {
        Sort::Text => push_text(out, content.text()?),
        Sort::List => {
            for item in content.list()?.iter() {
                part(role, &item, out)?;
            }
        }
        Sort::Number | Sort::Flag | Sort::Object | Sort::Null => {
            return Err(content.missorted("a string or a list of parts"));
        }
    }
    Ok(())
}

fn push_text(out: &mut Vec<Part>, text: String) {
    if !text.is_empty() {
        out.push(Part::Text { text });
    }
}

fn part(role: Role, node: &Node<'_, '_>, out: &mut Vec<Part>) -> Result<(), BadRequest> {
    let object = node.object()?;
    let kind = object.need("type", TEXT_PART)?;
    match kind.word()? {
        "text" => push_text(out, object.need("text", TEXT_PART)?.text()?),
        "image_url" => out.push(picture(&object)?),
        "refusal" if role == Role::Assistant => {
            let text = object.need("refusal", "send the words of the refusal")?.text()?;
            out.push(Part::Refusal { text });
        }
        "refusal" => {
            return Err(kind.refuse("is \"refusal\", which only an assistant says", TEXT_PART));
        }
        word if NEUTRAL.contains(&word) => {
            let mend = "use text, image_url, input_audio or file";
            return Err(kind.refuse(format!("is {word:?}, which is no part of this API"), mend));
        }
        _ => out.push(Part::Opaque(node.value())),
    }
    Ok(())
}

fn picture(object: &Object<'_, '_>) -> Result<Part, BadRequest> {
    let shape = "send {\"type\": \"image_url\", \"image_url\": {\"url\": …}}";
    let image = object.need("image_url", shape)?.object()?;
    let url = image::address(&image.need("url", shape)?)?;
    let detail = image.get("detail").map(|node| node.text()).transpose()?;
    Ok(Part::Image { url, detail })
}
