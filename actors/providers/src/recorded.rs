//! Recorded exchanges, read from beside the repository where they are. They are not part of it, so where they are
//! missing this lane says that it did not run; the hand-written shapes of the other tests always run.

use crate::class::{Failure, Reply, classify, classify_inside};
use crate::decode::{Fault, shredder};
use crate::delta::{Answer, Stop};
use crate::family::Family;
use events::message::Part;
use events::model_call::Class;
use events::quantity::{MicroUsd, Millis};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::path::Path;

struct Response {
    status: u16,
    headers: HeaderMap,
    body: String,
}

/// The responses of a fixture; none where the fixtures are not there.
fn responses(name: &str) -> Option<Vec<Response>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let Ok(text) = std::fs::read_to_string(folder.join(name)) else {
        println!("not run: {name} is not under {}", folder.display());
        return None;
    };
    let fixture: Value = serde_json::from_str(&text).unwrap();
    let read = |interaction: &Value| {
        let response = &interaction["response"];
        let headers = response["headers"].as_object().unwrap().iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value.as_str().unwrap()).unwrap())
        });
        Response {
            status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
            headers: headers.collect(),
            body: response["body"].as_str().unwrap().to_owned(),
        }
    };
    Some(fixture["interactions"].as_array().unwrap().iter().map(read).collect())
}

/// Reads a stream in pieces of one size.
fn read(family: Family, body: &str, size: usize) -> Result<Answer, Fault> {
    let pieces: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
    shredder::read(family, &pieces).result
}

fn answers(family: Family, name: &str) -> Vec<Answer> {
    let read = |response: Response| {
        let whole = read(family, &response.body, usize::MAX).unwrap();
        for size in [1, 2, 3, 7, 61, 1_021] {
            assert_eq!(
                read(family, &response.body, size).unwrap(),
                whole,
                "{name}, {size} bytes at a time"
            );
        }
        whole
    };
    responses(name).unwrap_or_default().into_iter().map(read).collect()
}

fn calls(answer: &Answer) -> Vec<(&str, &str)> {
    let call = |part: &'_ Part| matches!(part, Part::ToolCall(_));
    let parts = answer.message.parts.iter().filter(|part| call(part));
    parts
        .filter_map(|part| {
            if let Part::ToolCall(call) = part {
                Some((call.name.as_str(), call.arguments.as_str()))
            } else {
                None
            }
        })
        .collect()
}

fn failures(name: &str) -> Vec<Failure> {
    let classified = |response: Response| {
        let reply = Reply {
            status: response.status,
            headers: &response.headers,
            body: response.body.as_bytes(),
            now: None,
        };
        classify(&reply, None)
    };
    responses(name).unwrap_or_default().into_iter().map(classified).collect()
}

#[test]
fn openai_parallel_tools() {
    let answers = answers(Family::OpenaiChat, "07-openai-chat-parallel-tools-stream.json");
    let Some(first) = answers.first() else { return };
    assert_eq!(calls(first), [("alpha", r#"{"value": "red"}"#), ("beta", r#"{"value": "blue"}"#)]);
    assert_eq!(first.stop, Stop::ToolCalls);
    assert!(first.usage.prompt.is_some() && first.usage.completion.is_some());
}

#[test]
fn openrouter_reasoning_and_cost() {
    for answer in answers(Family::OpenaiChat, "22-openrouter-reasoning-details-tools-stream.json") {
        let calls = calls(&answer);
        assert_eq!(calls.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["alpha", "beta"]);
        assert!(
            calls.iter().all(|(_, arguments)| serde_json::from_str::<Value>(arguments).is_ok()),
            "{calls:?}"
        );
        assert!(
            matches!(answer.message.parts.first(), Some(Part::Reasoning { text, .. }) if text.starts_with("The user wants"))
        );
        assert!(answer.usage.cost > Some(MicroUsd(0)), "{:?}", answer.usage);
    }
}

#[test]
fn deepseek_tools_and_cache_hits() {
    for answer in answers(Family::OpenaiChat, "23-deepseek-tools-stream.json") {
        assert_eq!(calls(&answer), [("lookup_harbor_label", "{}"), ("lookup_orchard_label", "{}")]);
        assert!(answer.usage.cached_input.is_some(), "{:?}", answer.usage);
    }
}

#[test]
fn openrouter_error_inside_a_stream() {
    for response in responses("21-openrouter-inline-stream-error.json").unwrap_or_default() {
        let Err(Fault::Reported { error, began }) = read(Family::OpenaiChat, &response.body, 7)
        else {
            panic!("not an error")
        };
        let reply = Reply { status: 200, headers: &response.headers, body: b"", now: None };
        let failure = classify_inside(&error, &reply, began, None);
        assert_eq!(
            (failure.class, failure.message.as_str()),
            (Class::StreamError, "Token limit reached")
        );
        assert_eq!(error["usage"]["completion_tokens_details"]["reasoning_tokens"], 11);
    }
}

#[test]
fn refusals_have_their_class_and_hint() {
    let is = |name: &str, class: Class, hint: Option<u64>| {
        for failure in failures(name) {
            assert_eq!(
                (failure.class, failure.hint),
                (class, hint.map(Millis)),
                "{name}: {failure:?}"
            );
        }
    };
    is("08-openai-401.json", Class::AuthInvalid, None);
    is("12-chatgpt-codex-401.json", Class::AuthInvalid, None);
    is("16-gemini-400-bad-key.json", Class::AuthInvalid, None);
    is("15-gemini-404.json", Class::ModelNotFound, None);
    is("20-openrouter-429-upstream.json", Class::UpstreamRateLimited, None);
    is("24-llamacpp-400-context-overflow.json", Class::ContextOverflow, None);
    is("synthetic/s4-openai-429-tokens.json", Class::RateLimited, Some(1_250));
    is("synthetic/s5-openai-429-quota.json", Class::QuotaExhausted, None);
    is("synthetic/s6-gemini-429-retryinfo.json", Class::RateLimited, Some(34_000));
    is("synthetic/s7-codex-429-usage-limit.json", Class::QuotaExhausted, None);
    is("synthetic/s8-codex-400-detail.json", Class::InvalidRequest, None);
    is("synthetic/s1-anthropic-429.json", Class::RateLimited, Some(12_000));
    is("synthetic/s2-anthropic-529.json", Class::Overloaded, None);
}

#[test]
fn every_prefix_of_a_recorded_stream_is_truncated_or_whole() {
    for name in ["07-openai-chat-parallel-tools-stream.json", "23-deepseek-tools-stream.json"] {
        for response in responses(name).unwrap_or_default() {
            let whole = read(Family::OpenaiChat, &response.body, usize::MAX).unwrap();
            for end in (0..response.body.len()).filter(|end| response.body.is_char_boundary(*end)) {
                let kept = response.body.get(..end).unwrap();
                match read(Family::OpenaiChat, kept, 4_096) {
                    Ok(answer) => assert_eq!(answer.message, whole.message, "{name} at {end}"),
                    Err(Fault::Truncated) => {}
                    Err(other) => panic!("{name} at {end}: {other}"),
                }
            }
        }
    }
}
