//! What the process was told through its environment, as a value.
//!
//! It is read once, at the start, so that nothing below can be steered by a variable nobody lists. Everything that is
//! not asked for by name stays unseen, and nothing of it is printed.

use super::secret::Secret;
use std::collections::BTreeMap;
use std::fmt;

/// What the variables of ours start with.
pub(crate) const PREFIX: &str = "PITON_";

/// Variables and their values. An empty variable counts as none, because compose files and CI set many empty ones.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// An environment of exactly these variables.
    pub fn of<N: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.filter(|(_, value)| !value.is_empty()).collect() }
    }

    /// The value of one variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The value of one variable that must not be printed.
    #[must_use]
    pub fn secret(&self, name: &str) -> Option<Secret> {
        self.get(name).map(Secret::new)
    }

    /// The names of the variables that are meant for this program.
    pub fn ours(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ours()).finish()
    }
}

/// The variable that sets a key: `limits.max_body_bytes` is `PITON_LIMITS_MAX_BODY_BYTES`, and
/// `providers.openai.base_url` is `PITON_OPENAI_BASE_URL`.
#[must_use]
pub fn variable(key: &str) -> String {
    let key = key.strip_prefix("providers.").unwrap_or(key);
    let upper = key.chars().filter(|c| *c != '"').map(|c| match c {
        '.' | '-' => '_',
        other => other.to_ascii_uppercase(),
    });
    PREFIX.chars().chain(upper).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_variable() {
        assert_eq!(variable("bind"), "PITON_BIND");
        assert_eq!(variable("limits.max_body_bytes"), "PITON_LIMITS_MAX_BODY_BYTES");
        assert_eq!(variable("providers.openai.base_url"), "PITON_OPENAI_BASE_URL");
        assert_eq!(variable("providers.kimi-cn.base_url"), "PITON_KIMI_CN_BASE_URL");
        assert_eq!(variable("providers.\"llama.cpp\".base_url"), "PITON_LLAMA_CPP_BASE_URL");
    }

    #[test]
    fn an_empty_variable_is_none_and_no_value_is_printed() {
        let pairs = [("PITON_BIND", ""), ("PITON_ADMIN_KEY", "planted"), ("HOME", "/root")];
        let environment = Environment::of(pairs);
        assert_eq!(environment.get("PITON_BIND"), None);
        assert_eq!(environment.get("HOME"), Some("/root"));
        assert_eq!(format!("{environment:?}"), r#"{"PITON_ADMIN_KEY"}"#);
    }
}
