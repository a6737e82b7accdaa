//! The one writer: a thread that drains a bounded queue into one transaction, and answers after its fsync.
//!
//! Answering before would acknowledge what a power loss takes back. The batch is what waited while the last one was
//! synced; there is no timer, for one writer alone would only be slowed by it.

use super::batch::{Answer, Desk, full};
use super::lock::Lock;
use crate::slot::Candidate;
use crate::{Appended, Blob, Outage, Snapshot, metric};
use events::record::{Epoch, Hash, JournalId, StreamKey};
use rusqlite::{Connection, ErrorCode};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot, watch};

/// Jobs that may wait for the writer: two full batches. More would only add to the wait; `append` waits at the door.
pub(super) const QUEUE_JOBS: usize = 1_024;
/// Jobs of one transaction.
const BATCH_JOBS: usize = 512;
/// Bytes after which no further job joins a transaction, so that nobody waits for a very long write.
const BATCH_BYTES: usize = 1 << 20;
/// Batches between two looks at the size of the write-ahead log.
const BATCHES_PER_LOOK: u64 = 64;

/// What the writer is asked.
#[derive(Debug)]
pub(super) enum Job {
    Append { candidate: Box<Candidate>, reply: oneshot::Sender<Appended> },
    Write { what: Write, reply: oneshot::Sender<Result<(), Outage>> },
    Close { reply: oneshot::Sender<()> },
}

/// Writes that are no commits.
#[derive(Debug)]
pub(super) enum Write {
    Snapshot { stream: StreamKey, snapshot: Snapshot },
    Blob(Blob),
    Erase(Hash),
    Probe,
}

/// What the writer's thread owns.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) lock: Lock,
    pub(super) path: PathBuf,
    pub(super) journal: JournalId,
    pub(super) epoch: Epoch,
    pub(super) queue: mpsc::Receiver<Job>,
    pub(super) newest: watch::Sender<u64>,
}

/// Why the writer ended a round of gathering.
#[derive(Debug)]
enum Gathered {
    /// There is a batch.
    Batch,
    /// There may be a batch, and then the store is closed.
    Closing(Option<oneshot::Sender<()>>),
}

impl Writer {
    /// Serves until every handle is gone or one of them closes the store, then lets go of the file.
    pub(super) fn run(self) {
        let Self { connection, lock, path, journal, epoch, mut queue, newest } = self;
        let closing = match Desk::new(&connection, journal, epoch, &path) {
            Ok(mut desk) => serve(&mut desk, &mut queue, &newest, &path),
            Err(error) => {
                tracing::error!(%error, "the store can not write");
                None
            }
        };
        // Whoever still waits for room is told that the store is closed.
        queue.close();
        drop(queue);
        // A courtesy to whoever copies the file by hand; the journal is complete without it.
        let checkpoint = "pragma wal_checkpoint(truncate)";
        let _checkpointed = connection.query_row(checkpoint, [], |_| Ok(()));
        drop(connection);
        drop(lock);
        if let Some(reply) = closing {
            let _gone = reply.send(());
        }
    }
}

fn serve(
    desk: &mut Desk<'_>,
    queue: &mut mpsc::Receiver<Job>,
    newest: &watch::Sender<u64>,
    path: &Path,
) -> Option<oneshot::Sender<()>> {
    let mut jobs = Vec::with_capacity(BATCH_JOBS);
    let mut answers = Vec::with_capacity(BATCH_JOBS);
    for batch in 0_u64.. {
        let gathered = gather(queue, &mut jobs);
        if !jobs.is_empty() {
            let began = Instant::now();
            answers.clear();
            match desk.transact(&jobs, &mut answers) {
                Ok(()) => {
                    measure(began, jobs.len());
                    jobs.drain(..)
                        .zip(answers.drain(..))
                        .for_each(|(job, answer)| tell(job, answer));
                }
                Err(error) => {
                    tracing::warn!(%error, commits = jobs.len(), "a batch failed");
                    metrics::counter!(metric::BATCHES_FAILED).increment(1);
                    let outage = outage(&error, path);
                    jobs.drain(..).for_each(|job| tell_outage(job, &outage));
                }
            }
            // After the answers: a follower may be late, a writer should not be.
            raise(newest, desk.newest());
        }
        if batch % BATCHES_PER_LOOK == 0 {
            measure_wal(path);
        }
        match gathered {
            Gathered::Batch => {}
            Gathered::Closing(reply) => return reply,
        }
    }
    None
}

/// Waits for a job, then takes what stands in the queue, within a batch's limits.
fn gather(queue: &mut mpsc::Receiver<Job>, jobs: &mut Vec<Job>) -> Gathered {
    let mut bytes = 0;
    let mut next = queue.blocking_recv();
    loop {
        match next {
            None => return Gathered::Closing(None),
            Some(Job::Close { reply }) => return Gathered::Closing(Some(reply)),
            Some(job) => {
                bytes += job.bytes();
                jobs.push(job);
            }
        }
        if jobs.len() >= BATCH_JOBS || bytes >= BATCH_BYTES {
            return Gathered::Batch;
        }
        // An empty queue ends the batch; a closed one shows at the next wait.
        match queue.try_recv() {
            Ok(job) => next = Some(job),
            Err(_) => return Gathered::Batch,
        }
    }
}

impl Job {
    fn bytes(&self) -> usize {
        match self {
            Self::Append { candidate, .. } => candidate.bytes(),
            Self::Write { what: Write::Snapshot { snapshot, .. }, .. } => snapshot.bytes.len(),
            Self::Write { what: Write::Blob(blob), .. } => blob.bytes.len(),
            Self::Write { what: Write::Erase(_) | Write::Probe, .. } | Self::Close { .. } => 0,
        }
    }
}

/// An asker may have gone; what was written stays written.
fn tell(job: Job, answer: Answer) {
    match (job, answer) {
        (Job::Append { reply, .. }, Answer::Appended(appended)) => drop(reply.send(appended)),
        (Job::Write { reply, .. }, Answer::Written) => drop(reply.send(Ok(()))),
        (Job::Write { reply, .. }, Answer::Refused(outage)) => drop(reply.send(Err(outage))),
        // Not paired: the dropped reply tells its asker that the outcome is unknown.
        (Job::Append { .. } | Job::Write { .. } | Job::Close { .. }, _) => {}
    }
}

fn tell_outage(job: Job, outage: &Outage) {
    match job {
        Job::Append { reply, .. } => drop(reply.send(Appended::Unknown(outage.clone()))),
        Job::Write { reply, .. } => drop(reply.send(Err(outage.clone()))),
        Job::Close { reply } => drop(reply),
    }
}

fn raise(newest: &watch::Sender<u64>, sequence: Option<u64>) {
    if let Some(sequence) = sequence {
        newest.send_if_modified(|known| std::mem::replace(known, sequence) != sequence);
    }
}

fn measure(began: Instant, jobs: usize) {
    metrics::histogram!(metric::COMMIT_SECONDS).record(began.elapsed());
    let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
    metrics::histogram!(metric::BATCH_COMMITS).record(f64::from(jobs));
}

fn measure_wal(path: &Path) {
    // Above 4 GiB the gauge stands still; an alarm has long been raised.
    let bytes = u32::try_from(super::wal_bytes(path)).unwrap_or(u32::MAX);
    metrics::gauge!(metric::WAL_BYTES).set(f64::from(bytes));
}

/// What askers are told when a batch failed.
fn outage(error: &rusqlite::Error, path: &Path) -> Outage {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Outage::Full,
        // Growing the shared index or a late sync may report a full disk as plain I/O.
        Some(ErrorCode::SystemIoFailure) if full(path) => Outage::Full,
        Some(_) | None => Outage::Unavailable(error.to_string()),
    }
}
