//! Reads a whole journal and reports everything in it that is not as it was written, each with its place.
//!
//! It must never shorten in silence: what can not be read is a problem, and the rest is read all the same. What no
//! check inside one file can show is a cut of a stream's tail together with its head; that waits for anchors.

mod order;
mod streams;

use crate::memory::SHARD;
use crate::sqlite::schema::Counter;
use crate::sqlite::{lock, schema, wal_bytes};
use crate::{Corrupt, OpenError};
use events::aggregate::Wake;
use events::record::{Entry, Hash, JournalId, Position, Recorded, StreamKey, Version};
use rusqlite::{Connection, types::ValueRef};
use std::{fmt, path::Path, sync::Arc};

/// Fetches the payload of an entry, wherever it stands; none when it is erased or damaged.
pub type Payloads<'a> = &'a dyn Fn(&Entry) -> Option<Arc<[u8]>>;

/// What was read, and what was wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Which journal it says it is.
    pub journal: JournalId,
    /// Commits that were read.
    pub commits: u64,
    /// Entries of those commits.
    pub entries: u64,
    /// Streams.
    pub streams: u64,
    /// Blobs that commits refer to, counted once for each reference.
    pub blobs: u64,
    /// References to blobs that were erased.
    pub erased: u64,
    /// Streams whose wake was derived again and compared.
    pub wakes: u64,
    /// The rolling hash at the end, for comparing two copies.
    pub rolling: Hash,
    /// What is wrong, the first [`PROBLEMS_MAX`] of it.
    pub problems: Vec<Problem>,
    /// How much is wrong in all.
    pub problems_count: u64,
}

impl Report {
    /// Counts a problem, and keeps it while there is room.
    pub(crate) fn add(&mut self, problem: Problem) {
        self.problems_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// Problems that are kept in a report; more are counted only, so that a file of noise does not fill the memory.
pub const PROBLEMS_MAX: usize = 1_000;

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which commit, when it is about one.
    pub position: Option<Position>,
    /// Which stream, when that can be told.
    pub stream: Option<StreamKey>,
    /// The version of the commit's last entry, or what the head claims.
    pub version: Option<Version>,
    /// What is wrong.
    pub what: What,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "at {position}: ")?;
        }
        match (&self.stream, self.version) {
            (Some(stream), Some(version)) => write!(f, "{stream} version {}: ", version.0)?,
            (Some(stream), None) => write!(f, "{stream}: ")?,
            (None, _) => {}
        }
        write!(f, "{}", self.what)
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum What {
    /// The same that a reader would be told.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The commit was made for another journal.
    #[error("the commit belongs to journal {0}")]
    Journal(JournalId),
    /// A commit is missing or stands twice.
    #[error("sequence {found} stands where {expected} was to come")]
    Sequence {
        /// What was to come.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// A stream's commits stand in another order than their versions.
    #[error("the stream's order differs from that of its versions")]
    Order,
    /// An owner that was fenced has written.
    #[error("epoch or boot goes back")]
    Epoch,
    /// A stream has commits but no head.
    #[error("the stream has no head")]
    NoHead,
    /// A head has no commits.
    #[error("the stream has a head and no commits")]
    NoCommits,
    /// The name of a stream is none.
    #[error("{0:?} is not a stream")]
    Stream(String),
    /// A commit refers to a blob that is not there.
    #[error("blob {0} is missing")]
    BlobMissing(Hash),
    /// The size beside a blob is not its size.
    #[error("the size beside blob {0} is wrong")]
    BlobSize(Hash),
    /// The stream would wake at another time than it should.
    #[error("the stream wakes {stored:?}, but should wake {derived:?}")]
    Wake {
        /// What is stored.
        stored: Wake,
        /// What the rules say.
        derived: Wake,
    },
    /// A snapshot is not as it was written; readers drop it.
    #[error("the snapshot does not fit its stream")]
    Snapshot,
    /// A table, an index or a trigger is not as this build makes it.
    #[error("the schema differs: {0}")]
    Schema(String),
    /// The journal's own settings are damaged.
    #[error("row {0} of meta is missing or damaged")]
    Meta(&'static str),
    /// `SQLite` finds its own structures damaged.
    #[error("sqlite reports: {0}")]
    Sqlite(String),
}

/// For callers that have no rules at hand: no wake is compared.
#[must_use]
pub fn no_wakes(_: &StreamKey, _: &[Recorded], _: Payloads<'_>) -> Option<Wake> {
    None
}

/// Reads a journal file, read-only; its owner may be running. `wake_of` derives a stream's wake from its commits, or
/// declines with none; one whole stream is in memory at a time. `progress` is told commits done and in all; each
/// commit is read twice.
///
/// # Errors
///
/// [`OpenError`] when the file can not be opened as a journal. Damage is not an error: it stands in the report.
pub fn verify(
    path: &Path,
    wake_of: impl Fn(&StreamKey, &[Recorded], Payloads<'_>) -> Option<Wake>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Report, OpenError> {
    if at_rest(path)? {
        let report = inspect(schema::reader_at_rest(path)?, path, &wake_of, &mut progress)?;
        // Unless it was opened meanwhile: then what was read may be a mixture.
        if at_rest(path)? {
            return Ok(report);
        }
    }
    inspect(schema::reader(path)?, path, &wake_of, &mut progress)
}

/// Whether the file is complete without its write-ahead log and nobody owns it. Such a file is read without making
/// `SQLite`'s own files beside it.
fn at_rest(path: &Path) -> Result<bool, OpenError> {
    let io = |source| OpenError::Io { path: path.to_path_buf(), source };
    std::fs::metadata(path).map_err(io)?;
    let owned = match std::fs::File::open(lock::beside(path)) {
        // Let go at once: it was only a look.
        Ok(file) => file.try_lock_shared().is_err(),
        Err(_) => false,
    };
    Ok(!owned && wal_bytes(path) == 0)
}

/// How a stream's wake is derived.
type WakeOf<'a> = &'a dyn Fn(&StreamKey, &[Recorded], Payloads<'_>) -> Option<Wake>;

fn inspect(
    connection: Connection,
    path: &Path,
    wake_of: WakeOf<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, OpenError> {
    match schema::identify(&connection, path)? {
        schema::Identity::Journal => {}
        schema::Identity::New => {
            return Err(OpenError::NotAJournal { path: path.to_path_buf() });
        }
    }
    let journal = schema::journal(&connection)?;
    let report = Report { journal, ..Report::default() };
    let mut inspection =
        Inspection { connection: &connection, report, progress, done: 0, total: 0 };
    inspection.pass(Inspection::count);
    inspection.pass(Inspection::tables);
    inspection.pass(Inspection::settings);
    inspection.pass(order::check);
    inspection.pass(|this| streams::check(this, wake_of));
    inspection.pass(streams::snapshots);
    inspection.pass(Inspection::structure);
    Ok(inspection.report)
}

/// A verification under way.
struct Inspection<'a> {
    connection: &'a Connection,
    report: Report,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
}

/// The place of a stored sequence; a damaged one may be any number.
fn position(sequence: i64) -> Position {
    Position { shard: SHARD, sequence: sequence.cast_unsigned() }
}

/// What a problem is about.
#[derive(Debug, Clone, Default)]
struct Place {
    position: Option<Position>,
    stream: Option<StreamKey>,
    version: Option<Version>,
}

impl Inspection<'_> {
    /// Runs one pass; where it can not go on is a problem, and the next one is run all the same.
    fn pass(&mut self, pass: impl FnOnce(&mut Self) -> rusqlite::Result<()>) {
        if let Err(error) = pass(self) {
            self.unreadable(Place::default(), &error);
        }
    }

    fn problem(&mut self, place: Place, what: impl Into<What>) {
        let Place { position, stream, version } = place;
        self.report.add(Problem { position, stream, version, what: what.into() });
    }

    fn unreadable(&mut self, place: Place, error: &rusqlite::Error) {
        self.problem(place, What::Sqlite(error.to_string()));
    }

    fn advance(&mut self) {
        self.done += 1;
        (self.progress)(self.done, self.total.max(self.done));
    }

    fn count(&mut self) -> rusqlite::Result<()> {
        let count = "select count(*) from commits";
        let count: i64 = self.connection.query_row(count, [], |row| row.get(0))?;
        self.total = count.cast_unsigned().saturating_mul(2);
        Ok(())
    }

    /// Tables, indexes and triggers are as this build makes them, or a missing trigger would let a commit change.
    fn tables(&mut self) -> rusqlite::Result<()> {
        let model = Connection::open_in_memory()?;
        model.execute_batch(schema::TABLES)?;
        let (wanted, found) = (definitions(&model)?, definitions(self.connection)?);
        let differs = wanted
            .iter()
            .filter(|one| !found.contains(one))
            .chain(found.iter().filter(|one| !wanted.contains(one)));
        for (name, _) in differs {
            self.problem(Place::default(), What::Schema(name.clone()));
        }
        Ok(())
    }

    fn settings(&mut self) -> rusqlite::Result<()> {
        for counter in [Counter::Epoch, Counter::Restores, Counter::Probes] {
            if schema::counter(self.connection, counter).is_err() {
                self.problem(Place::default(), What::Meta(counter.name()));
            }
        }
        let rows = "select count(*) from meta";
        let rows: i64 = self.connection.query_row(rows, [], |row| row.get(0))?;
        if rows != schema::META_ROWS {
            self.problem(Place::default(), What::Meta("of another name"));
        }
        Ok(())
    }

    /// `SQLite`'s own check of its pages and indexes. The full one: an index that lost a commit id would let a
    /// repeated commit in a second time.
    fn structure(&mut self) -> rusqlite::Result<()> {
        let mut check = self.connection.prepare("pragma integrity_check")?;
        let mut rows = check.query([])?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            if line != "ok" {
                self.problem(Place::default(), What::Sqlite(line));
            }
        }
        Ok(())
    }
}

/// Name and text of everything in a schema.
fn definitions(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut select =
        connection.prepare("select name, type, tbl_name, sql from sqlite_schema order by name")?;
    // What is no text is told apart from every text, or a changed type would not show.
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Null => "<null>".to_owned(),
        ValueRef::Integer(_) | ValueRef::Real(_) => "<number>".to_owned(),
        ValueRef::Blob(_) => "<blob>".to_owned(),
    };
    let rows = select.query_map([], |row| {
        let [kind, table, sql] = [row.get_ref(1)?, row.get_ref(2)?, row.get_ref(3)?].map(text);
        Ok((text(row.get_ref(0)?), format!("{kind} {table} {sql}")))
    })?;
    rows.collect()
}
