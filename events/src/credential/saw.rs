//! What was seen on the wire, and what follows from it.

use super::profile::Kind;
use super::{
    Cooled, Death, Died, Event, Health, MODEL_BYTES_MAX, Profile, Recovered, Scope, State, Struck,
};
use crate::model_call::Class;
use crate::quantity::{Instant, Millis};
use serde::{Deserialize, Serialize};

/// 401s in a row that kill a profile.
const STRIKES_MAX: u32 = 3;
/// How long the others wait for one who tries a cooled profile (60 s): about the longest a first byte takes.
pub(super) const PROBE: Millis = Millis(60_000);
/// The longest cool-down that a provider may ask for (24 h).
const COOL_MAX: Millis = Millis(86_400_000);

/// Something that was seen on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saw {
    /// The profile that was used on the wire.
    pub profile: String,
    /// The secret of it that was used.
    pub revision: u64,
    /// The model that was asked.
    pub model: String,
    /// When the call began: a success says nothing of what was decided after that.
    pub began: Instant,
    /// What came back.
    pub seen: Seen,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// An answer.
    Success,
    /// A failure.
    Failed {
        /// Its class.
        class: Class,
        /// Its status, where one came.
        status: Option<u16>,
        /// When the provider said to come back.
        hint: Option<Millis>,
        /// Whether it says that the key will never work.
        reason: Reason,
        /// What a 403 means here.
        forbidden: Forbidden,
    },
}

/// Whether a failure says that the key will never work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// It does: revoked, unknown, switched off.
    Named,
    /// It does not.
    Unnamed,
}

/// What a 403 that speaks of the key means: the setting `dead_on_403`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Forbidden {
    /// A cool-down.
    Cools,
    /// The end.
    Kills,
}

/// What a class does to the profile that was used.
enum Charge {
    /// The provider, the network or the request is at fault.
    Nobody,
    /// The key is in doubt.
    Key(Millis),
    /// It is used up for a while, for everything.
    Profile(Millis),
    /// The same for this model.
    Model(Millis),
}

/// How long without a hint. A key in doubt is left alone for a minute, so that three 401s need some time.
const fn charge(class: Class) -> Charge {
    match class {
        Class::AuthExpired | Class::AuthInvalid => Charge::Key(Millis(60_000)),
        Class::Billing | Class::QuotaExhausted => Charge::Profile(Millis(3_600_000)),
        Class::RateLimited => Charge::Model(Millis(30_000)),
        Class::ModelNotFound => Charge::Model(Millis(600_000)),
        Class::UpstreamRateLimited
        | Class::Overloaded
        | Class::ServerError
        | Class::Timeout
        | Class::Transport
        | Class::Tls
        | Class::ContextOverflow
        | Class::PayloadTooLarge
        | Class::ToolsTooMany
        | Class::InvalidRequest
        | Class::ReplayRejected
        | Class::ContentPolicy
        | Class::StreamTruncated
        | Class::StreamError
        | Class::Unknown => Charge::Nobody,
    }
}

impl Seen {
    /// Whether a profile may change because of it. A success does only where something speaks against the profile.
    #[must_use]
    pub const fn concerns(class: Class) -> bool {
        !matches!(charge(class), Charge::Nobody)
    }
}

/// What follows; nothing when it was another secret's, or the profile is gone or dead.
pub(super) fn decide(state: &State, saw: &Saw, now: Instant) -> Vec<Event> {
    let Some(profile) = state.profiles.get(&saw.profile) else { return vec![] };
    let is_dead = matches!(profile.health, Health::Dead { .. });
    // A later secret than the one that was recorded is this profile's too: its record is on its way, or was overtaken by
    // an earlier one's. Marks of the environment's keys and of followed tokens have no order.
    let is_other = match profile.kind {
        Kind::ApiKey | Kind::Login => saw.revision < profile.revision,
        Kind::Environment | Kind::Followed => saw.revision != profile.revision,
    };
    if is_dead || is_other || saw.model.len() > MODEL_BYTES_MAX {
        return vec![];
    }
    match &saw.seen {
        Seen::Success => success(profile, saw),
        Seen::Failed { class, status, hint, reason, forbidden } => {
            let cool = |scope: Scope, usual: Millis| {
                let wait = Millis(hint.unwrap_or(usual).0.min(COOL_MAX.0));
                cooled(profile, saw, (scope, *class), now, now.after(wait))
            };
            match charge(*class) {
                Charge::Nobody => vec![],
                Charge::Profile(usual) => cool(Scope::Profile, usual),
                Charge::Model(usual) => cool(Scope::Model(saw.model.clone()), usual),
                Charge::Key(usual) => {
                    let named = saw.profile.clone();
                    let dead =
                        |reason| Event::Died(Died { profile: named.clone(), reason, at: now });
                    let strikes = profile.strikes.saturating_add(1);
                    let struck = Struck { profile: saw.profile.clone(), strikes, class: *class };
                    match (status, reason, forbidden) {
                        (Some(401), Reason::Named, _) => vec![dead(Death::Named)],
                        (Some(403), _, Forbidden::Kills) => vec![dead(Death::Forbidden)],
                        // Calls that were under way when the last one was counted are the same blow.
                        (Some(401), Reason::Unnamed, _) if is_same_blow(profile, saw) => vec![],
                        (Some(401), Reason::Unnamed, _) if strikes >= STRIKES_MAX => {
                            vec![Event::Struck(struck), dead(Death::Strikes)]
                        }
                        (Some(401), Reason::Unnamed, _) => {
                            let mut events = vec![Event::Struck(struck)];
                            events.extend(cool(Scope::Profile, usual));
                            events
                        }
                        (_, _, _) => cool(Scope::Profile, usual),
                    }
                }
            }
        }
    }
}

fn is_same_blow(profile: &Profile, saw: &Saw) -> bool {
    profile.strikes > 0
        && profile.cooling.get(&Scope::Profile).is_some_and(|cooling| cooling.since >= saw.began)
}

fn success(profile: &Profile, saw: &Saw) -> Vec<Event> {
    let newer = profile.met(&saw.model).any(|cooling| cooling.since >= saw.began);
    if newer || !profile.is_marked_for(&saw.model) {
        return vec![];
    }
    let (profile, model) = (saw.profile.clone(), saw.model.clone());
    vec![Event::Recovered(Recovered { profile, model })]
}

/// The later end counts. One that is out to be tried, and failed, cools again.
fn cooled(
    profile: &Profile,
    saw: &Saw,
    (scope, class): (Scope, Class),
    since: Instant,
    until: Instant,
) -> Vec<Event> {
    let before = profile.cooling.get(&scope);
    if before.is_some_and(|before| before.until >= until) {
        return vec![];
    }
    vec![Event::Cooled(Cooled { profile: saw.profile.clone(), scope, since, until, class })]
}
