//! The file in which Codex keeps the login of a ChatGPT account.

use super::Tokens;
use serde_json::Value;

/// The text is no login of Codex's. No message holds anything of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotALogin {
    /// Look at the file.
    #[error("it is no JSON (line {line}, column {column})")]
    NotJson {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
    /// Log in with Codex, or with `piton auth login`.
    #[error(
        "it holds no login of a ChatGPT account: Codex may keep it in the system's keyring, or use an API key; run `codex login`, or `piton auth login openai-codex`"
    )]
    NoTokens,
}

impl Tokens {
    /// Reads the text of the file.
    ///
    /// # Errors
    ///
    /// [`NotALogin`].
    pub fn of_codex(text: &str) -> Result<Self, NotALogin> {
        let root: Value = serde_json::from_str(text).map_err(|error| {
            // The library's own words may quote a token: only the place is told.
            NotALogin::NotJson { line: error.line(), column: error.column() }
        })?;
        let tokens = root.get("tokens").unwrap_or(&Value::Null);
        let text = |name: &str| tokens.get(name).and_then(Value::as_str).map(str::to_owned);
        let id_account = || text("id_token").as_deref().and_then(super::account_of);
        let account = text("account_id").or_else(id_account);
        let both = text("access_token").zip(text("refresh_token"));
        both.and_then(|(access, refresh)| Self::new(access, refresh, account))
            .ok_or(NotALogin::NoTokens)
    }
}
