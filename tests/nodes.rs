//! What an operator does with nodes: list, drain and fence them, through whichever node is there.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tests::Node;
use tests::fleet::{Cluster, chat, said};
use tests::process::{command, wait_for};

/// When the first lease of a node that hangs may end by itself: it lives 15 s, and was written 3 s ago at most.
const FIRST_END: Duration = Duration::from_secs(12);

/// A verb, as a shell without a terminal runs it: how it ended, what it answered, what it remarked.
pub(crate) async fn piton(data: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = command(data);
    command.args(words).stdin(Stdio::null());
    let run = move || command.output().expect("it runs");
    let output = tokio::task::spawn_blocking(run).await.expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

async fn listed(data: &Path) -> Value {
    let (code, out, told) = piton(data, &["nodes", "ls", "--json"]).await;
    assert_eq!(code, 0, "{told}");
    serde_json::from_str(&out).expect("JSON")
}

/// The list through a node once it says this: who holds what comes to each node by a watch, a moment after it is so.
async fn listed_once(data: &Path, what: &str, says: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, || async {
        let list = listed(data).await;
        says(&list).then_some(list)
    })
    .await
}

fn row<'a>(list: &'a Value, name: &str) -> &'a Value {
    let rows = list["data"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} in {list}"))
}

/// A metric of a node, by its name and labels as they are written; none when it does not stand there.
async fn metric(node: &Node, name: &str) -> Option<f64> {
    let (_, text) = node.get("/metrics").await;
    let lines = text.as_str().expect("text").lines();
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .find_map(|(found, value)| (found == name).then(|| value.parse().expect("a number")))
}

/// What a drain of n0 leaves in the numbers and the health of both.
async fn shows_the_drain(n0: &Node, n1: &Node) {
    for (node, name, value) in [
        // The half that it handed to n1 when that one came, and the rest now.
        (n0, "piton_leases_lost_total{reason=\"handed_over\"}", 64.0),
        (n0, "piton_leases_held", 0.0),
        (n1, "piton_leases_held", 64.0),
        (n1, "piton_leases_lost_total{reason=\"taken\"}", -1.0),
        (n1, "piton_partitions_unowned", 0.0),
        (n1, "piton_nodes_seen", 2.0),
        (n1, "piton_store_sync_proved", 1.0),
    ] {
        wait_for(&format!("{name} is {value}"), || async {
            (metric(node, name).await.unwrap_or(-1.0) == value).then_some(())
        })
        .await;
    }
    for (node, name) in [
        (n0, "piton_bus_asked_total{outcome=\"decided\"}"),
        (n0, "piton_bus_request_seconds_count"),
        (n1, "piton_leases_taken_total{from=\"free\"}"),
        (n1, "piton_lease_take_seconds_count"),
        (n1, "piton_store_append_seconds_count"),
    ] {
        assert!(metric(node, name).await >= Some(1.0), "{name}");
    }
    let nodes = json!({"this": "n0", "seen": ["n0", "n1"], "draining": true, "fenced": [], "leases": 0, "unowned": 0});
    let health = wait_for("its health tells of the drain", || async {
        let (_, health) = n0.get("/health/detailed").await;
        (health["nodes"] == nodes).then_some(health)
    })
    .await;
    assert_eq!(health["status"], "ok", "{health}");
    assert_eq!(
        (&health["bus"]["connected"], &health["store"]["sync"]["proved"]),
        (&json!(true), &json!(true))
    );
    assert!(health["projections"][0]["lag"].is_u64(), "{health}");
}

fn signal(node: &Node, signal: Signal) {
    let pid = i32::try_from(node.pid()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("a signal");
}

#[tokio::test]
async fn a_drained_node_hands_over_and_goes_on_as_a_gateway() {
    let mut cluster = Cluster::of(2).await;
    let (own, other) = (cluster.folders[0].path().to_owned(), cluster.folders[1].path().to_owned());
    let halves = |list: &Value| {
        let half = |name| row(list, name)["holds"] == 32 && row(list, name)["serves"] == 32;
        list["unowned"] == 0 && half("n0") && half("n1")
    };
    let before = listed_once(&own, "each has its half", halves).await;
    assert_eq!(row(&before, "n0")["this"], true, "{before}");
    for name in ["n0", "n1"] {
        let row = row(&before, name);
        assert_eq!(row["build"], env!("CARGO_PKG_VERSION"));
        assert!(row["since"].is_string() && row["horizon_ms"].as_u64() <= Some(12_000), "{row}");
        assert!(row["heard_ms"].as_u64() < Some(15_000), "{row}");
    }

    // Through the other node; the verb returns once nothing is left.
    let (code, out, told) = piton(&other, &["nodes", "drain", "n0"]).await;
    assert_eq!(code, 0, "{told}");
    assert!(out.contains("n0 holds nothing"), "{out}");
    listed_once(&other, "n0 drains and serves nothing", |list| {
        row(list, "n0")["state"] == "draining" && row(list, "n0")["serves"] == 0
    })
    .await;
    cluster.settled().await;
    let (status, got) = chat(&cluster.nodes[0], "s", &json!([said("user", "hello")])).await;
    assert_eq!(status, 200, "it is a gateway still: {got}");
    listed_once(&own, "n1 holds all", |list| row(list, "n1")["holds"] == 64).await;
    shows_the_drain(&cluster.nodes[0], &cluster.nodes[1]).await;

    // Nobody would be left.
    let (code, _, told) = piton(&own, &["nodes", "drain", "n1"]).await;
    assert_eq!(code, 6, "{told}");
    assert!(told.contains("no other node than n1 takes partitions"), "{told}");
    let (code, _, told) = piton(&own, &["nodes", "drain", "n7"]).await;
    assert_eq!(code, 5, "{told}");
    assert!(told.contains("the nodes are n0, n1"), "{told}");

    let (code, _, told) = piton(&own, &["nodes", "drain", "n0", "--undo"]).await;
    assert_eq!(code, 0, "{told}");
    let share = async |name: &str| {
        listed_once(&other, "both have their share", |list| row(list, name)["serves"] == 32).await;
    };
    share("n0").await;

    // As an upgrade does it: the wish ends with the life.
    let (code, _, told) = piton(&other, &["nodes", "drain", "n0"]).await;
    assert_eq!(code, 0, "{told}");
    assert!(cluster.nodes[0].stop().await.success());
    cluster.nodes[0] = cluster.start(0).await;
    share("n0").await;
}

#[tokio::test]
async fn a_hung_node_is_fenced_and_stops_when_it_hears_it() {
    let mut cluster = Cluster::of(2).await;
    let run = cluster.run_of_first("slow 200").await;
    let other = cluster.folders[1].path().to_owned();
    wait_for("it is at work", || async {
        let asked = |name: &String| name.contains("asked");
        cluster.nodes[1].events(&run).await.iter().any(asked).then_some(())
    })
    .await;
    let (code, _, told) = piton(&other, &["nodes", "fence", "n0"]).await;
    assert_eq!(code, 2, "nobody said yes: {told}");
    assert!(told.contains("does not call back what is on its way"), "{told}");
    let (code, _, told) = piton(&other, &["nodes", "fence", "n1", "--yes"]).await;
    assert_eq!(code, 6, "a node does not fence itself: {told}");

    let hung = Instant::now();
    signal(&cluster.nodes[0], Signal::STOP);
    let is_silent = |list: &Value| row(list, "n0")["state"] == "silent";
    let hangs = listed_once(&other, "it is seen to hang", is_silent).await;
    assert_eq!(row(&hangs, "n0")["holds"], 32, "its leases have not ended");
    let (code, out, told) = piton(&other, &["nodes", "fence", "n0", "--yes", "--json"]).await;
    assert_eq!(code, 0, "{told}");
    assert!(hung.elapsed() < FIRST_END, "its leases may have ended by themselves meanwhile");
    let fenced: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&fenced["taken"], &fenced["holds"]), (&json!(32), &json!(0)), "{fenced}");
    listed_once(&other, "it is fenced and nothing is left to nobody", |list| {
        list["unowned"] == 0 && row(list, "n0")["state"] == "fenced"
    })
    .await;
    let (code, _, told) = piton(&other, &["nodes", "drain", "n0"]).await;
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("n0 does not answer"), "{told}");
    let replaced = metric(&cluster.nodes[1], "piton_leases_taken_total{from=\"replaced\"}").await;
    assert_eq!(replaced, Some(32.0));
    assert_eq!(cluster.nodes[1].ended(&run).await["outcome"], "completed");

    signal(&cluster.nodes[0], Signal::CONT);
    let status = cluster.nodes[0].died().await;
    assert_eq!(status.code(), Some(7), "{}", cluster.nodes[0].log());
    assert!(cluster.nodes[0].log().contains("this node was fenced"), "it says why");
    cluster.nodes[0] = cluster.start(0).await;
    cluster.settled().await;
    let serves = |list: &Value| row(list, "n0")["state"] == "serving";
    listed_once(&other, "a new life is let in", serves).await;
}

#[tokio::test]
async fn a_node_with_a_journal_of_its_own_is_alone_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let _node = Node::demo(folder.path()).await;
    let list = listed(folder.path()).await;
    assert_eq!((&list["count"], &list["data"][0]["serves"]), (&json!(1), &json!(64)));
    for verb in ["drain", "fence"] {
        let mut words = vec!["nodes", verb, "n0"];
        words.extend((verb == "fence").then_some("--yes"));
        let (code, _, told) = piton(folder.path(), &words).await;
        assert_eq!(code, 6, "{told}");
        assert!(told.contains("a file of its own"), "{told}");
    }
}
