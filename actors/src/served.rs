//! Which partitions this node serves, and which of them somebody else has written to since.

use events::id::Partition;
use events::record::Epoch;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// A set of partitions, a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Served(u64);

impl Served {
    /// None of them: a node of a cluster, before it holds a lease.
    pub const NONE: Self = Self(0);
    /// All of them: a node that owns its journal alone.
    pub const ALL: Self = Self(u64::MAX);

    fn bit(partition: Partition) -> u64 {
        1 << (partition.number() % 64)
    }

    /// Whether the partition is in it.
    #[must_use]
    pub fn contains(self, partition: Partition) -> bool {
        self.0 & Self::bit(partition) != 0
    }

    /// The set with one partition more.
    #[must_use]
    pub fn with(self, partition: Partition) -> Self {
        Self(self.0 | Self::bit(partition))
    }

    /// The set without it.
    #[must_use]
    pub fn without(self, partition: Partition) -> Self {
        Self(self.0 & !Self::bit(partition))
    }

    /// How many there are, 0 to 64.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Those in it, in order.
    pub fn iter(self) -> impl Iterator<Item = Partition> {
        Partition::all().filter(move |partition| self.contains(*partition))
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Partition::number)).finish()
    }
}

/// The highest epoch of another owner that an append of this node met, by partition. Clones are the same list.
///
/// An owner whose lease is good raises its epoch above it and goes on; without a lease nothing is to be done.
#[derive(Debug, Clone)]
pub struct Fences(Arc<watch::Sender<BTreeMap<Partition, Epoch>>>);

impl Fences {
    /// None was met.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    /// An append was fenced.
    pub(crate) fn met(&self, partition: Partition, epoch: Epoch) {
        self.0.send_if_modified(|met| {
            let highest = met.entry(partition).or_default();
            let higher = epoch > *highest;
            *highest = epoch.max(*highest);
            higher
        });
    }

    /// What was met, and each change of it.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<BTreeMap<Partition, Epoch>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_not_taken_out() {
        for partition in Partition::all() {
            assert!(Served::ALL.contains(partition) && !Served::NONE.contains(partition));
            assert_eq!(Served::NONE.with(partition).iter().collect::<Vec<_>>(), [partition]);
            let without = Served::ALL.without(partition);
            assert_eq!((without.count(), without.contains(partition)), (63, false));
        }
        let all = Partition::all().fold(Served::NONE, Served::with);
        assert_eq!((all, all.count()), (Served::ALL, 64));
    }

    #[test]
    fn only_a_higher_epoch_is_news() {
        let (fences, partition) = (Fences::none(), Partition::of(3));
        let mut seen = fences.watch();
        fences.met(partition, Epoch(4));
        assert!(seen.has_changed().unwrap());
        assert_eq!(seen.borrow_and_update().get(&partition), Some(&Epoch(4)));
        fences.met(partition, Epoch(3));
        assert!(!seen.has_changed().unwrap());
        assert_eq!(seen.borrow().get(&partition), Some(&Epoch(4)));
    }
}
