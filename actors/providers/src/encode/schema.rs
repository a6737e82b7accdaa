//! Views of a JSON schema for families that compile it into a grammar: every object is closed, and what the grammar
//! can not check is said in words. The caller's own schema still judges the answer.

use serde_json::{Map, Value};

/// Levels of a schema; none of use is deeper, and a recursion has no end.
const DEPTH_MAX: usize = 64;
/// Bounds that a grammar does not check: they are moved into the description.
const UNCHECKED: [&str; 12] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "pattern",
];
/// Keys whose values are schemas by name.
const NAMED: [&str; 4] = ["properties", "$defs", "definitions", "patternProperties"];
/// Keys whose values are schemas, alone or in a list.
const NESTED: [&str; 8] =
    ["items", "anyOf", "allOf", "oneOf", "not", "prefixItems", "additionalProperties", "then"];

/// The value of `response_format`, as far as it asks for JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    /// Its name, where it has one.
    pub(crate) name: Option<String>,
    /// What it is for, where that is said.
    pub(crate) description: Option<String>,
    /// The schema.
    pub(crate) schema: Value,
    /// Whether it must be kept to the letter.
    pub(crate) strict: Option<bool>,
}

/// The schema that a caller's `response_format` asks for.
pub(crate) fn wanted(format: &Value) -> Option<Wanted> {
    let inner = format.get("json_schema")?;
    let word = |name: &str| inner.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Wanted {
        name: word("name"),
        description: word("description"),
        schema: inner.get("schema")?.clone(),
        strict: inner.get("strict").and_then(Value::as_bool),
    })
}

/// The view with closed objects and without unchecked bounds.
///
/// # Errors
///
/// What the schema has that no such family takes.
pub(crate) fn closed(schema: &Value) -> Result<Value, &'static str> {
    let root = schema.as_object().ok_or("is no object")?;
    if ["anyOf", "oneOf", "allOf"].into_iter().any(|key| root.contains_key(key)) {
        return Err("chooses between forms at its root");
    }
    if root.get("type").is_some_and(|kind| kind != "object") {
        return Err("describes no object at its root");
    }
    view(schema, 0)
}

fn view(schema: &Value, depth: usize) -> Result<Value, &'static str> {
    if depth > DEPTH_MAX {
        return Err("is deeper than 64 levels");
    }
    let Some(fields) = schema.as_object() else { return Ok(schema.clone()) };
    let mut out = Map::new();
    let mut unchecked = Vec::new();
    for (key, value) in fields {
        let name = key.as_str();
        if UNCHECKED.contains(&name) {
            unchecked.push(format!("{name}: {value}"));
        } else if NAMED.contains(&name) {
            let Some(named) = value.as_object() else { continue };
            let views = named
                .iter()
                .map(|(name, one)| Ok::<_, &str>((name.clone(), view(one, depth + 1)?)));
            out.insert(key.clone(), Value::Object(views.collect::<Result<_, _>>()?));
        } else if NESTED.contains(&name) {
            let nested = match value {
                Value::Array(list) => {
                    let views = list.iter().map(|one| view(one, depth + 1));
                    Value::Array(views.collect::<Result<_, _>>()?)
                }
                one => view(one, depth + 1)?,
            };
            out.insert(key.clone(), nested);
        } else {
            out.insert(key.clone(), value.clone());
        }
    }
    let is_object =
        out.get("type").is_some_and(|kind| kind == "object") || out.contains_key("properties");
    if is_object || depth == 0 {
        out.insert("type".to_owned(), "object".into());
        out.insert("additionalProperties".to_owned(), false.into());
    }
    if !unchecked.is_empty() {
        let said = out.get("description").and_then(Value::as_str).unwrap_or_default();
        let words =
            format!("{said}{}{{{}}}", if said.is_empty() { "" } else { " " }, unchecked.join(", "));
        out.insert("description".to_owned(), words.into());
    }
    Ok(Value::Object(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_closed_and_unchecked_bounds_become_words() {
        let schema = json!({
            "type": "object",
            "properties": {
                "age": { "type": "integer", "minimum": 0, "description": "years" },
                "minimum": { "type": "string", "maxLength": 3 },
                "tags": { "type": "array", "items": { "type": "object", "properties": {} } },
            },
            "required": ["age"],
        });
        assert_eq!(
            closed(&schema),
            Ok(json!({
                "type": "object",
                "properties": {
                    "age": { "type": "integer", "description": "years {minimum: 0}" },
                    "minimum": { "type": "string", "description": "{maxLength: 3}" },
                    "tags": { "type": "array", "items": { "type": "object", "properties": {},
                        "additionalProperties": false } },
                },
                "required": ["age"],
                "additionalProperties": false,
            }))
        );
    }

    #[test]
    fn what_no_grammar_takes_is_refused_and_named() {
        assert_eq!(closed(&json!([1])), Err("is no object"));
        assert_eq!(closed(&json!({ "anyOf": [] })), Err("chooses between forms at its root"));
        assert_eq!(closed(&json!({ "type": "array" })), Err("describes no object at its root"));
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert_eq!(closed(&deep), Err("is deeper than 64 levels"));
    }
}
