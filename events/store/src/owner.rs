//! Which epochs a handle writes under. One that owns a whole file has one for all partitions; on a cluster each
//! partition has its own, from the moment it is taken until it is let go.

use events::id::Partition;
use events::record::Epoch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Stands where nobody owns: no owner ever has it.
pub(crate) const NOBODY: Epoch = Epoch(0);

/// The epoch of a partition's next owner: above its last lease's and above every one that stands in a commit.
#[must_use]
pub fn next_epoch(lease: Epoch, seen: Epoch) -> Epoch {
    Epoch(lease.0.max(seen.0).saturating_add(1))
}

#[derive(Debug, Clone)]
pub(crate) enum Owner {
    Whole(Epoch),
    /// A std lock: it is held over no await.
    Parts(Arc<Mutex<BTreeMap<Partition, Epoch>>>),
}

impl Owner {
    /// Owns nothing yet.
    pub(crate) fn of_nothing() -> Self {
        Self::Parts(Arc::default())
    }

    /// The epoch of a partition; [`NOBODY`]'s when it is not owned.
    pub(crate) fn epoch(&self, partition: Partition) -> Epoch {
        match self {
            Self::Whole(epoch) => *epoch,
            Self::Parts(parts) => {
                let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                parts.get(&partition).copied().unwrap_or(NOBODY)
            }
        }
    }

    /// Whether a commit of this epoch may be tried: the partition is owned, and not under a later one.
    pub(crate) fn lets(&self, partition: Partition, epoch: Epoch) -> bool {
        match self {
            // The file's own check decides.
            Self::Whole(_) => true,
            Self::Parts(_) => {
                let owned = self.epoch(partition);
                owned != NOBODY && epoch >= owned
            }
        }
    }

    /// Takes a partition; never under a lower epoch than before.
    pub(crate) fn take(&self, partition: Partition, epoch: Epoch) -> Epoch {
        match self {
            Self::Whole(epoch) => *epoch,
            Self::Parts(parts) => {
                let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                let owned = parts.entry(partition).or_insert(epoch);
                *owned = (*owned).max(epoch);
                *owned
            }
        }
    }

    /// Lets a partition go.
    pub(crate) fn release(&self, partition: Partition) {
        match self {
            Self::Whole(_) => {}
            Self::Parts(parts) => {
                parts.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition);
            }
        }
    }

    /// The next owner of everything that this one owns.
    pub(crate) fn successor(&self, next: impl FnOnce() -> Epoch) -> Self {
        match self {
            Self::Whole(_) => Self::Whole(next()),
            Self::Parts(parts) => {
                let parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                let later = parts.iter().map(|(p, epoch)| (*p, next_epoch(*epoch, NOBODY)));
                Self::Parts(Arc::new(Mutex::new(later.collect())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_above_lease_and_commits_and_never_goes_back() {
        for lease in 0..5 {
            for seen in 0..5 {
                let next = next_epoch(Epoch(lease), Epoch(seen));
                assert!(next.0 > lease && next.0 > seen && next.0 == lease.max(seen) + 1);
            }
        }
        let owner = Owner::of_nothing();
        let part = Partition::of(3);
        assert_eq!(owner.take(part, Epoch(5)), Epoch(5));
        assert_eq!(owner.take(part, Epoch(4)), Epoch(5));
        assert_eq!(owner.take(part, Epoch(7)), Epoch(7));
    }

    #[test]
    fn what_is_not_owned_is_not_tried() {
        let owner = Owner::of_nothing();
        let (mine, other) = (Partition::of(3), Partition::of(4));
        assert!(!owner.lets(mine, Epoch(0)) && !owner.lets(mine, Epoch(9)));
        owner.take(mine, Epoch(5));
        assert!(!owner.lets(mine, Epoch(4)) && owner.lets(mine, Epoch(5)));
        assert!(!owner.lets(other, Epoch(5)));
        let later = owner.successor(|| NOBODY);
        assert_eq!((later.epoch(mine), later.epoch(other)), (Epoch(6), NOBODY));
        owner.release(mine);
        assert!(!owner.lets(mine, Epoch(9)) && later.lets(mine, Epoch(6)));
        assert!(Owner::Whole(Epoch(2)).lets(mine, Epoch(1)), "its file decides");
    }
}
