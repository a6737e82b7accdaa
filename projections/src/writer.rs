//! The one writer of `views.db`: every change of rows and the change of their cursor are one transaction.
//!
//! The cursor in the file is the truth, read again inside each transaction: a batch that comes twice, or from two
//! runners of which one was thought dead, is folded once.

use crate::Name;
use crate::batch::{Batch, Decoded};
use crate::cursor::{self, Cursor, Halt, History};
use crate::tables::{self, Set, Tables};
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

/// Where a set of tables stands after a batch.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swapped {
    /// The new rows are live, up to this sequence.
    Live(u64),
    /// The live rows are further; go on up to there.
    Behind(u64),
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
            let apply = |(name, set)| Ok((name, apply(connection, name, set, &batch.commits)?));
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
        Some(Halt { at: commit.position.sequence, reason })
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

fn apply(
    connection: &Connection,
    name: Name,
    set: Set,
    commits: &[Decoded],
) -> rusqlite::Result<Stand> {
    let mut cursor =
        cursor::load(connection, name, set)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let tables = Tables { connection, set };
    let start = cursor.sequence;
    for commit in commits.iter().filter(|commit| commit.position.sequence > start) {
        let sequence = commit.position.sequence;
        if sequence != cursor.sequence.saturating_add(1) {
            // A batch has no gap, so this is its beginning and nothing was folded.
            return Ok(Stand::Behind(cursor.sequence));
        }
        if commit.stream.kind() == name.reads() {
            cursor.halt = fold(tables, name, commit)?;
        }
        if cursor.halt.is_some() {
            break;
        }
        (cursor.sequence, cursor.hash) = (sequence, commit.hash);
    }
    cursor::save(connection, name, set, &cursor)?;
    Ok(match cursor.halt {
        None => Stand::At(cursor.sequence),
        Some(halt) => Stand::Halted(cursor.sequence, halt),
    })
}

/// Empties a projection's live tables and puts their cursor before the first commit.
pub(crate) fn reset(
    connection: &Connection,
    name: Name,
    history: History,
    code: u32,
) -> rusqlite::Result<()> {
    let generation = generation(connection, name)?;
    Tables::live(connection).remove(name)?;
    Tables::live(connection).create(name, generation)?;
    cursor::save(connection, name, Set::Live, &Cursor::start(history, code, generation))
}

/// The number of the next tables of a projection.
fn generation(connection: &Connection, name: Name) -> rusqlite::Result<u32> {
    let before = cursor::load(connection, name, Set::Live)?;
    Ok(before.map_or(0, |cursor| cursor.generation.wrapping_add(1)))
}

/// Makes empty shadow tables.
pub(crate) fn shade(
    connection: &Connection,
    name: Name,
    history: History,
    code: u32,
) -> rusqlite::Result<()> {
    unshade(connection, name)?;
    let generation = generation(connection, name)?;
    Tables { connection, set: Set::Shadow }.create(name, generation)?;
    cursor::save(connection, name, Set::Shadow, &Cursor::start(history, code, generation))
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
    if live.history == shadow.history && live.sequence > shadow.sequence {
        return Ok(Swapped::Behind(live.sequence));
    }
    tables::swap(connection, name)?;
    cursor::remove(connection, name, Set::Shadow)?;
    cursor::save(connection, name, Set::Live, &shadow)?;
    Ok(Swapped::Live(shadow.sequence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::views::Folder;
    use events::record::JournalId;

    #[tokio::test]
    async fn a_swap_never_takes_a_reader_back() {
        let folder = Folder::new();
        let connection = tables::open(&folder.path()).unwrap();
        let history = History { journal: JournalId(1), restores: 0 };
        reset(&connection, Name::Keys, history, 1).unwrap();
        let stand = |set, sequence| {
            let cursor = cursor::load(&connection, Name::Keys, set).unwrap().unwrap();
            cursor::save(&connection, Name::Keys, set, &Cursor { sequence, ..cursor }).unwrap();
        };
        shade(&connection, Name::Keys, history, 2).unwrap();
        stand(Set::Live, 9);
        stand(Set::Shadow, 8);
        assert_eq!(swap(&connection, Name::Keys).unwrap(), Swapped::Behind(9));
        stand(Set::Shadow, 9);
        assert_eq!(swap(&connection, Name::Keys).unwrap(), Swapped::Live(9));
        let live = cursor::load(&connection, Name::Keys, Set::Live).unwrap().unwrap();
        assert_eq!((live.code, live.generation, live.sequence), (2, 1, 9));
        assert_eq!(cursor::load(&connection, Name::Keys, Set::Shadow).unwrap(), None);
    }

    #[tokio::test]
    async fn work_that_fails_leaves_nothing() {
        let folder = Folder::new();
        let writer = Writer::new(tables::open(&folder.path()).unwrap());
        let history = History { journal: JournalId(1), restores: 0 };
        let broken = writer.write(move |connection| {
            reset(connection, Name::Keys, history, 1)?;
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
