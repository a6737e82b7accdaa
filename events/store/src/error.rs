//! Why a store could not be opened, or could not answer.

use events::journal::FrameError;
use events::record::{Hash, Position, Version};
use std::path::PathBuf;

/// The store could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process owns the file. Stop it, or verify and read beside it.
    #[error("{} is owned by {}: stop that process, or give another file", path.display(), owner(*pid))]
    Owned {
        /// The database.
        path: PathBuf,
        /// The owner, unless it has not said yet.
        pid: Option<u32>,
    },
    /// `SQLite` did not take a setting that durability rests on. Use a local disk and the bundled `SQLite`.
    #[error("pragma {pragma} is {found:?}, but must be {wanted:?}: put the file on a local disk")]
    NotSafe {
        /// Which setting.
        pragma: &'static str,
        /// What was set.
        wanted: String,
        /// What was read back.
        found: String,
    },
    /// Locks and fsync can not be relied on there. Move the file to a local disk.
    #[error("{} is on a network file system ({kind}): move it to a local disk", path.display())]
    NetworkFileSystem {
        /// The database.
        path: PathBuf,
        /// Which one.
        kind: &'static str,
    },
    /// Another build wrote it. Start a build that knows this schema.
    #[error("the file has schema {found}, this build knows {known}: start the build that wrote it")]
    Schema {
        /// What the file says.
        found: i64,
        /// What this build knows.
        known: i64,
    },
    /// It is some other program's file. Give another path.
    #[error("{} is not a journal of Piton: give another path", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// A row of the journal's own settings is missing or was changed. Restore a backup.
    #[error("row {name} of meta is missing or was changed: restore a backup")]
    Damaged {
        /// Which row.
        name: &'static str,
    },
    /// The file system refused. Look at the permissions of the folder.
    #[error("{} can not be used", path.display())]
    Io {
        /// What was to be used.
        path: PathBuf,
        /// How it failed.
        source: std::io::Error,
    },
    /// `SQLite` refused. When it calls the file malformed, restore a backup.
    #[error("sqlite could not open the journal")]
    Sqlite(#[from] rusqlite::Error),
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The store could not answer a question.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Stored bytes are not what was written. Stop, verify, restore a backup; never skip.
    #[error("the journal is damaged at {position}")]
    Corrupt {
        /// Where.
        position: Position,
        /// How it shows.
        source: Corrupt,
    },
    /// The blob is not stored.
    #[error("blob {0} is not stored")]
    NoBlob(Hash),
    /// The blob was erased on purpose.
    #[error("blob {0} was erased")]
    Erased(Hash),
    /// A snapshot is larger than the store keeps; go on without it.
    #[error("a snapshot of {bytes} bytes is over the limit of {max}")]
    SnapshotTooLarge {
        /// What was given.
        bytes: usize,
        /// What is kept.
        max: usize,
    },
    /// There is no answer now; it may be tried again.
    #[error("the store does not answer")]
    Outage(#[from] crate::Outage),
    /// `SQLite` could not read; it may be tried again.
    #[error("sqlite could not read the journal")]
    Sqlite(#[from] rusqlite::Error),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// How damage shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// The commit's bytes were changed, or are not a commit.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A column beside the commit disagrees with its bytes.
    #[error("column {0} disagrees with the commit's bytes")]
    Column(&'static str),
    /// The commit does not link to the one before it.
    #[error("the commit links to {found}, the one before it hashes to {expected}")]
    Link {
        /// The hash of the commit before.
        expected: Hash,
        /// What the commit says.
        found: Hash,
    },
    /// A commit of the stream is missing.
    #[error("the stream goes on with version {}, {} was to come", found.0, expected.0)]
    Versions {
        /// What was to come.
        expected: Version,
        /// What came.
        found: Version,
    },
    /// The hash over the order of the shard does not fit.
    #[error("the rolling hash does not fit the one before it")]
    Rolling,
    /// The stream's tail is cut, or its head was changed.
    #[error("the head says version {}, the last commit ends at {}", head.0, last.0)]
    Head {
        /// What the table of heads says.
        head: Version,
        /// Where the last commit ends.
        last: Version,
    },
    /// The head and the commit it names disagree.
    #[error("column {0} of the head disagrees with the last commit")]
    HeadColumn(&'static str),
    /// The blob's bytes were changed.
    #[error("blob {stored} hashes to {found}")]
    Blob {
        /// Its name.
        stored: Hash,
        /// What its bytes hash to.
        found: Hash,
    },
}
