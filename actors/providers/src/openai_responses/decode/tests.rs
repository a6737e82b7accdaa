//! Streams and bodies of the family and its compatibles, cut and split at every byte.

use super::*;
use crate::decode::shredder::{self, Reading, shown_calls};
use crate::family::Family;
use events::message::{Part, ToolCall};

const FAMILY: Family = Family::OpenaiResponses;

/// Reasoning with two summaries, text and two calls whose pieces are mixed, as the family sends them.
const TEXT: &str = include_str!("text.sse");

fn stream(text: &str) -> Reading {
    shredder::whole(FAMILY, text)
}

/// A stream of these events and the end of a completed response with this output.
fn events_with(events: &[Value], output: &Value) -> String {
    let end = json!({ "type": "response.completed", "response": { "status": "completed", "output": output } });
    let event = |event: &Value| format!("data: {event}\n\n");
    events.iter().chain([&end]).map(event).collect()
}

fn events(given: &[Value]) -> String {
    events_with(given, &json!([]))
}

fn item(arguments: &str) -> Value {
    json!({ "type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": arguments })
}

fn added(index: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": index, "item": item })
}

fn done(index: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn piece(index: u64, id: &str, delta: &str) -> Value {
    json!({ "type": "response.function_call_arguments.delta", "output_index": index, "item_id": id, "delta": delta })
}

#[track_caller]
fn calls(text: &str, then: &[(&str, &str)]) {
    let reading = stream(text);
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
    assert_eq!(seal.family, "openai_responses");
    let sealed = r#"{"id":"rs_1","type":"reasoning", "encrypted_content":"gAAA-_x==","summary":[{"type":"summary_text","text":"Hm, über…"},{"type":"summary_text","text":"so."}],"n":1.50}"#;
    let call = |id: &str, name: &str, arguments: &str| {
        Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
    };
    let parts = vec![
        Part::Reasoning { text: "Hm, über…\n\nso.".into(), seal, sealed: Some(sealed.into()) },
        Part::Text { text: "héllo 日本🦀".into() },
        call("call_1", "get_weather", r#"{"city":"Tōkyō"}"#),
        call("call_2", "clock_now", "{}"),
    ];
    assert_eq!(answer.message, Message { role: Role::Assistant, name: None, parts });
    assert_eq!(answer.stop, Stop::ToolCalls);
    let usage = answer.usage;
    assert_eq!((usage.prompt, usage.completion), (Some(Tokens(30)), Some(Tokens(113))));
    assert_eq!((usage.cached_input, usage.cache_write), (Some(Tokens(20)), Some(Tokens(3))));
    assert_eq!(usage.reasoning, Some(Tokens(41)));
    assert_eq!(
        (answer.served_model.as_deref(), answer.request_id.as_deref()),
        (Some("gpt-m-1"), Some("resp_1"))
    );
    let text: String = reading
        .deltas
        .iter()
        .filter_map(
            |delta| if let Delta::Reasoning(more) = delta { Some(more.as_str()) } else { None },
        )
        .collect();
    assert_eq!(text, "Hm, über…\n\nso.");
}

#[test]
fn no_split_changes_the_reading() {
    shredder::shred(FAMILY, TEXT);
}

#[test]
fn every_cut_before_the_terminal_event_is_truncated_and_gives_no_call() {
    // The terminal event is the last, and a blank stands behind its data.
    shredder::cut(FAMILY, TEXT, TEXT.trim_end().len());
}

#[test]
fn no_changed_byte_makes_it_fall_over() {
    shredder::mangle(FAMILY, TEXT);
}

#[test]
fn items_count_as_they_are_finished() {
    let said = |text: &str| json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] });
    assert_eq!(stream(&events(&[done(0, said("all"))])).result.unwrap().message.plain(), "all");
    let whole = stream(&events_with(&[], &json!([said("all"), item("{\"x\":1}")])));
    assert_eq!(whole.deltas[0], Delta::Text("all".into()), "shown although it came in no piece");
    assert_eq!(whole.result.unwrap().stop, Stop::ToolCalls);
    // An item whose end is left out is finished by the response.
    let begun = [added(0, item("")), piece(0, "fc_1", "{\"x\"")];
    calls(&events_with(&begun, &json!([item("{\"x\":1}")])), &[("a", r#"{"x":1}"#)]);
    // A call that only the end of the response names is not lost beside what was finished before.
    calls(
        &events_with(&[done(0, said("all"))], &json!([said("all"), item("{\"x\":1}")])),
        &[("a", r#"{"x":1}"#)],
    );
    // An end that repeats no words takes none back.
    let words = json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "all" });
    let bare = json!({ "type": "message", "content": [] });
    let given = [added(0, bare.clone()), words, done(0, bare)];
    assert_eq!(stream(&events(&given)).result.unwrap().message.plain(), "all");
    let refused = json!({ "type": "message", "content": [{ "type": "refusal", "refusal": "no" }] });
    let answer = stream(&events(&[done(0, refused)])).result.unwrap();
    assert_eq!(answer.message.parts, [Part::Refusal { text: "no".into() }]);
}

#[test]
fn pieces_go_to_their_place_whatever_their_id() {
    calls(
        &events(&[
            added(0, item("")),
            piece(0, "another", "{\"x\""),
            piece(0, "yet another", ":1}"),
            done(0, item("{\"x\":1}")),
        ]),
        &[("a", r#"{"x":1}"#)],
    );
    let by_id = |mut event: Value| {
        event.as_object_mut().unwrap().remove("output_index");
        event
    };
    let given = [added(0, item("")), piece(0, "fc_1", "{}"), done(0, item("{}"))].map(by_id);
    calls(&events(&given), &[("a", "{}")]);
    calls(&events(&[added(0, item("")), done(0, item("{}")), done(0, item("{}"))]), &[("a", "{}")]);
    calls(&events(&[added(0, item("")), done(0, item(""))]), &[("a", "{}")]);
}

#[test]
fn a_call_that_is_not_what_it_was_loses_the_answer() {
    no_calls(&[piece(0, "fc_1", "{}")]);
    no_calls(&[added(0, item("")), piece(1, "fc_2", "{}"), done(0, item("{}"))]);
    no_calls(&[added(0, item("")), piece(0, "fc_1", "{\"x\":1}"), done(0, item("{\"x\":2}"))]);
    no_calls(&[added(0, item("")), piece(0, "fc_1", "{}")]);
    let other = json!({ "type": "function_call", "call_id": "b", "name": "f", "arguments": "{}" });
    no_calls(&[added(0, item("")), done(0, other)]);
    no_calls(&[added(0, item("")), done(0, json!({ "type": "message", "content": [] }))]);
    no_calls(&[done(0, json!({ "type": "function_call", "call_id": "b", "arguments": "{}" }))]);
    no_calls(&[done(0, item("{}")), piece(0, "fc_1", "{}")]);
}

#[test]
fn ids_that_are_missing_or_taken_are_made() {
    let unnamed = json!({ "type": "function_call", "name": "f", "arguments": "{}" });
    let given = events(&[done(0, item("{}")), done(1, item("{}")), done(2, unnamed)]);
    let answer = stream(&given).result.unwrap();
    let ids: Vec<&str> = answer.message.calls().map(|call| call.id.as_str()).collect();
    assert!(ids[0] == "a" && ids[1].starts_with("call_") && ids[2].starts_with("call_"), "{ids:?}");
    assert!(ids[1] != ids[2], "{ids:?}");
}

#[test]
fn errors_inside_a_stream_are_faults_in_each_of_their_shapes() {
    let nested =
        json!({ "type": "error", "error": { "code": "insufficient_quota", "message": "m" } });
    let flat = json!({ "type": "error", "code": "insufficient_quota", "message": "m" });
    let failed = json!({ "type": "response.failed", "response": { "status": "failed",
        "error": { "code": "insufficient_quota", "message": "m" }, "usage": { "input_tokens": 7 } } });
    let completed = json!({ "type": "response.completed", "response": { "status": "completed",
        "error": { "code": "insufficient_quota", "message": "m" } } });
    for event in [&nested, &flat, &failed, &completed] {
        let reading = stream(&events(std::slice::from_ref(event)));
        let Err(Fault::Reported { error, began: Began::No }) = reading.result else {
            panic!("{event}: {reading:?}")
        };
        assert_eq!(Envelope::of(&error).code, "insufficient_quota");
    }
    assert_eq!(stream(&events(&[failed])).usage.prompt, Some(Tokens(7)));
    let bare = json!({ "type": "response.failed", "response": {} });
    assert!(matches!(stream(&events(&[bare])).result, Err(Fault::Reported { .. })));
    let begun = stream(&events(&[added(0, item("")), flat])).result;
    assert!(matches!(begun, Err(Fault::Reported { began: Began::Yes, .. })), "{begun:?}");
}

#[test]
fn an_incomplete_response_says_why_and_keeps_what_came() {
    let cut = |reason: &str| {
        let begun = [added(0, item("")), piece(0, "fc_1", "{\"x\"")];
        let end = json!({ "type": "response.incomplete", "response": { "status": "incomplete",
            "incomplete_details": { "reason": reason }, "output": [] } });
        let text: String =
            begun.iter().chain([&end]).map(|event| format!("data: {event}\n\n")).collect();
        stream(&text).result.unwrap()
    };
    assert_eq!(cut("max_output_tokens").stop, Stop::Length);
    assert_eq!(cut("content_filter").stop, Stop::ContentFilter);
    assert_eq!(cut("steered").stop, Stop::Other("steered".into()));
    assert_eq!(cut("steered").message.calls().next().unwrap().arguments, "{\"x\"");
}

#[test]
fn a_mark_of_the_end_alone_ends_nothing() {
    assert_eq!(stream("data: [DONE]\n\n").result, Err(Fault::Truncated));
    assert_eq!(stream("").result, Err(Fault::Truncated));
    let after = format!("{TEXT}data: [DONE]\n\n");
    assert_eq!(stream(&after), stream(TEXT));
    assert_eq!(stream("data: <html>\n\n").result, Err(Fault::NotJson("a chunk")));
}

#[test]
fn a_whole_body_keeps_its_reasoning_byte_for_byte() {
    let thought =
        r#"{"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "g\u00e9"}"#;
    let body = format!(
        r#"{{"id":"resp_1","object":"response","status":"completed","error":null,"model":"m-1","output":[{thought},{{"type":"web_search_call","id":"ws_1"}},{{"type":"message","content":[{{"type":"output_text","text":"a"}},{{"type":"output_text","text":"b"}}]}}],"usage":{{"input_tokens":3,"output_tokens":4}}}}"#
    );
    let mut decoder = FAMILY.decoder(Bytes::new());
    decoder.body(body.as_bytes()).unwrap();
    let seal = shredder::endpoint(FAMILY).seal("m");
    let answer = decoder.finish(seal.clone(), Some("req_1".into()), &mut |_| ()).unwrap();
    let sealed = |sealed: &str| Part::Reasoning {
        text: String::new(),
        seal: seal.clone(),
        sealed: Some(sealed.into()),
    };
    let expected = [
        sealed(thought),
        sealed(r#"{"type":"web_search_call","id":"ws_1"}"#),
        Part::Text { text: "ab".into() },
    ];
    assert_eq!(answer.message.parts, expected);
    assert_eq!((answer.request_id.as_deref(), answer.stop), (Some("req_1"), Stop::End));
    let body = |text: &str| FAMILY.decoder(Bytes::new()).body(text.as_bytes());
    assert_eq!(body("<html>"), Err(Fault::NotJson("the body")));
    assert_eq!(body("{}"), Err(Fault::NoMessage));
    assert_eq!(body(r#"{"status":"queued","output":[]}"#), Err(Fault::Truncated));
    for failed in [
        r#"{"status":"failed","output":[],"error":{"code":"server_error"}}"#,
        r#"{"status":"cancelled","output":[]}"#,
        r#"{"detail":"no"}"#,
    ] {
        assert!(matches!(body(failed), Err(Fault::Reported { .. })), "{failed}");
    }
}

#[test]
fn reasoning_that_can_not_go_back_is_kept_for_reading_only() {
    let bare = json!({ "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "hm" }] });
    let answer = stream(&events(&[done(0, bare)])).result.unwrap();
    assert!(
        matches!(answer.message.parts.as_slice(), [Part::Reasoning { text, sealed: None, .. }] if text == "hm"),
        "{answer:?}"
    );
}
