//! Reading: short pages on read-only connections of their own, so that no reader waits for the writer and none
//! holds the write-ahead log back.
//!
//! Nothing is handed out unchecked: bytes against hash, columns against bytes, each commit against the one before.

use super::row::{COLUMNS, Columns};
use super::{batch::tail, schema};
use crate::follow::{PAGE_BYTES, PAGE_COMMITS};
use crate::memory::{SHARD, empty_tail};
use crate::{Corrupt, Due, FollowError, OpenError, Stats, StoreError, slot};
use events::journal::{genesis, rolling};
use events::record::{Hash, JournalId, Position, Recorded, StreamKey, Tail, Version};
use events::{id::Partition, quantity::Instant};
use rusqlite::{Connection, OptionalExtension, params};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reads at a time. Each holds a connection and a thread of the blocking pool; more than the cores only queue there.
const READERS: usize = 4;

/// The pool of reading connections.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    /// Held over no await.
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default(), permits: Arc::new(Semaphore::new(READERS)) }
    }

    /// A place to read from. Owned, so that a read whose asker has gone still counts.
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)
    }

    /// Runs a read. Blocks on the disk.
    pub(super) fn run<T, E: From<StoreError>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => schema::reader(&self.path).map_err(unopened)?,
        };
        let answer = read(&connection);
        // After an error the connection may be in a bad way: the next read opens another.
        if answer.is_ok() && !self.permits.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        answer
    }

    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn unopened(error: OpenError) -> StoreError {
    match error {
        OpenError::Sqlite(error) => StoreError::Sqlite(error),
        other => StoreError::Outage(crate::Outage::Unavailable(other.to_string())),
    }
}

fn corrupt(position: Position, source: Corrupt) -> StoreError {
    StoreError::Corrupt { position, source }
}

/// A stream's commits that end after a version.
pub(super) fn stream(
    connection: &Connection,
    journal: JournalId,
    stream: &StreamKey,
    after: Version,
    commits_max: usize,
) -> Result<Vec<Recorded>, StoreError> {
    // One view for the page, what stands before it and the head.
    let transaction = connection.unchecked_transaction()?;
    let limit = i64::try_from(commits_max).unwrap_or(i64::MAX);
    let mut select = transaction.prepare_cached(&format!(
        "select {COLUMNS} from commits where stream = ?1 and last_version > ?2 order by last_version limit ?3"
    ))?;
    let mut rows = select.query(params![stream.as_str(), after.0.cast_signed(), limit])?;
    let mut page: Vec<Recorded> = vec![];
    let mut before = None;
    while let Some(row) = rows.next()? {
        let columns = Columns::of(row)?;
        let recorded = columns.recorded_of(stream).map_err(|e| corrupt(columns.position(), e))?;
        let link = match before {
            Some(link) => link,
            None => link_before(&transaction, journal, &recorded, after)?,
        };
        before = Some(linked(link, &recorded)?);
        page.push(recorded);
    }
    if page.len() < commits_max {
        let last = page.last().map(|recorded| recorded.commit.last_version());
        let head = head_version(&transaction, stream)?;
        whole(&transaction, stream, (head, last, after))?;
        // The head says the right version: then everything else that it says must be right too.
        newest(&transaction, journal, stream)?;
    }
    Ok(page)
}

/// What a commit must link to, and the version it must start at.
type Link = (Hash, Version);

/// What the first commit of a page must link to.
fn link_before(
    connection: &Connection,
    journal: JournalId,
    first: &Recorded,
    after: Version,
) -> Result<Link, StoreError> {
    let Recorded { position, commit, .. } = first;
    let start = commit.first_version;
    if start <= Version(1) {
        return Ok((genesis(journal, &commit.stream), Version(1)));
    }
    let ends = Version(start.0.saturating_sub(1));
    if ends > after {
        let expected = after.plus(1);
        return Err(corrupt(*position, Corrupt::Versions { expected, found: start }));
    }
    let mut select = connection
        .prepare_cached("select hash from commits where stream = ?1 and last_version = ?2")?;
    let hash = select
        .query_row(params![commit.stream.as_str(), ends.0.cast_signed()], |row| row.get(0))
        .optional()?;
    match hash {
        Some(hash) => Ok((Hash(hash), start)),
        None => Err(corrupt(*position, Corrupt::Versions { expected: ends, found: start })),
    }
}

fn linked((hash, version): Link, recorded: &Recorded) -> Result<Link, StoreError> {
    let Recorded { position, commit, .. } = recorded;
    if commit.first_version != version {
        let (expected, found) = (version, commit.first_version);
        return Err(corrupt(*position, Corrupt::Versions { expected, found }));
    }
    if commit.prev != hash {
        return Err(corrupt(*position, Corrupt::Link { expected: hash, found: commit.prev }));
    }
    Ok((recorded.hash, commit.last_version().plus(1)))
}

fn head_version(
    connection: &Connection,
    stream: &StreamKey,
) -> Result<Option<(Version, u64)>, StoreError> {
    let mut select =
        connection.prepare_cached("select version, sequence from heads where stream = ?1")?;
    let head = select.query_row([stream.as_str()], |row| {
        let version = Version(row.get::<_, i64>(0)?.cast_unsigned());
        Ok((version, row.get::<_, i64>(1)?.cast_unsigned()))
    });
    Ok(head.optional()?)
}

/// At the end of a stream its head must say the same version, or the tail was cut.
fn whole(
    connection: &Connection,
    stream: &StreamKey,
    (head, last, after): (Option<(Version, u64)>, Option<Version>, Version),
) -> Result<(), StoreError> {
    let (version, sequence) = head.unwrap_or_default();
    let ends = match last {
        Some(last) => last,
        // Nothing after what the caller has: then the head must not have more either.
        None if version <= after => return Ok(()),
        None => {
            let mut select = connection
                .prepare_cached("select max(last_version) from commits where stream = ?1")?;
            let last: Option<i64> = select.query_row([stream.as_str()], |row| row.get(0))?;
            Version(last.unwrap_or_default().cast_unsigned())
        }
    };
    if ends == version {
        return Ok(());
    }
    let position = Position { shard: SHARD, sequence };
    Err(corrupt(position, Corrupt::Head { head: version, last: ends }))
}

/// The newest commit of a stream, checked against the commit itself.
pub(super) fn newest(
    connection: &Connection,
    journal: JournalId,
    stream: &StreamKey,
) -> Result<Tail, StoreError> {
    let mut select = connection.prepare_cached(
        "select h.version, h.hash, h.epoch, h.boot, h.sequence,
         ifnull(c.stream = h.stream and c.last_version = h.version and c.epoch = h.epoch and c.hash = h.hash, 0)
         from heads h left join commits c on c.sequence = h.sequence where h.stream = ?1",
    )?;
    let head = select
        .query_row([stream.as_str()], |row| Ok((tail(row)?, row.get::<_, bool>(5)?)))
        .optional()?;
    match head {
        None => Ok(empty_tail(journal, stream)),
        Some((tail, true)) => Ok(tail),
        Some((tail, false)) => {
            let position = Position { shard: SHARD, sequence: tail.sequence };
            Err(corrupt(position, Corrupt::HeadColumn("sequence")))
        }
    }
}

/// The commits after a cursor. Reads the commit at the cursor too: it must be there, and the hash over the order
/// goes on from it.
pub(super) fn page(connection: &Connection, after: u64) -> Result<Vec<Recorded>, FollowError> {
    let transaction = connection.unchecked_transaction().map_err(StoreError::from)?;
    let mut select = transaction
        .prepare_cached(&format!(
            "select {COLUMNS} from commits where sequence >= ?1 order by sequence limit ?2"
        ))
        .map_err(StoreError::from)?;
    let limit = i64::try_from(PAGE_COMMITS + 1).unwrap_or(i64::MAX);
    let rows = select.query(params![after.cast_signed(), limit]);
    let mut rows = rows.map_err(StoreError::from)?;
    let mut cursor = None;
    if after == 0 {
        cursor = Some((0, Hash::default()));
    }
    let (mut page, mut bytes) = (vec![], 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        let columns = Columns::of(row).map_err(StoreError::from)?;
        let position = columns.position();
        let found = position.sequence;
        let Some((before, hash)) = cursor else {
            if found != after {
                return Err(FollowError::Gap { after: after.saturating_sub(1), found });
            }
            cursor = Some((after, columns.rolling));
            continue;
        };
        if found != before + 1 {
            return Err(FollowError::Gap { after: before, found });
        }
        if columns.rolling != rolling(hash, found, columns.hash) {
            return Err(corrupt(position, Corrupt::Rolling).into());
        }
        bytes += columns.frame.len();
        page.push(columns.recorded().map_err(|e| corrupt(position, e))?);
        cursor = Some((found, columns.rolling));
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    if cursor.is_none() {
        let newest = newest_sequence(&transaction).map_err(StoreError::from)?;
        return Err(FollowError::Ahead { cursor: after, newest });
    }
    Ok(page)
}

pub(super) fn newest_sequence(connection: &Connection) -> rusqlite::Result<u64> {
    let newest = "select ifnull(max(sequence), 0) from commits";
    connection.query_row(newest, [], |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))
}

/// A partition's streams to look at.
pub(super) fn due(
    connection: &Connection,
    partition: Partition,
    before: Instant,
    page: usize,
    after: Option<&Due>,
) -> Result<Vec<Due>, StoreError> {
    let (wake, stream) = match after {
        // Below every wake.
        None => (-1, ""),
        Some(due) => match slot::stored_wake(due.wake) {
            None => return Ok(vec![]),
            Some(wake) => (wake, due.stream.as_str()),
        },
    };
    let mut select = connection.prepare_cached(
        "select wake, stream, sequence from heads where partition = ?1 and wake <= ?2 and wake >= ?3
         and (wake, stream) > (?3, ?4) order by wake, stream limit ?5",
    )?;
    let limit = i64::try_from(page).unwrap_or(i64::MAX);
    let latest = before.0.max(0);
    let rows = select
        .query_map(params![partition.number(), latest, wake, stream, limit], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
        })?;
    rows.map(|row| {
        let (wake, stream, sequence) = row?;
        let sequence = sequence.cast_unsigned();
        let bad = |_| corrupt(Position { shard: SHARD, sequence }, Corrupt::HeadColumn("stream"));
        Ok(Due { stream: stream.parse().map_err(bad)?, wake: slot::wake(Some(wake)) })
    })
    .collect()
}

/// The earliest time after `after` at which a stream of the partition falls due.
pub(super) fn next_wake(
    connection: &Connection,
    partition: Partition,
    after: Instant,
) -> Result<Option<Instant>, StoreError> {
    let mut select = connection
        .prepare_cached("select min(wake) from heads where partition = ?1 and wake > ?2")?;
    let next: Option<i64> =
        select.query_row(params![partition.number(), after.0.max(0)], |row| row.get(0))?;
    Ok(next.map(Instant))
}

/// How much the file holds; its sizes are the caller's to add.
pub(super) fn stats(connection: &Connection) -> Result<Stats, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let newest = transaction
        .query_row(
            "select sequence, rolling from commits order by sequence desc limit 1",
            [],
            |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), Hash(row.get(1)?))),
        )
        .optional()?;
    let (commits, rolling) = newest.unwrap_or_default();
    let numbers = |sql| {
        transaction.query_row(sql, [], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
        })
    };
    let (streams, entries) = numbers("select count(*), ifnull(sum(version), 0) from heads")?;
    let (blobs, _) = numbers("select count(*), 0 from blobs where body is not null")?;
    let restores = schema::counter(&transaction, schema::Counter::Restores).map_err(unopened)?;
    Ok(Stats { commits, entries, streams, blobs, restores, rolling, ..Stats::default() })
}
