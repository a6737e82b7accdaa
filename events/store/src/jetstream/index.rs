//! What is known of a shard without reading its commits again: wakes, the newest epoch of each partition, counts and
//! the hash over the order. Folded from the headers of the shard's own messages, in order; it can be thrown away.

use super::message::Columns;
use crate::Due;
use crate::wakes::Wakes;
use events::id::Partition;
use events::journal::rolling;
use events::quantity::Instant;
use events::record::{Epoch, Hash};
use std::collections::BTreeMap;

/// A message came out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) after: u64,
    pub(super) found: u64,
}

/// One shard. It grows with the streams that wait for something, not with those that exist.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The newest sequence that was taken in.
    pub(super) sequence: u64,
    pub(super) rolling: Hash,
    pub(super) entries: u64,
    pub(super) streams: u64,
    wakes: Wakes,
    epochs: BTreeMap<Partition, Epoch>,
}

impl Index {
    /// Takes in the next message; one that was taken in before changes nothing.
    pub(super) fn fold(&mut self, sequence: u64, columns: &Columns) -> Result<(), Gap> {
        if sequence <= self.sequence {
            return Ok(());
        }
        if sequence != self.sequence.saturating_add(1) {
            return Err(Gap { after: self.sequence, found: sequence });
        }
        let Columns { stream, hash, first, last, epoch, wake, id: _, boot: _ } = columns;
        let partition = stream.partition();
        self.sequence = sequence;
        self.rolling = rolling(self.rolling, sequence, *hash);
        let entries = last.0.saturating_sub(first.0).saturating_add(1);
        self.entries = self.entries.saturating_add(entries);
        if first.0 == 1 {
            self.streams = self.streams.saturating_add(1);
        }
        let seen = self.epochs.entry(partition).or_default();
        *seen = (*seen).max(*epoch);
        self.wakes.set(stream, *wake);
        Ok(())
    }

    /// The highest epoch that was seen in a partition.
    pub(super) fn epoch(&self, partition: Partition) -> Epoch {
        self.epochs.get(&partition).copied().unwrap_or_default()
    }

    pub(super) fn due(
        &self,
        partition: Partition,
        before: Instant,
        page: usize,
        after: Option<&Due>,
    ) -> Vec<Due> {
        self.wakes.due(partition, before, page, after)
    }

    pub(super) fn next_wake(&self, partition: Partition, after: Instant) -> Option<Instant> {
        self.wakes.next(partition, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::record::{Boot, CommitId, StreamKey, StreamKind, Version};

    fn columns(name: &str, first: u64, epoch: u64, wake: Option<i64>) -> Columns {
        Columns {
            stream: StreamKey::named(StreamKind::Probe, name),
            id: CommitId(1),
            hash: Hash([7; 32]),
            first: Version(first),
            last: Version(first + 1),
            epoch: Epoch(epoch),
            boot: Boot(1),
            wake,
        }
    }

    #[test]
    fn the_newest_message_of_a_stream_decides_and_a_repeat_changes_nothing() {
        let mut index = Index::default();
        let partition = columns("a", 1, 1, None).stream.partition();
        assert_eq!(index.fold(1, &columns("a", 1, 4, Some(0))), Ok(()));
        assert_eq!(index.due(partition, Instant(0), 9, None).len(), 1);
        assert_eq!(index.fold(2, &columns("a", 3, 3, Some(900))), Ok(()));
        assert_eq!(index.due(partition, Instant(0), 9, None), []);
        assert_eq!(index.next_wake(partition, Instant(0)), Some(Instant(900)));
        assert_eq!((index.streams, index.entries, index.epoch(partition)), (1, 4, Epoch(4)));
        let rolling = index.rolling;
        assert_eq!(index.fold(1, &columns("a", 1, 4, Some(0))), Ok(()));
        assert_eq!((index.rolling, index.sequence), (rolling, 2));
        assert_eq!(index.fold(3, &columns("a", 5, 3, None)), Ok(()));
        assert_eq!(index.next_wake(partition, Instant(0)), None);
    }

    #[test]
    fn a_gap_is_told_and_not_folded() {
        let mut index = Index::default();
        assert_eq!(index.fold(1, &columns("a", 1, 1, None)), Ok(()));
        let gap = Gap { after: 1, found: 3 };
        assert_eq!(index.fold(3, &columns("a", 3, 1, None)), Err(gap));
        assert_eq!(index.sequence, 1);
    }
}
