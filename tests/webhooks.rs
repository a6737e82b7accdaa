//! Webhooks from outside: what a receiver did not take is told after a kill, in order, signed, under the same id; and the
//! inbox of holds as the command line shows it.

use crate::nodes::piton;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Stdio;
use tests::Node;
use tests::process::{command, wait_for};
use tests::upstream::{Asked, Upstream};

const SECRET: &str = "planted-secret-of-a-webhook";
const TAKEN: &str = "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const BROKEN: &str =
    "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn configure(folder: &Path, url: &str, more: &str) {
    let text = format!(
        "[[webhooks]]\nurl = \"{url}/planted-path\"\nsecret_env = \"HOOK_SECRET\"\nevents = [\"run.finished\"]\n{more}\n"
    );
    std::fs::write(folder.join("piton.toml"), text).unwrap();
}

async fn start(folder: &Path) -> Node {
    Node::start(folder, &["--demo"], &[("HOOK_SECRET", SECRET)]).await
}

async fn ended(node: &Node) -> String {
    let run = node.start_run(&json!({"input": "Say hello"})).await;
    node.ended(&run).await;
    run
}

/// RFC 2104, for a key shorter than a block.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn header<'a>(asked: &'a Asked, name: &str) -> &'a str {
    let line = asked.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {}", asked.head)).trim()
}

/// The run of a message, which must be signed and say the same in its headers and its body.
fn checked(asked: &Asked) -> (String, String) {
    let signature = header(asked, "piton-signature");
    let (time, signed) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    assert_eq!(signed, hmac(SECRET.as_bytes(), format!("{time}.{}", asked.body).as_bytes()));
    let message = asked.json();
    assert_eq!(header(asked, "piton-delivery"), message["id"].as_str().unwrap());
    assert_eq!(header(asked, "piton-event"), "run.finished");
    assert_eq!((&message["event"], &message["kind"]), (&json!("run.finished"), &json!("run")));
    assert_eq!(message["project_id"], "default");
    let text = |field: &str| message[field].as_str().unwrap().to_owned();
    (text("stream_id"), text("id"))
}

/// Waits until a receiver was asked so often, and more.
async fn heard(peer: &Upstream, count: usize) -> Vec<Asked> {
    wait_for(&format!("{count} messages"), || async {
        let asked = peer.asked();
        (asked.len() >= count).then_some(asked)
    })
    .await
}

#[tokio::test]
async fn what_a_webhook_did_not_take_is_told_after_a_kill_in_order_and_signed() {
    // It is down for two tries, of which a kill falls after the first.
    let script = [vec![BROKEN; 2], vec![TAKEN; 60]].concat();
    let peer = Upstream::start(script).await;
    let folder = tempfile::tempdir().unwrap();
    configure(folder.path(), &peer.url, "allow_private = true");
    let mut node = start(folder.path()).await;
    let first = ended(&node).await;
    heard(&peer, 1).await;
    node.kill();
    let log = node.log();
    drop(node);
    assert!(log.contains("webhook_not_delivered"), "{log}");
    let node = start(folder.path()).await;
    let runs = [first, ended(&node).await, ended(&node).await];
    let told = wait_for("the last run is told", || async {
        let told: Vec<_> = peer.asked().iter().map(checked).collect();
        told.last().is_some_and(|(run, _)| *run == runs[2]).then_some(told)
    })
    .await;
    // A try that failed and its repeats say the same; nothing overtakes, and nothing is left out.
    let mut once = told.clone();
    once.dedup();
    let order: Vec<&String> = once.iter().map(|(run, _)| run).collect();
    assert_eq!(order, runs.iter().collect::<Vec<_>>(), "{told:?}");
    assert!(told.iter().filter(|(run, _)| *run == runs[0]).count() >= 3, "{told:?}");
    let (_, metrics) = text(&node, "/metrics").await;
    assert!(
        metrics.contains(
            "piton_webhook_deliveries_total{event=\"run.finished\",outcome=\"delivered\"}"
        )
    );
    let everything = format!("{}{metrics}{:?}", node.log(), node.journal(&runs[0]).await);
    assert!(!everything.contains("planted"), "a secret or a path came out");
}

async fn text(node: &Node, path: &str) -> (u16, String) {
    let answer = node.ask(reqwest::Method::GET, path).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn a_private_address_is_told_nothing_unless_it_is_allowed() {
    let peer = Upstream::start(vec![TAKEN; 4]).await;
    let folder = tempfile::tempdir().unwrap();
    configure(folder.path(), &peer.url, "");
    let (status, said) = Node::refused(folder.path(), &["--demo"]).await;
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("HOOK_SECRET, which is not set"), "{said}");
    let node = start(folder.path()).await;
    ended(&node).await;
    wait_for("the node says why", || async {
        node.log().contains("its address is private").then_some(())
    })
    .await;
    assert!(peer.asked().is_empty());
}

#[tokio::test]
async fn the_inbox_is_listed_and_watched_until_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let lists = [
        "/v1/approvals?status=waiting&project=default&limit=5",
        "/api/v1/approvals",
        "/v1/tools/invocations?state=unknown&project=default",
        "/v1/runs?state=waiting_for_approval",
        "/v1/runs?state=paused",
        "/v1/runs?state=needs_reconciliation",
    ];
    for path in lists {
        let (status, list) = node.get(path).await;
        assert_eq!((status, &list["data"]), (200, &json!([])), "{path}: {list}");
    }
    for path in ["/v1/approvals?status=open", "/v1/tools/invocations?state=lost"] {
        assert_eq!(node.get(path).await.0, 400, "{path}");
    }
    let (code, out, told) = piton(folder.path(), &["approvals", "ls"]).await;
    assert!(code == 0 && out.starts_with("APPROVAL  STATUS  TOOL"), "{out}{told}");
    let (_, out, _) = piton(folder.path(), &["approvals", "ls", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["count"], 0);

    let looks = || async {
        let (_, metrics) = text(&node, "/metrics").await;
        let lines = metrics.lines().filter(|line| {
            line.starts_with("piton_http_requests_total") && line.contains("\"/v1/approvals\"")
        });
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        Some(counts.sum::<u64>())
    };
    let before = looks().await.unwrap();
    let mut words = command(folder.path());
    words.args(["approvals", "watch", "--bell"]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut watch = words.spawn().unwrap();
    // It looks more than once.
    wait_for("two looks", || async { looks().await.filter(|count| *count >= before + 2) }).await;
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    let status = tokio::task::spawn_blocking(move || watch.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}
