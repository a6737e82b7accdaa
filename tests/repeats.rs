//! Requests that are sent again by clients that lost an answer: what is paid for once, what is asked again, and what a
//! repeat says of itself.

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use tests::Node;
use tests::process::{json as body, wait_for};
use tests::sse::Events;

const CHAT: &str = "/v1/chat/completions";

async fn node() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    (folder, node)
}

fn said(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn asked(messages: &[Value]) -> Value {
    let tool = json!({"type": "function", "function": {
        "name": "get_weather", "parameters": {"type": "object"}}});
    json!({"model": "demo", "messages": messages, "tools": [tool]})
}

struct Got {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn run(&self) -> &str {
        self.header("x-piton-run-id")
    }

    fn is_repeat(&self) -> bool {
        self.header("idempotency-replayed") == "true"
    }

    fn text(&self) -> &str {
        self.body["choices"][0]["message"]["content"].as_str().unwrap_or_default()
    }
}

async fn send(node: &Node, request: &Value, headers: &[(&str, &str)]) -> Got {
    let mut sent = node.ask(Method::POST, CHAT);
    for (name, value) in headers {
        sent = sent.header(*name, *value);
    }
    let got = body(sent, request).send().await.unwrap();
    let (status, headers) = (got.status().as_u16(), got.headers().clone());
    let body = serde_json::from_str(&got.text().await.unwrap()).unwrap();
    Got { status, headers, body }
}

const BOOK: (&str, &str) = ("x-piton-session-id", "book");
const FORK: (&str, &str) = ("x-piton-history", "fork");

fn results(message: &Value, output: &str) -> Vec<Value> {
    let calls = message["tool_calls"].as_array().unwrap();
    let result =
        |call: &Value| json!({"role": "tool", "tool_call_id": call["id"], "content": output});
    calls.iter().map(result).collect()
}

/// A conversation up to the results of the tool that the model called.
async fn with_results(node: &Node) -> Vec<Value> {
    let ask = said("tool get_weather {\"city\":\"Bern\"}");
    let first = send(node, &asked(std::slice::from_ref(&ask)), &[BOOK]).await;
    assert_eq!(first.status, 200, "{}", first.body);
    let message = first.body["choices"][0]["message"].clone();
    [vec![ask, message.clone()], results(&message, "sunny")].concat()
}

/// How many runs there are, and how often a model was asked for the only session's newest.
async fn paid(node: &Node, run: &str) -> (usize, Value) {
    let (_, runs) = node.get("/v1/runs").await;
    let (_, one) = node.get(&format!("/v1/runs/{run}")).await;
    (runs["data"].as_array().unwrap().len(), one["model_calls"].clone())
}

#[tokio::test]
async fn results_that_are_sent_again_are_answered_by_the_run_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    let talk = with_results(&node).await;
    let request = asked(&talk);
    // Twice at once, as a client does whose patience is short: one brings the results, the other finds them there.
    let (one, two) =
        tokio::join!(send(&node, &request, &[BOOK]), send(&node, &request, &[BOOK, FORK]));
    assert_eq!((one.status, two.status), (200, 200), "{} {}", one.body, two.body);
    assert!(one.text().contains("sunny"), "{}", one.body);
    assert_eq!(one.body, two.body, "one answer, and one time of it");
    let run = one.run().to_owned();
    node.kill();
    let node = Node::demo(folder.path()).await;
    for headers in [&[BOOK][..], &[BOOK, FORK], &[BOOK, ("idempotency-key", "never-seen")]] {
        let again = send(&node, &request, headers).await;
        assert_eq!((again.status, again.is_repeat()), (200, true), "{headers:?} {}", again.body);
        assert_eq!((again.run(), &again.body), (run.as_str(), &one.body), "{headers:?}");
        assert_eq!(again.header("x-piton-session-id"), one.header("x-piton-session-id"));
    }
    let mut streamed = request.clone();
    streamed["stream"] = json!(true);
    let sent = node.ask(Method::POST, CHAT).header(BOOK.0, BOOK.1);
    let events = Events::open(body(sent, &streamed)).await.rest().await;
    let text: String = events
        .iter()
        .filter_map(|event| event.data["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, one.text(), "the answer to the results, and not the calls before them");
    assert_eq!(paid(&node, &run).await, (1, json!(2)), "one run, and two calls of its model");
    // Another wish over the same messages is no repeat.
    let mut other = request.clone();
    other["temperature"] = json!(0.5);
    let refused = send(&node, &other, &[BOOK]).await;
    assert_eq!(refused.body["error"]["code"], "history_mismatch", "{}", refused.body);
    let forked = send(&node, &other, &[BOOK, FORK]).await;
    assert_eq!((forked.status, forked.is_repeat()), (200, false), "{}", forked.body);
    assert_ne!(forked.run(), run);
    // And what goes on from the answer goes on.
    let answer = json!({"role": "assistant", "content": one.text()});
    let more = asked(&[talk, vec![answer, said("thanks")]].concat());
    let more = send(&node, &more, &[BOOK]).await;
    assert_eq!((more.status, more.is_repeat()), (200, false), "{}", more.body);
}

#[tokio::test]
async fn results_of_an_earlier_round_are_answered_by_the_calls_of_the_next() {
    let (_folder, node) = node().await;
    // Two calls, one at a time: the second round is held as the first was.
    let tool =
        |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {}}});
    let with = |messages: &[Value]| {
        json!({"model": "demo", "messages": messages, "parallel_tool_calls": false,
            "tools": [tool("clock_now"), tool("note_append")]})
    };
    let ask = said("both: rope");
    let first = send(&node, &with(std::slice::from_ref(&ask)), &[BOOK]).await;
    let message = first.body["choices"][0]["message"].clone();
    let talk = [vec![ask, message.clone()], results(&message, "noon")].concat();
    let second = send(&node, &with(&talk), &[BOOK]).await;
    let calls = &second.body["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0]["function"]["name"], "note_append", "{}", second.body);
    let again = send(&node, &with(&talk), &[BOOK, FORK]).await;
    assert_eq!((again.is_repeat(), again.run()), (true, second.run()), "{}", again.body);
    assert_eq!(again.body, second.body);
    let (_, waits) = node.get(&format!("/v1/runs/{}", second.run())).await;
    assert_eq!(waits["status"], "waiting_for_client_tools", "{waits}");
}

#[tokio::test]
async fn what_made_no_turn_is_asked_again_unless_its_key_says_that_it_is_the_same() {
    let (_folder, node) = node().await;
    let request = asked(&[said("fail 401 plain")]);
    let mut runs = vec![];
    for status in [502, 502, 200] {
        let got = send(&node, &request, &[BOOK]).await;
        assert_eq!((got.status, got.is_repeat()), (status, false), "{}", got.body);
        runs.push(got.run().to_owned());
    }
    runs.dedup();
    assert_eq!(runs.len(), 3, "each of them was a run of its own: {runs:?}");
    let keyed = asked(&[said("fail 401 keyed")]);
    let headers = [("x-piton-session-id", "keyed"), ("idempotency-key", "k")];
    let (one, two) = (send(&node, &keyed, &headers).await, send(&node, &keyed, &headers).await);
    assert_eq!((one.status, two.status), (502, 502), "{} {}", one.body, two.body);
    assert_eq!(one.run(), two.run());
}

#[tokio::test]
async fn a_repeat_says_when_its_first_was_made() {
    let (_folder, node) = node().await;
    let key = ("idempotency-key", "k");
    for headers in [&[key][..], &[key, BOOK]] {
        let first = send(&node, &asked(&[said("hello")]), headers).await;
        let created = first.body["created"].as_u64().unwrap();
        wait_for("another second begins", || async {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            (now > created).then_some(())
        })
        .await;
        let again = send(&node, &asked(&[said("hello")]), headers).await;
        assert!(again.is_repeat());
        assert_eq!(again.body, first.body);
        let (_, run) = node.get(&format!("/v1/runs/{}", first.run())).await;
        assert_eq!(
            run["metadata"],
            json!({}),
            "what is kept beside the caller's pairs is not shown"
        );
    }
}
