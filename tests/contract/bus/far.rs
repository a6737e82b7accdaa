//! What only a wire between nodes must do: large bodies by reference, words of other builds, a partition that moves.

use super::{Command, Far, Id, Line, Probe, Wire, bus_over, partition};
use crate::hosts::probe::patient;
use actors::bus::{
    Ask, Belief, Body, Bus, COMMAND_BYTES_MAX, Carried, INLINE_BYTES_MAX, Message, Parcel, Urgency,
};
use actors::order::{Build, NoDecision};
use async_nats::Client;
use events::aggregate::Aggregate;
use events::quantity::Millis;
use events::record::{Actor, BlobRef};
use events::subject::{Namespace, Subject};
use futures_util::StreamExt;
use std::sync::Arc;
use store::Faults;

async fn line() -> (Line, Client) {
    let line = Line::open(Wire::Nats, Faults::none()).await;
    let server = &line.far.as_ref().unwrap().server;
    let client = patient(async_nats::connect(server.urls())).await.unwrap();
    (line, client)
}

fn subject() -> String {
    let namespace: Namespace = "test".parse().unwrap();
    namespace.spell(&Subject::Command(Probe::stream(&Id(1))))
}

/// Sends raw bytes to the owner and reads its answer.
async fn raw(client: &Client, bytes: Vec<u8>) -> Message {
    let reply = patient(client.request(subject(), bytes.into())).await.unwrap();
    Message::read(&reply.payload).unwrap()
}

fn ask(line: &Line, command: Parcel) -> Message {
    let order = line.rig.order(Command::Due);
    Message::Ask(Ask {
        build: Build { major: 9, minor: 8, patch: 7 },
        id: order.id,
        correlation: 5,
        actor: Actor::Admin,
        left: Millis(60_000),
        urgent: Urgency::Usual,
        command,
    })
}

fn why(message: Message) -> NoDecision {
    let Message::Undecided(Parcel { kind, schema, body: Body::Inline(bytes) }) = message else {
        panic!("{message:?}")
    };
    NoDecision::unpack(kind, schema, &bytes).unwrap()
}

#[tokio::test]
async fn a_large_command_and_a_large_state_travel_as_references() {
    let (line, client) = line().await;
    let mut heard = patient(client.subscribe(">")).await.unwrap();
    patient(client.flush()).await.unwrap();
    let bytes = INLINE_BYTES_MAX * 3;
    let stored = line.ask(Command::Store(vec![7; bytes])).await.unwrap().unwrap();
    assert_eq!(stored.state.bytes, bytes);
    let remembered =
        line.ask(Command::Remember(u32::try_from(bytes).unwrap())).await.unwrap().unwrap();
    assert_eq!(remembered.state.kept.len(), bytes);
    let seen = patient(line.bus.observe::<Probe>(Id(1))).await.unwrap();
    assert_eq!((seen.version.0, seen.state.kept.len()), (2, bytes));
    // Three questions and three answers, each small.
    for _ in 0..6 {
        let message = patient(heard.next()).await.unwrap();
        assert!(message.payload.len() < 1_024, "{} bytes", message.payload.len());
    }
}

#[tokio::test]
async fn what_just_fits_travels_in_its_message() {
    let (line, client) = line().await;
    let mut asked = patient(client.subscribe(subject())).await.unwrap();
    let _barrier = patient(client.request(client.new_inbox(), "".into())).await;
    for (more, travels) in [(0, true), (1, false)] {
        // Three bytes of length stand before the bytes.
        let bytes = INLINE_BYTES_MAX - 3 + more;
        line.ask(Command::Store(vec![7; bytes])).await.unwrap().unwrap();
        let question = patient(asked.next()).await.unwrap();
        assert_eq!(question.payload.len() > INLINE_BYTES_MAX, travels);
    }
}

#[tokio::test]
async fn a_command_that_the_owner_does_not_know_names_both_builds() {
    let (line, client) = line().await;
    let newer = Build { major: 9, minor: 8, patch: 7 };
    let unsupported = NoDecision::Unsupported { asker: newer, owner: Build::OURS };
    let mut command = Command::Add(3).pack().unwrap();
    command.schema = 2;
    assert_eq!(why(raw(&client, ask(&line, command).write().unwrap()).await), unsupported);
    let command = Parcel { kind: 64_999, schema: 1, body: Body::Inline(vec![]) };
    assert_eq!(why(raw(&client, ask(&line, command).write().unwrap()).await), unsupported);
    // Bytes left over are not ignored.
    let mut command = Command::Add(3).pack().unwrap();
    command.body = Body::Inline(vec![3, 0]);
    assert_eq!(why(raw(&client, ask(&line, command).write().unwrap()).await), unsupported);
    // A message of another build altogether.
    for bytes in [vec![99, 0, 1, 0], vec![1], vec![]] {
        let found = why(raw(&client, bytes).await);
        assert!(matches!(found, NoDecision::Unsupported { owner: Build::OURS, .. }), "{found}");
    }
    assert_eq!(line.sum().await, 0, "nothing was done");
    let text = unsupported.to_string();
    assert!(text.contains("9.8.7") && text.contains(&Build::OURS.to_string()), "{text}");
}

#[tokio::test]
async fn a_reference_to_no_blob_or_to_too_large_a_one_is_not_followed() {
    let (line, client) = line().await;
    let mut command = Command::Add(3).pack().unwrap();
    let BlobRef { hash, .. } = store::Blob::new(Arc::from(&b"nowhere"[..])).reference;
    command.body = Body::Blob { hash, bytes: 7 };
    let found = why(raw(&client, ask(&line, command.clone()).write().unwrap()).await);
    assert!(matches!(found, NoDecision::Busy { .. }), "{found}");
    command.body = Body::Blob { hash, bytes: u64::MAX };
    let found = why(raw(&client, ask(&line, command).write().unwrap()).await);
    assert!(matches!(found, NoDecision::TooLarge { max: COMMAND_BYTES_MAX, .. }), "{found}");
    assert_eq!(line.sum().await, 0);
}

/// Answers one question in the owner's place.
async fn answering(line: &Line, client: &Client, answer: Vec<u8>) -> NoDecision {
    let Far { owner, .. } = line.far.as_ref().unwrap();
    patient(owner.leave(partition())).await;
    let mut asked = patient(client.subscribe(subject())).await.unwrap();
    let _barrier = patient(client.request(client.new_inbox(), "".into())).await;
    let reply = async {
        let question = asked.next().await.unwrap();
        client.publish(question.reply.unwrap(), answer.into()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(line.ask(Command::Add(1)), patient(reply));
    patient(asked.unsubscribe()).await.unwrap();
    answer.unwrap_err()
}

#[tokio::test]
async fn an_answer_that_this_build_does_not_know_is_never_taken_for_a_failure() {
    let (line, client) = line().await;
    let parcel = |kind| Parcel { kind, schema: 1, body: Body::Inline(vec![]) };
    let unknown = Message::Undecided(parcel(64_998)).write().unwrap();
    assert_eq!(answering(&line, &client, unknown).await, NoDecision::Lost);
    assert_eq!(answering(&line, &client, vec![99, 0, 1, 0]).await, NoDecision::Lost);
    assert_eq!(answering(&line, &client, vec![]).await, NoDecision::Lost);
    // A refusal did nothing, whatever it says.
    let refusal = Message::Refused(parcel(64_998)).write().unwrap();
    let found = answering(&line, &client, refusal).await;
    assert!(matches!(found, NoDecision::Unsupported { .. }), "{found}");
}

#[tokio::test]
async fn a_state_of_another_shape_is_folded_from_the_stream() {
    let (line, client) = line().await;
    for n in [3, 4] {
        line.ask(Command::Add(n)).await.unwrap().unwrap();
    }
    let Far { owner, .. } = line.far.as_ref().unwrap();
    let seen = patient(line.bus.observe::<Probe>(Id(1))).await.unwrap();
    patient(owner.leave(partition())).await;
    let mut asked = patient(client.subscribe(subject())).await.unwrap();
    let _barrier = patient(client.request(client.new_inbox(), "".into())).await;
    for (version, wanted) in [(2, Some(7)), (1, Some(3)), (3, None)] {
        let belief = Message::Belief(Belief {
            version: events::record::Version(version),
            position: seen.position,
            fold: Probe::FOLD + 1,
            state: Body::Inline(b"of another shape".to_vec()),
        });
        let reply = async {
            let question = asked.next().await.unwrap();
            let bytes = belief.write().unwrap().into();
            client.publish(question.reply.unwrap(), bytes).await.unwrap();
        };
        let (found, ()) = tokio::join!(patient(line.bus.observe::<Probe>(Id(1))), patient(reply));
        match wanted {
            Some(sum) => assert_eq!(found.unwrap().state.sum, sum),
            None => assert_eq!(found.unwrap_err(), NoDecision::Lost, "the stream ends before"),
        }
    }
}

#[tokio::test]
async fn a_partition_of_this_node_needs_no_server() {
    let (mut line, client) = line().await;
    let Far { owner, server } = line.far.as_mut().unwrap();
    drop(client);
    let local = line._directory.clone();
    owner.lead_to(&local);
    server.kill(0);
    let order = line.rig.order(Command::Add(3));
    let answer = patient(Bus::Nats(owner.clone()).decide::<Probe>(Id(1), order)).await;
    assert_eq!(answer.unwrap().unwrap().state.sum, 3);
}

#[tokio::test]
async fn a_node_that_is_cut_off_sends_nothing() {
    let (mut line, client) = line().await;
    let Far { server, .. } = line.far.as_mut().unwrap();
    drop(client);
    server.kill(0);
    let found = patient(async {
        loop {
            // Until the client has noticed, a command may be on its way; then it waits a little for a connection.
            let order = line.rig.order(Command::Add(1));
            let ask = line.bus.decide::<Probe>(Id(1), order);
            let soon = std::time::Duration::from_secs(5);
            match tokio::time::timeout(soon, ask).await {
                Ok(answer) => break answer.unwrap_err(),
                Err(_waits) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert!(matches!(found, NoDecision::Busy { .. } | NoDecision::Lost), "{found}");
    let order = line.rig.order(Command::Add(100));
    let found = patient(line.bus.decide::<Probe>(Id(1), order)).await.unwrap_err();
    assert!(matches!(found, NoDecision::Busy { .. }), "{found}");
    line.far.as_mut().unwrap().server.restart(0).await;
    // What was refused is not sent later.
    let state = patient(async {
        loop {
            match line.bus.observe::<Probe>(Id(1)).await {
                Ok(seen) => break seen.state,
                Err(_not_yet) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert!(state.sum < 100, "{}", state.sum);
}

#[tokio::test]
async fn a_partition_moves_to_another_node_and_every_command_is_answered() {
    let (line, _client) = line().await;
    let Far { owner, server } = line.far.as_ref().unwrap();
    let next = bus_over(server, &line.rig).await;
    next.answer_for(&line.rig.table);
    let moved = std::cell::Cell::new(false);
    let ask = async {
        let mut decided = 0;
        // Some after it has moved, so that the last step is seen too.
        while !moved.get() || decided % 16 != 0 {
            let order = line.rig.order(Command::Add(1));
            // A command that nobody decided is repeated under its id, and counts once.
            while let Err(why) = line.send(order.clone()).await {
                assert!(matches!(why, NoDecision::Lost | NoDecision::NobodyThere), "{why}");
                tokio::task::yield_now().await;
            }
            decided += 1;
        }
        decided
    };
    let hand_over = async {
        line.rig.until(1, |state| state.sum > 20).await;
        owner.resign(partition());
        assert!(!owner.serves(partition()));
        patient(next.serve(partition())).await.unwrap();
        line.rig.until(1, |state| state.sum > 40).await;
        patient(owner.leave(partition())).await;
        moved.set(true);
    };
    let (decided, ()) = tokio::join!(ask, hand_over);
    assert_eq!(line.sum().await, decided);
    // The former owner asks the new one.
    let order = line.rig.order(Command::Add(1));
    let answer = patient(Bus::Nats(owner.clone()).decide::<Probe>(Id(1), order)).await;
    assert_eq!(answer.unwrap().unwrap().state.sum, decided + 1);
    patient(next.leave(partition())).await;
    assert_eq!(line.ask(Command::Add(1)).await.unwrap_err(), NoDecision::NobodyThere);
}

#[tokio::test]
async fn who_has_resigned_decides_nothing_and_does_not_say_that_nothing_was_done() {
    let (line, _client) = line().await;
    let Far { owner, .. } = line.far.as_ref().unwrap();
    owner.resign(partition());
    assert_eq!(line.ask(Command::Add(1)).await.unwrap_err(), NoDecision::Lost);
    patient(owner.leave(partition())).await;
    patient(owner.serve(partition())).await.unwrap();
    assert_eq!(line.sum().await, 0);
}
