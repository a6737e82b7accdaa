//! Arguments against a tool's JSON Schema, compiled once.
//!
//! The dialect is the one that `$schema` names, 2020-12 where it names none. References stay inside the schema:
//! nothing is fetched, from a server's schema least of all. Patterns may not backtrack without end.

mod work;

use crate::canonical::DEPTH_MAX;
use crate::tool::{Invalid, Violation};
use events::json::Json;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use work::{Growth, TooMuch, growth};

/// Bytes of one schema; the largest of a public server seen has 60 KiB.
pub const SCHEMA_BYTES_MAX: usize = 256 << 10;
/// Violations that the model is told; it mends a few at a time.
const VIOLATIONS_MAX: usize = 8;
/// Characters of one violation's words: they quote the value.
const MESSAGE_CHARS_MAX: usize = 300;
/// Steps of backtracking that one pattern may take on one value.
const BACKTRACK_MAX: usize = 100_000;

/// A compiled schema, or none.
#[derive(Debug)]
pub enum Schema {
    /// Arguments are checked.
    Declared(Box<Declared>),
    /// The tool declares none, so they are not.
    None,
}

/// A compiled schema.
#[derive(Debug)]
pub struct Declared {
    validator: Validator,
    /// How the work of a check grows with the depth of the arguments.
    growth: Growth,
}

/// A schema can not be used: the tool stays out, the others do not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is not JSON.
    #[error("the schema is not JSON: {0}")]
    NotJson(String),
    /// It is larger than any.
    #[error("the schema has {0} bytes, {SCHEMA_BYTES_MAX} are taken")]
    TooLong(usize),
    /// It nests deeper than any.
    #[error("the schema nests deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// References of it repeat each other until a check has no end.
    #[error(
        "a check against the schema could be endless: its references repeat each other too often"
    )]
    Endless,
    /// It is not a schema of its dialect, or refers to what it does not hold.
    #[error("the schema does not compile: {0}")]
    NotASchema(String),
}

impl Schema {
    /// Compiles a schema; `null` is none.
    ///
    /// # Errors
    ///
    /// [`SchemaError`], with what is wrong.
    pub fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let bytes = schema.as_bytes();
        if bytes.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLong(bytes.len()));
        }
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| SchemaError::NotJson(error.to_string()))?;
        if value.is_null() {
            return Ok(Self::None);
        }
        if is_deeper(&value, DEPTH_MAX) {
            return Err(SchemaError::TooDeep);
        }
        let growth = growth(&value).map_err(|TooMuch| SchemaError::Endless)?;
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_MAX);
        let built = jsonschema::options().offline().with_pattern_options(patterns).build(&value);
        let validator =
            built.map_err(|error| SchemaError::NotASchema(short(&error.to_string())))?;
        Ok(Self::Declared(Box::new(Declared { validator, growth })))
    }

    /// Checks arguments.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with the first few violations.
    pub fn check(&self, arguments: &Value) -> Result<(), Invalid> {
        let Self::Declared(declared) = self else { return Ok(()) };
        let Declared { validator, growth } = &**declared;
        if !growth.admits(depth(arguments)) {
            return Err(Invalid::whole(
                "the arguments nest deeper than can be checked against this schema, which leads back to itself",
            ));
        }
        let violations: Vec<Violation> = validator
            .iter_errors(arguments)
            .take(VIOLATIONS_MAX)
            .map(|error| Violation {
                path: short(error.instance_path().as_str()),
                message: short(&error.to_string()),
            })
            .collect();
        if violations.is_empty() { Ok(()) } else { Err(Invalid { violations }) }
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, below)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Levels of lists and objects.
fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    below.unwrap_or(0).saturating_add(1)
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compile(schema: &Value) -> Result<Schema, SchemaError> {
        Schema::compile(&Json::from(schema.to_string()))
    }

    #[track_caller]
    fn check(schema: &Value, arguments: &Value, then: &[&str]) {
        let found =
            compile(schema).unwrap().check(arguments).err().map_or_else(Vec::new, |i| i.violations);
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths, then, "{found:?}");
    }

    fn note() -> Value {
        json!({
            "type": "object",
            "properties": { "text": { "type": "string", "maxLength": 5 } },
            "required": ["text"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn violations_are_named_by_their_place() {
        check(&note(), &json!({ "text": "hi" }), &[]);
        check(&note(), &json!({ "text": 3 }), &["/text"]);
        check(&note(), &json!({}), &[""]);
        check(&note(), &json!({ "text": "too long", "more": 1 }), &["/text", ""]);
        let error = compile(&note()).unwrap().check(&json!({ "text": 3 })).unwrap_err();
        assert_eq!(error.violations[0].message, r#"3 is not of type "string""#);
    }

    #[test]
    fn the_dialect_is_the_one_that_is_named() {
        // A tuple is `items` in draft 7 and `prefixItems` in 2020-12.
        let tuple = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "properties": { "a": { "items": [{ "type": "string" }] } } });
        check(&tuple, &json!({ "a": [1] }), &["/a/0"]);
        let newer = json!({ "properties": { "a": { "prefixItems": [{ "type": "string" }] } } });
        check(&newer, &json!({ "a": [1] }), &["/a/0"]);
    }

    #[test]
    fn references_stay_inside() {
        let local = json!({ "$defs": { "s": { "type": "string" } }, "properties": { "a": { "$ref": "#/$defs/s" } } });
        check(&local, &json!({ "a": 1 }), &["/a"]);
        for away in ["https://example.com/schema.json", "file:///etc/passwd", "#/$defs/none"] {
            let schema = json!({ "properties": { "a": { "$ref": away } } });
            assert!(matches!(compile(&schema), Err(SchemaError::NotASchema(_))), "{away}");
        }
        for itself in [json!({ "$ref": "#" }), json!({ "allOf": [{ "$ref": "#" }] })] {
            check(&itself, &json!({}), &[]);
        }
    }

    #[test]
    fn no_schema_checks_nothing() {
        let none = Schema::compile(&Json::default()).unwrap();
        assert_eq!(none.check(&json!({ "any": "thing" })), Ok(()));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        assert!(matches!(Schema::compile(&Json::from_bytes(b"{")), Err(SchemaError::NotJson(_))));
        assert!(matches!(compile(&json!({ "type": "strong" })), Err(SchemaError::NotASchema(_))));
        assert!(matches!(
            compile(&json!({ "properties": { "a": { "pattern": "(" } } })),
            Err(SchemaError::NotASchema(_))
        ));
        let long = json!({ "description": "x".repeat(SCHEMA_BYTES_MAX) });
        assert!(matches!(compile(&long), Err(SchemaError::TooLong(_))));
        let deep = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert!(compile(&deep(DEPTH_MAX - 1)).is_ok());
        assert_eq!(compile(&deep(DEPTH_MAX)).unwrap_err(), SchemaError::TooDeep);
    }

    #[test]
    fn few_and_short_violations_are_told() {
        let schema = json!({ "additionalProperties": { "type": "string" } });
        let many: Value = (0..50).map(|n| (format!("k{n}"), json!(["x".repeat(9_000)]))).collect();
        let invalid = compile(&schema).unwrap().check(&many).unwrap_err();
        assert_eq!(invalid.violations.len(), VIOLATIONS_MAX);
        assert!(
            invalid.violations.iter().all(|v| v.message.chars().count() <= MESSAGE_CHARS_MAX + 1)
        );
    }

    #[test]
    fn a_check_that_could_be_endless_is_not_begun() {
        let twice = json!({ "anyOf": [
            { "properties": { "a": { "$ref": "#" } }, "required": ["b"] },
            { "properties": { "a": { "$ref": "#" } }, "required": ["c"] },
        ] });
        let deep = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        check(&twice, &deep(2), &[""]);
        let told = compile(&twice).unwrap().check(&deep(40)).unwrap_err();
        assert!(told.violations[0].message.contains("nest deeper than can be checked"), "{told:?}");
        let next = json!({ "$ref": "#/$defs/b" });
        let mut defs = serde_json::Map::new();
        defs.insert("z".to_owned(), json!({}));
        for (name, next) in ('b'..='y').zip('c'..='z') {
            let next = json!({ "$ref": format!("#/$defs/{next}") });
            defs.insert(name.to_string(), json!({ "allOf": [next, next] }));
        }
        let endless = json!({ "allOf": [next], "$defs": defs });
        assert_eq!(compile(&endless).unwrap_err(), SchemaError::Endless);
    }

    #[test]
    fn a_pattern_may_not_backtrack_without_end() {
        let schema =
            json!({ "properties": { "a": { "type": "string", "pattern": "^(a|a)*(?=b)c$" } } });
        check(&schema, &json!({ "a": "a".repeat(5_000) }), &["/a"]);
    }
}
