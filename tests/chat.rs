//! An OpenAI client at the door: whole and streamed, alone and in a session, with tools of its own.

use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{answer, json as body};
use tests::sse::Events;

const CHAT: &str = "/v1/chat/completions";

fn said(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn asked(messages: &[Value]) -> Value {
    json!({"model": "demo", "messages": messages})
}

async fn node() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    (folder, node)
}

/// A completion in a session: status, session id, run id, body.
async fn in_session(
    node: &Node,
    session: &str,
    request: &Value,
    fork: &str,
) -> (u16, String, String, Value) {
    let sent = node
        .ask(Method::POST, CHAT)
        .header("x-piton-session-id", session)
        .header("x-piton-history", fork);
    let got = body(sent, request).send().await.unwrap();
    let header = |name: &str| {
        got.headers().get(name).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let (session, run) = (header("x-piton-session-id"), header("x-piton-run-id"));
    let status = got.status().as_u16();
    (status, session, run, serde_json::from_str(&got.text().await.unwrap()).unwrap())
}

#[tokio::test]
async fn a_chat_is_answered_whole_and_its_intent_stands_before_its_answer() {
    let (_folder, node) = node().await;
    let got = body(node.ask(Method::POST, CHAT), &asked(&[said("hello")])).send().await.unwrap();
    assert_eq!(got.status(), 200);
    let run = got.headers()["x-piton-run-id"].to_str().unwrap().to_owned();
    assert_eq!(got.headers()["x-piton-served-by"], "demo:demo");
    assert!(!got.headers().contains_key("x-piton-cost-usd"), "an unknown cost has no header");
    let answer: Value = serde_json::from_str(&got.text().await.unwrap()).unwrap();
    assert!(
        answer["choices"][0]["message"]["content"].as_str().unwrap().contains("hello"),
        "{answer}"
    );
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    let journal = node.journal(&run).await;
    assert_eq!(journal.len(), 2, "two durable waits a call");
    let names = node.events(&run).await;
    assert_eq!(names, ["queued", "started", "model_asked", "model_answered", "finished"]);
}

#[tokio::test]
async fn a_streamed_chat_says_the_same_and_ends_with_done() {
    let (_folder, node) = node().await;
    let whole = node.post(CHAT, &asked(&[said("hello there")])).await.1;
    let mut request = asked(&[said("hello there")]);
    request["stream"] = json!(true);
    request["stream_options"] = json!({"include_usage": true});
    let events = Events::open(body(node.ask(Method::POST, CHAT), &request)).await.rest().await;
    let text: String = events
        .iter()
        .filter_map(|event| event.data["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(whole["choices"][0]["message"]["content"], text);
    assert_eq!(events.last().unwrap().data, "[DONE]");
    let usage = &events[events.len() - 2].data["usage"];
    assert_eq!(usage, &whole["usage"]);
}

#[tokio::test]
async fn a_model_is_named_in_three_ways_and_an_unknown_provider_is_told_apart() {
    let (_folder, node) = node().await;
    for model in ["demo:demo", "demo/demo", "demo", "whatever-name"] {
        let (status, got) =
            node.post(CHAT, &json!({"model": model, "messages": [said("hi")]})).await;
        assert_eq!(status, 200, "{model}: {got}");
    }
    for (model, code) in
        [("openai:gpt-x", "route_unconfigured"), ("vertex:gemini-x", "invalid_model")]
    {
        let (_, got) = node.post(CHAT, &json!({"model": model, "messages": [said("hi")]})).await;
        assert_eq!(got["error"]["code"], code, "{got}");
    }
    let (status, models) = node.get("/v1/models").await;
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("demo:demo")));
}

#[tokio::test]
async fn a_session_takes_the_new_tail_and_refuses_another_past() {
    let (_folder, node) = node().await;
    let (status, session, run, first) = in_session(&node, "book", &asked(&[said("one")]), "").await;
    assert_eq!(status, 200, "{first}");
    assert!(session.starts_with("ses_") && run.starts_with("run_"));
    let reply = first["choices"][0]["message"].clone();
    let talk = [said("one"), reply.clone(), said("two")];
    let (status, again, _, second) = in_session(&node, "book", &asked(&talk), "").await;
    assert_eq!((status, again.as_str()), (200, session.as_str()), "{second}");
    let other = [said("uno"), reply, said("two")];
    let (status, _, _, refused) = in_session(&node, "book", &asked(&other), "").await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("history_mismatch")));
    assert!(refused["error"]["message"].as_str().unwrap().contains("messages[0]"), "{refused}");
    let (status, forked, _, got) = in_session(&node, "book", &asked(&other), "fork").await;
    assert_eq!(status, 200, "{got}");
    assert_ne!(forked, session);
    // Sent again under its key, it finds the fork that it made and the run there, and asks no model.
    let keyed = async || {
        let sent = node
            .ask(Method::POST, CHAT)
            .header("x-piton-session-id", "book")
            .header("x-piton-history", "fork")
            .header("idempotency-key", "once");
        let got = body(sent, &asked(&other)).send().await.unwrap();
        let of = |name: &str| got.headers()[name].to_str().unwrap().to_owned();
        [of("x-piton-session-id"), of("x-piton-run-id")]
    };
    let made = keyed().await;
    assert_eq!(keyed().await, made);
    assert_ne!(made[0], forked, "another request made another fork");
    let (_, kept) = node.get(&format!("/v1/sessions/{session}/messages")).await;
    assert_eq!(kept["data"].as_array().unwrap().len(), 4, "{kept}");
}

fn with_tool(messages: &[Value]) -> Value {
    let mut request = asked(messages);
    request["tools"] = json!([{"type": "function", "function": {
        "name": "get_weather", "description": "the weather", "parameters": {"type": "object"}}}]);
    request
}

#[tokio::test]
async fn a_callers_own_tools_round_trip_without_a_session() {
    let (_folder, node) = node().await;
    let ask = said("tool get_weather {\"city\":\"Bern\"}");
    let (status, first) = node.post(CHAT, &with_tool(std::slice::from_ref(&ask))).await;
    assert_eq!(
        (status, &first["choices"][0]["finish_reason"]),
        (200, &json!("tool_calls")),
        "{first}"
    );
    let message = first["choices"][0]["message"].clone();
    let call = message["tool_calls"][0]["id"].clone();
    let result = json!({"role": "tool", "tool_call_id": call, "content": "sunny"});
    let (status, second) = node.post(CHAT, &with_tool(&[ask, message, result])).await;
    assert_eq!(status, 200, "{second}");
    assert!(
        second["choices"][0]["message"]["content"].as_str().unwrap().contains("sunny"),
        "{second}"
    );
}

/// The session's run that waits for the caller's tool: its id, and what the caller knows.
async fn held(node: &Node, session: &str) -> (String, Value, Value) {
    let ask = said("tool get_weather {\"city\":\"Bern\"}");
    let (status, _, run, first) =
        in_session(node, session, &with_tool(std::slice::from_ref(&ask)), "").await;
    assert_eq!(
        (status, &first["choices"][0]["finish_reason"]),
        (200, &json!("tool_calls")),
        "{first}"
    );
    let (_, waiting) = node.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(waiting["status"], "waiting_for_client_tools", "{waiting}");
    (run, ask, first["choices"][0]["message"].clone())
}

#[tokio::test]
async fn a_held_run_goes_on_with_the_callers_results_also_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    let (run, ask, message) = held(&node, "weather").await;
    node.kill();
    let node = Node::demo(folder.path()).await;
    let call = message["tool_calls"][0]["id"].clone();
    let result = json!({"role": "tool", "tool_call_id": call, "content": "sunny"});
    let (status, _, same, got) =
        in_session(&node, "weather", &with_tool(&[ask, message, result]), "").await;
    assert_eq!((status, same), (200, run.clone()), "{got}");
    assert!(got["choices"][0]["message"]["content"].as_str().unwrap().contains("sunny"), "{got}");
    assert_eq!(node.ended(&run).await["reason"], "answered");
}

#[tokio::test]
async fn a_run_whose_caller_goes_on_without_its_tool_ends_with_a_typed_reason() {
    let (_folder, node) = node().await;
    let (run, _, _) = held(&node, "weather").await;
    let (status, _, other, got) =
        in_session(&node, "weather", &asked(&[said("never mind")]), "").await;
    assert_eq!(status, 200, "{got}");
    assert_ne!(run, other);
    let ended = node.ended(&run).await;
    assert_eq!(
        (&ended["outcome"], &ended["reason"]),
        (&json!("errored"), &json!("client_tool_gone"))
    );
}

#[tokio::test]
async fn a_caller_that_never_comes_back_ends_the_run_also_while_its_node_was_down() {
    let folder = tempfile::tempdir().unwrap();
    let short = [("PITON_LIMITS_CLIENT_TOOL_WAIT_SECONDS", "1")];
    let mut node = Node::start(folder.path(), &["--demo"], &short).await;
    let (run, _, _) = held(&node, "weather").await;
    node.kill();
    // Nobody sends a command: the deadline is the run's own wake.
    let node = Node::demo(folder.path()).await;
    let ended = node.ended(&run).await;
    assert_eq!(
        (&ended["outcome"], &ended["reason"]),
        (&json!("errored"), &json!("client_tool_gone"))
    );
}

#[tokio::test]
async fn a_request_that_is_sent_again_in_a_session_is_answered_by_its_run() {
    let (_folder, node) = node().await;
    let request = asked(&[said("slow 10")]);
    // Sent again while the first is at work, as a client does whose patience is short.
    let (first, second) = tokio::join!(
        in_session(&node, "book", &request, ""),
        in_session(&node, "book", &request, "")
    );
    assert_eq!((first.0, second.0), (200, 200), "{} {}", first.3, second.3);
    assert_eq!(first.2, second.2, "one run answers both");
    // And once more, when it is over.
    let third = in_session(&node, "book", &request, "").await;
    assert_eq!((third.0, &third.2), (200, &first.2), "{}", third.3);
    let (_, kept) = node.get(&format!("/v1/sessions/{}/messages", first.1)).await;
    assert_eq!(kept["data"].as_array().unwrap().len(), 2, "{kept}");
    // With a key of its own it is known whatever came after.
    let keyed = |text: &str| {
        let sent = node
            .ask(Method::POST, CHAT)
            .header("x-piton-session-id", "keyed")
            .header("idempotency-key", "k");
        body(sent, &asked(&[said(text)])).send()
    };
    let one = keyed("hello").await.unwrap();
    let again = keyed("hello").await.unwrap();
    assert_eq!(one.headers()["x-piton-run-id"], again.headers()["x-piton-run-id"]);
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(keyed("other").await.unwrap().status(), 409);
}

#[tokio::test]
async fn what_was_written_without_a_turn_in_flight_is_told_that_the_session_is_busy() {
    let (_folder, node) = node().await;
    let mut request = asked(&[said("slow 40")]);
    request["stream"] = json!(true);
    let sent = node.ask(Method::POST, CHAT).header("x-piton-session-id", "book");
    let mut stream = Events::open(body(sent, &request)).await;
    assert!(stream.next().await.is_some());
    let (status, _, _, told) = in_session(&node, "book", &asked(&[said("me too")]), "").await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("session_busy")), "{told}");
    assert!(stream.rest().await.iter().any(|event| event.data == "[DONE]"));
}

#[tokio::test]
async fn a_failing_provider_is_asked_again_and_what_is_left_is_said_in_its_status() {
    let (_folder, node) = node().await;
    let got = body(node.ask(Method::POST, CHAT), &asked(&[said("fail 500")])).send().await.unwrap();
    assert!(got.status().is_server_error() || got.status().is_success(), "{}", got.status());
    let (status, got) = node.post(CHAT, &asked(&[said("fail 401")])).await;
    assert_eq!((status, &got["error"]["code"]), (502, &json!("providers_exhausted")), "{got}");
    let failed = body(node.ask(Method::POST, CHAT), &asked(&[said("fail 401 once more")]))
        .send()
        .await
        .unwrap();
    assert!(failed.headers().contains_key("x-piton-run-id"), "a run that failed can be looked at");
}

#[tokio::test]
async fn a_body_that_is_none_is_refused_by_name() {
    let (_folder, node) = node().await;
    for (request, part) in [
        (json!({"model": "demo", "messages": []}), "messages"),
        (json!({"messages": [said("hi")]}), "model"),
        (
            json!({"model": "demo", "messages": [{"role": "user", "content": 7}]}),
            "messages[0].content",
        ),
    ] {
        let (status, got) = node.post(CHAT, &request).await;
        assert_eq!(status, 400, "{got}");
        assert!(got["error"]["message"].as_str().unwrap().contains(part), "{got}");
    }
    let huge = "x".repeat(9 << 20);
    let (status, got) = answer(node.ask(Method::POST, CHAT).body(huge)).await;
    assert_eq!((status, &got["error"]["code"]), (413, &json!("payload_too_large")));
}
