//! Model-facing names: `note.append` is `note_append` to a model, and the tool `part.open` of the server `cad` is
//! `mcp_cad_part_open`, because the narrowest provider takes `^[a-zA-Z0-9_-]{1,64}$`.
//!
//! A tool is one of an origin: its [`Identity`]. Where two would share a name, a hash of the identity tells them apart,
//! so that a model never calls one and means the other. A name that was given once is kept, also while its tool is
//! gone: what stands in a journal means the same after a restart, whatever was added since.

use crate::tool::Origin;
use events::journal;
use events::record::Hash;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Characters of a model-facing name.
pub const NAME_CHARS_MAX: usize = 64;
/// Bytes of the hash in a name.
const HASH_BYTES: usize = 6;
/// Names that are remembered; a node with more has something that makes them up.
pub const NAMES_MAX: usize = 20_000;

/// Which tool it is, whatever a model calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Where it comes from.
    pub origin: Origin,
    /// Its own name there.
    pub raw: String,
}

/// What stands between the parts of a server's tool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// `mcp_cad_part_open`.
    #[default]
    Single,
    /// `mcp__cad__part_open`.
    Double,
}

/// Which name each tool has, of those that are there and those that were.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    style: Style,
    given: BTreeMap<Identity, String>,
}

/// Two tools have one model-facing name, in spite of their hashes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tools {first} and {second} would both be called {safe:?}: rename one")]
pub struct NameTaken {
    /// One tool.
    pub first: Identity,
    /// The other.
    pub second: Identity,
    /// What both would be called.
    pub safe: String,
}

/// A record of names can not be used. Without it names could come to mean other tools, so the node does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotNames {
    /// It is not what was written.
    #[error("it is no record of names: {0}")]
    Form(String),
    /// It has a name that no provider takes.
    #[error("it has {0:?}, which is no name for a model")]
    Unsafe(String),
    /// It has one name, or one tool, twice.
    #[error("it has {0:?} twice")]
    Twice(String),
}

/// As it is recorded.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    style: Style,
    names: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    raw: String,
}

impl Identity {
    /// A tool that came with the node.
    #[must_use]
    pub fn native(raw: &str) -> Self {
        Self { origin: Origin::Native, raw: raw.to_owned() }
    }

    /// A tool of a server.
    #[must_use]
    pub fn server(server: &str, raw: &str) -> Self {
        Self { origin: Origin::Server(server.to_owned()), raw: raw.to_owned() }
    }

    /// SHA-256 of its one spelling: the raw name of a native tool, a JSON list of server and raw name of another. No two
    /// tools share one, whatever stands in their names.
    #[must_use]
    pub fn hash(&self) -> Hash {
        match &self.origin {
            Origin::Native => journal::hash(self.raw.as_bytes()),
            Origin::Server(server) => {
                let spelled = serde_json::json!([server, self.raw]).to_string();
                journal::hash(spelled.as_bytes())
            }
        }
    }

    /// The name before it is made safe.
    fn wanted(&self, style: Style) -> String {
        match (&self.origin, style) {
            (Origin::Native, _) => self.raw.clone(),
            (Origin::Server(server), Style::Single) => format!("mcp_{server}_{}", self.raw),
            (Origin::Server(server), Style::Double) => format!("mcp__{server}__{}", self.raw),
        }
    }
}

impl fmt::Display for Identity {
    /// As configuration names it: `note.append`, or `cad/part.open`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Native => f.write_str(&self.raw),
            Origin::Server(server) => write!(f, "{server}/{}", self.raw),
        }
    }
}

impl Names {
    /// No names yet.
    #[must_use]
    pub fn new(style: Style) -> Self {
        Self { style, given: BTreeMap::new() }
    }

    /// The model-facing name of a tool.
    #[must_use]
    pub fn get(&self, identity: &Identity) -> Option<&str> {
        self.given.get(identity).map(String::as_str)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.given.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// These names with one for each of the tools; their order changes nothing. With another style all names are new.
    ///
    /// # Errors
    ///
    /// [`NameTaken`] for a tool that stands twice, or was made to collide with another's hash.
    pub fn with(&self, style: Style, tools: &[Identity]) -> Result<Self, NameTaken> {
        let mut sorted: Vec<&Identity> = tools.iter().collect();
        sorted.sort();
        if let Some([first, second]) = sorted.array_windows().find(|[one, next]| one == next) {
            let (first, second) = ((*first).clone(), (*second).clone());
            let safe = sanitise(&first.wanted(style));
            return Err(NameTaken { first, second, safe });
        }
        let mut names = if style == self.style { self.clone() } else { Self::new(style) };
        if names.given.len().saturating_add(tools.len()) > NAMES_MAX {
            // What is gone for long is forgotten before the record grows without end.
            names.given.retain(|identity, _| tools.contains(identity));
        }
        let mut taken: BTreeMap<String, Identity> =
            names.given.iter().map(|(tool, name)| (name.clone(), tool.clone())).collect();
        let mut new = sorted;
        new.retain(|tool| !names.given.contains_key(*tool));
        let mut shared: BTreeMap<String, usize> = BTreeMap::new();
        for tool in &new {
            *shared.entry(sanitise(&tool.wanted(style))).or_default() += 1;
        }
        for tool in new {
            let wanted = tool.wanted(style);
            let plain = sanitise(&wanted);
            let is_shared = shared.get(&plain).is_some_and(|count| *count > 1);
            // A name that is safe as it is keeps itself; the ones that were bent to it step aside.
            let bent = is_shared && plain != wanted;
            let is_cut = wanted.chars().count() > NAME_CHARS_MAX;
            let safe = if is_cut || bent || taken.contains_key(&plain) {
                hashed(&plain, tool)
            } else {
                plain
            };
            if let Some(first) = taken.insert(safe.clone(), tool.clone()) {
                return Err(NameTaken { first, second: tool.clone(), safe });
            }
            names.given.insert(tool.clone(), safe);
        }
        Ok(names)
    }

    /// The record: JSON, a tool a line.
    #[must_use]
    pub fn written(&self) -> String {
        let names = self.given.iter().map(|(tool, name)| {
            let server = match &tool.origin {
                Origin::Native => None,
                Origin::Server(server) => Some(server.clone()),
            };
            Line { name: name.clone(), server, raw: tool.raw.clone() }
        });
        let written = Written { style: self.style, names: names.collect() };
        // Text only: serialising it can not fail.
        serde_json::to_string_pretty(&written).unwrap_or_default()
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`NotNames`]; take the file away only if no run may go on that knows its names.
    pub fn read(text: &str) -> Result<Self, NotNames> {
        let written: Written =
            serde_json::from_str(text).map_err(|error| NotNames::Form(error.to_string()))?;
        let mut names = Self::new(written.style);
        let mut seen = BTreeMap::new();
        for Line { name, server, raw } in written.names {
            if sanitise(&name) != name {
                return Err(NotNames::Unsafe(name));
            }
            let origin = server.map_or(Origin::Native, Origin::Server);
            let tool = Identity { origin, raw };
            if let Some(earlier) = names.given.insert(tool, name.clone()) {
                return Err(NotNames::Twice(earlier));
            }
            if seen.insert(name.clone(), ()).is_some() {
                return Err(NotNames::Twice(name));
            }
        }
        Ok(names)
    }
}

fn sanitise(raw: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = raw.chars().take(NAME_CHARS_MAX).map(safe).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// The plain name, shortened, and the start of the identity's hash.
fn hashed(plain: &str, tool: &Identity) -> String {
    let mut name: String = plain.chars().take(NAME_CHARS_MAX - 1 - 2 * HASH_BYTES).collect();
    name.push('_');
    for byte in tool.hash().0.iter().take(HASH_BYTES) {
        // Writing to a string can not fail.
        let _infallible = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn natives(raw: &[&str]) -> Vec<Identity> {
        raw.iter().map(|raw| Identity::native(raw)).collect()
    }

    fn given(tools: &[Identity]) -> Names {
        Names::default().with(Style::Single, tools).unwrap()
    }

    #[track_caller]
    fn check(tools: &[Identity], then: &[&str]) {
        let names = given(tools);
        let found: Vec<&str> = tools.iter().map(|tool| names.get(tool).unwrap()).collect();
        assert_eq!(found, then);
        let reversed: Vec<Identity> = tools.iter().rev().cloned().collect();
        assert_eq!(given(&reversed), names, "the order changes nothing");
        for name in names.given.values() {
            assert!((1..=64).contains(&name.len()), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
        }
    }

    #[test]
    fn what_is_not_safe_becomes_an_underscore() {
        check(&natives(&["note.append", "clock.now"]), &["note_append", "clock_now"]);
        check(&natives(&["a-b_C9"]), &["a-b_C9"]);
        check(&natives(&["größe"]), &["gr__e"]);
        check(&natives(&[""]), &["_"]);
    }

    #[test]
    fn a_collision_is_resolved_by_a_hash_and_the_safe_one_keeps_its_name() {
        check(&natives(&["a.b", "a_b"]), &["a_b_2e7336dc8eba", "a_b"]);
        check(&natives(&["a.b", "a/b"]), &["a_b_2e7336dc8eba", "a_b_c14cddc033f6"]);
    }

    #[test]
    fn a_servers_tools_carry_its_name_and_no_split_of_it_means_another() {
        let (one, other) = (Identity::server("a_b", "c"), Identity::server("a", "b_c"));
        check(&[Identity::server("cad", "part.open")], &["mcp_cad_part_open"]);
        assert_ne!(one.hash(), other.hash());
        let names = given(&[one.clone(), other.clone()]);
        let (one, other) = (names.get(&one).unwrap(), names.get(&other).unwrap());
        assert_ne!(one, other);
        let double = Names::default().with(Style::Double, &[Identity::server("a", "b.c")]).unwrap();
        assert_eq!(double.get(&Identity::server("a", "b.c")), Some("mcp__a__b_c"));
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (one, other) = ("x".repeat(70), format!("{}y", "x".repeat(69)));
        let names = given(&natives(&[&one, &other]));
        let of = |raw: &str| names.get(&Identity::native(raw)).unwrap();
        assert_ne!(of(&one), of(&other));
        assert!(names.given.values().all(|name| name.len() == 64));
        check(&natives(&[&"x".repeat(64)]), &[&"x".repeat(64)]);
    }

    #[test]
    fn a_name_that_was_given_is_kept_whatever_is_added_and_nobody_gets_that_of_a_tool_that_is_gone()
    {
        let (dotted, plain) = (Identity::server("s", "a.b"), Identity::server("s", "a_b"));
        let before = given(std::slice::from_ref(&dotted));
        assert_eq!(before.get(&dotted), Some("mcp_s_a_b"));
        // Without the record the two would be named the other way round.
        let both = [dotted.clone(), plain.clone()];
        assert_eq!(given(&both).get(&plain), Some("mcp_s_a_b"));
        let restarted = Names::read(&before.written()).unwrap();
        let after = restarted.with(Style::Single, &both).unwrap();
        assert_eq!(after.get(&dotted), Some("mcp_s_a_b"));
        assert!(after.get(&plain).unwrap().starts_with("mcp_s_a_b_"), "{after:?}");
        let gone = restarted.with(Style::Single, std::slice::from_ref(&plain)).unwrap();
        assert!(gone.get(&plain).unwrap().starts_with("mcp_s_a_b_"), "{gone:?}");
        assert_eq!(Names::read(&after.written()).unwrap(), after);
        let other = after.with(Style::Double, &both).unwrap();
        assert_eq!(other.get(&plain), Some("mcp__s__a_b"));
    }

    #[test]
    fn one_tool_twice_is_refused_and_a_forged_hash_steps_aside() {
        let error = Names::default().with(Style::Single, &natives(&["a", "a"])).unwrap_err();
        assert_eq!(error.to_string(), r#"tools a and a would both be called "a": rename one"#);
        let forged =
            given(&natives(&["a.b", "a_b"])).get(&Identity::native("a.b")).unwrap().to_owned();
        let tools = natives(&["a.b", "a_b", &forged]);
        let names = Names::default().with(Style::Single, &tools);
        let distinct = |names: &Names| {
            let mut all: Vec<&String> = names.given.values().collect();
            all.sort();
            all.windows(2).all(|two| two[0] != two[1])
        };
        assert!(names.map_or(true, |names| distinct(&names)));
    }

    #[test]
    fn a_record_that_could_mislead_is_refused() {
        for (text, about) in [
            ("", "no record"),
            (r#"{"style":"single","names":[{"name":"a b","raw":"a"}]}"#, "no name for a model"),
            (
                r#"{"style":"single","names":[{"name":"a","raw":"a"},{"name":"a","raw":"b"}]}"#,
                "twice",
            ),
            (
                r#"{"style":"single","names":[{"name":"a","raw":"a"},{"name":"b","raw":"a"}]}"#,
                "twice",
            ),
            (r#"{"style":"single","names":[],"more":1}"#, "unknown field"),
        ] {
            let error = Names::read(text).unwrap_err().to_string();
            assert!(error.contains(about), "{error}");
        }
    }
}
