//! What a second node costs and what it brings: a request answered by another node's owner against one that is answered
//! here and against a bare NATS request, and the same provider-bound load on one node and on three.

mod figure;
mod load;

use figure::{ROUNDS, cpu, folder, median, rounded, tell};
use load::{Seen, Target};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tests::nats::{Nats, Sync};
use tests::process::wait_for;
use tests::{ADMIN_KEY, Node};

/// How long each measurement is counted.
const TIME: Duration = Duration::from_millis(1_500);
/// How long the load of a provider is counted.
const LOADED: Duration = Duration::from_millis(5_000);
/// Requests in flight.
const IN_FLIGHT: [usize; 2] = [1, 16];
/// Words of the scripted provider, 50 ms each.
const WORDS: usize = 10;
/// Conversations in flight on each node under the provider's load.
const LANES: usize = 24;

/// Nodes over one server.
struct Cluster {
    nats: Nats,
    nodes: Vec<(TempDir, Node)>,
}

impl Cluster {
    async fn of(count: usize) -> Self {
        let nats = Nats::one(Sync::Always).await;
        let (urls, monitors) = (nats.urls().join(","), nats.monitors().join(","));
        let mut nodes = vec![];
        for nth in 0..count {
            let place = tempfile::tempdir_in(folder()).expect("a folder");
            let name = format!("n{nth}");
            let words = ["--demo", "--nats", &urls, "--nats-monitor", &monitors, "--node", &name];
            let node =
                Node::start(place.path(), &words, &[("PITON_NATS_SHARD_BYTES_MAX", "536870912")])
                    .await;
            nodes.push((place, node));
        }
        for (_, node) in &nodes {
            wait_for("every node has its share", || async {
                let (_, list) = node.get("/v1/nodes").await;
                let (ready, _) = node.get("/health/ready").await;
                (list["count"] == count && ready == 200).then_some(())
            })
            .await;
        }
        Self { nats, nodes }
    }

    fn node(&self, nth: usize) -> &Node {
        let (_, node) = &self.nodes[nth];
        node
    }

    /// User and system time of all nodes and the server.
    fn busy(&self) -> (Duration, Duration) {
        let nodes = self.nodes.iter().map(|(_, node)| cpu(Some(node.pid()))).sum();
        (nodes, cpu(Some(self.nats.pid(0))))
    }
}

/// A request without a body.
fn get(node: &Node, path: &str, mark: &'static [u8]) -> Arc<Target> {
    let address = node.url.trim_start_matches("http://").parse().expect("an address");
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {ADMIN_KEY}\r\n\r\n"
    );
    Arc::new(Target { address, request: head.into_bytes(), mark })
}

/// A request over NATS that is answered at once with as many bytes.
async fn bare(nats: &Nats, in_flight: usize, bytes: usize) -> Seen {
    let client = async_nats::connect(nats.urls()).await.expect("a client");
    let answerer = async_nats::connect(nats.urls()).await.expect("a client");
    let mut asked = answerer.subscribe("bench.ask").await.expect("a subscription");
    answerer.flush().await.expect("it is subscribed");
    let answer = bytes::Bytes::from(vec![b'x'; bytes]);
    let answers = tokio::spawn(async move {
        use futures_util::StreamExt;
        while let Some(message) = asked.next().await {
            let Some(reply) = message.reply else { continue };
            answerer.publish(reply, answer.clone()).await.expect("an answer");
        }
    });
    let until = Instant::now() + TIME;
    let lane = |client: async_nats::Client| async move {
        let mut whole = vec![];
        while Instant::now() < until {
            let started = Instant::now();
            client.request("bench.ask", "a command".into()).await.expect("an answer");
            whole.push(started.elapsed().as_secs_f64() * 1e3);
        }
        whole
    };
    let lanes: Vec<_> = (0..in_flight).map(|_| tokio::spawn(lane(client.clone()))).collect();
    let mut seen = Seen { wall: TIME, ..Seen::default() };
    for lane in lanes {
        seen.whole.extend(lane.await.expect("a lane"));
    }
    answers.abort();
    seen
}

async fn crossing(cluster: &Cluster) {
    let run = cluster.node(0).start_run(&json!({"input": "hello"})).await;
    cluster.node(0).ended(&run).await;
    let path = format!("/v1/runs/{run}");
    let (_, whole) = cluster.node(1).get(&path).await;
    let bytes = whole.to_string().len();
    let near = get(cluster.node(0), &path, b"run_id");
    let far = get(cluster.node(1), &path, b"run_id");
    for in_flight in IN_FLIGHT {
        let mut rounds = vec![];
        for _ in 0..ROUNDS {
            let near = load::run(&near, in_flight, TIME, || ()).await;
            let far = load::run(&far, in_flight, TIME, || ()).await;
            rounds.push([near, far, bare(&cluster.nats, in_flight, bytes).await]);
        }
        let wait = |nth: usize| {
            median(rounds.iter().map(|round| median(round[nth].whole.clone())).collect())
        };
        let rate =
            |nth: usize| median(rounds.iter().map(|round| round[nth].per_second()).collect());
        let added = wait(1) - wait(0);
        tell(
            "cross_node_request",
            &json!({
                "what": "GET of one run, whose state its owner tells", "in_flight": in_flight, "answer_bytes": bytes,
                "far_p50_ms": rounded(wait(1), 3), "near_p50_ms": rounded(wait(0), 3), "added_p50_ms": rounded(added, 3),
                "floor": "bare NATS request answered at once with as many bytes", "floor_p50_ms": rounded(wait(2), 3),
                "added_to_floor": rounded(added / wait(2), 2),
                "far_per_s": rate(1).round(), "near_per_s": rate(0).round(), "floor_per_s": rate(2).round(),
            }),
        );
    }
}

/// Conversations that wait for their provider, on every node at once.
async fn provider_bound(count: usize) -> Value {
    let cluster = Cluster::of(count).await;
    let asked = json!({"model": "demo", "messages": [{"role": "user", "content": format!("slow {WORDS}")}]});
    let mut rounds = vec![];
    for _ in 0..ROUNDS {
        let targets = (0..count).map(|nth| {
            let address =
                cluster.node(nth).url.trim_start_matches("http://").parse().expect("an address");
            Target::post(address, ADMIN_KEY, &asked.to_string(), b"scripted demo")
        });
        let mut before = None;
        let targets: Vec<_> = targets.collect();
        let loads = targets.iter().map(|target| load::run(target, LANES, LOADED, || ()));
        let counted = async {
            tokio::time::sleep(load::WARM_UP).await;
            before = Some(cluster.busy());
        };
        let (seen, ()) = tokio::join!(futures_util::future::join_all(loads), counted);
        let (nodes, server) = cluster.busy();
        let (nodes_before, server_before) = before.expect("it was counted");
        let answered = seen.iter().map(|seen| seen.whole.len()).sum::<usize>() as f64;
        let wait = median(seen.iter().flat_map(|seen| seen.whole.clone()).collect());
        let share =
            |now: Duration, then: Duration| (now - then).as_secs_f64() / LOADED.as_secs_f64();
        rounds.push([
            answered / LOADED.as_secs_f64(),
            wait,
            share(nodes, nodes_before),
            share(server, server_before),
        ]);
    }
    let middle = |nth: usize| median(rounds.iter().map(|round| round[nth]).collect());
    json!({
        "nodes": count, "in_flight_each": LANES, "requests_per_s": rounded(middle(0), 1),
        "p50_ms": rounded(middle(1), 1), "nodes_cpu_share": rounded(middle(2), 2), "nats_cpu_share": rounded(middle(3), 2),
        "node_cpu_us_per_request": (middle(2) * 1e6 / middle(0)).round(),
    })
}

#[tokio::main]
async fn main() {
    crossing(&Cluster::of(2).await).await;
    let (one, three) = (provider_bound(1).await, provider_bound(3).await);
    let rate = |figure: &Value| figure["requests_per_s"].as_f64().unwrap_or_default();
    tell(
        "scale_out",
        &json!({
            "what": "chats of a scripted provider that takes half a second", "one": one, "three": three,
            "ratio": rounded(rate(&three) / rate(&one), 2), "cores": std::thread::available_parallelism().map_or(0, usize::from),
        }),
    );
}
