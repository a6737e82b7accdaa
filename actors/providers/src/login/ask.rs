//! What is asked of an issuer, and what its answers mean.

use super::{CLIENT, Issuer, Pkce, Tokens};
use crate::class::envelope::Envelope;
use crate::class::{Failure, Reply, hint, server_now};
use crate::secret::{Secret, redact};
use crate::transport::{Client, Said, Unanswered};
use events::credential::{Fault, LoginLost};
use events::leave::{Leave, NotSent};
use events::quantity::{Instant, Millis};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use url::Url;
use url::form_urlencoded::Serializer;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
/// Bytes of an issuer's words that are kept.
const WORDS_BYTES_MAX: usize = 256;
/// How often a device asks at most and at least, whatever the issuer says (1 s, 60 s).
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How often a device asks when the issuer does not say (5 s).
const INTERVAL: u64 = 5;

/// Why there is no new token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRefreshed {
    /// Nothing left, so the refresh token was not used.
    NotSent(NotSent),
    /// Somebody must log in again.
    NeedsLogin(LoginLost),
    /// It may be tried again; the refresh token may or may not have been used.
    Again {
        /// Why.
        why: Fault,
        /// When the issuer said to come back.
        hint: Option<Millis>,
        /// Its words or ours, without tokens.
        words: String,
    },
}

/// A login did not come to an end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Try again; look at the address of the issuer.
    #[error("the issuer of the login does not answer: {0}")]
    Unreachable(String),
    /// The issuer says no.
    #[error("the issuer refused the login with HTTP {status}: {words}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its words, without tokens.
        words: String,
    },
    /// It does not let devices log in, or the account forbids it.
    #[error(
        "the issuer knows no login by code: log in with --browser, or allow it in the security settings of the account"
    )]
    NoDevices,
    /// Look at the address of the issuer.
    #[error("the issuer's answer is none of a login: look at the address of the issuer")]
    Odd,
}

impl Rejected {
    /// Whether the same may be asked again in a moment.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => matches!(*status, 429 | 500..=599),
            Self::NoDevices | Self::Odd => false,
        }
    }
}

/// A device that waits for a person to enter its code.
#[derive(Debug, Clone)]
pub struct Device {
    /// What the person enters. It is of use for a quarter of an hour.
    pub user_code: String,
    /// How long to wait between two looks.
    pub interval: Duration,
    id: Secret,
}

/// What a look at a device's login says.
#[derive(Debug, Clone)]
pub enum Polled {
    /// Nobody has entered the code yet.
    Pending,
    /// Somebody has.
    Entered {
        /// What is exchanged for tokens.
        code: Secret,
        /// The issuer made the proof itself.
        pkce: Pkce,
    },
}

impl Issuer {
    /// Where the codes of devices are sent back to, as the issuer knows it. Nobody ever goes there.
    #[must_use]
    pub fn device_callback(&self) -> String {
        self.path("deviceauth/callback").to_string()
    }
}

impl Client {
    /// Asks for a new token, if it may still `leave` when the request is about to be written.
    ///
    /// # Errors
    ///
    /// [`NotRefreshed`], which says whether trying again can help.
    pub async fn refresh(
        &self,
        issuer: &Issuer,
        tokens: &Tokens,
        now: Instant,
        leave: &Leave,
    ) -> Result<Tokens, NotRefreshed> {
        let body = json!({
            "client_id": CLIENT,
            "grant_type": "refresh_token",
            "refresh_token": tokens.refresh.expose(),
        });
        let url = issuer.path("oauth/token");
        let again = |why, words: &str| NotRefreshed::Again {
            why,
            hint: None,
            words: redact(words, Some(&tokens.refresh), WORDS_BYTES_MAX),
        };
        match self.post(url, JSON, body.to_string().into_bytes(), leave).await {
            Ok(said) if (200..300).contains(&said.status) => {
                let answer: Value = serde_json::from_slice(&said.body).unwrap_or_default();
                let odd = || again(Fault::Odd, "the answer holds no access token");
                tokens.renewed(&answer, now).ok_or_else(odd)
            }
            Ok(said) => Err(refused(&said, &tokens.refresh)),
            Err(Unanswered::NotSent(why)) => Err(NotRefreshed::NotSent(why)),
            Err(Unanswered::Failed(failure)) => Err(again(Fault::Unreachable, &failure.message)),
        }
    }

    /// Asks for a code that a person enters elsewhere.
    ///
    /// # Errors
    ///
    /// [`Rejected`].
    pub async fn device(&self, issuer: &Issuer) -> Result<Device, Rejected> {
        let body = json!({ "client_id": CLIENT }).to_string();
        let said = self.told(issuer.path("api/accounts/deviceauth/usercode"), JSON, body).await?;
        if said.status == 404 {
            return Err(Rejected::NoDevices);
        }
        let answer = answered(&said, &[])?;
        let text =
            |names: &[&str]| names.iter().find_map(|name| answer.get(name)).and_then(Value::as_str);
        let id = text(&["device_auth_id"]).ok_or(Rejected::Odd)?;
        let user_code = text(&["user_code", "usercode"]).filter(|code| is_plain(code));
        let user_code = user_code.ok_or(Rejected::Odd)?.to_owned();
        let said = answer.get("interval");
        let said = said.and_then(|one| one.as_u64().or_else(|| one.as_str()?.trim().parse().ok()));
        let interval = Duration::from_secs(said.unwrap_or(INTERVAL));
        let interval = interval.clamp(INTERVALS.0, INTERVALS.1);
        Ok(Device { user_code, interval, id: Secret::new(id.to_owned()) })
    }

    /// Looks whether somebody has entered a device's code.
    ///
    /// # Errors
    ///
    /// [`Rejected`].
    pub async fn poll(&self, issuer: &Issuer, device: &Device) -> Result<Polled, Rejected> {
        let body = json!({ "device_auth_id": device.id.expose(), "user_code": device.user_code });
        let url = issuer.path("api/accounts/deviceauth/token");
        let said = self.told(url, JSON, body.to_string()).await?;
        if matches!(said.status, 403 | 404) {
            return Ok(Polled::Pending);
        }
        let code = Secret::new(device.user_code.clone());
        let answer = answered(&said, &[&device.id, &code])?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let found = text("authorization_code").zip(text("code_verifier"));
        let (code, verifier) = found.ok_or(Rejected::Odd)?;
        Ok(Polled::Entered { code: Secret::new(code), pkce: Pkce::with(verifier) })
    }

    /// Exchanges a code for tokens. `redirect` is where the code was sent to.
    ///
    /// # Errors
    ///
    /// [`Rejected`].
    pub async fn redeem(
        &self,
        issuer: &Issuer,
        (code, pkce): (&Secret, &Pkce),
        redirect: &str,
        now: Instant,
    ) -> Result<Tokens, Rejected> {
        let body = Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code.expose())
            .append_pair("redirect_uri", redirect)
            .append_pair("client_id", CLIENT)
            .append_pair("code_verifier", pkce.verifier().expose())
            .finish();
        let said = self.told(issuer.path("oauth/token"), FORM, body).await?;
        let answer = answered(&said, &[code, pkce.verifier()])?;
        Tokens::given(&answer, now).ok_or(Rejected::Odd)
    }

    async fn told(&self, url: Url, kind: &'static str, body: String) -> Result<Said, Rejected> {
        let said = self.post(url, kind, body.into_bytes(), &Leave::free()).await;
        said.map_err(|unanswered| match unanswered {
            Unanswered::Failed(Failure { message, .. }) => Rejected::Unreachable(message),
            Unanswered::NotSent(why) => Rejected::Unreachable(why.to_string()),
        })
    }
}

/// The JSON of a success; the words of a refusal are without what was `sent` in secret.
fn answered(said: &Said, sent: &[&Secret]) -> Result<Value, Rejected> {
    if (200..300).contains(&said.status) {
        return serde_json::from_slice(&said.body).map_err(|_| Rejected::Odd);
    }
    let words = Envelope::read(&said.body);
    let words = if words.message.is_empty() { words.code } else { words.message };
    let words = redact(&words, sent.iter().copied(), WORDS_BYTES_MAX);
    Err(Rejected::Refused { status: said.status, words })
}

/// What a person reads and types.
fn is_plain(code: &str) -> bool {
    (1..=32).contains(&code.len()) && code.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// What a refusal of a refresh means: the issuer's word for it first, then its status.
fn refused(said: &Said, token: &Secret) -> NotRefreshed {
    let envelope = Envelope::read(&said.body);
    // `{"error": "invalid_grant", "error_description": "…"}` has its word where others have words.
    let word = [&envelope.code, &envelope.kind, &envelope.message];
    let word = word.into_iter().find(|word| !word.is_empty()).map_or("", String::as_str);
    let lost = match word {
        "refresh_token_expired" => Some(LoginLost::Expired),
        "refresh_token_reused" => Some(LoginLost::Reused),
        "refresh_token_invalidated" | "token_invalidated" | "token_revoked" => {
            Some(LoginLost::Revoked)
        }
        "invalid_grant" => Some(LoginLost::Refused),
        _ if said.status == 401 => Some(LoginLost::Refused),
        _ => None,
    };
    if let Some(lost) = lost {
        return NotRefreshed::NeedsLogin(lost);
    }
    let why = match said.status {
        429 => Fault::Limited,
        500.. => Fault::Failed,
        _ => Fault::Refused,
    };
    let (status, headers) = (said.status, &said.headers);
    let reply = Reply { status, headers, body: &said.body, now: server_now(headers) };
    let words = format!("HTTP {status} {word}");
    let words = redact(&words, Some(token), WORDS_BYTES_MAX);
    NotRefreshed::Again { why, hint: hint::hint(&reply, &envelope), words }
}

impl fmt::Display for NotRefreshed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) => why.fmt(f),
            Self::NeedsLogin(why) => f.write_str(why.name()),
            Self::Again { why, words, .. } => write!(f, "{}: {words}", why.name()),
        }
    }
}
