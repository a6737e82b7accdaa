//! Streams as they are and as they should not be.

use crate::class::Began;
use crate::decode::shredder::endpoint;
use crate::decode::shredder::{Reading, cut, mangle, shown_calls, shred, whole};
use crate::decode::{Fault, Progress};
use crate::delta::{Answer, Delta, Stop};
use crate::family::Family;
use bytes::Bytes;
use events::message::{Part, ToolCall};
use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::{Value, json};

const SIGNATURE: &str = "EpwICp+/kIAXLI2nxl==";

/// A stream of these responses.
fn stream(responses: &[Value]) -> String {
    responses.iter().map(|response| format!("data: {response}\n\n")).collect()
}

fn parts(parts: &Value) -> Value {
    json!({
        "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }],
        "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3 },
        "modelVersion": "gemini-3-pro", "responseId": "r1",
    })
}

fn end(reason: &str) -> Value {
    json!({
        "candidates": [{ "content": { "parts": [{ "text": "" }] }, "finishReason": reason, "index": 0 }],
        "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 7, "thoughtsTokenCount": 3, "cachedContentTokenCount": 0 },
    })
}

fn read(given: &[Value]) -> Reading {
    whole(Family::Gemini, &stream(given))
}

fn call(id: Option<&str>, args: &Value) -> Value {
    json!({ "functionCall": { "name": "f", "id": id, "args": args }, "thoughtSignature": id.map(|_| SIGNATURE) })
}

fn calls(answer: &Answer) -> Vec<ToolCall> {
    answer.message.calls().cloned().collect()
}

fn rich() -> Vec<Value> {
    vec![
        parts(&json!([{ "text": "I **think** é", "thought": true }])),
        parts(&json!([{ "text": " more", "thought": true }])),
        parts(&json!([{ "text": "日本 " }])),
        parts(&json!([{ "text": "🦀" }])),
        parts(
            &json!([call(Some("u1"), &json!({ "city": "Kairo" })), { "functionCall": { "name": "g", "args": {} } }]),
        ),
        end("STOP"),
    ]
}

#[test]
fn a_stream_is_read_with_its_signatures_where_they_belong() {
    let Reading { result, usage, deltas } = read(&rich());
    let answer = result.unwrap();
    let seal = endpoint(Family::Gemini).seal("m");
    let [thought, words, signature, one, two] =
        <[Part; 5]>::try_from(answer.message.parts.clone()).unwrap();
    assert_eq!(
        thought,
        Part::Reasoning { text: "I **think** é more".into(), seal: seal.clone(), sealed: None }
    );
    assert_eq!(words, Part::Text { text: "日本 🦀".into() });
    let sealed = Some(format!(r#"{{"thoughtSignature":"{SIGNATURE}"}}"#));
    assert_eq!(signature, Part::Reasoning { text: String::new(), seal, sealed });
    let arguments = r#"{"city":"Kairo"}"#.to_owned();
    assert_eq!(one, Part::ToolCall(ToolCall { id: "u1".into(), name: "f".into(), arguments }));
    assert!(
        matches!(&two, Part::ToolCall(call) if call.id.starts_with("call_") && call.name == "g")
    );
    assert_eq!(
        (answer.stop.clone(), answer.served_model.as_deref()),
        (Stop::ToolCalls, Some("gemini-3-pro"))
    );
    assert_eq!(answer.request_id.as_deref(), Some("r1"));
    let then = Usage {
        prompt: Some(Tokens(9)),
        completion: Some(Tokens(10)),
        cached_input: Some(Tokens(0)),
        reasoning: Some(Tokens(3)),
        ..Usage::default()
    };
    assert_eq!((usage, answer.usage), (then, then));
    let shown: Vec<_> = calls(&answer).into_iter().map(|c| (c.id, c.name, c.arguments)).collect();
    assert_eq!(shown_calls(&deltas), shown);
    assert_eq!(deltas[0], Delta::Reasoning("I **think** é".into()));
}

#[test]
fn every_split_and_dress_gives_the_same_and_every_cut_is_truncated() {
    let text = stream(&rich());
    shred(Family::Gemini, &text);
    cut(Family::Gemini, &text, text.trim_end().len());
    mangle(Family::Gemini, &stream(&[rich().remove(4), end("STOP")]));
}

#[test]
fn calls_that_come_whole_are_never_put_together() {
    let twice = call(Some("u1"), &json!({ "x": 1 }));
    let bare = json!({ "functionCall": { "name": "f" } });
    let given = [parts(&json!([twice, twice])), parts(&json!([bare, bare])), end("STOP")];
    let found = calls(&read(&given).result.unwrap());
    let arguments: Vec<&str> = found.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":1}"#, "{}", "{}"]);
    let ids: std::collections::BTreeSet<&str> = found.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 4);
    assert_eq!(calls(&read(&given).result.unwrap()), found, "ids are the same each time");
}

#[test]
fn arguments_stay_as_they_were_written() {
    let raw = r#"{"big": 12345678901234567890123, "a": 1.10, "z":{"b":[1 ,2]}}"#;
    let text = format!(
        "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"f\",\"args\":{raw}}}}}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
    );
    let answer = whole(Family::Gemini, &text).result.unwrap();
    assert_eq!(calls(&answer)[0].arguments, raw);
}

#[test]
fn a_signature_keeps_its_part_to_itself() {
    let given = [
        parts(&json!([{ "text": "a" }])),
        parts(&json!([{ "text": "b", "thoughtSignature": "S1" }])),
        parts(&json!([{ "text": "c" }])),
        parts(&json!([{ "text": "t", "thought": true, "thoughtSignature": "S2" }])),
        parts(&json!([{ "text": "", "thoughtSignature": "S3" }])),
        end("STOP"),
    ];
    let shape = |part: &Part| match part {
        Part::Text { text } => text.clone(),
        Part::Reasoning { text, sealed, .. } => {
            format!("{text}{}", sealed.clone().unwrap_or_default())
        }
        other => panic!("{other:?}"),
    };
    let answer = read(&given).result.unwrap();
    let found: Vec<String> = answer.message.parts.iter().map(shape).collect();
    let then = [
        "a",
        r#"{"thoughtSignature":"S1"}"#,
        "b",
        "c",
        r#"t{"thoughtSignature":"S2"}"#,
        r#"{"text":"","thoughtSignature":"S3"}"#,
    ];
    assert_eq!(found, then);
}

#[test]
fn an_answer_stops_for_a_reason() {
    let stop =
        |reason: &str| read(&[parts(&json!([{ "text": "x" }])), end(reason)]).result.unwrap().stop;
    assert_eq!(stop("STOP"), Stop::End);
    assert_eq!(stop("MAX_TOKENS"), Stop::Length);
    for filter in ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"]
    {
        assert_eq!(stop(filter), Stop::ContentFilter, "{filter}");
    }
    assert_eq!(stop("LANGUAGE"), Stop::Other("LANGUAGE".into()));
    let malformed = read(&[end("MALFORMED_FUNCTION_CALL")]).result;
    assert!(matches!(malformed, Err(Fault::Call(_))));
    let unspecified = read(&[parts(&json!([{ "text": "x" }])), end("FINISH_REASON_UNSPECIFIED")]);
    assert_eq!(unspecified.result, Err(Fault::Truncated));
}

#[track_caller]
fn reported(given: &[Value], began: Began, about: &str) {
    match read(given).result {
        Err(Fault::Reported { error, began: found }) => {
            assert_eq!(found, began);
            assert!(error.to_string().contains(about), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_inside_a_success_are_errors() {
    let error =
        json!({ "error": { "code": 503, "message": "overloaded", "status": "UNAVAILABLE" } });
    reported(std::slice::from_ref(&error), Began::No, "UNAVAILABLE");
    reported(&[parts(&json!([{ "text": "x" }])), json!([error])], Began::Yes, "UNAVAILABLE");
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" }, "usageMetadata": { "promptTokenCount": 4 } });
    reported(std::slice::from_ref(&blocked), Began::No, "content_filter");
    assert_eq!(read(&[blocked]).usage.prompt, Some(Tokens(4)));
    reported(&[end("MISSING_THOUGHT_SIGNATURE")], Began::No, "missing_thought_signature");
}

#[test]
fn odd_calls_are_refused() {
    for (part, about) in [
        (json!({ "functionCall": { "args": {} } }), "no name"),
        (json!({ "functionCall": { "name": "f", "args": "text" } }), "no object"),
        (json!({ "functionCall": { "name": "f", "willContinue": true } }), "pieces"),
        (json!({ "functionCall": { "name": "f", "partialArgs": [{}] } }), "pieces"),
    ] {
        let result = read(&[parts(&json!([part])), end("STOP")]).result;
        assert!(matches!(&result, Err(Fault::Call(words)) if words.contains(about)), "{result:?}");
    }
    let many: Vec<Value> = (0..600).map(|_| json!({ "functionCall": { "name": "f" } })).collect();
    assert!(matches!(read(&[parts(&many.into())]).result, Err(Fault::Call(_))));
}

#[test]
fn what_is_not_known_is_kept_or_stepped_over() {
    let picture = json!({ "inlineData": { "mimeType": "image/png", "data": "AA" } });
    let given = [
        json!({ "someday": true }),
        parts(&json!([picture, {}, 7, null])),
        json!({ "candidates": [{ "index": 1, "content": { "parts": [{ "text": "other" }] } }] }),
        json!({ "candidates": "odd" }),
        end("STOP"),
    ];
    assert_eq!(read(&given).result.unwrap().message.parts, [Part::Opaque(picture)]);
}

#[test]
fn an_endless_answer_is_cut_off() {
    let piece = parts(&json!([{ "text": "x".repeat(1 << 20) }]));
    assert_eq!(read(&vec![piece; 17]).result, Err(Fault::TooLong));
}

fn body(body: &str) -> Result<Answer, Fault> {
    let mut decoder = Family::Gemini.decoder(Bytes::from_static(b"request"));
    decoder.body(body.as_bytes())?;
    decoder.finish(endpoint(Family::Gemini).seal("m"), Some("req_1".into()), &mut |_| ())
}

#[test]
fn a_whole_body_is_read() {
    let root = json!({
        "candidates": [{ "content": { "parts": [{ "text": "all" }, call(Some("u1"), &json!({ "x": 1 }))] }, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 2, "candidatesTokenCount": 3 },
    });
    let answer = body(&root.to_string()).unwrap();
    assert_eq!((answer.message.plain().as_str(), &answer.stop), ("all", &Stop::ToolCalls));
    assert_eq!(
        (answer.usage.prompt, answer.request_id.as_deref()),
        (Some(Tokens(2)), Some("req_1"))
    );
    // A stream that comes as one array says the same as its events.
    let all: Vec<Value> = rich();
    let array = body(&Value::from(all.clone()).to_string()).unwrap();
    assert_eq!(array.message, read(&all).result.unwrap().message);
    let cut = Value::from(all[..5].to_vec()).to_string();
    assert_eq!(body(&cut), Err(Fault::Truncated));
    assert_eq!(body("{}"), Err(Fault::NoMessage));
    assert_eq!(body("<html>"), Err(Fault::NotJson("the body")));
    assert!(matches!(body(r#"[{"error":{"code":400}}]"#), Err(Fault::Reported { .. })));
}

#[test]
fn nothing_says_that_it_was_the_last() {
    let mut decoder = Family::Gemini.decoder(Bytes::new());
    let words = stream(&[parts(&json!([{ "text": "x" }]))]);
    assert_eq!(decoder.feed(words.as_bytes(), &mut |_| ()), Ok(Progress::More));
    assert!(!decoder.is_terminal());
    assert_eq!(decoder.feed(stream(&[end("STOP")]).as_bytes(), &mut |_| ()), Ok(Progress::More));
    assert!(decoder.is_terminal());
}
