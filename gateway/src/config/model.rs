//! A model as a setting names it: its provider and the provider's name for it.

use std::fmt;
use std::str::FromStr;

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The provider's id.
    pub provider: String,
    /// The provider's name for it.
    pub name: String,
}

/// The text does not name a model and its provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule} ({text:?})", rule = Model::RULE, text = .0)]
pub struct NotAModel(String);

impl Model {
    pub(super) const RULE: &str = "give PROVIDER:MODEL, such as openai:gpt-5.4-mini";
}

impl FromStr for Model {
    type Err = NotAModel;

    fn from_str(text: &str) -> Result<Self, NotAModel> {
        let parts = text.split_once([':', '/']);
        let filled =
            parts.filter(|(provider, name)| provider_id(provider) && !name.trim().is_empty());
        let (provider, name) = filled.ok_or_else(|| NotAModel(text.to_owned()))?;
        Ok(Self { provider: provider.to_owned(), name: name.trim().to_owned() })
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.name)
    }
}

fn provider_id(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    !text.is_empty() && text.chars().all(allowed)
}
