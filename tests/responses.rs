//! A client of OpenAI's Responses at the door: whole and streamed, with tools, going on from what was answered before,
//! what is kept of it and for whom, and what the client is told when something is wrong.

use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{answer, client, json as body};
use tests::sse::{Event, Events};
use tests::upstream::{Upstream, events};

const RESPONSES: &str = "/v1/responses";

async fn node() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    (folder, node)
}

fn asked(input: impl Into<Value>) -> Value {
    json!({"model": "demo", "input": input.into()})
}

fn with(mut request: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn tools() -> Value {
    json!([{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}])
}

fn result(call: &Value, output: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call["call_id"], "output": output})
}

fn text(response: &Value) -> &str {
    let item = response["output"].as_array().unwrap().iter().find(|item| item["type"] == "message");
    item.unwrap()["content"][0]["text"].as_str().unwrap()
}

async fn ok(node: &Node, request: &Value) -> Value {
    let (status, got) = node.post(RESPONSES, request).await;
    assert_eq!(status, 200, "{got}");
    got
}

async fn get(node: &Node, response: &Value) -> (u16, Value) {
    node.get(&format!("{RESPONSES}/{}", response["id"].as_str().unwrap())).await
}

/// The events of a streamed answer: their names and the types inside agree, their numbers have no gap.
async fn streamed(node: &Node, request: &Value) -> Vec<Event> {
    let request = with(request.clone(), json!({"stream": true}));
    let open = Events::open(body(node.ask(Method::POST, RESPONSES), &request)).await;
    let events = open.rest().await;
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event.data["type"], event.name.as_str());
        assert_eq!(event.data["sequence_number"], at, "{events:?}");
    }
    events
}

/// The items that a client puts together from a stream, each of them checked against its deltas.
fn together(events: &[Event]) -> Vec<Value> {
    let (mut items, mut grown) = (vec![], String::new());
    for Event { name, data, .. } in events {
        match name.as_str() {
            "response.output_item.added" => {
                assert_eq!(data["output_index"], items.len());
                grown.clear();
            }
            "response.output_text.delta" | "response.function_call_arguments.delta" => {
                grown += data["delta"].as_str().unwrap();
            }
            "response.output_text.done" => assert_eq!(data["text"], grown),
            "response.function_call_arguments.done" => assert_eq!(data["arguments"], grown),
            "response.output_item.done" => items.push(data["item"].clone()),
            _ => (),
        }
    }
    items
}

/// What of two answers to one request is the same: all but what names them.
fn same(response: &Value) -> Value {
    let run = response["id"].as_str().unwrap().strip_prefix("resp_").unwrap();
    let mut response: Value =
        serde_json::from_str(&response.to_string().replace(run, "RUN")).unwrap();
    for name in ["id", "created_at", "metadata"] {
        response.as_object_mut().unwrap().remove(name);
    }
    response
}

#[tokio::test]
async fn a_response_is_a_run_and_may_be_read_again() {
    let (folder, mut node) = node().await;
    let request = with(
        asked("hello"),
        json!({"instructions": "be kind", "metadata": {"mine": "1"}, "max_output_tokens": 500,
            "temperature": 0.5, "user": "u"}),
    );
    let sent = body(node.ask(Method::POST, RESPONSES), &request).send().await.unwrap();
    assert_eq!(
        (sent.status().as_u16(), &sent.headers()["x-piton-served-by"]),
        (200, &"demo:demo".parse().unwrap())
    );
    let run = sent.headers()["x-piton-run-id"].to_str().unwrap().to_owned();
    let got: Value = serde_json::from_str(&sent.text().await.unwrap()).unwrap();
    assert_eq!(got["id"], format!("resp_{run}"));
    assert_eq!((&got["object"], &got["status"]), (&json!("response"), &json!("completed")));
    assert!(text(&got).contains("hello"), "{got}");
    for (name, value) in [
        ("instructions", json!("be kind")),
        ("metadata", json!({"mine": "1"})),
        ("max_output_tokens", json!(500)),
        ("temperature", json!(0.5)),
        ("user", json!("u")),
        ("store", json!(true)),
        ("previous_response_id", Value::Null),
        ("model", json!("demo")),
    ] {
        assert_eq!(got[name], value, "{name}");
    }
    let usage = &got["usage"];
    let sum = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], sum);
    let names = node.events(&run).await;
    assert_eq!(names, ["queued", "started", "model_asked", "model_answered", "finished"]);
    assert_eq!(get(&node, &got).await, (200, got.clone()));
    // The journal has it, so another process has it too.
    node.kill();
    let node = Node::demo(folder.path()).await;
    assert_eq!(get(&node, &got).await, (200, got.clone()));
    let read = format!("{RESPONSES}/{}?stream=true", got["id"].as_str().unwrap());
    let (status, told) = node.get(&read).await;
    assert_eq!((status, &told["error"]["param"]), (400, &json!("stream")), "{told}");
}

#[tokio::test]
async fn a_stream_has_the_whole_order_and_says_what_the_whole_answer_says() {
    let (_folder, node) = node().await;
    let request = asked("hello there");
    let whole = ok(&node, &request).await;
    let events = streamed(&node, &request).await;
    let mut names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    names.dedup();
    let order = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names, order);
    assert!(events.iter().filter(|event| event.name == "response.output_text.delta").count() > 5);
    let last = &events.last().unwrap().data["response"];
    assert_eq!(same(last), same(&whole));
    assert_eq!(json!(together(&events)), last["output"]);
    assert_eq!(get(&node, last).await, (200, last.clone()), "what is kept is what was streamed");
    let cut = streamed(&node, &with(request, json!({"max_output_tokens": 3}))).await;
    let last = cut.last().unwrap();
    assert_eq!(last.name, "response.incomplete");
    let details = json!({"reason": "max_output_tokens"});
    assert_eq!(last.data["response"]["incomplete_details"], details);
    assert_eq!(last.data["response"]["output"][0]["status"], "incomplete");
    assert_eq!(get(&node, &last.data["response"]).await.1, last.data["response"]);
}

#[tokio::test]
async fn a_callers_own_tools_round_trip_by_id_and_by_sending_everything_again() {
    let (_folder, node) = node().await;
    let ask = "tool get_weather {\"city\":\"Bern\"}";
    let first = with(asked(ask), json!({"tools": tools()}));
    let events = streamed(&node, &first).await;
    let called = events.last().unwrap().data["response"].clone();
    assert_eq!(called["status"], "completed");
    let items = together(&events);
    let call = items.iter().find(|item| item["type"] == "function_call").unwrap();
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("get_weather"), &json!("{\"city\":\"Bern\"}"))
    );
    let by_id = with(
        asked(json!([result(call, "sunny")])),
        json!({"tools": tools(), "previous_response_id": called["id"]}),
    );
    let again: Vec<Value> =
        [vec![json!({"role": "user", "content": ask})], items.clone(), vec![result(call, "sunny")]]
            .concat();
    let named: Vec<Value> =
        items.iter().map(|item| json!({"type": "item_reference", "id": item["id"]})).collect();
    // An item is named once, or a small request would make a conversation of any size.
    let twice: Vec<Value> = named.iter().chain(&named).cloned().collect();
    let (status, told) = node.post(RESPONSES, &asked(twice)).await;
    assert_eq!(status, 400, "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("a second time"), "{told}");
    let by_name =
        [vec![json!({"role": "user", "content": ask})], named, vec![result(call, "sunny")]]
            .concat();
    for request in [
        by_id.clone(),
        with(first.clone(), json!({"input": again})),
        with(first, json!({"input": by_name})),
    ] {
        let got = ok(&node, &request).await;
        assert!(text(&got).contains("sunny"), "{got}");
    }
    let unanswered = with(asked("and now?"), json!({"previous_response_id": called["id"]}));
    let (status, told) = node.post(RESPONSES, &unanswered).await;
    assert_eq!((status, &told["error"]["param"]), (400, &json!("input")), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("no output of the call"), "{told}");
    // Two may go on from one response.
    assert_eq!(same(&ok(&node, &by_id).await), same(&ok(&node, &by_id).await));
}

fn thinks_and_calls() -> String {
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let begin = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let end = |index: u64| json!({"type": "content_block_stop", "index": index});
    events(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "content": [],
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1}}}),
        begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "The clock, then."})),
        delta(0, json!({"type": "signature_delta", "signature": "EqEE+/=="})),
        end(0),
        begin(1, json!({"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{}"})),
        end(1),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ])
}

#[tokio::test]
async fn signed_thoughts_of_another_family_come_back_unchanged_by_id_and_by_key() {
    let upstream = Upstream::start((0..4).map(|_| thinks_and_calls()).collect()).await;
    let folder = tempfile::tempdir().unwrap();
    let variables =
        [("ANTHROPIC_API_KEY", "sk-ant-x"), ("PITON_ANTHROPIC_BASE_URL", upstream.url.as_str())];
    let node = Node::start(folder.path(), &[], &variables).await;
    let fields = json!({"model": "anthropic:claude-x", "tools": tools(), "stream": true,
        "instructions": "first", "reasoning": {"summary": "auto"},
        "include": ["reasoning.encrypted_content"]});
    let events = streamed(&node, &with(asked("hi"), fields.clone())).await;
    let last = &events.last().unwrap().data["response"];
    assert_eq!(last["usage"]["input_tokens_details"]["cached_tokens"], 90, "{last}");
    let items = together(&events);
    assert_eq!(items[0]["summary"][0]["text"], "The clock, then.");
    let by_id = with(
        asked(json!([result(&items[1], "rain")])),
        json!({
        "model": "anthropic:claude-x", "tools": tools(), "previous_response_id": last["id"],
        "instructions": "second"}),
    );
    let again = [
        vec![json!({"role": "user", "content": "hi"})],
        items.clone(),
        vec![result(&items[1], "rain")],
    ]
    .concat();
    let by_key = with(asked(again.clone()), with(fields.clone(), json!({"store": false})));
    let mut edited = again;
    edited[2]["arguments"] = json!("{\"city\":\"Bern\"}");
    let edited = with(asked(edited), fields);
    ok(&node, &by_id).await;
    streamed(&node, &by_key).await;
    streamed(&node, &edited).await;
    let sent = upstream.asked();
    let thought = r#"{"type":"thinking","thinking":"The clock, then.","signature":"EqEE+/=="}"#;
    let thinks: Vec<bool> = sent.iter().map(|asked| asked.body.contains(thought)).collect();
    assert_eq!(thinks, [false, true, true, false], "{:?}", sent.last());
    // Instructions are those of one response alone.
    assert!(sent[1].body.contains("second") && !sent[1].body.contains("first"), "{}", sent[1].body);
    assert_eq!(sent[1].json()["messages"][2]["content"][0]["tool_use_id"], "toolu_1");
}

#[tokio::test]
async fn what_was_not_stored_and_what_is_anothers_is_not_there() {
    let (_folder, node) = node().await;
    let kept = ok(&node, &asked("hello")).await;
    let unkept = ok(&node, &with(asked("hello"), json!({"store": false}))).await;
    let chat = json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]});
    let sent = body(node.ask(Method::POST, "/v1/chat/completions"), &chat).send().await.unwrap();
    let chat = format!("resp_{}", sent.headers()["x-piton-run-id"].to_str().unwrap());
    let (_, made) = node.post("/v1/keys", &json!({"name": "other", "role": "runner"})).await;
    let other = made["key"].as_str().unwrap();
    let missing = "resp_run_00000000000000000000000000abcd";
    let anothers = async |id: &str| {
        let url = format!("{}{RESPONSES}/{id}", node.url);
        answer(client().get(url).bearer_auth(other)).await
    };
    let id = |response: &Value| response["id"].as_str().unwrap().to_owned();
    let mut told = vec![anothers(&id(&kept)).await];
    for id in [&id(&unkept), &chat, missing, "resp_x"] {
        told.push(node.get(&format!("{RESPONSES}/{id}")).await);
    }
    for id in [&id(&unkept), &chat, missing] {
        let request = with(asked("and?"), json!({"previous_response_id": id}));
        told.push(node.post(RESPONSES, &request).await);
    }
    let request = with(asked("and?"), json!({"previous_response_id": kept["id"]}));
    let sent = client().post(format!("{}{RESPONSES}", node.url)).bearer_auth(other);
    told.push(answer(body(sent, &request)).await);
    for (status, told) in told {
        assert_eq!(
            (status, &told["error"]["type"]),
            (404, &json!("invalid_request_error")),
            "{told}"
        );
        assert!(
            told["error"]["message"].as_str().unwrap().contains("there is no response"),
            "{told}"
        );
    }
    let (_, runs) = node.get("/v1/runs").await;
    assert_eq!(runs["data"].as_array().unwrap().len(), 3, "nothing was started: {runs}");
    let went_on = ok(&node, &request).await;
    assert_eq!(went_on["previous_response_id"], kept["id"]);
}

#[tokio::test]
async fn a_key_makes_a_repeat_free_and_gives_the_first_object() {
    let (_folder, node) = node().await;
    let send = async || {
        let sent = node.ask(Method::POST, RESPONSES).header("idempotency-key", "k");
        let got = body(sent, &asked("hello")).send().await.unwrap();
        let replayed = got.headers().contains_key("idempotency-replayed");
        (replayed, serde_json::from_str::<Value>(&got.text().await.unwrap()).unwrap())
    };
    let (first, again) = (send().await, send().await);
    assert_eq!((first.0, again.0), (false, true));
    assert_eq!(first.1, again.1);
}

async fn delete(node: &Node, response: &Value) -> (u16, Value) {
    let path = format!("{RESPONSES}/{}", response["id"].as_str().unwrap());
    answer(node.ask(Method::DELETE, &path)).await
}

#[tokio::test]
async fn a_response_that_is_deleted_is_known_no_more_and_the_journal_keeps_it() {
    let (folder, mut node) = node().await;
    let key = ("idempotency-key", "k");
    let keyed = body(node.ask(Method::POST, RESPONSES).header(key.0, key.1), &asked("hello"));
    let first: Value = answer(keyed).await.1;
    let then = with(asked("and?"), json!({"previous_response_id": first["id"]}));
    let second = ok(&node, &then).await;
    let (_, made) = node.post("/v1/keys", &json!({"name": "other", "role": "admin"})).await;
    let url = format!("{}{RESPONSES}/{}", node.url, first["id"].as_str().unwrap());
    let theirs = answer(client().delete(url).bearer_auth(made["key"].as_str().unwrap())).await;
    assert_eq!((theirs.0, get(&node, &first).await.0), (404, 200), "{}", theirs.1);
    let run = first["id"].as_str().unwrap().strip_prefix("resp_").unwrap();
    let (_, before) = node.get(&format!("/v1/runs/{run}")).await;
    let told = json!({"id": first["id"], "object": "response", "deleted": true});
    assert_eq!(delete(&node, &first).await, (200, told));
    node.kill();
    let node = Node::demo(folder.path()).await;
    let named = json!([{"role": "user", "content": "x"},
        {"type": "item_reference", "id": first["output"][0]["id"]}]);
    let keyed = body(node.ask(Method::POST, RESPONSES).header(key.0, key.1), &asked("hello"));
    for (what, (status, told)) in [
        ("read", get(&node, &first).await),
        ("deleted again", delete(&node, &first).await),
        ("gone on from", node.post(RESPONSES, &then).await),
        ("asked for again under its key", answer(keyed).await),
        ("named by an item", node.post(RESPONSES, &asked(named)).await),
    ] {
        let expected = if what == "named by an item" { 400 } else { 404 };
        assert_eq!(
            (status, &told["error"]["type"]),
            (expected, &json!("invalid_request_error")),
            "{what}: {told}"
        );
    }
    // What went on from it holds its words, and goes on.
    assert_eq!(get(&node, &second).await, (200, second.clone()));
    let third = with(asked("so"), json!({"previous_response_id": second["id"]}));
    assert_eq!(ok(&node, &third).await["status"], "completed");
    // The audit has what was said, that it was taken back, and by whom.
    let journal = node.journal(run).await;
    let last = journal.last().unwrap();
    assert_eq!(
        (&last["entries"][0]["event"], &last["causes"][0]["actor"]),
        (&json!("run.withheld"), &json!("admin"))
    );
    assert!(json!(journal).to_string().contains("You said: hello"), "{journal:?}");
    let (_, after) = node.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(after, before, "a run is as it was, and ended when it did");
    let (status, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!((status, &replayed["ok"]), (200, &json!(true)), "{replayed}");
    let unkept = ok(&node, &with(asked("hello"), json!({"store": false}))).await;
    assert_eq!(delete(&node, &unkept).await.0, 404);
}

#[tokio::test]
async fn a_response_that_is_deleted_while_it_is_worked_on_is_stopped() {
    let (_folder, node) = node().await;
    let request = with(asked("slow 2000"), json!({"stream": true}));
    let mut open = Events::open(body(node.ask(Method::POST, RESPONSES), &request)).await;
    let created = open.next().await.unwrap().data["response"].clone();
    assert_eq!(get(&node, &created).await.1["status"], "in_progress");
    assert_eq!(delete(&node, &created).await.0, 200);
    let rest = open.rest().await;
    assert_eq!(rest.last().unwrap().name, "response.failed", "{rest:?}");
    assert_eq!((get(&node, &created).await.0, delete(&node, &created).await.0), (404, 404));
    let names = node.events(created["id"].as_str().unwrap().strip_prefix("resp_").unwrap()).await;
    let end = ["model_asked", "model_unknown", "finished", "withheld"];
    assert!(names.ends_with(&end.map(str::to_owned)), "{names:?}");
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_the_words_of_the_api() {
    let (_folder, node) = node().await;
    for (request, status, kind, part) in [
        (json!({"model": "demo"}), 400, "invalid_request_error", "input"),
        (with(asked("x"), json!({"background": true})), 400, "invalid_request_error", "background"),
        // Reasoning alone, and an assistant who said nothing, make no conversation.
        (
            asked(json!([{"type": "reasoning", "summary": []}])),
            400,
            "invalid_request_error",
            "input",
        ),
        (
            asked(json!([{"type": "message", "role": "assistant", "content": ""}])),
            400,
            "invalid_request_error",
            "input",
        ),
        (asked("fail 401"), 502, "server_error", "auth_invalid"),
        (json!({"model": "openai:x", "input": "x"}), 503, "server_error", "openai"),
    ] {
        let (told_status, told) = node.post(RESPONSES, &request).await;
        assert_eq!((told_status, &told["error"]["type"]), (status, &json!(kind)), "{told}");
        assert!(told["error"]["message"].as_str().unwrap().contains(part), "{told}");
    }
    let sent = node.ask(Method::POST, RESPONSES).header("x-piton-session-id", "s");
    let (status, told) = answer(body(sent, &asked("x"))).await;
    assert_eq!((status, &told["error"]["param"]), (400, &json!("x-piton-session-id")), "{told}");
    // Before the first piece an error is a status, after it the last two events.
    let events = streamed(&node, &asked("fail cut")).await;
    let [.., error, failed] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((error.name.as_str(), failed.name.as_str()), ("error", "response.failed"));
    assert_eq!(error.data["error"]["message"], error.data["message"]);
    let failed = &failed.data["response"];
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &error.data["code"])
    );
    let (_, kept) = get(&node, failed).await;
    assert_eq!(
        (&kept["status"], &kept["error"]["code"]),
        (&json!("failed"), &error.data["code"]),
        "{kept}"
    );
    let request = with(asked("x"), json!({"previous_response_id": failed["id"]}));
    let (status, told) = node.post(RESPONSES, &request).await;
    assert_eq!((status, &told["error"]["param"]), (400, &json!("previous_response_id")), "{told}");
}
