//! How one profile fares: alive or dead, and what it is left alone for.

use super::refresh::{LoginLost, Refresh};
use super::{COOLING_MAX, Cooled, Probed, Refreshed};
use crate::model_call::Class;
use crate::quantity::Instant;
use crate::record::Actor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a profile's secret is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// An API key in the vault.
    ApiKey,
    /// An API key in a variable of the environment.
    Environment,
    /// The tokens of a login in the vault, which are refreshed from there.
    Login,
    /// The token of a login in a file of another program, which refreshes it: it is read anew and never refreshed here.
    Followed,
}

/// What a cool-down is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Everything.
    Profile,
    /// This model.
    Model(String),
}

/// A time in which a profile is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cooling {
    /// When it was last decided.
    pub since: Instant,
    /// Its end. From then on one caller may try.
    pub until: Instant,
    /// Why.
    pub class: Class,
    /// Somebody tries, and the others wait until then.
    pub probe: Option<Instant>,
}

/// Why a profile is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Death {
    /// A 401 said why: the key is revoked, unknown or switched off.
    Named,
    /// Three 401s in a row.
    Strikes,
    /// A 403, where the operator wants that to be enough.
    Forbidden,
    /// Somebody said so.
    ByHand,
    /// Its token can not be refreshed any more.
    NeedsLogin(LoginLost),
}

impl Death {
    /// Its word on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::Strikes => "consecutive_401",
            Self::Forbidden => "forbidden",
            Self::ByHand => "by_hand",
            Self::NeedsLogin(why) => why.name(),
        }
    }
}

/// Whether it is used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Health {
    /// It is.
    Alive,
    /// It is not, until somebody revives or rotates it.
    Dead {
        /// Why.
        reason: Death,
        /// Since when.
        at: Instant,
    },
}

/// One credential of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// What its secret is.
    pub kind: Kind,
    /// Who added it.
    pub by: Actor,
    /// Which secret: what is seen of another one does not count.
    pub revision: u64,
    /// Whether it is used at all.
    pub health: Health,
    /// 401s in a row.
    pub strikes: u32,
    /// The class of the newest failure that was counted.
    pub last: Option<Class>,
    /// What it is left alone for.
    pub cooling: BTreeMap<Scope, Cooling>,
    /// When its token ends, where it is one and that is known.
    pub expires: Option<Instant>,
    /// How the refresh of its token stands.
    pub refresh: Refresh,
    /// Counts the refreshes; it never goes back, so that no two are taken for one.
    pub attempt: u32,
    /// Refreshes that were lost since the newest one of which something is known.
    pub lost: u32,
}

/// Whether a profile may be used for a model now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Ready,
    /// By whoever asks the owner first.
    HalfOpen,
    /// Not before then.
    Cooling {
        /// Then.
        until: Instant,
        /// Why.
        class: Class,
    },
    /// Not at all.
    Dead(Death),
}

impl Profile {
    /// One of which nothing was seen.
    #[must_use]
    pub fn new(kind: Kind, by: Actor, revision: u64) -> Self {
        let (health, cooling, refresh) = (Health::Alive, BTreeMap::new(), Refresh::Idle);
        let (strikes, last, expires, attempt, lost) = (0, None, None, 0, 0);
        Self { kind, by, revision, health, strikes, last, cooling, expires, refresh, attempt, lost }
    }

    /// The same with another secret, or as if nothing had been seen of this one.
    pub(super) fn anew(&self, revision: u64, expires: Option<Instant>) -> Self {
        let Self { kind, by, attempt, .. } = *self;
        Self { attempt, expires, ..Self::new(kind, by, revision) }
    }

    /// Whether nothing was seen that speaks against it.
    #[must_use]
    pub fn is_unmarked(&self) -> bool {
        self.health == Health::Alive
            && self.strikes == 0
            && self.cooling.is_empty()
            && !matches!(self.refresh, Refresh::Failed { .. })
    }

    /// The cool-downs that a call of this model meets.
    pub(super) fn met(&self, model: &str) -> impl Iterator<Item = &Cooling> {
        let model = Scope::Model(model.to_owned());
        self.cooling
            .iter()
            .filter(move |(scope, _)| **scope == Scope::Profile || **scope == model)
            .map(|(_, cooling)| cooling)
    }

    /// Whether a success of this model would clear something.
    #[must_use]
    pub fn is_marked_for(&self, model: &str) -> bool {
        self.strikes > 0 || self.met(model).next().is_some()
    }

    /// Whether it may be used for a model now.
    #[must_use]
    pub fn standing(&self, model: &str, now: Instant) -> Standing {
        if let Health::Dead { reason, .. } = self.health {
            return Standing::Dead(reason);
        }
        let ends = |cooling: &Cooling| {
            cooling.probe.map_or(cooling.until, |probe| probe.max(cooling.until))
        };
        let met = self.met(model).max_by_key(|cooling| ends(cooling));
        let stuck = self.stuck(now).filter(|until| met.is_none_or(|met| ends(met) < *until));
        match (met, stuck) {
            (_, Some(until)) => Standing::Cooling { until, class: Class::AuthExpired },
            (None, None) => Standing::Ready,
            (Some(cooling), None) if ends(cooling) <= now => Standing::HalfOpen,
            (Some(cooling), None) => {
                Standing::Cooling { until: ends(cooling), class: cooling.class }
            }
        }
    }

    /// What was held against the old token does not count for the new one; what the account used up does.
    pub(super) fn renew(&mut self, refreshed: &Refreshed) {
        (self.revision, self.expires, self.strikes) = (refreshed.revision, refreshed.expires, 0);
        let is_key = |class| matches!(class, Class::AuthExpired | Class::AuthInvalid);
        self.cooling.retain(|_, cooling| !is_key(cooling.class));
    }

    pub(super) fn cool(&mut self, cooled: &Cooled) {
        let Cooled { since, until, class, .. } = *cooled;
        self.last = Some(class);
        self.cooling.insert(cooled.scope.clone(), Cooling { since, until, class, probe: None });
        while self.cooling.len() > COOLING_MAX {
            let first = self.cooling.iter().min_by_key(|(_, cooling)| cooling.until);
            let Some(scope) = first.map(|(scope, _)| scope.clone()) else { return };
            self.cooling.remove(&scope);
        }
    }

    pub(super) fn probe(&mut self, probed: &Probed) {
        for scope in [Scope::Profile, Scope::Model(probed.model.clone())] {
            if let Some(cooling) = self.cooling.get_mut(&scope) {
                cooling.probe = Some(probed.until);
            }
        }
    }

    pub(super) fn recover(&mut self, model: &str) {
        self.strikes = 0;
        self.cooling.remove(&Scope::Profile);
        self.cooling.remove(&Scope::Model(model.to_owned()));
    }
}
