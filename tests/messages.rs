//! An Anthropic client at the door, in front of a model of another family: whole and streamed, with tools, in a
//! session, and what it is told when something is wrong.

use reqwest::Method;
use serde_json::{Value, json};
use tests::process::{answer, json as body, wait_for};
use tests::sse::{Event, Events};
use tests::{ADMIN_KEY, Node};

const MESSAGES: &str = "/v1/messages";

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn asked(messages: &[Value]) -> Value {
    json!({"model": "demo", "max_tokens": 1000, "messages": messages})
}

fn with_tool(messages: &[Value]) -> Value {
    let mut request = asked(messages);
    request["tools"] = json!([{"name": "get_weather", "input_schema": {"type": "object"}}]);
    request
}

fn result(call: &Value, content: &str) -> Value {
    user(json!([{"type": "tool_result", "tool_use_id": call["id"], "content": content}]))
}

async fn node() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    (folder, node)
}

/// The events of a streamed answer; their names and the types inside must agree.
async fn streamed(node: &Node, request: &Value) -> Vec<Event> {
    let mut request = request.clone();
    request["stream"] = json!(true);
    let open = Events::open(body(node.ask(Method::POST, MESSAGES), &request)).await;
    let events = open.rest().await;
    assert!(events.iter().all(|event| event.data["type"] == event.name.as_str()), "{events:?}");
    events
}

/// The content that a client puts together from a stream.
fn together(events: &[Event]) -> Vec<Value> {
    let mut blocks: Vec<Value> = vec![];
    let mut inputs: Vec<String> = vec![];
    for Event { name, data, .. } in events {
        let index = data["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        match (name.as_str(), index) {
            ("content_block_start", Some(index)) => {
                assert_eq!(index, blocks.len(), "blocks come in order");
                blocks.push(data["content_block"].clone());
                inputs.push(String::new());
            }
            ("content_block_delta", Some(index)) => {
                assert_eq!(index + 1, blocks.len(), "only the newest block grows");
                let delta = &data["delta"];
                if let Some(text) = delta["text"].as_str() {
                    let grown = blocks[index]["text"].as_str().unwrap().to_owned() + text;
                    blocks[index]["text"] = json!(grown);
                }
                inputs[index] += delta["partial_json"].as_str().unwrap_or_default();
            }
            _ => (),
        }
    }
    for (block, input) in blocks.iter_mut().zip(inputs) {
        if block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(&input).unwrap();
        }
    }
    blocks
}

#[tokio::test]
async fn both_header_generations_open_the_door_and_the_run_is_journaled() {
    let (_folder, node) = node().await;
    let url = format!("{}{MESSAGES}", node.url);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for (header, key) in
        [("x-api-key", ADMIN_KEY.to_owned()), ("authorization", format!("Bearer {ADMIN_KEY}"))]
    {
        let sent = client.post(&url).header(header, key).header("anthropic-version", "2023-06-01");
        let got = body(sent, &asked(&[user("hello")])).send().await.unwrap();
        assert_eq!(got.status(), 200);
        assert_eq!(got.headers()["x-piton-served-by"], "demo:demo");
        assert_eq!(got.headers()["request-id"], got.headers()["x-request-id"]);
        let run = got.headers()["x-piton-run-id"].to_str().unwrap().to_owned();
        let answer: Value = serde_json::from_str(&got.text().await.unwrap()).unwrap();
        assert_eq!((&answer["type"], &answer["role"]), (&json!("message"), &json!("assistant")));
        assert!(answer["content"][0]["text"].as_str().unwrap().contains("hello"), "{answer}");
        assert_eq!(answer["stop_reason"], "end_turn");
        assert!(answer["usage"]["input_tokens"].as_u64().unwrap() > 0);
        let names = node.events(&run).await;
        assert_eq!(names, ["queued", "started", "model_asked", "model_answered", "finished"]);
    }
    let got = body(client.post(&url), &asked(&[user("hello")])).send().await.unwrap();
    assert_eq!(
        (got.status().as_u16(), got.headers()["x-should-retry"].as_bytes()),
        (401, &b"false"[..])
    );
    let id = got.headers()["request-id"].to_str().unwrap().to_owned();
    let told: Value = serde_json::from_str(&got.text().await.unwrap()).unwrap();
    assert_eq!((&told["type"], &told["request_id"]), (&json!("error"), &json!(id)));
    assert_eq!(told["error"]["type"], "authentication_error", "{told}");
}

#[tokio::test]
async fn a_stream_keeps_the_order_of_the_api_and_says_what_the_whole_answer_says() {
    let (_folder, node) = node().await;
    let request = asked(&[user("hello there")]);
    let (_, whole) = node.post(MESSAGES, &request).await;
    let events = streamed(&node, &request).await;
    let mut names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    names.dedup();
    let order = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, order);
    assert!(events.iter().filter(|event| event.name == "content_block_delta").count() > 5);
    assert_eq!(json!(together(&events)), whole["content"]);
    let end = &events[events.len() - 2].data;
    assert_eq!(end["delta"]["stop_reason"], whole["stop_reason"]);
    assert_eq!(end["usage"], whole["usage"]);
    let mut short = request.clone();
    short["max_tokens"] = json!(3);
    let cut = streamed(&node, &short).await;
    assert_eq!(cut[cut.len() - 2].data["delta"]["stop_reason"], "max_tokens");
}

#[tokio::test]
async fn a_callers_own_tools_round_trip_whole_and_streamed() {
    let (_folder, node) = node().await;
    let ask = user("tool get_weather {\"city\":\"Bern\"}");
    let (status, whole) = node.post(MESSAGES, &with_tool(std::slice::from_ref(&ask))).await;
    assert_eq!((status, &whole["stop_reason"]), (200, &json!("tool_use")), "{whole}");
    let events = streamed(&node, &with_tool(std::slice::from_ref(&ask))).await;
    let content = together(&events);
    let call = content.iter().find(|block| block["type"] == "tool_use").unwrap().clone();
    assert_eq!((&call["name"], &call["input"]), (&json!("get_weather"), &json!({"city": "Bern"})));
    let said = json!({"role": "assistant", "content": content});
    let failed = user(json!([{"type": "tool_result", "tool_use_id": call["id"], "is_error": true,
        "content": [{"type": "text", "text": "no such city"}]}]));
    for (result, then) in
        [(result(&call, "sunny"), "answers: sunny"), (failed, "\"message\":\"no such city\"}")]
    {
        let talk = [ask.clone(), said.clone(), result];
        let (status, got) = node.post(MESSAGES, &with_tool(&talk)).await;
        assert_eq!(status, 200, "{got}");
        assert!(got["content"][0]["text"].as_str().unwrap().contains(then), "{got}");
    }
}

#[tokio::test]
async fn a_held_run_of_a_session_goes_on_with_input_that_was_parsed_and_spelled_again() {
    let (_folder, node) = node().await;
    let send = async |messages: &[Value]| {
        let sent = node.ask(Method::POST, MESSAGES).header("x-piton-session-id", "weather");
        let got = body(sent, &with_tool(messages)).send().await.unwrap();
        let run = got.headers().get("x-piton-run-id").map(|id| id.to_str().unwrap().to_owned());
        (run, serde_json::from_str::<Value>(&got.text().await.unwrap()).unwrap())
    };
    let ask = user("tool get_weather { \"city\" : \"Bern\", \"a\": 1.0 }");
    let (run, first) = send(std::slice::from_ref(&ask)).await;
    let (_, waiting) = node.get(&format!("/v1/runs/{}", run.as_deref().unwrap())).await;
    assert_eq!(waiting["status"], "waiting_for_client_tools", "{waiting}");
    let said = json!({"role": "assistant", "content": first["content"]});
    let talk = [ask, said, result(&first["content"][1], "sunny")];
    let (same, got) = send(&talk).await;
    assert_eq!(same, run, "{got}");
    assert!(got["content"][0]["text"].as_str().unwrap().contains("sunny"), "{got}");
    let mut edited = talk.to_vec();
    edited[1]["content"][1]["input"]["city"] = json!("Basel");
    edited.push(user("and now?"));
    let (_, told) = send(&edited).await;
    assert_eq!(told["error"]["type"], "invalid_request_error", "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("number 1"), "{told}");
}

#[tokio::test]
async fn a_key_makes_a_repeat_free_and_is_apart_from_the_same_key_at_another_door() {
    let (_folder, node) = node().await;
    let send = async |path: &str, request: &Value| {
        let sent = node.ask(Method::POST, path).header("idempotency-key", "k");
        let got = body(sent, request).send().await.unwrap();
        let run = got.headers()["x-piton-run-id"].to_str().unwrap().to_owned();
        (got.status().as_u16(), run, got.headers().contains_key("idempotency-replayed"))
    };
    let request = asked(&[user("hello")]);
    let first = send(MESSAGES, &request).await;
    let again = send(MESSAGES, &request).await;
    assert_eq!((first.0, first.2, again.0, again.2), (200, false, 200, true));
    assert_eq!(first.1, again.1);
    let other = send("/v1/chat/completions", &request).await;
    assert_eq!((other.0, other.2), (200, false));
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_the_words_of_the_api() {
    let (_folder, node) = node().await;
    for (request, status, kind, part) in [
        (
            json!({"model": "demo", "messages": [user("x")]}),
            400,
            "invalid_request_error",
            "max_tokens",
        ),
        (
            json!({"model": "demo", "max_tokens": 1, "messages": []}),
            400,
            "invalid_request_error",
            "messages",
        ),
        (asked(&[user("fail 401")]), 502, "api_error", "auth_invalid"),
        (
            json!({"model": "openai:x", "max_tokens": 1, "messages": [user("x")]}),
            503,
            "api_error",
            "openai",
        ),
    ] {
        let (told_status, told) = node.post(MESSAGES, &request).await;
        assert_eq!((told_status, &told["error"]["type"]), (status, &json!(kind)), "{told}");
        assert!(told["error"]["message"].as_str().unwrap().contains(part), "{told}");
    }
    let (status, told) = answer(node.ask(Method::POST, MESSAGES).body("x".repeat(9 << 20))).await;
    assert_eq!((status, &told["error"]["type"]), (413, &json!("request_too_large")), "{told}");
    // Before the first piece an error is a status, after it the last event.
    let events = streamed(&node, &asked(&[user("fail cut")])).await;
    let last = events.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["error"]["type"]), ("error", &json!("api_error")));
    assert!(!events.iter().any(|event| event.name == "message_stop"), "{events:?}");
}

#[tokio::test]
async fn tokens_are_counted_as_a_bound_that_says_so_and_costs_no_run() {
    let (_folder, node) = node().await;
    let request = json!({"model": "demo", "system": "be brief", "messages": [user("hello")]});
    let sent = node.ask(Method::POST, "/v1/messages/count_tokens");
    let got = body(sent, &request).send().await.unwrap();
    assert_eq!(got.headers()["x-piton-token-count"], "upper-bound");
    let count: Value = serde_json::from_str(&got.text().await.unwrap()).unwrap();
    let (_, answer) = node.post(MESSAGES, &asked(&[user("hello")])).await;
    assert!(count["input_tokens"].as_u64() >= answer["usage"]["input_tokens"].as_u64(), "{count}");
    // The list is a read model: it has the run soon, and never a second one.
    let runs = wait_for("the run in the list", async || {
        let (_, runs) = node.get("/v1/runs").await;
        runs["data"].as_array().filter(|all| !all.is_empty()).cloned()
    })
    .await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    let wrong = json!({"model": "demo", "messages": "hello"});
    let (status, told) = node.post("/v1/messages/count_tokens", &wrong).await;
    assert_eq!((status, &told["error"]["type"]), (400, &json!("invalid_request_error")), "{told}");
}
