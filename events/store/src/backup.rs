//! Copies of a journal: made while it is in use, verified before anybody relies on them, put back with a mark.
//!
//! A copy that was put back knows less than its readers do. Its count of restores stands in every cursor that is
//! kept elsewhere, so that a reader notices instead of going on after a place that now means another commit.

use crate::sqlite::schema::Counter;
use crate::sqlite::{beside, copy, lock::Lock, real, schema};
use crate::verify::{self, Report};
use crate::{OpenError, StoreError};
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};

/// A copy could not be made or put back. The original is as it was.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A journal in memory has no file.
    #[error("a journal in memory can not be copied to a file")]
    Memory,
    /// A journal on a cluster is more than a file. Back its streams up with the servers' own tools, or copy it by
    /// following its shards.
    #[error(
        "a journal on a NATS cluster can not be copied to a file: back up its streams with nats stream backup"
    )]
    Cluster,
    /// Something stands there already. Move it away, or give another path.
    #[error("{} exists: move it away, or give another path", .0.display())]
    Exists(PathBuf),
    /// The copy has damage. Look at the report; restore an older backup.
    #[error("the copy has {} problems, the first: {}", .0.problems_count, first(.0))]
    Damaged(Box<Report>),
    /// A file could not be opened.
    #[error("the journal could not be opened")]
    Open(#[from] OpenError),
    /// `SQLite` could not copy.
    #[error("sqlite could not copy the journal")]
    Sqlite(#[from] rusqlite::Error),
    /// The file system refused.
    #[error("{} can not be used", path.display())]
    Io {
        /// What was to be used.
        path: PathBuf,
        /// How it failed.
        source: std::io::Error,
    },
    /// The copying task ended early. Try again.
    #[error("the copy was cut short")]
    CutShort,
    /// The store could not be asked.
    #[error("the store could not be read")]
    Store(#[from] StoreError),
}

fn first(report: &Report) -> String {
    report.problems.first().map_or_else(String::new, ToString::to_string)
}

/// Copies a journal that may be in use to a new file, by way of a partial one, and verifies it.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<Report, BackupError> {
    absent(to)?;
    let partial = beside(to, ".partial");
    discard(&partial)?;
    let report = copied(from, &partial, &mut progress);
    let report = report.and_then(|report| {
        move_file(&partial, to)?;
        schema::sync_folder(to)?;
        Ok(report)
    });
    if report.is_err() {
        // The error is worth more than what becomes of the rest.
        let _discarded = discard(&partial);
    }
    report
}

fn copied(
    from: &Path,
    partial: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, BackupError> {
    copy::copy(from, partial, progress)?;
    sound(partial)
}

fn sound(path: &Path) -> Result<Report, BackupError> {
    let report = verify::verify(path, verify::no_wakes, |_, _| {})?;
    if report.problems_count > 0 {
        return Err(BackupError::Damaged(Box::new(report)));
    }
    Ok(report)
}

/// Puts a copy of the journal at `from` at `into` and raises its count of restores. `from` is verified first, and
/// stays as it is. What stood at `into` is kept beside it, as `into.replaced`. `progress` is told pages done and in
/// all.
///
/// # Errors
///
/// [`OpenError::Owned`] inside when `into` has an owner; [`BackupError::Damaged`] when `from` is not sound;
/// [`BackupError::Exists`] when an earlier `into.replaced` is in the way. `into` is as it was then.
pub fn restore(
    from: &Path,
    into: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<Report, BackupError> {
    let into = real(into)?;
    let _owner = Lock::take(&into)?;
    let replaced = beside(&into, ".replaced");
    absent(&replaced)?;
    absent(&beside(&replaced, "-wal"))?;
    let report = sound(from)?;
    let partial = beside(&into, ".partial");
    discard(&partial)?;
    copy::copy(from, &partial, &mut progress)?;
    mark(&partial, restores(&into))?;
    let report = Report { journal: report.journal, ..sound(&partial)? };
    // First the log, or it would be played into the copy. What is kept is complete: both names, one ending.
    for (ending, kept) in [("-wal", "-wal"), ("", "")] {
        let old = beside(&into, ending);
        if old.exists() {
            move_file(&old, &beside(&replaced, kept))?;
        }
    }
    remove(&beside(&into, "-shm"))?;
    move_file(&partial, &into)?;
    schema::sync_folder(&into)?;
    Ok(report)
}

/// How often the journal that stands there was restored; zero when it can not be read.
fn restores(path: &Path) -> u64 {
    let counted = || schema::counter(&schema::reader(path)?, Counter::Restores);
    if path.exists() { counted().unwrap_or_default() } else { 0 }
}

/// Raises the count of a copy that nobody uses yet, above its own and that of what it replaces.
fn mark(path: &Path, replaced: u64) -> Result<(), BackupError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "full")?;
    let restores = schema::counter(&connection, Counter::Restores)?.max(replaced);
    schema::set_counter(&connection, Counter::Restores, restores.saturating_add(1))?;
    // The last connection moves the log into the file as it goes.
    connection.close().map_err(|(_, error)| BackupError::Sqlite(error))
}

fn absent(path: &Path) -> Result<(), BackupError> {
    if path.exists() { Err(BackupError::Exists(path.to_path_buf())) } else { Ok(()) }
}

fn move_file(from: &Path, to: &Path) -> Result<(), BackupError> {
    std::fs::rename(from, to).map_err(|source| BackupError::Io { path: to.to_path_buf(), source })
}

/// Removes a partial copy and what `SQLite` left beside it.
fn discard(path: &Path) -> Result<(), BackupError> {
    ["", "-wal", "-shm", "-journal"].iter().try_for_each(|ending| remove(&beside(path, ending)))
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(BackupError::Io { path: path.to_path_buf(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
