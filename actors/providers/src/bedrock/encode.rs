//! The neutral request as a Converse body; whole and streamed are asked for by the address alone.
//!
//! A pure function: equal requests give equal bytes. What the caller says in the words of chat completions is said in
//! Converse's own; what it has no word for and what would change nothing but the bill is left out, and what would
//! change the answer is refused.

mod messages;
mod tools;

use crate::encode::{EncodeError, Fields, wishes};
use crate::endpoint::Endpoint;
use crate::family::Mode;
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// Characters of a tool's name.
const NAME_CHARS_MAX: usize = 64;
/// Where a model's vendor has its own words.
const OWN_WORDS: &str = "additionalModelRequestFields";
/// What is passed on under its own name.
const NATIVE: [&str; 6] = [
    OWN_WORDS,
    "additionalModelResponseFieldPaths",
    "guardrailConfig",
    "performanceConfig",
    "requestMetadata",
    "serviceTier",
];
/// Tokens of thinking that an effort means to models which count them. The least that they take is 1024.
const BUDGETS: [(&str, u64); 4] =
    [("minimal", 1_024), ("low", 1_024), ("medium", 4_096), ("high", 16_384)];

/// Writes the body of a request.
///
/// # Errors
///
/// [`EncodeError`] for what the family is known to refuse.
pub(crate) fn encode(
    endpoint: &Endpoint,
    request: &Request,
    _mode: Mode,
) -> Result<Vec<u8>, EncodeError> {
    if request.model.is_empty() {
        return Err(EncodeError::NoModel);
    }
    let wishes = wishes(request.params.extra.as_bytes())?;
    let conversation = messages::messages(endpoint, request)?;
    let mut fields = Fields::new();
    for name in NATIVE {
        if let Some(value) = wishes.get(name) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    // What the caller says in the model's own words stands.
    let thinking = if fields.contains_key(OWN_WORDS) { None } else { thinking(request, &wishes)? };
    if let Some(thinking) = &thinking {
        fields.insert(OWN_WORDS.to_owned(), to_raw_value(thinking)?);
    }
    let bounds = bounds(request, &wishes, thinking.as_ref())?;
    if !bounds.is_empty() {
        fields.insert("inferenceConfig".to_owned(), to_raw_value(&bounds)?);
    }
    if let Some(tools) = tools::config(endpoint, request, &wishes, &conversation.called)? {
        fields.insert("toolConfig".to_owned(), to_raw_value(&tools)?);
    }
    if let Some(shape) = shape(&wishes)? {
        fields.insert("outputConfig".to_owned(), to_raw_value(&shape)?);
    }
    fields.insert("messages".to_owned(), to_raw_value(&conversation.messages)?);
    if !conversation.system.is_empty() {
        fields.insert("system".to_owned(), to_raw_value(&conversation.system)?);
    }
    Ok(serde_json::to_vec(&fields)?)
}

/// A wish that says something.
fn said<'a>(wishes: &'a Fields, name: &str) -> Option<&'a RawValue> {
    wishes.get(name).map(AsRef::as_ref).filter(|value| value.get() != "null")
}

fn bounds(
    request: &Request,
    wishes: &Fields,
    thinking: Option<&Value>,
) -> Result<Fields, EncodeError> {
    let thinks = thinking.is_some_and(|more| more.get("thinking").is_some());
    let mut bounds = Fields::new();
    for (theirs, ours) in [("temperature", "temperature"), ("top_p", "topP")] {
        // A model that thinks by a budget sets both itself and refuses others.
        if let Some(value) = said(wishes, theirs).filter(|_| !thinks) {
            bounds.insert(ours.to_owned(), value.to_owned());
        }
    }
    if let Some(stop) = said(wishes, "stop") {
        let texts: Value = serde_json::from_str(stop.get())?;
        let texts = if texts.is_array() { texts } else { json!([texts]) };
        bounds.insert("stopSequences".to_owned(), to_raw_value(&texts)?);
    }
    let max = match request.params.output_max {
        Some(max) => Some(to_raw_value(&max.0)?),
        None => said(wishes, "max_completion_tokens")
            .or_else(|| said(wishes, "max_tokens"))
            .map(ToOwned::to_owned),
    };
    if let Some(max) = max {
        bounds.insert("maxTokens".to_owned(), max);
    }
    Ok(bounds)
}

/// How long to think, in the words of the model's own vendor: Converse has none.
fn thinking(request: &Request, wishes: &Fields) -> Result<Option<Value>, EncodeError> {
    let Some(effort) = said(wishes, "reasoning_effort") else { return Ok(None) };
    let effort: Value = serde_json::from_str(effort.get())?;
    let effort = effort.as_str().unwrap_or_default();
    if request.model.contains("openai.") {
        return Ok(Some(json!({ "reasoning_effort": effort })));
    }
    let budget = BUDGETS.iter().find(|(name, _)| *name == effort).map(|(_, budget)| *budget);
    // A budget must be below the bound of the output; where it is not, thinking is left to the model.
    let fits = |budget: &u64| request.params.output_max.is_none_or(|max| max.0 > *budget);
    Ok(budget
        .filter(|budget| request.model.contains("anthropic.") && fits(budget))
        .map(|budget| json!({ "thinking": { "type": "enabled", "budget_tokens": budget } })))
}

/// JSON output, by the family's own means: the schema goes as text.
fn shape(wishes: &Fields) -> Result<Option<impl Serialize>, EncodeError> {
    let Some(format) = said(wishes, "response_format") else { return Ok(None) };
    let format: Value = serde_json::from_str(format.get())?;
    let kind = format.get("type").and_then(Value::as_str);
    let wanted = format.get("json_schema").filter(|_| kind == Some("json_schema"));
    if let Some((wanted, schema)) = wanted.and_then(|wanted| Some((wanted, wanted.get("schema")?)))
    {
        let mut inner = json!({ "schema": schema.to_string() });
        if let Some(inner) = inner.as_object_mut() {
            for name in ["name", "description"] {
                inner.extend(wanted.get(name).map(|text| (name.to_owned(), text.clone())));
            }
        }
        let structure = json!({ "jsonSchema": inner });
        return Ok(Some(
            json!({ "textFormat": { "type": "json_schema", "structure": structure } }),
        ));
    }
    if kind == Some("text") {
        return Ok(None);
    }
    Err(EncodeError::Param {
        name: "response_format",
        rule: format!("has the type {}", kind.unwrap_or("of nothing")),
        mend: "Converse takes text, or json_schema with a schema",
    })
}

#[cfg(test)]
mod tests;
