//! The handle that everybody holds: one contract, the backends behind it, faults around it.

mod owning;

use crate::backup::BackupError;
use crate::fault::{Faults, Next, Point};
use crate::jetstream::{Connect, ConnectError, JetStream};
use crate::memory::{self, Memory};
use crate::owner::{NOBODY, Owner};
use crate::slot::Candidate;
use crate::snapshot::SNAPSHOT_BYTES_MAX;
use crate::sqlite::Sqlite;
use crate::{
    Append, Appended, Blob, Due, FollowError, OpenError, Outage, Snapshot, Stats, StoreError,
    follow, metric, verify,
};
use events::aggregate::Wake;
use events::record::{
    BlobRef, Boot, Entry, JournalId, Payload, Recorded, Shard, StreamKey, Tail, Version,
};
use events::{id::Partition, quantity::Instant};
use futures_util::Stream;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::watch;

/// A handle on a journal; clone it freely.
///
/// Dropping an `append` that is under way leaves its outcome unknown: what was handed over is still written.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Backend,
    journal: JournalId,
    owner: Owner,
    boot: Boot,
    faults: Faults,
}

/// A closed set.
///
/// What is asked of a cluster is boxed: its futures are large, and a host that only knows a file would carry them.
#[derive(Debug, Clone)]
enum Backend {
    Memory(Arc<Memory>),
    Sqlite(Sqlite),
    JetStream(JetStream),
}

/// How to open a journal file.
#[derive(Debug, Clone)]
pub struct Open {
    /// The database file; made when it does not exist. Its folder must.
    pub path: PathBuf,
    /// This life of the process.
    pub boot: Boot,
    /// The name that a new journal gets; an existing one has its own.
    pub fresh: JournalId,
    /// What may go wrong on purpose.
    pub faults: Faults,
}

impl Store {
    /// An empty journal in memory, for tests.
    #[must_use]
    pub fn memory(boot: Boot, journal: JournalId, faults: Faults) -> Self {
        let memory = Memory::new(journal);
        let owner = Owner::Whole(memory.next_epoch());
        Self { backend: Backend::Memory(Arc::new(memory)), journal, owner, boot, faults }
    }

    /// Opens a journal file and becomes its owner, with an epoch above every one before. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; each says what to do.
    pub fn open(open: Open) -> Result<Self, OpenError> {
        let Open { path, boot, fresh, faults } = open;
        let (sqlite, epoch) = Sqlite::open(&path, fresh)?;
        let journal = sqlite.journal();
        let owner = Owner::Whole(epoch);
        Ok(Self { backend: Backend::Sqlite(sqlite), journal, owner, boot, faults })
    }

    /// Opens a journal on a NATS cluster, or makes it. Owns no partition of it yet: see [`Store::own`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; each says what to do.
    pub async fn connect(connect: Connect) -> Result<Self, ConnectError> {
        let jetstream = JetStream::open(&connect).await?;
        let Connect { boot, faults, .. } = connect;
        let (journal, owner) = (jetstream.journal(), Owner::of_nothing());
        Ok(Self { backend: Backend::JetStream(jetstream), journal, owner, boot, faults })
    }

    /// The next owner of the same journal in the same process: the epoch of all that this one owns rises, as at an
    /// open. Once it has written to a stream, this handle is fenced there.
    #[must_use]
    pub fn successor(&self, boot: Boot, faults: Faults) -> Self {
        let owner = self.owner.successor(|| match &self.backend {
            Backend::Memory(memory) => memory.next_epoch(),
            Backend::Sqlite(sqlite) => sqlite.next_epoch(),
            Backend::JetStream(_) => NOBODY,
        });
        Self { backend: self.backend.clone(), journal: self.journal, owner, boot, faults }
    }

    /// Which journal it is.
    #[must_use]
    pub fn journal(&self) -> JournalId {
        self.journal
    }

    /// Which life of that owner.
    #[must_use]
    pub fn boot(&self) -> Boot {
        self.boot
    }

    /// What may go wrong on purpose.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The tail of a stream without commits: version 0, and what its first commit links to.
    #[must_use]
    pub fn empty_tail(&self, stream: &StreamKey) -> Tail {
        memory::empty_tail(self.journal, stream)
    }

    /// Appends a commit, all of it or nothing. Waits for room while the queue is full, then for the disk.
    ///
    /// The answer never comes before the commit is durable. See [`Appended`] for what each one asks of the caller.
    pub async fn append(&self, append: Append) -> Appended {
        let (candidate, commit) = match Candidate::new(append, self.journal) {
            Ok(prepared) => prepared,
            Err(malformed) => return Appended::Malformed(malformed),
        };
        let before = self.faults.at(Point::BeforeCommit).await;
        if before == Next::Fail {
            return Appended::Unknown(injected());
        }
        if let Some(outage) = self.faults.outage() {
            return Appended::Unknown(outage);
        }
        let appended = match &self.backend {
            Backend::Memory(memory) => memory.append(candidate, commit),
            Backend::Sqlite(sqlite) => sqlite.append(candidate).await,
            Backend::JetStream(jetstream) => {
                let partition = candidate.stream.partition();
                if self.owner.lets(partition, candidate.epoch) {
                    Box::pin(jetstream.append(candidate)).await
                } else {
                    Box::pin(jetstream.refuse(candidate, self.epoch(partition))).await
                }
            }
        };
        count(&appended);
        match (before, self.faults.at(Point::BeforeReply).await) {
            (_, Next::Fail) => Appended::Unknown(injected()),
            (Next::LoseReply, _) | (_, Next::LoseReply) => Appended::Unknown(Outage::Lost),
            (Next::GoOn | Next::Fail, Next::GoOn) => appended,
        }
    }

    /// A stream's commits that end after a version, oldest first, at most `commits_max`. Checked: each one's bytes
    /// against its hash, its columns, its link to the one before, and the last one against the stream's head.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when a check fails; others when the backend does not answer.
    pub async fn read(
        &self,
        stream: &StreamKey,
        after: Version,
        commits_max: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.read(stream, after, commits_max)),
            Backend::Sqlite(sqlite) => sqlite.read(stream, after, commits_max).await,
            Backend::JetStream(jetstream) => {
                Box::pin(jetstream.read(stream, after, commits_max)).await
            }
        }
    }

    /// The newest commit of a stream; [`Store::empty_tail`] when it has none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when the head and its commit disagree; others when the backend does not answer.
    pub async fn tail(&self, stream: &StreamKey) -> Result<Tail, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.tail(stream)),
            Backend::Sqlite(sqlite) => sqlite.tail(stream).await,
            Backend::JetStream(jetstream) => Box::pin(jetstream.tail(stream)).await,
        }
    }

    /// An entry's payload, wherever it stands.
    ///
    /// # Errors
    ///
    /// As [`Store::blob`].
    pub async fn payload(&self, entry: &Entry) -> Result<Arc<[u8]>, StoreError> {
        match &entry.payload {
            Payload::Inline(bytes) => Ok(bytes.clone()),
            Payload::Blob(blob) => self.blob(blob).await,
        }
    }

    /// A blob's bytes, checked against its name.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoBlob`], [`StoreError::Erased`], [`StoreError::Corrupt`]; others when the backend does not
    /// answer.
    pub async fn blob(&self, blob: &BlobRef) -> Result<Arc<[u8]>, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => memory.blob(blob),
            Backend::Sqlite(sqlite) => sqlite.blob(*blob).await,
            Backend::JetStream(jetstream) => Box::pin(jetstream.blob(blob)).await,
        }
    }

    /// Keeps a blob that no commit refers to yet, so that what is too large for a message can be named in one. Keeping
    /// it again changes nothing; an erased one comes back.
    ///
    /// # Errors
    ///
    /// When it did not land; it may be tried again.
    pub async fn put_blob(&self, blob: Blob) -> Result<(), StoreError> {
        match &self.backend {
            Backend::Memory(memory) => {
                memory.put_blob(blob);
                Ok(())
            }
            Backend::Sqlite(sqlite) => sqlite.put_blob(blob).await,
            Backend::JetStream(jetstream) => Box::pin(jetstream.put_blob(&blob)).await,
        }
    }

    /// Forgets a blob's bytes for good; its name stays, so that a reader is told [`StoreError::Erased`]. Erasing
    /// what is not stored changes nothing.
    ///
    /// # Errors
    ///
    /// When it did not land; it may be tried again.
    pub async fn erase_blob(&self, blob: &BlobRef) -> Result<(), StoreError> {
        match &self.backend {
            Backend::Memory(memory) => {
                memory.erase_blob(blob);
                Ok(())
            }
            Backend::Sqlite(sqlite) => sqlite.erase_blob(*blob).await,
            Backend::JetStream(jetstream) => Box::pin(jetstream.erase_blob(blob)).await,
        }
    }

    /// Keeps the stream's newest snapshot, in place of the one before.
    ///
    /// # Errors
    ///
    /// [`StoreError::SnapshotTooLarge`]; others when it did not land. Nothing is lost but time.
    pub async fn put_snapshot(
        &self,
        stream: &StreamKey,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        let bytes = snapshot.bytes.len();
        if bytes > SNAPSHOT_BYTES_MAX {
            return Err(StoreError::SnapshotTooLarge { bytes, max: SNAPSHOT_BYTES_MAX });
        }
        match &self.backend {
            Backend::Memory(memory) => {
                memory.put_snapshot(stream, snapshot);
                Ok(())
            }
            Backend::Sqlite(sqlite) => sqlite.put_snapshot(stream, snapshot).await,
            Backend::JetStream(jetstream) => {
                Box::pin(jetstream.put_snapshot(stream, snapshot)).await
            }
        }
    }

    /// The stream's snapshot of this shape, if it fits: its hash is the hash of the commit that ends at its
    /// version, and its bytes are as they were written. One that does not fit is dropped.
    ///
    /// # Errors
    ///
    /// When the backend does not answer.
    pub async fn snapshot(
        &self,
        stream: &StreamKey,
        fold: u32,
    ) -> Result<Option<Snapshot>, StoreError> {
        let found = match &self.backend {
            Backend::Memory(memory) => memory.snapshot(stream),
            Backend::Sqlite(sqlite) => sqlite.snapshot(stream).await?,
            Backend::JetStream(jetstream) => Box::pin(jetstream.snapshot(stream)).await?,
        };
        let Some((snapshot, checksum, at)) = found else { return Ok(None) };
        if snapshot.fold != fold {
            return Ok(None);
        }
        if at != Some(snapshot.hash) || checksum != snapshot.checksum() {
            tracing::warn!(%stream, version = snapshot.version.0, "snapshot does not fit its stream");
            metrics::counter!(metric::SNAPSHOTS_DROPPED).increment(1);
            return Ok(None);
        }
        Ok(Some(snapshot))
    }

    /// A partition's streams to look at: first those that wake now, then those whose time is at most `before`,
    /// oldest first. At most `page` of them, those after `after`.
    ///
    /// # Errors
    ///
    /// When the backend does not answer.
    pub async fn due(
        &self,
        partition: Partition,
        before: Instant,
        page: usize,
        after: Option<&Due>,
    ) -> Result<Vec<Due>, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.due(partition, before, page, after)),
            Backend::Sqlite(sqlite) => sqlite.due(partition, before, page, after).await,
            Backend::JetStream(jetstream) => {
                Box::pin(jetstream.due(partition, before, page, after)).await
            }
        }
    }

    /// The earliest time after `after` at which a stream of the partition falls due.
    ///
    /// # Errors
    ///
    /// When the backend does not answer.
    pub async fn next_wake(
        &self,
        partition: Partition,
        after: Instant,
    ) -> Result<Option<Instant>, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.next_wake(partition, after)),
            Backend::Sqlite(sqlite) => sqlite.next_wake(partition, after).await,
            Backend::JetStream(jetstream) => Box::pin(jetstream.next_wake(partition, after)).await,
        }
    }

    /// Every commit of a shard after a sequence, in order, then new ones as they come, without end. Ends only with
    /// an error: it may be called again with the last sequence that was handled.
    pub fn follow(
        &self,
        shard: Shard,
        after: u64,
    ) -> impl Stream<Item = Result<Recorded, FollowError>> + Send + use<> {
        follow::follow(self.clone(), shard, after)
    }

    /// The newest sequence of a shard. A change only means "look again from your cursor"; it may come late.
    #[must_use]
    pub fn notice(&self, shard: Shard) -> watch::Receiver<u64> {
        let notice = match &self.backend {
            Backend::Memory(memory) => (shard == memory::SHARD).then(|| memory.notice()),
            Backend::Sqlite(sqlite) => (shard == memory::SHARD).then(|| sqlite.notice()),
            Backend::JetStream(jetstream) => jetstream.notice(shard),
        };
        // Of no shard: its sender is gone, so whoever waits is told at once.
        notice.unwrap_or_else(|| watch::channel(0).1)
    }

    pub(crate) async fn page(
        &self,
        shard: Shard,
        after: u64,
    ) -> Result<Vec<Recorded>, FollowError> {
        match &self.backend {
            Backend::JetStream(jetstream) => Box::pin(jetstream.page(shard, after)).await,
            Backend::Memory(_) | Backend::Sqlite(_) if shard != memory::SHARD => {
                Err(FollowError::NoShard(shard))
            }
            Backend::Memory(memory) => memory.page(after),
            Backend::Sqlite(sqlite) => sqlite.page(after).await,
        }
    }

    /// A durable write of the store's own: says whether appends would land now.
    ///
    /// # Errors
    ///
    /// Why they would not.
    pub async fn probe(&self) -> Result<(), Outage> {
        if let Some(outage) = self.faults.outage() {
            return Err(outage);
        }
        match &self.backend {
            Backend::Memory(_) => Ok(()),
            Backend::Sqlite(sqlite) => sqlite.probe().await,
            Backend::JetStream(jetstream) => Box::pin(jetstream.probe()).await,
        }
    }

    /// How much it holds.
    ///
    /// # Errors
    ///
    /// When the backend does not answer.
    pub async fn stats(&self) -> Result<Stats, StoreError> {
        match &self.backend {
            Backend::Memory(memory) => Ok(memory.stats()),
            Backend::Sqlite(sqlite) => sqlite.stats().await,
            Backend::JetStream(jetstream) => Box::pin(jetstream.stats()).await,
        }
    }

    /// Copies the journal while it is in use, then verifies the copy. `progress` is told pages done and in all.
    ///
    /// # Errors
    ///
    /// [`BackupError`]; nothing stands at `to` then.
    pub async fn backup(
        &self,
        to: &Path,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<verify::Report, BackupError> {
        match &self.backend {
            Backend::Memory(_) => Err(BackupError::Memory),
            Backend::JetStream(_) => Err(BackupError::Cluster),
            Backend::Sqlite(sqlite) => sqlite.backup(to, progress).await,
        }
    }

    /// Ends the store: what was handed over before is written and answered, later appends are unavailable through
    /// every handle, and the file's lock is free when this returns. A memory store goes on.
    pub async fn close(self) {
        match &self.backend {
            Backend::Memory(_) => {}
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::JetStream(jetstream) => jetstream.close(),
        }
    }

    /// Reads the whole of a journal on a cluster and reports what is not as it was written, as
    /// [`verify::verify`] does for a file. None for any other: a file is verified by its path, a memory has nothing
    /// to compare with.
    ///
    /// # Errors
    ///
    /// When it could not be read. Damage is no error: it stands in the report.
    pub async fn verify(
        &self,
        wake_of: impl Fn(&StreamKey, &[Recorded], verify::Payloads<'_>) -> Option<Wake> + Send + Sync,
    ) -> Result<Option<verify::Report>, StoreError> {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) => Ok(None),
            Backend::JetStream(jetstream) => Ok(Some(Box::pin(jetstream.verify(&wake_of)).await?)),
        }
    }
}

fn injected() -> Outage {
    Outage::Unavailable("a fault was injected".to_owned())
}

fn count(appended: &Appended) {
    match appended {
        Appended::Appended { .. } => metrics::counter!(metric::COMMITS).increment(1),
        Appended::Duplicate { .. } => metrics::counter!(metric::DUPLICATES).increment(1),
        Appended::Conflict { .. } => metrics::counter!(metric::CONFLICTS).increment(1),
        Appended::Fenced { .. } => metrics::counter!(metric::FENCED).increment(1),
        Appended::Unknown(_) => metrics::counter!(metric::UNKNOWN).increment(1),
        Appended::Malformed(_) => {}
    }
}
