//! Durable appends per second against a bare rusqlite loop with the same rows, batch sizes and pragmas.

mod figure;

use events::aggregate::Wake;
use events::journal;
use events::quantity::Instant as At;
use events::record::{
    Actor, Boot, Cause, CommandId, Commit, CommitId, Entry, JournalId, Payload, StreamKey,
    StreamKind, Tail,
};
use figure::{ROUNDS, folder, median, rounded, tell};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Append, Appended, Faults, Open, Store};

/// Bytes of each payload: a small tool event.
const PAYLOAD: usize = 300;
/// How long each round takes.
const ROUND: Duration = Duration::from_secs(2);

fn commit(store: &Store, stream: &StreamKey, tail: Tail, id: u128) -> Commit {
    Commit {
        journal: store.journal(),
        stream: stream.clone(),
        first_version: tail.version.plus(1),
        epoch: store.epoch(),
        boot: store.boot(),
        id: CommitId(id),
        at: At(1_700_000_000_000_000),
        causes: vec![Cause {
            command: CommandId(id),
            correlation: id,
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
        let id = (store.boot().0 << 64) | (writer << 40) | u128::from(tail.version.0 + 1);
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

async fn ours(folder: &Path, writers: u128, round: usize) -> f64 {
    let path = folder.join(format!("ours-{writers}-{round}.db"));
    let open = Open {
        path,
        boot: Boot(u128::from(round as u64) + 1),
        fresh: JournalId(1),
        faults: Faults::none(),
    };
    let store = Store::open(open).expect("a store");
    let started = Instant::now();
    let until = started + ROUND;
    let tasks: Vec<_> =
        (0..writers).map(|writer| tokio::spawn(write(store.clone(), writer, until))).collect();
    let mut written = 0;
    for task in tasks {
        written += task.await.expect("a writer");
    }
    let rate = written as f64 / started.elapsed().as_secs_f64();
    store.close().await;
    rate
}

/// The floor: one thread, one transaction for as many rows as there are writers, the same row and head.
fn floor(folder: &Path, writers: u64, round: usize) -> f64 {
    let connection = rusqlite::Connection::open(folder.join(format!("floor-{writers}-{round}.db")))
        .expect("a file");
    let pragmas =
        "pragma journal_mode=wal; pragma synchronous=full; pragma wal_autocheckpoint=4000;";
    connection.execute_batch(pragmas).expect("pragmas");
    connection
        .execute_batch(
            "create table commits(sequence integer primary key, stream text not null, first_version integer not null,
               last_version integer not null, commit_id blob not null unique, hash blob not null, frame blob not null) strict;
             create table heads(stream text primary key, version integer not null, hash blob not null) strict;",
        )
        .expect("tables");
    let frame: Arc<[u8]> = vec![7; PAYLOAD + 300].into();
    let (mut written, mut version) = (0_u64, 0_i64);
    let started = Instant::now();
    while started.elapsed() < ROUND {
        connection.execute_batch("begin immediate").expect("begin");
        version += 1;
        for writer in 0..writers {
            let stream = format!("probe/writer-{writer}");
            let hash = journal::hash(&frame);
            let id = (u128::from(writer) << 64) | version.unsigned_abs() as u128;
            connection
                .prepare_cached("insert into commits(stream, first_version, last_version, commit_id, hash, frame) values (?1,?2,?2,?3,?4,?5)")
                .and_then(|mut s| s.execute(rusqlite::params![stream, version, id.to_be_bytes(), hash.0, &frame[..]]))
                .expect("a row");
            connection
                .prepare_cached("insert into heads(stream, version, hash) values (?1,?2,?3) on conflict(stream) do update set version=?2, hash=?3")
                .and_then(|mut s| s.execute(rusqlite::params![stream, version, hash.0]))
                .expect("a head");
            written += 1;
        }
        connection.execute_batch("commit").expect("commit");
    }
    written as f64 / started.elapsed().as_secs_f64()
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir_in(folder()).expect("a folder");
    for writers in [1_u64, 64, 256] {
        let (mut own, mut bare) = (vec![], vec![]);
        for round in 0..ROUNDS {
            bare.push(floor(folder.path(), writers, round));
            own.push(ours(folder.path(), u128::from(writers), round).await);
        }
        let (own, bare) = (median(own), median(bare));
        tell(
            "durable_appends",
            &json!({"writers": writers, "appends_per_s": own.round(), "floor_per_s": bare.round(),
                "ratio": rounded(own / bare, 3), "goal": 0.8,
                "floor": "bare rusqlite loop, same rows, one transaction for as many rows as writers, WAL, synchronous=FULL"}),
        );
    }
}
