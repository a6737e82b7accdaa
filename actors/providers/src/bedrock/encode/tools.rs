//! The tools on offer and which of them may or must be called.
//!
//! Converse refuses a conversation with calls in it when no tool is offered: then those that were called are named,
//! with a word that they are no longer there.

use super::{NAME_CHARS_MAX, said};
use crate::encode::{EncodeError, Fields, Offered, offered};
use crate::endpoint::Endpoint;
use crate::schema::{self, Unfit};
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What is said of a tool that only the history knows.
const GONE: &str = "No longer available. Never call it.";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    tools: Vec<Tool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    tool_spec: Spec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    input_schema: Schema,
}

#[derive(Serialize)]
struct Schema {
    json: Box<RawValue>,
}

/// What the caller wants of the tools.
enum Choice {
    /// As the model likes, of all or of some.
    Free(Option<BTreeSet<String>>),
    /// At least one, of all or of some.
    Some(Option<BTreeSet<String>>),
    /// This one.
    One(String),
    /// None.
    None,
}

/// The tools' part of a body; none where there is nothing to say of tools. `called` are the names that the history
/// has calls of.
pub(super) fn config(
    endpoint: &Endpoint,
    request: &Request,
    wishes: &Fields,
    called: &BTreeSet<String>,
) -> Result<Option<Config>, EncodeError> {
    let offered = offered(endpoint, &request.tools, NAME_CHARS_MAX)?;
    let choice = if offered.is_empty() { Choice::None } else { choice(wishes)? };
    let (allowed, tool_choice) = match choice {
        Choice::Free(allowed) => (allowed, None),
        Choice::Some(allowed) => (allowed, Some(json!({ "any": {} }))),
        Choice::One(name) => (None, Some(json!({ "tool": { "name": name } }))),
        Choice::None => (Some(BTreeSet::new()), None),
    };
    let may = |tool: &Offered| allowed.as_ref().is_none_or(|names| names.contains(&tool.name));
    let mut tools = Vec::with_capacity(offered.len());
    for tool in offered.into_iter().filter(may) {
        let (name, description) = (tool.name.clone(), tool.description.clone());
        // An empty description is refused.
        let description = description.filter(|text| !text.trim().is_empty());
        match schema::rooted(tool.schema()?) {
            Ok(json) => {
                let input_schema = Schema { json };
                tools.push(Tool { tool_spec: Spec { name, description, input_schema } });
            }
            Err(Unfit(why)) => {
                let (provider, family) = (endpoint.provider.as_str(), endpoint.family.name());
                tracing::warn!(tool = %name, provider, family, why, "tool_quarantined");
            }
        }
    }
    if tools.is_empty() {
        for name in called {
            let json = RawValue::from_string(r#"{"type":"object"}"#.to_owned())?;
            let (name, description) = (name.clone(), Some(GONE.to_owned()));
            let input_schema = Schema { json };
            tools.push(Tool { tool_spec: Spec { name, description, input_schema } });
        }
        return Ok((!tools.is_empty()).then_some(Config { tools, tool_choice: None }));
    }
    Ok(Some(Config { tools, tool_choice }))
}

fn choice(wishes: &Fields) -> Result<Choice, EncodeError> {
    let Some(choice) = said(wishes, "tool_choice") else { return Ok(Choice::Free(None)) };
    let choice: Value = serde_json::from_str(choice.get())?;
    let named =
        |tool: &Value| Some(tool.get("function").and_then(|f| f.get("name"))?.as_str()?.to_owned());
    if let Some(allowed) = choice.get("allowed_tools") {
        let tools = allowed.get("tools").and_then(Value::as_array).into_iter().flatten();
        let names = Some(tools.filter_map(named).collect());
        let is_free = allowed.get("mode").is_some_and(|mode| mode == "auto");
        return Ok(if is_free { Choice::Free(names) } else { Choice::Some(names) });
    }
    let found = match choice.as_str() {
        Some("auto") => Some(Choice::Free(None)),
        Some("none") => Some(Choice::None),
        Some("required") => Some(Choice::Some(None)),
        Some(_) => None,
        None => named(&choice).map(Choice::One),
    };
    found.ok_or_else(|| EncodeError::Param {
        name: "tool_choice",
        rule: format!("is {}", choice.to_string().chars().take(80).collect::<String>()),
        mend: "give auto, none, required, or a function by name",
    })
}
