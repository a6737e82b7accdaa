//! The second pass: each stream by itself. Links and versions from its first commit to its last, its head against
//! that one, its wake against the rules, and its snapshot.

use super::{Inspection, Place, WakeOf, What, position};
use crate::sqlite::row::{COLUMNS, Columns};
use crate::{Corrupt, Snapshot, slot};
use events::journal::{genesis, hash};
use events::record::{Boot, Entry, Epoch, Hash, Payload, Position, Recorded, StreamKey, Version};
use rusqlite::{Connection, OptionalExtension, types::ValueRef};
use std::sync::Arc;

/// Names of streams that are read at a time.
const PAGE_STREAMS: i64 = 512;

/// A stream's name as it is stored; in a damaged file, any bytes.
type Name = Vec<u8>;

pub(super) fn check(this: &mut Inspection<'_>, wake_of: WakeOf<'_>) -> rusqlite::Result<()> {
    // By their heads, and then those without one. A name is bound as bytes, for it may be no text.
    let heads = "select stream from heads where stream > cast(?1 as text) order by stream limit ?2";
    let orphans = "select distinct stream from commits c where stream > cast(?1 as text)
        and not exists (select 1 from heads h where h.stream = c.stream) order by stream limit ?2";
    for select in [heads, orphans] {
        let mut after = Name::new();
        loop {
            let names = names(this.connection, select, &after)?;
            // A damaged tree may lead back: then what follows was read already.
            let Some(last) = names.last().filter(|last| **last > after) else { break };
            after.clone_from(last);
            for name in names {
                stream(this, wake_of, &name)?;
            }
        }
    }
    Ok(())
}

fn names(connection: &Connection, select: &str, after: &Name) -> rusqlite::Result<Vec<Name>> {
    let mut select = connection.prepare_cached(select)?;
    let rows =
        select.query_map((after, PAGE_STREAMS), |row| Ok(row.get_ref(0)?.as_bytes()?.to_vec()))?;
    rows.collect()
}

/// A stream's chain as it is walked.
struct Chain {
    key: StreamKey,
    commits: Vec<Recorded>,
    /// What the next commit must link to, and the version it must start at.
    next: (Hash, Version),
    owner: Option<(Epoch, Boot)>,
    last: Option<Position>,
    /// Whether everything up to here fits.
    sound: bool,
}

fn stream(this: &mut Inspection<'_>, wake_of: WakeOf<'_>, name: &Name) -> rusqlite::Result<()> {
    let connection = this.connection;
    // One view of the commits and the head: the owner may be appending.
    let transaction = connection.unchecked_transaction()?;
    let text = String::from_utf8_lossy(name).into_owned();
    let Ok(key) = text.parse::<StreamKey>() else {
        let position = first_of(&transaction, name)?;
        this.problem(Place { position, ..Place::default() }, What::Stream(text));
        return Ok(());
    };
    let next = (genesis(this.report.journal, &key), Version(1));
    let mut chain = Chain { key, commits: vec![], next, owner: None, last: None, sound: true };
    let mut select = transaction.prepare_cached(&format!(
        "select {COLUMNS} from commits where stream = cast(?1 as text) order by last_version"
    ))?;
    let mut rows = select.query([name])?;
    while let Some(row) = rows.next()? {
        // What does not read was reported by the first pass.
        match Columns::of(row) {
            Ok(columns) => link(this, &mut chain, &columns),
            Err(_) => chain.sound = false,
        }
        this.advance();
    }
    if chain.last.is_some() {
        this.report.streams += 1;
    }
    head(this, &chain, &transaction, wake_of)
}

/// Where a stream with an impossible name has its first commit, or where its head says that its last one is.
fn first_of(connection: &Connection, name: &Name) -> rusqlite::Result<Option<Position>> {
    let first = "select min(sequence) from commits where stream = cast(?1 as text)";
    let first: Option<i64> = connection.query_row(first, [name], |row| row.get(0))?;
    let head = "select sequence from heads where stream = cast(?1 as text)";
    let head: Option<i64> = connection.query_row(head, [name], |row| row.get(0)).optional()?;
    Ok(first.or(head).map(position))
}

fn link(this: &mut Inspection<'_>, chain: &mut Chain, columns: &Columns<'_>) {
    let at = columns.position();
    let version = Version(columns.last_version.cast_unsigned());
    let place =
        Place { position: Some(at), stream: Some(chain.key.clone()), version: Some(version) };
    let before = chain.last.replace(at);
    if before.is_some_and(|before| before.sequence >= at.sequence) {
        chain.sound = false;
        this.problem(place.clone(), What::Order);
    }
    let (prev, expected) = chain.next;
    let Ok(commit) = columns.commit_of(&chain.key) else {
        // Reported by the first pass. Its columns lead on, so that what follows is not reported with it.
        chain.sound = false;
        chain.next = (columns.hash, version.plus(1));
        return;
    };
    chain.next = (columns.hash, commit.last_version().plus(1));
    let mut faults: Vec<What> = vec![];
    if commit.first_version != expected {
        faults.push(Corrupt::Versions { expected, found: commit.first_version }.into());
    }
    if commit.prev != prev {
        faults.push(Corrupt::Link { expected: prev, found: commit.prev }.into());
    }
    let owner = (commit.epoch, commit.boot);
    let goes_back = |(epoch, boot)| epoch > owner.0 || (epoch == owner.0 && boot != owner.1);
    if chain.owner.is_some_and(goes_back) {
        faults.push(What::Epoch);
    }
    chain.owner = Some(owner);
    chain.sound &= faults.is_empty();
    for fault in faults {
        this.problem(place.clone(), fault);
    }
    chain.commits.push(Recorded { position: at, hash: columns.hash, commit });
}

/// A row of heads.
struct Head {
    version: i64,
    hash: [u8; 32],
    epoch: i64,
    boot: [u8; 16],
    sequence: i64,
    partition: i64,
    wake: Option<i64>,
}

fn head(
    this: &mut Inspection<'_>,
    chain: &Chain,
    connection: &Connection,
    wake_of: WakeOf<'_>,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached(
        "select version, hash, epoch, boot, sequence, partition, wake from heads where stream = ?1",
    )?;
    let found = select.query_row([chain.key.as_str()], |row| {
        Ok(Head {
            version: row.get(0)?,
            hash: row.get(1)?,
            epoch: row.get(2)?,
            boot: row.get(3)?,
            sequence: row.get(4)?,
            partition: row.get(5)?,
            wake: row.get(6)?,
        })
    });
    let last = chain.next.1.0.saturating_sub(1);
    let stream = Some(chain.key.clone());
    let place = Place { position: chain.last, stream, version: Some(Version(last)) };
    let head = match found.optional() {
        Ok(Some(head)) => head,
        Ok(None) => {
            this.problem(place, What::NoHead);
            return Ok(());
        }
        Err(error) => {
            this.unreadable(place, &error);
            return Ok(());
        }
    };
    let claimed = Place {
        position: Some(position(head.sequence)),
        version: Some(Version(head.version.cast_unsigned())),
        ..place.clone()
    };
    if chain.last.is_none() {
        this.problem(claimed, What::NoCommits);
        return Ok(());
    }
    if head.version.cast_unsigned() != last {
        let head = Version(head.version.cast_unsigned());
        // With a cut tail this is the place of the commit that is missing.
        this.problem(claimed, Corrupt::Head { head, last: Version(last) });
    } else if let Some(column) = differs(&head, chain) {
        this.problem(place.clone(), Corrupt::HeadColumn(column));
    }
    wake(this, chain, head.wake, (place, wake_of));
    Ok(())
}

/// The first column of a head that disagrees with the last commit.
fn differs(head: &Head, chain: &Chain) -> Option<&'static str> {
    let (epoch, boot) = chain.owner.unwrap_or_default();
    if Hash(head.hash) != chain.next.0 {
        Some("hash")
    } else if chain.last != Some(position(head.sequence)) {
        Some("sequence")
    } else if head.partition != i64::from(chain.key.partition().number()) {
        Some("partition")
    } else if head.wake.is_some_and(|wake| wake < 0) {
        Some("wake")
    } else if !chain.sound {
        // The owner of the last commit can not be told.
        None
    } else if head.epoch.cast_unsigned() != epoch.0 {
        Some("epoch")
    } else if head.boot != boot.0.to_le_bytes() {
        Some("boot")
    } else {
        None
    }
}

fn wake(
    this: &mut Inspection<'_>,
    chain: &Chain,
    stored: Option<i64>,
    (place, wake_of): (Place, WakeOf<'_>),
) {
    if !chain.sound {
        return;
    }
    let connection = this.connection;
    let payload = |entry: &Entry| payload(connection, entry);
    if let Some(derived) = wake_of(&chain.key, &chain.commits, &payload) {
        this.report.wakes += 1;
        if slot::stored_wake(derived) != stored {
            this.problem(place, What::Wake { stored: slot::wake(stored), derived });
        }
    }
}

fn payload(connection: &Connection, entry: &Entry) -> Option<Arc<[u8]>> {
    match &entry.payload {
        Payload::Inline(bytes) => Some(bytes.clone()),
        Payload::Blob(blob) => {
            let select = "select body from blobs where hash = ?1";
            let mut select = connection.prepare_cached(select).ok()?;
            let bytes: Arc<[u8]> = select.query_row([blob.hash.0], |row| row.get(0)).ok()?;
            (hash(&bytes) == blob.hash).then_some(bytes)
        }
    }
}

/// Readers drop a snapshot that does not fit, so that one is a sign of damage and no danger.
pub(super) fn snapshots(this: &mut Inspection<'_>) -> rusqlite::Result<()> {
    let connection = this.connection;
    let mut select = connection.prepare(
        "select s.stream, s.fold, s.version, s.hash, s.checksum, s.body, c.hash from snapshots s
         left join commits c on c.stream = s.stream and c.last_version = s.version",
    )?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let stream = match row.get_ref(0)? {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().and_then(|s| s.parse().ok()),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
        };
        let version = Version(row.get::<_, i64>(2).unwrap_or_default().cast_unsigned());
        if stream.is_none() || !fits(row, version).unwrap_or(false) {
            this.problem(Place { position: None, stream, version: Some(version) }, What::Snapshot);
        }
    }
    Ok(())
}

fn fits(row: &rusqlite::Row<'_>, version: Version) -> rusqlite::Result<bool> {
    let hash = Hash(row.get(3)?);
    let snapshot = Snapshot { fold: row.get(1)?, version, hash, bytes: row.get(5)? };
    let at: Option<[u8; 32]> = row.get(6)?;
    Ok(snapshot.checksum() == Hash(row.get(4)?) && at == Some(hash.0))
}
