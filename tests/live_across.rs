//! Text while it comes, from a node that does not own its run: the same pieces as at the owner's, as they come.

use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::fleet::{Cluster, said};
use tests::process::json as body;
use tests::sse::{Event, Events};

/// Reads a run's events from a place.
async fn read(node: &Node, run: &str, after: Option<&str>) -> Events {
    let mut request = node.ask(Method::GET, &format!("/v1/runs/{run}/events"));
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    Events::open(request).await
}

/// Ids and texts of the deltas; nothing may be marked as missing.
fn deltas(events: &[Event]) -> Vec<(String, String)> {
    assert!(events.iter().all(|event| event.name != "message.gap"), "a gap in {events:?}");
    let deltas = events.iter().filter(|event| event.name == "message.delta");
    let shown = |event: &Event| {
        let text = event.data["text"].as_str().unwrap_or_default().to_owned();
        (event.id.clone().expect("an id"), text)
    };
    deltas.map(shown).collect()
}

/// Up to the so-manieth delta.
async fn until_delta(events: &mut Events, count: usize) -> Vec<Event> {
    let mut seen = vec![];
    while seen.iter().filter(|event: &&Event| event.name == "message.delta").count() < count {
        seen.push(events.next().await.expect("more"));
    }
    seen
}

#[tokio::test]
async fn deltas_of_a_far_run_come_while_it_speaks_with_the_owners_ids_and_go_on_at_a_third_node() {
    let mut cluster = Cluster::of(3).await;
    let run = cluster.run_of_first("slow 120").await;
    let [first, second, third] = &cluster.nodes[..] else { panic!() };
    let mut at_owner = read(first, &run, None).await;
    let mut early = read(second, &run, None).await;
    let mut head = until_delta(&mut early, 10).await;
    // While it speaks: nobody has ended it.
    let (_, now) = first.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(now["outcome"], Value::Null, "the deltas came before the end");
    // One that comes late has them from the beginning too.
    let mut late = read(third, &run, None).await;
    let mut late_head = until_delta(&mut late, 10).await;
    cluster.nodes[1].kill();
    let last = head.iter().rev().find_map(|event| event.id.clone()).unwrap();
    // What the dead gateway had still sent is of no use: the reader says how far it came.
    let resumed = read(&cluster.nodes[2], &run, Some(&last)).await;
    let mut owners = until_delta(&mut at_owner, 1).await;
    let (owners_rest, late_rest, resumed_rest) =
        tokio::join!(at_owner.rest(), late.rest(), resumed.rest());
    owners.extend(owners_rest);
    late_head.extend(late_rest);
    head.extend(resumed_rest);
    let wanted = deltas(&owners);
    assert!(wanted.len() > 100, "{wanted:?}");
    assert_eq!(deltas(&late_head), wanted);
    assert_eq!(deltas(&head), wanted, "before and after the kill, none twice and none missing");
    assert_eq!(late_head.last().unwrap().name, "run.completed");
    assert_eq!(head.last(), owners.last());
}

/// One streamed turn; the pieces of its text, and whether its run was still at work at the first of them.
async fn turn(node: &Node, session: &str, messages: &Value) -> (Vec<String>, bool) {
    let asked = json!({"model": "demo", "stream": true, "messages": messages});
    let request =
        node.ask(Method::POST, "/v1/chat/completions").header("x-piton-session-id", session);
    let mut frames = Events::open(body(request, &asked)).await;
    let (mut pieces, mut at_work, mut is_done) = (vec![], false, false);
    while let Some(frame) = frames.next().await {
        assert!(frame.data["error"].is_null(), "{frame:?}");
        is_done |= frame.data == "[DONE]";
        let text = frame.data["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        if pieces.is_empty() {
            let run = frame.data["id"].as_str().unwrap().trim_start_matches("chatcmpl-");
            at_work = node.get(&format!("/v1/runs/{run}")).await.1["outcome"].is_null();
        }
        pieces.push(text.to_owned());
    }
    assert!(is_done, "{pieces:?}");
    (pieces, at_work)
}

#[tokio::test]
async fn a_chat_streams_piece_by_piece_through_a_node_that_does_not_own_its_session() {
    let cluster = Cluster::of(2).await;
    let mut messages = vec![];
    // One of the two does not own it, whichever it is.
    for node in &cluster.nodes {
        messages.push(said("user", "slow 40"));
        let (pieces, at_work) = turn(node, "talk", &json!(messages)).await;
        assert!(at_work, "the first piece came when all was over: {pieces:?}");
        assert!(pieces.len() > 30, "in {} pieces: {pieces:?}", pieces.len());
        let whole = pieces.concat();
        assert!(whole.starts_with("[scripted demo] 1 2 3") && whole.ends_with(" 39 40"), "{whole}");
        messages.push(said("assistant", &whole));
    }
}

#[tokio::test]
async fn an_answer_that_its_owner_took_to_the_grave_is_discarded_at_every_reader() {
    let mut cluster = Cluster::of(2).await;
    let run = cluster.run_of_first("slow 100").await;
    let mut events = read(&cluster.nodes[1], &run, None).await;
    let head = until_delta(&mut events, 5).await;
    cluster.nodes[0].kill();
    let rest = events.rest().await;
    let at = |name: &str| rest.iter().position(|event| event.name == name);
    let discarded = at("message.discarded").expect("what was said is taken back");
    assert_eq!(rest[discarded].data["attempt"], 0);
    // Nothing of the dead attempt comes after that, and the new one is whole.
    let all: Vec<Event> = head.into_iter().chain(rest.iter().take(discarded).cloned()).collect();
    assert!(deltas(&all).iter().all(|(id, _)| id.contains(".0.")), "{all:?}");
    let again = deltas(&rest[discarded..]);
    let numbers: Vec<String> = again.iter().map(|(id, _)| id.clone()).collect();
    let first = &numbers[0];
    let version = first.split('.').next().unwrap();
    let wanted: Vec<String> =
        (0..numbers.len()).map(|number| format!("{version}.1.{number}")).collect();
    assert_eq!(numbers, wanted);
    let text: String = again.into_iter().map(|(_, text)| text).collect();
    assert!(text.ends_with(" 99 100"), "{text}");
    assert_eq!(rest.last().unwrap().name, "run.completed");
}
