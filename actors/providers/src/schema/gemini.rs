//! Gemini's view: the subset of OpenAPI 3.0 that its `Schema` message has. References are written out, `null` becomes
//! `nullable`, `oneOf` and `allOf` become `anyOf` and a merge, and a value that can only be listed is told in words.

use serde_json::{Map, Value};

/// How deep a schema is read; below it anything is accepted. The service refuses deeper ones.
const DEPTH_MAX: usize = 24;
/// Schemas that are written in all: references that repeat each other would else double at every level.
const NODES_MAX: usize = 4_096;
/// Bytes of a list of values that is told in words.
const WORDS_BYTES_MAX: usize = 512;

/// Bounds that are taken over as they are, by the type they hold for.
const BOUNDS: [(&str, &str); 8] = [
    ("STRING", "minLength"),
    ("STRING", "maxLength"),
    ("ARRAY", "minItems"),
    ("ARRAY", "maxItems"),
    ("OBJECT", "minProperties"),
    ("OBJECT", "maxProperties"),
    ("NUMBER", "minimum"),
    ("NUMBER", "maximum"),
];
/// The formats that the service knows; it refuses others.
const FORMATS: [(&str, &str); 5] = [
    ("STRING", "date-time"),
    ("NUMBER", "float"),
    ("NUMBER", "double"),
    ("INTEGER", "int32"),
    ("INTEGER", "int64"),
];

type Fields = Map<String, Value>;

/// What Gemini is sent of a schema.
pub(crate) fn gemini(schema: &Value) -> Value {
    let mut view = View { root: schema, following: Vec::new(), nodes: 0 };
    Value::Object(view.of(schema, 0))
}

struct View<'a> {
    root: &'a Value,
    /// The references that are being written out: one that leads back to itself ends there.
    following: Vec<&'a str>,
    nodes: usize,
}

impl<'a> View<'a> {
    fn of(&mut self, schema: &'a Value, depth: usize) -> Fields {
        self.nodes += 1;
        let Some(given) = schema.as_object() else { return Fields::new() };
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            return Fields::new();
        }
        let mut out = self.referred(given, depth);
        for part in list(given.get("allOf")) {
            let part = self.of(part, depth + 1);
            merge(&mut out, part);
        }
        self.typed(given, &mut out, depth);
        self.one_of(given, &mut out, depth);
        values(given, &mut out);
        bounds(given, &mut out);
        if let Some(text) = given.get("description").and_then(Value::as_str) {
            describe(&mut out, text);
        }
        if given.get("nullable") == Some(&Value::Bool(true)) {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        out
    }

    /// What stands where a reference points to; nothing where it leads nowhere or back.
    fn referred(&mut self, given: &'a Fields, depth: usize) -> Fields {
        let Some(reference) = given.get("$ref").and_then(Value::as_str) else {
            return Fields::new();
        };
        let path = reference.strip_prefix('#').unwrap_or("/\u{0}");
        let Some(target) = self.root.pointer(path) else { return Fields::new() };
        if self.following.contains(&reference) {
            // Recursion has no spelling here: its type is kept, its inside is open.
            let mut open = Fields::new();
            if let Some(kind) = target.get("type").and_then(Value::as_str).and_then(kind) {
                open.insert("type".to_owned(), kind.into());
            }
            return open;
        }
        self.following.push(reference);
        let found = self.of(target, depth + 1);
        self.following.pop();
        found
    }

    /// The type, and what belongs to it.
    fn typed(&mut self, given: &'a Fields, out: &mut Fields, depth: usize) {
        let named: Vec<&str> = match given.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
                implied(given).into_iter().collect()
            }
        };
        if named.contains(&"null") {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        let kinds: Vec<&'static str> = named.into_iter().filter_map(kind).collect();
        match kinds.as_slice() {
            [] => {}
            [one] => {
                out.insert("type".to_owned(), (*one).into());
                self.inside(one, given, out, depth);
            }
            several => {
                let each = several.iter().map(|kind| {
                    let mut one = Fields::new();
                    one.insert("type".to_owned(), (*kind).into());
                    self.inside(kind, given, &mut one, depth);
                    bounds(given, &mut one);
                    Value::Object(one)
                });
                let each: Vec<Value> = each.collect();
                out.insert("anyOf".to_owned(), each.into());
            }
        }
    }

    fn inside(&mut self, kind: &str, given: &'a Fields, out: &mut Fields, depth: usize) {
        if kind == "ARRAY" {
            // A list must say what it holds; a tuple is a list of anything.
            let items = given.get("items").map(|items| self.of(items, depth + 1));
            out.insert("items".to_owned(), Value::Object(items.unwrap_or_default()));
        }
        let Some(fields) =
            given.get("properties").and_then(Value::as_object).filter(|_| kind == "OBJECT")
        else {
            return;
        };
        let mut inside = Fields::new();
        for (name, schema) in fields {
            inside.insert(name.clone(), Value::Object(self.of(schema, depth + 1)));
        }
        let mut one = Fields::new();
        // The service refuses a required field that it was told nothing of.
        let required: Vec<Value> = list(given.get("required"))
            .filter(|name| name.as_str().is_some_and(|name| inside.contains_key(name)))
            .cloned()
            .collect();
        if !required.is_empty() {
            one.insert("required".to_owned(), required.into());
        }
        if !inside.is_empty() {
            one.insert("properties".to_owned(), inside.into());
        }
        merge(out, one);
    }

    /// `anyOf` and `oneOf`, which say the same to a writer: its null makes the rest nullable, and one that is left
    /// alone needs no list.
    fn one_of(&mut self, given: &'a Fields, out: &mut Fields, depth: usize) {
        let given = list(given.get("anyOf")).chain(list(given.get("oneOf")));
        let (nulls, variants): (Vec<&Value>, Vec<&Value>) = given.partition(|one| is_null(one));
        let mut views: Vec<Fields> =
            variants.into_iter().map(|one| self.of(one, depth + 1)).collect();
        if !nulls.is_empty() {
            out.insert("nullable".to_owned(), Value::Bool(true));
        }
        match views.pop() {
            None => {}
            Some(only) if views.is_empty() => merge(out, only),
            Some(last) => {
                views.push(last);
                let variants: Vec<Value> = views.into_iter().map(Value::Object).collect();
                out.insert("anyOf".to_owned(), variants.into());
                // A list of variants is refused beside a type of its own.
                out.retain(|name, _| matches!(name.as_str(), "anyOf" | "nullable" | "description"));
            }
        }
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
}

/// The type that a schema means without naming it.
fn implied(given: &Fields) -> Option<&'static str> {
    let constants = || list(given.get("enum")).chain(given.get("const"));
    if given.contains_key("properties") {
        Some("object")
    } else if given.contains_key("items") || given.contains_key("prefixItems") {
        Some("array")
    } else if constants().next().is_some() && constants().all(Value::is_string) {
        Some("string")
    } else {
        None
    }
}

fn kind(name: &str) -> Option<&'static str> {
    match name {
        "string" => Some("STRING"),
        "number" => Some("NUMBER"),
        "integer" => Some("INTEGER"),
        "boolean" => Some("BOOLEAN"),
        "array" => Some("ARRAY"),
        "object" => Some("OBJECT"),
        _ => None,
    }
}

/// `enum` and `const`. Only texts can be listed; other values are told in words.
fn values(given: &Fields, out: &mut Fields) {
    let given: Vec<&Value> = list(given.get("enum")).chain(given.get("const")).collect();
    if given.is_empty() {
        return;
    }
    if given.iter().any(|value| value.is_null()) {
        out.insert("nullable".to_owned(), Value::Bool(true));
    }
    let given: Vec<&Value> = given.into_iter().filter(|value| !value.is_null()).collect();
    let can_list = |value: &&Value| value.as_str().is_some_and(|text| !text.is_empty());
    if given.iter().all(can_list) {
        if !given.is_empty() && out.get("type").is_some_and(|kind| kind == "STRING") {
            let texts: Vec<Value> = given.into_iter().cloned().collect();
            out.insert("enum".to_owned(), texts.into());
        }
        return;
    }
    let words: Vec<String> = given.iter().map(ToString::to_string).collect();
    let words = words.join(", ");
    if words.len() <= WORDS_BYTES_MAX {
        describe(out, &format!("One of: {words}."));
    }
}

fn bounds(given: &Fields, out: &mut Fields) {
    let Some(kind) = out.get("type").and_then(Value::as_str).map(str::to_owned) else { return };
    let is_number = matches!(kind.as_str(), "NUMBER" | "INTEGER");
    for (of, name) in BOUNDS {
        let fits = kind == of || (of == "NUMBER" && is_number);
        if let Some(bound) = given.get(name).filter(|bound| fits && bound.is_number()) {
            out.insert(name.to_owned(), bound.clone());
        }
    }
    for (exclusive, name, step) in
        [("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)]
    {
        let Some(bound) = given.get(exclusive).filter(|bound| is_number && bound.is_number())
        else {
            continue;
        };
        // Whole numbers have a next one; for others the bound itself stands for what is just inside.
        let next = bound.as_i64().filter(|_| kind == "INTEGER").and_then(|n| n.checked_add(step));
        out.insert(name.to_owned(), next.map_or_else(|| bound.clone(), Value::from));
    }
    if let Some(pattern) = given.get("pattern").filter(|text| kind == "STRING" && text.is_string())
    {
        out.insert("pattern".to_owned(), pattern.clone());
    }
    let format = given.get("format").and_then(Value::as_str);
    if let Some(format) = format.filter(|format| FORMATS.contains(&(kind.as_str(), format))) {
        out.insert("format".to_owned(), format.into());
    }
}

/// Puts words before those that are there.
fn describe(out: &mut Fields, words: &str) {
    let text = match out.get("description").and_then(Value::as_str) {
        Some(there) if there != words => format!("{words} {there}"),
        Some(_) | None => words.to_owned(),
    };
    out.insert("description".to_owned(), text.into());
}

/// Adds what another schema demands. Fields and demands are joined; of two other values the first stays.
fn merge(out: &mut Fields, more: Fields) {
    for (name, value) in more {
        match (out.get_mut(&name), value) {
            (Some(Value::Object(there)), Value::Object(more)) if name == "properties" => {
                for (name, schema) in more {
                    there.entry(name).or_insert(schema);
                }
            }
            (Some(Value::Array(there)), Value::Array(more)) if name == "required" => {
                for one in more {
                    if !there.contains(&one) {
                        there.push(one);
                    }
                }
            }
            (None, value) => {
                out.insert(name, value);
            }
            (Some(_), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "tables read better")]
    fn check(schema: Value, then: Value) {
        assert_eq!(gemini(&schema), then, "{schema}");
    }

    #[test]
    fn what_the_subset_has_is_kept_and_the_rest_is_left_out() {
        check(
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "title": "Note",
                "type": "object", "description": "A note.", "additionalProperties": false,
                "patternProperties": { "^x": {} }, "examples": [{}], "default": {},
                "properties": {
                    "text": { "type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a", "format": "uuid" },
                    "at": { "type": "string", "format": "date-time" },
                    "n": { "type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 2, "format": "int32" },
                    "tags": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 3, "uniqueItems": true },
                },
                "required": ["text", "ghost"],
            }),
            json!({
                "type": "OBJECT", "description": "A note.",
                "properties": {
                    "text": { "type": "STRING", "minLength": 1, "maxLength": 9, "pattern": "^a" },
                    "at": { "type": "STRING", "format": "date-time" },
                    "n": { "type": "INTEGER", "minimum": 0, "maximum": 10, "format": "int32" },
                    "tags": { "type": "ARRAY", "items": { "type": "STRING" }, "minItems": 1, "maxItems": 3 },
                },
                "required": ["text"],
            }),
        );
    }

    #[test]
    fn null_becomes_nullable() {
        check(json!({ "type": ["string", "null"] }), json!({ "type": "STRING", "nullable": true }));
        check(
            json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "null" }], "description": "d" }),
            json!({ "type": "INTEGER", "minimum": 1, "nullable": true, "description": "d" }),
        );
        check(
            json!({ "type": ["string", "null"], "enum": ["a", null] }),
            json!({ "type": "STRING", "nullable": true, "enum": ["a"] }),
        );
    }

    #[test]
    fn alternatives_are_one_list_without_a_type_of_its_own() {
        check(
            json!({ "type": "object", "oneOf": [{ "type": "string" }, { "type": "integer" }], "description": "d" }),
            json!({ "anyOf": [{ "type": "STRING" }, { "type": "INTEGER" }], "description": "d" }),
        );
        check(
            json!({ "type": ["integer", "string", "null"], "minimum": 1, "maxLength": 2 }),
            json!({ "nullable": true, "anyOf": [{ "type": "INTEGER", "minimum": 1 }, { "type": "STRING", "maxLength": 2 }] }),
        );
    }

    #[test]
    fn parts_of_a_whole_are_joined() {
        check(
            json!({ "allOf": [
                { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
                { "properties": { "b": { "type": "boolean" } }, "required": ["b", "a"] },
            ], "properties": { "c": true } }),
            json!({ "type": "OBJECT", "required": ["a", "b"], "properties": {
                "a": { "type": "STRING" }, "b": { "type": "BOOLEAN" }, "c": {},
            } }),
        );
    }

    #[test]
    fn references_are_written_out_and_one_that_leads_back_ends() {
        check(
            json!({
                "type": "object",
                "properties": { "one": { "$ref": "#/$defs/Pair", "description": "mine" }, "tree": { "$ref": "#/definitions/Tree" }, "gone": { "$ref": "#/$defs/Gone" }, "far": { "$ref": "https://x/y" } },
                "$defs": { "Pair": { "type": "array", "items": { "type": "number" }, "description": "theirs" } },
                "definitions": { "Tree": { "type": "object", "properties": { "left": { "$ref": "#/definitions/Tree" } } } },
            }),
            json!({ "type": "OBJECT", "properties": {
                "one": { "type": "ARRAY", "items": { "type": "NUMBER" }, "description": "mine theirs" },
                "tree": { "type": "OBJECT", "properties": { "left": { "type": "OBJECT" } } },
                "gone": {}, "far": {},
            } }),
        );
        check(json!({ "$ref": "#" }), json!({}));
    }

    #[test]
    fn values_are_listed_where_they_are_texts_and_told_otherwise() {
        check(json!({ "enum": ["a", "b"] }), json!({ "type": "STRING", "enum": ["a", "b"] }));
        check(json!({ "const": "a" }), json!({ "type": "STRING", "enum": ["a"] }));
        check(
            json!({ "type": "integer", "enum": [1, 2], "description": "How many." }),
            json!({ "type": "INTEGER", "description": "How many. One of: 1, 2." }),
        );
        check(
            json!({ "type": "string", "enum": ["", "a"] }),
            json!({ "type": "STRING", "description": "One of: \"\", \"a\"." }),
        );
    }

    #[test]
    fn a_bound_that_is_left_out_moves_one_inwards_where_there_is_a_next_number() {
        check(
            json!({ "type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10 }),
            json!({ "type": "INTEGER", "minimum": 1, "maximum": 9 }),
        );
        check(
            json!({ "type": "number", "exclusiveMinimum": 0.5 }),
            json!({ "type": "NUMBER", "minimum": 0.5 }),
        );
    }

    #[test]
    fn a_list_says_what_it_holds() {
        check(json!({ "type": "array" }), json!({ "type": "ARRAY", "items": {} }));
        check(
            json!({ "prefixItems": [{ "type": "string" }] }),
            json!({ "type": "ARRAY", "items": {} }),
        );
    }

    #[test]
    fn a_schema_without_end_is_cut() {
        let mut deep = json!({ "type": "string" });
        for _ in 0..100 {
            deep = json!({ "type": "array", "items": deep });
        }
        let cut = gemini(&deep);
        let depth = std::iter::successors(Some(&cut), |one| one.get("items")).count();
        assert_eq!(depth, DEPTH_MAX + 2);
        // Each level names the next twice: written out it would be 2^30 schemas.
        let mut defs = Map::new();
        for level in 0..30 {
            let next = json!({ "$ref": format!("#/$defs/L{}", level + 1) });
            defs.insert(format!("L{level}"), json!({ "properties": { "a": next, "b": next } }));
        }
        let wide = gemini(&json!({ "$ref": "#/$defs/L0", "$defs": defs }));
        assert!(wide.to_string().len() < 64 * NODES_MAX, "{}", wide.to_string().len());
        for odd in [
            json!(true),
            json!(null),
            json!([]),
            json!({ "type": 7, "properties": 3, "anyOf": "x" }),
        ] {
            assert!(gemini(&odd).is_object());
        }
    }
}
