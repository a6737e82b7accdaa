//! Which builds a journal lets in: a raised minimum refuses an older one by name, and a journal of the first readers is
//! read by this one.

use crate::nodes::piton;
use crate::probe::{by, landed};
use events::aggregate::Aggregate;
use events::record::{Boot, Epoch, JournalId};
use events::settings::{Event, Reader, ReaderRaised, Settings, SettingsId};
use serde_json::{Value, json};
use std::path::Path;
use store::jetstream::{LazySync, Servers};
use store::{Connect, Faults, Open, Store};
use tests::Node;
use tests::nats::{Nats, Sync};
use tests::process::{answer, json as body};

/// A journal of the first builds: a session with a turn, a run with two tools, a key.
const FIRST: &[u8] = include_bytes!("golden/journal-reader-1.db");

/// Does what a newer build would have done: no build that reads less than the next reader is let in.
async fn raised(store: &Store) {
    let stream = Settings::stream(&SettingsId::Journal);
    let epoch = store.own(stream.partition(), Epoch::default()).await.unwrap();
    let tail = store.tail(&stream).await.unwrap();
    let to = Reader(Reader::OURS.0 + 1);
    let mut append = by((epoch, store.boot()), store, &stream, tail, &[&b""[..]]);
    let entry = Settings::encode(&Event::ReaderRaised(ReaderRaised { to })).unwrap();
    append.commit.entries = vec![entry];
    append.wake = events::aggregate::Wake::OnCommand;
    landed(&store.append(append).await);
    store.clone().close().await;
}

fn says_too_old(refused: &(std::process::ExitStatus, String)) {
    let (status, told) = refused;
    assert_eq!(status.code(), Some(3), "{told}");
    let wants = Reader::OURS.0 + 1;
    assert!(told.contains(&format!("wants builds that read {wants}")), "{told}");
    assert!(told.contains("no way back"), "{told}");
}

#[tokio::test]
async fn a_journal_that_wants_a_newer_build_lets_this_one_in_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    assert!(node.stop().await.success());
    drop(node);
    let path = folder.path().join("journal.db");
    let (boot, fresh, faults) = (Boot(1), JournalId(1), Faults::none());
    raised(&Store::open(Open { path, boot, fresh, faults }).unwrap()).await;
    says_too_old(&Node::refused(folder.path(), &["--demo"]).await);
}

#[tokio::test]
async fn a_node_that_is_too_old_does_not_join_its_cluster() {
    let nats = Nats::one(Sync::Always).await;
    let connect = Connect {
        servers: Servers::at(nats.urls()),
        monitors: nats.monitors(),
        namespace: "piton".parse().unwrap(),
        boot: Boot(1),
        fresh: JournalId(1),
        replicas: 1,
        shard_bytes_max: 128 << 20,
        lazy_sync: LazySync::Refuse,
        faults: Faults::none(),
    };
    raised(&Store::connect(connect).await.unwrap()).await;
    let folder = tempfile::tempdir().unwrap();
    let (urls, monitors) = (nats.urls().join(","), nats.monitors().join(","));
    let words = ["--demo", "--nats", &urls, "--nats-monitor", &monitors, "--node", "old"];
    says_too_old(&Node::refused(folder.path(), &words).await);
}

/// Puts the journal of the first builds into a folder.
fn first(folder: &Path) {
    std::fs::write(folder.join("journal.db"), FIRST).unwrap();
}

#[tokio::test]
async fn a_journal_of_the_first_builds_is_read_replayed_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    first(folder.path());
    let (code, told, why) = piton(folder.path(), &["journal", "verify", "--json"]).await;
    assert_eq!(code, 0, "{told}{why}");
    let node = Node::demo(folder.path()).await;
    let (_, list) = node.get("/v1/runs").await;
    assert_eq!(list["count"], 2, "{list}");
    for run in list["data"].as_array().unwrap() {
        let id = run["id"].as_str().unwrap();
        let (status, replayed) = node.post(&format!("/v1/runs/{id}/replay"), &json!({})).await;
        assert_eq!(status, 200, "{replayed}");
        assert_eq!(node.get(&format!("/v1/runs/{id}")).await.1["outcome"], "completed");
    }
    let (_, keys) = node.get("/v1/keys").await;
    assert_eq!(
        (&keys["data"][0]["name"], &keys["data"][0]["role"]),
        (&json!("old"), &json!("reader"))
    );
    // The session knows its past: another one is refused by the first message that differs.
    let asked = node
        .ask(reqwest::Method::POST, "/v1/chat/completions")
        .header("x-piton-session-id", "golden");
    let said =
        json!({"model": "demo", "messages": [{"role": "user", "content": "something else"}]});
    let (status, got) = answer(body(asked, &said)).await;
    assert_eq!((status, &got["error"]["code"]), (409, &json!("history_mismatch")), "{got}");

    let (code, _, told) = piton(folder.path(), &["nodes", "upgrade-schema"]).await;
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("There is no way back"), "{told}");
    for _twice in 0..2 {
        let (code, out, told) =
            piton(folder.path(), &["nodes", "upgrade-schema", "--yes", "--json"]).await;
        assert_eq!(code, 0, "{told}");
        let done: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(done["minimum_reader"], Reader::OURS.0, "{done}");
    }
}
