//! The tables of a journal file and the settings its durability rests on; each setting is read back, for `SQLite`
//! ignores what it can not do.

use crate::OpenError;
use events::record::{Epoch, JournalId};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params, types::ValueRef};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Marks the file as a journal of Piton: `Pitn`.
pub(crate) const APPLICATION: i64 = 0x5069_746e;
/// The layout of the tables; stands in `user_version`.
pub(crate) const SCHEMA: i64 = 1;

/// Milliseconds to wait for a lock. Nobody holds one for long: readers do not block the writer.
const BUSY_MS: &str = "5000";
/// Statements that a connection keeps compiled; there are about a dozen.
const STATEMENTS_MAX: usize = 32;

/// The tables, exactly as they must stand in the file.
pub(crate) const TABLES: &str = "
CREATE TABLE meta(name text primary key, value blob not null, hash blob not null) strict, without rowid;
CREATE TABLE commits(sequence integer primary key, stream text not null, first_version integer not null,
    last_version integer not null, commit_id blob not null unique, epoch integer not null, hash blob not null,
    rolling blob not null, frame blob not null, unique(stream, last_version)) strict;
CREATE TABLE heads(stream text primary key, version integer not null, hash blob not null, epoch integer not null,
    boot blob not null, sequence integer not null, partition integer not null, wake integer) strict, without rowid;
CREATE INDEX heads_due ON heads(partition, wake) where wake is not null;
CREATE TABLE blobs(hash blob primary key, bytes integer not null, body blob) strict;
CREATE TABLE snapshots(stream text primary key, fold integer not null, version integer not null,
    hash blob not null, checksum blob not null, body blob not null) strict;
CREATE TRIGGER commits_stay BEFORE UPDATE ON commits BEGIN select raise(abort, 'a commit is never changed'); END;
CREATE TRIGGER commits_remain BEFORE DELETE ON commits BEGIN select raise(abort, 'a commit is never deleted'); END;
";

/// Set on the writer's connection, and read back.
const WRITER: [(&str, &str); 9] = [
    ("journal_mode", "wal"),
    // FULL: each commit is synced, so that it survives a power loss.
    ("synchronous", "2"),
    ("fullfsync", "1"),
    // Pages of 4 KiB: the log is moved into the file every 16 MB.
    ("wal_autocheckpoint", "4000"),
    // Bytes that the log keeps after that.
    ("journal_size_limit", "67108864"),
    ("trusted_schema", "0"),
    ("cell_size_check", "1"),
    ("busy_timeout", BUSY_MS),
    // KiB of pages in memory, as a negative number: the indexes are written at random places.
    ("cache_size", "-16384"),
];

/// Set on every reading connection, and read back.
const READER: [(&str, &str); 4] = [
    ("query_only", "1"),
    ("trusted_schema", "0"),
    ("cell_size_check", "1"),
    ("busy_timeout", BUSY_MS),
];

/// Whether the file is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    New,
    Journal,
}

/// Opens the writer's connection. The caller holds the lock. Says which journal it is and whose epoch it is now.
pub(super) fn own(
    path: &Path,
    fresh: JournalId,
) -> Result<(Connection, JournalId, Epoch), OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Before anything is set: another program's file is left as it was.
    let identity = identify(&connection, path)?;
    apply(&connection, &WRITER)?;
    let transaction = connection.unchecked_transaction()?;
    if identity == Identity::New {
        create(&transaction, fresh)?;
    }
    let journal = journal(&transaction)?;
    let epoch = rise(&transaction)?;
    transaction.commit()?;
    if identity == Identity::New {
        sync_folder(path)?;
    }
    Ok((connection, journal, epoch))
}

/// Opens a reading connection.
pub(crate) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    apply(&connection, &READER)?;
    Ok(connection)
}

/// Opens a reading connection on a file that nobody has open, leaving no files of `SQLite`'s beside it.
pub(crate) fn reader_at_rest(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let path = path.to_str().ok_or_else(|| OpenError::NotAJournal { path: path.to_path_buf() })?;
    let escaped = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let connection = Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)?;
    apply(&connection, &READER)?;
    Ok(connection)
}

/// Says whether a file is a journal of this build, is new, or is something else.
pub(crate) fn identify(connection: &Connection, path: &Path) -> Result<Identity, OpenError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = number("application_id")?;
    let found = number("user_version")?;
    let made: i64 = connection.query_row("select count(*) from sqlite_schema", [], |r| r.get(0))?;
    match (application, found, made) {
        (0, 0, 0) => Ok(Identity::New),
        (APPLICATION, SCHEMA, _) => Ok(Identity::Journal),
        (APPLICATION, ..) => Err(OpenError::Schema { found, known: SCHEMA }),
        _ => Err(OpenError::NotAJournal { path: path.to_path_buf() }),
    }
}

fn create(connection: &Connection, fresh: JournalId) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", SCHEMA)?;
    put(connection, JOURNAL, &fresh.0.to_le_bytes())?;
    [Counter::Epoch, Counter::Restores, Counter::Probes]
        .into_iter()
        .try_for_each(|counter| set_counter(connection, counter, 0))
}

/// The journal's name and its counters.
pub(crate) const META_ROWS: i64 = 4;
/// The row of meta that names the journal.
pub(crate) const JOURNAL: &str = "journal";

/// A number of the journal's own, a row of meta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    /// The highest epoch that was seen.
    Epoch,
    /// How often the journal was put back from a copy.
    Restores,
    /// Probes, counted only so that each one writes something.
    Probes,
}

impl Counter {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Epoch => "epoch",
            Self::Restores => "restores",
            Self::Probes => "probes",
        }
    }
}

/// Each row of meta has its own hash, for no commit covers it.
fn checksum(name: &str, value: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"piton/meta/1");
    hasher.update(name.as_bytes());
    hasher.update([0]);
    hasher.update(value);
    hasher.finalize().into()
}

fn put(connection: &Connection, name: &str, value: &[u8]) -> rusqlite::Result<()> {
    let mut put = connection
        .prepare_cached("insert or replace into meta(name, value, hash) values (?1, ?2, ?3)")?;
    put.execute(params![name, value, checksum(name, value)])?;
    Ok(())
}

fn get<const N: usize>(connection: &Connection, name: &'static str) -> Result<[u8; N], OpenError> {
    let row = connection
        .query_row("select value, hash from meta where name = ?1", [name], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    let sound = row.filter(|(value, hash)| checksum(name, value).as_slice() == hash);
    let value = sound.and_then(|(value, _)| value.try_into().ok());
    value.ok_or(OpenError::Damaged { name })
}

/// Which journal a file says it is.
pub(crate) fn journal(connection: &Connection) -> Result<JournalId, OpenError> {
    Ok(JournalId(u128::from_le_bytes(get(connection, JOURNAL)?)))
}

/// The epoch above every one that was seen here.
fn rise(connection: &Connection) -> Result<Epoch, OpenError> {
    let opened = counter(connection, Counter::Epoch)?;
    let newest = "select epoch from commits order by sequence desc limit 1";
    let written = connection
        .query_row(newest, [], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))
        .optional()?;
    let epoch = opened.max(written.unwrap_or_default()).saturating_add(1);
    set_counter(connection, Counter::Epoch, epoch)?;
    Ok(Epoch(epoch))
}

/// Reads a counter.
pub(crate) fn counter(connection: &Connection, counter: Counter) -> Result<u64, OpenError> {
    Ok(u64::from_le_bytes(get(connection, counter.name())?))
}

/// Sets a counter.
pub(crate) fn set_counter(
    connection: &Connection,
    counter: Counter,
    value: u64,
) -> rusqlite::Result<()> {
    put(connection, counter.name(), &value.to_le_bytes())
}

fn apply(connection: &Connection, settings: &[(&'static str, &str)]) -> Result<(), OpenError> {
    // A plan is made once. Without it a statement is compiled again whenever another value is bound: that took a
    // third of the time of waking a stream.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    for (pragma, wanted) in settings.iter().copied() {
        connection.pragma_update(None, pragma, wanted)?;
        let found = connection.pragma_query_value(None, pragma, |row| row.get_ref(0).map(text))?;
        if found != wanted {
            return Err(OpenError::NotSafe { pragma, wanted: wanted.to_owned(), found });
        }
    }
    Ok(())
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into(),
    }
}

/// Makes the names in a file's folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), OpenError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let io = |source| OpenError::Io { path: folder.to_path_buf(), source };
    std::fs::File::open(folder).map_err(io)?.sync_all().map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_was_not_taken_is_an_error() {
        // A database in memory has no write-ahead log and says so.
        let connection = Connection::open_in_memory().unwrap();
        let error = apply(&connection, &WRITER).unwrap_err();
        assert!(
            matches!(&error, OpenError::NotSafe { pragma: "journal_mode", found, .. } if found == "memory"),
            "{error}"
        );
        apply(&connection, &READER).unwrap();
    }

    #[test]
    fn a_changed_row_of_meta_is_an_error() {
        let connection = Connection::open_in_memory().unwrap();
        create(&connection, JournalId(7)).unwrap();
        assert_eq!(journal(&connection).unwrap(), JournalId(7));
        set_counter(&connection, Counter::Restores, 3).unwrap();
        assert_eq!(counter(&connection, Counter::Restores).unwrap(), 3);
        connection
            .execute("update meta set value = zeroblob(8) where name = 'restores'", [])
            .unwrap();
        let error = counter(&connection, Counter::Restores).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { name: "restores" }), "{error}");
    }
}
