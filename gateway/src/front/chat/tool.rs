//! The client's own tools as a catalogue: sorted by name with sorted keys, since any other order would cool the
//! provider's cache and change the request's hash for the same tools.

use super::problem::BadRequest;
use super::raw::{Node, quoted};
use events::json::Json;
use events::prompt::Catalogue;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Tools of one request: 1,024. Providers take 128; the pool shrinks what is between, and more is an error of the
/// caller's.
const TOOLS_MAX: usize = 1_024;
/// Characters of a tool's name: 64, as at OpenAI and Anthropic.
const NAME_CHARS_MAX: usize = 64;

#[derive(Serialize)]
struct Tool {
    name: String,
    description: String,
    parameters: Value,
}

/// The function tools; tools of any other type are the provider's own and are ignored.
pub(super) fn catalogue(node: Option<Node<'_, '_>>) -> Result<Catalogue, BadRequest> {
    let Some(node) = node else { return Ok(Catalogue::default()) };
    let list = node.list()?;
    if list.len() > TOOLS_MAX {
        let rule = format!("has {} tools and the most is {TOOLS_MAX}", list.len());
        return Err(node.refuse(rule, "offer the ones that this turn can need"));
    }
    let mut tools: BTreeMap<String, Tool> = BTreeMap::new();
    for item in list.iter() {
        let Some(tool) = tool(&item)? else { continue };
        if let Some(other) = tools.insert(tool.name.clone(), tool) {
            let rule = format!("offers {} a second time", quoted(&other.name));
            return Err(item.refuse(rule, "give each tool a name of its own"));
        }
    }
    let tools: Vec<Tool> = tools.into_values().collect();
    let canonical = serde_json_canonicalizer::to_vec(&tools).map_err(|error| {
        node.refuse(format!("has no canonical form ({error})"), "send plain JSON Schema")
    })?;
    Ok(Catalogue::new(Json::from(canonical)))
}

fn tool(node: &Node<'_, '_>) -> Result<Option<Tool>, BadRequest> {
    let object = node.object()?;
    let shape = "send {\"type\": \"function\", \"function\": {\"name\": …, \"parameters\": {…}}}";
    if object.need("type", shape)?.word()? != "function" {
        return Ok(None);
    }
    let function = object.need("function", shape)?.object()?;
    let name = function.need("name", shape)?;
    let text = name.name("name the tool")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.len() > NAME_CHARS_MAX || !text.chars().all(fits) {
        let rule = format!("is {}, which is not a name that every provider takes", quoted(&text));
        let mend = format!("use a-z, A-Z, 0-9, _ and -, at most {NAME_CHARS_MAX} characters");
        return Err(name.refuse(rule, mend));
    }
    let description = match function.get("description") {
        Some(node) => node.text()?,
        None => String::new(),
    };
    let parameters = match function.get("parameters") {
        Some(node) => {
            node.object()?;
            node.value()
        }
        // No parameters means a tool without arguments.
        None => json!({"type": "object", "properties": {}}),
    };
    Ok(Some(Tool { name: text, description, parameters }))
}
