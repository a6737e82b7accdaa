//! The client's own tools as a catalogue: sorted by name with sorted keys, since any other order would cool the
//! provider's cache and change the request's hash for the same tools.

use super::bad_request::BadRequest;
use super::tree::{Node, Object, quoted};
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

/// One tool.
#[derive(Debug, Serialize)]
pub(super) struct Tool {
    name: String,
    description: String,
    parameters: Value,
}

/// The tools of a list, each read by the rules of its API, which may say of one that it is none of the client's.
pub(super) fn catalogue(
    node: Option<Node<'_, '_>>,
    read: impl Fn(&Object<'_, '_>) -> Result<Option<Tool>, BadRequest>,
) -> Result<Catalogue, BadRequest> {
    let Some(node) = node else { return Ok(Catalogue::default()) };
    let list = node.list()?;
    if list.len() > TOOLS_MAX {
        let rule = format!("has {} tools and the most is {TOOLS_MAX}", list.len());
        return Err(node.refuse(rule, "offer the ones that this turn can need"));
    }
    let mut tools: BTreeMap<String, Tool> = BTreeMap::new();
    for item in list.iter() {
        let Some(tool) = read(&item.object()?)? else { continue };
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

impl Tool {
    /// The tool that an object describes, its schema under `parameters`.
    pub(super) fn read(
        object: &Object<'_, '_>,
        parameters: &str,
        shape: &str,
    ) -> Result<Self, BadRequest> {
        let name = object.need("name", shape)?;
        let text = name.name("name the tool")?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.len() > NAME_CHARS_MAX || !text.chars().all(fits) {
            let rule =
                format!("is {}, which is not a name that every provider takes", quoted(&text));
            let mend = format!("use a-z, A-Z, 0-9, _ and -, at most {NAME_CHARS_MAX} characters");
            return Err(name.refuse(rule, mend));
        }
        let description = match object.get("description") {
            Some(node) => node.text()?,
            None => String::new(),
        };
        let parameters = match object.get(parameters) {
            Some(node) => {
                node.object()?;
                node.value()
            }
            // No parameters means a tool without arguments.
            None => json!({"type": "object", "properties": {}}),
        };
        Ok(Self { name: text, description, parameters })
    }
}
