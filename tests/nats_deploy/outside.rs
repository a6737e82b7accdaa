//! What a program outside may: hear the public events, and nothing else.

use super::{Guest, PASSWORDS, connect, here, open, piton, streams};
use crate::hosts::probe::patient;
use crate::probe::stream;
use async_nats::{ConnectErrorKind, ConnectOptions, HeaderMap};
use events::id::{Place, RunId};
use events::record::{Boot, StreamKey, StreamKind};
use events::subject::Subject;
use futures_util::StreamExt;
use tests::nats::Nats;

/// A public event.
fn event() -> String {
    let place = Place::default();
    let run = StreamKey::rooted(StreamKind::Run, place.partition, &RunId::new(place, 7));
    let (project, event) = ("default".parse().unwrap(), "tool_asked".parse().unwrap());
    piton().spell(&Subject::Event { project, stream: run, event })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_hears_the_public_events_and_can_do_nothing_else() {
    let nats = Nats::deployed(1, &here().join("single.conf"), &PASSWORDS).await;
    let namespace = piton();
    open(connect(&nats, &namespace, Boot(1))).await.close().await;
    let node = Guest::node(&nats).await;
    let mut reader = Guest::reader(&nats).await;
    let mut heard = reader.client.subscribe(namespace.events()).await.unwrap();
    let commands = namespace.spell(&Subject::Command(stream("a")));
    let mut asked = node.client.subscribe(commands.clone()).await.unwrap();
    // Both servers' sides have read the subscriptions.
    reader.may_not_subscribe("barrier").await;
    let _barrier = patient(node.client.request(node.client.new_inbox(), "".into())).await;

    let mut subjects =
        vec![commands.clone(), event(), namespace.spell(&Subject::Journal(stream("a")))];
    subjects.extend(["INFO", "STREAM.NAMES", "STREAM.LIST"].map(|api| format!("$JS.API.{api}")));
    for name in streams(&namespace) {
        let apis =
            ["STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET", "STREAM.DELETE", "CONSUMER.CREATE"];
        subjects.extend(apis.map(|api| format!("$JS.API.{api}.{name}")));
    }
    let others =
        ["_INBOX.a", "_INBOX_reader.a", "$SYS.REQ.SERVER.PING", "$KV.LEASE_piton.p.00", "other"];
    subjects.extend(others.map(str::to_owned));
    for subject in &subjects {
        reader.may_not_publish(subject).await;
    }
    let closed = [
        ">",
        "*",
        "_INBOX.>",
        "ev.piton.>",
        "blob.piton.>",
        "snap.piton.>",
        "meta.piton.*",
        "piton.>",
        "piton.piton.>",
        "piton.piton.cmd.>",
        "piton.piton.delta.>",
        "piton.other.evt.>",
        "$KV.>",
        "$JS.>",
        "$SYS.>",
    ];
    for subject in closed {
        reader.may_not_subscribe(subject).await;
    }

    // What it sent reached nobody: the first command, and the first event, are the node's own.
    let mut headers = HeaderMap::new();
    headers.insert("Piton-Version", "7");
    node.client.publish_with_headers(event(), headers, "{}".into()).await.unwrap();
    node.client.publish(commands, "the node's".into()).await.unwrap();
    let message = patient(heard.next()).await.unwrap();
    assert_eq!((message.subject.as_str(), &message.payload[..]), (event().as_str(), &b"{}"[..]));
    assert_eq!(message.headers.unwrap().get("Piton-Version").unwrap().as_str(), "7");
    assert_eq!(patient(asked.next()).await.unwrap().payload, "the node's");
}

#[tokio::test]
async fn a_stranger_is_not_let_in() {
    let nats = Nats::deployed(1, &here().join("single.conf"), &PASSWORDS).await;
    let strangers = [
        ConnectOptions::new(),
        ConnectOptions::with_user_and_password("node".into(), "reader-planted".into()),
        ConnectOptions::with_user_and_password("reader".into(), String::new()),
    ];
    for stranger in strangers {
        let refused = patient(stranger.connect(nats.urls())).await.unwrap_err();
        assert_eq!(refused.kind(), ConnectErrorKind::AuthorizationViolation, "{refused}");
    }
}
