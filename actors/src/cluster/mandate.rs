//! What hosts and effects ask about this node's right to act for a partition.
//!
//! A node alone has it for ever: the store's lock proves that no former process lives. A node of a cluster has it until
//! its lease must be taken as lost; and what a former owner began may still take effect for a while, for that one may
//! only be stopped and not dead.

use super::Uptime;
use super::bucket::uptime;
use super::dispatch::{DISPATCH_WINDOW, Horizon};
use super::keeper::Owns;
use events::id::Partition;
use events::quantity::Millis;
use events::record::Boot;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::watch;

/// A node's right to act, by partition. Clones are the same.
#[derive(Debug, Clone)]
pub struct Mandate(Option<Arc<Leased>>);

#[derive(Debug, Default)]
struct Leased {
    /// Set once the node has joined; before that it owns nothing.
    owns: OnceLock<watch::Receiver<Arc<Owns>>>,
    /// The life before this one in the same folder, if any: its lock was free, so it is over.
    dead: OnceLock<Option<Boot>>,
    // A std lock: it is held over no await.
    taken: Mutex<BTreeMap<Partition, Uptime>>,
}

impl Mandate {
    /// Of a node whose journal is its own.
    #[must_use]
    pub const fn alone() -> Self {
        Self(None)
    }

    /// Of a node of a cluster; over everywhere until [`Self::joined`] is said.
    #[must_use]
    pub fn leased() -> Self {
        Self(Some(Arc::default()))
    }

    /// From now on `owns` says what this node has leases of. `dead` is a life that is over for sure.
    pub fn joined(&self, owns: watch::Receiver<Arc<Owns>>, dead: Option<Boot>) {
        if let Self(Some(leased)) = self {
            // A node joins once.
            let _again = (leased.owns.set(owns), leased.dead.set(dead));
        }
    }

    /// A partition was taken just now.
    pub fn took(&self, partition: Partition) {
        if let Self(Some(leased)) = self {
            leased.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, uptime());
        }
    }

    /// Until when this node may act for a partition.
    #[must_use]
    pub fn horizon(&self, partition: Partition) -> Horizon {
        let Self(Some(leased)) = self else { return Horizon::Embedded };
        let owned = leased.owns.get().and_then(|owns| owns.borrow().get(&partition).copied());
        owned.map_or(Horizon::Over, |owned| owned.horizon)
    }

    /// When what `former` intended before this node took the partition can not take effect any more, if that is still to
    /// come: it began within its window or never, and `lasts` no longer.
    #[must_use]
    pub fn settles(&self, partition: Partition, former: Boot, lasts: Millis) -> Option<Uptime> {
        let Self(Some(leased)) = self else { return None };
        if leased.dead.get().is_some_and(|dead| *dead == Some(former)) {
            return None;
        }
        let taken = leased.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = taken.get(&partition)?.after(DISPATCH_WINDOW).after(lasts);
        (uptime() < settled).then_some(settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::keeper::Owned;
    use events::record::Epoch;

    const LASTS: Millis = Millis(60_000);

    #[test]
    fn a_node_alone_may_act_for_ever_and_waits_for_nobody() {
        let (alone, partition) = (Mandate::alone(), Partition::of(3));
        alone.took(partition);
        assert_eq!(alone.horizon(partition), Horizon::Embedded);
        assert_eq!(alone.settles(partition, Boot(7), LASTS), None);
    }

    #[test]
    fn a_node_of_a_cluster_may_act_while_its_lease_holds() {
        let (mandate, partition) = (Mandate::leased(), Partition::of(3));
        assert_eq!(mandate.horizon(partition), Horizon::Over, "it has not joined");
        let (shows, owns) = watch::channel(Arc::new(Owns::new()));
        mandate.joined(owns, None);
        assert_eq!(mandate.horizon(partition), Horizon::Over);
        let horizon = Horizon::Until(Uptime(9));
        let owned = Owned { epoch: Epoch(1), horizon, draining: false };
        shows.send_replace(Arc::new([(partition, owned)].into()));
        assert_eq!(mandate.horizon(partition), horizon);
        assert_eq!(mandate.horizon(Partition::of(4)), Horizon::Over);
    }

    #[test]
    fn what_a_former_owner_intended_settles_after_its_window_and_its_time() {
        let (mandate, partition) = (Mandate::leased(), Partition::of(3));
        mandate.joined(watch::channel(Arc::default()).1, Some(Boot(7)));
        let before = uptime();
        mandate.took(partition);
        let settles = mandate.settles(partition, Boot(8), LASTS).unwrap();
        assert!(
            settles >= before.after(Millis(62_000)) && settles <= uptime().after(Millis(62_000))
        );
        assert_eq!(mandate.settles(partition, Boot(7), LASTS), None, "that one is dead");
        // Long ago, as far as that one can matter: the machine has been up for longer.
        let long_ago = Uptime(uptime().0.saturating_sub(62_000));
        let Mandate(Some(leased)) = &mandate else { panic!() };
        leased.taken.lock().unwrap().insert(partition, long_ago);
        assert_eq!(mandate.settles(partition, Boot(8), LASTS), None);
    }
}
