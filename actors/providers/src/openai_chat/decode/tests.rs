//! Streams and bodies as compatibles send them, cut and split at every byte.

use super::*;
use crate::decode::shredder::{self, Reading, shown_calls};
use crate::family::Family;
use events::message::ToolCall;
use events::quantity::Tokens;
use serde_json::json;

const FAMILY: Family = Family::OpenaiChat;

fn stream(text: &str) -> Reading {
    shredder::whole(FAMILY, text)
}

/// A stream of these choices, ended as the family does.
fn chunks(choices: &[Value]) -> String {
    let chunk = |choice: &Value| {
        format!("data: {}\n\n", json!({ "id": "cmpl-1", "model": "m-1", "choices": [choice] }))
    };
    choices.iter().map(chunk).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn calls_of(deltas: &[Value]) -> Result<Vec<(String, String, String)>, Fault> {
    let mut choices: Vec<Value> =
        deltas.iter().map(|d| json!({ "index": 0, "delta": { "tool_calls": d } })).collect();
    choices.push(json!({ "index": 0, "delta": {}, "finish_reason": "tool_calls" }));
    let reading = stream(&chunks(&choices));
    let shown = shown_calls(&reading.deltas);
    let answer = reading.result?;
    let found: Vec<_> = answer
        .message
        .calls()
        .map(|c| (c.id.clone(), c.name.clone(), c.arguments.clone()))
        .collect();
    assert_eq!(shown, found, "what was shown live is what is recorded");
    Ok(found)
}

#[track_caller]
fn calls(deltas: &[Value], then: &[(&str, &str, &str)]) {
    let found = calls_of(deltas).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(id, name, arguments)| (id.as_str(), name.as_str(), arguments.as_str()))
        .collect();
    assert_eq!(found, then);
}

#[track_caller]
fn no_calls(deltas: &[Value]) {
    assert!(matches!(calls_of(deltas), Err(Fault::Call(_))), "{:?}", calls_of(deltas));
}

#[test]
fn pieces_are_put_together_by_index() {
    calls(
        &[
            json!([{ "index": 0, "id": "a", "type": "function", "function": { "name": "f", "arguments": "" } }]),
            json!([{ "index": 1, "id": "b", "function": { "name": "g", "arguments": "" } }]),
            json!([{ "index": 0, "function": { "arguments": "{\"x\":" } }, { "index": 1, "function": { "arguments": "{\"y" } }]),
            json!([{ "index": 1, "function": { "arguments": "\":2}" } }, { "index": 0, "function": { "arguments": "1}" } }]),
        ],
        &[("a", "f", r#"{"x":1}"#), ("b", "g", r#"{"y":2}"#)],
    );
}

#[test]
fn repeated_ids_and_names_are_one_call() {
    calls(
        &[
            json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":" } }]),
            json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "1" } }]),
            json!([{ "index": 0, "id": "", "function": { "name": "f", "arguments": "}" } }]),
            json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "" } }]),
        ],
        &[("a", "f", r#"{"x":1}"#)],
    );
}

#[test]
fn whole_calls_without_an_index_are_told_apart_by_id() {
    calls(
        &[json!([
            { "id": "a", "function": { "name": "f", "arguments": "{\"x\":1}" } },
            { "id": "b", "function": { "name": "f", "arguments": "{\"x\":2}" } },
        ])],
        &[("a", "f", r#"{"x":1}"#), ("b", "f", r#"{"x":2}"#)],
    );
    calls(
        &[
            json!([{ "id": "a", "function": { "name": "f", "arguments": "{}" } }]),
            json!([{ "id": "b", "function": { "name": "f", "arguments": "{}" } }]),
        ],
        &[("a", "f", "{}"), ("b", "f", "{}")],
    );
}

#[test]
fn pieces_without_an_index_go_to_their_id_or_to_the_only_open_call() {
    calls(
        &[
            json!([{ "id": "a", "function": { "name": "f", "arguments": "{\"x\"" } }]),
            json!([{ "id": "b", "function": { "name": "g", "arguments": "{\"y\"" } }]),
            json!([{ "id": "a", "function": { "arguments": ":1}" } }]),
            json!([{ "id": "b", "function": { "arguments": ":2}" } }]),
        ],
        &[("a", "f", r#"{"x":1}"#), ("b", "g", r#"{"y":2}"#)],
    );
    calls(
        &[
            json!([{ "id": "a", "function": { "name": "f", "arguments": "{\"x\":1}" } }]),
            json!([{ "id": "b", "function": { "name": "g", "arguments": "{\"y\"" } }]),
            json!([{ "function": { "arguments": ":2}" } }]),
        ],
        &[("a", "f", r#"{"x":1}"#), ("b", "g", r#"{"y":2}"#)],
    );
}

#[test]
fn pieces_that_may_belong_to_two_calls_lose_the_answer() {
    let open =
        |id: &str, name: &str| json!([{ "id": id, "function": { "name": name, "arguments": "" } }]);
    let bare = |arguments: &str| json!([{ "function": { "arguments": arguments } }]);
    no_calls(&[
        open("a", "f"),
        open("b", "g"),
        bare("{\"ci"),
        bare("{\"t"),
        bare("ty\":1}"),
        bare("z\":2}"),
    ]);
    no_calls(&[bare("{}")]);
    let zero =
        |id: &str| json!([{ "index": 0, "id": id, "function": { "name": "f", "arguments": "{" } }]);
    no_calls(&[zero("a"), zero("b"), json!([{ "index": 0, "function": { "arguments": "}" } }])]);
    no_calls(&[
        json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":1}" } }]),
        json!([{ "index": 0, "function": { "arguments": "{\"y\":2}" } }]),
    ]);
    no_calls(&[json!([{ "index": 0, "id": "a", "function": { "arguments": "{}" } }])]);
}

#[test]
fn index_zero_for_every_call_glues_nothing() {
    calls(
        &[
            json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":1}" } }]),
            json!([{ "index": 0, "id": "b", "function": { "name": "f", "arguments": "{\"x\"" } }]),
            json!([{ "index": 0, "function": { "arguments": ":2}" } }]),
        ],
        &[("a", "f", r#"{"x":1}"#), ("b", "f", r#"{"x":2}"#)],
    );
    let whole = |name: &str, x: i32| json!([{ "index": 0, "function": { "name": name, "arguments": format!("{{\"x\":{x}}}") } }]);
    let found = calls_of(&[whole("f", 1), whole("f", 2), whole("g", 3)]).unwrap();
    let named: Vec<_> =
        found.iter().map(|(_, name, arguments)| (name.as_str(), arguments.as_str())).collect();
    assert_eq!(named, [("f", r#"{"x":1}"#), ("f", r#"{"x":2}"#), ("g", r#"{"x":3}"#)]);
}

#[test]
fn an_id_that_is_missing_or_taken_is_made_and_always_the_same() {
    let without = [
        json!([{ "function": { "name": "f", "arguments": "{}" } }, { "function": { "name": "f", "arguments": "{}" } }]),
    ];
    let (first, again) = (calls_of(&without).unwrap(), calls_of(&without).unwrap());
    assert_eq!(first, again);
    assert_ne!(first[0].0, first[1].0);
    assert!(first.iter().all(|(id, _, _)| id.starts_with("call_") && id.len() == 29), "{first:?}");
    let taken = [json!([
        { "index": 0, "id": "a", "function": { "name": "f", "arguments": "{}" } },
        { "index": 1, "id": "a", "function": { "name": "g", "arguments": "{}" } },
    ])];
    let found = calls_of(&taken).unwrap();
    assert_eq!((found[0].0.as_str(), found.len()), ("a", 2));
    assert_ne!(found[1].0, "a");
}

#[test]
fn an_empty_object_may_be_a_placeholder() {
    let open = json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{}" } }]);
    let more = |text: &str| json!([{ "index": 0, "function": { "arguments": text } }]);
    calls(&[open.clone(), more("{\"x\""), more(":1}")], &[("a", "f", r#"{"x":1}"#)]);
    calls(&[open.clone(), more("")], &[("a", "f", "{}")]);
    let whole =
        json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":1}" } }]);
    calls(&[whole.clone(), whole], &[("a", "f", r#"{"x":1}"#)]);
}

#[test]
fn arguments_may_come_as_an_object() {
    calls(
        &[
            json!([{ "index": "0", "id": "a", "function": { "name": "f", "arguments": { "x": "}{" } } }]),
        ],
        &[("a", "f", r#"{"x":"}{"}"#)],
    );
    calls(
        &[json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": null } }])],
        &[("a", "f", "")],
    );
    calls(
        &[json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "not json" } }])],
        &[("a", "f", "not json")],
    );
}

#[test]
fn braces_inside_text_do_not_end_arguments() {
    calls(
        &[
            json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"x\":\"}\\\"}" } }]),
            json!([{ "index": 0, "function": { "arguments": "{\"}" } }]),
        ],
        &[("a", "f", r#"{"x":"}\"}{"}"#)],
    );
}

const TEXT: &str = concat!(
    ": keep-alive\n\n",
    "data: {\"id\":\"cmpl-1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"héllo \"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"日本🦀\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":0}}\n\n",
    "data: [DONE]\n\n",
);

#[test]
fn a_stream_is_read_to_an_answer() {
    let reading = stream(TEXT);
    let answer = reading.result.unwrap();
    let seal = Seal {
        family: "openai_chat".into(),
        endpoint: "http://127.0.0.1:1/v1".into(),
        profile: String::new(),
        model: "m".into(),
    };
    let call = ToolCall { id: "a".into(), name: "f".into(), arguments: r#"{"x":1}"#.into() };
    let parts = vec![
        Part::Reasoning { text: "hm".into(), seal, sealed: None },
        Part::Text { text: "héllo 日本🦀".into() },
        Part::ToolCall(call),
    ];
    assert_eq!(answer.message, Message { role: Role::Assistant, name: None, parts });
    assert_eq!(answer.stop, Stop::ToolCalls, "calls came, whatever the reason says");
    assert_eq!((answer.usage.prompt, answer.usage.completion), (Some(Tokens(12)), Some(Tokens(0))));
    assert_eq!(
        (answer.served_model.as_deref(), answer.request_id.as_deref()),
        (Some("m-1"), Some("cmpl-1"))
    );
    let text = |text: &str| Delta::Text(text.into());
    assert_eq!(
        reading.deltas[..3],
        [Delta::Reasoning("hm".into()), text("héllo "), text("日本🦀")]
    );
}

#[test]
fn no_split_changes_the_reading() {
    shredder::shred(FAMILY, TEXT);
}

#[test]
fn every_cut_before_the_terminal_event_is_truncated_and_gives_no_call() {
    shredder::cut(FAMILY, TEXT, TEXT.find("\"stop\"}]}").unwrap() + "\"stop\"}]}".len());
}

#[test]
fn no_changed_byte_makes_it_fall_over() {
    shredder::mangle(FAMILY, TEXT);
}

#[test]
fn done_alone_ends_a_stream_and_a_finish_reason_alone_does_too() {
    let said = json!({ "index": 0, "delta": { "content": "x" } });
    assert_eq!(stream(&chunks(std::slice::from_ref(&said))).result.unwrap().stop, Stop::End);
    let finished = chunks(&[said, json!({ "index": 0, "delta": {}, "finish_reason": "length" })])
        .replace("data: [DONE]\n\n", "");
    assert_eq!(stream(&finished).result.unwrap().stop, Stop::Length);
    assert_eq!(stream("data: [DONE]\n\n").result, Err(Fault::NoMessage));
    assert_eq!(stream("").result, Err(Fault::Truncated));
    assert_eq!(stream("<html></html>\n\n").result, Err(Fault::Truncated));
}

#[test]
fn errors_inside_a_stream_are_faults() {
    let begun = chunks(&[json!({ "index": 0, "delta": { "content": "x" } })])
        .replace("data: [DONE]\n\n", "");
    let began = |text: &str| match stream(text).result {
        Err(Fault::Reported { began, .. }) => began,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(began("data: {\"error\":{\"message\":\"m\"}}\n\n"), Began::No);
    assert_eq!(began("event: error\ndata: {\"message\":\"m\"}\n\n"), Began::No);
    assert_eq!(
        began(&format!("{begun}data: {{\"error\":{{\"code\":429}}}}\n\ndata: [DONE]\n\n")),
        Began::Yes
    );
    assert_eq!(
        began(&format!("{begun}data: {{\"choices\":[{{\"finish_reason\":\"error\"}}]}}\n\n")),
        Began::Yes
    );
    assert_eq!(
        began(&format!("{begun}data: {{\"choices\":[{{\"error\":{{\"code\":502}}}}]}}\n\n")),
        Began::Yes
    );
    assert_eq!(
        stream(&format!("{begun}data: {{oops\n\ndata: [DONE]\n\n")).result,
        Err(Fault::NotJson("a chunk"))
    );
    let used = "data: {\"error\":{},\"usage\":{\"prompt_tokens\":3},\"choices\":[]}\n\n";
    assert_eq!(stream(used).usage.prompt, Some(Tokens(3)), "what was used until then is kept");
}

#[test]
fn odd_chunks_are_tolerated() {
    let text = concat!(
        "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\",\"reasoning_content\":\"a\",\"content\":\"\"}}],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},\"usage\":{\"prompt_tokens\":2}}]}\n\n",
        "data: 7\n\ndata: \n\n",
        "data: {\"choices\":[{\"delta\":{\"refusal\":\"no\"},\"finish_reason\":\"weird\"}]}\n\n",
    );
    let answer = stream(text).result.unwrap();
    assert_eq!(answer.stop, Stop::Other("weird".into()));
    assert_eq!(answer.usage.prompt, Some(Tokens(2)));
    assert!(
        matches!(answer.message.parts.as_slice(), [Part::Reasoning { text: a, .. }, Part::Text { text: b }, Part::Refusal { text: c }] if a == "a" && b == "b" && c == "no")
    );
    let message = "data: {\"choices\":[{\"message\":{\"content\":\"whole\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(stream(message).result.unwrap().message.plain(), "whole");
}

#[test]
fn usage_is_taken_from_whichever_chunk_has_it_and_the_last_one_wins() {
    let chunk = |usage: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}}}}],\"usage\":{usage}}}\n\n"
        )
    };
    // With the last words, not behind them; and once before, smaller.
    let text = [
        chunk(r#"{"prompt_tokens":16000,"completion_tokens":1}"#),
        chunk(r#"{"prompt_tokens":16000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":15000}}"#),
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_owned(),
    ];
    let usage = shredder::whole(Family::OpenaiChat, &text.concat()).result.unwrap().usage;
    let then = [usage.prompt, usage.completion, usage.cached_input].map(|count| count.unwrap().0);
    assert_eq!(then, [16_000, 2, 15_000]);
}

#[test]
fn an_endless_answer_is_cut_off() {
    let piece = "x".repeat(1 << 20);
    let chunk = json!({ "index": 0, "delta": { "content": piece } });
    assert_eq!(stream(&chunks(&vec![chunk; 17])).result, Err(Fault::TooLong));
    let arguments =
        json!([{ "index": 0, "id": "a", "function": { "name": "f", "arguments": piece } }]);
    assert_eq!(calls_of(&vec![arguments; 17]), Err(Fault::TooLong));
}

fn body(root: &Value) -> Result<Answer, Fault> {
    let mut decoder = Reader::new(Bytes::from_static(b"request"));
    decoder.body(root.to_string().as_bytes())?;
    decoder.finish(shredder::endpoint(FAMILY).seal("m"), Some("req_1".into()), &mut |_| ())
}

#[test]
fn a_whole_body_is_read() {
    let call = |id: Option<&str>, x: i32| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": format!("{{\"x\":{x}}}") } });
    let root = json!({
        "id": "cmpl-1", "model": "m-1", "error": null,
        "choices": [{ "index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": null, "reasoning": "hm",
            "tool_calls": [call(Some("a"), 1), call(Some("a"), 2), call(None, 1)],
        } }],
        "usage": { "prompt_tokens": 4, "completion_tokens": 5 },
    });
    let answer = body(&root).unwrap();
    assert_eq!((answer.stop, answer.usage.prompt), (Stop::ToolCalls, Some(Tokens(4))));
    assert_eq!(answer.request_id.as_deref(), Some("req_1"));
    let calls: Vec<&ToolCall> = answer
        .message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
        .collect();
    let arguments: Vec<&str> = calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":2}"#, r#"{"x":1}"#]);
    assert_eq!(
        calls.iter().map(|call| &call.id).collect::<std::collections::BTreeSet<_>>().len(),
        3
    );
}

#[test]
fn a_body_that_says_nothing_is_told_from_one_that_says_no() {
    let nothing =
        json!({ "choices": [{ "message": { "content": null }, "finish_reason": "stop" }] });
    assert_eq!(body(&nothing).unwrap().message.parts, []);
    assert_eq!(body(&json!({ "choices": [] })), Err(Fault::NoMessage));
    assert_eq!(body(&json!({ "choices": [{ "index": 0 }] })), Err(Fault::NoMessage));
    assert!(matches!(
        body(&json!({ "error": { "message": "m" } })),
        Err(Fault::Reported { began: Began::No, .. })
    ));
    assert!(matches!(
        body(&json!({ "choices": [{ "error": { "code": 502 }, "message": {} }] })),
        Err(Fault::Reported { .. })
    ));
    assert_eq!(Reader::new(Bytes::new()).body(b"<html>"), Err(Fault::NotJson("the body")));
}
