//! One file, one owner, one writer thread. The file is the journal: whoever has it, and its write-ahead log, has
//! everything.

mod batch;
mod blob;
pub(crate) mod copy;
pub(crate) mod lock;
mod read;
pub(crate) mod row;
pub(crate) mod schema;
mod writer;

use crate::backup::{self, BackupError};
use crate::slot::Candidate;
use crate::{
    Appended, Blob, Due, FollowError, OpenError, Outage, Snapshot, Stats, StoreError, metric,
    verify,
};
use events::record::{BlobRef, Epoch, Hash, JournalId, Recorded, StreamKey, Tail, Version};
use events::{id::Partition, quantity::Instant};
use lock::Lock;
use read::Readers;
use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{mpsc, oneshot, watch};
use writer::{Job, QUEUE_JOBS, Write, Writer};

/// A handle on the writer and the readers of one file.
#[derive(Debug, Clone)]
pub(crate) struct Sqlite(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    journal: JournalId,
    jobs: mpsc::Sender<Job>,
    /// The writer holds the sender: when it ends, whoever waits is told.
    newest: watch::Receiver<u64>,
    epoch: AtomicU64,
    readers: Readers,
}

impl Sqlite {
    /// Becomes the owner of a file. Blocks on the disk.
    pub(crate) fn open(path: &Path, fresh: JournalId) -> Result<(Self, Epoch), OpenError> {
        let path = real(path)?;
        let lock = Lock::take(&path)?;
        let (connection, journal, epoch) = schema::own(&path, fresh)?;
        // So that a table that is not as it should be shows here and not in the thread.
        drop(batch::Desk::new(&connection, journal, epoch, &path)?);
        let sequence = read::newest_sequence(&connection)?;
        let (jobs, queue) = mpsc::channel(QUEUE_JOBS);
        let (newest, notice) = watch::channel(sequence);
        let writer = Writer { connection, lock, path: path.clone(), journal, epoch, queue, newest };
        let io = |source| OpenError::Io { path: path.clone(), source };
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(io)?;
        let readers = Readers::new(path.clone());
        let epochs = AtomicU64::new(epoch.0);
        let shared = Shared { path, journal, jobs, newest: notice, epoch: epochs, readers };
        Ok((Self(Arc::new(shared)), epoch))
    }

    pub(crate) fn journal(&self) -> JournalId {
        self.0.journal
    }

    pub(crate) fn next_epoch(&self) -> Epoch {
        Epoch(self.0.epoch.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }

    /// Waits for room: a full queue is the disk's pace, and the caller's to feel.
    async fn hand_over(&self, job: Job) -> Result<(), Outage> {
        let closed = || Outage::Unavailable("the store is closed".to_owned());
        match self.0.jobs.try_send(job) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(closed()),
            Err(mpsc::error::TrySendError::Full(job)) => {
                metrics::counter!(metric::QUEUE_FULL).increment(1);
                self.0.jobs.send(job).await.map_err(|_| closed())
            }
        }
    }

    pub(crate) async fn append(&self, candidate: Candidate) -> Appended {
        let (reply, answer) = oneshot::channel();
        let job = Job::Append { candidate: Box::new(candidate), reply };
        match self.hand_over(job).await {
            Ok(()) => answer.await.unwrap_or(Appended::Unknown(Outage::Lost)),
            Err(outage) => Appended::Unknown(outage),
        }
    }

    async fn write(&self, what: Write) -> Result<(), Outage> {
        let (reply, answer) = oneshot::channel();
        self.hand_over(Job::Write { what, reply }).await?;
        answer.await.unwrap_or(Err(Outage::Lost))
    }

    pub(crate) async fn put_blob(&self, blob: Blob) -> Result<(), StoreError> {
        Ok(self.write(Write::Blob(blob)).await?)
    }

    pub(crate) async fn erase_blob(&self, blob: BlobRef) -> Result<(), StoreError> {
        Ok(self.write(Write::Erase(blob.hash)).await?)
    }

    pub(crate) async fn put_snapshot(
        &self,
        stream: &StreamKey,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        Ok(self.write(Write::Snapshot { stream: stream.clone(), snapshot }).await?)
    }

    pub(crate) async fn probe(&self) -> Result<(), Outage> {
        self.write(Write::Probe).await
    }

    /// Runs a read on the blocking pool. No task of ours: it ends with its read and owns nothing, so it needs none of
    /// what `actors::task` says about cancel and failure.
    async fn blocking<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let permit = self.0.readers.permit().await?;
        let this = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            this.0.readers.run(read)
        });
        reading.await.map_err(|_| StoreError::Closed)?
    }

    pub(crate) async fn read(
        &self,
        stream: &StreamKey,
        after: Version,
        commits_max: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let (journal, stream) = (self.0.journal, stream.clone());
        self.blocking(move |c| read::stream(c, journal, &stream, after, commits_max)).await
    }

    pub(crate) async fn tail(&self, stream: &StreamKey) -> Result<Tail, StoreError> {
        let (journal, stream) = (self.0.journal, stream.clone());
        self.blocking(move |c| read::newest(c, journal, &stream)).await
    }

    pub(crate) async fn blob(&self, blob: BlobRef) -> Result<Arc<[u8]>, StoreError> {
        self.blocking(move |c| blob::read(c, &blob)).await
    }

    pub(crate) async fn snapshot(
        &self,
        stream: &StreamKey,
    ) -> Result<Option<(Snapshot, Hash, Option<Hash>)>, StoreError> {
        let stream = stream.clone();
        self.blocking(move |c| Ok(blob::snapshot(c, &stream)?)).await
    }

    pub(crate) async fn due(
        &self,
        partition: Partition,
        before: Instant,
        page: usize,
        after: Option<&Due>,
    ) -> Result<Vec<Due>, StoreError> {
        let after = after.cloned();
        self.blocking(move |c| read::due(c, partition, before, page, after.as_ref())).await
    }

    pub(crate) async fn next_wake(
        &self,
        partition: Partition,
        after: Instant,
    ) -> Result<Option<Instant>, StoreError> {
        self.blocking(move |c| read::next_wake(c, partition, after)).await
    }

    pub(crate) async fn page(&self, after: u64) -> Result<Vec<Recorded>, FollowError> {
        self.blocking(move |c| read::page(c, after)).await
    }

    pub(crate) fn notice(&self) -> watch::Receiver<u64> {
        self.0.newest.clone()
    }

    pub(crate) async fn stats(&self) -> Result<Stats, StoreError> {
        let path = self.0.path.clone();
        self.blocking(move |c| {
            let file_bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
            Ok(Stats { file_bytes, wal_bytes: wal_bytes(&path), ..read::stats(c)? })
        })
        .await
    }

    pub(crate) async fn backup(
        &self,
        to: &Path,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<verify::Report, BackupError> {
        let (from, to) = (self.0.path.clone(), to.to_path_buf());
        let copying = tokio::task::spawn_blocking(move || backup::copy(&from, &to, progress));
        copying.await.map_err(|_| BackupError::CutShort)?
    }

    pub(crate) async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        // First the readers: the last connection to go takes the write-ahead log with it.
        self.0.readers.close();
        if self.hand_over(Job::Close { reply }).await.is_ok() {
            // An error: another close was first and the writer is gone.
            let _closed = answer.await;
        }
    }
}

/// Bytes of the write-ahead log beside a database.
pub(crate) fn wal_bytes(path: &Path) -> u64 {
    std::fs::metadata(beside(path, "-wal")).map_or(0, |found| found.len())
}

/// A file of `SQLite`'s beside a database.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// One name for one file, or two links to it would have two locks.
pub(crate) fn real(path: &Path) -> Result<PathBuf, OpenError> {
    let io = |source| OpenError::Io { path: path.to_path_buf(), source };
    if path.exists() {
        return path.canonicalize().map_err(io);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| io(std::io::ErrorKind::InvalidFilename.into()))?;
    Ok(folder.canonicalize().map_err(io)?.join(name))
}
