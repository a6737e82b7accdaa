//! What the caller wants of the model, in the family's words.
//!
//! Wishes are written as chat completions write them, or in the family's own fields, which win. What the family has
//! no word for is left out, because a request may have been made for another family first; what would change where
//! the answer ends or which form it has is refused instead.

use crate::encode::{EncodeError, Fields, wanted, wishes};
use crate::endpoint::{Dialect, Endpoint, Temperature};
use events::prompt::Request;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// Fields that are passed on as they are.
const OWN: [&str; 13] = [
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "temperature",
    "text",
    "top_logprobs",
    "top_p",
    "truncation",
];
/// Those that the subscription refuses.
const NOT_CODEX: [&str; 8] = [
    "metadata",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "temperature",
    "top_logprobs",
    "top_p",
    "truncation",
];

/// The wishes of a request.
///
/// # Errors
///
/// [`EncodeError::Param`] for what the family can not do.
pub(super) fn read(endpoint: &Endpoint, request: &Request) -> Result<Fields, EncodeError> {
    let given = wishes(request.params.extra.as_bytes())?;
    let has_tools = !request.tools.is_empty();
    let quirks = &endpoint.quirks;
    let is_kept = |name: &str, value: &RawValue| {
        OWN.contains(&name)
            && value.get() != "null"
            && (has_tools || name != "parallel_tool_calls")
            && (quirks.temperature == Temperature::Sent || name != "temperature")
            && !(quirks.dialect == Dialect::Codex && NOT_CODEX.contains(&name))
    };
    let kept = given.iter().filter(|(name, value)| is_kept(name, value));
    let mut fields: Fields = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    if value(&given, "stop").is_some_and(|stop| stop != Value::Array(Vec::new())) {
        return Err(EncodeError::Param {
            name: "stop",
            rule: "is given, and this family stops nowhere by itself".to_owned(),
            mend: "leave it out, or choose a provider of another family",
        });
    }
    if let Some(effort) = value(&given, "reasoning_effort") {
        add(&mut fields, "reasoning", "effort", effort)?;
    }
    if let Some(verbosity) = value(&given, "verbosity") {
        add(&mut fields, "text", "verbosity", verbosity)?;
    }
    if let Some(format) = value(&given, "response_format") {
        add(&mut fields, "text", "format", self::format(&format)?)?;
    }
    if let Some(user) = value(&given, "user").filter(|_| quirks.dialect == Dialect::Usual)
        && !fields.contains_key("safety_identifier")
    {
        fields.insert("safety_identifier".to_owned(), to_raw_value(&user)?);
    }
    if let Some(choice) = value(&given, "tool_choice").filter(|_| has_tools) {
        fields.insert("tool_choice".to_owned(), to_raw_value(&self::choice(&choice))?);
    }
    Ok(fields)
}

/// Adds to an object of the family's; the caller's own word wins.
fn add(fields: &mut Fields, name: &str, key: &str, wish: Value) -> Result<(), EncodeError> {
    let own: Option<Map<String, Value>> =
        fields.get(name).and_then(|own| serde_json::from_str(own.get()).ok());
    let mut own = own.unwrap_or_default();
    own.entry(key).or_insert(wish);
    fields.insert(name.to_owned(), to_raw_value(&own)?);
    Ok(())
}

/// The schema is flat here, and has a name.
fn format(format: &Value) -> Result<Value, EncodeError> {
    if format.get("type").is_none_or(|kind| kind != "json_schema") {
        return Ok(format.clone());
    }
    let Some(wanted) = wanted(format) else {
        return Err(EncodeError::Param {
            name: "response_format",
            rule: "has no json_schema.schema".to_owned(),
            mend: "give one",
        });
    };
    let name = wanted.name.unwrap_or_else(|| "answer".to_owned());
    let mut flat = json!({ "type": "json_schema", "name": name, "schema": wanted.schema });
    if let Some(fields) = flat.as_object_mut() {
        if let Some(strict) = wanted.strict {
            fields.insert("strict".to_owned(), strict.into());
        }
        if let Some(description) = wanted.description {
            fields.insert("description".to_owned(), description.into());
        }
    }
    Ok(flat)
}

/// Functions are named flat here.
fn choice(choice: &Value) -> Value {
    let name = |one: &Value| one.pointer("/function/name").cloned();
    match choice.get("type").and_then(Value::as_str) {
        Some("function") => match name(choice) {
            Some(name) => json!({ "type": "function", "name": name }),
            None => choice.clone(),
        },
        Some("allowed_tools") => {
            let inner = choice.get("allowed_tools").unwrap_or(choice);
            let tools = inner.get("tools").and_then(Value::as_array).into_iter().flatten();
            let flat = |one: &Value| {
                name(one)
                    .map_or_else(|| one.clone(), |name| json!({ "type": "function", "name": name }))
            };
            let tools: Vec<Value> = tools.map(flat).collect();
            json!({ "type": "allowed_tools", "mode": inner.get("mode"), "tools": tools })
        }
        Some(_) | None => choice.clone(),
    }
}

fn value(given: &Fields, name: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(given.get(name)?.get()).ok()?;
    (!value.is_null()).then_some(value)
}
