//! The tokens of a login: what is kept, and what they say of themselves.
//!
//! Claims are read and not verified: they only say when to refresh and which account to name. Whoever takes the token
//! verifies it.

use crate::secret::Secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use events::quantity::{Instant, Millis};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of the longest token that is taken (8 KiB): an access token has two or three thousand.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Where a ChatGPT token says whose it is.
const ACCOUNT_CLAIM: &str = "https://api.openai.com/auth";
/// Characters of the longest account id that is kept; those that were seen have 36.
const ACCOUNT_CHARS_MAX: usize = 128;

/// The tokens of a login. Its debug print shows none of them.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// What a model call carries.
    pub access: Secret,
    /// What a new one is asked for with; most issuers take it once.
    pub refresh: Secret,
    /// The account that a call names.
    pub account: Option<String>,
    /// When the access token ends, where it says so.
    pub expires: Option<Instant>,
}

/// As they are kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept<'a> {
    kind: &'a str,
    access_token: &'a str,
    refresh_token: &'a str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account_id: Option<&'a str>,
    /// Unix time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

/// The word that says of a kept value that it is a login.
const KIND: &str = "login";

impl Tokens {
    /// The tokens with what the access token says of itself; `None` when one of them can not be a token.
    #[must_use]
    pub fn new(access: String, refresh: String, account: Option<String>) -> Option<Self> {
        let is_token = |text: &str| {
            let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
            (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.chars().all(allowed)
        };
        if !is_token(&access) || !is_token(&refresh) {
            return None;
        }
        let claims = claims(&access);
        let account = account.filter(|one| is_account(one)).or_else(|| account_claim(&claims));
        let expires = expiry(&claims);
        Some(Self { access: Secret::new(access), refresh: Secret::new(refresh), account, expires })
    }

    /// The value to keep.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let kept = Kept {
            kind: KIND,
            access_token: self.access.expose(),
            refresh_token: self.refresh.expose(),
            account_id: self.account.as_deref(),
            expires_at_ms: self.expires.map(Instant::millis),
        };
        serde_json::to_vec(&kept).unwrap_or_default()
    }

    /// Reads a kept value; `None` when it is no login.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let kept: Kept<'_> = serde_json::from_slice(bytes).ok()?;
        if kept.kind != KIND {
            return None;
        }
        let owned = |text: &str| text.to_owned();
        let (access, refresh) = (owned(kept.access_token), owned(kept.refresh_token));
        let tokens = Self::new(access, refresh, kept.account_id.map(owned))?;
        let expires = kept.expires_at_ms.map(of_millis).or(tokens.expires);
        Some(Self { expires, ..tokens })
    }

    /// What an answer of the issuer makes of these: what it does not say stays. `None` when it is no answer.
    #[must_use]
    pub(super) fn renewed(&self, answer: &Value, now: Instant) -> Option<Self> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let access = text("access_token")?;
        let refresh = text("refresh_token").unwrap_or_else(|| self.refresh.expose().to_owned());
        Some(Self::new(access, refresh, self.account.clone())?.lasting(answer, now))
    }

    /// What an answer of the issuer to a login says; `None` when it is none.
    #[must_use]
    pub(super) fn given(answer: &Value, now: Instant) -> Option<Self> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let owned = |text: &str| text.to_owned();
        let account = text("id_token").and_then(account_of);
        let tokens =
            Self::new(owned(text("access_token")?), owned(text("refresh_token")?), account)?;
        Some(tokens.lasting(answer, now))
    }

    /// A token that does not say itself when it ends lasts as long as its answer says.
    fn lasting(mut self, answer: &Value, now: Instant) -> Self {
        let seconds = answer.get("expires_in").and_then(Value::as_u64);
        let said = seconds.map(|seconds| now.after(Millis(seconds.saturating_mul(1_000))));
        self.expires = self.expires.or(said);
        self
    }
}

/// The account that a token says it belongs to; none of one that is not of this form.
#[must_use]
pub fn account_of(token: &str) -> Option<String> {
    account_claim(&claims(token))
}

/// What stands in a token's middle part; null where there is none.
fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn account_claim(claims: &Value) -> Option<String> {
    let account = claims.get(ACCOUNT_CLAIM)?.get("chatgpt_account_id")?.as_str()?;
    is_account(account).then(|| account.to_owned())
}

fn is_account(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=ACCOUNT_CHARS_MAX).contains(&text.len()) && text.chars().all(allowed)
}

fn expiry(claims: &Value) -> Option<Instant> {
    let seconds = claims.get("exp")?.as_u64()?;
    Some(of_millis(seconds.checked_mul(1_000)?))
}

fn of_millis(millis: u64) -> Instant {
    Instant(0).after(Millis(millis))
}
