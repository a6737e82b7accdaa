//! A provider's credentials: which profiles there are, and how each of them fares. One stream for each provider; no
//! secret ever stands in it, only the vault's revision of one.
//!
//! What is seen on the wire comes in as a command. A failure counts against the profile and the secret that were used
//! there and no other; a cool-down is the latest of those seen, is not lengthened by a try that was not made, ends with
//! one probe and is cleared by a success that began after it. A profile is dead only by a 401 that says why, by three in
//! a row, or by hand, or when the token of its login can not be refreshed any more.

mod profile;
mod provider;
mod refresh;
mod saw;

pub use profile::{Cooling, Death, Health, Kind, Profile, Scope, Standing};
pub use provider::{NotAProvider, ProviderId};
pub use refresh::{
    Fault, LOST_MAX, LoginLost, Outcome, Owed, Refresh, RefreshFailed, RefreshId, RefreshLost,
    Refreshed, Refreshing, Stale, Told,
};
pub use saw::{Forbidden, Reason, Saw, Seen};

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::model_call::Class;
use crate::quantity::Instant;
use crate::record::{Actor, Entry, StreamKey, StreamKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Profiles of one provider (32): each is a secret that somebody must keep.
pub const PROFILES_MAX: usize = 32;
/// Models of one profile that cool at the same time; of more, the ones that end first are forgotten.
pub const COOLING_MAX: usize = 32;
/// Bytes of the longest name of a profile.
pub const NAME_BYTES_MAX: usize = 32;
/// Bytes of the longest model that a cool-down is kept for.
const MODEL_BYTES_MAX: usize = 256;
/// The profile that a variable of the environment gives.
pub const ENVIRONMENT: &str = "env";

crate::events! {
    /// What can have happened to a provider's credentials.
    pub enum Event {
        /// A profile exists.
        Added(Added) = 400 / 1 "added";
        /// Its secret is another one.
        Rotated(Rotated) = 401 / 1 "rotated";
        /// It is gone.
        Removed(Removed) = 402 / 1 "removed";
        /// It is left alone for a while.
        Cooled(Cooled) = 403 / 1 "cooled";
        /// Somebody tries whether its cool-down is over.
        Probed(Probed) = 404 / 1 "probed";
        /// It works.
        Recovered(Recovered) = 405 / 1 "recovered";
        /// A 401 was seen.
        Struck(Struck) = 406 / 1 "struck";
        /// It is not used any more.
        Died(Died) = 407 / 1 "died";
        /// It is used again.
        Revived(Revived) = 408 / 1 "revived";
        /// Its refresh token is about to be sent.
        Refreshing(Refreshing) = 409 / 1 "refreshing";
        /// Its token is a new one.
        Refreshed(Refreshed) = 410 / 1 "refreshed";
        /// Its token could not be refreshed.
        RefreshFailed(RefreshFailed) = 411 / 1 "refresh_failed";
        /// Nobody knows whether its token was refreshed.
        RefreshLost(RefreshLost) = 412 / 1 "refresh_lost";
    }
}

/// A profile exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// Its name.
    pub profile: String,
    /// What its secret is.
    pub kind: Kind,
    /// Who added it.
    pub by: Actor,
    /// Which secret: the vault's revision, or a mark of the environment's or of a followed file's.
    pub revision: u64,
    /// When it ends, where that is known.
    pub expires: Option<Instant>,
}

/// Its secret is another one; what was known of the old one does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotated {
    /// Its name.
    pub profile: String,
    /// Which secret.
    pub revision: u64,
    /// When it ends, where that is known.
    pub expires: Option<Instant>,
}

/// It is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Its name.
    pub profile: String,
}

/// It is left alone for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooled {
    /// Its name.
    pub profile: String,
    /// For everything, or for one model.
    pub scope: Scope,
    /// When it was decided.
    pub since: Instant,
    /// Until when.
    pub until: Instant,
    /// Why.
    pub class: Class,
}

/// One caller may try whether a cool-down is over; the others wait for what comes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// Its name.
    pub profile: String,
    /// Which cool-downs: of everything and of this model.
    pub model: String,
    /// Until when the others wait.
    pub until: Instant,
}

/// It works: its strikes, and the cool-downs of everything and of this model, are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// Its name.
    pub profile: String,
    /// The model that answered.
    pub model: String,
}

/// A 401 was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Struck {
    /// Its name.
    pub profile: String,
    /// How many there were in a row, this one included.
    pub strikes: u32,
    /// How it was classed.
    pub class: Class,
}

/// It is not used any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Died {
    /// Its name.
    pub profile: String,
    /// Why.
    pub reason: Death,
    /// When.
    pub at: Instant,
}

/// It is used again, as if nothing had been seen of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revived {
    /// Its name.
    pub profile: String,
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A profile whose secret stands in the vault, or in the environment, is to be used.
    Add(Added),
    /// Its secret was changed.
    Rotate(Rotated),
    /// It is not to be used any more, and forgotten.
    Remove(Removed),
    /// It is not to be used any more.
    MarkDead(Removed),
    /// It is to be used again.
    Revive(Removed),
    /// May its cool-down be tried?
    Probe(Probing),
    /// This was seen on the wire.
    Saw(Saw),
    /// Its token is to be refreshed.
    Refresh(Stale),
    /// This came of a refresh.
    Told(Told),
}

/// May a cool-down be tried?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probing {
    /// Whose.
    pub profile: String,
    /// For which model.
    pub model: String,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such profile.
    #[error("there is no such profile: `piton auth ls` lists those there are")]
    NoSuchProfile,
    /// The name is taken by another secret.
    #[error("the profile exists: rotate it, or give another name")]
    Exists,
    /// There are as many as are allowed.
    #[error("there are {PROFILES_MAX} profiles of this provider: remove one first")]
    Full,
    /// The name is none.
    #[error("a profile's name has 1 to {NAME_BYTES_MAX} characters of a-z 0-9 _ -")]
    BadName,
    /// It is not to be tried now: it still cools, is being tried by another, or is dead.
    #[error("the profile is not to be tried now")]
    NotNow,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// By name.
    pub profiles: BTreeMap<String, Profile>,
}

/// Marker: the rules of a provider's credentials. They owe the world refreshes and nothing else: a cool-down ends by
/// being looked at.
#[derive(Debug)]
pub struct Credential;

fn is_name(name: &str) -> bool {
    let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

fn add(state: &State, added: &Added) -> Result<Vec<Event>, Refusal> {
    if !is_name(&added.profile) {
        return Err(Refusal::BadName);
    }
    match state.profiles.get(&added.profile) {
        Some(before) if before.kind == added.kind && before.revision == added.revision => {
            Ok(vec![])
        }
        Some(_) => Err(Refusal::Exists),
        None if state.profiles.len() >= PROFILES_MAX => Err(Refusal::Full),
        None => Ok(vec![Event::Added(added.clone())]),
    }
}

impl Aggregate for Credential {
    type Id = ProviderId;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Owed;
    type EffectId = RefreshId;

    const KIND: StreamKind = StreamKind::Credential;
    const FOLD: u32 = 2;

    fn stream(id: &ProviderId) -> StreamKey {
        StreamKey::named(StreamKind::Credential, id.as_str())
    }

    fn id(stream: &StreamKey) -> Option<ProviderId> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        let of = |name: &str| state.profiles.get(name).ok_or(Refusal::NoSuchProfile);
        match command {
            Command::Add(added) => add(state, added),
            Command::Rotate(rotated) => {
                let same = of(&rotated.profile)?.revision == rotated.revision;
                Ok(if same { vec![] } else { vec![Event::Rotated(rotated.clone())] })
            }
            Command::Remove(removed) if state.profiles.contains_key(&removed.profile) => {
                Ok(vec![Event::Removed(removed.clone())])
            }
            Command::Remove(_) => Ok(vec![]),
            Command::MarkDead(Removed { profile }) => Ok(match of(profile)?.health {
                Health::Dead { .. } => vec![],
                Health::Alive => {
                    let (profile, reason) = (profile.clone(), Death::ByHand);
                    vec![Event::Died(Died { profile, reason, at: now })]
                }
            }),
            Command::Revive(Removed { profile }) => {
                let unmarked = of(profile)?.is_unmarked();
                let revived = Revived { profile: profile.clone() };
                Ok(if unmarked { vec![] } else { vec![Event::Revived(revived)] })
            }
            Command::Probe(Probing { profile, model }) => match of(profile)?.standing(model, now) {
                Standing::Ready => Ok(vec![]),
                Standing::HalfOpen => Ok(vec![Event::Probed(Probed {
                    profile: profile.clone(),
                    model: model.clone(),
                    until: now.after(saw::PROBE),
                })]),
                Standing::Cooling { .. } | Standing::Dead(_) => Err(Refusal::NotNow),
            },
            Command::Saw(saw) => Ok(saw::decide(state, saw, now)),
            Command::Refresh(stale) => refresh::ask(state, stale, now),
            Command::Told(told) => Ok(refresh::told(state, told, now)),
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        if evolved(&mut state, event).is_some() {
            return Ok(state);
        }
        let before = format!("{:?}", state.profiles.keys());
        Err(IllegalEvent { event: event.name().to_owned(), before })
    }

    fn awake(state: &State) -> Vec<Event> {
        refresh::awake(state)
    }

    fn pending(state: &State) -> Vec<(RefreshId, Owed)> {
        refresh::pending(state)
    }

    fn wake(state: &State) -> Wake {
        if refresh::pending(state).is_empty() { Wake::OnCommand } else { Wake::Now }
    }

    fn due() -> Option<Command> {
        None
    }

    fn lost(effect: &RefreshId) -> Command {
        let RefreshId { profile, attempt } = effect.clone();
        Command::Told(Told { profile, attempt, outcome: Outcome::Lost })
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        Event::decode(kind, schema, payload)
    }
}

/// `None` when the event may not follow.
fn evolved(state: &mut State, event: &Event) -> Option<()> {
    let profiles = &mut state.profiles;
    match event {
        Event::Added(added) => {
            let Added { kind, by, revision, expires, .. } = *added;
            let profile = Profile { expires, ..Profile::new(kind, by, revision) };
            profiles.insert(added.profile.clone(), profile).is_none().then_some(())
        }
        Event::Rotated(rotated) => {
            let profile = profiles.get_mut(&rotated.profile)?;
            *profile = profile.anew(rotated.revision, rotated.expires);
            Some(())
        }
        Event::Removed(removed) => profiles.remove(&removed.profile).map(drop),
        Event::Cooled(cooled) => {
            profiles.get_mut(&cooled.profile)?.cool(cooled);
            Some(())
        }
        Event::Probed(probed) => {
            profiles.get_mut(&probed.profile)?.probe(probed);
            Some(())
        }
        Event::Recovered(recovered) => {
            profiles.get_mut(&recovered.profile)?.recover(&recovered.model);
            Some(())
        }
        Event::Struck(struck) => {
            let profile = profiles.get_mut(&struck.profile)?;
            (profile.strikes, profile.last) = (struck.strikes, Some(struck.class));
            Some(())
        }
        Event::Died(died) => {
            let profile = profiles.get_mut(&died.profile)?;
            profile.health = Health::Dead { reason: died.reason, at: died.at };
            // A refresh that is under way goes on whatever else is said of the profile: its token is used once only.
            if matches!(died.reason, Death::NeedsLogin(_)) {
                profile.refresh = Refresh::Idle;
            }
            Some(())
        }
        Event::Revived(revived) => {
            let profile = profiles.get_mut(&revived.profile)?;
            let refresh = profile.refresh.while_running();
            *profile = Profile { refresh, ..profile.anew(profile.revision, profile.expires) };
            Some(())
        }
        Event::Refreshing(begun) => refresh::begun(profiles.get_mut(&begun.profile)?, begun),
        Event::Refreshed(refreshed) => {
            let profile = profiles.get_mut(&refreshed.profile)?;
            profile.renew(refreshed);
            refresh::ended(profile, Refresh::Idle, 0)
        }
        Event::RefreshFailed(failed) => {
            let stands = Refresh::Failed { again: failed.again, why: failed.why };
            refresh::ended(profiles.get_mut(&failed.profile)?, stands, 0)
        }
        Event::RefreshLost(lost) => {
            let profile = profiles.get_mut(&lost.profile)?;
            let lost = profile.lost.saturating_add(1);
            refresh::ended(profile, Refresh::Idle, lost)
        }
    }
}

#[cfg(test)]
mod tests;
