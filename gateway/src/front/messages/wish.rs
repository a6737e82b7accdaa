//! What a caller wants of the model besides the messages, from the words of this API to the neutral ones.

use super::Thoughts;
use crate::front::bad_request::BadRequest;
use crate::front::tree::{Node, Object, quoted};
use crate::front::wishes::{self, Takes, Wish};
use events::json::Json;
use events::prompt::Catalogue;
use serde_json::{Map, Value, json};

/// Fields that have one neutral name.
const KNOWN: [Wish; 4] = [
    ("temperature", Takes::Number, "temperature"),
    ("top_p", Takes::Number, "top_p"),
    ("top_k", Takes::Integer, "top_k"),
    ("stop_sequences", Takes::TextOrTexts, "stop"),
];
/// Characters of `metadata.user_id`: 256, as at Anthropic.
const USER_CHARS_MAX: usize = 256;

/// The wishes as a canonical object.
pub(super) fn extra(top: &Object<'_, '_>, tools: &Catalogue) -> Result<Json, BadRequest> {
    let mut kept = wishes::kept(top, &KNOWN)?;
    if let Some(choice) = top.get("tool_choice") {
        tool_choice(&choice, tools, &mut kept)?;
    }
    if let Some(metadata) = top.get("metadata")
        && let Some(user) = metadata.object()?.get("user_id")
    {
        let text = user.text()?;
        if text.chars().count() > USER_CHARS_MAX {
            let rule = format!("is longer than {USER_CHARS_MAX} characters");
            return Err(user.refuse(rule, "send a hash of it"));
        }
        kept.insert("user".to_owned(), Value::from(text));
    }
    if let Some(node) = top.get("thinking") {
        node.object()?;
        kept.insert("thinking".to_owned(), node.value());
    }
    if let Some(config) = top.get("output_config") {
        let config = config.object()?;
        if let Some(effort) = config.get("effort") {
            kept.insert("reasoning_effort".to_owned(), Value::from(effort.text()?));
        }
        if let Some(format) = config.get("format") {
            kept.insert("response_format".to_owned(), response_format(&format)?);
        }
    }
    wishes::canonical(&kept)
}

/// Whether reasoning is shown: where thinking is asked for and its display not left out.
pub(super) fn thoughts(top: &Object<'_, '_>) -> Result<Thoughts, BadRequest> {
    let Some(node) = top.get("thinking") else { return Ok(Thoughts::Hidden) };
    let thinking = node.object()?;
    let display = thinking.get("display").map(|node| node.word()).transpose()?;
    let kind = thinking.need("type", "send {\"type\": \"enabled\", \"budget_tokens\": …}")?;
    match (kind.word()?, display) {
        ("enabled" | "adaptive", None | Some("summarized")) => Ok(Thoughts::Shown),
        ("enabled" | "adaptive" | "disabled", _) => Ok(Thoughts::Hidden),
        (other, _) => {
            let rule = format!("is {}, which is no way of thinking here", quoted(other));
            Err(kind.refuse(rule, "use enabled, adaptive or disabled"))
        }
    }
}

fn tool_choice(
    node: &Node<'_, '_>,
    tools: &Catalogue,
    kept: &mut Map<String, Value>,
) -> Result<(), BadRequest> {
    let choice = node.object()?;
    let kind = choice.need("type", "send {\"type\": \"auto\"}")?;
    let neutral = match kind.word()? {
        "auto" => Value::from("auto"),
        "any" => Value::from("required"),
        "none" => Value::from("none"),
        "tool" => {
            let name = choice.need("name", "name the tool")?.name("name the tool")?;
            json!({"type": "function", "function": {"name": name}})
        }
        other => {
            let rule = format!("is {}, which is no choice here", quoted(other));
            return Err(kind.refuse(rule, "use auto, any, tool or none"));
        }
    };
    // Without tools of the client's the first and the last say nothing, and OpenAI refuses them there.
    if !tools.is_empty() || !matches!(neutral.as_str(), Some("auto" | "none")) {
        kept.insert("tool_choice".to_owned(), neutral);
    }
    let alone = choice.get("disable_parallel_tool_use").map(|node| node.flag()).transpose()?;
    if alone == Some(true) && !tools.is_empty() {
        kept.insert("parallel_tool_calls".to_owned(), Value::from(false));
    }
    Ok(())
}

fn response_format(node: &Node<'_, '_>) -> Result<Value, BadRequest> {
    let shape = "send {\"type\": \"json_schema\", \"schema\": {…}}";
    let format = node.object()?;
    let kind = format.need("type", shape)?;
    if kind.word()? != "json_schema" {
        return Err(kind.refuse(format!("is {}", quoted(kind.word()?)), shape));
    }
    let schema = format.need("schema", shape)?;
    schema.object()?;
    let schema = json!({"name": "output", "schema": schema.value(), "strict": true});
    Ok(json!({"type": "json_schema", "json_schema": schema}))
}
