//! What a receiver on a real socket gets of a journal in memory.

use super::*;
use crate::config::HookEvent;
use actors::clock::Hand;
use actors::task;
use events::aggregate::{Aggregate, Wake};
use events::id::{Place, RunId};
use events::json::Json;
use events::prompt::{Catalogue, Params};
use events::quantity::Instant as Time;
use events::record::{Actor, Boot, Commit, CommitId, Hash, JournalId, Version};
use events::run::approval::{ApprovalAsked, ApprovalNo, subject};
use events::run::ledger::{ToolNo, ToolUnknown, UnknownReason};
use events::run::life::{Finished, Outcome, Queued, Reason};
use events::run::spec::{Delivery as Kept, LOGIC, Limits, Plane, Spec};
use events::run::{Event, Run};
use serde_json::Value;
use store::{Append, Appended, Faults};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const NOW: Time = Time(1_700_000_000_000_000);
const LONG: Duration = Duration::from_secs(20);

fn spec() -> Arc<Spec> {
    Arc::new(Spec {
        plane: Plane::Run,
        delivery: Kept::Live,
        project: "rocket".into(),
        caller: Actor::Admin,
        route: vec![],
        route_source: "call".into(),
        role: events::role::Role::chat(),
        phase: None,
        dropped: vec![],
        independence: events::role::Independence::Off,
        tools: Catalogue::default(),
        plan: Default::default(),
        server_tools: vec![],
        params: Params::default(),
        input: vec![],
        limits: Limits::default(),
        approval_mode: Default::default(),
        source: Default::default(),
        budgets: vec![],
        tool_policy: events::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: LOGIC,
        metadata: std::collections::BTreeMap::new(),
        seed: 1,
        input_hash: Hash::default(),
    })
}

fn queued() -> Event {
    Event::Queued(Queued { spec: spec(), session: None })
}

fn asked() -> Event {
    let arguments = Json::from_bytes(br#"{"text":"planted"}"#);
    Event::ApprovalAsked(ApprovalAsked {
        approval: ApprovalNo(0),
        index: 0,
        name: "note_append".into(),
        subject: subject("note_append", &arguments),
        arguments,
        until: NOW,
    })
}

fn unknown(reason: UnknownReason) -> Event {
    Event::ToolUnknown(ToolUnknown { call: ToolNo(0), reason, lease_until: Some(NOW) })
}

fn finished() -> Event {
    let (outcome, reason) = (Outcome::Completed, Reason::Answered);
    Event::Finished(Finished { outcome, reason, detail: String::new(), fence: None })
}

fn run() -> RunId {
    RunId::new(Place::default(), 1)
}

async fn append(store: &Store, at: Time, events: &[Event]) {
    let stream = Run::stream(&run());
    let expected = store.tail(&stream).await.unwrap();
    let entries = events.iter().map(|event| Run::encode(event).unwrap()).collect();
    let commit = Commit {
        journal: store.journal(),
        first_version: Version(expected.version.0 + 1),
        epoch: store.epoch(stream.partition()),
        boot: store.boot(),
        id: CommitId(u128::from(expected.version.0) + 1),
        at,
        causes: vec![],
        prev: expected.hash,
        entries,
        stream,
    };
    let wake = Wake::OnCommand;
    let appended = store.append(Append { commit, expected, wake, blobs: vec![] }).await;
    assert!(matches!(appended, Appended::Appended { .. }), "{appended:?}");
}

/// A receiver that answers in turn with these, then takes everything; and what it was sent.
async fn receiver(mut answers: Vec<u16>) -> (Webhook, mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let (tell, heard) = mpsc::channel(64);
    answers.reverse();
    drop(task::spawn(task::Kind::Follow, async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![];
            let body = loop {
                let mut piece = [0; 4_096];
                let count = stream.read(&mut piece).await.unwrap();
                bytes.extend_from_slice(&piece[..count]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
                if let Ok(body) = serde_json::from_str::<Value>(body) {
                    break body;
                }
            };
            let status = answers.pop().unwrap_or(204);
            let answer =
                format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            let event = body["event"].as_str().unwrap().to_owned();
            if tell.send((event, body)).await.is_err() {
                return;
            }
        }
    }));
    let events = HookEvent::ALL.into_iter().collect();
    let secret = Some(Secret::new("a secret of some length"));
    let secret_env = "S".to_owned();
    let hook =
        Webhook { url, secret_env, secret, events, allow_private: true, include_text: false };
    (hook, heard)
}

struct World {
    store: Store,
    hand: Hand,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let store = Store::memory(Boot(1), JournalId(9), Faults::none());
        Self { store, hand: Hand::at(NOW), folder: tempfile::tempdir().unwrap() }
    }

    /// Tells a webhook until it is aborted; the hand goes on by a second whenever somebody may wait for it.
    fn tell(&self, hook: &Webhook) -> tokio::task::JoinHandle<()> {
        let hook = Hook::all(std::slice::from_ref(hook)).unwrap().remove(0);
        let marks = Marks::Folder(self.folder.path().to_owned(), self.store.journal());
        let shard = self.store.shards()[0];
        let teller = Teller::new(hook, self.store.clone(), self.hand.clock(), marks, shard);
        let (served, hand) = (watch::channel(Served::ALL).1, self.hand.clone());
        task::spawn(task::Kind::Follow, async move {
            let turn = async {
                loop {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    hand.advance(Millis(1_000));
                }
            };
            tokio::select! { () = teller.run(served) => {}, () = turn => {} }
        })
    }

    /// Waits until the mark stands before what comes next.
    async fn marked(&self) {
        let is_there = || std::fs::read_dir(self.folder.path()).unwrap().next().is_some();
        let wait = async {
            while !is_there() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, wait).await.unwrap();
    }
}

async fn next(heard: &mut mpsc::Receiver<(String, Value)>) -> (String, Value) {
    tokio::time::timeout(LONG, heard.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn what_happens_is_told_in_order_without_texts_and_what_failed_again_as_it_was() {
    let world = World::new();
    append(&world.store, NOW, &[queued(), finished()]).await;
    let (hook, mut heard) = receiver(vec![500, 503]).await;
    let teller = world.tell(&hook);
    // What happened before there was a webhook is nobody's business.
    world.marked().await;
    append(&world.store, NOW, &[asked(), unknown(UnknownReason::Interrupted)]).await;
    append(&world.store, NOW, &[unknown(UnknownReason::Stopped), finished()]).await;
    let (first, again) = (next(&mut heard).await, next(&mut heard).await);
    assert_eq!(first, again, "a repeat is the same to the byte");
    assert_eq!(first, next(&mut heard).await);
    let (event, body) = first;
    assert_eq!((event.as_str(), &body["project_id"]), ("approval.asked", &Value::from("rocket")));
    assert_eq!(body["data"]["approval_id"], format!("{}.0", run()));
    assert!(!body.to_string().contains("planted"), "{body}");
    assert_eq!(next(&mut heard).await.0, "run.needs_reconciliation");
    let (event, body) = next(&mut heard).await;
    assert_eq!((event.as_str(), &body["version"]), ("run.finished", &Value::from(6)));
    teller.abort();
}

#[tokio::test]
async fn a_message_that_is_refused_or_too_old_is_given_up_and_the_next_one_is_told() {
    let world = World::new();
    let refusals = usize::try_from(REFUSED_MAX).unwrap();
    let (hook, mut heard) = receiver(vec![400; refusals]).await;
    let teller = world.tell(&hook);
    world.marked().await;
    append(&world.store, NOW, &[queued(), asked()]).await;
    for _ in 0..refusals {
        assert_eq!(next(&mut heard).await.0, "approval.asked");
    }
    let day = Time(NOW.0 - 2 * 86_400_000_000);
    append(&world.store, day, &[finished()]).await;
    append(&world.store, world.hand.now(), &[unknown(UnknownReason::Unanswered)]).await;
    assert_eq!(next(&mut heard).await.0, "run.needs_reconciliation");
    teller.abort();
}

#[tokio::test]
async fn a_teller_that_dies_between_the_message_and_its_mark_tells_it_again() {
    let world = World::new();
    let (hook, mut heard) = receiver(vec![500; 3]).await;
    let teller = world.tell(&hook);
    world.marked().await;
    append(&world.store, NOW, &[queued(), asked()]).await;
    let first = next(&mut heard).await;
    teller.abort();
    assert!(teller.await.is_err());
    append(&world.store, NOW, &[finished()]).await;
    let teller = world.tell(&hook);
    let mut told = vec![first];
    while told.last().unwrap().0 != "run.finished" {
        told.push(next(&mut heard).await);
    }
    let asked: Vec<_> = told.iter().filter(|(event, _)| event == "approval.asked").collect();
    assert!(asked.len() >= 4 && asked.iter().all(|one| *one == asked[0]), "{told:?}");
    teller.abort();
}
