//! The file `views.db`: its shape, and the live and shadow tables of each projection.
//!
//! It can be deleted at any time and is built again from the journal, so it is written without waiting for the disk
//! (`synchronous=NORMAL`), a file of another shape is made anew, and a damaged one is set aside rather than repaired.

use crate::Name;
use crate::column::totals_definition;
use rusqlite::{CachedStatement, Connection, Error, ErrorCode, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Counts the changes of any table; a file of another number is made anew.
const SHAPE: i64 = 6;
/// Says that a file is ours: `pivw`.
const APPLICATION: i64 = 0x7069_7677;
/// How long a statement waits for another connection's lock (5 s): longer than any transaction here.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Prepared statements of one connection; more than all projections have.
const STATEMENTS: usize = 64;
/// Bytes to which the write-ahead log is cut back (16 MiB).
const WAL_BYTES: i64 = 16 << 20;

/// `views.db` could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is some other program's file. Give another path.
    #[error("{} is not a file of Piton's projections: give another path", .0.display())]
    NotViews(PathBuf),
    /// The file system refused. Look at the permissions of the folder.
    #[error("{} can not be used", path.display())]
    Io {
        /// What was to be used.
        path: PathBuf,
        /// How it failed.
        source: std::io::Error,
    },
    /// `SQLite` refused. The file can be deleted: it is built again from the journal.
    #[error("sqlite could not open {}; it can be deleted, it is built again", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// How it failed.
        source: Error,
    },
}

/// Which tables of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Set {
    /// Those that are read.
    Live,
    /// Those that will take their place.
    Shadow,
}

impl Set {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Shadow => "shadow",
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Shadow => "shadow_",
        }
    }

    /// A statement about these tables: `{t}` stands before each table's name.
    pub(crate) fn sql(self, text: &str) -> String {
        text.replace("{t}", self.prefix())
    }
}

/// A set of tables, seen through a connection that may be in a transaction.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) set: Set,
}

impl<'a> Tables<'a> {
    pub(crate) fn live(connection: &'a Connection) -> Self {
        Self { connection, set: Set::Live }
    }

    pub(crate) fn statement(self, text: &str) -> rusqlite::Result<CachedStatement<'a>> {
        self.connection.prepare_cached(&self.set.sql(text))
    }

    /// Makes a projection's tables. `generation` keeps the names of indexes apart, which a rename of the tables does
    /// not change.
    pub(crate) fn create(self, name: Name, generation: u32) -> rusqlite::Result<()> {
        let text = name.definitions().replace("{totals}", &totals_definition());
        let text = text.replace("{g}", &generation.to_string());
        self.connection.execute_batch(&self.set.sql(&text))
    }

    pub(crate) fn remove(self, name: Name) -> rusqlite::Result<()> {
        let drop = |table| self.set.sql(&format!("DROP TABLE IF EXISTS {{t}}{table}"));
        name.tables().iter().try_for_each(|table| self.connection.execute_batch(&drop(table)))
    }
}

/// Puts a projection's shadow tables in the place of its live ones; inside a transaction.
pub(crate) fn swap(connection: &Connection, name: Name) -> rusqlite::Result<()> {
    Tables::live(connection).remove(name)?;
    name.tables().iter().try_for_each(|table| {
        connection.execute_batch(&format!("ALTER TABLE shadow_{table} RENAME TO {table}"))
    })
}

enum Found {
    Ours,
    New,
    OtherShape,
    Foreign,
}

fn look(connection: &Connection) -> rusqlite::Result<Found> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let shape = number("PRAGMA user_version")?;
    Ok(match (application, shape) {
        (APPLICATION, SHAPE) => Found::Ours,
        (APPLICATION, _) => Found::OtherShape,
        (0, 0) if number("SELECT COUNT(*) FROM sqlite_schema")? == 0 => Found::New,
        (_, _) => Found::Foreign,
    })
}

fn prepare(connection: &mut Connection, found: &Found) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if matches!(found, Found::New) {
        transaction.execute_batch(include_str!("sql/cursors.sql"))?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", SHAPE)?;
    }
    // What a rebuild left behind that its process did not survive.
    for name in Name::ALL {
        Tables { connection: &transaction, set: Set::Shadow }.remove(name)?;
    }
    transaction.execute_batch(
        "DELETE FROM cursors WHERE tables = 'shadow'; DELETE FROM sets WHERE tables = 'shadow'",
    )?;
    transaction.commit()
}

fn is_damage(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// The file and what `SQLite` keeps beside it.
fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

fn each_file(path: &Path, act: impl Fn(&Path) -> std::io::Result<()>) -> Result<(), OpenError> {
    files(path).iter().filter(|file| file.exists()).try_for_each(|file| {
        act(file).map_err(|source| OpenError::Io { path: file.clone(), source })
    })
}

fn set_aside(file: &Path) -> std::io::Result<()> {
    let mut aside = file.as_os_str().to_owned();
    aside.push(".damaged");
    std::fs::rename(file, aside)
}

/// Opens the file for its one writer, and makes it where it is missing, damaged or of another shape.
pub(crate) fn open(path: &Path) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::Sqlite { path: path.to_path_buf(), source };
    let attempt = || -> rusqlite::Result<(Connection, Found)> {
        let mut connection = Connection::open(path)?;
        // A runner that was thought dead may still be at its last batch.
        connection.busy_timeout(LOCK_WAIT)?;
        let found = look(&connection)?;
        match found {
            Found::Ours | Found::New => prepare(&mut connection, &found)?,
            Found::OtherShape | Found::Foreign => {}
        }
        Ok((connection, found))
    };
    match attempt() {
        Ok((connection, Found::Ours | Found::New)) => return Ok(connection),
        Ok((_, Found::Foreign)) => return Err(OpenError::NotViews(path.to_path_buf())),
        Ok((connection, Found::OtherShape)) => {
            drop(connection);
            each_file(path, |file| std::fs::remove_file(file))?;
        }
        Err(error) if is_damage(&error) => {
            tracing::warn!(path = %path.display(), %error, "views set aside: damaged");
            each_file(path, set_aside)?;
        }
        Err(error) => return Err(failed(error)),
    }
    attempt().map(|(connection, _)| connection).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_shape_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("views.db");
        let connection = open(&path).unwrap();
        connection.execute_batch("CREATE TABLE old (n)").unwrap();
        connection.pragma_update(None, "user_version", SHAPE + 1).unwrap();
        drop(connection);
        let count = "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'old'";
        let found = open(&path).unwrap().query_row(count, [], |row| row.get::<_, i64>(0));
        assert_eq!(found, Ok(0));
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_a_foreign_one_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("views.db");
        std::fs::write(&path, vec![7; 8_192]).unwrap();
        open(&path).unwrap();
        let aside = std::fs::read(folder.path().join("views.db.damaged")).unwrap();
        assert_eq!(aside, vec![7; 8_192]);

        let foreign = folder.path().join("other.db");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE mine (n)").unwrap();
        assert!(matches!(open(&foreign), Err(OpenError::NotViews(path)) if path == foreign));
        let mine = "SELECT COUNT(*) FROM mine";
        let kept = Connection::open(&foreign).unwrap().query_row(mine, [], |row| row.get(0));
        assert_eq!(kept, Ok(0_i64));
    }

    #[test]
    fn every_table_of_a_projection_is_made_and_swapped() {
        let connection = Connection::open_in_memory().unwrap();
        for name in Name::ALL {
            Tables::live(&connection).create(name, 0).unwrap();
            Tables { connection: &connection, set: Set::Shadow }.create(name, 1).unwrap();
            swap(&connection, name).unwrap();
            Tables { connection: &connection, set: Set::Shadow }.create(name, 2).unwrap();
            swap(&connection, name).unwrap();
        }
        // The index of words keeps tables of its own beside it.
        let tables = "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name NOT IN \
             ('search_data', 'search_idx', 'search_content', 'search_docsize', 'search_config')";
        let count: i64 = connection.query_row(tables, [], |row| row.get(0)).unwrap();
        let owned: usize = Name::ALL.iter().map(|name| name.tables().len()).sum();
        assert_eq!(usize::try_from(count), Ok(owned));
    }
}
