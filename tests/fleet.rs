//! Several nodes over one journal, each a process with a folder of its own, on servers that the story may hurt.

use crate::Node;
use crate::nats::{Nats, Sync};
use crate::process::{answer, json as body, patience};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between two looks at the nodes.
const LOOK: Duration = Duration::from_millis(50);

/// Servers, and nodes over them.
pub struct Cluster {
    /// The servers.
    pub nats: Nats,
    /// The nodes, in the order of their names: `n0`, `n1`, …
    pub nodes: Vec<Node>,
    /// Each node's own folder.
    pub folders: Vec<TempDir>,
    replicas: &'static str,
    /// The line of every node's cluster key file.
    key: String,
    /// What each node is told besides.
    told: Vec<(&'static str, String)>,
}

impl Cluster {
    /// So many nodes on one server, each with its share of the partitions.
    pub async fn of(nodes: usize) -> Self {
        Self::over(Nats::one(Sync::Always).await, "1", nodes, vec![]).await
    }

    /// The same, told these variables besides.
    pub async fn of_told(nodes: usize, told: Vec<(&'static str, String)>) -> Self {
        Self::over(Nats::one(Sync::Always).await, "1", nodes, told).await
    }

    /// The same on three servers, everything three times.
    pub async fn on_three(nodes: usize) -> Self {
        Self::over(Nats::three(Sync::Always).await, "3", nodes, vec![]).await
    }

    async fn over(
        nats: Nats,
        replicas: &'static str,
        nodes: usize,
        told: Vec<(&'static str, String)>,
    ) -> Self {
        let folders = (0..nodes).map(|_| tempfile::tempdir().expect("a folder")).collect();
        let key = store::vault::keys::draw("key").expect("randomness");
        let mut cluster = Self { nats, nodes: vec![], folders, replicas, key, told };
        for nth in 0..nodes {
            let node = cluster.start(nth).await;
            cluster.nodes.push(node);
        }
        cluster.settled().await;
        cluster
    }

    /// Starts the nth node; its place in `nodes` is the story's business.
    pub async fn start(&self, nth: usize) -> Node {
        let (urls, monitors) = (self.nats.urls().join(","), self.nats.monitors().join(","));
        let name = format!("n{nth}");
        let key = self.folders[nth].path().join("cluster.key");
        if !key.exists() {
            store::private::write(&key, &self.key).expect("a key file");
        }
        let key = key.display().to_string();
        let words = ["--nats", &urls, "--nats-monitor", &monitors, "--cluster-key", &key];
        let words = [&["--demo", "--node", &name], &words[..]].concat();
        let small = [
            ("PITON_NATS_SHARD_BYTES_MAX", "134217728"),
            ("PITON_NATS_REPLICAS", self.replicas),
            ("PITON_LIMITS_DRAIN_SECONDS", "5"),
        ];
        let told: Vec<(&str, &str)> =
            self.told.iter().map(|(name, value)| (*name, &**value)).collect();
        Node::start(self.folders[nth].path(), &words, &[&small, &told[..]].concat()).await
    }

    /// SIGKILL, and a new life in the same folder, ready.
    pub async fn restart(&mut self, nth: usize) {
        self.nodes[nth].kill();
        self.nodes[nth] = self.start(nth).await;
    }

    /// Waits until every node sees all the others, and serves what belongs to it.
    pub async fn settled(&self) {
        let deadline = Instant::now() + patience();
        for node in &self.nodes {
            loop {
                let (_, list) = node.get("/v1/nodes").await;
                let (ready, _) = node.get("/health/ready").await;
                if list["count"] == self.nodes.len() && ready == 200 {
                    break;
                }
                let log = node.log();
                let last = log.lines().rev().take(40).collect::<Vec<_>>().join("\n");
                assert!(Instant::now() < deadline, "not settled: {ready} {list}, newest:\n{last}");
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Node 0 is asked for a run that it owns itself: new roots live where they are asked for.
    pub async fn run_of_first(&self, input: &str) -> String {
        self.nodes[0].start_run(&json!({ "input": input })).await
    }
}

/// One turn of a named conversation; the status and the answer.
pub async fn chat(node: &Node, session: &str, messages: &Value) -> (u16, Value) {
    let request =
        node.ask(Method::POST, "/v1/chat/completions").header("x-piton-session-id", session);
    let request = request.timeout(patience());
    answer(body(request, &json!({"model": "demo", "messages": messages}))).await
}

/// A message as a client of chats sends it.
pub fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}
