//! What a caller wants of the model besides the messages, from the words of this API to the neutral ones.

use super::Thoughts;
use crate::front::bad_request::BadRequest;
use crate::front::tree::{Node, Object, Sort, quoted};
use crate::front::wishes::{self, Takes, Wish};
use events::json::Json;
use events::prompt::Catalogue;
use events::quantity::Tokens;
use serde_json::{Map, Value, json};

/// Fields that have one neutral name.
const KNOWN: [Wish; 8] = [
    ("temperature", Takes::Number, "temperature"),
    ("top_p", Takes::Number, "top_p"),
    ("parallel_tool_calls", Takes::Flag, "parallel_tool_calls"),
    ("service_tier", Takes::Text, "service_tier"),
    ("prompt_cache_key", Takes::Text, "prompt_cache_key"),
    ("prompt_cache_retention", Takes::Text, "prompt_cache_retention"),
    ("safety_identifier", Takes::Text, "safety_identifier"),
    ("user", Takes::Text, "user"),
];
/// What brings reasoning back, among the values of `include`.
const KEY: &str = "reasoning.encrypted_content";

/// The most output the caller wants.
pub(super) fn output_max(top: &Object<'_, '_>) -> Result<Option<Tokens>, BadRequest> {
    let mend = "leave it out for no bound of yours";
    top.get("max_output_tokens").map(|node| wishes::tokens(&node, mend)).transpose()
}

/// The wishes as a canonical object.
pub(super) fn extra(top: &Object<'_, '_>, tools: &Catalogue) -> Result<Json, BadRequest> {
    let mut kept = wishes::kept(top, &KNOWN)?;
    if let Some(choice) = top.get("tool_choice") {
        kept.insert("tool_choice".to_owned(), tool_choice(&choice)?);
    }
    if let Some(text) = top.get("text") {
        let text = text.object()?;
        if let Some(verbosity) = text.get("verbosity") {
            kept.insert("verbosity".to_owned(), Value::from(verbosity.text()?));
        }
        if let Some(format) = text.get("format") {
            kept.extend(
                response_format(&format)?.map(|format| ("response_format".to_owned(), format)),
            );
        }
    }
    if let Some(reasoning) = top.get("reasoning")
        && let Some(effort) = reasoning.object()?.get("effort")
    {
        kept.insert("reasoning_effort".to_owned(), Value::from(effort.text()?));
    }
    wishes::drop_idle(&mut kept, tools);
    wishes::canonical(&kept)
}

/// What is given out of reasoning: what the caller asks for.
pub(super) fn thoughts(top: &Object<'_, '_>) -> Result<Thoughts, BadRequest> {
    let mut thoughts = Thoughts::Hidden;
    if let Some(node) = top.get("reasoning") {
        let reasoning = node.object()?;
        // The second is the name that it had before.
        let summary = reasoning.get("summary").or_else(|| reasoning.get("generate_summary"));
        if let Some(node) = summary {
            node.word()?;
            thoughts = thoughts.with_words();
        }
    }
    if let Some(include) = top.get("include") {
        for item in include.list()?.iter() {
            if item.word()? == KEY {
                thoughts = thoughts.with_key();
            }
        }
    }
    Ok(thoughts)
}

fn tool_choice(node: &Node<'_, '_>) -> Result<Value, BadRequest> {
    let mend = "use auto, required, none or {\"type\": \"function\", \"name\": …}";
    if node.sort() == Sort::Text {
        return match node.word()? {
            "auto" | "required" | "none" => Ok(node.value()),
            other => {
                Err(node.refuse(format!("is {}, which is no choice here", quoted(other)), mend))
            }
        };
    }
    let choice = node.object()?;
    let kind = choice.need("type", mend)?;
    if kind.word()? != "function" {
        let rule = format!("is {}, which is no choice here", quoted(kind.word()?));
        return Err(kind.refuse(rule, mend));
    }
    let name = choice.need("name", mend)?.name("name the tool")?;
    Ok(json!({"type": "function", "function": {"name": name}}))
}

/// The neutral form nests the schema; text is what every model writes unasked.
fn response_format(node: &Node<'_, '_>) -> Result<Option<Value>, BadRequest> {
    let shape = "send {\"type\": \"json_schema\", \"name\": …, \"schema\": {…}}";
    let format = node.object()?;
    let kind = format.need("type", shape)?;
    match kind.word()? {
        "text" => Ok(None),
        "json_object" => Ok(Some(json!({"type": "json_object"}))),
        "json_schema" => {
            let schema = format.need("schema", shape)?;
            schema.object()?;
            let mut nested = Map::new();
            nested.insert("name".to_owned(), format.need("name", shape)?.name(shape)?.into());
            nested.insert("schema".to_owned(), schema.value());
            if let Some(strict) = format.get("strict") {
                nested.insert("strict".to_owned(), strict.flag()?.into());
            }
            if let Some(description) = format.get("description") {
                nested.insert("description".to_owned(), description.text()?.into());
            }
            Ok(Some(json!({"type": "json_schema", "json_schema": nested})))
        }
        other => Err(kind.refuse(format!("is {}, which is no format here", quoted(other)), shape)),
    }
}
