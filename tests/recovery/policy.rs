//! One table of classes for every door, every way of answering and runs, down to the end of a chain.

use super::*;
use crate::nodes::piton;

const DOORS: [&str; 3] = [CHAT, "/v1/responses", "/v1/messages"];

fn request(door: &str, stream: bool) -> Value {
    let mut request = json!({"model": "vllm:m", "stream": stream, "max_tokens": 50});
    match door {
        "/v1/responses" => request = json!({"model": "vllm:m", "stream": stream, "input": "hello"}),
        _ => request["messages"] = json!([{"role": "user", "content": "hello"}]),
    }
    request
}

/// What a provider says, which class that is, and the status of who can not be answered by another one.
fn cases() -> Vec<(String, &'static str, Option<u16>)> {
    let says = |status: &str, told: &str| response(status, "application/json", told);
    let inside = r#"{"error":{"message":"slow down","code":429}}"#;
    vec![
        (limited(600), "rate_limited", None),
        (says("403 x", r#"{"error":"API key is disabled"}"#), "auth_invalid", None),
        (
            says("400 x", r#"{"error":{"message":"temperature must be below 2"}}"#),
            "invalid_request",
            Some(400),
        ),
        (
            says("400 x", r#"{"error":{"message":"no","code":"content_filter"}}"#),
            "content_policy",
            Some(400),
        ),
        (says("500 x", r#"{"error":{"message":"boom"}}"#), "server_error", None),
        (says("200 OK", inside), "rate_limited", None),
    ]
}

#[tokio::test]
async fn every_door_every_way_of_answering_and_runs_go_by_one_table() {
    let cases = cases();
    let rounds = 2 * DOORS.len() + 1;
    let script = cases.iter().flat_map(|(told, ..)| vec![told.clone(); rounds]);
    let primary = Upstream::start(script.collect()).await;
    let backup = Upstream::start(vec![says("from the backup"); cases.len() * rounds]).await;
    let (_folder, node) = pair(&primary, &backup, "0").await;
    let (mut asked, mut fell) = (0, 0);
    for (told, class, surfaces) in cases {
        for door in DOORS {
            for stream in [false, true] {
                let got = body(node.ask(Method::POST, door), &request(door, stream))
                    .send()
                    .await
                    .unwrap();
                let (status, text) = (got.status().as_u16(), got.text().await.unwrap());
                let place = format!("{door} {stream} {told}: {text}");
                assert_eq!(status, surfaces.unwrap_or(200), "{place}");
                assert_eq!(text.contains("from the backup"), surfaces.is_none(), "{place}");
                asked += 1;
                fell += usize::from(surfaces.is_none());
                assert_eq!((primary.asked().len(), backup.asked().len()), (asked, fell), "{place}");
            }
        }
        let run = node
            .start_run(&json!({"input": "hello", "model": "vllm:m", "enabled_tools": []}))
            .await;
        let ended = node.ended(&run).await;
        let outcome = if surfaces.is_none() { "completed" } else { "errored" };
        assert_eq!(
            (&ended["outcome"], &ended["attempts"][0]["class"]),
            (&json!(outcome), &json!(class)),
            "{ended}"
        );
        asked += 1;
        fell += usize::from(surfaces.is_none());
        assert_eq!((primary.asked().len(), backup.asked().len()), (asked, fell), "{ended}");
    }
}

#[tokio::test]
async fn a_chain_is_walked_to_its_end_each_at_its_own_address_whoever_asks() {
    let forbidden = response("403 x", "application/json", r#"{"error":"API key is disabled"}"#);
    let primary = Upstream::start(vec![limited(600); 3]).await;
    let first = Upstream::start(vec![forbidden; 3]).await;
    let second = Upstream::start(vec![says("from the end"); 3]).await;
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("PITON_VLLM_BASE_URL", primary.url.as_str()),
        ("PITON_SGLANG_BASE_URL", first.url.as_str()),
        ("PITON_LMSTUDIO_BASE_URL", second.url.as_str()),
        ("PITON_FALLBACK_PROVIDERS", "sglang:m1,lmstudio:m2"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    let chat = turn(&node, None, &asked(false)).await;
    assert_eq!(
        (chat.0, &chat.2["choices"][0]["message"]["content"]),
        (200, &json!("from the end"))
    );
    let run =
        node.start_run(&json!({"input": "hello", "model": "vllm:m", "enabled_tools": []})).await;
    assert_eq!(node.ended(&run).await["served_by"], "lmstudio:m2");
    let words = ["chat", "--once", "hello", "--model", "vllm:m"];
    let (code, said, why) = piton(folder.path(), &words).await;
    assert!(code == 0 && said.contains("from the end"), "{code} {said} {why}");
    for (upstream, model) in [(&primary, "m"), (&first, "m1"), (&second, "m2")] {
        let models: Vec<Value> =
            upstream.asked().iter().map(|one| one.json()["model"].clone()).collect();
        assert_eq!(models, [model; 3]);
    }
}

#[tokio::test]
async fn a_tool_call_that_was_cut_is_not_run_and_the_step_is_asked_again() {
    let function = json!({"name": "clock_now", "arguments": "{"});
    let call = json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]});
    let primary =
        Upstream::start(vec![streams(&[begin(), chunk(&call, None)]), says("noon")]).await;
    let backup = Upstream::start(vec![says("never")]).await;
    let (_folder, node) = pair(&primary, &backup, "1").await;
    let run = node.start_run(&json!({"input": "what time is it?", "model": "vllm:m"})).await;
    let ended = node.ended(&run).await;
    assert_eq!(
        (&ended["outcome"], &ended["output"]),
        (&json!("completed"), &json!("noon")),
        "{ended}"
    );
    // No tool, no answer that was cut short, and what follows is said at once.
    let expected = [
        "queued",
        "started",
        "model_asked",
        "model_failed",
        "model_asked",
        "model_answered",
        "finished",
    ];
    assert_eq!(node.events(&run).await, expected);
    assert_eq!(ended["attempts"][0]["class"], "stream_truncated", "{ended}");
    assert_eq!((primary.asked().len(), backup.asked().len()), (2, 0));
}
