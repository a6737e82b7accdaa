//! Streams and bodies of the family and its twins, cut and split at every byte.

use super::*;
use crate::decode::shredder::{self, Reading, shown_calls};
use crate::family::Family;
use events::message::{Part, ToolCall};
use events::quantity::Tokens;
use serde_json::json;

const FAMILY: Family = Family::AnthropicMessages;

/// Thinking, redacted thinking, text, a block of a later version and two calls, as the family sends them.
const TEXT: &str = include_str!("text.sse");

fn stream(text: &str) -> Reading {
    shredder::whole(FAMILY, text)
}

/// A stream of these events, ended as the family does.
fn events(events: &[Value]) -> String {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "content": [] } });
    let end = json!({ "type": "message_stop" });
    [&start].into_iter().chain(events).chain([&end]).map(event).collect()
}

fn begin(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn more(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn tool(id: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "f", "input": input })
}

fn input(text: &str) -> Value {
    json!({ "type": "input_json_delta", "partial_json": text })
}

fn end(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

#[track_caller]
fn calls(given: &[Value], then: &[(&str, &str)]) {
    let reading = stream(&events(given));
    let shown = shown_calls(&reading.deltas);
    let answer = reading.result.unwrap();
    let found: Vec<_> = answer
        .message
        .calls()
        .map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()))
        .collect();
    assert_eq!(shown, found, "what was shown live is what is recorded");
    let found: Vec<_> = found.iter().map(|(id, _, input)| (id.as_str(), input.as_str())).collect();
    assert_eq!(found, then);
    assert_eq!(answer.stop, Stop::ToolCalls);
}

#[track_caller]
fn no_calls(given: &[Value]) {
    let result = stream(&events(given)).result;
    assert!(matches!(result, Err(Fault::Call(_))), "{result:?}");
}

#[test]
fn a_stream_is_read_to_an_answer() {
    let reading = stream(TEXT);
    let answer = reading.result.unwrap();
    let seal = shredder::endpoint(FAMILY).seal("m");
    assert_eq!(seal.family, "anthropic_messages");
    let sealed = |text: &str, sealed: &str| Part::Reasoning {
        text: text.into(),
        seal: seal.clone(),
        sealed: Some(sealed.into()),
    };
    let call = |id: &str, name: &str, arguments: &str| {
        Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
    };
    let parts = vec![
        sealed("Hm, über…", r#"{"type":"thinking","thinking":"Hm, über…","signature":"c2ln+/="}"#),
        sealed("", r#"{"type":"redacted_thinking",  "data":"RW5j"}"#),
        Part::Text { text: "héllo 日本🦀".into() },
        sealed("", r#"{"type":"hologram","depth":1.50}"#),
        call("toolu_1", "get_weather", r#"{"city": "Tōkyō"}"#),
        call("toolu_2", "clock_now", "{}"),
    ];
    assert_eq!(answer.message, Message { role: Role::Assistant, name: None, parts });
    assert_eq!(answer.stop, Stop::ToolCalls);
    assert_eq!(
        (answer.usage.prompt, answer.usage.completion),
        (Some(Tokens(30)), Some(Tokens(113)))
    );
    assert_eq!(
        (answer.usage.cached_input, answer.usage.cache_write),
        (Some(Tokens(20)), Some(Tokens(3)))
    );
    assert_eq!(answer.usage.reasoning, Some(Tokens(41)));
    assert_eq!(
        (answer.served_model.as_deref(), answer.request_id.as_deref()),
        (Some("claude-m-1"), Some("msg_1"))
    );
    let first = [Delta::Reasoning("Hm, ".into()), Delta::Reasoning("über…".into())];
    assert_eq!(reading.deltas[..2], first);
}

#[test]
fn no_split_changes_the_reading() {
    shredder::shred(FAMILY, TEXT);
}

#[test]
fn every_cut_before_the_terminal_event_is_truncated_and_gives_no_call() {
    let terminal = r#"data: {"type":"message_stop" }"#;
    shredder::cut(FAMILY, TEXT, TEXT.find(terminal).unwrap() + terminal.len());
}

#[test]
fn no_changed_byte_makes_it_fall_over() {
    shredder::mangle(FAMILY, TEXT);
}

#[test]
fn pieces_of_two_open_calls_go_to_their_own() {
    calls(
        &[
            begin(0, tool("a", json!({}))),
            begin(1, tool("b", json!({}))),
            more(1, input("{\"y\"")),
            more(0, input("{\"x\":1")),
            more(1, input(":2}")),
            more(0, input("}")),
            end(1),
            end(0),
        ],
        &[("a", r#"{"x":1}"#), ("b", r#"{"y":2}"#)],
    );
}

#[test]
fn input_may_come_with_the_start_and_twice_only_if_it_is_the_same() {
    calls(&[begin(0, tool("a", json!({ "x": 1 }))), end(0)], &[("a", r#"{"x":1}"#)]);
    calls(
        &[begin(0, tool("a", json!({ "x": 1 }))), more(0, input("{ \"x\": 1}")), end(0)],
        &[("a", "{ \"x\": 1}")],
    );
    no_calls(&[begin(0, tool("a", json!({ "x": 1 }))), more(0, input("{\"x\":2}")), end(0)]);
}

#[test]
fn a_call_that_is_said_to_begin_twice_is_one_and_another_in_its_place_is_none() {
    let start = begin(0, tool("a", json!({})));
    calls(&[start.clone(), start.clone(), more(0, input("{}")), end(0)], &[("a", "{}")]);
    no_calls(&[start.clone(), begin(0, tool("b", json!({}))), more(0, input("{}")), end(0)]);
    no_calls(&[start, more(0, input("{\"x\"")), begin(0, tool("a", json!({})))]);
}

#[test]
fn what_fits_no_block_or_two_loses_the_answer() {
    no_calls(&[more(0, input("{}"))]);
    no_calls(&[begin(0, tool("a", json!({}))), end(0), more(0, input("{}"))]);
    no_calls(&[begin(0, json!({ "type": "text", "text": "" })), more(0, input("{}"))]);
    no_calls(&[begin(0, json!({ "type": "tool_use", "id": "a", "input": {} }))]);
    let bare = json!({ "type": "content_block_delta", "delta": input("{}") });
    no_calls(&[begin(0, tool("a", json!({}))), begin(1, tool("b", json!({}))), bare.clone()]);
    calls(&[begin(0, tool("a", json!({}))), bare, end(0)], &[("a", "{}")]);
}

#[test]
fn ids_that_are_missing_or_taken_are_made() {
    let given = events(&[
        begin(0, tool("a", json!({}))),
        end(0),
        begin(1, tool("a", json!({}))),
        end(1),
        begin(2, tool("", json!({}))),
        end(2),
    ]);
    let ids = |reading: Reading| {
        reading.result.unwrap().message.calls().map(|call| call.id.clone()).collect::<Vec<_>>()
    };
    let found = ids(stream(&given));
    assert_eq!(found, ids(stream(&given)), "always the same");
    assert_eq!(found[0], "a");
    assert!(
        found[1] != found[2] && found[1..].iter().all(|id| id.starts_with("call_")),
        "{found:?}"
    );
}

#[test]
fn a_text_without_a_start_and_a_message_that_is_said_twice_are_read() {
    let said = |text: &str| more(0, json!({ "type": "text_delta", "text": text }));
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "content": [] } });
    let reading = stream(&events(&[said("a"), start, said("b")]));
    assert_eq!(reading.result.unwrap().message.plain(), "ab");
    let whole = json!({ "type": "message_start", "message": { "id": "m",
        "content": [{ "type": "text", "text": "all" }] } });
    let text = format!("data: {whole}\n\ndata: {{\"type\":\"message_stop\"}}\n\n");
    assert_eq!(stream(&text).result.unwrap().message.plain(), "all");
}

#[test]
fn server_tools_are_kept_with_the_input_that_came_in_pieces() {
    let block = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    let reading = stream(&events(&[begin(0, block), more(0, input("{\"q\":1}")), end(0)]));
    let answer = reading.result.unwrap();
    let [Part::Reasoning { sealed: Some(sealed), .. }] = answer.message.parts.as_slice() else {
        panic!("{answer:?}")
    };
    let sealed: Value = serde_json::from_str(sealed).unwrap();
    assert_eq!(sealed["input"], json!({ "q": 1 }));
    assert_eq!(answer.stop, Stop::End, "the server runs it, not we");
}

#[test]
fn an_error_inside_a_stream_is_a_fault() {
    let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let said = more(0, json!({ "type": "text_delta", "text": "x" }));
    for (given, began) in
        [(vec![error.clone()], Began::No), (vec![said, error.clone()], Began::Yes)]
    {
        let reading = stream(&events(&given));
        assert_eq!(reading.result, Err(Fault::Reported { error: error.clone(), began }));
    }
    assert_eq!(stream("event: error\ndata: {\"message\":\"no\"}\n\n").usage, Usage::default());
    assert!(matches!(
        stream("event: error\ndata: {\"message\":\"no\"}\n\n").result,
        Err(Fault::Reported { .. })
    ));
}

#[test]
fn why_it_stopped_is_told_in_neutral_words() {
    let stopped = |reason: &str| {
        let delta = json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
        stream(&events(&[more(0, json!({ "type": "text_delta", "text": "x" })), delta]))
            .result
            .unwrap()
            .stop
    };
    for reason in ["end_turn", "stop_sequence", "tool_use"] {
        assert_eq!(stopped(reason), Stop::End);
    }
    assert_eq!(stopped("max_tokens"), Stop::Length);
    assert_eq!(stopped("model_context_window_exceeded"), Stop::Length);
    assert_eq!(stopped("refusal"), Stop::ContentFilter);
    assert_eq!(stopped("pause_turn"), Stop::Other("pause_turn".into()));
}

#[test]
fn a_whole_body_keeps_its_blocks_byte_for_byte() {
    let thought = r#"{"signature": "s/+=", "thinking": "h\u00e9", "type": "thinking"}"#;
    let body = format!(
        r#"{{"id":"msg_1","type":"message","model":"m-1","content":[{thought},{{"type":"text","text":"so"}},{{"type":"tool_use","id":"a","name":"f","input":{{"b": 1.50}}}}],"stop_reason":"tool_use","usage":{{"input_tokens":3,"output_tokens":4}}}}"#
    );
    let mut decoder = FAMILY.decoder(Bytes::new());
    decoder.body(body.as_bytes()).unwrap();
    let seal = shredder::endpoint(FAMILY).seal("m");
    let answer = decoder.finish(seal.clone(), Some("req_1".into()), &mut |_| ()).unwrap();
    let expected = [
        Part::Reasoning { text: "hé".into(), seal, sealed: Some(thought.into()) },
        Part::Text { text: "so".into() },
        Part::ToolCall(ToolCall {
            id: "a".into(),
            name: "f".into(),
            arguments: r#"{"b": 1.50}"#.into(),
        }),
    ];
    assert_eq!(answer.message.parts, expected);
    assert_eq!((answer.request_id.as_deref(), answer.stop), (Some("req_1"), Stop::ToolCalls));
    let body = |text: &str| FAMILY.decoder(Bytes::new()).body(text.as_bytes());
    assert_eq!(body("<html>"), Err(Fault::NotJson("the body")));
    assert_eq!(body("{}"), Err(Fault::NoMessage));
    assert!(matches!(body(r#"{"type":"error","error":{}}"#), Err(Fault::Reported { .. })));
}

#[test]
fn an_end_alone_is_no_answer() {
    assert_eq!(stream("data: {\"type\":\"message_stop\"}\n\n").result, Err(Fault::NoMessage));
    assert_eq!(stream("").result, Err(Fault::Truncated));
    assert_eq!(stream("data: <html>\n\n").result, Err(Fault::NotJson("a chunk")));
}

/// A twin that begins texts without saying so has no more blocks than another.
#[test]
fn texts_that_begin_unsaid_are_bounded() {
    let piece = |index: usize| {
        let event = serde_json::json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": "a"}});
        format!("event: content_block_delta\ndata: {event}\n\n")
    };
    let (begin, _) = TEXT.split_once("event: content_block_start").unwrap();
    let text: String = (0..=crate::decode::PARTS_MAX).map(piece).collect();
    let result = stream(&format!("{begin}{text}")).result;
    assert!(matches!(result, Err(Fault::Call(_))), "{result:?}");
}
