//! On which terms a call may run: what the edge found when it judged the call. Frozen with the model's answer, so that a
//! replay depends on no registry, and kept by the intent, so that a reader of the journal needs nothing else.

use super::spec::ReplayClass;
use crate::quantity::Millis;
use serde::{Deserialize, Serialize};

/// The terms of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// What a restart may do.
    pub class: ReplayClass,
    /// How long it may take, from its intent on.
    pub timeout: Millis,
    /// Whether somebody has to agree first.
    pub consent: Consent,
    /// The gates that stood open when it was judged.
    pub gates: Vec<GateSeen>,
    /// For a call that goes through the broker: what its intent keeps.
    pub mediated: Option<Box<Mediated>>,
}

/// Whether somebody has to agree before a call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consent {
    /// Nobody.
    Free,
    /// Somebody, for this call.
    Needed,
    /// A standing grant covers it: this one.
    Granted(String),
    /// This approval of the run.
    Approved(super::approval::ApprovalNo),
}

/// A gate that was open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateSeen {
    /// Its name.
    pub name: String,
    /// Its version then.
    pub version: u32,
}

impl GateSeen {
    /// Whether what it guards writes something that is delivered.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.name.ends_with("_write")
    }
}

/// What an invocation keeps of the world it was asked in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mediated {
    /// The revision of whoever is asked, and of how it is configured here.
    pub revision: String,
    /// The only hosts it may reach; empty for a tool that reaches none, or has no limit of its own.
    pub hostnames: Vec<String>,
    /// What the caller was allowed then: the names of its roles.
    pub roles: Vec<String>,
    /// What the run works on.
    pub source: Source,
}

/// What a run works on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Which repository.
    pub repository: Option<String>,
    /// The commit that is checked out.
    pub commit: Option<String>,
    /// Its tree.
    pub tree: Option<String>,
    /// Whether that was read from the working folder; otherwise somebody said so.
    pub read: bool,
}

impl Terms {
    /// Those of a call that nobody has to agree to and that goes through no broker.
    #[must_use]
    pub const fn plain(class: ReplayClass, timeout: Millis) -> Self {
        Self { class, timeout, consent: Consent::Free, gates: vec![], mediated: None }
    }

    /// Whether it writes what is delivered.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.gates.iter().any(GateSeen::is_write)
    }
}
