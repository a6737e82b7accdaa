//! The neutral request as a `generateContent` body.
//!
//! A pure function: equal requests give equal bytes. What the caller says in the words of chat completions is said in
//! Gemini's own; what Gemini has no word for and what would change nothing but the bill is left out, and what would
//! change the answer is refused.

mod contents;

use crate::encode::{EncodeError, Fields, Offered, viewed, wishes};
use crate::endpoint::Endpoint;
use crate::family::Mode;
use crate::schema::{self, Unfit};
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// Characters of a tool's name that the family takes.
const NAME_CHARS_MAX: usize = 64;
/// What is passed on under its own name.
const NATIVE: [&str; 3] = ["cachedContent", "safetySettings", "serviceTier"];
/// Wishes that have another name here, but mean the same.
const RENAMED: [(&str, &str); 6] = [
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("seed", "seed"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
];
/// Tokens of thinking that an effort means to models which count them, as Google's own OpenAI-shaped door has them.
const BUDGETS: [(&str, u32); 5] =
    [("none", 0), ("minimal", 1_024), ("low", 1_024), ("medium", 8_192), ("high", 24_576)];

#[derive(Serialize)]
struct Declaration {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
}

/// Writes the body of a request; whole and streamed are asked for by the address alone.
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
    let tools = declarations(endpoint, request)?;
    let (system, contents) = contents::contents(endpoint, request)?;
    let mut fields = Fields::new();
    for name in NATIVE {
        if let Some(value) = wishes.get(name) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    fields.insert("contents".to_owned(), to_raw_value(&contents)?);
    if let Some(system) = system {
        fields.insert("systemInstruction".to_owned(), to_raw_value(&system)?);
    }
    let config = config(request, &wishes)?;
    if !config.is_empty() {
        fields.insert("generationConfig".to_owned(), to_raw_value(&config)?);
    }
    if !tools.is_empty() {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Tools {
            function_declarations: Vec<Declaration>,
        }
        if let Some(choice) = choice(&wishes)? {
            let choice = json!({ "functionCallingConfig": choice });
            fields.insert("toolConfig".to_owned(), to_raw_value(&choice)?);
        }
        let tools = [Tools { function_declarations: tools }];
        fields.insert("tools".to_owned(), to_raw_value(&tools)?);
    }
    Ok(serde_json::to_vec(&fields)?)
}

fn declarations(endpoint: &Endpoint, request: &Request) -> Result<Vec<Declaration>, EncodeError> {
    let declared = |tool: Offered| {
        let (name, description) = (tool.name.clone(), tool.description.clone());
        if !is_first(&name) {
            return Ok(Err(Unfit("has a name that does not begin with a letter or _")));
        }
        let schema: Value = serde_json::from_str(tool.schema()?.get())
            .map_err(|error| EncodeError::Catalogue(error.to_string()))?;
        if let Some(why) = schema::no_object(&schema) {
            return Ok(Err(Unfit(why)));
        }
        // An object without fields is refused; a tool that takes nothing has no parameters.
        let parameters =
            Some(schema::gemini(&schema)).filter(|view| view.get("properties").is_some());
        Ok(Ok(Declaration { name, description, parameters }))
    };
    viewed(endpoint, &request.tools, NAME_CHARS_MAX, declared)
}

/// Whether a name begins as the family's do.
fn is_first(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// How the answer is to be made. What the caller says in Gemini's own words stands last.
fn config(request: &Request, wishes: &Fields) -> Result<Fields, EncodeError> {
    let mut config = Fields::new();
    let said = |name: &str| wishes.get(name).filter(|value| value.get() != "null");
    for (theirs, ours) in RENAMED {
        if let Some(value) = said(theirs) {
            config.insert(ours.to_owned(), value.clone());
        }
    }
    if let Some(stop) = said("stop") {
        let texts: Value = serde_json::from_str(stop.get())?;
        let texts = if texts.is_array() { texts } else { json!([texts]) };
        config.insert("stopSequences".to_owned(), to_raw_value(&texts)?);
    }
    let bound = match request.params.output_max {
        Some(max) => Some(to_raw_value(&max.0)?),
        None => said("max_completion_tokens").or_else(|| said("max_tokens")).cloned(),
    };
    if let Some(bound) = bound {
        config.insert("maxOutputTokens".to_owned(), bound);
    }
    if let Some(format) = said("response_format") {
        shape(&serde_json::from_str(format.get())?, &mut config)?;
    }
    if let Some(effort) = said("reasoning_effort") {
        let effort: Value = serde_json::from_str(effort.get())?;
        let effort = effort.as_str().unwrap_or_default();
        config
            .insert("thinkingConfig".to_owned(), to_raw_value(&thinking(&request.model, effort))?);
    }
    if let Some(own) = said("generationConfig") {
        config.append(&mut serde_json::from_str::<Fields>(own.get())?);
    }
    Ok(config)
}

/// JSON output, by the family's own means.
fn shape(format: &Value, config: &mut Fields) -> Result<(), EncodeError> {
    let json = RawValue::from_string("\"application/json\"".to_owned())?;
    match format.get("type").and_then(Value::as_str) {
        Some("text") => {}
        Some("json_object") => {
            config.insert("responseMimeType".to_owned(), json);
        }
        Some("json_schema") => {
            config.insert("responseMimeType".to_owned(), json);
            let wanted = format.get("json_schema").and_then(|wanted| wanted.get("schema"));
            if let Some(schema) = wanted {
                let view = to_raw_value(&schema::gemini(schema))?;
                config.insert("responseSchema".to_owned(), view);
            }
        }
        other => {
            return Err(EncodeError::Param {
                name: "response_format",
                rule: format!("has the type {}", other.unwrap_or("of nothing")),
                mend: "give text, json_object or json_schema",
            });
        }
    }
    Ok(())
}

/// How long to think: older models count tokens, newer ones know levels and can not be told not to.
fn thinking(model: &str, effort: &str) -> Map<String, Value> {
    let mut config = Map::new();
    let model = model.strip_prefix("models/").unwrap_or(model);
    if model.starts_with("gemini-2") {
        let tokens = BUDGETS.iter().find(|(name, _)| *name == effort).map(|(_, tokens)| *tokens);
        // Whatever is above the highest known is as much as the model likes.
        config.insert("thinkingBudget".to_owned(), tokens.map_or_else(|| json!(-1), Value::from));
        config.insert("includeThoughts".to_owned(), (effort != "none").into());
    } else {
        let level = match effort {
            "none" | "minimal" => "MINIMAL",
            "low" => "LOW",
            "medium" => "MEDIUM",
            _ => "HIGH",
        };
        config.insert("thinkingLevel".to_owned(), level.into());
        config.insert("includeThoughts".to_owned(), (effort != "none").into());
    }
    config
}

/// Which tools may, must or must not be called. There is no word for one at a time.
fn choice(wishes: &Fields) -> Result<Option<Value>, EncodeError> {
    let Some(choice) = wishes.get("tool_choice") else { return Ok(None) };
    let choice: Value = serde_json::from_str(choice.get())?;
    let named = |tool: &Value| tool.get("function").and_then(|f| f.get("name")).cloned();
    let odd = |value: &Value| EncodeError::Param {
        name: "tool_choice",
        rule: format!("is {}", value.to_string().chars().take(80).collect::<String>()),
        mend: "give auto, none, required, or a function by name",
    };
    let only =
        |mode: &str, names: Vec<Value>| json!({ "mode": mode, "allowedFunctionNames": names });
    Ok(match choice.as_str() {
        Some("auto") => Some(json!({ "mode": "AUTO" })),
        Some("none") => Some(json!({ "mode": "NONE" })),
        Some("required") => Some(json!({ "mode": "ANY" })),
        Some(_) => return Err(odd(&choice)),
        None if choice.is_null() => None,
        None => match choice.get("allowed_tools") {
            // Names bind only where a call is demanded; where it is not, the check of the schema stands in for it.
            Some(allowed) => {
                let tools = allowed.get("tools").and_then(Value::as_array);
                let names: Vec<Value> = tools.into_iter().flatten().filter_map(named).collect();
                let is_free = allowed.get("mode").is_some_and(|mode| mode == "auto");
                Some(only(if is_free { "VALIDATED" } else { "ANY" }, names))
            }
            None => Some(only("ANY", vec![named(&choice).ok_or_else(|| odd(&choice))?])),
        },
    })
}

#[cfg(test)]
mod tests;
