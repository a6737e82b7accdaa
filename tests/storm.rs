//! Streams that are cancelled while others run, and memory that stays where it is: a bounded part always,
//! `PITON_TEST_CANCELLED` and `PITON_TEST_CALLS` for as many as one likes (`.ci/extended memory`).

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::json;
use std::time::Instant;
use tests::Node;
use tests::process::{json as body, wait_for};

/// Streams that are cancelled, and calls that are answered, without another wish.
const CANCELLED: usize = 60;
const CALLS: usize = 400;
/// Calls at once.
const AT_ONCE: usize = 8;
/// kB that the second half of all calls may add: caches fill, and the allocator keeps pages. A run that is over stays in memory
/// for up to a minute (some 18 kB), so between 1,500 calls and those of two minutes a fast machine adds more than this.
const GROWTH_KB: u64 = 24_000;

fn wished(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn chat(node: &Node, text: &str) -> reqwest::RequestBuilder {
    let asked =
        json!({"model": "demo", "stream": true, "messages": [{"role": "user", "content": text}]});
    body(node.ask(Method::POST, "/v1/chat/completions"), &asked)
}

/// What a stream says, to its end.
async fn said(node: &Node, text: &str) -> String {
    let got = chat(node, text).send().await.unwrap().text().await.unwrap();
    assert!(got.ends_with("data: [DONE]\n\n"), "{got}");
    let data = got.lines().filter_map(|line| line.strip_prefix("data: {"));
    let chunks = data.filter_map(|data| serde_json::from_str(&format!("{{{data}")).ok());
    let texts = chunks.filter_map(|chunk: serde_json::Value| {
        chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
    });
    texts.collect()
}

/// Reads so many bytes of a stream and goes away.
async fn cancelled(node: &Node, text: &str, bytes: usize) {
    let mut body = chat(node, text).send().await.unwrap().bytes_stream();
    let mut read = 0;
    while read < bytes {
        match body.next().await {
            Some(Ok(piece)) => read += piece.len(),
            Some(Err(_)) | None => return,
        }
    }
}

fn whole(nth: usize) -> (String, String) {
    let text = format!("writer {nth} {}", "lorem ipsum ".repeat(1 + nth % 17));
    let echo = text.trim();
    let then = format!(
        "[scripted demo] You said: {echo}\n\nI am a script, not a model, and only repeat what I do not know. Say help to see what I know."
    );
    (text, then)
}

#[tokio::test]
async fn streams_that_are_cancelled_touch_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let node = &Node::demo(folder.path()).await;
    let count = wished("PITON_TEST_CANCELLED", CANCELLED);
    let offset = |nth: usize| (nth * 7_919) % 5_000;
    let storm =
        futures_util::stream::iter(0..count)
            .map(|nth| async move {
                cancelled(node, &format!("slow {}", 5 + nth % 20), offset(nth)).await
            })
            .buffer_unordered(AT_ONCE)
            .count();
    let others = futures_util::stream::iter(0..count)
        .map(|nth| async move {
            let (text, then) = whole(nth);
            assert_eq!(said(node, &text).await, then, "writer {nth}");
        })
        .buffer_unordered(AT_ONCE)
        .count();
    assert_eq!(futures_util::future::join(storm, others).await, (count, count));
    // A client that goes away stops no run: each of them ends, and each answer is whole.
    wait_for("every run ends", async || {
        let (_, metrics) = node.get("/v1/runs?state=running&limit=200").await;
        metrics["data"].as_array().is_some_and(Vec::is_empty).then_some(())
    })
    .await;
}

/// The memory that the node has now, in kB.
fn resident_kb(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn round(node: &Node, from: usize, calls: usize) {
    let all = futures_util::stream::iter(from..from + calls)
        .map(|nth| async move {
            if nth % 10 == 0 {
                cancelled(node, &format!("hello {nth}"), 300).await;
            } else {
                let (text, then) = whole(nth);
                assert_eq!(said(node, &text).await, then);
            }
        })
        .buffer_unordered(AT_ONCE)
        .count();
    assert_eq!(all.await, calls);
}

#[tokio::test]
async fn memory_stays_where_it_is_however_many_calls_come() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let calls = wished("PITON_TEST_CALLS", CALLS);
    let began = Instant::now();
    let mut seen = vec![resident_kb(&node)];
    for part in 0..4 {
        round(&node, part * (calls / 4), calls / 4).await;
        seen.push(resident_kb(&node));
    }
    println!(
        "memory: {calls} calls in {} s, a tenth cancelled; kB resident {seen:?}",
        began.elapsed().as_secs()
    );
    let grown = seen[4].saturating_sub(seen[2]);
    assert!(grown < GROWTH_KB, "{grown} kB more in the second half: {seen:?}");
}
