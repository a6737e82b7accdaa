//! Durable appends per second against a bare rusqlite loop with the same rows, batch sizes and pragmas.

mod figure;

use events::aggregate::Wake;
use events::id::digest;
use events::quantity::Instant as At;
use events::record::{
    Actor, Boot, Cause, CommandId, Commit, CommitId, Entry, JournalId, Payload, StreamKey,
    StreamKind, Tail,
};
use figure::{ROUNDS, cpu, folder, median, rounded, tell};
use rusqlite::{Connection, params};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use store::{Append, Appended, Faults, Open, Store};

/// Bytes of each payload: a small tool event.
const PAYLOAD: usize = 300;
/// How long each round takes.
const ROUND: Duration = Duration::from_millis(1_500);
/// Those of the store's writer.
const PRAGMAS: &str = "pragma journal_mode=wal; pragma synchronous=full; pragma fullfsync=1;
    pragma wal_autocheckpoint=4000; pragma cell_size_check=1; pragma cache_size=-16384;";
/// The tables of [`Tables::Plain`].
const PLAIN: &str = "
    create table commits(sequence integer primary key, stream text not null, first_version integer not null,
        last_version integer not null, commit_id blob not null unique, hash blob not null, frame blob not null) strict;
    create table heads(stream text primary key, version integer not null, hash blob not null) strict, without rowid;";

/// What a round came to.
struct Taken {
    per_second: f64,
    /// User and system time of the whole process for each append.
    cpu_us: f64,
}

impl Taken {
    fn new(written: u64, started: Instant, busy: Duration) -> Self {
        let busy = cpu(None) - busy;
        let per_second = written as f64 / started.elapsed().as_secs_f64();
        Self { per_second, cpu_us: busy.as_secs_f64() * 1e6 / written as f64 }
    }
}

/// As a host makes it: a digest, so it falls anywhere in its index.
fn id(writer: u128, version: u64) -> CommitId {
    CommitId(digest(&[&writer.to_le_bytes(), &version.to_le_bytes()]))
}

fn commit(store: &Store, stream: &StreamKey, tail: Tail, id: CommitId) -> Commit {
    Commit {
        journal: store.journal(),
        stream: stream.clone(),
        first_version: tail.version.plus(1),
        epoch: store.epoch(stream.partition()),
        boot: store.boot(),
        id,
        at: At(1_700_000_000_000_000),
        causes: vec![Cause {
            command: CommandId(id.0),
            correlation: id.0,
            actor: Actor::Node,
            entries: 1,
        }],
        prev: tail.hash,
        entries: vec![Entry {
            kind: 1,
            schema: 1,
            seal: None,
            payload: Payload::Inline(vec![7; PAYLOAD].into()),
        }],
    }
}

/// One writer of one stream, one commit at a time.
async fn write(store: Store, writer: u128, until: Instant) -> u64 {
    let stream = StreamKey::named(StreamKind::Probe, &format!("writer-{writer}"));
    let mut tail = store.tail(&stream).await.expect("a tail");
    let mut written = 0;
    while Instant::now() < until {
        let id = id(writer, tail.version.0 + 1);
        let commit = commit(&store, &stream, tail, id);
        let append = Append { commit, expected: tail, wake: Wake::OnCommand, blobs: vec![] };
        match store.append(append).await {
            Appended::Appended { tail: next, .. } => tail = next,
            other => panic!("{other:?}"),
        }
        written += 1;
    }
    written
}

async fn ours(folder: &Path, writers: u128, round: usize) -> Taken {
    let path = folder.join(format!("ours-{writers}-{round}.db"));
    let open = Open {
        path,
        boot: Boot(u128::from(round as u64) + 1),
        fresh: JournalId(1),
        faults: Faults::none(),
    };
    let store = Store::open(open).expect("a store");
    let (started, busy) = (Instant::now(), cpu(None));
    let until = started + ROUND;
    let tasks: Vec<_> =
        (0..writers).map(|writer| tokio::spawn(write(store.clone(), writer, until))).collect();
    let mut written = 0;
    for task in tasks {
        written += task.await.expect("a writer");
    }
    let taken = Taken::new(written, started, busy);
    store.close().await;
    taken
}

/// Which tables the bare loop writes.
#[derive(Debug, Clone, Copy)]
enum Tables {
    /// Those of a journal: what the store adds to `SQLite` is all that differs.
    Journal,
    /// The fewest that hold a commit once and find a stream's head: what checks, chain and epochs cost as well.
    Plain,
}

impl Tables {
    async fn open(self, path: &Path) -> Connection {
        if let Self::Journal = self {
            let (path, boot) = (path.to_owned(), Boot(1));
            let open = Open { path, boot, fresh: JournalId(1), faults: Faults::none() };
            Store::open(open).expect("a store").close().await;
        }
        let connection = Connection::open(path).expect("a file");
        connection.execute_batch(PRAGMAS).expect("pragmas");
        if let Self::Plain = self {
            connection.execute_batch(PLAIN).expect("tables");
        }
        connection
    }

    fn commit(self) -> &'static str {
        match self {
            Self::Journal => {
                "insert into commits(sequence, stream, first_version, last_version, commit_id, hash, frame, epoch,
                 rolling) values (?1, ?2, ?3, ?3, ?4, ?5, ?6, 1, ?5)"
            }
            Self::Plain => {
                "insert into commits(sequence, stream, first_version, last_version, commit_id, hash, frame)
                 values (?1, ?2, ?3, ?3, ?4, ?5, ?6)"
            }
        }
    }

    fn head(self) -> &'static str {
        match self {
            Self::Journal => {
                "insert into heads(stream, version, hash, epoch, boot, sequence, partition) values (?1, ?2, ?3, 1, ?4,
                 ?5, 7) on conflict(stream) do update set version = ?2, hash = ?3, boot = ?4, sequence = ?5"
            }
            Self::Plain => {
                "insert into heads(stream, version, hash) values (?1, ?2, ?3)
                 on conflict(stream) do update set version = ?2, hash = ?3"
            }
        }
    }
}

/// The floor: one thread, one transaction for as many rows as there are writers, each a commit and its stream's head.
async fn floor(folder: &Path, tables: Tables, writers: u64, round: usize) -> Taken {
    let connection = tables.open(&folder.join(format!("{tables:?}-{writers}-{round}.db"))).await;
    let mut commit = connection.prepare(tables.commit()).expect("a statement");
    let mut head = connection.prepare(tables.head()).expect("a statement");
    let (frame, hash, boot) = ([7_u8; PAYLOAD + 300], [8_u8; 32], [9_u8; 16]);
    let streams: Vec<_> = (0..writers).map(|writer| format!("probe/writer-{writer}")).collect();
    let (mut written, mut version) = (0_u64, 0_u64);
    let (started, busy) = (Instant::now(), cpu(None));
    while started.elapsed() < ROUND {
        connection.execute_batch("begin immediate").expect("begin");
        version += 1;
        for (writer, stream) in (0_u128..).zip(&streams) {
            written += 1;
            let id = id(writer, version).0.to_le_bytes();
            let (sequence, version) = (written.cast_signed(), version.cast_signed());
            let row = params![sequence, stream, version, id, hash, frame];
            commit.execute(row).expect("a row");
            let row = match tables {
                Tables::Journal => head.execute(params![stream, version, hash, boot, sequence]),
                Tables::Plain => head.execute(params![stream, version, hash]),
            };
            row.expect("a head");
        }
        connection.execute_batch("commit").expect("commit");
    }
    Taken::new(written, started, busy)
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir_in(folder()).expect("a folder");
    for writers in [1_u64, 64, 256] {
        let mut rounds = vec![];
        for round in 0..ROUNDS {
            let bare = floor(folder.path(), Tables::Journal, writers, round).await;
            let plain = floor(folder.path(), Tables::Plain, writers, round).await;
            rounds.push((ours(folder.path(), u128::from(writers), round).await, bare, plain));
        }
        let middle =
            |of: fn(&(Taken, Taken, Taken)) -> f64| median(rounds.iter().map(of).collect());
        let own = middle(|(own, ..)| own.per_second);
        let (bare, plain) =
            (middle(|(_, bare, _)| bare.per_second), middle(|(.., plain)| plain.per_second));
        tell(
            "durable_appends",
            &json!({"writers": writers, "appends_per_s": own.round(), "floor_per_s": bare.round(),
                "ratio": rounded(own / bare, 3), "goal": 0.8,
                "floor": "bare rusqlite loop, same tables, rows and pragmas, one transaction for as many rows as writers",
                "plain_per_s": plain.round(), "ratio_to_plain": rounded(own / plain, 3),
                "plain": "the same loop over a table without chain, epochs and the index that refuses a second version",
                "cpu_us": rounded(middle(|(own, ..)| own.cpu_us), 1), "floor_cpu_us": rounded(middle(|(_, bare, _)| bare.cpu_us), 1),
                "plain_cpu_us": rounded(middle(|(.., plain)| plain.cpu_us), 1)}),
        );
    }
}
