//! A changed byte shows, wherever it stands: in a cell of a commit, of a head or of a blob, or anywhere in the raw
//! file. So do rows that change places, and a tail that is cut while its head still tells.

use crate::probe::{JOURNAL, after, all, grow, landed, stream, wake_of};
use events::record::{Boot, Hash, Payload, Recorded, StreamKey, Version};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, params};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use store::verify::{Problem, Report, What, verify};
use store::{Blob, Corrupt, Faults, Open, OpenError, Snapshot, Store};
use tempfile::TempDir;

/// Bytes of the raw file from one flip to the next; `PITON_TEST_FLIP_STRIDE` overrides it. A prime, so that over the
/// pages every field is met.
const STRIDE: usize = 17;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A small journal: seven commits in three streams, a blob, a snapshot. Closed, so that all of it is in one file.
struct Small {
    folder: TempDir,
    /// The commit that refers to the blob.
    blob_at: u64,
}

impl Small {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = open(&folder.path().join("journal.db")).unwrap();
        for n in 0..2_u8 {
            for name in NAMES {
                grow(&store, &stream(name), &[&[n; 20], b"second"]).await;
            }
        }
        let stream = stream("b");
        let tail = store.tail(&stream).await.unwrap();
        let blob = Blob::new(b"bytes that stand outside"[..].into());
        let mut append = after(&store, &stream, tail, &[b"see"]);
        append.commit.entries[0].payload = Payload::Blob(blob.reference);
        append.blobs = vec![blob];
        let tail = landed(&store.append(append).await);
        let bytes = b"a fold"[..].into();
        let snapshot = Snapshot { fold: 1, version: tail.version, hash: tail.hash, bytes };
        store.put_snapshot(&stream, snapshot).await.unwrap();
        store.close().await;
        Self { folder, blob_at: tail.sequence }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    /// A connection that may change what a store never changes.
    fn tamper(&self) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection
            .execute_batch(
                "pragma journal_mode = delete; pragma synchronous = off;
                 drop trigger commits_stay; drop trigger commits_remain;",
            )
            .unwrap();
        connection
    }
}

fn open(path: &Path) -> Result<Store, OpenError> {
    let faults = Faults::none();
    Store::open(Open { path: path.into(), boot: Boot(1), fresh: JOURNAL, faults })
}

/// What a verification finds, but for the triggers that the test itself took away.
fn problems(path: &Path) -> Vec<Problem> {
    let Report { mut problems, .. } = verify(path, wake_of, |_, _| {}).unwrap();
    problems.retain(
        |problem| !matches!(&problem.what, What::Schema(name) if name.starts_with("commits_")),
    );
    problems
}

fn at(problem: &Problem) -> Option<u64> {
    problem.position.map(|position| position.sequence)
}

/// A stored value, and where it stands.
#[derive(Debug, Clone)]
struct Cell {
    table: &'static str,
    key_column: &'static str,
    key: Value,
    column: String,
    value: Value,
}

fn cells(connection: &Connection, table: &'static str, key_column: &'static str) -> Vec<Cell> {
    let mut select = connection.prepare(&format!("select {key_column}, * from {table}")).unwrap();
    let columns: Vec<String> = select.column_names().skip(1).map(str::to_owned).collect();
    let mut rows = select.query([]).unwrap();
    let mut cells = vec![];
    while let Some(row) = rows.next().unwrap() {
        for (nth, column) in columns.iter().enumerate() {
            let (key, value) = (row.get(0).unwrap(), row.get(nth + 1).unwrap());
            cells.push(Cell { table, key_column, key, column: column.clone(), value });
        }
    }
    cells
}

/// The value with one byte changed, or none past its end.
fn flipped(value: &Value, byte: usize, mask: u8) -> Option<Value> {
    let flip = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        *bytes.get_mut(byte)? ^= mask;
        Some(bytes)
    };
    Some(match value {
        Value::Integer(number) => {
            let bytes = flip(&number.to_be_bytes())?;
            Value::Integer(i64::from_be_bytes(bytes.try_into().unwrap()))
        }
        Value::Text(text) => Value::Blob(flip(text.as_bytes())?),
        Value::Blob(bytes) => Value::Blob(flip(bytes)?),
        Value::Null | Value::Real(_) => return None,
    })
}

/// Puts a value into a cell. A text travels as bytes, for it may be none any more.
fn put(connection: &Connection, cell: &Cell, key: &Value, value: &Value) -> rusqlite::Result<()> {
    let Cell { table, key_column, column, value: original, .. } = cell;
    let set = if matches!(original, Value::Text(_)) { "cast(?1 as text)" } else { "?1" };
    let place = if *key_column == "stream" { "cast(?2 as text)" } else { "?2" };
    let update = format!("update {table} set {column} = {set} where {key_column} = {place}");
    let changed = connection.execute(&update, params![value, key])?;
    assert_eq!(changed, 1, "{update}");
    Ok(())
}

/// Flips each byte of a cell in turn and hands what a verification finds to `reported`. Returns how many there were.
fn flip_each(
    small: &Small,
    connection: &Connection,
    cell: &Cell,
    reported: impl Fn(&[Problem]) -> bool,
) -> usize {
    for byte in 0.. {
        // Another bit when a changed key meets another row's.
        let changed = [0x01, 0x40, 0x80, 0x10].into_iter().find_map(|mask| {
            let Some(changed) = flipped(&cell.value, byte, mask) else { return Some(None) };
            put(connection, cell, &cell.key, &changed).is_ok().then_some(Some(changed))
        });
        let Some(changed) = changed.unwrap() else { return byte };
        let found = problems(&small.path());
        assert!(reported(&found), "byte {byte} of {cell:?}: {found:?}");
        let key = if cell.column == cell.key_column { &changed } else { &cell.key };
        put(connection, cell, key, &cell.value).unwrap();
    }
    0
}

#[tokio::test]
async fn each_byte_of_each_commit_is_reported_with_its_position() {
    let small = Small::new().await;
    let connection = small.tamper();
    assert_eq!(problems(&small.path()), []);
    let mut flips = 0;
    for cell in cells(&connection, "commits", "sequence") {
        let Value::Integer(sequence) = cell.key else { panic!("{cell:?}") };
        // A changed sequence stands somewhere else: then the gap that it left is named, or its head misses it.
        let moved = cell.column == "sequence";
        flips += flip_each(&small, &connection, &cell, |found| {
            let here = found.iter().any(|problem| at(problem) == Some(sequence.cast_unsigned()));
            here || (moved && found.iter().all(|problem| problem.position.is_some()))
        });
    }
    assert_eq!(problems(&small.path()), []);
    println!("{flips} flips in commits");
    assert!(flips > 7 * 300, "{flips}");
}

#[tokio::test]
async fn each_byte_of_each_head_is_reported() {
    let small = Small::new().await;
    let connection = small.tamper();
    let mut flips = 0;
    for cell in cells(&connection, "heads", "stream") {
        let Value::Text(name) = &cell.key else { panic!("{cell:?}") };
        let name: StreamKey = name.parse().unwrap();
        flips += flip_each(&small, &connection, &cell, |found| {
            found
                .iter()
                .any(|problem| problem.stream.as_ref() == Some(&name) && problem.position.is_some())
        });
    }
    println!("{flips} flips in heads");
    assert!(flips > 3 * 90, "{flips}");
}

#[tokio::test]
async fn each_byte_of_a_blob_is_reported_at_the_commit_that_refers_to_it() {
    let small = Small::new().await;
    let connection = small.tamper();
    let mut flips = 0;
    for cell in cells(&connection, "blobs", "hash") {
        flips += flip_each(&small, &connection, &cell, |found| {
            found.iter().any(|problem| at(problem) == Some(small.blob_at))
        });
    }
    // Bytes that got lost do not pass for bytes that were erased.
    connection.execute("update blobs set body = null", []).unwrap();
    assert!(problems(&small.path()).iter().any(|problem| at(problem) == Some(small.blob_at)));
    println!("{flips} flips in blobs");
    assert!(flips >= 24 + 32 + 8, "{flips}");
}

#[tokio::test]
async fn each_byte_of_meta_and_of_a_snapshot_is_reported() {
    let small = Small::new().await;
    let connection = small.tamper();
    for (table, key) in [("meta", "name"), ("snapshots", "stream")] {
        for cell in cells(&connection, table, key) {
            if (table, cell.column.as_str()) == ("meta", "name")
                || cell.key == Value::Text("journal".to_owned())
            {
                continue;
            }
            flip_each(&small, &connection, &cell, |found| !found.is_empty());
        }
    }
    // The journal's own name is asked for first.
    connection.execute("update meta set value = zeroblob(16) where name = 'journal'", []).unwrap();
    let error = verify(&small.path(), wake_of, |_, _| {}).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { name: "journal" }), "{error}");
}

#[tokio::test]
async fn rows_that_change_places_are_reported() {
    let columns = "stream, first_version, last_version, commit_id, epoch, hash, frame";
    let set: Vec<String> = columns
        .split(", ")
        .map(|column| {
            format!("{column} = (select {column} from other where sequence = 5 - commits.sequence)")
        })
        .collect();
    let contents = format!(
        "create temp table other as select * from commits; update commits set commit_id = zeroblob(sequence), last_version = 90 + sequence;
         update commits set commit_id = (select commit_id from other where sequence = commits.sequence),
          last_version = (select last_version from other where sequence = commits.sequence) where sequence not in (1, 4);
         update commits set {} where sequence in (1, 4)",
        set.join(", ")
    );
    // Stream a has the sequences 1 and 4.
    let numbers = "update commits set sequence = 100 where sequence = 1; update commits set sequence = 1 where sequence = 4;
        update commits set sequence = 4 where sequence = 100";
    for swap in [numbers, &contents] {
        let small = Small::new().await;
        let connection = small.tamper();
        connection.execute_batch(swap).unwrap();
        let found = problems(&small.path());
        for sequence in [1, 4] {
            let here = |problem: &&Problem| at(problem) == Some(sequence);
            assert!(found.iter().any(|problem| here(&problem)), "{sequence}: {found:?}");
        }
        assert!(found.iter().any(|problem| problem.what == What::Order), "{found:?}");
    }
}

#[tokio::test]
async fn a_cut_tail_is_reported_for_the_head_still_tells() {
    for (name, last, left) in [("a", 4_u64, 2), ("b", 7, 4), ("c", 6, 2)] {
        let small = Small::new().await;
        let connection = small.tamper();
        connection
            .execute("delete from commits where sequence = ?1", [last.cast_signed()])
            .unwrap();
        drop(connection);
        let found = problems(&small.path());
        let head = Version(left + if name == "b" { 1 } else { 2 });
        let cut = What::Corrupt(Corrupt::Head { head, last: Version(left) });
        let reported = found.iter().find(|problem| problem.what == cut);
        let reported = reported.unwrap_or_else(|| panic!("{name}: {found:?}"));
        assert_eq!((at(reported), &reported.stream), (Some(last), &Some(stream(name))));
        // Whoever reads the stream is told as well, and is not handed a shorter one.
        let store = open(&small.path()).unwrap();
        let read = store.read(&stream(name), Version::EMPTY, 10).await;
        assert!(read.is_err(), "{name}: {read:?}");
        store.close().await;
    }
}

/// A reader of a changed commit is told, or sees what was written.
#[tokio::test]
async fn a_reader_is_never_handed_a_changed_commit() {
    let small = Small::new().await;
    let written = streams(&small.path()).await.unwrap();
    let connection = small.tamper();
    let mut refused = 0;
    for cell in cells(&connection, "commits", "sequence") {
        if cell.column == "sequence" {
            continue;
        }
        for byte in (0..).step_by(37) {
            let Some(changed) = flipped(&cell.value, byte, 0x40) else { break };
            put(&connection, &cell, &cell.key, &changed).unwrap();
            match streams(&small.path()).await {
                // A flip in the rolling hash is the follower's to see.
                Ok(read) => {
                    assert!(read == written && cell.column == "rolling", "{byte} of {cell:?}")
                }
                Err(_) => refused += 1,
            }
            put(&connection, &cell, &cell.key, &cell.value).unwrap();
        }
    }
    assert!(refused > 50, "{refused}");
}

async fn streams(path: &Path) -> Result<Vec<Vec<Recorded>>, store::StoreError> {
    let store = open(path).unwrap();
    let mut streams = vec![];
    let mut failed = None;
    for name in NAMES {
        match store.read(&stream(name), Version::EMPTY, 10).await {
            Ok(read) => streams.push(read),
            Err(error) => failed = Some(error),
        }
    }
    store.close().await;
    failed.map_or(Ok(streams), Err)
}

/// Every cell of every table, as bytes.
fn dump(path: &Path) -> rusqlite::Result<Vec<Vec<u8>>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut dump = vec![];
    for table in ["sqlite_schema", "meta", "commits", "heads", "blobs", "snapshots"] {
        let rootless = "select type, name, tbl_name, sql from sqlite_schema order by name";
        let select = if table == "sqlite_schema" {
            rootless.to_owned()
        } else {
            format!("select * from {table} order by 1")
        };
        let mut select = connection.prepare(&select)?;
        let columns = select.column_count();
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                dump.push(match row.get_ref(column)? {
                    ValueRef::Null => b"null".to_vec(),
                    ValueRef::Integer(number) => number.to_be_bytes().to_vec(),
                    ValueRef::Real(number) => number.to_be_bytes().to_vec(),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
                });
            }
        }
    }
    Ok(dump)
}

#[tokio::test]
async fn a_byte_of_the_raw_file_is_reported_or_changes_nothing() {
    let small = Small::new().await;
    let path = small.path();
    let stride =
        std::env::var("PITON_TEST_FLIP_STRIDE").map_or(STRIDE, |stride| stride.parse().unwrap());
    let written = dump(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut file = std::fs::File::options().write(true).open(&path).unwrap();
    let mut write = |place: usize, byte: u8| {
        file.seek(SeekFrom::Start(u64::try_from(place).unwrap())).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    let (mut refused, mut reported, mut harmless) = (0, 0, 0);
    for place in (0..bytes.len()).step_by(stride) {
        let mask = 1_u8 << (place % 8);
        write(place, bytes[place] ^ mask);
        match verify(&path, wake_of, |_, _| {}) {
            Err(_) => refused += 1,
            Ok(report) if report.problems_count > 0 => reported += 1,
            Ok(_) => {
                let found = dump(&path).unwrap();
                let differs = found.iter().zip(&written).find(|(found, written)| found != written);
                assert_eq!(differs, None, "byte {place} of {}", bytes.len());
                assert_eq!(found.len(), written.len(), "byte {place} of {}", bytes.len());
                harmless += 1;
            }
        }
        write(place, bytes[place]);
    }
    println!(
        "{} bytes, each {stride}th flipped: {refused} refused, {reported} reported, {harmless} harmless",
        bytes.len()
    );
    assert_eq!(problems(&path), []);
    assert!(reported > 100, "{reported}");
}

#[tokio::test]
async fn a_sound_journal_reads_as_it_was_written() {
    let small = Small::new().await;
    let report = verify(&small.path(), wake_of, |_, _| {}).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.commits, report.entries, report.streams, report.blobs), (7, 13, 3, 1));
    assert_ne!(report.rolling, Hash::default());
    let store = open(&small.path()).unwrap();
    assert_eq!(all(&store, &stream("b")).await.len(), 3);
    store.close().await;
}
