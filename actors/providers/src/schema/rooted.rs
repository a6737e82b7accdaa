//! The view of families that take all of JSON Schema but at the root: there they want an object and nothing that chooses
//! between forms. Forms at the root are folded into one object, references there are written out, and what stands below
//! is left as it is, to the byte where nothing has to change.

use super::Unfit;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// How deep forms within forms are followed.
const DEPTH_MAX: usize = 16;
/// Forms that are folded in all: references that repeat each other would else double at every level.
const FORMS_MAX: usize = 512;
/// Characters of the words that say which fields go together.
const WORDS_CHARS_MAX: usize = 400;
/// What chooses between forms, or says more than an object has: not taken at a root.
const AT_ROOT: [&str; 15] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
];

type Fields = Map<String, Value>;

/// What is sent of a schema to a family whose roots say that they are objects; the same bytes where this one does.
///
/// # Errors
///
/// [`Unfit`] for a schema that admits no object, or whose forms can not be written out.
pub(crate) fn rooted(schema: Box<RawValue>) -> Result<Box<RawValue>, Unfit> {
    view(schema, |kind| kind.is_some_and(|kind| kind == "object"))
}

/// The same for a family that takes a root for an object which does not say so.
///
/// # Errors
///
/// As those of [`rooted`].
pub(crate) fn folded(schema: Box<RawValue>) -> Result<Box<RawValue>, Unfit> {
    view(schema, |kind| kind.is_none_or(|kind| kind == "object"))
}

fn view(
    schema: Box<RawValue>,
    is_taken: impl Fn(Option<&Value>) -> bool,
) -> Result<Box<RawValue>, Unfit> {
    let read: Value = serde_json::from_str(schema.get()).map_err(|_| Unfit("is no JSON"))?;
    let fields = match &read {
        Value::Object(fields) => fields,
        // Anything that is an object.
        Value::Bool(true) => {
            return RawValue::from_string(r#"{"type":"object"}"#.to_owned())
                .map_err(|_| Unfit("can not be written"));
        }
        Value::Bool(false) => return Err(ADMITS_NONE),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Unfit("is no schema"));
        }
    };
    let is_plain = !AT_ROOT.iter().any(|key| fields.contains_key(*key));
    if is_plain && is_taken(fields.get("type")) {
        return Ok(schema);
    }
    let mut fold = Fold { root: &read, following: Vec::new(), forms: 0 };
    let mut view = fold.of(&read, 0)?.ok_or(ADMITS_NONE)?;
    prune(&mut view);
    to_raw_value(&view).map_err(|_| Unfit("can not be written"))
}

const ADMITS_NONE: Unfit = Unfit("describes no object at its root");

struct Fold<'a> {
    root: &'a Value,
    following: Vec<&'a str>,
    forms: usize,
}

impl<'a> Fold<'a> {
    /// One object that admits at least what a schema admits of objects; none where it admits none of them.
    fn of(&mut self, schema: &'a Value, depth: usize) -> Result<Option<Fields>, Unfit> {
        self.forms += 1;
        if depth > DEPTH_MAX || self.forms > FORMS_MAX {
            return Err(Unfit("has more forms at its root than are folded"));
        }
        let Some(given) = schema.as_object() else {
            return Ok((*schema != false).then(|| kept(&Fields::new())));
        };
        let admits = match given.get("type") {
            Some(Value::String(kind)) => kind == "object",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => true,
        };
        if !admits {
            return Ok(None);
        }
        let mut out = kept(given);
        if let Some(reference) = given.get("$ref").and_then(Value::as_str) {
            let Some(target) = self.referred(reference, depth)? else { return Ok(None) };
            and(&mut out, target);
        }
        for part in list(given.get("allOf")) {
            let Some(part) = self.of(part, depth + 1)? else { return Ok(None) };
            and(&mut out, part);
        }
        for key in ["anyOf", "oneOf"] {
            if !given.contains_key(key) {
                continue;
            }
            let mut forms = Vec::new();
            for form in list(given.get(key)) {
                forms.extend(self.of(form, depth + 1)?);
            }
            if forms.is_empty() {
                return Ok(None);
            }
            and(&mut out, or(forms));
        }
        Ok(Some(out))
    }

    fn referred(&mut self, reference: &'a str, depth: usize) -> Result<Option<Fields>, Unfit> {
        let pointer = reference.strip_prefix('#').ok_or(Unfit("refers to another document"))?;
        let target = self.root.pointer(pointer).ok_or(Unfit("refers to what it does not hold"))?;
        if self.following.contains(&reference) || pointer.is_empty() {
            return Err(Unfit("leads back to itself at its root"));
        }
        self.following.push(reference);
        let found = self.of(target, depth + 1);
        self.following.pop();
        found
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// What an object says beside its forms.
fn kept(given: &Fields) -> Fields {
    let plain = given.iter().filter(|(key, _)| !AT_ROOT.contains(&key.as_str()));
    let mut out: Fields = plain.map(|(key, value)| (key.clone(), value.clone())).collect();
    out.insert("type".to_owned(), "object".into());
    out
}

/// Adds what must hold as well. Of two words about one thing the first stays: both together would say more.
fn and(out: &mut Fields, more: Fields) {
    for (key, value) in more {
        match (out.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(more)) if is_by_name(&key) => {
                for (name, schema) in more {
                    there.entry(name).or_insert(schema);
                }
            }
            (Some(Value::Array(there)), Value::Array(more)) if key == "required" => {
                more.into_iter().for_each(|name| {
                    if !there.contains(&name) {
                        there.push(name);
                    }
                });
            }
            (Some(Value::String(there)), Value::String(more)) if key == "description" => {
                if *there != more {
                    there.push(' ');
                    there.push_str(&more);
                }
            }
            (Some(_), _) => {}
            // A form that closes itself knows nothing of its neighbours' fields.
            (None, _)
                if matches!(key.as_str(), "additionalProperties" | "unevaluatedProperties") => {}
            (None, value) => {
                out.insert(key, value);
            }
        }
    }
}

fn is_by_name(key: &str) -> bool {
    matches!(key, "properties" | "$defs" | "definitions")
}

/// One object for several forms: the fields of all, of which only those are required that each form requires. Which
/// go together is said in words.
fn or(forms: Vec<Fields>) -> Fields {
    let names = |form: &Fields| -> BTreeSet<String> {
        list(form.get("required")).filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let required: Vec<BTreeSet<String>> = forms.iter().map(names).collect();
    let mut shared = required.iter();
    let first = shared.next().cloned().unwrap_or_default();
    let all = shared.fold(first, |all, one| all.intersection(one).cloned().collect());
    let mut out = Fields::from_iter([("type".to_owned(), Value::from("object"))]);
    let mut properties = Fields::new();
    for form in forms {
        for (name, schema) in
            form.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            match properties.get_mut(name) {
                None => {
                    properties.insert(name.clone(), schema.clone());
                }
                Some(there) => either(there, schema),
            }
        }
    }
    if !properties.is_empty() {
        out.insert("properties".to_owned(), properties.into());
    }
    let differ = required.windows(2).any(|two| matches!(two, [one, next] if one != next));
    if differ {
        let sets = required.iter().map(|set| set.iter().cloned().collect::<Vec<_>>().join(", "));
        let words = format!(
            "Give the fields of one of: {}.",
            sets.map(|set| format!("{{{set}}}")).collect::<Vec<_>>().join(" or ")
        );
        if words.chars().count() <= WORDS_CHARS_MAX {
            out.insert("description".to_owned(), words.into());
        }
    }
    if !all.is_empty() {
        out.insert("required".to_owned(), all.into_iter().map(Value::from).collect());
    }
    out
}

/// A field that forms describe differently is as any of them says.
fn either(there: &mut Value, schema: &Value) {
    if there == schema {
        return;
    }
    let only_any = there.as_object().is_some_and(|fields| fields.len() == 1);
    match there.get_mut("anyOf").and_then(Value::as_array_mut).filter(|_| only_any) {
        Some(any) => {
            if !any.contains(schema) {
                any.push(schema.clone());
            }
        }
        None => *there = serde_json::json!({ "anyOf": [there, schema] }),
    }
}

/// What is required must be known: some services refuse a schema that requires what it does not describe.
fn prune(view: &mut Fields) {
    let known: BTreeSet<String> = view
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    if let Some(required) = view.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str().is_some_and(|name| known.contains(name)));
        if required.is_empty() {
            view.remove("required");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "tables read better")]
    fn check(schema: Value, then: Result<Value, &'static str>) {
        let view = rooted(to_raw_value(&schema).unwrap());
        let found = view.map(|view| serde_json::from_str::<Value>(view.get()).unwrap());
        assert_eq!(found, then.map_err(Unfit), "{schema}");
    }

    #[test]
    fn a_root_that_is_an_object_stays_byte_for_byte() {
        let same = |text: &str| rooted(RawValue::from_string(text.to_owned()).unwrap()).unwrap();
        let text =
            r##"{ "type":"object","b":1.10,"properties":{"a":{"anyOf":[{"$ref":"#/x"}]}} }"##;
        assert_eq!(same(text).get(), text);
        assert_eq!(same(r#"{"properties":{}}"#).get(), r#"{"properties":{},"type":"object"}"#);
        assert_eq!(same("true").get(), r#"{"type":"object"}"#);
        let bare = r#"{"b":1.10}"#;
        let untyped = folded(RawValue::from_string(bare.to_owned()).unwrap()).unwrap();
        assert_eq!(untyped.get(), bare);
        assert!(folded(RawValue::from_string(r#"{"type":"string"}"#.to_owned()).unwrap()).is_err());
    }

    #[test]
    fn forms_at_the_root_become_one_object_and_the_words_say_which_fields_go_together() {
        check(
            json!({
                "description": "Moves.", "additionalProperties": false,
                "properties": { "speed": { "type": "number" } }, "required": ["speed"],
                "oneOf": [
                    { "type": "object", "properties": { "to": { "type": "string" }, "n": { "type": "integer" } }, "required": ["to"] },
                    { "properties": { "by": { "type": "number" }, "n": { "type": "string" } }, "required": ["by"], "additionalProperties": false },
                    { "type": "null" },
                ],
            }),
            Ok(json!({
                "type": "object", "additionalProperties": false,
                "description": "Moves. Give the fields of one of: {to} or {by}.",
                "properties": {
                    "speed": { "type": "number" }, "to": { "type": "string" }, "by": { "type": "number" },
                    "n": { "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                },
                "required": ["speed"],
            })),
        );
        check(
            json!({ "anyOf": [{ "properties": { "a": {} }, "required": ["a"] }, { "properties": { "a": {}, "b": {} }, "required": ["b", "a"] }] }),
            Ok(json!({
                "type": "object", "properties": { "a": {}, "b": {} }, "required": ["a"],
                "description": "Give the fields of one of: {a} or {a, b}.",
            })),
        );
    }

    #[test]
    fn parts_of_a_whole_are_joined_and_references_at_the_root_are_written_out() {
        check(
            json!({
                "$ref": "#/$defs/Base",
                "allOf": [{ "properties": { "b": { "$ref": "#/$defs/Leaf" } }, "required": ["b", "a", "ghost"] }],
                "$defs": {
                    "Base": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
                    "Leaf": { "type": "integer" },
                },
            }),
            Ok(json!({
                "type": "object", "required": ["a", "b"],
                "properties": { "a": { "type": "string" }, "b": { "$ref": "#/$defs/Leaf" } },
                "$defs": {
                    "Base": { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
                    "Leaf": { "type": "integer" },
                },
            })),
        );
        check(
            json!({ "type": ["object", "null"], "not": { "required": ["x"] } }),
            Ok(json!({ "type": "object" })),
        );
    }

    #[test]
    fn what_can_not_be_projected_is_named() {
        check(json!(7), Err("is no schema"));
        check(json!(false), Err("describes no object at its root"));
        check(json!({ "type": "array" }), Err("describes no object at its root"));
        check(
            json!({ "anyOf": [{ "type": "string" }, false] }),
            Err("describes no object at its root"),
        );
        check(json!({ "allOf": [{ "type": "string" }] }), Err("describes no object at its root"));
        check(json!({ "$ref": "#" }), Err("leads back to itself at its root"));
        check(
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } }),
            Err("leads back to itself at its root"),
        );
        check(json!({ "$ref": "https://x/y" }), Err("refers to another document"));
        check(json!({ "$ref": "#/$defs/gone" }), Err("refers to what it does not hold"));
        let deep = (0..40).fold(json!({}), |inner, _| json!({ "allOf": [inner] }));
        check(deep, Err("has more forms at its root than are folded"));
        let mut defs = Fields::new();
        for level in 0..12 {
            let next = json!({ "$ref": format!("#/$defs/L{}", level + 1) });
            defs.insert(format!("L{level}"), json!({ "anyOf": [next, next] }));
        }
        check(
            json!({ "$ref": "#/$defs/L0", "$defs": defs }),
            Err("has more forms at its root than are folded"),
        );
    }
}
