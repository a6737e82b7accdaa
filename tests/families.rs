//! A node in front of providers of each family, over real sockets: what leaves, what comes back, what is kept.

use serde_json::{Value, json};
use tests::Node;
use tests::process::json as body;
use tests::sse::Events;
use tests::upstream::{Upstream, events};

/// An answer of the Messages family that thinks, says something and calls a tool.
fn thinks_and_calls() -> String {
    let delta = |index: u64, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let begin = |index: u64, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let end = |index: u64| json!({ "type": "content_block_stop", "index": index });
    events(&[
        json!({ "type": "message_start", "message": { "id": "msg_1", "model": "claude-sonnet-5-5", "content": [],
            "usage": { "input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0, "output_tokens": 1 } } }),
        begin(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        json!({ "type": "ping" }),
        delta(0, json!({ "type": "thinking_delta", "thinking": "The clock, then." })),
        delta(0, json!({ "type": "signature_delta", "signature": "EqEE+/==" })),
        end(0),
        begin(1, json!({ "type": "tool_use", "id": "toolu_1", "name": "clock_now", "input": {} })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "{}" })),
        end(1),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 20 } }),
        json!({ "type": "message_stop" }),
    ])
}

fn says(text: &str) -> String {
    events(&[
        json!({ "type": "message_start", "message": { "id": "msg_2", "model": "claude-sonnet-5-5", "content": [],
            "usage": { "input_tokens": 100, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 7 } }),
        json!({ "type": "message_stop" }),
    ])
}

async fn anthropic(upstream: &Upstream) -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("ANTHROPIC_API_KEY", "sk-ant-planted"),
        ("PITON_ANTHROPIC_BASE_URL", upstream.url.as_str()),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    (folder, node)
}

#[tokio::test]
async fn reasoning_that_is_refused_is_left_out_once_and_the_run_goes_on() {
    let refuses = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#;
    let script = [
        thinks_and_calls(),
        tests::upstream::response("400 x", "application/json", refuses),
        says("Noon."),
    ];
    let upstream = Upstream::start(script.to_vec()).await;
    let (_folder, node) = anthropic(&upstream).await;
    let run = node.start_run(&json!({ "input": "what time is it?" })).await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    assert_eq!(ended["attempts"][0]["class"], "replay_rejected", "{ended}");
    let asked = upstream.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].body.contains("EqEE+/==") && !asked[2].body.contains("EqEE+/=="));
    // What was said and called stays.
    assert_eq!(asked[2].json()["messages"][1]["content"][0]["id"], "toolu_1");
    assert_eq!(asked[2].json()["messages"][2], asked[1].json()["messages"][2]);
}

#[tokio::test]
async fn a_run_on_anthropic_messages_sends_its_signed_thoughts_back_unchanged() {
    let upstream = Upstream::start(vec![thinks_and_calls(), says("Noon.")]).await;
    let (_folder, node) = anthropic(&upstream).await;
    let run = node.start_run(&json!({ "input": "what time is it?" })).await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].head.starts_with("post /v1/messages http/1.1"), "{}", asked[0].head);
    assert!(asked[0].head.contains("x-api-key: sk-ant-planted"));
    let first = asked[0].json();
    assert_eq!(first["model"], "claude-sonnet-5-5", "the dated default");
    assert_eq!(first["max_tokens"], 128_000, "the model's own bound");
    let thought = r#"{"type":"thinking","thinking":"The clock, then.","signature":"EqEE+/=="}"#;
    assert!(asked[1].body.contains(thought), "{}", asked[1].body);
    let second = asked[1].json();
    assert_eq!(second["messages"][1]["content"][1]["id"], "toolu_1");
    assert_eq!(second["messages"][2]["content"][0]["tool_use_id"], "toolu_1");
    assert_eq!((&first["tools"], &first["system"]), (&second["tools"], &second["system"]));
    // 10 fresh and 90 cached in, 20 out; then 100 in, 7 out; at 2.00, 0.10 and 10.00 USD a million.
    let usage = &ended["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(200), &json!(27)),
        "{ended}"
    );
    assert_eq!(usage["cost_usd"], json!(0.000_499), "{ended}");
    let log = node.log();
    let journal = node.journal(&run).await;
    assert!(!log.contains("planted") && !format!("{journal:?}").contains("planted"));
}

#[tokio::test]
async fn a_chat_on_anthropic_messages_streams_and_says_who_served_it() {
    let upstream = Upstream::start(vec![says("Hello from afar.")]).await;
    let (_folder, node) = anthropic(&upstream).await;
    let asked = json!({ "model": "anthropic:claude-x", "stream": true, "max_tokens": 32, "temperature": 0.5,
        "stop": "END", "messages": [{ "role": "system", "content": "be brief" }, { "role": "user", "content": "hi" }] });
    let stream =
        Events::open(body(node.ask(reqwest::Method::POST, "/v1/chat/completions"), &asked));
    let got = stream.await.rest().await;
    let text: String = got
        .iter()
        .filter_map(|event| event.data["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "Hello from afar.");
    assert_eq!(got.last().unwrap().data, "[DONE]");
    let sent = upstream.asked()[0].json();
    let expected = json!({ "model": "claude-x", "max_tokens": 32, "temperature": 0.5, "stream": true,
        "stop_sequences": ["END"],
        "system": [{ "type": "text", "text": "be brief", "cache_control": { "type": "ephemeral" } }],
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } }] }] });
    assert_eq!(sent, expected);
}

fn responds(output: &[Value]) -> String {
    let mut all = vec![
        json!({ "type": "response.created", "response": { "id": "resp_1", "model": "gpt-6-luna", "error": null } }),
    ];
    for (index, item) in output.iter().enumerate() {
        all.push(
            json!({ "type": "response.output_item.added", "output_index": index, "item": item }),
        );
        all.push(
            json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        );
    }
    all.push(json!({ "type": "response.completed", "response": { "status": "completed", "error": null, "output": output,
        "usage": { "input_tokens": 100, "input_tokens_details": { "cached_tokens": 90 }, "output_tokens": 20 } } }));
    events(&all)
}

#[tokio::test]
async fn a_run_on_openai_responses_sends_its_encrypted_thoughts_back_unchanged() {
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA-_x==" });
    let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "clock_now", "arguments": "{}" });
    let noon = json!({ "type": "message", "id": "msg_1", "role": "assistant",
        "content": [{ "type": "output_text", "text": "Noon." }] });
    let upstream =
        Upstream::start(vec![responds(&[reasoning.clone(), call]), responds(&[noon])]).await;
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("OPENAI_API_KEY", "sk-planted"),
        ("PITON_OPENAI_BASE_URL", upstream.url.as_str()),
        ("PITON_OPENAI_FAMILY", "openai_responses"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    let run = node.start_run(&json!({ "input": "what time is it?" })).await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked[0].head.starts_with("post /responses http/1.1"), "{}", asked[0].head);
    let (first, second) = (asked[0].json(), asked[1].json());
    assert_eq!((&first["model"], &first["store"]), (&json!("gpt-6-luna"), &json!(false)));
    assert!(asked[1].body.contains(&reasoning.to_string()), "{}", asked[1].body);
    assert_eq!(second["input"][2]["call_id"], "call_1");
    assert_eq!(second["input"][3]["type"], "function_call_output");
    assert_eq!(first["prompt_cache_key"], second["prompt_cache_key"]);
    assert_eq!(ended["usage"]["cached_input_tokens"], 180, "{ended}");
}
