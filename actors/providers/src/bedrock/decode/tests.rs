//! Streams as they are and as they should not be.

use crate::bedrock::frames::written::{event, exception, frame};
use crate::class::Began;
use crate::decode::shredder::{Reading, endpoint, read, shown_calls};
use crate::decode::{Fault, Progress};
use crate::delta::{Answer, Delta, Stop};
use crate::family::Family;
use bytes::Bytes;
use events::message::{Part, ToolCall};
use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::{Value, json};

fn whole(frames: &[Vec<u8>]) -> Reading {
    read(Family::Bedrock, &[&frames.concat()])
}

fn start(index: u64, id: &str, name: &str) -> Vec<u8> {
    let call = json!({ "toolUseId": id, "name": name });
    event(
        "contentBlockStart",
        &json!({ "contentBlockIndex": index, "start": { "toolUse": call }, "p": "ab" }).to_string(),
    )
}

fn delta(index: u64, delta: &Value) -> Vec<u8> {
    event(
        "contentBlockDelta",
        &json!({ "contentBlockIndex": index, "delta": delta, "p": "abcdef" }).to_string(),
    )
}

fn input(index: u64, text: &str) -> Vec<u8> {
    delta(index, &json!({ "toolUse": { "input": text } }))
}

fn thought(index: u64, piece: &Value) -> Vec<u8> {
    delta(index, &json!({ "reasoningContent": piece }))
}

fn stop(index: u64) -> Vec<u8> {
    event("contentBlockStop", &json!({ "contentBlockIndex": index }).to_string())
}

fn end(reason: &str) -> Vec<u8> {
    event("messageStop", &json!({ "stopReason": reason }).to_string())
}

fn metadata() -> Vec<u8> {
    let usage = json!({ "inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 90, "totalTokens": 105 });
    event("metadata", &json!({ "usage": usage, "metrics": { "latencyMs": 1 } }).to_string())
}

/// Everything that a stream can have, and behind it what nobody needs any more.
fn rich() -> Vec<Vec<u8>> {
    vec![
        event("messageStart", r#"{"role":"assistant"}"#),
        thought(0, &json!({ "text": "I thi" })),
        thought(0, &json!({ "text": "nk é" })),
        thought(0, &json!({ "signature": "S+/=" })),
        stop(0),
        thought(1, &json!({ "redactedContent": "UkVE" })),
        stop(1),
        delta(2, &json!({ "text": "日本 " })),
        delta(2, &json!({ "text": "🦀" })),
        stop(2),
        start(3, "tooluse_1", "lookup"),
        // The pieces of two calls may come mixed.
        input(3, "{\"a\":"),
        start(4, "tooluse_2", "lookup"),
        input(4, ""),
        input(3, " 1.10}"),
        stop(3),
        stop(4),
        end("tool_use"),
        metadata(),
    ]
}

fn calls(answer: &Answer) -> Vec<ToolCall> {
    answer.message.calls().cloned().collect()
}

#[test]
fn a_stream_is_read() {
    let Reading { result, usage, deltas } = whole(&rich());
    let answer = result.unwrap();
    let seal = endpoint(Family::Bedrock).seal("m");
    let sealed = |text: &str, sealed: &str| Part::Reasoning {
        text: text.into(),
        seal: seal.clone(),
        sealed: Some(sealed.into()),
    };
    let call = |id: &str, arguments: &str| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: "lookup".into(),
            arguments: arguments.into(),
        })
    };
    let then = [
        sealed("I think é", r#"{"signature":"S+/="}"#),
        sealed("", r#"{"redactedContent":"UkVE"}"#),
        Part::Text { text: "日本 🦀".into() },
        call("tooluse_1", "{\"a\": 1.10}"),
        call("tooluse_2", ""),
    ];
    assert_eq!(answer.message.parts, then);
    assert_eq!(answer.stop, Stop::ToolCalls);
    let used = Usage {
        prompt: Some(Tokens(100)),
        completion: Some(Tokens(5)),
        cached_input: Some(Tokens(90)),
        ..Usage::default()
    };
    assert_eq!((usage, answer.usage), (used, used));
    let shown: Vec<_> = calls(&answer).into_iter().map(|c| (c.id, c.name, c.arguments)).collect();
    assert_eq!(shown_calls(&deltas), shown);
    assert_eq!(deltas[0], Delta::Reasoning("I thi".into()));
}

#[test]
fn every_split_gives_the_same() {
    let bytes = rich().concat();
    let then = whole(&rich());
    for at in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(read(Family::Bedrock, &[head, tail]), then, "split at {at}");
    }
    for size in [1, 2, 3, 5, 7, 64, 1_000] {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        assert_eq!(read(Family::Bedrock, &pieces), then, "{size} bytes at a time");
    }
}

#[test]
fn every_cut_before_the_end_is_truncated_and_gives_no_call() {
    let frames = rich();
    let bytes = frames.concat();
    let terminal = bytes.len() - frames.last().unwrap().len();
    let then = whole(&frames).result.unwrap();
    for at in 0..=bytes.len() {
        let result = read(Family::Bedrock, &[&bytes[..at]]).result;
        if at < terminal {
            assert_eq!(result, Err(Fault::Truncated), "cut at {at}");
        } else {
            // The usage may be lost; the answer is there.
            assert_eq!(result.unwrap().message, then.message, "cut at {at}");
        }
    }
}

#[test]
fn every_byte_that_is_changed_loses_the_answer() {
    let frames = rich();
    let bytes = frames.concat();
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let result = read(Family::Bedrock, &[&changed]).result;
            let is_damage = matches!(result, Err(Fault::Damaged(_) | Fault::Frame(_)));
            assert!(is_damage, "byte {at}, bit {bit}: {result:?}");
        }
    }
}

#[track_caller]
fn reported(frames: &[Vec<u8>], began: Began, code: &str) {
    match whole(frames).result {
        Err(Fault::Reported { error, began: found }) => {
            assert_eq!((found, error["error"]["code"].as_str()), (began, Some(code)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn exceptions_in_a_stream_are_errors() {
    let throttled =
        exception("throttlingException", r#"{"message":"Too many tokens, please wait"}"#);
    reported(std::slice::from_ref(&throttled), Began::No, "throttlingException");
    reported(&[delta(0, &json!({ "text": "x" })), throttled], Began::Yes, "throttlingException");
    reported(&[exception("modelStreamErrorException", "")], Began::No, "modelStreamErrorException");
    let error =
        [(":message-type", "error"), (":error-code", "InternalError"), (":error-message", "w")];
    reported(&[frame(&error, b"")], Began::No, "InternalError");
}

#[test]
fn an_answer_stops_for_a_reason() {
    let stop = |reason: &str| {
        whole(&[delta(0, &json!({ "text": "x" })), end(reason), metadata()]).result.unwrap().stop
    };
    assert_eq!(stop("end_turn"), Stop::End);
    assert_eq!(stop("stop_sequence"), Stop::End);
    assert_eq!(stop("max_tokens"), Stop::Length);
    assert_eq!(stop("model_context_window_exceeded"), Stop::Length);
    assert_eq!(stop("guardrail_intervened"), Stop::ContentFilter);
    assert_eq!(stop("content_filtered"), Stop::ContentFilter);
    assert_eq!(stop("novel"), Stop::Other("novel".into()));
    let malformed = whole(&[end("malformed_tool_use")]).result;
    assert!(matches!(malformed, Err(Fault::Call(_))));
}

#[test]
fn pieces_that_belong_nowhere_are_refused() {
    let refused = |frames: &[Vec<u8>], about: &str| {
        let mut frames = frames.to_vec();
        frames.extend([end("tool_use"), metadata()]);
        let result = whole(&frames).result;
        assert!(matches!(&result, Err(Fault::Call(words)) if words.contains(about)), "{result:?}");
    };
    refused(&[input(0, "{}")], "belongs to no call");
    refused(&[delta(0, &json!({ "text": "x" })), input(0, "{}")], "belongs to no call");
    refused(&[start(0, "a", "f"), delta(0, &json!({ "text": "x" }))], "another part");
    refused(&[start(0, "a", "f"), thought(0, &json!({ "text": "x" }))], "another part");
    refused(&[start(0, "a", "f"), stop(0), input(0, "{}")], "after its end");
    refused(&[start(0, "a", "f"), start(0, "b", "f")], "one number");
    refused(&[start(0, "a", "f"), input(0, "{}")], "has no end");
    refused(&[start(0, "a", "")], "no name");
    refused(&[event("contentBlockDelta", r#"{"delta":{"text":"x"}}"#)], "no number");
    let many: Vec<Vec<u8>> = (0..600).map(|n| start(n, "", "f")).collect();
    refused(&many, "more parts");
}

#[test]
fn two_calls_never_share_an_id() {
    let frames = [
        start(0, "a", "f"),
        stop(0),
        start(1, "a", "f"),
        stop(1),
        start(2, "", "f"),
        stop(2),
        end("tool_use"),
    ];
    let found = calls(&whole(&frames).result.unwrap());
    let ids: std::collections::BTreeSet<&str> = found.iter().map(|call| call.id.as_str()).collect();
    assert_eq!((ids.len(), found[0].id.as_str()), (3, "a"));
}

#[test]
fn what_is_not_known_is_kept_or_stepped_over() {
    let picture = json!({ "image": { "format": "png" } });
    let begun = json!({ "contentBlockIndex": 0, "start": picture });
    let frames = [
        event("someday", "{}"),
        frame(&[(":message-type", "whisper")], b"not json"),
        frame(&[], b""),
        event("contentBlockStart", &begun.to_string()),
        delta(0, &json!({ "image": { "bytes": "AA" } })),
        event("contentBlockStart", r#"{"contentBlockIndex":1,"start":{}}"#),
        stop(9),
        end("end_turn"),
    ];
    assert_eq!(whole(&frames).result.unwrap().message.parts, [Part::Opaque(picture)]);
    assert_eq!(whole(&[event("messageStop", "not json")]).result, Err(Fault::NotJson("a frame")));
}

#[test]
fn pieces_of_what_is_redacted_are_joined_where_they_can_be() {
    let redacted = |data: &str| thought(0, &json!({ "redactedContent": data }));
    let found = |frames: &[Vec<u8>]| {
        let parts =
            whole(&[frames, &[stop(0), end("end_turn")]].concat()).result.unwrap().message.parts;
        let data = |part: Part| match part {
            Part::Reasoning { sealed, .. } => sealed.unwrap(),
            other => panic!("{other:?}"),
        };
        parts.into_iter().map(data).collect::<Vec<_>>()
    };
    assert_eq!(found(&[redacted("UkVE"), redacted("QUM=")]), [r#"{"redactedContent":"UkVEQUM="}"#]);
    assert_eq!(
        found(&[redacted("QUM="), redacted("UkVE")]),
        [r#"{"redactedContent":"QUM="}"#, r#"{"redactedContent":"UkVE"}"#]
    );
}

#[test]
fn an_endless_answer_is_cut_off() {
    let piece = delta(0, &json!({ "text": "x".repeat(1 << 20) }));
    assert_eq!(whole(&vec![piece; 17]).result, Err(Fault::TooLong));
}

fn body(body: &Value) -> Result<Answer, Fault> {
    let mut decoder = Family::Bedrock.decoder(Bytes::from_static(b"request"));
    decoder.body(body.to_string().as_bytes())?;
    decoder.finish(endpoint(Family::Bedrock).seal("m"), Some("req_1".into()), &mut |_| ())
}

#[test]
fn a_whole_body_is_read() {
    let content = json!([
        { "reasoningContent": { "reasoningText": { "text": "hm", "signature": "S" } } },
        { "reasoningContent": { "redactedContent": "UkVE" } },
        { "text": "all" },
        { "toolUse": { "toolUseId": "a", "name": "f", "input": { "x": 1 } } },
        { "toolUse": { "toolUseId": "a", "name": "f", "input": {} } },
        { "novel": {} },
    ]);
    let root = json!({
        "output": { "message": { "role": "assistant", "content": content } },
        "stopReason": "tool_use", "usage": { "inputTokens": 4, "outputTokens": 5 },
    });
    let answer = body(&root).unwrap();
    assert_eq!((answer.message.plain().as_str(), answer.stop.clone()), ("all", Stop::ToolCalls));
    assert_eq!(
        (answer.usage.prompt, answer.request_id.as_deref()),
        (Some(Tokens(4)), Some("req_1"))
    );
    let found = calls(&answer);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].arguments, r#"{"x":1}"#);
    assert_ne!(found[0].id, found[1].id);
    let sealed: Vec<&str> = answer
        .message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning { sealed, .. } => sealed.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(sealed, [r#"{"signature":"S"}"#, r#"{"redactedContent":"UkVE"}"#]);
    assert_eq!(body(&json!({})), Err(Fault::NoMessage));
    assert!(matches!(body(&json!({ "message": "no" })), Err(Fault::Reported { .. })));
}

#[test]
fn the_last_frame_ends_the_stream() {
    let mut decoder = Family::Bedrock.decoder(Bytes::new());
    let words = delta(0, &json!({ "text": "x" }));
    assert_eq!(decoder.feed(&words, &mut |_| ()), Ok(Progress::More));
    assert!(!decoder.is_terminal(), "what is cut here has cost something");
    assert_eq!(decoder.feed(&end("end_turn"), &mut |_| ()), Ok(Progress::More));
    assert!(decoder.is_terminal());
    assert_eq!(decoder.feed(&metadata(), &mut |_| ()), Ok(Progress::Done));
}
