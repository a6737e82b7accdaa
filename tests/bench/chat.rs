//! Chat completions through a node, each one's intent and receipt durable, against asking the provider directly.
//!
//! The provider is the mock of `../shared/bench`, in a process of its own, as are the node and this loop: all of them
//! share the machine, so only what is divided by a figure of the same run says anything.

mod figure;
mod load;

use actors::entropy::Entropy;
use events::record::{Boot, JournalId};
use figure::{ROUNDS, cpu, folder, median, resident, rounded, tell};
use load::{Seen, Target};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Faults, Open, Store};
use tests::{ADMIN_KEY, Node};

/// How long each measurement is counted.
const WHOLE: Duration = Duration::from_millis(1_500);
const STREAMING: Duration = Duration::from_millis(1_000);
/// Requests in flight.
const IN_FLIGHT: [usize; 3] = [1, 16, 64];
/// Durable writes that one wait is the median of.
const WAITS: usize = 200;
/// The commits of a call's run that follow each other: its intent, then its receipt.
const WAITS_PER_CALL: usize = 2;

/// The provider's process.
struct Mock {
    child: Child,
    address: SocketAddr,
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The mock's program, built where it is not yet; `None` where its sources are not there.
fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (manifest, target) =
        (root.join("../shared/bench/mock/Cargo.toml"), root.join("target/mock"));
    let program = target.join("release/mock");
    if !program.exists() && manifest.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--release", "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(target);
        assert!(cargo.status().expect("cargo runs").success(), "the mock is built");
    }
    Some(program).filter(|program| program.exists())
}

async fn mock(program: &Path) -> Mock {
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port");
    let mut command = Command::new(program);
    command.env("PORT", free.port().to_string()).stderr(Stdio::null());
    let mock = Mock { child: command.spawn().expect("the mock starts"), address: free };
    tests::process::wait_for("the mock listens", || async {
        tokio::net::TcpStream::connect(free).await.ok()
    })
    .await;
    mock
}

fn body(model: &str, stream: bool) -> Value {
    let messages = json!([{"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Say something about foxes and dogs in forty words."}]);
    let asked = json!({"model": model, "messages": messages, "max_tokens": 64, "temperature": 0.2});
    let Value::Object(mut asked) = asked else { panic!("an object") };
    if stream {
        asked.insert("stream".into(), true.into());
        asked.insert("stream_options".into(), json!({"include_usage": true}));
    }
    asked.into()
}

/// The same question to the mock and to the node.
struct Pair {
    direct: Arc<Target>,
    through: Arc<Target>,
}

impl Pair {
    fn new(mock: &Mock, node: &Node, stream: bool) -> Self {
        let address = node.url.trim_start_matches("http://").parse().expect("an address");
        let mark: &[u8] = if stream { b"tok0" } else { b"quick brown fox" };
        let direct =
            Target::post(mock.address, "dummy", &body("gpt-4o-mini", stream).to_string(), mark);
        let through =
            Target::post(address, ADMIN_KEY, &body("openai:gpt-4o-mini", stream).to_string(), mark);
        Self { direct, through }
    }
}

/// One round of a pair, and the node's CPU for each request in microseconds.
async fn round(pair: &Pair, node: &Node, in_flight: usize, time: Duration) -> (Seen, Seen, f64) {
    let direct = load::run(&pair.direct, in_flight, time, || ()).await;
    let mut before = Duration::ZERO;
    let through =
        load::run(&pair.through, in_flight, time, || before = cpu(Some(node.pid()))).await;
    let busy = cpu(Some(node.pid())) - before;
    let each = busy.as_secs_f64() * 1e6 / through.whole.len() as f64;
    (direct, through, each)
}

fn middle<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> f64 {
    median(rounds.iter().map(of).collect())
}

/// Milliseconds that one durable write takes which waits for nobody else.
async fn wait(place: &Path) -> f64 {
    let (path, entropy) = (place.join("waits.db"), Entropy::System);
    let open = Open {
        path,
        boot: Boot(entropy.draw()),
        fresh: JournalId(entropy.draw()),
        faults: Faults::none(),
    };
    let store = Store::open(open).expect("a store");
    let mut waits = vec![];
    for _ in 0..WAITS {
        let started = Instant::now();
        store.probe().await.expect("a durable write");
        waits.push(started.elapsed().as_secs_f64() * 1e3);
    }
    store.close().await;
    median(waits)
}

async fn whole(mock: &Mock, node: &Node, place: &Path) {
    let pair = Pair::new(mock, node, false);
    for in_flight in IN_FLIGHT {
        let mut rounds = vec![];
        for _ in 0..ROUNDS {
            rounds.push((wait(place).await, round(&pair, node, in_flight, WHOLE).await));
        }
        let direct = middle(&rounds, |(_, (direct, _, _))| median(direct.whole.clone()));
        let through = middle(&rounds, |(_, (_, through, _))| median(through.whole.clone()));
        let wait = middle(&rounds, |(wait, _)| *wait);
        let (asked, answered) = (
            middle(&rounds, |(_, (d, _, _))| d.per_second()),
            middle(&rounds, |(_, (_, t, _))| t.per_second()),
        );
        let beyond = through - direct - wait * WAITS_PER_CALL as f64;
        tell(
            "chat_completion",
            &json!({
                "in_flight": in_flight, "requests_per_s": answered.round(), "direct_per_s": asked.round(),
                "ratio": rounded(answered / asked, 3), "p50_ms": rounded(through, 3),
                "direct_p50_ms": rounded(direct, 3), "added_p50_ms": rounded(through - direct, 3),
                "durable_wait_ms": rounded(wait, 3), "added_beyond_waits_ms": rounded(beyond, 3),
                "goal_added_beyond_waits_ms_max": 1,
                "cpu_us_per_request": middle(&rounds, |(_, (_, _, cpu))| *cpu).round(),
                "node_resident_mb": resident(Some(node.pid())) >> 20,
            }),
        );
    }
}

async fn streaming(mock: &Mock, node: &Node) {
    let pair = Pair::new(mock, node, true);
    for in_flight in IN_FLIGHT {
        let mut rounds = vec![];
        for _ in 0..ROUNDS {
            rounds.push(round(&pair, node, in_flight, STREAMING).await);
        }
        let direct = middle(&rounds, |(direct, _, _)| median(direct.first.clone()));
        let through = middle(&rounds, |(_, through, _)| median(through.first.clone()));
        tell(
            "first_token",
            &json!({
                "in_flight": in_flight, "p50_ms": rounded(through, 3), "direct_p50_ms": rounded(direct, 3),
                "added_p50_ms": rounded(through - direct, 3), "goal_added_p50_ms_max": 1,
                "requests_per_s": middle(&rounds, |(_, through, _)| through.per_second()).round(),
                "direct_per_s": middle(&rounds, |(direct, _, _)| direct.per_second()).round(),
                "cpu_us_per_request": middle(&rounds, |(_, _, cpu)| *cpu).round(),
            }),
        );
    }
}

/// What one call's run has in the journal: each commit is waited for before the next step is taken.
async fn waits(node: &Node) {
    let request = node.ask(reqwest::Method::POST, "/v1/chat/completions");
    let answer = tests::process::json(request, &body("openai:gpt-4o-mini", false))
        .send()
        .await
        .expect("an answer");
    let run = answer.headers()["x-piton-run-id"].to_str().expect("an id").to_owned();
    let _answer = answer.bytes().await.expect("a whole answer");
    let commits = node.journal(&run).await;
    let names = |commit: &Value| {
        commit["entries"].as_array().expect("entries").iter().map(|e| e["name"].clone()).collect()
    };
    let names: Vec<Value> = commits.iter().map(names).collect();
    let figure = json!({"waits_per_call": commits.len(), "goal": WAITS_PER_CALL, "commits": names});
    tell("sequential_durable_waits", &figure);
    assert_eq!(commits.len(), WAITS_PER_CALL);
}

#[tokio::main]
async fn main() {
    let Some(program) = program() else {
        return tell("chat_completion", &json!({"absent": "../shared/bench/mock, the provider"}));
    };
    let mock = mock(&program).await;
    let place = tempfile::tempdir_in(folder()).expect("a folder");
    let url = format!("http://{}/v1", mock.address);
    let node = Node::start(
        place.path(),
        &[],
        &[("PITON_OPENAI_BASE_URL", &url), ("OPENAI_API_KEY", "dummy")],
    )
    .await;
    whole(&mock, &node, place.path()).await;
    streaming(&mock, &node).await;
    waits(&node).await;
}
