//! What a model is asked for: the roles that routes, usage and alarms are told apart by, and the check that a model
//! belongs to the family of the provider it is asked of.
//!
//! A role is a word of the configuration, so any well-formed one is one; [`KNOWN`] are those that this product asks by
//! itself, and what a misspelt one is compared with. The family check is a rule and not a catalogue: what it does not
//! know it lets pass.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Characters of a role, its discipline included.
const CHARS_MAX: usize = 64;

/// The roles that are asked for here, without those of a discipline.
pub const KNOWN: [&str; 12] = [
    "chat",
    "classification",
    "compression",
    "embedding",
    "evaluator",
    "flow_generator",
    "gate_check",
    "generator",
    "phase_brain",
    "planner",
    "summarisation",
    "vision",
];

/// What a model is asked for: `chat`, `phase_brain`, `phase_brain:mechanical`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Role(String);

/// The text names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no role: give a-z, 0-9, _ and -, begun by a letter, at most {CHARS_MAX} characters, with a discipline after \
     one colon where it has one"
)]
pub struct NotARole(String);

impl Default for Role {
    fn default() -> Self {
        Self::chat()
    }
}

impl Role {
    /// The role of whoever says none.
    #[must_use]
    pub fn chat() -> Self {
        Self("chat".to_owned())
    }

    /// That of the vectors of texts.
    #[must_use]
    pub fn embedding() -> Self {
        Self("embedding".to_owned())
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The role without its discipline: what is tried after the role itself. `None` where it has none.
    #[must_use]
    pub fn general(&self) -> Option<Self> {
        self.0.split_once(':').map(|(general, _)| Self(general.to_owned()))
    }

    /// Whether it judges what others made.
    #[must_use]
    pub fn is_evaluator(&self) -> bool {
        self.is("evaluator")
    }

    /// Whether it makes what others judge.
    #[must_use]
    pub fn is_generator(&self) -> bool {
        self.is("generator")
    }

    /// Whether it is this one, with a discipline or without.
    fn is(&self, word: &str) -> bool {
        self.0.split(':').next() == Some(word)
    }

    /// Its end of a variable's name: `phase_brain:mechanical` is `PHASE_BRAIN_MECHANICAL`.
    #[must_use]
    pub fn variable(&self) -> String {
        let upper = |c: char| if matches!(c, ':' | '-') { '_' } else { c.to_ascii_uppercase() };
        self.0.chars().map(upper).collect()
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Role {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Self, NotARole> {
        let allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(allowed)
        };
        let is_role = match text.split_once(':') {
            Some((general, discipline)) => is_word(general) && is_word(discipline),
            None => is_word(text),
        };
        if is_role && text.len() <= CHARS_MAX {
            return Ok(Self(text.to_owned()));
        }
        Err(NotARole(text.chars().take(2 * CHARS_MAX).collect()))
    }
}

impl TryFrom<String> for Role {
    type Error = NotARole;

    fn try_from(text: String) -> Result<Self, NotARole> {
        text.parse()
    }
}

impl From<Role> for String {
    fn from(role: Role) -> Self {
        role.0
    }
}

/// Whether who judges must be served by another provider than who made what is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Independence {
    /// A node whose routes break it does not start, and an evaluator passes over whom it judges.
    Require,
    /// It is shown as a problem, and the answer says so.
    Warn,
    /// Nobody cares.
    Off,
}

impl Independence {
    /// Its word in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }
}

/// A provider that serves the models of one vendor, and a model that is plainly another's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("provider {provider} does not serve {model}: {why}")]
pub struct Mismatch {
    /// The provider.
    pub provider: String,
    /// The model that was asked of it.
    pub model: String,
    /// Whose it is.
    pub why: &'static str,
}

/// Checks a pair by the names alone. What has no plain vendor passes, and a gateway for many vendors is never judged.
///
/// # Errors
///
/// [`Mismatch`] for a model of another vendor than the provider's.
pub fn family_check(provider: &str, model: &str) -> Result<(), Mismatch> {
    const OPENAI: &str = "it is a model of OpenAI";
    const ANTHROPIC: &str = "it is a model of Anthropic";
    const GOOGLE: &str = "it is a model of Google";
    const SLUG: &str =
        "a vendor before a slash is for gateways that serve many; give the model's own name";
    let name = model.to_ascii_lowercase();
    let begins = |vendor: &str| name.starts_with(vendor);
    // The o series has names as short as `o1`, so what follows the number counts.
    let is_o = |series: &str| {
        name.strip_prefix(series).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let is_openai = begins("gpt-") || ["o1", "o3", "o4"].into_iter().any(is_o);
    let why = match provider {
        "openai-codex" if name.contains('/') => Some(SLUG),
        "openai-codex" if begins("claude-") => Some(ANTHROPIC),
        "openai-codex" if begins("gemini") => Some(GOOGLE),
        "anthropic" if is_openai => Some(OPENAI),
        "gemini" if begins("claude-") => Some(ANTHROPIC),
        "gemini" if begins("gpt-") => Some(OPENAI),
        _ => None,
    };
    let (provider, model) = (provider.to_owned(), model.to_owned());
    why.map_or(Ok(()), |why| Err(Mismatch { provider, model, why }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_a_word_with_at_most_one_discipline() {
        for good in KNOWN.into_iter().chain(["phase_brain:mechanical", "my-role", "a"]) {
            let role: Role = good.parse().unwrap();
            assert_eq!(role.to_string(), good);
        }
        let long = "a".repeat(CHARS_MAX + 1);
        for bad in ["", "Chat", "a b", ":x", "a:", "a:b:c", "_a", "1a", "ch\u{e4}t", &long] {
            assert!(bad.parse::<Role>().is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Role>(r#""No Role""#).is_err());
        let role: Role = "phase_brain:fluid-dynamics".parse().unwrap();
        assert_eq!(role.variable(), "PHASE_BRAIN_FLUID_DYNAMICS");
        assert_eq!(role.general().map(String::from).as_deref(), Some("phase_brain"));
        assert_eq!(Role::chat().general(), None);
        let role: Role = "evaluator:safety".parse().unwrap();
        assert!(role.is_evaluator() && !role.is_generator() && !Role::chat().is_evaluator());
    }

    #[test]
    fn a_vendor_serves_its_own_models_and_a_gateway_any() {
        for (provider, model) in [
            ("openai-codex", "openai/gpt-6"),
            ("openai-codex", "claude-opus-4-8"),
            ("openai-codex", "Gemini-3"),
            ("anthropic", "gpt-6-luna"),
            ("anthropic", "o3-mini"),
            ("anthropic", "o1"),
            ("gemini", "claude-haiku"),
            ("gemini", "GPT-6"),
        ] {
            assert!(family_check(provider, model).is_err(), "{provider} {model}");
        }
        for (provider, model) in [
            ("openai-codex", "gpt-6-codex"),
            ("anthropic", "claude-opus-4-8"),
            ("anthropic", "o1x-own"),
            ("anthropic", "opus"),
            ("gemini", "o1"),
            ("openrouter", "anthropic/claude-opus-4-8"),
            ("vllm", "claude-lookalike"),
            ("bedrock", "gpt-oss"),
            ("openai", "claude-behind-a-proxy"),
        ] {
            assert_eq!(family_check(provider, model), Ok(()), "{provider} {model}");
        }
    }
}
