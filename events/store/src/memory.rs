//! The same contract in memory, for tests: gone with the process, and otherwise as strict as the file.

use crate::follow::{PAGE_BYTES, PAGE_COMMITS};
use crate::slot::{Candidate, Verdict};
use crate::wakes::Wakes;
use crate::{Appended, Blob, Due, FollowError, Malformed, Snapshot, Stats, StoreError};
use events::journal::{genesis, rolling};
use events::record::{
    BlobRef, Boot, Commit, CommitId, Epoch, Hash, JournalId, Position, Recorded, Shard, StreamKey,
    Tail, Version,
};
use events::{id::Partition, quantity::Instant};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

#[derive(Debug)]
struct Head {
    tail: Tail,
    /// Sequences of the stream's commits, oldest first.
    commits: Vec<u64>,
}

#[derive(Debug)]
struct Stored {
    recorded: Recorded,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Log {
    /// The commit of sequence n stands at n - 1.
    commits: Vec<Stored>,
    heads: BTreeMap<StreamKey, Head>,
    ids: BTreeMap<CommitId, u64>,
    wakes: Wakes,
    /// None is an erased one.
    blobs: BTreeMap<Hash, Option<Arc<[u8]>>>,
    snapshots: BTreeMap<StreamKey, (Snapshot, Hash)>,
    rolling: Hash,
    epoch: Epoch,
}

#[derive(Debug)]
pub(crate) struct Memory {
    journal: JournalId,
    /// A std lock: it is held over no await.
    log: Mutex<Log>,
    newest: watch::Sender<u64>,
}

pub(crate) const SHARD: Shard = Shard(0);

fn position(sequence: u64) -> Position {
    Position { shard: SHARD, sequence }
}

fn index(sequence: u64) -> usize {
    usize::try_from(sequence.saturating_sub(1)).unwrap_or(usize::MAX)
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The tail of a stream without commits.
pub(crate) fn empty_tail(journal: JournalId, stream: &StreamKey) -> Tail {
    let hash = genesis(journal, stream);
    Tail { version: Version::EMPTY, hash, epoch: Epoch(0), boot: Boot(0), sequence: 0 }
}

impl Log {
    fn tail(&self, journal: JournalId, stream: &StreamKey) -> Tail {
        self.heads.get(stream).map_or_else(|| empty_tail(journal, stream), |head| head.tail)
    }

    /// What stands under this commit id, if it is the candidate's very bytes, or is not.
    fn standing(&self, candidate: &Candidate) -> Option<Result<Appended, ()>> {
        let sequence = *self.ids.get(&candidate.id)?;
        let stored = self.commits.get(index(sequence))?;
        Some(if stored.recorded.hash == candidate.frame.hash {
            let version = stored.recorded.commit.last_version();
            Ok(Appended::Duplicate { position: position(sequence), version })
        } else {
            Err(())
        })
    }

    fn land(&mut self, candidate: Candidate, commit: Commit) -> (u64, Tail) {
        let sequence = count(self.commits.len()) + 1;
        let tail = candidate.tail(sequence);
        self.rolling = rolling(self.rolling, sequence, candidate.frame.hash);
        self.epoch = self.epoch.max(candidate.epoch);
        self.ids.insert(candidate.id, sequence);
        for blob in candidate.blobs {
            let body = self.blobs.entry(blob.reference.hash).or_default();
            *body = Some(blob.bytes);
        }
        self.wakes.set(&candidate.stream, candidate.wake);
        let head =
            self.heads.entry(candidate.stream).or_insert_with(|| Head { tail, commits: vec![] });
        head.tail = tail;
        head.commits.push(sequence);
        let hash = candidate.frame.hash;
        let recorded = Recorded { position: position(sequence), hash, commit };
        self.commits.push(Stored { recorded, bytes: candidate.frame.bytes.len() });
        (sequence, tail)
    }
}

impl Memory {
    pub(crate) fn new(journal: JournalId) -> Self {
        Self { journal, log: Mutex::default(), newest: watch::Sender::new(0) }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // A panic of another test's thread leaves no half-written log: every change is made after its checks.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The epoch of the next owner.
    pub(crate) fn next_epoch(&self) -> Epoch {
        let mut log = self.log();
        log.epoch = Epoch(log.epoch.0.saturating_add(1));
        log.epoch
    }

    pub(crate) fn append(&self, candidate: Candidate, commit: Commit) -> Appended {
        let mut log = self.log();
        let tail = log.tail(self.journal, &candidate.stream);
        let verdict = candidate.judge(&tail);
        match (log.standing(&candidate), verdict) {
            (Some(Ok(duplicate)), _) => return duplicate,
            (Some(Err(())), _) | (None, Verdict::Conflict) => return Appended::Conflict { tail },
            (None, Verdict::Fenced(epoch)) => return Appended::Fenced { epoch },
            (None, Verdict::Fits) => {}
        }
        let absent = |blob: &&BlobRef| !matches!(log.blobs.get(&blob.hash), Some(Some(_)));
        if let Some(missing) = candidate.referred.iter().find(absent) {
            return Appended::Malformed(Malformed::BlobMissing(missing.hash));
        }
        let (sequence, tail) = log.land(candidate, commit);
        drop(log);
        self.newest.send_if_modified(|newest| {
            let newer = *newest < sequence;
            *newest = sequence.max(*newest);
            newer
        });
        Appended::Appended { position: position(sequence), tail }
    }

    pub(crate) fn read(&self, stream: &StreamKey, after: Version, max: usize) -> Vec<Recorded> {
        let log = self.log();
        let sequences = log.heads.get(stream).map_or(&[][..], |head| &head.commits);
        let ends_by = |sequence: &u64| {
            log.commits
                .get(index(*sequence))
                .is_some_and(|stored| stored.recorded.commit.last_version() <= after)
        };
        let start = sequences.partition_point(ends_by);
        let wanted = sequences.iter().skip(start).take(max);
        let found = wanted.filter_map(|sequence| log.commits.get(index(*sequence)));
        found.map(|stored| stored.recorded.clone()).collect()
    }

    pub(crate) fn tail(&self, stream: &StreamKey) -> Tail {
        self.log().tail(self.journal, stream)
    }

    pub(crate) fn blob(&self, blob: &BlobRef) -> Result<Arc<[u8]>, StoreError> {
        match self.log().blobs.get(&blob.hash) {
            None => Err(StoreError::NoBlob(blob.hash)),
            Some(None) => Err(StoreError::Erased(blob.hash)),
            Some(Some(bytes)) => Ok(bytes.clone()),
        }
    }

    pub(crate) fn put_blob(&self, blob: Blob) {
        self.log().blobs.insert(blob.reference.hash, Some(blob.bytes));
    }

    pub(crate) fn erase_blob(&self, blob: &BlobRef) {
        if let Some(body) = self.log().blobs.get_mut(&blob.hash) {
            *body = None;
        }
    }

    pub(crate) fn put_snapshot(&self, stream: &StreamKey, snapshot: Snapshot) {
        let checksum = snapshot.checksum();
        self.log().snapshots.insert(stream.clone(), (snapshot, checksum));
    }

    /// The stored snapshot with its checksum, and the hash of the commit that ends at its version.
    pub(crate) fn snapshot(&self, stream: &StreamKey) -> Option<(Snapshot, Hash, Option<Hash>)> {
        let log = self.log();
        let (snapshot, checksum) = log.snapshots.get(stream)?.clone();
        let at = log.heads.get(stream).and_then(|head| {
            let mut stored = head.commits.iter().filter_map(|n| log.commits.get(index(*n)));
            stored.find(|stored| stored.recorded.commit.last_version() == snapshot.version)
        });
        let hash = at.map(|stored| stored.recorded.hash);
        Some((snapshot, checksum, hash))
    }

    pub(crate) fn due(
        &self,
        partition: Partition,
        before: Instant,
        page: usize,
        after: Option<&Due>,
    ) -> Vec<Due> {
        self.log().wakes.due(partition, before, page, after)
    }

    pub(crate) fn next_wake(&self, partition: Partition, after: Instant) -> Option<Instant> {
        self.log().wakes.next(partition, after)
    }

    pub(crate) fn page(&self, after: u64) -> Result<Vec<Recorded>, FollowError> {
        let log = self.log();
        let newest = count(log.commits.len());
        if after > newest {
            return Err(FollowError::Ahead { cursor: after, newest });
        }
        let start = usize::try_from(after).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let fits = |stored: &&Stored| {
            let room = bytes < PAGE_BYTES;
            bytes += stored.bytes;
            room
        };
        let page = log.commits.iter().skip(start).take(PAGE_COMMITS).take_while(fits);
        Ok(page.map(|stored| stored.recorded.clone()).collect())
    }

    pub(crate) fn notice(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub(crate) fn stats(&self) -> Stats {
        let log = self.log();
        Stats {
            commits: count(log.commits.len()),
            entries: log.heads.values().map(|head| head.tail.version.0).sum(),
            streams: count(log.heads.len()),
            blobs: count(log.blobs.values().flatten().count()),
            rolling: log.rolling,
            ..Stats::default()
        }
    }
}
