//! Recorded exchanges, read from beside the repository where they are. They are not part of it, so where they are
//! missing this lane says that it did not run; the hand-written shapes of the other tests always run.

mod bedrock;
mod cost;
mod gemini;

use crate::class::{Failure, Reply, classify, classify_inside};
use crate::decode::{Fault, shredder};
use crate::delta::{Answer, Stop};
use crate::family::{Family, Mode};
use crate::registry::{self, ResolveError};
use bytes::Bytes;
use events::message::{Message, Part, Role};
use events::model_call::Class;
use events::prompt::{Catalogue, Params, Request};
use events::quantity::{MicroUsd, Millis, Tokens};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::path::Path;

struct Response {
    /// The body of the request, where it was kept.
    asked: Value,
    status: u16,
    headers: HeaderMap,
    body: String,
}

/// A file that is kept beside the repository; none where it is not there.
pub(crate) fn beside(name: &str) -> Option<String> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let read = |folder: &Path| std::fs::read_to_string(folder.join("shared").join(name));
    let found = above.skip(3).find_map(|folder| read(folder).ok());
    if found.is_none() {
        println!("not run: {name} is in no folder `shared` beside the repository");
    }
    found
}

/// The responses of a fixture; none where the fixtures are not there.
fn responses(name: &str) -> Option<Vec<Response>> {
    let text = beside(&format!("fixtures/{name}"))?;
    let fixture: Value = serde_json::from_str(&text).unwrap();
    let read = |interaction: &Value| {
        let response = &interaction["response"];
        let headers = response["headers"].as_object().unwrap().iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value.as_str().unwrap()).unwrap())
        });
        Response {
            asked: interaction["request"]["body"].clone(),
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

/// Reads a whole body.
fn whole(family: Family, body: &str) -> Answer {
    let mut decoder = family.decoder(Bytes::new());
    decoder.body(body.as_bytes()).unwrap();
    decoder.finish(shredder::endpoint(family).seal("m"), None, &mut |_| ()).unwrap()
}

/// Every prefix of a stream is truncated, or says the whole.
fn cuts(family: Family, name: &str) {
    for response in responses(name).unwrap_or_default() {
        let whole = read(family, &response.body, usize::MAX).unwrap();
        let step = response.body.len() / 4_000 + 1;
        for end in (0..response.body.len()).step_by(step) {
            let kept = &response.body.as_bytes()[..end];
            match shredder::read(family, &[kept]).result {
                Ok(answer) => assert_eq!(answer.message, whole.message, "{name} at {end}"),
                Err(Fault::Truncated) => {}
                Err(other) => panic!("{name} at {end}: {other}"),
            }
        }
    }
}

/// What the next turn sends of this answer and of results for its calls.
fn sent_again(family: Family, model: &str, answer: &Answer, results: &[&str]) -> Value {
    let results = answer.message.calls().zip(results);
    let results = results.map(|(call, result)| Message::tool_result(&call.id, (*result).into()));
    let messages = [Message::text(Role::User, "q"), answer.message.clone()];
    let request = Request {
        model: model.to_owned(),
        tools: Catalogue::default(),
        messages: messages.into_iter().chain(results).map(|message| message.body()).collect(),
        params: Params::default(),
    };
    let endpoint = shredder::endpoint(family);
    serde_json::from_slice(&family.encode(&endpoint, &request, Mode::Whole).unwrap()).unwrap()
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
    is("19-bedrock-400.json", Class::ModelNotFound, None);
    is("20-openrouter-429-upstream.json", Class::UpstreamRateLimited, None);
    is("24-llamacpp-400-context-overflow.json", Class::ContextOverflow, None);
    is("synthetic/s4-openai-429-tokens.json", Class::RateLimited, Some(1_250));
    is("synthetic/s5-openai-429-quota.json", Class::QuotaExhausted, None);
    is("synthetic/s6-gemini-429-retryinfo.json", Class::RateLimited, Some(34_000));
    is("synthetic/s7-codex-429-usage-limit.json", Class::QuotaExhausted, None);
    is("synthetic/s8-codex-400-detail.json", Class::InvalidRequest, None);
    is("synthetic/s1-anthropic-429.json", Class::RateLimited, Some(12_000));
    is("synthetic/s2-anthropic-529.json", Class::Overloaded, None);
    is("05-anthropic-400.json", Class::InvalidRequest, None);
}

#[test]
fn every_prefix_of_a_recorded_stream_is_truncated_or_whole() {
    cuts(Family::OpenaiChat, "07-openai-chat-parallel-tools-stream.json");
    cuts(Family::OpenaiChat, "23-deepseek-tools-stream.json");
    cuts(Family::AnthropicMessages, "02-anthropic-thinking-tool-stream.json");
    cuts(Family::AnthropicMessages, "03-anthropic-redacted-thinking-stream.json");
    cuts(Family::AnthropicMessages, "04-anthropic-cache-usage-stream.json");
}

/// The blocks of a message on the wire, without what the recording's client leaves out or writes otherwise.
fn blocks(message: &Value) -> Vec<Value> {
    let mut blocks = message["content"].as_array().unwrap().clone();
    for block in &mut blocks {
        let fields = block.as_object_mut().unwrap();
        fields.remove("cache_control");
        if fields.get("is_error") == Some(&Value::Bool(false)) {
            fields.remove("is_error");
        }
        if let Some(text) = fields.get("content").and_then(|content| content.pointer("/0/text")) {
            let text = text.clone();
            fields.insert("content".to_owned(), text);
        }
    }
    blocks
}

#[test]
fn anthropic_parallel_tools_and_what_the_next_turn_sends() {
    let family = Family::AnthropicMessages;
    let Some(all) = responses("01-anthropic-parallel-tools.json") else { return };
    let first = whole(family, &all[0].body);
    assert_eq!(calls(&first), [("lookup_harbor_label", "{}"), ("lookup_orchard_label", "{}")]);
    assert_eq!((first.stop.clone(), first.usage.prompt), (Stop::ToolCalls, Some(Tokens(700))));
    let sent = sent_again(family, "m", &first, &["crimson-harbor", "silver-orchard"]);
    for at in [1, 2] {
        assert_eq!(blocks(&sent["messages"][at]), blocks(&all[1].asked["messages"][at]));
    }
    let last = whole(family, &all[1].body);
    assert_eq!((last.stop, last.usage.completion), (Stop::End, Some(Tokens(26))));
}

#[test]
fn anthropic_thinking_goes_back_byte_for_byte() {
    let family = Family::AnthropicMessages;
    let Some(all) = responses("06-anthropic-thinking-signature-roundtrip.json") else { return };
    let first = whole(family, &all[0].body);
    let Some(Part::Reasoning { text, sealed: Some(sealed), .. }) = first.message.parts.first()
    else {
        panic!("{first:?}")
    };
    assert!(text.starts_with("The user is asking") && all[0].body.contains(sealed.as_str()));
    let sent = sent_again(family, "m", &first, &["Mexico"]);
    assert_eq!(sent["messages"][1]["content"], all[1].asked["messages"][1]["content"]);
    assert_eq!(blocks(&sent["messages"][2]), blocks(&all[1].asked["messages"][2]));
    let other = sent_again(family, "another", &first, &["Mexico"]).to_string();
    assert!(!other.contains("EqEECkYICxgC") && other.contains("I'll help you"), "{other}");
}

#[test]
fn anthropic_streams_think_call_and_count() {
    let family = Family::AnthropicMessages;
    let answers = answers(family, "02-anthropic-thinking-tool-stream.json");
    let Some(first) = answers.first() else { return };
    assert_eq!(calls(first), [("get_weather", r#"{"city": "Tokyo, Japan"}"#)]);
    assert_eq!(first.usage.reasoning, Some(Tokens(41)));
    let weather =
        "Weather in Tokyo, Japan: 72F (22C), sunny with light clouds, humidity 45%, wind 8 mph NW";
    let sent = sent_again(family, "m", first, &[weather]);
    let all = responses("02-anthropic-thinking-tool-stream.json").unwrap();
    for at in [1, 2] {
        assert_eq!(blocks(&sent["messages"][at]), blocks(&all[1].asked["messages"][at]));
    }
    assert!(answers[1].message.plain().ends_with("Enjoy your trip! 🎌"));
}

#[test]
fn anthropic_redacted_thinking_and_cache_writes() {
    let family = Family::AnthropicMessages;
    for answer in answers(family, "03-anthropic-redacted-thinking-stream.json") {
        let kinds = answer.message.parts.iter().map(|part| match part {
            Part::Reasoning { text, sealed: Some(sealed), .. } => {
                text.is_empty() && sealed.starts_with(r#"{"type":"redacted_thinking","data":"E"#)
            }
            _ => false,
        });
        assert_eq!(kinds.collect::<Vec<_>>(), [true, true, false]);
    }
    for answer in answers(family, "04-anthropic-cache-usage-stream.json") {
        let usage = answer.usage;
        assert_eq!((usage.prompt, usage.completion), (Some(Tokens(4_211)), Some(Tokens(5))));
        assert_eq!((usage.cached_input, usage.cache_write), (Some(Tokens(0)), Some(Tokens(4_202))));
        assert_eq!(answer.message.plain(), "OK.");
    }
}

#[test]
fn anthropic_overload_in_the_middle_of_a_stream() {
    let name = "synthetic/s3-anthropic-sse-overloaded-midstream.json";
    for response in responses(name).unwrap_or_default() {
        let Err(Fault::Reported { error, began }) =
            read(Family::AnthropicMessages, &response.body, 7)
        else {
            panic!("not an error")
        };
        let reply = Reply { status: 200, headers: &response.headers, body: b"", now: None };
        assert_eq!(classify_inside(&error, &reply, began, None).class, Class::Overloaded);
    }
}

/// An item without what the recording's client adds to it.
fn bare(item: &Value) -> Value {
    let mut item = item.clone();
    let fields = item.as_object_mut().unwrap();
    fields.remove("status");
    if fields.get("type").is_some_and(|kind| kind == "function_call") {
        fields.remove("id");
    }
    item
}

#[test]
fn responses_reasoning_goes_back_byte_for_byte() {
    let family = Family::OpenaiResponses;
    let name = "09-openai-responses-reasoning-tools-stream.json";
    cuts(family, name);
    for (answer, response) in answers(family, name).iter().zip(responses(name).unwrap_or_default())
    {
        let weather = r#"{"city":"Paris","country":"France","unit":"C"}"#;
        assert_eq!(calls(answer), [("get_weather", weather)]);
        assert_eq!(answer.stop, Stop::ToolCalls);
        assert!(answer.usage.prompt.is_some() && answer.usage.reasoning.is_some());
        let Some(Part::Reasoning { sealed: Some(sealed), .. }) = answer.message.parts.first()
        else {
            panic!("{answer:?}")
        };
        assert!(response.body.contains(&format!("\"item\":{sealed}")), "{sealed}");
        let item: Value = serde_json::from_str(sealed).unwrap();
        let sent = sent_again(family, "m", answer, &["18"]);
        assert_eq!(sent["input"][1], item);
        assert_eq!(sent["input"][3]["output"], "18");
        let other = sent_again(family, "another", answer, &["18"]).to_string();
        assert!(!other.contains("gAAAAA"), "{other}");
    }
}

#[test]
fn responses_of_a_subscription_call_in_parallel() {
    let family = Family::OpenaiResponses;
    let name = "11-chatgpt-codex-parallel-tools-stream.json";
    cuts(family, name);
    let all = answers(family, name);
    let Some(first) = all.first() else { return };
    assert_eq!(calls(first), [("lookup_harbor_label", "{}"), ("lookup_orchard_label", "{}")]);
    let asked = &responses(name).unwrap()[1].asked;
    let sent = sent_again(family, "m", first, &["crimson-harbor", "silver-orchard"]);
    for at in 1..5 {
        assert_eq!(bare(&sent["input"][at]), bare(&asked["input"][at]));
    }
    assert_eq!(all[1].message.plain(), "crimson-harbor and silver-orchard.");
    assert_eq!(all[1].stop, Stop::End);
}

#[test]
fn responses_quota_inside_a_stream() {
    for response in responses("10-openai-responses-stream-error-quota.json").unwrap_or_default() {
        // The second has lost its `error` event and is told by `response.failed` alone.
        let kept = response.body.split("\n\n").filter(|event| !event.starts_with("event: error"));
        let skipped = kept.collect::<Vec<_>>().join("\n\n");
        assert_ne!(skipped, response.body);
        for body in [&response.body, &skipped] {
            let Err(Fault::Reported { error, began }) = read(Family::OpenaiResponses, body, 7)
            else {
                panic!("not an error")
            };
            let reply = Reply { status: 200, headers: &response.headers, body: b"", now: None };
            let failure = classify_inside(&error, &reply, began, None);
            assert_eq!(failure.class, Class::QuotaExhausted);
            assert!(failure.message.starts_with("You exceeded your current quota"));
        }
    }
}

#[test]
fn every_provider_that_was_found_resolves_and_the_deferred_ones_say_so() {
    let Some(text) = beside("data/providers.json") else { return };
    let list: Value = serde_json::from_str(&text).unwrap();
    let list = list["providers"].as_array().unwrap();
    assert!(list.len() >= 42, "{}", list.len());
    for one in list {
        let id = one["id"].as_str().unwrap();
        let aliases =
            one["aliases"].as_array().unwrap().iter().map(|alias| alias.as_str().unwrap());
        for name in aliases.chain([id]) {
            let found = registry::provider(name);
            if one["deferred_in_seed"] == true {
                let is_it = matches!(found, Err(ResolveError::NotSupportedYet { id: own, .. }) if own == id);
                assert!(is_it, "{name}: {found:?}");
            } else {
                let own = found.unwrap_or_else(|error| panic!("{name}: {error}")).id;
                assert!(own == id || registry::provider(id).unwrap().id == own, "{name}: {own}");
            }
        }
    }
}
