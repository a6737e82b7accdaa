//! Durable appends per second on JetStream against a bare publish of the same bytes, awaited the same way.
//!
//! The floor publishes messages of the same length into streams of the same settings on the same servers, with as many
//! in flight, and waits for each acknowledgement: what the slot rule, the chain and the epochs cost is all that differs.

mod figure;

use actors::entropy::Entropy;
use async_nats::HeaderMap;
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{Context, consumer};
use bytes::Bytes;
use events::aggregate::Wake;
use events::id::{Partition, digest};
use events::quantity::Instant as At;
use events::record::{
    Actor, Boot, Cause, CommandId, Commit, CommitId, Entry, Epoch, JournalId, Payload, StreamKey,
    StreamKind, Tail,
};
use figure::{ROUNDS, cpu, median, rounded, tell};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use serde_json::json;
use std::time::{Duration, Instant};
use store::jetstream::{LazySync, SHARDS, Servers};
use store::{Append, Appended, Connect, Faults, Store};
use tests::nats::{Nats, Sync};

/// Bytes of each payload: a small tool event.
const PAYLOAD: usize = 300;
/// How long each round takes.
const ROUND: Duration = Duration::from_millis(2_000);
/// Before anything is counted.
const WARM_UP: Duration = Duration::from_millis(300);
/// Bytes that a shard's stream reserves.
const SHARD_BYTES: i64 = 256 << 20;

/// What a round came to.
struct Taken {
    per_second: f64,
    /// User and system time of this process for each append.
    cpu_us: f64,
    /// Milliseconds that one append was waited for.
    p50_ms: f64,
}

/// Counts what ends between the warm-up and the end of a round.
#[derive(Debug, Clone, Copy)]
struct Round {
    from: Instant,
    until: Instant,
}

impl Round {
    fn begin() -> Self {
        let from = Instant::now() + WARM_UP;
        Self { from, until: from + ROUND }
    }

    fn goes_on(self) -> bool {
        Instant::now() < self.until
    }

    /// How long it took, if it is counted.
    fn counted(self, started: Instant) -> Option<f64> {
        let ended = Instant::now();
        let inside = started >= self.from && ended <= self.until;
        inside.then(|| (ended - started).as_secs_f64() * 1e3)
    }

    async fn taken(self, lanes: Vec<tokio::task::JoinHandle<Vec<f64>>>) -> Taken {
        tokio::time::sleep_until(self.from.into()).await;
        let busy = cpu(None);
        let mut waits = vec![];
        for lane in lanes {
            waits.extend(lane.await.expect("a lane"));
        }
        let busy = cpu(None) - busy;
        let count = waits.len() as f64;
        Taken {
            per_second: count / ROUND.as_secs_f64(),
            cpu_us: busy.as_secs_f64() * 1e6 / count,
            p50_ms: median(waits),
        }
    }
}

async fn store(nats: &Nats) -> (Store, Connect) {
    let entropy = Entropy::System;
    let urls = nats.urls();
    let connect = Connect {
        replicas: urls.len(),
        servers: Servers::at(urls),
        monitors: nats.monitors(),
        namespace: format!("b{}", entropy.draw() % 1_000_000).parse().expect("a namespace"),
        boot: Boot(entropy.draw()),
        fresh: JournalId(entropy.draw()),
        shard_bytes_max: SHARD_BYTES,
        lazy_sync: LazySync::Refuse,
        faults: Faults::none(),
    };
    let store = Store::connect(connect.clone()).await.expect("a journal");
    let own = |partition| store.own(partition, Epoch::default());
    try_join_all(Partition::all().map(own)).await.expect("every partition");
    (store, connect)
}

fn commit(store: &Store, stream: &StreamKey, tail: Tail) -> Commit {
    let name = format!("{stream:?}");
    let id = digest(&[name.as_bytes(), &(tail.version.0 + 1).to_le_bytes()]);
    let cause = Cause { command: CommandId(id), correlation: id, actor: Actor::Node, entries: 1 };
    let payload = Payload::Inline(vec![7; PAYLOAD].into());
    Commit {
        journal: store.journal(),
        stream: stream.clone(),
        first_version: tail.version.plus(1),
        epoch: store.epoch(stream.partition()),
        boot: store.boot(),
        id: CommitId(id),
        at: At(1_700_000_000_000_000),
        causes: vec![cause],
        prev: tail.hash,
        entries: vec![Entry { kind: 1, schema: 1, seal: None, payload }],
    }
}

/// One writer of one stream, one commit at a time, going on where the last round ended.
async fn write(store: Store, writer: usize, round: Round) -> Vec<f64> {
    let stream = StreamKey::named(StreamKind::Probe, &format!("writer-{writer}"));
    let mut tail = store.tail(&stream).await.expect("a tail");
    let mut waits = vec![];
    while round.goes_on() {
        let commit = commit(&store, &stream, tail);
        let append = Append { commit, expected: tail, wake: Wake::OnCommand, blobs: vec![] };
        let started = Instant::now();
        match store.append(append).await {
            Appended::Appended { tail: next, .. } => tail = next,
            other => panic!("{other:?}"),
        }
        waits.extend(round.counted(started));
    }
    waits
}

async fn ours(store: &Store, in_flight: usize) -> Taken {
    let round = Round::begin();
    let lane = |writer| tokio::spawn(write(store.clone(), writer, round));
    round.taken((0..in_flight).map(lane).collect()).await
}

/// One message as the store sends it: the same bytes, whose headers say nothing to the server.
#[derive(Debug, Clone)]
struct Message {
    headers: HeaderMap,
    body: Bytes,
}

impl Message {
    /// Of the newest commit in the journal.
    async fn of(context: &Context, connect: &Connect) -> Self {
        let stream = (0..SHARDS).map(|shard| format!("EV_{}_{shard}_0", connect.namespace));
        for name in stream {
            let stream = context.get_stream(&name).await.expect("a shard");
            let config = consumer::pull::OrderedConfig::default();
            let consumer = stream.create_consumer(config).await.expect("a consumer");
            let messages = consumer.messages().await.expect("messages");
            let commits = messages.filter_map(|message| {
                let message = message.expect("a message");
                let large = message.payload.len() > PAYLOAD;
                std::future::ready(large.then(|| message.message.clone()))
            });
            let mut commits = Box::pin(commits);
            let first = tokio::time::timeout(Duration::from_secs(2), commits.next()).await;
            let Ok(Some(message)) = first else { continue };
            let mut headers = HeaderMap::new();
            for (name, values) in message.headers.unwrap_or_default().iter() {
                let name = name.to_string().replace("Nats-", "Bare-");
                values.iter().for_each(|value| headers.append(name.as_str(), value.clone()));
            }
            return Self { headers, body: message.payload };
        }
        panic!("the journal has a commit");
    }
}

async fn streams(context: &Context, replicas: usize) {
    for shard in 0..SHARDS {
        let config = Config {
            name: format!("FLOOR_{shard}"),
            subjects: vec![format!("floor.{shard}.>")],
            storage: StorageType::File,
            num_replicas: replicas,
            max_bytes: SHARD_BYTES,
            allow_direct: true,
            ..Config::default()
        };
        context.create_stream(config).await.expect("a stream of the floor");
    }
}

async fn publish(context: Context, message: Message, writer: usize, round: Round) -> Vec<f64> {
    let subject = format!("floor.{}.{writer}", writer % usize::from(SHARDS));
    let mut waits = vec![];
    while round.goes_on() {
        let (headers, body) = (message.headers.clone(), message.body.clone());
        let started = Instant::now();
        let sent = context.publish_with_headers(subject.clone(), headers, body).await;
        sent.expect("it is sent").await.expect("it is acknowledged");
        waits.extend(round.counted(started));
    }
    waits
}

async fn floor(context: &Context, message: &Message, in_flight: usize) -> Taken {
    let round = Round::begin();
    let lane = |writer| tokio::spawn(publish(context.clone(), message.clone(), writer, round));
    round.taken((0..in_flight).map(lane).collect()).await
}

async fn on(nats: &Nats) {
    let (store, connect) = store(nats).await;
    let _first = ours(&store, 8).await;
    let client = async_nats::connect(nats.urls()).await.expect("a client");
    let context = async_nats::jetstream::new(client);
    let message = Message::of(&context, &connect).await;
    streams(&context, connect.replicas).await;
    let _warm = floor(&context, &message, 8).await;
    for in_flight in [1, 64, 512] {
        let mut rounds = vec![];
        for _ in 0..ROUNDS {
            rounds
                .push((ours(&store, in_flight).await, floor(&context, &message, in_flight).await));
        }
        let middle = |of: fn(&(Taken, Taken)) -> f64| median(rounds.iter().map(of).collect());
        let (own, bare) = (middle(|(own, _)| own.per_second), middle(|(_, bare)| bare.per_second));
        let ratio = middle(|(own, bare)| own.per_second / bare.per_second);
        tell(
            "jetstream_appends",
            &json!({
                "in_flight": in_flight, "replicas": connect.replicas, "sync": "always", "goal": 0.8,
                "appends_per_s": own.round(), "p50_ms": rounded(middle(|(own, _)| own.p50_ms), 3),
                "cpu_us": rounded(middle(|(own, _)| own.cpu_us), 1),
                "floor": "bare async-nats publish of the same bytes into streams of the same settings, acknowledged",
                "floor_per_s": bare.round(), "floor_p50_ms": rounded(middle(|(_, bare)| bare.p50_ms), 3),
                "floor_cpu_us": rounded(middle(|(_, bare)| bare.cpu_us), 1), "ratio": rounded(ratio, 3),
            }),
        );
    }
}

#[tokio::main]
async fn main() {
    on(&Nats::one(Sync::Always).await).await;
    on(&Nats::three(Sync::Always).await).await;
}
