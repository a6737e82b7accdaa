//! The first pass: commits in the order of their shard. Each one's bytes, the columns beside them, the hash over
//! the order, and the blobs that it refers to.

use super::{Inspection, Place, What, position};
use crate::Corrupt;
use crate::sqlite::row::{COLUMNS, Columns};
use events::journal::{hash, rolling};
use events::record::{BlobRef, Commit, Hash, Payload};
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeSet;

/// Commits of one page: short, so that a running owner's write-ahead log is not held back.
const PAGE_COMMITS: i64 = 512;
/// Names of blobs that were found sound and are not hashed again; 32 bytes each.
const SOUND_MAX: usize = 4_096;

/// Where the pass stands.
struct Cursor {
    /// None before the first commit. A damaged number may be negative.
    sequence: Option<i64>,
    rolling: Hash,
    sound: BTreeSet<Hash>,
}

pub(super) fn check(this: &mut Inspection<'_>) -> rusqlite::Result<()> {
    let newest = "select max(sequence) from commits";
    let newest: Option<i64> = this.connection.query_row(newest, [], |row| row.get(0))?;
    // What is appended meanwhile is the next verification's.
    let Some(newest) = newest else { return Ok(()) };
    let mut cursor = Cursor { sequence: None, rolling: Hash::default(), sound: BTreeSet::new() };
    let connection = this.connection;
    let mut select = connection.prepare(&format!(
        "select {COLUMNS} from commits where sequence >= ?1 and sequence <= ?2 order by sequence limit ?3"
    ))?;
    let mut from = i64::MIN;
    loop {
        let mut rows = select.query(params![from, newest, PAGE_COMMITS])?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            let sequence: i64 = row.get(0)?;
            last = Some(sequence);
            match Columns::of(row) {
                Ok(columns) => commit(this, &mut cursor, &columns)?,
                Err(error) => {
                    let position = Some(position(sequence));
                    this.unreadable(Place { position, ..Place::default() }, &error);
                }
            }
            cursor.sequence = Some(sequence);
            this.report.commits += 1;
            this.advance();
        }
        this.report.rolling = cursor.rolling;
        // A damaged tree may lead back: then what follows was read already.
        match last {
            Some(last) if last >= from && last < newest => from = last.saturating_add(1),
            Some(_) | None => return Ok(()),
        }
    }
}

fn commit(
    this: &mut Inspection<'_>,
    cursor: &mut Cursor,
    columns: &Columns<'_>,
) -> rusqlite::Result<()> {
    let place = Place { position: Some(columns.position()), ..Place::default() };
    let expected = cursor.sequence.map_or(1, |before| before.saturating_add(1));
    if columns.sequence != expected {
        let (expected, found) = (expected.cast_unsigned(), columns.sequence.cast_unsigned());
        this.problem(place.clone(), What::Sequence { expected, found });
    }
    let order = rolling(cursor.rolling, columns.sequence.cast_unsigned(), columns.hash);
    if columns.rolling != order {
        this.problem(place.clone(), Corrupt::Rolling);
    }
    // From what is stored, so that one changed commit is one problem and not all after it.
    cursor.rolling = columns.rolling;
    let commit = match columns.commit() {
        Ok(commit) => commit,
        Err(corrupt) => {
            this.problem(place, corrupt);
            return Ok(());
        }
    };
    let version = Some(commit.last_version());
    let place = Place { stream: Some(commit.stream.clone()), version, ..place };
    if let Some(column) = columns.differs(&commit) {
        this.problem(place.clone(), Corrupt::Column(column));
    }
    if commit.journal != this.report.journal {
        this.problem(place.clone(), What::Journal(commit.journal));
    }
    let entries = u64::try_from(commit.entries.len()).unwrap_or(u64::MAX);
    this.report.entries = this.report.entries.saturating_add(entries);
    blobs(this, &mut cursor.sound, &commit, &place)
}

fn blobs(
    this: &mut Inspection<'_>,
    sound: &mut BTreeSet<Hash>,
    commit: &Commit,
    place: &Place,
) -> rusqlite::Result<()> {
    for entry in &commit.entries {
        match &entry.payload {
            Payload::Inline(_) => {}
            Payload::Blob(blob) => {
                this.report.blobs += 1;
                if !sound.contains(&blob.hash) && check_blob(this, blob, place)? {
                    if sound.len() >= SOUND_MAX {
                        sound.clear();
                    }
                    sound.insert(blob.hash);
                }
            }
        }
    }
    Ok(())
}

/// Whether the blob is there with the bytes that it had.
fn check_blob(this: &mut Inspection<'_>, blob: &BlobRef, place: &Place) -> rusqlite::Result<bool> {
    let mut select =
        this.connection.prepare_cached("select bytes, body from blobs where hash = ?1")?;
    let found = select.query_row([blob.hash.0], |row| {
        let body = row.get_ref(1)?.as_blob_or_null()?;
        Ok((row.get::<_, i64>(0)?, body.map(|bytes| (hash(bytes), bytes.len()))))
    });
    let (size, body) = match found.optional() {
        Ok(Some(found)) => found,
        Ok(None) => {
            this.problem(place.clone(), What::BlobMissing(blob.hash));
            return Ok(false);
        }
        Err(error) => {
            this.unreadable(place.clone(), &error);
            return Ok(false);
        }
    };
    let mut sound = true;
    // Erasing turns the size negative: bytes that got lost do not pass for erased ones.
    let signed = if body.is_some() { size } else { size.saturating_neg() };
    if signed.cast_unsigned() != blob.bytes {
        this.problem(place.clone(), What::BlobSize(blob.hash));
        sound = false;
    }
    match body {
        None => {
            this.report.erased += 1;
            sound = false;
        }
        Some((found, _)) if found != blob.hash => {
            this.problem(place.clone(), Corrupt::Blob { stored: blob.hash, found });
            sound = false;
        }
        Some((_, length)) if u64::try_from(length) != Ok(blob.bytes) => {
            this.problem(place.clone(), What::BlobSize(blob.hash));
            sound = false;
        }
        Some(_) => {}
    }
    Ok(sound)
}
