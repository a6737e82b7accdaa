//! The one writer of `views.db`: every change of rows and the change of their cursor are one transaction.
//!
//! The cursor in the file is the truth, read again inside each transaction: a batch that comes twice, or from two
//! runners of which one was thought dead, is folded once.

use crate::batch::{Batch, Decoded};
use crate::cursor::{self, Cursor, Halt};
use crate::tables::{self, Set, Tables};
use crate::{Name, Reach};
use events::aggregate::IllegalEvent;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use std::sync::{Arc, Mutex, PoisonError};

/// A fold stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldError {
    /// The log and the fold disagree.
    #[error(transparent)]
    Illegal(#[from] IllegalEvent),
    /// The rows could not be read or written.
    #[error("the rows could not be kept: {0}")]
    Rows(#[from] rusqlite::Error),
}

/// `views.db` could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ViewsError {
    /// `SQLite` refused; it may be tried again.
    #[error("views.db could not be used")]
    Sqlite(#[from] rusqlite::Error),
    /// The thread that worked on it died, or the runtime ends.
    #[error("the work on views.db was broken off")]
    BrokenOff,
}

/// Where a set of tables stands in the shard of a batch after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stand {
    /// At this sequence.
    At(u64),
    /// Earlier than the batch begins: it must be followed from there.
    Behind(u64),
    /// At this sequence, and it can not go on.
    Halted(u64, Halt),
}

/// What a rebuild's end found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Swapped {
    /// The new rows are live, up to here.
    Live(Reach),
    /// The live rows are further in some shard; go on up to there.
    Behind(Reach),
}

/// A handle on the one connection that writes. The lock is held by threads that may block, over no await.
#[derive(Debug, Clone)]
pub(crate) struct Writer(Arc<Mutex<Connection>>);

impl Writer {
    pub(crate) fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(connection)))
    }

    /// Does some work in one transaction: all of it or nothing. It is done to its end even if nobody waits any more.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, ViewsError> {
        let connection = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            // A panic of other work left no open transaction: it was rolled back as it unwound.
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        let done: Result<rusqlite::Result<T>, _> = done.await;
        done.map_err(|_| ViewsError::BrokenOff)?.map_err(ViewsError::Sqlite)
    }

    /// Folds a batch into each of these sets of tables.
    pub(crate) async fn apply(
        &self,
        targets: Vec<(Name, Set)>,
        batch: &Arc<Batch>,
    ) -> Result<Vec<(Name, Stand)>, ViewsError> {
        let batch = Arc::clone(batch);
        self.write(move |connection| {
            let apply = |(name, set)| Ok((name, apply(connection, name, set, &batch)?));
            targets.into_iter().map(apply).collect()
        })
        .await
    }
}

/// Whether the file is at fault, and not what was written into it.
fn is_of_the_file(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::OperationInterrupted
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::SchemaChanged
                | ErrorCode::PermissionDenied
                | ErrorCode::NotADatabase
        )
    )
}

/// Folds one commit, all of it or nothing.
fn fold(tables: Tables<'_>, name: Name, commit: &Decoded) -> Result<Option<Halt>, rusqlite::Error> {
    let halt = |reason: &dyn std::fmt::Display| {
        let reason = format!("{} at {}: {reason}", commit.stream, commit.position);
        Some(Halt { at: commit.position, reason })
    };
    let facts = match &commit.facts {
        Ok(facts) => facts,
        Err(unreadable) => return Ok(halt(unreadable)),
    };
    let step = |sql: &str| tables.connection.prepare_cached(sql)?.execute([]);
    step("SAVEPOINT one")?;
    let halted = match name.fold(tables, commit, facts) {
        Ok(()) => None,
        Err(FoldError::Rows(error)) if is_of_the_file(&error) => return Err(error),
        Err(error) => {
            step("ROLLBACK TO one")?;
            halt(&error)
        }
    };
    step("RELEASE one")?;
    Ok(halted)
}

fn apply(connection: &Connection, name: Name, set: Set, batch: &Batch) -> rusqlite::Result<Stand> {
    let cursor =
        cursor::load(connection, name, set)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let mut place = cursor.places.get(&batch.shard).copied().unwrap_or_default();
    if let Some(halt) = cursor.halt {
        // Perhaps in another shard, while this batch was on its way.
        return Ok(Stand::Halted(place.sequence, halt));
    }
    let tables = Tables { connection, set };
    let start = place.sequence;
    let mut halted = None;
    for commit in batch.commits.iter().filter(|commit| commit.position.sequence > start) {
        let sequence = commit.position.sequence;
        if sequence != place.sequence.saturating_add(1) {
            // A batch has no gap, so this is its beginning and nothing was folded.
            return Ok(Stand::Behind(place.sequence));
        }
        if name.reads(commit.stream.kind()) {
            halted = fold(tables, name, commit)?;
        }
        if halted.is_some() {
            break;
        }
        (place.sequence, place.hash) = (sequence, commit.hash);
    }
    cursor::save_place(connection, name, set, batch.shard, &place)?;
    let Some(halt) = halted else { return Ok(Stand::At(place.sequence)) };
    cursor::save_halt(connection, name, set, &halt)?;
    Ok(Stand::Halted(place.sequence, halt))
}

/// Empties a projection's live tables and puts their cursor before the first commit of each shard.
pub(crate) fn reset(connection: &Connection, name: Name, start: Cursor) -> rusqlite::Result<()> {
    let generation = generation(connection, name)?;
    Tables::live(connection).remove(name)?;
    Tables::live(connection).create(name, generation)?;
    cursor::save(connection, name, Set::Live, &Cursor { generation, ..start })
}

/// The number of the next tables of a projection.
fn generation(connection: &Connection, name: Name) -> rusqlite::Result<u32> {
    let before = cursor::load(connection, name, Set::Live)?;
    Ok(before.map_or(0, |cursor| cursor.generation.wrapping_add(1)))
}

/// Makes empty shadow tables.
pub(crate) fn shade(connection: &Connection, name: Name, start: Cursor) -> rusqlite::Result<()> {
    unshade(connection, name)?;
    let generation = generation(connection, name)?;
    Tables { connection, set: Set::Shadow }.create(name, generation)?;
    cursor::save(connection, name, Set::Shadow, &Cursor { generation, ..start })
}

/// Removes what a rebuild began.
pub(crate) fn unshade(connection: &Connection, name: Name) -> rusqlite::Result<()> {
    Tables { connection, set: Set::Shadow }.remove(name)?;
    cursor::remove(connection, name, Set::Shadow)
}

/// Puts the shadow rows in the place of the live ones, unless that would take a reader back in time.
pub(crate) fn swap(connection: &Connection, name: Name) -> rusqlite::Result<Swapped> {
    let load = |set| {
        let found = cursor::load(connection, name, set)?;
        found.ok_or(rusqlite::Error::QueryReturnedNoRows)
    };
    let (live, shadow) = (load(Set::Live)?, load(Set::Shadow)?);
    if live.history == shadow.history && !shadow.reach().covers(&live.reach()) {
        return Ok(Swapped::Behind(live.reach()));
    }
    tables::swap(connection, name)?;
    cursor::remove(connection, name, Set::Shadow)?;
    cursor::save(connection, name, Set::Live, &shadow)?;
    Ok(Swapped::Live(shadow.reach()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::{History, Place};
    use crate::tests::facts;
    use crate::tests::views::Folder;
    use events::aggregate::Aggregate;
    use events::catalogue::Fact;
    use events::codec::CodecError;
    use events::record::{Hash, JournalId, Position, Shard};
    use events::run::Run;

    const SHARDS: [Shard; 2] = [Shard(0), Shard(3)];

    fn start(code: u32) -> Cursor {
        Cursor::start(&SHARDS, History { journal: JournalId(1), restores: 0 }, code)
    }

    fn at(shard: u16, sequence: u64) -> Position {
        Position { shard: Shard(shard), sequence }
    }

    fn reach(first: u64, second: u64) -> Reach {
        [at(0, first), at(3, second)].into_iter().collect()
    }

    /// Commits of one shard from a sequence on, each that opens this run or says no fact that is known.
    fn batch(shard: u16, from: u64, runs: &[Option<u128>]) -> Batch {
        let commit = |(sequence, unique): (u64, &Option<u128>)| Decoded {
            position: at(shard, sequence),
            hash: Hash([u8::try_from(sequence).unwrap(); 32]),
            stream: Run::stream(&facts::run(unique.unwrap_or_default())),
            at: facts::NOW,
            facts: match unique {
                Some(_) => Ok(vec![Fact::Run(Box::new(facts::queued()))]),
                None => Err(CodecError::Unknown { kind: 9, schema: 1 }.into()),
            },
        };
        let commits = (from..).zip(runs).map(commit).collect();
        Batch { shard: Shard(shard), commits, entries: 0, end: None }
    }

    fn views() -> (Folder, Connection) {
        let folder = Folder::new();
        let connection = tables::open(&folder.path()).unwrap();
        reset(&connection, Name::Runs, start(1)).unwrap();
        (folder, connection)
    }

    #[track_caller]
    fn check(connection: &Connection, batch: &Batch, stand: &Stand, then: &Reach, runs: i64) {
        assert_eq!(&apply(connection, Name::Runs, Set::Live, batch).unwrap(), stand);
        assert_eq!(&cursor::reach(connection, Name::Runs, Set::Live).unwrap(), then);
        let count = connection.query_row("SELECT COUNT(*) FROM runs", [], |row| row.get(0));
        assert_eq!(count, Ok(runs));
    }

    #[test]
    fn each_shard_goes_on_from_its_own_place_and_folds_a_commit_once() {
        let (_folder, connection) = views();
        let (one, other) = (batch(0, 1, &[Some(1), Some(2)]), batch(3, 1, &[Some(3)]));
        check(&connection, &one, &Stand::At(2), &reach(2, 0), 2);
        check(&connection, &other, &Stand::At(1), &reach(2, 1), 3);
        // A run that was folded twice would be a contradiction.
        check(&connection, &one, &Stand::At(2), &reach(2, 1), 3);
        check(&connection, &other, &Stand::At(1), &reach(2, 1), 3);
        check(&connection, &batch(3, 1, &[Some(3), Some(4)]), &Stand::At(2), &reach(2, 2), 4);
        // The place of one shard does not let another skip.
        check(&connection, &batch(3, 4, &[Some(5)]), &Stand::Behind(2), &reach(2, 2), 4);
        check(&connection, &batch(0, 4, &[Some(5)]), &Stand::Behind(2), &reach(2, 2), 4);
    }

    #[test]
    fn a_halt_in_one_shard_lets_no_batch_of_another_in() {
        let (_folder, connection) = views();
        let unreadable = batch(3, 1, &[Some(1), None, Some(2)]);
        let stand = apply(&connection, Name::Runs, Set::Live, &unreadable).unwrap();
        let Stand::Halted(1, halt) = stand else { panic!("{stand:?}") };
        assert_eq!(halt.at, at(3, 2));
        assert!(halt.reason.contains(" at 3.2: kind 9 schema 1"), "{}", halt.reason);
        let halted = |sequence| Stand::Halted(sequence, halt.clone());
        check(&connection, &batch(0, 1, &[Some(3)]), &halted(0), &reach(0, 1), 1);
        check(&connection, &batch(3, 2, &[Some(4)]), &halted(1), &reach(0, 1), 1);
    }

    #[test]
    fn a_swap_never_takes_a_reader_back() {
        let folder = Folder::new();
        let connection = tables::open(&folder.path()).unwrap();
        reset(&connection, Name::Keys, start(1)).unwrap();
        let stand = |set, first, second| {
            let mut cursor = cursor::load(&connection, Name::Keys, set).unwrap().unwrap();
            for (shard, sequence) in SHARDS.into_iter().zip([first, second]) {
                cursor.places.insert(shard, Place { sequence, hash: Hash::default() });
            }
            cursor::save(&connection, Name::Keys, set, &cursor).unwrap();
        };
        shade(&connection, Name::Keys, start(2)).unwrap();
        stand(Set::Live, 9, 4);
        for behind in [(8, 4), (9, 3), (100, 3)] {
            stand(Set::Shadow, behind.0, behind.1);
            let swapped = swap(&connection, Name::Keys).unwrap();
            assert_eq!(swapped, Swapped::Behind(reach(9, 4)), "{behind:?}");
        }
        stand(Set::Shadow, 9, 5);
        assert_eq!(swap(&connection, Name::Keys).unwrap(), Swapped::Live(reach(9, 5)));
        let live = cursor::load(&connection, Name::Keys, Set::Live).unwrap().unwrap();
        assert_eq!((live.code, live.generation, live.reach()), (2, 1, reach(9, 5)));
        assert_eq!(cursor::load(&connection, Name::Keys, Set::Shadow).unwrap(), None);
    }

    #[tokio::test]
    async fn work_that_fails_leaves_nothing() {
        let folder = Folder::new();
        let writer = Writer::new(tables::open(&folder.path()).unwrap());
        let broken = writer.write(move |connection| {
            reset(connection, Name::Keys, start(1))?;
            connection.execute("NOT SQL", [])
        });
        assert!(matches!(broken.await, Err(ViewsError::Sqlite(_))));
        let load = |connection: &Connection| cursor::load(connection, Name::Keys, Set::Live);
        assert_eq!(writer.write(load).await.unwrap(), None);
        let panicked = writer.write(|_| -> rusqlite::Result<()> { panic!("on purpose") }).await;
        assert!(matches!(panicked, Err(ViewsError::BrokenOff)));
        assert_eq!(writer.write(load).await.unwrap(), None);
    }
}
