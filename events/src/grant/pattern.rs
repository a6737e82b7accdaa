//! Which arguments a standing grant covers: for each pointer a constant or a glob, and nothing that it does not name.
//!
//! It guards against a grant that lets more through than the approver saw: an argument that the pattern does not
//! name, one that is missing, and a path that climbs out of a glob's folder are not covered.

use crate::json::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Pointers of one pattern (64): more arguments than a tool that a person can judge has.
pub const POINTERS_MAX: usize = 64;
/// Bytes of one pattern's pointers, constants and globs together (16 KiB).
pub const BYTES_MAX: usize = 16 << 10;
/// Bytes of one glob (256); with [`TEXT_BYTES_MAX`] it bounds the work of a match.
pub const GLOB_BYTES_MAX: usize = 256;
/// Bytes of the longest text that a glob is compared with (4,096): paths and addresses.
pub const TEXT_BYTES_MAX: usize = 4_096;

/// What each pointer (RFC 6901) must be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pattern {
    /// The value there is this one.
    pub equal: BTreeMap<String, Json>,
    /// The text there matches: `*` stands for anything but a slash, `**` for anything, `?` for one character but a
    /// slash; a backslash takes the next one's meaning away.
    pub glob: BTreeMap<String, String>,
}

/// Why a pattern can not be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum BadPattern {
    /// It would cover no call.
    #[error(
        "the pattern names no argument: give at least one pointer (\"\" is the arguments as a whole)"
    )]
    Empty,
    /// It is too large to be judged.
    #[error(
        "a pattern has at most {POINTERS_MAX} pointers and {BYTES_MAX} bytes, and each glob 1 to {GLOB_BYTES_MAX}"
    )]
    TooLarge,
    /// A pointer is none.
    #[error("{0:?} is no JSON pointer: it is empty, or starts with a slash (RFC 6901)")]
    NotAPointer(String),
    /// One pointer has both.
    #[error("{0:?} has a constant and a glob: give one of them")]
    Twice(String),
    /// A constant is not JSON.
    #[error("the constant of {0:?} is not JSON: texts stand in double quotes")]
    NotJson(String),
}

fn parse(json: &Json) -> Option<Value> {
    serde_json::from_slice(json.as_bytes()).ok()
}

fn below(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// Every leaf: what holds nothing. An empty object or list is one, for nothing below it could be covered.
fn leaves<'v>(value: &'v Value, pointer: String, out: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(name, one)| leaves(one, below(&pointer, name), out));
        }
        Value::Array(items) if !items.is_empty() => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(nth, one)| leaves(one, below(&pointer, &nth.to_string()), out));
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => out.push((pointer, value)),
    }
}

impl Pattern {
    /// The pattern that covers these arguments and no others.
    #[must_use]
    pub fn exact(arguments: &Json) -> Self {
        let whole = || BTreeMap::from([(String::new(), arguments.clone())]);
        let value = parse(arguments).unwrap_or_default();
        let mut found = Vec::new();
        leaves(&value, String::new(), &mut found);
        let each = || {
            found
                .iter()
                .map(|(pointer, leaf)| (pointer.clone(), Json::from(leaf.to_string())))
                .collect()
        };
        let equal = if found.len() > POINTERS_MAX { whole() } else { each() };
        Self { equal, glob: BTreeMap::new() }
    }

    /// Whether it may be granted.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn validate(&self) -> Result<(), BadPattern> {
        if self.equal.is_empty() && self.glob.is_empty() {
            return Err(BadPattern::Empty);
        }
        let constants =
            self.equal.iter().map(|(pointer, json)| pointer.len() + json.as_bytes().len());
        let globs = self.glob.iter().map(|(pointer, glob)| pointer.len() + glob.len());
        let bytes: usize = constants.chain(globs).sum();
        let sound = |glob: &String| (1..=GLOB_BYTES_MAX).contains(&glob.len());
        let pointers = self.equal.len() + self.glob.len();
        if bytes > BYTES_MAX || pointers > POINTERS_MAX || !self.glob.values().all(sound) {
            return Err(BadPattern::TooLarge);
        }
        let mut all = self.equal.keys().chain(self.glob.keys());
        if let Some(bad) = all.find(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
            return Err(BadPattern::NotAPointer(bad.clone()));
        }
        if let Some(twice) = self.glob.keys().find(|pointer| self.equal.contains_key(*pointer)) {
            return Err(BadPattern::Twice(twice.clone()));
        }
        match self.equal.iter().find(|(_, json)| parse(json).is_none()) {
            Some((pointer, _)) => Err(BadPattern::NotJson(pointer.clone())),
            None => Ok(()),
        }
    }

    /// Whether it covers a call with these arguments: each of its pointers is there and is as it says, and each leaf of
    /// the arguments stands at or below one of them.
    #[must_use]
    pub fn matches(&self, arguments: &Json) -> bool {
        let Some(value) = parse(arguments) else { return false };
        let is_equal = |(pointer, json): (&String, &Json)| {
            value.pointer(pointer).is_some_and(|found| Some(found) == parse(json).as_ref())
        };
        let fits = |(pointer, glob): (&String, &String)| {
            value.pointer(pointer).and_then(Value::as_str).is_some_and(|text| covers(glob, text))
        };
        if !self.equal.iter().all(is_equal) || !self.glob.iter().all(fits) {
            return false;
        }
        let mut found = Vec::new();
        leaves(&value, String::new(), &mut found);
        found.iter().all(|(pointer, _)| self.names(pointer))
    }

    /// Whether a leaf stands at a pointer of it, or below a constant.
    fn names(&self, leaf: &str) -> bool {
        let stands_in = |whole: &String| {
            leaf.strip_prefix(whole.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.glob.contains_key(leaf) || self.equal.keys().any(stands_in)
    }
}

/// Whether a glob lets a text through. One that climbs (`..` between slashes) never is: what it names lies elsewhere.
fn covers(glob: &str, text: &str) -> bool {
    let climbs = text.split(['/', '\\']).any(|part| part == "..");
    text.len() <= TEXT_BYTES_MAX && !climbs && is_match(glob, text)
}

/// One part of a glob.
#[derive(Debug, Clone, Copy)]
enum Part {
    One(char),
    AnyOne,
    Within,
    Across,
}

fn parts(glob: &str) -> Vec<Part> {
    let mut out = Vec::new();
    let mut rest = glob.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => Part::One(rest.next().unwrap_or('\\')),
            '?' => Part::AnyOne,
            '*' if rest.next_if_eq(&'*').is_some() => Part::Across,
            '*' => Part::Within,
            other => Part::One(other),
        });
    }
    out
}

/// Moves all places of the glob that the text so far can have reached, so that no glob takes exponential time.
fn is_match(glob: &str, text: &str) -> bool {
    let parts = parts(glob);
    let mut reached = vec![false; parts.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    skip(&parts, &mut reached);
    for c in text.chars() {
        let mut next = vec![false; reached.len()];
        for (at, part) in parts.iter().enumerate().filter(|(at, _)| reached.get(*at) == Some(&true))
        {
            let to = match part {
                Part::One(one) => (*one == c).then_some(at + 1),
                Part::AnyOne => (c != '/').then_some(at + 1),
                Part::Within => (c != '/').then_some(at),
                Part::Across => Some(at),
            };
            if let Some(place) = to.and_then(|to| next.get_mut(to)) {
                *place = true;
            }
        }
        reached = next;
        skip(&parts, &mut reached);
    }
    reached.last() == Some(&true)
}

/// A star may stand for nothing.
fn skip(parts: &[Part], reached: &mut [bool]) {
    for (at, part) in parts.iter().enumerate() {
        let here = reached.get(at) == Some(&true);
        if here
            && matches!(part, Part::Within | Part::Across)
            && let Some(after) = reached.get_mut(at + 1)
        {
            *after = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_bytes(text.as_bytes())
    }

    fn pattern(equal: &[(&str, &str)], glob: &[(&str, &str)]) -> Pattern {
        let equal = equal.iter().map(|(pointer, text)| ((*pointer).to_owned(), json(text)));
        let glob = glob.iter().map(|(pointer, text)| ((*pointer).to_owned(), (*text).to_owned()));
        Pattern { equal: equal.collect(), glob: glob.collect() }
    }

    #[test]
    fn a_call_is_covered_when_every_leaf_is_and_nothing_of_the_pattern_is_missing() {
        let one = pattern(&[("/mode", r#""w""#)], &[("/path", "notes/*.md")]);
        for (covered, arguments) in [
            (true, r#"{"mode":"w","path":"notes/a.md"}"#),
            (true, r#"{"path":"notes/.md","mode":"w"}"#),
            (false, r#"{"mode":"w"}"#),
            (false, r#"{"path":"notes/a.md"}"#),
            (false, r#"{"mode":"a","path":"notes/a.md"}"#),
            (false, r#"{"mode":"w","path":"notes/a.md","force":true}"#),
            (false, r#"{"mode":"w","path":"notes/a.md","more":{}}"#),
            (false, r#"{"mode":"w","path":"notes/a.md","more":[]}"#),
            (false, r#"{"mode":"w","path":["notes/a.md"]}"#),
            (false, r#"{"mode":"w","path":"notes/b/a.md"}"#),
            (false, r#"{"mode":["w"],"path":"notes/a.md"}"#),
            (false, r#"{"mode":"w","path":7}"#),
            (false, "not json"),
        ] {
            assert_eq!(one.matches(&json(arguments)), covered, "{arguments}");
        }
    }

    #[test]
    fn a_constant_may_be_a_whole_part_and_its_numbers_are_those_that_were_written() {
        let part = pattern(&[("/labels", r#"["a","b"]"#), ("/n", "1")], &[]);
        assert!(part.matches(&json(r#"{"labels":["a","b"],"n":1}"#)));
        for other in [r#"{"labels":["a"],"n":1}"#, r#"{"labels":["a","b","c"],"n":1}"#] {
            assert!(!part.matches(&json(other)), "{other}");
        }
        assert!(!part.matches(&json(r#"{"labels":["a","b"],"n":1.5}"#)));
        // A pointer beside the constant that only begins like it is not covered by it.
        assert!(!part.matches(&json(r#"{"labels":["a","b"],"n":1,"labels2":"x"}"#)));
    }

    #[test]
    fn an_exact_pattern_covers_its_arguments_and_no_others() {
        let many: Vec<String> = (0..100).map(|nth| format!(r#""k{nth}":{nth}"#)).collect();
        let many = format!("{{{}}}", many.join(","));
        let all =
            ["{}", r#"{"a":1}"#, r#"{"a":{"b/c":["x",null]},"d~e":false}"#, &many, r#"{"a":{}}"#];
        for (nth, arguments) in all.iter().enumerate() {
            let exact = Pattern::exact(&json(arguments));
            assert_eq!(exact.validate(), Ok(()), "{arguments}");
            for (other, text) in all.iter().enumerate() {
                assert_eq!(exact.matches(&json(text)), nth == other, "{arguments} and {text}");
            }
        }
        let named = Pattern::exact(&json(all[2]));
        let pointers: Vec<&str> = named.equal.keys().map(String::as_str).collect();
        assert_eq!(pointers, ["/a/b~1c/0", "/a/b~1c/1", "/d~0e"]);
    }

    #[test]
    fn a_glob_stays_in_its_folder_unless_it_says_otherwise() {
        for (covered, glob, text) in [
            (true, "*", "name"),
            (true, "*", ""),
            (false, "*", "a/b"),
            (true, "**", "a/b"),
            (false, "**", "a/../b"),
            (false, "**", ".."),
            (false, "**", "a\\..\\b"),
            (true, "**", "a/..b"),
            (true, "src/**/*.rs", "src/a/b/c.rs"),
            (false, "src/**/*.rs", "src/c.rs"),
            (true, "https://a.example/*", "https://a.example/x"),
            (false, "https://a.example/*", "https://a.example.evil/x"),
            (true, "a?c", "abc"),
            (false, "a?c", "a/c"),
            (true, r"a\*c", "a*c"),
            (false, r"a\*c", "abc"),
            (true, "a*b*c", "aXbYbZc"),
            (false, "a*b*c", "aXbYbZ"),
            (true, "é*", "éa"),
            (false, "abc", "abcd"),
            (false, "abcd", "abc"),
        ] {
            assert_eq!(covers(glob, text), covered, "{glob} and {text}");
        }
    }

    #[test]
    fn a_long_text_is_not_covered_and_a_hostile_glob_ends() {
        assert!(!covers("**", &"x".repeat(TEXT_BYTES_MAX + 1)));
        let hostile = "*a".repeat(GLOB_BYTES_MAX / 2);
        assert!(!covers(&hostile, &format!("{}b", "a".repeat(TEXT_BYTES_MAX - 1))));
    }

    #[test]
    fn a_pattern_that_can_not_be_judged_is_refused() {
        let many: Vec<String> = (0..=POINTERS_MAX).map(|nth| format!("/{nth}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|pointer| (pointer.as_str(), "1")).collect();
        let long = format!("\"{}\"", "x".repeat(BYTES_MAX));
        let wide = "x".repeat(GLOB_BYTES_MAX + 1);
        for (pattern, why) in [
            (Pattern::default(), BadPattern::Empty),
            (pattern(&many, &[]), BadPattern::TooLarge),
            (pattern(&[("/a", &long)], &[]), BadPattern::TooLarge),
            (pattern(&[], &[("/a", &wide)]), BadPattern::TooLarge),
            (pattern(&[], &[("/a", "")]), BadPattern::TooLarge),
            (pattern(&[("a", "1")], &[]), BadPattern::NotAPointer("a".into())),
            (pattern(&[("/a", "1")], &[("/a", "*")]), BadPattern::Twice("/a".into())),
            (pattern(&[("/a", "x")], &[]), BadPattern::NotJson("/a".into())),
        ] {
            assert_eq!(pattern.validate(), Err(why));
        }
    }
}
