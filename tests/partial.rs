//! Calls that do not come to their end, on a real node: what was seen of their usage is kept as a lower bound.

use crate::nodes::piton;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::Node;
use tests::process::{answer, json as body, wait_for};
use tests::sse::Events;
use tests::upstream::{Held, Upstream, events, response};

/// 90 of 100 tokens from the cache, and the first of the answer.
fn begins() -> Vec<Value> {
    let usage = json!({ "input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0, "output_tokens": 1 });
    let message =
        json!({ "id": "msg_1", "model": "claude-sonnet-5-5", "content": [], "usage": usage });
    vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Hel" } }),
    ]
}

fn says() -> String {
    let message = json!({ "id": "msg_2", "model": "claude-sonnet-5-5", "content": [],
        "usage": { "input_tokens": 100, "output_tokens": 1 } });
    events(&[
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Hello." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 7 } }),
        json!({ "type": "message_stop" }),
    ])
}

async fn anthropic(url: &str) -> (TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("ANTHROPIC_API_KEY", "sk-ant-planted"),
        ("PITON_ANTHROPIC_BASE_URL", url),
        ("PITON_RETRY_API_MAX_RETRIES", "1"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    (folder, node)
}

/// The data of a run's events of one name, in order.
async fn told(node: &Node, run: &str, name: &str) -> Vec<Value> {
    let commits = node.journal(run).await;
    let all = commits.iter().flat_map(|commit| commit["entries"].as_array().unwrap());
    all.filter(|event| event["name"] == name).map(|event| event["data"].clone()).collect()
}

/// What was seen before the end: 100 in, 1 out, at 2.00, 0.10 and 10.00 USD a million.
fn is_what_was_seen(partial: &Value) {
    assert_eq!(
        (&partial["prompt_tokens"], &partial["cached_input_tokens"]),
        (&json!(100), &json!(90))
    );
    assert_eq!(
        (&partial["completion_tokens"], &partial["cost_usd"]),
        (&json!(1), &json!(0.000_039))
    );
}

#[tokio::test]
async fn a_stream_that_is_cut_settles_as_what_was_seen_of_it_and_the_next_call_reserves_anew() {
    let upstream = Upstream::start(vec![events(&begins()), says()]).await;
    let (folder, node) = anthropic(&upstream.url).await;
    let run = node.start_run(&json!({ "input": "hello" })).await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let failed = told(&node, &run, "model_failed").await;
    assert_eq!((failed.len(), &failed[0]["class"]), (1, &json!("stream_truncated")), "{failed:?}");
    assert_eq!(failed[0]["charged"], "at_most_reserved");
    is_what_was_seen(&failed[0]["partial_usage"]);
    // Both intents hold a reservation of their own; the first is kept at its worst case.
    let asked = told(&node, &run, "model_asked").await;
    let reserved: Vec<f64> =
        asked.iter().map(|one| one["reserved_usd"].as_f64().unwrap()).collect();
    assert_eq!((asked.len(), &asked[1]["call"]), (2, &json!(1)));
    let usage = &ended["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(200), &json!(8)),
        "{usage}"
    );
    // 39 of the cut one and 100 × 2 + 7 × 10 of the answer.
    assert_eq!(
        (&usage["cost_usd"], &usage["lower_bound"]),
        (&json!(0.000_309), &json!(true)),
        "{usage}"
    );
    let rest = usage["cost_unknown_at_most_usd"].as_f64().unwrap();
    assert!((rest + 0.000_039 - reserved[0]).abs() < 1e-9, "{usage} {reserved:?}");
    // The same from the read model, and marked for people.
    let summary = wait_for("the read model has it", async || {
        let (_, summary) = node.get("/v1/runs/usage/summary").await;
        Some(summary).filter(|summary| summary["calls"] == 2)
    })
    .await;
    for field in [
        "prompt_tokens",
        "completion_tokens",
        "cost_usd",
        "cost_unknown_at_most_usd",
        "lower_bound",
    ] {
        assert_eq!(summary[field], usage[field], "{field}: {summary}");
    }
    let (code, printed, why) = piton(folder.path(), &["usage"]).await;
    assert!(
        code == 0 && printed.contains(">=200") && printed.contains(">=0.000309"),
        "{printed}{why}"
    );
}

#[tokio::test]
async fn a_run_that_is_stopped_in_a_stream_keeps_what_was_seen_and_lets_go_of_the_provider() {
    let provider = Held::start(&begins()).await;
    let (_folder, node) = anthropic(&provider.url).await;
    let run = node.start_run(&json!({ "input": "hello" })).await;
    let mut events = Events::open(node.ask(Method::GET, &format!("/v1/runs/{run}/events"))).await;
    while events.next().await.expect("a text").name != "message.delta" {}
    let (status, _) = node.post(&format!("/v1/runs/{run}/stop"), &json!({})).await;
    assert_eq!(status, 200);
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "cancelled", "{ended}");
    let unknown = told(&node, &run, "model_unknown").await;
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    is_what_was_seen(&unknown[0]["partial_usage"]);
    let usage = &ended["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(100), &json!(1)),
        "{usage}"
    );
    assert_eq!((&usage["lower_bound"], &usage["calls"]), (&json!(true), &json!(1)), "{usage}");
    wait_for("the connection is closed", async || (provider.left() == 1).then_some(())).await;
    // Taken again from its journal, it says the same.
    let (status, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!(status, 200, "{replayed}");
}

#[tokio::test]
async fn a_response_that_is_deleted_in_a_stream_keeps_what_was_seen_of_it() {
    let provider = Held::start(&begins()).await;
    let (_folder, node) = anthropic(&provider.url).await;
    let asked = json!({"model": "anthropic:claude-sonnet-5-5", "input": "hello", "stream": true});
    let mut events = Events::open(body(node.ask(Method::POST, "/v1/responses"), &asked)).await;
    let created = events.next().await.expect("a head").data["response"]["id"].clone();
    while events.next().await.expect("a text").name != "response.output_text.delta" {}
    let id = created.as_str().expect("an id");
    let (status, told_so) = answer(node.ask(Method::DELETE, &format!("/v1/responses/{id}"))).await;
    assert_eq!(status, 200, "{told_so}");
    let run = id.strip_prefix("resp_").expect("a response");
    let unknown = told(&node, run, "model_unknown").await;
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    is_what_was_seen(&unknown[0]["partial_usage"]);
    let (_, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!(replayed["ok"], true, "{replayed}");
}

/// The provider says when to come back, and nothing leaves before: what nobody was asked costs nothing.
#[tokio::test]
async fn a_run_that_is_stopped_while_its_next_call_waits_pays_for_the_first_one_only() {
    let busy = response("500 x", "application/json", "{}");
    let busy = busy.replacen("\r\n", "\r\nretry-after: 9\r\n", 1);
    let upstream = Upstream::start(vec![busy]).await;
    let (_folder, node) = anthropic(&upstream.url).await;
    let run = node.start_run(&json!({ "input": "hello" })).await;
    let asked = wait_for("it is about to be asked again", async || {
        Some(told(&node, &run, "model_asked").await).filter(|asked| asked.len() == 2)
    })
    .await;
    let (status, _) = node.post(&format!("/v1/runs/{run}/stop"), &json!({})).await;
    assert_eq!(status, 200);
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "cancelled", "{ended}");
    let stayed = told(&node, &run, "model_not_sent").await;
    assert_eq!((stayed.len(), &stayed[0]["why"]), (1, &json!("called_off")), "{stayed:?}");
    assert_eq!(upstream.asked().len(), 1);
    let usage = &ended["usage"];
    assert_eq!(usage["calls"], 1, "{usage}");
    assert_eq!(usage["cost_unknown_at_most_usd"], asked[0]["reserved_usd"], "{usage}");
    let (_, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!(replayed["ok"], true, "{replayed}");
}
