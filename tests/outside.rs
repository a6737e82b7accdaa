//! Programs outside: they hear every event of every run, in order, whoever dies, and can fill what they missed.

use async_nats::{Client, Subscriber};
use events::id::RunId;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tests::fleet::{Cluster, chat, said};
use tests::process::{ADMIN_KEY, patience, wait_for};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// What nobody outside may hear.
const PLANTED: &str = "planted-7731";

async fn listen(cluster: &Cluster) -> (Client, Subscriber) {
    let client = async_nats::connect(cluster.nats.urls()).await.unwrap();
    let heard = client.subscribe("piton.piton.evt.>").await.unwrap();
    client.flush().await.unwrap();
    (client, heard)
}

/// The events of streams as they were first heard; what was told twice counts once.
#[derive(Default)]
struct Heard(BTreeMap<String, Vec<Value>>);

impl Heard {
    async fn next(&mut self, from: &mut Subscriber) {
        let message = timeout(patience(), from.next()).await.expect("an event in time").unwrap();
        let text = String::from_utf8(message.payload.to_vec()).unwrap();
        assert!(!text.contains(PLANTED), "a text is told: {text}");
        let event: Value = serde_json::from_str(&text).unwrap();
        let headers = message.headers.unwrap();
        let header = |name: &str| headers.get(name).unwrap().as_str().parse::<u64>().unwrap();
        let version = event["version"].as_u64().unwrap();
        assert_eq!(header("Piton-Version"), version);
        assert_eq!(header("Piton-Previous-Version"), version - 1);
        let (kind, id) = (event["kind"].as_str().unwrap(), event["id"].as_str().unwrap());
        let name = event["name"].as_str().unwrap();
        assert_eq!(message.subject.as_str(), format!("piton.piton.evt.default.{kind}.{id}.{name}"));
        let stream = self.0.entry(id.to_owned()).or_default();
        let have = u64::try_from(stream.len()).unwrap();
        assert!(version <= have + 1, "{id} goes from {have} to {version}: {text}");
        if version == have + 1 {
            stream.push(event);
        }
    }

    fn has(&self, stream: &str, name: &str) -> bool {
        self.names(stream).iter().any(|known| known == name)
    }

    fn names(&self, stream: &str) -> Vec<String> {
        let name = |event: &Value| event["name"].as_str().unwrap().to_owned();
        self.0.get(stream).into_iter().flatten().map(name).collect()
    }
}

#[tokio::test]
async fn every_event_of_every_run_is_heard_in_order_across_a_take_over() {
    let mut cluster = Cluster::of(2).await;
    let (_client, mut told) = listen(&cluster).await;
    let mut heard = Heard::default();
    // Over several shards: some of them are told by the node that dies.
    let mut runs = vec![];
    for _ in 0..8 {
        runs.push(cluster.run_of_first("slow 100").await);
    }
    while !runs.iter().all(|run| heard.has(run, "model_asked")) {
        heard.next(&mut told).await;
    }
    assert!(!runs.iter().any(|run| heard.has(run, "finished")), "they are at work");
    cluster.nodes[0].kill();
    while !runs.iter().all(|run| heard.has(run, "finished")) {
        heard.next(&mut told).await;
    }
    for run in &runs {
        assert_eq!(heard.names(run), cluster.nodes[1].events(run).await);
    }
    // What tools were told and said stays inside too.
    let run = cluster.nodes[1].start_run(&json!({"input": format!("note: {PLANTED}")})).await;
    while !heard.has(&run, "finished") {
        heard.next(&mut told).await;
    }
    let receipt = heard.0[&run].iter().find(|event| event["name"] == "tool_receipt").unwrap();
    assert_eq!(receipt["data"]["content"]["hash"].as_str().map(str::len), Some(64));
}

/// How far a shard has been told, as its mark says.
async fn mark(client: &Client, shard: &str) -> Option<u64> {
    let context = async_nats::jetstream::new(client.clone());
    let stream = context.get_stream("META_piton").await.unwrap();
    let subject = format!("meta.piton.told-{shard}");
    let message = stream.get_last_raw_message_by_subject(&subject).await.ok()?;
    Some(std::str::from_utf8(&message.payload).unwrap().parse().unwrap())
}

/// The events of a run that are heard until another run has finished.
async fn told_again(run: &str, told: &mut Subscriber, other: &str) -> Vec<u64> {
    let mut versions = vec![];
    loop {
        let message = timeout(patience(), told.next()).await.expect("an event in time").unwrap();
        let event: Value = serde_json::from_slice(&message.payload).unwrap();
        if event["id"] == run {
            versions.push(event["version"].as_u64().unwrap());
        }
        if event["id"] == other && event["name"] == "finished" {
            return versions;
        }
    }
}

#[tokio::test]
async fn a_new_life_tells_from_the_mark_on_and_neither_more_nor_less() {
    let mut cluster = Cluster::of(1).await;
    let (client, mut told) = listen(&cluster).await;
    let run = cluster.run_of_first("hello").await;
    let mut heard = Heard::default();
    while !heard.has(&run, "finished") {
        heard.next(&mut told).await;
    }
    let events = &heard.0[&run];
    let last = events.last().unwrap()["position"].as_str().unwrap();
    let (shard, sequence) = last.split_once('.').unwrap();
    let sequence: u64 = sequence.parse().unwrap();
    wait_for("the mark has moved", || async {
        mark(&client, shard).await.filter(|mark| *mark >= sequence)
    })
    .await;
    cluster.restart(0).await;
    let other = in_shard_of(&cluster, &run).await;
    assert_eq!(told_again(&run, &mut told, &other).await, [] as [u64; 0], "it was told before");
    // A life that died before its mark moved: what it may not have told is told.
    cluster.nodes[0].kill();
    let context = async_nats::jetstream::new(client.clone());
    let subject = format!("meta.piton.told-{shard}");
    context.publish(subject, "0".into()).await.unwrap().await.unwrap();
    cluster.restart(0).await;
    let other = in_shard_of(&cluster, &run).await;
    let all: Vec<u64> = events.iter().map(|event| event["version"].as_u64().unwrap()).collect();
    assert_eq!(told_again(&run, &mut told, &other).await, all);
}

/// A run in the same shard as another one: its events come after.
async fn in_shard_of(cluster: &Cluster, run: &str) -> String {
    let shard = |run: &str| {
        let id: RunId = run.parse().unwrap();
        id.place().partition.number() % 8
    };
    loop {
        let other = cluster.run_of_first("hello").await;
        if shard(&other) == shard(run) {
            return other;
        }
    }
}

/// An example of `deploy/examples`, running.
struct Example {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

impl Example {
    /// Started, and listening.
    async fn start(script: &str, cluster: &Cluster) -> Self {
        let mut command = Command::new("python3");
        command.arg(root().join("deploy/examples").join(script));
        command.args(["--nats", &cluster.nats.urls()[0], "--gateway", &cluster.nodes[0].url]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("PITON_API_KEY", ADMIN_KEY).env("PYTHONPATH", nats_py());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut all = vec![];
        while let Some(line) = timeout(patience(), said.next_line()).await.unwrap().unwrap() {
            if line == "listening" {
                let lines = BufReader::new(child.stdout.take().unwrap()).lines();
                return Self { child, lines };
            }
            all.push(line);
        }
        panic!("{script} ended: {all:#?}");
    }

    async fn next(&mut self) -> Value {
        let line = timeout(patience(), self.lines.next_line()).await.expect("a line in time");
        serde_json::from_str(&line.unwrap().expect("it goes on")).unwrap()
    }
}

/// Where nats-py is: `PITON_TEST_NATS_PY`, else what the gate has fetched.
fn nats_py() -> PathBuf {
    std::env::var_os("PITON_TEST_NATS_PY")
        .map_or_else(|| root().join(".cache/nats-py"), PathBuf::from)
}

/// It comes late, for a run and a session that have begun, and prints both whole.
async fn fills_what_it_missed(script: &str) {
    let cluster = Cluster::of(1).await;
    let node = &cluster.nodes[0];
    let (_client, mut told) = listen(&cluster).await;
    let (status, first) = chat(node, "talk", &json!([said("user", "hello")])).await;
    assert_eq!(status, 200, "{first}");
    let run = cluster.run_of_first("slow 120").await;
    let mut heard = Heard::default();
    while !heard.has(&run, "model_asked") {
        heard.next(&mut told).await;
    }
    let mut example = Example::start(script, &cluster).await;
    let answer = first["choices"][0]["message"]["content"].as_str().unwrap();
    let again = json!([said("user", "hello"), said("assistant", answer), said("user", "more")]);
    assert_eq!(chat(node, "talk", &again).await.0, 200);
    let mut printed: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    loop {
        let event = example.next().await;
        let stream = printed.entry(event["id"].as_str().unwrap().to_owned()).or_default();
        stream.push(event.clone());
        if event["id"] == run.as_str() && event["name"] == "finished" {
            break;
        }
    }
    let numbers = |stream: &str| -> Vec<u64> {
        printed[stream].iter().map(|event| event["version"].as_u64().unwrap()).collect()
    };
    let names = |stream: &str| -> Vec<&str> {
        printed[stream].iter().map(|event| event["name"].as_str().unwrap()).collect()
    };
    assert_eq!(names(&run), node.events(&run).await);
    assert_eq!(printed[&run][0]["filled"], true, "{:?}", printed[&run]);
    assert_eq!(printed[&run].last().unwrap().get("filled"), None, "{:?}", printed[&run]);
    let session = printed.keys().find(|id| id.starts_with("ses")).expect("the session").clone();
    assert_eq!(printed[&session][0]["name"], "opened");
    for stream in [&run, &session] {
        let wanted: Vec<u64> = (1..).take(printed[stream].len()).collect();
        assert_eq!(numbers(stream), wanted);
    }
    example.child.kill().await.unwrap();
}

#[tokio::test]
async fn the_plain_example_prints_streams_whole_though_it_came_late() {
    fills_what_it_missed("plain.py").await;
}

#[tokio::test]
async fn the_nats_py_example_prints_streams_whole_though_it_came_late() {
    fills_what_it_missed("with_nats_py.py").await;
}
