//! How one profile fares: alive or dead, and what it is left alone for.

use super::{COOLING_MAX, Cooled, Probed};
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
        let (health, cooling) = (Health::Alive, BTreeMap::new());
        Self { kind, by, revision, health, strikes: 0, last: None, cooling }
    }

    /// Whether nothing was seen that speaks against it.
    #[must_use]
    pub fn is_unmarked(&self) -> bool {
        self.health == Health::Alive && self.strikes == 0 && self.cooling.is_empty()
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
        match self.met(model).max_by_key(|cooling| ends(cooling)) {
            None => Standing::Ready,
            Some(cooling) if ends(cooling) <= now => Standing::HalfOpen,
            Some(cooling) => Standing::Cooling { until: ends(cooling), class: cooling.class },
        }
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
