//! Who owns which partition: where each belongs, the lease that says who should, and until when an effect may leave.
//!
//! A lease says who *should* write; the slot and epoch check inside the append says who *may*. The rules are
//! pure functions of what a node has seen, so that the same code runs in a node and in the model check; [`bucket`] and
//! [`keeper`] do what they say.

pub mod bucket;
pub mod dispatch;
pub mod guard;
pub mod keeper;
pub mod lease;
pub mod mandate;
pub mod member;
pub mod node_name;
pub mod owners;
pub mod place;
mod tally;

pub use node_name::{NodeName, NotANodeName};

use events::quantity::Millis;
use serde::{Deserialize, Serialize};

/// Milliseconds since the machine started, its sleep included (`CLOCK_BOOTTIME`): what leases are counted in.
///
/// The wall clock may be set and the monotonic one stands still while a machine sleeps; either would let a node
/// believe in a lease that ended long ago.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Uptime(pub u64);

impl Uptime {
    /// This time and `wait` more; saturates at the end of time.
    #[must_use]
    pub fn after(self, wait: Millis) -> Self {
        Self(self.0.saturating_add(wait.0))
    }
}
