//! The refresh of a login's token: intended before the refresh token leaves, told after.
//!
//! Most issuers take a refresh token once. So one stream intends one refresh at a time, whoever asked for it, and a
//! refresh whose outcome nobody knows is asked again once the vault was looked at: either the issuer took nothing and
//! answers now, or it says that the token was used, and then a person must log in again. Nothing is passed over in
//! silence.

use super::profile::{Death, Health, Kind, Profile};
use super::{Died, Event, Refusal, State};
use crate::quantity::{Instant, Millis};
use serde::{Deserialize, Serialize};

/// Lost outcomes in a row after which a login is given up: a refresh that kills its node is not asked for ever.
pub const LOST_MAX: u32 = 3;
/// The longest pause before a refresh that failed is tried again (1 h), whatever the issuer says.
const PAUSE_MAX: Millis = Millis(3_600_000);

/// Why somebody must log in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoginLost {
    /// The refresh token is too old.
    Expired,
    /// The refresh token was used before: by somebody else, or by ourselves in a call whose answer was lost.
    Reused,
    /// The refresh token was taken back.
    Revoked,
    /// The issuer does not take the refresh token and does not say why.
    Refused,
    /// Nobody knows what became of it: the refresh was lost too often.
    Unknown,
}

impl LoginLost {
    /// Its word on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Expired => "refresh_token_expired",
            Self::Reused => "refresh_token_reused",
            Self::Revoked => "refresh_token_invalidated",
            Self::Refused => "refresh_token_refused",
            Self::Unknown => "refresh_lost",
        }
    }
}

/// Why a refresh failed that may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// It did not leave, or another process is at it.
    Busy,
    /// The issuer does not answer.
    Unreachable,
    /// The issuer says that it is asked too often.
    Limited,
    /// The issuer failed.
    Failed,
    /// The issuer refuses the request itself: its address or its rules are not what we think.
    Refused,
    /// The answer is none.
    Odd,
    /// The vault can not be read or written, or this node knows no issuer.
    Vault,
}

impl Fault {
    /// Its word on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Unreachable => "issuer_unreachable",
            Self::Limited => "issuer_rate_limited",
            Self::Failed => "issuer_failed",
            Self::Refused => "issuer_refused",
            Self::Odd => "issuer_answer_odd",
            Self::Vault => "vault",
        }
    }

    /// How long without a hint.
    const fn pause(self) -> Millis {
        match self {
            Self::Busy => Millis(1_000),
            Self::Unreachable | Self::Failed | Self::Vault => Millis(10_000),
            Self::Limited => Millis(60_000),
            Self::Refused | Self::Odd => Millis(300_000),
        }
    }
}

/// How the refresh of a profile stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Refresh {
    /// Nothing is under way.
    #[default]
    Idle,
    /// It was intended and is not told yet.
    Running {
        /// So many before it were lost.
        lost: u32,
    },
    /// It failed, and is not tried before then.
    Failed {
        /// Then.
        again: Instant,
        /// Why.
        why: Fault,
    },
}

impl Refresh {
    /// The same if it is under way.
    pub(super) const fn while_running(self) -> Self {
        match self {
            Self::Running { .. } => self,
            Self::Idle | Self::Failed { .. } => Self::Idle,
        }
    }
}

/// The refresh token is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshing {
    /// Whose.
    pub profile: String,
    /// Counts the refreshes of this profile.
    pub attempt: u32,
}

/// There is a new token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshed {
    /// Whose.
    pub profile: String,
    /// The vault's revision of it.
    pub revision: u64,
    /// When it ends, where that is known.
    pub expires: Option<Instant>,
}

/// There is none, and it may be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshFailed {
    /// Whose.
    pub profile: String,
    /// Why.
    pub why: Fault,
    /// Not before then.
    pub again: Instant,
}

/// Nobody knows what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshLost {
    /// Whose.
    pub profile: String,
    /// Which one.
    pub attempt: u32,
}

/// A token that is to be refreshed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stale {
    /// Whose.
    pub profile: String,
    /// Which one: a later one is fresh already.
    pub revision: u64,
}

/// What came of a refresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Whose.
    pub profile: String,
    /// Which one.
    pub attempt: u32,
    /// What.
    pub outcome: Outcome,
}

/// What came of a refresh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A new token stands in the vault.
    Done {
        /// Its revision.
        revision: u64,
        /// When it ends.
        expires: Option<Instant>,
    },
    /// It may be tried again.
    Again {
        /// Why.
        why: Fault,
        /// When the issuer said to come back.
        hint: Option<Millis>,
    },
    /// Somebody must log in again.
    NeedsLogin(LoginLost),
    /// Its task died without a word.
    Lost,
}

/// A refresh that is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// The vault's revision of the token that is refreshed. A later one that is found there is adopted.
    pub revision: u64,
    /// So many before it were lost.
    pub lost: u32,
}

/// Which refresh.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefreshId {
    /// Whose.
    pub profile: String,
    /// Which one.
    pub attempt: u32,
}

impl Profile {
    /// Until when a token that has ended can not be had anew, because its refresh failed.
    pub(super) fn stuck(&self, now: Instant) -> Option<Instant> {
        let ended = self.expires.is_some_and(|expires| expires <= now);
        match self.refresh {
            Refresh::Failed { again, .. } if ended && again > now => Some(again),
            Refresh::Failed { .. } | Refresh::Idle | Refresh::Running { .. } => None,
        }
    }

    fn next(&self, name: &str) -> Event {
        let attempt = self.attempt.saturating_add(1);
        Event::Refreshing(Refreshing { profile: name.to_owned(), attempt })
    }
}

pub(super) fn ask(state: &State, stale: &Stale, now: Instant) -> Result<Vec<Event>, Refusal> {
    let name = stale.profile.as_str();
    let profile = state.profiles.get(name).ok_or(Refusal::NoSuchProfile)?;
    if profile.kind != Kind::Login || profile.health != Health::Alive {
        return Err(Refusal::NotNow);
    }
    if stale.revision < profile.revision {
        return Ok(vec![]);
    }
    match profile.refresh {
        Refresh::Running { .. } => Ok(vec![]),
        Refresh::Failed { again, .. } if now < again => Err(Refusal::NotNow),
        Refresh::Failed { .. } | Refresh::Idle => Ok(vec![profile.next(name)]),
    }
}

/// Nothing, when another refresh or another login has taken its place.
pub(super) fn told(state: &State, told: &Told, now: Instant) -> Vec<Event> {
    let name = told.profile.clone();
    let Some(profile) = state.profiles.get(&name) else { return vec![] };
    let is_it =
        matches!(profile.refresh, Refresh::Running { .. }) && profile.attempt == told.attempt;
    if !is_it {
        return vec![];
    }
    match told.outcome {
        Outcome::Done { revision, expires } => {
            vec![Event::Refreshed(Refreshed { profile: name, revision, expires })]
        }
        Outcome::Again { why, hint } => {
            let pause = Millis(hint.unwrap_or_default().max(why.pause()).0.min(PAUSE_MAX.0));
            vec![Event::RefreshFailed(RefreshFailed {
                profile: name,
                why,
                again: now.after(pause),
            })]
        }
        Outcome::NeedsLogin(why) => {
            vec![Event::Died(Died { profile: name, reason: Death::NeedsLogin(why), at: now })]
        }
        Outcome::Lost => lost(&name, profile),
    }
}

/// It is said to be lost and asked again: what stands in the vault, and then the issuer, say what became of it.
fn lost(name: &str, profile: &Profile) -> Vec<Event> {
    let lost = RefreshLost { profile: name.to_owned(), attempt: profile.attempt };
    vec![Event::RefreshLost(lost), profile.next(name)]
}

pub(super) fn awake(state: &State) -> Vec<Event> {
    running(state).flat_map(|(name, profile, _)| lost(name, profile)).collect()
}

pub(super) fn pending(state: &State) -> Vec<(RefreshId, Owed)> {
    let owed = |(name, profile, lost): (&String, &Profile, u32)| {
        let id = RefreshId { profile: name.clone(), attempt: profile.attempt };
        (id, Owed { revision: profile.revision, lost })
    };
    running(state).map(owed).collect()
}

fn running(state: &State) -> impl Iterator<Item = (&String, &Profile, u32)> {
    state.profiles.iter().filter_map(|(name, profile)| match profile.refresh {
        Refresh::Running { lost } => Some((name, profile, lost)),
        Refresh::Idle | Refresh::Failed { .. } => None,
    })
}

/// `None` when the event may not follow.
pub(super) fn begun(profile: &mut Profile, event: &Refreshing) -> Option<()> {
    let lost = match profile.refresh {
        Refresh::Running { .. } => return None,
        // Only the one that follows a lost one at once counts it.
        Refresh::Failed { .. } | Refresh::Idle => profile.lost,
    };
    (profile.attempt, profile.refresh) = (event.attempt, Refresh::Running { lost });
    Some(())
}

/// `None` when the event may not follow.
pub(super) fn ended(profile: &mut Profile, refresh: Refresh, lost: u32) -> Option<()> {
    let was_running = matches!(profile.refresh, Refresh::Running { .. });
    (profile.refresh, profile.lost) = (refresh, lost);
    was_running.then_some(())
}
