//! What a profile's secret is: what the vault holds of it, and how it is read.

use super::{Credentials, Used};
use events::credential::{Kind, Profile, ProviderId};
use events::quantity::{Instant, Millis};
use providers::Secret;
use providers::login::{NotALogin, Tokens};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use store::private::{self, PrivateError, Readers};
use store::vault::{Name, NotAName, Plain, Revision, VaultError};

/// The shortest time that a token must last yet to be used (30 s): a call that has begun is not asked for it again.
pub(super) const LASTS_MIN: Millis = Millis(30_000);

/// What a credential's value in the vault holds, but for a login, which has a form of its own.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Stored {
    ApiKey { key: String },
    Follow { path: PathBuf },
}

/// The value to keep for an API key.
#[must_use]
pub fn stored(key: &str) -> Plain {
    let value = Stored::ApiKey { key: key.to_owned() };
    Plain::new(serde_json::to_vec(&value).unwrap_or_default())
}

/// Whether a secret is a token that can be had anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewable {
    /// It is not: a key.
    No,
    /// It is refreshed by the owner of its stream.
    Refreshed,
    /// Another program refreshes it.
    Followed,
}

/// A secret that a person brings: what is kept of it and what the stream says of it.
#[derive(Debug)]
pub struct Held {
    /// What it is.
    pub kind: Kind,
    /// The value to keep.
    pub value: Plain,
    /// When it ends, where that is known.
    pub expires: Option<Instant>,
    /// What the stream calls it, where that is not the vault's revision.
    pub mark: Option<u64>,
}

/// A secret can not be held.
#[derive(Debug, thiserror::Error)]
pub enum NotHeld {
    /// Give a path that means the same wherever the node was started.
    #[error("{0:?} is no path from the root: the node reads it wherever it was started")]
    Relative(PathBuf),
    /// Look at the file.
    #[error("no login can be followed at {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: NotFollowed,
    },
}

/// A file of another program gives no token.
#[derive(Debug, thiserror::Error)]
pub enum NotFollowed {
    /// Log in there, or name the right file.
    #[error("there is no such file")]
    Missing,
    /// Mend the file, as its text says.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// Log in there.
    #[error(transparent)]
    Login(#[from] NotALogin),
}

impl Held {
    /// An API key.
    #[must_use]
    pub fn key(key: &str) -> Self {
        Self { kind: Kind::ApiKey, value: stored(key), expires: None, mark: None }
    }

    /// The tokens of a login.
    #[must_use]
    pub fn login(tokens: &Tokens) -> Self {
        let value = Plain::new(tokens.write());
        Self { kind: Kind::Login, value, expires: tokens.expires, mark: None }
    }

    /// The login in the file of another program.
    ///
    /// # Errors
    ///
    /// [`NotHeld`] when there is none now.
    pub fn following(path: &Path) -> Result<Self, NotHeld> {
        if !path.is_absolute() {
            return Err(NotHeld::Relative(path.to_owned()));
        }
        let failed = |source| NotHeld::File { path: path.to_owned(), source };
        let tokens = followed(path).map_err(failed)?;
        let value = Stored::Follow { path: path.to_owned() };
        let value = Plain::new(serde_json::to_vec(&value).unwrap_or_default());
        let (expires, mark) = (tokens.expires, Some(tokens.access.mark()));
        Ok(Self { kind: Kind::Followed, value, expires, mark })
    }

    /// What stands in the vault. A file that gives no token now is followed all the same; `None` for what is no
    /// credential of this build, and then a key is what it is taken for.
    #[must_use]
    pub fn kept(value: &Plain) -> Option<Self> {
        if let Some(tokens) = Tokens::read(value.expose()) {
            return Some(Self::login(&tokens));
        }
        match serde_json::from_slice(value.expose()).ok()? {
            Stored::ApiKey { key } => Some(Self::key(&key)),
            Stored::Follow { path } => {
                let now = followed(&path).ok();
                let mark = now.as_ref().map_or(0, |tokens| tokens.access.mark());
                let expires = now.and_then(|tokens| tokens.expires);
                let (kind, value, mark) = (Kind::Followed, value.clone(), Some(mark));
                Some(Self { kind, value, expires, mark })
            }
        }
    }

    /// Which secret it is, once the vault has it at a revision.
    #[must_use]
    pub fn revision(&self, kept: Revision) -> u64 {
        self.mark.unwrap_or(kept.0)
    }
}

/// The login in a file that only its owner may read.
fn followed(path: &Path) -> Result<Tokens, NotFollowed> {
    let text = private::read(path, Readers::Owner)?.ok_or(NotFollowed::Missing)?;
    Ok(Tokens::of_codex(&text)?)
}

/// A secret as it was read.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Which one.
    pub(super) revision: u64,
    pub(super) key: Secret,
    account: Option<String>,
    pub(super) expires: Option<Instant>,
    pub(super) renewable: Renewable,
}

impl Found {
    pub(super) fn used(self, provider: ProviderId, profile: String, others: u32) -> Used {
        let Self { revision, key, account, renewable, .. } = self;
        Used { provider, profile, revision, key, account, renewable, others }
    }

    /// How long it lasts yet; a secret that does not say lasts.
    pub(super) fn left(&self, now: Instant) -> Option<Millis> {
        self.expires.map(|expires| expires.since(now))
    }

    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.left(now).is_none_or(|left| left >= LASTS_MIN)
    }

    fn of_key(revision: u64, key: Secret) -> Self {
        let (account, expires, renewable) = (None, None, Renewable::No);
        Self { revision, key, account, expires, renewable }
    }

    fn of_login(revision: u64, tokens: Tokens) -> Self {
        let Tokens { access: key, account, expires, .. } = tokens;
        Self { revision, key, account, expires, renewable: Renewable::Refreshed }
    }

    fn of_file(path: &Path) -> Result<Self, SecretError> {
        let Tokens { access: key, account, expires, .. } =
            followed(path).map_err(SecretError::Followed)?;
        let (revision, renewable) = (key.mark(), Renewable::Followed);
        Ok(Self { revision, key, account, expires, renewable })
    }
}

/// A profile's secret can not be had here. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is none.
    #[error("the vault has no value for it: rotate it")]
    Absent,
    /// Another one is meant.
    #[error(
        "the vault's value is older ({found}) than the one that was put there ({wanted}): rotate it"
    )]
    Old {
        /// The revision that is there.
        found: u64,
        /// The one that is meant.
        wanted: u64,
    },
    /// It does not read.
    #[error("the vault's value is no credential of this build")]
    Form,
    /// Its token has ended, and there is no new one: what its stream says of it tells why.
    #[error("its token has ended and could not be had anew: `piton auth ls` says why")]
    Stale,
    /// The same of a token that another program refreshes.
    #[error(
        "the token in the file has ended: use the program that refreshes it once, or log in with `piton auth login`"
    )]
    Ended,
    /// The file of another program is not what it should be.
    #[error("the file that it follows gives no token: {0}")]
    Followed(NotFollowed),
    /// Its name is none.
    #[error(transparent)]
    Name(#[from] NotAName),
    /// The vault does not answer.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl Credentials {
    pub(super) async fn secret(
        &self,
        provider: ProviderId,
        name: &str,
        profile: &Profile,
    ) -> Result<Found, SecretError> {
        let absent = SecretError::Absent;
        if profile.kind == Kind::Environment {
            let key = self.parts.environment.get(&provider).ok_or(absent)?;
            return Ok(Found::of_key(profile.revision, key.clone()));
        }
        let place = (provider, name.to_owned());
        let known = self.read.read().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        if let Some((at, found)) = known {
            match profile.kind {
                // Of a followed one the vault has the path only, and that a person changes.
                Kind::Followed if found.lasts(self.parts.clock.now()) => return Ok(found),
                Kind::Followed | Kind::Environment => {}
                Kind::ApiKey | Kind::Login if at >= profile.revision => return Ok(found),
                Kind::ApiKey | Kind::Login => {}
            }
        }
        let vault = self.parts.vault.as_ref().ok_or(absent)?;
        let kept = vault.get(&Name::of_credential(provider.as_str(), name)?).await?;
        let kept = kept.ok_or(SecretError::Absent)?;
        let at = kept.revision.0;
        if profile.kind != Kind::Followed && at < profile.revision {
            return Err(SecretError::Old { found: at, wanted: profile.revision });
        }
        let found = read(at, &kept.value)?;
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        read.insert(place, (at, found.clone()));
        Ok(found)
    }

    /// Forgets what was read, so that it is read anew.
    pub fn forget(&self, provider: ProviderId, name: &str) {
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        read.remove(&(provider, name.to_owned()));
    }
}

fn read(revision: u64, value: &Plain) -> Result<Found, SecretError> {
    if let Some(tokens) = Tokens::read(value.expose()) {
        return Ok(Found::of_login(revision, tokens));
    }
    match serde_json::from_slice(value.expose()).map_err(|_| SecretError::Form)? {
        Stored::ApiKey { key } => Ok(Found::of_key(revision, Secret::new(key))),
        Stored::Follow { path } => Found::of_file(&path),
    }
}
