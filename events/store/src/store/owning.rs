//! Who may write where, and what is known of the servers: the questions whose answers differ between a file, which has
//! one owner, and a cluster, where each partition has its own.

use super::{Backend, Store};
use crate::jetstream::Sync;
use crate::owner::next_epoch;
use crate::{StoreError, memory};
use events::id::Partition;
use events::record::{Epoch, Shard, StreamKey};

impl Store {
    /// Under which epoch this handle writes to a partition; stands in its commits. Zero when it does not own it: an
    /// append is then fenced. One who owns a whole file has one epoch for all.
    #[must_use]
    pub fn epoch(&self, partition: Partition) -> Epoch {
        self.owner.epoch(partition)
    }

    /// Becomes the owner of a partition, under an epoch above the one of its last `lease` and above every one that
    /// stands in its commits. The lease says who should own: take it first. Owning twice never lowers the epoch. One
    /// who owns a whole file owns all of it already, and is told its epoch.
    ///
    /// # Errors
    ///
    /// When the commits of the partition could not all be seen; nothing is owned then.
    pub async fn own(&self, partition: Partition, lease: Epoch) -> Result<Epoch, StoreError> {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) => Ok(self.epoch(partition)),
            Backend::JetStream(jetstream) => {
                let seen = Box::pin(jetstream.epoch_seen(partition)).await?;
                Ok(self.owner.take(partition, next_epoch(lease, seen)))
            }
        }
    }

    /// Stops owning a partition: later appends of this handle and its clones are fenced. What is under way may still
    /// land; the next owner's first commit ends that. One who owns a whole file goes on owning it.
    pub fn release(&self, partition: Partition) {
        self.owner.release(partition);
    }

    /// The highest epoch that stands in a partition's commits; of a whole file, its own.
    ///
    /// # Errors
    ///
    /// When they could not all be seen.
    pub async fn epoch_seen(&self, partition: Partition) -> Result<Epoch, StoreError> {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) => Ok(self.epoch(partition)),
            Backend::JetStream(jetstream) => Box::pin(jetstream.epoch_seen(partition)).await,
        }
    }

    /// The shards of the journal, in order: each is followed by itself, and there is no order across them.
    #[must_use]
    pub fn shards(&self) -> Vec<Shard> {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) => vec![memory::SHARD],
            Backend::JetStream(jetstream) => jetstream.shards(),
        }
    }

    /// The shard that a stream stands in.
    #[must_use]
    pub fn shard(&self, stream: &StreamKey) -> Shard {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) => memory::SHARD,
            Backend::JetStream(jetstream) => jetstream.shard_of(stream),
        }
    }

    /// The newest sequence of a shard, as whoever keeps it has it now. A [`Store::notice`] is only what this node knows.
    ///
    /// # Errors
    ///
    /// When nobody says.
    pub async fn newest(&self, shard: Shard) -> Result<u64, StoreError> {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) => Ok(*self.notice(shard).borrow()),
            Backend::JetStream(jetstream) => Box::pin(jetstream.newest(shard)).await,
        }
    }

    /// What is proved about what is acknowledged being on a disk.
    #[must_use]
    pub fn sync(&self) -> Sync {
        match &self.backend {
            // A file is not opened unless its settings say so.
            Backend::Memory(_) | Backend::Sqlite(_) => Sync::Proved,
            Backend::JetStream(jetstream) => jetstream.sync(),
        }
    }

    /// Connections to a cluster that were given up after a long outage, with all that they still held.
    #[must_use]
    pub fn connections_given_up(&self) -> u64 {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) => 0,
            Backend::JetStream(jetstream) => jetstream.connections_given_up(),
        }
    }
}
