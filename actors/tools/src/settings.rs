//! What an operator rules about tools, over what the tools say of themselves.
//!
//! A rule of one tool wins over that of its origin, and that over the tool's own word. Two things only ever get
//! stricter: gates are added and never taken away, and what is mediated stays so. What a server says of its own tools
//! is no rule at all.

use crate::name::{Identity, Style};
use crate::tool::{Gate, Origin, ReplayClass, Tier};
use events::quantity::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// Characters of an unmediated result that a model is told; the rest is cut, and the cut is said.
pub const OBSERVATION_CHARS: usize = 16_000;

/// The origin of tools that came with the node, where an origin is named.
pub const NATIVE: &str = "native";

/// Everything that is ruled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How tools of servers are called.
    pub style: Style,
    /// Characters of an unmediated result.
    pub observation_chars: usize,
    /// By origin: `native`, or the name of a server.
    pub origins: BTreeMap<String, OfOrigin>,
    /// By tool, as [`Identity`] prints it: `note.append`, `cad/part.open`.
    pub tools: BTreeMap<String, Overlay>,
    /// What is kept first of a provider's cap.
    pub keep: Kept,
    /// Which tools belong to which discipline.
    pub domains: BTreeMap<String, Domain>,
}

/// What is kept when a provider takes fewer tools than there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// Ends of raw names without which an open session is of no use.
    pub session_critical_verbs: Vec<String>,
    /// Tools, as they are named by [`Settings::tools`] or a model, that are kept as a whole or not at all, by group.
    pub companion_groups: BTreeMap<String, Vec<String>>,
    /// Origins that get what the others leave.
    pub niche_servers: BTreeSet<String>,
}

/// A discipline: when it is meant, and what it needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domain {
    /// Kinds of artifacts that a project of this discipline has.
    pub artifact_kinds: BTreeSet<String>,
    /// Words of a description that mean it.
    pub keywords: Vec<String>,
    /// The servers whose tools it needs.
    pub servers: BTreeSet<String>,
}

/// The rules of an origin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfOrigin {
    /// Only tools whose raw name one of these is like; all when empty. `*` stands for any characters.
    pub include: Vec<String>,
    /// And of those none that one of these is like.
    pub exclude: Vec<String>,
    /// For each of its tools.
    pub overlay: Overlay,
}

/// What is ruled of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlay {
    /// Whose consent a call needs.
    pub tier: Option<Tier>,
    /// Its calls go through the broker.
    pub mediated: bool,
    /// What must stand open besides its own gates.
    pub gates: Vec<Gate>,
    /// What a restart may do.
    pub class: Option<ReplayClass>,
    /// How long a call may take.
    pub timeout: Option<Millis>,
    /// The most bytes of a result.
    pub result_max: Option<usize>,
    /// It is kept when a provider takes fewer tools.
    pub pinned: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            style: Style::default(),
            observation_chars: OBSERVATION_CHARS,
            origins: BTreeMap::new(),
            tools: BTreeMap::new(),
            keep: Kept::default(),
            domains: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Whether its origin lets a tool in.
    #[must_use]
    pub fn lets_in(&self, tool: &Identity) -> bool {
        let Some(of) = self.origins.get(tool.origin.word()) else { return true };
        let like = |patterns: &[String]| patterns.iter().any(|one| is_like(&tool.raw, one));
        (of.include.is_empty() || like(&of.include)) && !like(&of.exclude)
    }

    /// What is ruled of a tool, its origin's rules with its own over them.
    #[must_use]
    pub fn of(&self, tool: &Identity) -> Overlay {
        let of = self.origins.get(tool.origin.word()).map(|of| of.overlay.clone());
        let own = self.tools.get(&tool.to_string());
        own.map_or_else(
            || of.clone().unwrap_or_default(),
            |own| own.over(&of.clone().unwrap_or_default()),
        )
    }

    /// The native tools that are ruled about and are none of these. A rule for a tool of a server may wait for it.
    #[must_use]
    pub fn strangers(&self, tools: &[Identity]) -> Vec<&str> {
        let known: BTreeSet<String> = tools
            .iter()
            .filter(|tool| tool.origin == Origin::Native)
            .map(Identity::to_string)
            .collect();
        let ruled = self.tools.keys().map(String::as_str);
        ruled.filter(|name| !name.contains('/') && !known.contains(*name)).collect()
    }
}

impl Overlay {
    /// This one over another.
    fn over(&self, under: &Self) -> Self {
        let mut gates = under.gates.clone();
        gates.extend(self.gates.iter().cloned());
        Self {
            tier: self.tier.or(under.tier),
            mediated: self.mediated || under.mediated,
            gates,
            class: self.class.or(under.class),
            timeout: self.timeout.or(under.timeout),
            result_max: self.result_max.or(under.result_max),
            pinned: self.pinned.or(under.pinned),
        }
    }
}

/// Whether a text is as a pattern says, in which `*` stands for any characters.
#[must_use]
pub fn is_like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        // The first place is the best one: what is left is as long as it can be.
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_stars_and_nothing_else() {
        for (pattern, yes, no) in [
            ("note.append", "note.append", "note.appends"),
            ("note.*", "note.append", "clock.now"),
            ("*", "", "-"),
            ("*_open", "part_open", "part_opened"),
            ("a*b*c", "a-b-b-c", "acb"),
            ("a**c", "abc", "ab"),
            ("ab*b", "abb", "ab"),
        ] {
            assert!(is_like(yes, pattern), "{pattern} {yes}");
            assert!(pattern == "*" || !is_like(no, pattern), "{pattern} {no}");
        }
    }

    #[test]
    fn an_origin_lets_in_what_it_names_and_nothing_that_it_leaves_out() {
        let of = OfOrigin {
            include: vec!["part.*".into()],
            exclude: vec!["*.delete".into()],
            ..OfOrigin::default()
        };
        let settings = Settings { origins: [("cad".to_owned(), of)].into(), ..Settings::default() };
        let lets_in = |server: &str, raw: &str| settings.lets_in(&Identity::server(server, raw));
        assert!(lets_in("cad", "part.open") && lets_in("other", "x"));
        assert!(!lets_in("cad", "part.delete") && !lets_in("cad", "sketch.open"));
    }

    #[test]
    fn a_tools_rule_wins_over_its_origins_and_neither_loosens_a_gate() {
        let under = Overlay {
            tier: Some(Tier::Approval),
            mediated: true,
            gates: vec!["a_write".into()],
            timeout: Some(Millis(1)),
            ..Overlay::default()
        };
        let own = Overlay {
            tier: Some(Tier::Free),
            gates: vec!["b_write".into()],
            class: Some(ReplayClass::ReadOnly),
            ..Overlay::default()
        };
        let settings = Settings {
            origins: [("cad".to_owned(), OfOrigin { overlay: under, ..OfOrigin::default() })]
                .into(),
            tools: [
                ("cad/part.open".to_owned(), own),
                ("typo.tool".to_owned(), Overlay::default()),
            ]
            .into(),
            ..Settings::default()
        };
        let of = settings.of(&Identity::server("cad", "part.open"));
        assert_eq!(
            (of.tier, of.mediated, of.class),
            (Some(Tier::Free), true, Some(ReplayClass::ReadOnly))
        );
        assert_eq!(
            (of.gates, of.timeout),
            (vec!["a_write".to_owned(), "b_write".to_owned()], Some(Millis(1)))
        );
        assert_eq!(settings.strangers(&[Identity::native("note.append")]), ["typo.tool"]);
    }
}
