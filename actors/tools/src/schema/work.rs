//! How much work a check against a schema can be, before it is done: a few lines of references that repeat each other
//! make a check that never ends, and it can not be stopped half-way.
//!
//! Two things are counted. Written out without recursion, a schema may not have more parts than a check is worth; and
//! where it leads back to itself more than once, the work grows with each level of the arguments, so that a bound on
//! their depth follows. It errs on the safe side: it counts what a check may do, not what it will.

use serde_json::Value;
use std::collections::BTreeMap;
use std::ptr;

/// Parts that one check may look at. A large public schema, written out, has some ten thousand.
const PARTS_MAX: u64 = 1_000_000;
/// References within references that are followed; none of use is deeper.
const PATH_MAX: usize = 256;
/// How often one check may go through a schema that leads back to itself.
const ROUNDS_MAX: u64 = 1_000_000;
/// Targets that a schema may lead back to.
const TARGETS_MAX: usize = 256;

/// Keys of a schema, or of a list of them, that judge the same value.
const IN_PLACE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
/// Keys of a schema, or of a list of them, that judge what is inside the value.
const INSIDE: [&str; 7] = [
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "unevaluatedProperties",
];
/// Keys of a table of schemas, with the levels that they go into the value.
const TABLES: [(&str, usize); 4] =
    [("properties", 1), ("patternProperties", 1), ("dependentSchemas", 0), ("dependencies", 0)];
/// Keys that lead elsewhere.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A check could be endless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMuch;

/// By how many levels of the value one round goes further, and how many such ways back there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Growth(BTreeMap<usize, u64>);

impl Growth {
    /// Whether a value of this depth can be checked in time.
    pub(super) fn admits(&self, depth: usize) -> bool {
        let mut rounds: Vec<u64> = Vec::with_capacity(depth.saturating_add(1));
        for level in 0..=depth {
            let back = self.0.iter().filter_map(|(step, ways)| {
                let before = rounds.get(level.checked_sub(*step)?)?;
                Some(ways.saturating_mul(*before))
            });
            let sum = back.fold(1_u64, u64::saturating_add);
            if sum > ROUNDS_MAX {
                return false;
            }
            rounds.push(sum);
        }
        true
    }
}

/// How the work of a check grows with its value.
pub(super) fn growth(root: &Value) -> Result<Growth, TooMuch> {
    let mut first = Walk::new(root);
    first.part(root, 0)?;
    if first.targets.len() > TARGETS_MAX {
        return Err(TooMuch);
    }
    let mut growth = Growth::default();
    for target in first.targets {
        let mut walk = Walk { back_to: Some(target), ..Walk::new(root) };
        walk.part(target, 0)?;
        for (step, ways) in walk.ways {
            let all = growth.0.entry(step).or_default();
            *all = all.saturating_add(ways);
        }
    }
    Ok(growth)
}

struct Walk<'a> {
    root: &'a Value,
    parts: u64,
    /// Where it stands: each part on the way with its level in the value.
    path: Vec<(&'a Value, usize)>,
    /// Parts that were led back to.
    targets: Vec<&'a Value>,
    /// Only ways back to this one are counted.
    back_to: Option<&'a Value>,
    ways: BTreeMap<usize, u64>,
}

impl<'a> Walk<'a> {
    const fn new(root: &'a Value) -> Self {
        Self {
            root,
            parts: 0,
            path: Vec::new(),
            targets: Vec::new(),
            back_to: None,
            ways: BTreeMap::new(),
        }
    }

    fn part(&mut self, schema: &'a Value, level: usize) -> Result<(), TooMuch> {
        self.parts = self.parts.saturating_add(1);
        if self.parts > PARTS_MAX || self.path.len() > PATH_MAX {
            return Err(TooMuch);
        }
        let Some(fields) = schema.as_object() else { return Ok(()) };
        if let Some((_, before)) = self.path.iter().find(|(part, _)| ptr::eq(*part, schema)) {
            let step = level.saturating_sub(*before).max(1);
            if self.back_to.is_none_or(|target| ptr::eq(target, schema)) {
                let ways = self.ways.entry(step).or_default();
                *ways = ways.saturating_add(1);
            }
            if !self.targets.iter().any(|target| ptr::eq(*target, schema)) {
                self.targets.push(schema);
            }
            return Ok(());
        }
        self.path.push((schema, level));
        for (key, value) in fields {
            let key = key.as_str();
            if let Some((_, step)) = TABLES.iter().find(|(table, _)| *table == key) {
                let mut table = value.as_object().into_iter().flatten();
                table.try_for_each(|(_, one)| self.part(one, level.saturating_add(*step)))?;
            } else if IN_PLACE.contains(&key) {
                self.each(value, level)?;
            } else if INSIDE.contains(&key) {
                self.each(value, level.saturating_add(1))?;
            } else if REFERENCES.contains(&key) {
                let target = value.as_str().map(|reference| self.target(reference));
                self.part(target.unwrap_or(self.root), level)?;
            }
        }
        self.path.pop();
        Ok(())
    }

    /// A schema, or each of a list.
    fn each(&mut self, value: &'a Value, level: usize) -> Result<(), TooMuch> {
        match value {
            Value::Array(list) => list.iter().try_for_each(|one| self.part(one, level)),
            one => self.part(one, level),
        }
    }

    /// What a reference leads to. One that is not a place in this document by its path is taken for the whole of it.
    fn target(&self, reference: &str) -> &'a Value {
        let place = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
        place.unwrap_or(self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    /// The deepest value that is checked, up to 64 levels; none for a schema that is not taken.
    fn deepest(schema: &Value) -> Option<usize> {
        let growth = growth(schema).ok()?;
        (0..=64).take_while(|depth| growth.admits(*depth)).last()
    }

    #[test]
    fn a_schema_without_recursion_and_one_with_a_single_way_back_take_any_depth() {
        assert_eq!(deepest(&json!({ "properties": { "a": { "items": {} } } })), Some(64));
        let tree =
            json!({ "properties": { "name": {}, "children": { "items": { "$ref": "#" } } } });
        assert_eq!(deepest(&tree), Some(64));
        // A pointer with escapes, and a definition that is used a hundred times.
        let many: Map<String, Value> =
            (0..100).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/a~1b" }))).collect();
        let wide = json!({ "properties": many, "$defs": { "a/b": { "properties": { "x": {} } } } });
        assert_eq!(deepest(&wide), Some(64));
    }

    #[test]
    fn references_that_repeat_each_other_are_refused() {
        let mut defs = Map::new();
        for level in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/L{}", level + 1) });
            defs.insert(format!("L{level}"), json!({ "allOf": [next, next] }));
        }
        assert_eq!(deepest(&json!({ "$ref": "#/$defs/L0", "$defs": defs })), None);
    }

    #[test]
    fn several_ways_back_bound_the_depth_by_how_fast_they_grow() {
        let twice = |inner: Value| json!({ "anyOf": [{ "properties": { "a": inner } }, { "properties": { "a": inner } }] });
        let doubling = deepest(&twice(json!({ "$ref": "#" }))).unwrap();
        assert!((15..24).contains(&doubling), "{doubling}");
        // The same by way of a definition, so that the way back stands in one place only.
        let once = json!({ "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "properties": { "x": { "$ref": "#" } } } } });
        assert_eq!(deepest(&once), Some(doubling));
        // Twenty kinds of blocks in blocks, each a few levels further down, as editors have them.
        let block: Vec<Value> = (0..20)
            .map(|n| json!({ "properties": { format!("kind{n}"): { "properties": { "children": { "items": { "$ref": "#/$defs/block" } } } } } }))
            .collect();
        let blocks = json!({ "properties": { "children": { "items": { "$ref": "#/$defs/block" } } }, "$defs": { "block": { "anyOf": block } } });
        assert!(deepest(&blocks).unwrap() >= 12, "{:?}", deepest(&blocks));
    }
}
