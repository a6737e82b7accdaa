//! One transaction over many jobs. Commit id, epoch and version are checked inside it.
//!
//! A conflict rejects one commit, never the batch. An `SQLite` error takes the whole batch back; what the writer
//! remembered is thrown away with it, for it may no longer be what stands in the file.

use super::schema::Counter;
use super::writer::{Job, Write};
use super::{blob, schema};
use crate::memory::{SHARD, empty_tail};
use crate::slot::{Candidate, Verdict};
use crate::{Appended, Malformed, OpenError, Outage};
use events::journal::rolling;
use events::record::{Boot, Epoch, Hash, JournalId, Position, StreamKey, Tail, Version};
use rusqlite::{Connection, OptionalExtension, Statement, ffi, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Tails that the writer remembers, so that a busy stream's head is not read again; about 150 bytes each.
const HEADS_MAX: usize = 65_536;

/// Bytes that a file system must have free before a full disk is called mended, and for an I/O error not to be
/// called a full disk: a batch and its indexes.
const FREE_BYTES_MIN: u64 = 2 << 20;

/// What one job came to, told once the transaction has ended.
#[derive(Debug)]
pub(super) enum Answer {
    Appended(Appended),
    Written,
    /// It was not tried, for it would not have gone well.
    Refused(Outage),
}

/// What stands in the file, as far as the writer remembers.
#[derive(Debug)]
struct Belief {
    sequence: u64,
    rolling: Hash,
    heads: HashMap<StreamKey, Tail>,
}

/// Where the writer works.
#[derive(Debug)]
pub(super) struct Desk<'c> {
    connection: &'c Connection,
    journal: JournalId,
    /// The highest that was seen; stands in the file too.
    epoch: Epoch,
    probes: u64,
    path: PathBuf,
    /// None after a failed batch.
    belief: Option<Belief>,
    statements: Statements<'c>,
}

#[derive(Debug)]
struct Statements<'c> {
    begin: Statement<'c>,
    commit: Statement<'c>,
    insert: Statement<'c>,
    head: Statement<'c>,
    put_head: Statement<'c>,
    standing: Statement<'c>,
    newest: Statement<'c>,
    blobs: blob::Statements<'c>,
}

impl<'c> Statements<'c> {
    fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            begin: connection.prepare("begin immediate")?,
            commit: connection.prepare("commit")?,
            insert: connection.prepare(
                "insert into commits(sequence, stream, first_version, last_version, commit_id, epoch, hash, rolling,
                 frame) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            head: connection.prepare(
                "select h.version, h.hash, h.epoch, h.boot, h.sequence,
                 ifnull(c.stream = h.stream and c.last_version = h.version and c.hash = h.hash, 0)
                 from heads h left join commits c on c.sequence = h.sequence where h.stream = ?1",
            )?,
            put_head: connection.prepare(
                "insert into heads(stream, version, hash, epoch, boot, sequence, partition, wake)
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 on conflict(stream) do update set version = excluded.version, hash = excluded.hash,
                 epoch = excluded.epoch, boot = excluded.boot, sequence = excluded.sequence, wake = excluded.wake",
            )?,
            standing: connection
                .prepare("select sequence, last_version, hash from commits where commit_id = ?1")?,
            newest: connection.prepare(
                "select sequence, rolling from commits order by sequence desc limit 1",
            )?,
            blobs: blob::Statements::new(connection)?,
        })
    }

    fn believe(&mut self) -> rusqlite::Result<Belief> {
        let newest = self
            .newest
            .query_row([], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), Hash(row.get(1)?))));
        let (sequence, rolling) = newest.optional()?.unwrap_or_default();
        Ok(Belief { sequence, rolling, heads: HashMap::new() })
    }

    /// The head of a stream, and whether the commit that it names agrees.
    fn head(&mut self, stream: &StreamKey) -> rusqlite::Result<Option<(Tail, bool)>> {
        let head = self.head.query_row([stream.as_str()], |row| Ok((tail(row)?, row.get(5)?)));
        head.optional()
    }

    fn put_head(&mut self, candidate: &Candidate, tail: &Tail) -> rusqlite::Result<()> {
        self.put_head.execute(params![
            candidate.stream.as_str(),
            tail.version.0.cast_signed(),
            tail.hash.0,
            tail.epoch.0.cast_signed(),
            tail.boot.0.to_le_bytes(),
            tail.sequence.cast_signed(),
            candidate.stream.partition().number(),
            candidate.wake,
        ])?;
        Ok(())
    }

    fn insert(
        &mut self,
        candidate: &Candidate,
        sequence: u64,
        rolling: Hash,
    ) -> rusqlite::Result<usize> {
        self.insert.execute(params![
            sequence.cast_signed(),
            candidate.stream.as_str(),
            candidate.first.0.cast_signed(),
            candidate.last.0.cast_signed(),
            candidate.id.0.to_le_bytes(),
            candidate.epoch.0.cast_signed(),
            candidate.frame.hash.0,
            rolling.0,
            &*candidate.frame.bytes,
        ])
    }
}

/// The first five columns of a head: version, hash, epoch, boot, sequence.
pub(super) fn tail(row: &rusqlite::Row<'_>) -> rusqlite::Result<Tail> {
    Ok(Tail {
        version: Version(row.get::<_, i64>(0)?.cast_unsigned()),
        hash: Hash(row.get(1)?),
        epoch: Epoch(row.get::<_, i64>(2)?.cast_unsigned()),
        boot: Boot(u128::from_le_bytes(row.get(3)?)),
        sequence: row.get::<_, i64>(4)?.cast_unsigned(),
    })
}

impl<'c> Desk<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        journal: JournalId,
        epoch: Epoch,
        path: &Path,
    ) -> Result<Self, OpenError> {
        let path = path.to_path_buf();
        let probes = schema::counter(connection, Counter::Probes)?;
        let statements = Statements::new(connection)?;
        Ok(Self { connection, journal, epoch, probes, path, belief: None, statements })
    }

    /// The newest sequence, unless the last batch failed.
    pub(super) fn newest(&self) -> Option<u64> {
        self.belief.as_ref().map(|belief| belief.sequence)
    }

    /// Writes what can be written of the jobs and pushes one answer each. An error takes all of it back.
    pub(super) fn transact(
        &mut self,
        jobs: &[Job],
        answers: &mut Vec<Answer>,
    ) -> rusqlite::Result<()> {
        let done = self.attempt(jobs, answers);
        if done.is_err() {
            self.belief = None;
            if !self.connection.is_autocommit() {
                // When even this fails, the next `begin` does too, and its batch is answered unknown.
                let _rolled_back = self.connection.execute_batch("rollback");
            }
        }
        done
    }

    fn attempt(&mut self, jobs: &[Job], answers: &mut Vec<Answer>) -> rusqlite::Result<()> {
        self.statements.begin.execute([])?;
        let mut belief = match self.belief.take() {
            Some(belief) => belief,
            None => self.statements.believe()?,
        };
        for job in jobs {
            answers.push(match job {
                Job::Append { candidate, .. } => {
                    Answer::Appended(self.append(&mut belief, candidate)?)
                }
                // A page may still fit where a commit would not, and its asker would be back at once.
                Job::Write { what: Write::Probe, .. } if full(&self.path) => {
                    Answer::Refused(Outage::Full)
                }
                Job::Write { what, .. } => {
                    self.write(what)?;
                    Answer::Written
                }
                Job::Close { .. } => Answer::Written,
            });
        }
        self.statements.commit.execute([])?;
        self.belief = Some(belief);
        Ok(())
    }

    fn write(&mut self, what: &Write) -> rusqlite::Result<()> {
        match what {
            Write::Snapshot { stream, snapshot } => {
                self.statements.blobs.put_snapshot(stream, snapshot)
            }
            Write::Blob(blob) => self.statements.blobs.put(blob),
            Write::Erase(hash) => self.statements.blobs.erase(*hash),
            // Counted up even when it is taken back: each probe must write something new, or nothing is written.
            Write::Probe => {
                self.probes = self.probes.wrapping_add(1);
                schema::set_counter(self.connection, Counter::Probes, self.probes)
            }
        }
    }

    fn append(&mut self, belief: &mut Belief, candidate: &Candidate) -> rusqlite::Result<Appended> {
        let tail = match belief.heads.get(&candidate.stream) {
            Some(tail) => *tail,
            None => match self.statements.head(&candidate.stream)? {
                None => empty_tail(self.journal, &candidate.stream),
                Some((tail, true)) => tail,
                // Damaged: whoever reads the stream again, as a conflict asks, is told how.
                Some((tail, false)) => return Ok(Appended::Conflict { tail }),
            },
        };
        match candidate.judge(&tail) {
            Verdict::Fits => {}
            verdict @ (Verdict::Fenced(_) | Verdict::Conflict) => {
                return self.reject(candidate, tail, verdict);
            }
        }
        if let Some(missing) = self.statements.blobs.missing(&candidate.referred)? {
            return Ok(Appended::Malformed(Malformed::BlobMissing(missing)));
        }
        let sequence = belief.sequence.saturating_add(1);
        let rolling = rolling(belief.rolling, sequence, candidate.frame.hash);
        // No look-up of the commit id before: what fits the tail can not stand already, and another commit of this
        // id is found by the index.
        match self.statements.insert(candidate, sequence, rolling) {
            Ok(_) => {}
            Err(error) if stands_already(&error) => {
                return self.reject(candidate, tail, Verdict::Conflict);
            }
            Err(error) => return Err(error),
        }
        for blob in &candidate.blobs {
            self.statements.blobs.put(blob)?;
        }
        let tail = candidate.tail(sequence);
        self.statements.put_head(candidate, &tail)?;
        if candidate.epoch > self.epoch {
            schema::set_counter(self.connection, Counter::Epoch, candidate.epoch.0)?;
            self.epoch = candidate.epoch;
        }
        belief.sequence = sequence;
        belief.rolling = rolling;
        if belief.heads.len() >= HEADS_MAX {
            belief.heads.clear();
        }
        belief.heads.insert(candidate.stream.clone(), tail);
        Ok(Appended::Appended { position: Position { shard: SHARD, sequence }, tail })
    }

    /// Says why a commit does not fit: it may stand already.
    fn reject(
        &mut self,
        candidate: &Candidate,
        tail: Tail,
        verdict: Verdict,
    ) -> rusqlite::Result<Appended> {
        let id = candidate.id.0.to_le_bytes();
        let standing = self.statements.standing.query_row([id], |row| {
            let sequence = row.get::<_, i64>(0)?.cast_unsigned();
            Ok((sequence, Version(row.get::<_, i64>(1)?.cast_unsigned()), Hash(row.get(2)?)))
        });
        Ok(match (standing.optional()?, verdict) {
            (Some((sequence, version, hash)), _) if hash == candidate.frame.hash => {
                Appended::Duplicate { position: Position { shard: SHARD, sequence }, version }
            }
            (None, Verdict::Fenced(epoch)) => Appended::Fenced { epoch },
            (Some(_), _) | (None, Verdict::Conflict | Verdict::Fits) => Appended::Conflict { tail },
        })
    }
}

/// Whether the disk has no room for a batch.
pub(super) fn full(path: &Path) -> bool {
    let free = rustix::fs::statvfs(path)
        .map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize));
    free < FREE_BYTES_MIN
}

fn stands_already(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(ffi::SQLITE_CONSTRAINT_UNIQUE)
}
