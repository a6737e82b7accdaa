//! What must hold before a tool call may be intended: the node's hooks let it pass, every gate stands open, and, where
//! somebody has to agree, a standing grant covers it. One place that every path of a call crosses.
//!
//! It guards against a call that slips through because nobody could be asked: what does not answer says no. Nothing
//! here is remembered; what was found is recorded by whoever intends the call.

use crate::clock::Clock;
use crate::hooks::{Blocked, HookCall, Hooks};
use crate::order::{NoDecision, Observed};
use events::aggregate::Aggregate;
use events::gate::{Gates, Standing, Surfaces, Why};
use events::grant::{Grant, GrantId};
use events::id::RunId;
use events::json::Json;
use events::project::Project;
use events::quantity::Millis;
use futures_util::future::BoxFuture;
use std::fmt;

/// How long the owner of a project's streams is looked for (20 s): one that dies is replaced within a lease's 15 s.
const ASK_MAX: Millis = Millis(20_000);
/// The pause before it is asked again.
const PAUSE: Millis = Millis(200);

type See<A> = dyn Fn(Project) -> BoxFuture<'static, Result<Observed<A>, NoDecision>> + Send + Sync;

/// The way to the owner of one kind of a project's streams.
pub struct Way<A: Aggregate>(Box<See<A>>);

impl<A: Aggregate> Way<A> {
    /// A way that asks so.
    #[must_use]
    pub fn new(
        see: impl Fn(Project) -> BoxFuture<'static, Result<Observed<A>, NoDecision>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Box::new(see))
    }
}

impl<A: Aggregate> fmt::Debug for Way<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("kind", &A::KIND).finish_non_exhaustive()
    }
}

/// What must hold.
#[derive(Debug)]
pub struct Preconditions {
    /// What runs before every call.
    pub hooks: Hooks,
    /// What this node's configuration and environment say of gates.
    pub surfaces: Surfaces,
    /// To the owners of gates.
    pub gates: Way<Gates>,
    /// To the owners of standing grants.
    pub grants: Way<Grant>,
    /// What time it is.
    pub clock: Clock,
}

/// A gate that stood open, as an intent records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Its name.
    pub name: String,
    /// Its version then.
    pub version: u32,
}

/// A gate that did not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shut {
    /// It is closed. The message says how it opens.
    #[error("the gate {name} is closed: {why}")]
    Closed {
        /// Its name.
        name: String,
        /// Why.
        why: Why,
    },
    /// Nobody says whether it is open. Declare it in the configuration.
    #[error("nobody says whether the gate {0} is open: what it stands before never runs")]
    NoEvaluator(String),
    /// Its owner did not answer. Ask again later.
    #[error("whether the gate {name} is open could not be learned: {why}")]
    Unreached {
        /// Its name.
        name: String,
        /// Why not.
        why: NoDecision,
    },
}

impl Shut {
    /// Which gate.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Closed { name, .. } | Self::NoEvaluator(name) | Self::Unreached { name, .. } => {
                name
            }
        }
    }
}

impl Preconditions {
    /// Lets every hook of the node look at a call.
    ///
    /// # Errors
    ///
    /// [`Blocked`] by the first that does not let it pass, or can not say so.
    pub async fn hooked(&self, call: &HookCall<'_>) -> Result<(), Blocked> {
        self.hooks.pre_tool_use(call).await
    }

    /// Whether these gates stand open for a run, by the word of their owner.
    ///
    /// # Errors
    ///
    /// [`Shut`] for the first that does not.
    pub async fn passed(
        &self,
        (run, project): (RunId, &str),
        names: &[String],
    ) -> Result<Vec<Passed>, Shut> {
        let Some(first) = names.first() else { return Ok(vec![]) };
        let seen = self.see(&self.gates, project).await;
        let seen = seen.map_err(|why| Shut::Unreached { name: first.clone(), why })?;
        let stand = |name: &String| {
            let name = name.clone();
            match seen.state.stand_for(run, &name, &self.surfaces) {
                Standing::Open { version } => Ok(Passed { name, version }),
                Standing::Closed { why } => Err(Shut::Closed { name, why }),
                Standing::NoEvaluator => Err(Shut::NoEvaluator(name)),
            }
        };
        names.iter().map(stand).collect()
    }

    /// The standing grant that covers a call, if one does. One that can not be asked for covers nothing: somebody is
    /// asked then.
    pub async fn granted(&self, project: &str, tool: &str, arguments: &Json) -> Option<GrantId> {
        match self.see(&self.grants, project).await {
            Ok(seen) => seen.state.covers(tool, arguments, self.clock.now()),
            Err(why) => {
                tracing::warn!(project, tool, %why, "grants_unreached");
                None
            }
        }
    }

    async fn see<A: Aggregate>(
        &self,
        way: &Way<A>,
        project: &str,
    ) -> Result<Observed<A>, NoDecision> {
        let project = Project::of(project);
        let until = self.clock.now().after(ASK_MAX);
        loop {
            match (way.0)(project).await {
                Ok(seen) => return Ok(seen),
                Err(why) if self.clock.now() >= until => return Err(why),
                Err(_) => self.clock.pause(PAUSE).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
