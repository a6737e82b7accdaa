//! The runs door: start, read, tail, stop, repeat; and what its readers see.

use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{answer, json as body, wait_for};
use tests::sse::{Event, Events};

async fn node() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    (folder, node)
}

fn follow(node: &Node, run: &str, after: &str) -> reqwest::RequestBuilder {
    node.ask(Method::GET, &format!("/v1/runs/{run}/events")).header("last-event-id", after)
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

#[tokio::test]
async fn a_run_is_found_right_after_its_202_and_runs_its_tools() {
    let (folder, node) = node().await;
    let run = node.start_run(&json!({"input": "both: rope"})).await;
    assert_eq!(node.get(&format!("/v1/runs/{run}")).await.0, 200);
    let ended = node.ended(&run).await;
    assert_eq!(
        (&ended["outcome"], &ended["reason"]),
        (&json!("completed"), &json!("answered")),
        "{ended}"
    );
    let notes = std::fs::read_to_string(folder.path().join("notes.txt")).unwrap();
    assert_eq!(notes.lines().count(), 1);
    assert!(notes.ends_with("\trope\n"), "{notes}");
    let events = node.events(&run).await;
    let before = |one: &str, other: &str| {
        let at = |name: &str| events.iter().position(|event| event == name).unwrap();
        at(one) < at(other)
    };
    assert!(before("tool_intent", "tool_receipt"), "{events:?}");
}

#[tokio::test]
async fn an_idempotency_key_counts_once_and_another_input_is_a_conflict() {
    let (_folder, node) = node().await;
    let post = |input: &str| {
        let request = node.ask(Method::POST, "/v1/runs").header("idempotency-key", "k1");
        body(request, &json!({"input": input}))
    };
    let first = post("hello").send().await.unwrap();
    assert!(!first.headers().contains_key("idempotency-replayed"));
    let again = post("hello").send().await.unwrap();
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    let id = |text: String| serde_json::from_str::<Value>(&text).unwrap()["run_id"].clone();
    assert_eq!(id(first.text().await.unwrap()), id(again.text().await.unwrap()));
    let (status, got) = answer(post("something else")).await;
    assert_eq!((status, &got["error"]["code"]), (409, &json!("idempotency_key_conflict")));
}

#[tokio::test]
async fn every_reader_sees_the_same_events_and_resumes_by_id() {
    let (_folder, node) = node().await;
    let run = node.start_run(&json!({"input": "slow 20"})).await;
    let early = Events::open(follow(&node, &run, "")).await;
    let other = Events::open(follow(&node, &run, "")).await;
    let (early, other) = tokio::join!(early.rest(), other.rest());
    assert_eq!(early, other);
    let text: String = early.iter().filter_map(|event| event.data["text"].as_str()).collect();
    let done = early.iter().find(|event| event.name == "message.completed").unwrap();
    assert_eq!(done.data["message"]["parts"][0]["text"], text);
    assert_eq!(early.last().unwrap().name, "run.completed");
    let late = Events::open(follow(&node, &run, "3")).await.rest().await;
    assert_eq!(names(&late), ["message.completed", "run.completed"]);
    assert_eq!(Events::open(follow(&node, &run, "5")).await.rest().await, [], "nothing is left");
    let (status, told) = answer(follow(&node, &run, "6")).await;
    assert_eq!((status, &told["error"]["code"]), (400, &json!("invalid_request")), "{told}");
}

#[tokio::test]
async fn a_reader_of_an_attempt_that_died_is_told_to_forget_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    let run = node.start_run(&json!({"input": "slow 100"})).await;
    let mut events = Events::open(follow(&node, &run, "")).await;
    let mut last = String::new();
    while let Some(event) = events.next().await {
        last = event.id.unwrap_or(last);
        if event.name == "message.delta" {
            break;
        }
    }
    node.kill();
    let node = Node::demo(folder.path()).await;
    let events = Events::open(follow(&node, &run, &last)).await.rest().await;
    let seen = names(&events);
    let at = |name: &str| {
        seen.iter()
            .position(|event| *event == name)
            .unwrap_or_else(|| panic!("no {name}: {seen:?}"))
    };
    assert!(at("message.discarded") < at("model.unknown"), "{seen:?}");
    assert!(at("model.asked") < at("message.delta"), "{seen:?}");
    assert_eq!(seen.last(), Some(&"run.completed"));
    assert_eq!(
        events[at("message.discarded")].data["chars"],
        Value::Null,
        "nobody knows how much was handed out"
    );
}

#[tokio::test]
async fn a_stopped_run_says_so_and_a_stop_may_be_repeated() {
    let (_folder, node) = node().await;
    let run = node.start_run(&json!({"input": "slow 200"})).await;
    let (status, stopped) = node.post(&format!("/v1/runs/{run}/stop"), &json!({})).await;
    assert_eq!(
        (status, &stopped["status"], &stopped["reason"]),
        (200, &json!("cancelled"), &json!("stopped"))
    );
    assert_eq!(node.post(&format!("/v1/runs/{run}/stop"), &json!({})).await.0, 200);
}

#[tokio::test]
async fn runs_of_a_session_wait_their_turn_or_are_rejected() {
    let (_folder, node) = node().await;
    let session = "ses_050000000000000000000000000007";
    let first = node.start_run(&json!({"input": "slow 20", "session_id": session})).await;
    let second = node.start_run(&json!({"input": "hello", "session_id": session})).await;
    let (status, got) = node
        .post("/v1/runs", &json!({"input": "x", "session_id": session, "on_busy": "reject"}))
        .await;
    assert_eq!((status, &got["error"]["code"]), (409, &json!("session_busy")), "{got}");
    assert_eq!(node.ended(&first).await["outcome"], "completed");
    assert_eq!(node.ended(&second).await["outcome"], "completed");
    wait_for("the session has both turns", || async {
        let (_, got) = node.get(&format!("/v1/sessions/{session}/messages")).await;
        (got["data"].as_array()?.len() == 4).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unknown_field_an_unknown_run_and_a_strange_id_are_told_apart() {
    let (_folder, node) = node().await;
    let (status, got) = node.post("/v1/runs", &json!({"input": "x", "modle": "demo"})).await;
    assert_eq!((status, &got["error"]["code"]), (400, &json!("unknown_field")));
    assert!(got["error"]["runbook"].as_str().unwrap().ends_with("#unknown_field"));
    assert_eq!(node.get("/v1/runs/run_050000000000000000000000000007").await.0, 404);
    assert_eq!(node.get("/v1/runs/nonsense").await.0, 400);
}

#[tokio::test]
async fn a_budget_that_does_not_fit_ends_the_run_before_its_call() {
    let (_folder, node) = node().await;
    let run = node.start_run(&json!({"input": "hello", "budget": {"usd": 1.0}})).await;
    let ended = node.ended(&run).await;
    // The demo has no price, so nobody can say that it fits.
    assert_eq!(
        (&ended["outcome"], &ended["reason"]),
        (&json!("exhausted"), &json!("budget")),
        "{ended}"
    );
    assert_eq!(ended["usage"]["calls"], 0);
}

#[tokio::test]
async fn lists_and_totals_say_what_the_runs_say() {
    let (_folder, node) = node().await;
    for _ in 0..3 {
        let run = node.start_run(&json!({"input": "hello"})).await;
        node.ended(&run).await;
    }
    let list = wait_for("the list has the runs", || async {
        let (_, list) = node.get("/v1/runs").await;
        let ended =
            list["data"].as_array()?.iter().filter(|run| run["outcome"] == "completed").count();
        (ended == 3).then_some(list)
    })
    .await;
    let (_, usage) = node.get("/v1/runs/usage/summary?window_hours=1").await;
    let mut prompt = 0;
    for run in list["data"].as_array().unwrap() {
        let (_, one) = node.get(&format!("/v1/runs/{}", run["id"].as_str().unwrap())).await;
        prompt += one["usage"]["prompt_tokens"].as_u64().unwrap();
    }
    assert_eq!((&usage["calls"], &usage["prompt_tokens"]), (&json!(3), &json!(prompt)), "{usage}");
    assert_eq!(usage["cost_usd"], Value::Null, "nothing was priced");
}
