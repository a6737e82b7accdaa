//! What a gate is made of: who says whether it is open, whether it can be waived, and what a node's configuration and
//! environment say of it.

use crate::id::RunId;
use crate::quantity::Instant;
use crate::record::Actor;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Bytes of the longest name of a gate.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of the longest text of evidence (4 KiB); what is longer stands where its reference says.
pub const EVIDENCE_BYTES_MAX: usize = 4_096;
/// Bytes of the longest reference of evidence (512).
pub const REFERENCE_BYTES_MAX: usize = 512;
/// Bytes of the longest reason of a waiver (1,000).
pub const REASON_BYTES_MAX: usize = 1_000;

/// What the name of a gate of a surface ends with: what writes to it can be closed by a node's environment.
const WRITE: &str = "_write";

/// Who says whether a gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Evaluator {
    /// It is, unless a node's environment closes it.
    Open,
    /// It is not.
    Closed,
    /// The newest evidence that somebody gave.
    Evidence,
}

impl Evaluator {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Closed, Self::Evidence];

    /// Its word in configuration and on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Evidence => "evidence",
        }
    }
}

/// Whether a person may let a run through a closed gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Hardness {
    /// Nobody may.
    Hard,
    /// With a reason.
    Soft,
}

impl Hardness {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Hard, Self::Soft];

    /// Its word in configuration and on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
        }
    }
}

/// How a gate works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Declaration {
    /// Who says whether it is open.
    pub evaluator: Evaluator,
    /// Whether it can be waived.
    pub hardness: Hardness,
}

impl Declaration {
    /// A gate that nobody declared: those of a surface are open, and can not be waived when a node closes them; of any
    /// other nobody says whether it is open.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        stem(name).map(|_| Self { evaluator: Evaluator::Open, hardness: Hardness::Hard })
    }
}

/// Whether a node lets anything be written to what a gate stands before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Surface {
    /// It does, as far as the gate does.
    Writable,
    /// It does not: its environment says so.
    ReadOnly,
}

/// What a node says of one gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// What its configuration declares; none where it does not name the gate.
    pub declared: Option<Declaration>,
    /// What its environment says.
    pub surface: Surface,
}

impl Said {
    /// Nothing.
    pub const NOTHING: Self = Self { declared: None, surface: Surface::Writable };
}

/// What a node says of all gates: its configuration declares some, its environment closes some.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surfaces {
    /// The gates that its environment closes.
    pub read_only: BTreeSet<String>,
    /// Those that its configuration declares.
    pub declared: BTreeMap<String, Declaration>,
}

impl Surfaces {
    /// What it says of one.
    #[must_use]
    pub fn said(&self, name: &str) -> Said {
        let closed = self.read_only.contains(name);
        let surface = if closed { Surface::ReadOnly } else { Surface::Writable };
        Said { declared: self.declared.get(name).copied(), surface }
    }
}

/// What comes before the `_write` of a surface's gate.
fn stem(name: &str) -> Option<&str> {
    name.strip_suffix(WRITE).filter(|stem| !stem.is_empty())
}

/// The variable that closes a gate with `0`; none for one that is no surface's.
#[must_use]
pub fn variable(gate: &str) -> Option<String> {
    let stem = stem(gate).filter(|_| is_name(gate))?;
    Some(format!("PITON_CHAT_{}_WRITES", stem.to_ascii_uppercase().replace('-', "_")))
}

/// The gate that a variable closes; none for a variable that closes none.
#[must_use]
pub fn of_variable(variable: &str) -> Option<String> {
    let stem = variable.strip_prefix("PITON_CHAT_")?.strip_suffix("_WRITES")?;
    let gate = format!("{}{WRITE}", stem.to_ascii_lowercase());
    (stem == stem.to_ascii_uppercase() && is_name(&gate) && gate != WRITE).then_some(gate)
}

/// Whether a text can name a gate: 1 to 64 characters of `a-z 0-9 _ -`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// What evidence says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// The gate is open.
    Passed,
    /// It is not.
    Failed,
}

impl Verdict {
    /// Its word on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
        }
    }
}

/// What a verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// In words, for people.
    pub text: String,
    /// Where the whole of it is: an address, a commit, the number of a build.
    pub reference: Option<String>,
}

impl Evidence {
    /// Whether it may be kept.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let short = |text: &String| (1..=REFERENCE_BYTES_MAX).contains(&text.len());
        (1..=EVIDENCE_BYTES_MAX).contains(&self.text.len())
            && self.reference.as_ref().is_none_or(short)
    }
}

/// A verdict, with who gave it and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// What it says.
    pub verdict: Verdict,
    /// What it rests on.
    pub evidence: Evidence,
    /// Who gave it.
    pub by: Actor,
    /// When.
    pub at: Instant,
}

/// One run was let through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    /// Which run.
    pub run: RunId,
    /// Why.
    pub reason: String,
    /// Who let it through.
    pub by: Actor,
    /// When.
    pub at: Instant,
}

/// Whether a call may pass a gate now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Open {
        /// The gate's version, for the intent; 0 for one of which nothing was ever said.
        version: u32,
    },
    /// It may not.
    Closed {
        /// Why not.
        why: Why,
    },
    /// Nobody says whether it is open, so what it stands before never runs.
    NoEvaluator,
}

/// Why a gate is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The node's environment makes what it stands before read-only: the variable that does.
    ReadOnly(String),
    /// It is declared so.
    Declared,
    /// Nobody gave evidence yet.
    NoEvidence,
    /// The newest evidence says so.
    Failed(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly(variable) => write!(f, "this node makes it read-only: {variable}=0"),
            Self::Declared => f.write_str("the configuration declares it closed"),
            Self::NoEvidence => f.write_str("there is no evidence yet that it may be passed"),
            Self::Failed(text) => write!(f, "its evidence says no: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_closes_the_gate_of_its_stem_and_no_other_gate_has_one() {
        for (gate, closes) in [
            ("artifact_write", "PITON_CHAT_ARTIFACT_WRITES"),
            ("twin_write", "PITON_CHAT_TWIN_WRITES"),
            ("big_twin_write", "PITON_CHAT_BIG_TWIN_WRITES"),
        ] {
            assert_eq!(variable(gate).as_deref(), Some(closes));
            assert_eq!(of_variable(closes).as_deref(), Some(gate));
        }
        for none in ["deploy_ok", "_write", "write", "Twin_write", ""] {
            assert_eq!(variable(none), None, "{none}");
        }
        for none in ["PITON_CHAT__WRITES", "PITON_CHAT_WRITES", "PITON_CHAT_twin_WRITES", "PITON_X"]
        {
            assert_eq!(of_variable(none), None, "{none}");
        }
    }

    #[test]
    fn evidence_has_words_and_ends_somewhere() {
        let with = |text: &str, reference: Option<String>| {
            Evidence { text: text.into(), reference }.is_sound()
        };
        assert!(with("42 tests passed", None));
        assert!(with(&"x".repeat(4_096), Some("x".repeat(512))));
        assert!(!with("", None) && !with(&"x".repeat(4_097), None));
        assert!(!with("x", Some(String::new())) && !with("x", Some("x".repeat(513))));
    }
}
