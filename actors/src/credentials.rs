//! The credentials of this node: which profile a call uses, its secret, and what was seen of it.
//!
//! A session is pinned to a profile by rendezvous hashing over those that are not dead, so the pin needs no event and is
//! the same on every node; those that cool are skipped in the order of the hash. What is seen goes to the owner of the
//! provider's stream as a command, and comes back to every node by the log.

mod login;
mod secret;

pub use secret::{Held, NotFollowed, NotHeld, Renewable, SecretError, stored};

use crate::clock::Clock;
use crate::follower::{Follower, Stale};
use events::credential::{
    Command, Credential, Death, ENVIRONMENT, Forbidden, Health, Kind, Probing, Profile, ProviderId,
    Reason, Saw, Seen, Standing, State,
};
use events::id::digest;
use events::model_call::Class;
use events::quantity::{Instant, Millis};
use events::record::Actor;
use providers::Secret;
use secret::Found;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::RwLock;
use std::time::Duration;
use store::vault::Vault;
use tokio::sync::{mpsc, oneshot};

/// Commands to owners that wait (1024). Of what is seen beyond that nothing is told: the next failure says it again.
pub const ERRANDS_MAX: usize = 1_024;
/// How long a call waits for the leave to try a profile whose cool-down is over.
const LEAVE_MAX: Duration = Duration::from_secs(2);
/// Words of a 401 that say that the key will never work, in lower case: from recordings and from clients' sources.
const NAMED: [&str; 14] = [
    "incorrect api key",
    "invalid api key",
    "invalid x-api-key",
    "api key not valid",
    "api key is invalid",
    "revoked",
    "deactivated",
    "disabled",
    "no longer valid",
    "token_invalidated",
    "token_revoked",
    "invalid_token",
    "invalid_grant",
    "unauthorized_client",
];

/// A command on its way to the owner of a provider's stream.
#[derive(Debug)]
pub struct Errand {
    /// Whose stream.
    pub provider: ProviderId,
    /// What is said.
    pub command: Command,
    /// Told whether the owner agreed, where somebody waits for it.
    pub agreed: Option<oneshot::Sender<bool>>,
}

/// A profile that a call uses on the wire.
#[derive(Debug, Clone)]
pub struct Used {
    /// Whose.
    pub provider: ProviderId,
    /// Its name.
    pub profile: String,
    /// Which secret.
    pub revision: u64,
    /// The secret.
    pub key: Secret,
    /// The account that a login's call names.
    pub account: Option<String>,
    /// Whether the secret is a token that can be had anew.
    pub renewable: Renewable,
    /// Other profiles of the provider that are ready for the same model.
    pub others: u32,
}

/// What a profile is wanted for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Whose.
    pub provider: ProviderId,
    /// The model that is asked.
    pub model: &'a str,
    /// Names the session, or the run that stands alone.
    pub pin: u128,
    /// The profiles that this step has failed with, which are not used again.
    pub tried: &'a [String],
}

/// Why a provider has no profile for a call now. Nothing was sent, so nobody is blamed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProfile {
    /// All cool. The class is the one of the profile that is ready first.
    #[error("every profile of {provider} cools; {profile} is ready first ({})", class.name())]
    Cooling {
        /// Whose.
        provider: String,
        /// Which is ready first.
        profile: String,
        /// Why it cools.
        class: Class,
        /// How long.
        left: Millis,
    },
    /// Nobody is left but whom somebody must log in again.
    #[error(
        "{profile} of {provider} needs a login ({why}): `piton auth login {provider} {profile}`"
    )]
    NeedsLogin {
        /// Whose.
        provider: String,
        /// Which.
        profile: String,
        /// Why.
        why: &'static str,
    },
    /// All are dead.
    #[error("every profile of {0} is dead: `piton auth ls` says why; rotate or revive one")]
    Dead(String),
    /// Those that may be used failed in this very step.
    #[error("every profile of {0} that may be used has failed in this step")]
    Tried(String),
    /// Their secrets can not be read.
    #[error("no secret of {0} can be read now: the log of this node says why")]
    NoSecret(String),
    /// This node does not know well enough.
    #[error(transparent)]
    Stale(#[from] Stale),
}

/// What a node opens its credentials with.
pub struct Parts {
    /// What all nodes know of the profiles.
    pub follower: Follower<Credential>,
    /// Where their secrets are; none in a cluster without a cluster key.
    pub vault: Option<Vault>,
    /// The keys that this node's environment gives, by provider.
    pub environment: BTreeMap<ProviderId, Secret>,
    /// What a 403 means.
    pub forbidden: Forbidden,
    /// What time it is, for whoever waits for a token.
    pub clock: Clock,
}

/// The credentials of this node.
pub struct Credentials {
    parts: Parts,
    /// By provider and profile: the vault's revision, and what was read at it. Held over no await.
    read: RwLock<BTreeMap<(ProviderId, String), (u64, Found)>>,
    errands: mpsc::Sender<Errand>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("vault", &self.parts.vault).finish_non_exhaustive()
    }
}

/// Where this node has secrets from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    /// The vault, and its environment.
    Vault,
    /// Its environment only.
    Environment,
}

/// A profile with its place in the order of a session.
struct Ranked<'a> {
    name: &'a str,
    profile: &'a Profile,
    standing: Standing,
}

impl Credentials {
    /// Opens them; whoever runs the errands takes the receiver.
    #[must_use]
    pub fn new(parts: Parts) -> (Self, mpsc::Receiver<Errand>) {
        let (errands, run) = mpsc::channel(ERRANDS_MAX);
        (Self { parts, read: RwLock::default(), errands }, run)
    }

    /// What all nodes know of the profiles.
    #[must_use]
    pub const fn follower(&self) -> &Follower<Credential> {
        &self.parts.follower
    }

    /// Where the secrets are, if this node has a vault.
    #[must_use]
    pub const fn vault(&self) -> Option<&Vault> {
        self.parts.vault.as_ref()
    }

    /// The providers whose key this node's environment gives, each with the mark of that key.
    pub fn environment(&self) -> impl Iterator<Item = (ProviderId, u64)> {
        self.parts.environment.iter().map(|(provider, key)| (*provider, key.mark()))
    }

    /// The profiles of a provider as this node may use them: those of the stream whose secrets it can have, and the key
    /// of its own environment.
    #[must_use]
    pub fn profiles(&self, provider: ProviderId) -> BTreeMap<String, Profile> {
        let known = self.parts.follower.get(&provider);
        let own = self.parts.environment.get(&provider).map(Secret::mark);
        usable(&known.state, own, self.secrets())
    }

    /// Whether a provider has a profile that this node may use, whatever it fares like.
    #[must_use]
    pub fn has_profile(&self, provider: ProviderId) -> bool {
        let own = self.parts.environment.get(&provider).map(Secret::mark);
        let known = self.parts.follower.get(&provider);
        let mut profiles = known.state.profiles.values();
        own.is_some() || profiles.any(|one| is_usable(one, own, self.secrets()))
    }

    const fn secrets(&self) -> Secrets {
        if self.parts.vault.is_some() { Secrets::Vault } else { Secrets::Environment }
    }

    /// The profile for a call, with its secret; none for a provider without profiles.
    ///
    /// # Errors
    ///
    /// [`NoProfile`] when there are some and none may be used now.
    pub async fn choose(
        &self,
        wanted: &Wanted<'_>,
        now: Instant,
    ) -> Result<Option<Used>, NoProfile> {
        let Wanted { provider, model, pin, tried } = *wanted;
        let profiles = self.profiles(provider);
        if profiles.is_empty() {
            return Ok(None);
        }
        self.parts.follower.fresh()?;
        let ranked = ranked(&profiles, (provider, model), pin, now);
        let free = ranked.iter().filter(|one| !tried.iter().any(|name| name == one.name));
        let may = |standing| matches!(standing, Standing::Ready | Standing::HalfOpen);
        let candidates: Vec<&Ranked<'_>> = free.filter(|one| may(one.standing)).collect();
        let mut missed = Missed::default();
        for (nth, one) in candidates.iter().enumerate() {
            if one.standing == Standing::HalfOpen && !self.leave(provider, one.name, model).await {
                continue;
            }
            let later = candidates.iter().skip(nth + 1);
            let others = later.filter(|other| other.standing == Standing::Ready).count();
            match self.fresh(provider, one.name, one.profile, now).await {
                Ok(found) => {
                    let (profile, others) =
                        (one.name.to_owned(), u32::try_from(others).unwrap_or(u32::MAX));
                    return Ok(Some(found.used(provider, profile, others)));
                }
                Err(SecretError::Stale) => {
                    missed.late = true;
                    tracing::warn!(%provider, profile = one.name, "credential_refresh_late");
                }
                Err(error) => {
                    missed.unread = true;
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(%provider, profile = one.name, error, "credential_unreadable");
                }
            }
        }
        // A refresh that was waited for has changed how they stand.
        let profiles = if missed.late { self.profiles(provider) } else { profiles.clone() };
        Err(nobody(&profiles, (provider, model), missed, now))
    }

    /// The secret of one profile, however it fares, for whoever looks whether it works.
    ///
    /// # Errors
    ///
    /// [`SecretError`] when this node has none.
    pub async fn key(&self, provider: ProviderId, name: &str) -> Result<Secret, SecretError> {
        let profiles = self.profiles(provider);
        let profile = profiles.get(name).ok_or(SecretError::Absent)?;
        Ok(self.secret(provider, name, profile).await?.key)
    }

    /// Asks the owner whether a profile may be tried whose cool-down is over.
    async fn leave(&self, provider: ProviderId, profile: &str, model: &str) -> bool {
        let (agreed, answer) = oneshot::channel();
        let probing = Probing { profile: profile.to_owned(), model: model.to_owned() };
        let command = Command::Probe(probing);
        if self.errands.try_send(Errand { provider, command, agreed: Some(agreed) }).is_err() {
            return false;
        }
        matches!(tokio::time::timeout(LEAVE_MAX, answer).await, Ok(Ok(true)))
    }

    /// Tells the owner what was seen, where that may change something.
    pub fn saw(&self, used: &Used, model: &str, began: Instant, failed: Option<Failed<'_>>) {
        let seen = match failed {
            Some(failed) if !Seen::concerns(failed.class) => return,
            Some(Failed { class, status, hint, message }) => {
                let (reason, forbidden) = (reason(message), self.parts.forbidden);
                Seen::Failed { class, status, hint, reason, forbidden }
            }
            None => {
                let known = self.profiles(used.provider);
                let marked = known.get(&used.profile).is_some_and(|one| one.is_marked_for(model));
                if !marked {
                    return;
                }
                Seen::Success
            }
        };
        let (profile, revision, model) = (used.profile.clone(), used.revision, model.to_owned());
        let command = Command::Saw(Saw { profile, revision, model, began, seen });
        let errand = Errand { provider: used.provider, command, agreed: None };
        if self.errands.try_send(errand).is_err() {
            tracing::warn!(provider = %used.provider, profile = used.profile, "credential_unseen");
        }
    }
}

/// A failure as far as a credential is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// Its class.
    pub class: Class,
    /// Its status.
    pub status: Option<u16>,
    /// When to come back.
    pub hint: Option<Millis>,
    /// The provider's words.
    pub message: &'a str,
}

fn reason(message: &str) -> Reason {
    let lower = message.to_lowercase();
    if NAMED.iter().any(|word| lower.contains(word)) { Reason::Named } else { Reason::Unnamed }
}

fn is_usable(profile: &Profile, own: Option<u64>, secrets: Secrets) -> bool {
    match profile.kind {
        Kind::ApiKey | Kind::Login | Kind::Followed => secrets == Secrets::Vault,
        Kind::Environment => own == Some(profile.revision),
    }
}

/// What of a stream's profiles a node can use. Another environment's key is none of its own, and of its own key nothing
/// counts that was seen of another one.
fn usable(state: &State, own: Option<u64>, secrets: Secrets) -> BTreeMap<String, Profile> {
    let mut profiles: BTreeMap<String, Profile> = state
        .profiles
        .iter()
        .filter(|(_, profile)| is_usable(profile, own, secrets))
        .map(|(name, profile)| (name.clone(), profile.clone()))
        .collect();
    if let Some(mark) = own {
        let fresh = || Profile::new(Kind::Environment, Actor::Node, mark);
        profiles.entry(ENVIRONMENT.to_owned()).or_insert_with(fresh);
    }
    profiles
}

/// The order in which a session asks for profiles; one more or less moves only the sessions that are its own.
fn ranked<'a>(
    profiles: &'a BTreeMap<String, Profile>,
    (provider, model): (ProviderId, &str),
    pin: u128,
    now: Instant,
) -> Vec<Ranked<'a>> {
    let weight = |name: &str| {
        digest(&[b"profile", &pin.to_le_bytes(), provider.as_str().as_bytes(), name.as_bytes()])
    };
    let mut ranked: Vec<(u128, Ranked<'_>)> = profiles
        .iter()
        .map(|(name, profile)| {
            let standing = profile.standing(model, now);
            (weight(name), Ranked { name, profile, standing })
        })
        .filter(|(_, one)| !matches!(one.standing, Standing::Dead(_)))
        .collect();
    ranked.sort_by_key(|one| Reverse(one.0));
    ranked.into_iter().map(|(_, one)| one).collect()
}

/// What kept profiles from a call that may be used.
#[derive(Debug, Clone, Copy, Default)]
struct Missed {
    /// The secret of one can not be read.
    unread: bool,
    /// The token of one ended before there was a new one. That speaks against nobody.
    late: bool,
}

/// Why no profile is left.
fn nobody(
    profiles: &BTreeMap<String, Profile>,
    (provider, model): (ProviderId, &str),
    missed: Missed,
    now: Instant,
) -> NoProfile {
    // The order of the ranks is of no weight here.
    let ranked = ranked(profiles, (provider, model), 0, now);
    if let Some(cooling) = first_ready(provider, &ranked, now) {
        return cooling;
    }
    let Missed { unread, late } = missed;
    let lost = needs_login(provider, profiles);
    let provider = provider.to_string();
    match (unread, ranked.is_empty()) {
        (true, _) => NoProfile::NoSecret(provider),
        (false, true) => lost.unwrap_or(NoProfile::Dead(provider)),
        // Its refresh may have come by the next try.
        (false, false) if late => NoProfile::NoSecret(provider),
        (false, false) => NoProfile::Tried(provider),
    }
}

/// Whom somebody must log in again, if there is one.
fn needs_login(provider: ProviderId, profiles: &BTreeMap<String, Profile>) -> Option<NoProfile> {
    profiles.iter().find_map(|(name, profile)| match profile.health {
        Health::Dead { reason: Death::NeedsLogin(why), .. } => {
            let (provider, profile) = (provider.to_string(), name.clone());
            Some(NoProfile::NeedsLogin { provider, profile, why: why.name() })
        }
        Health::Dead { .. } | Health::Alive => None,
    })
}

/// Which one is ready first; none when there is none that cools.
fn first_ready(provider: ProviderId, ranked: &[Ranked<'_>], now: Instant) -> Option<NoProfile> {
    let cooling = ranked.iter().filter_map(|one| match one.standing {
        Standing::Cooling { until, class } => Some((until, one.name, class)),
        // Another caller tries it.
        Standing::HalfOpen => {
            let class = one.profile.last.unwrap_or(Class::RateLimited);
            Some((now.after(Millis(1_000)), one.name, class))
        }
        Standing::Ready | Standing::Dead(_) => None,
    });
    let (until, profile, class) = cooling.min_by_key(|(until, _, _)| *until)?;
    let (provider, profile, left) = (provider.to_string(), profile.to_owned(), until.since(now));
    Some(NoProfile::Cooling { provider, profile, class, left })
}

#[cfg(test)]
mod tests;
