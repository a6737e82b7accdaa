//! Leave to send: what an effect asks for immediately before its first byte.
//!
//! The fence inside the append stops a former owner's commits, but not what it is about to do in the world: that ends
//! by the clock. Whoever is refused has sent nothing, so its outcome is certain. Who answers is not known here: models
//! and tools are given the question and no more.

use crate::quantity::Millis;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// How long after its intent was on its way to the log an effect may still begin.
pub const DISPATCH_WINDOW: Millis = Millis(2_000);

/// Why an effect was not sent. Nothing of it left, so this is certain and not unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NotSent {
    /// It came too long after its intent: whoever took over may count it as lost by now.
    #[error("not sent: {} ms went by since its intent, the most is {}", waited.0, DISPATCH_WINDOW.0)]
    TooLate {
        /// How long after.
        waited: Millis,
    },
    /// This node's lease on the partition is over.
    #[error("not sent: the lease on the partition ended")]
    LeaseOver,
    /// It waited for its time, and what it was for was ended meanwhile.
    #[error("not sent: it was called off while it waited")]
    CalledOff,
}

impl NotSent {
    /// The word on wires, in logs and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TooLate { .. } => "too_late",
            Self::LeaseOver => "lease_over",
            Self::CalledOff => "called_off",
        }
    }
}

/// The question whether the first byte may leave now. Clones ask the same.
#[derive(Clone)]
pub struct Leave(Arc<dyn Fn() -> Result<(), NotSent> + Send + Sync>);

impl Leave {
    /// A question with this answer, which is worked out anew each time.
    #[must_use]
    pub fn new(ask: impl Fn() -> Result<(), NotSent> + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// Leave that is always given: nobody else could own what it is for.
    #[must_use]
    pub fn free() -> Self {
        Self::new(|| Ok(()))
    }

    /// Asks. The answer holds now and not later: between it and the write stands no await.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; report it as the outcome, and send nothing.
    pub fn ask(&self) -> Result<(), NotSent> {
        (self.0)()
    }
}

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leave").finish_non_exhaustive()
    }
}
