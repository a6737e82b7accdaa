//! Neutral requests and the exact bytes that they become.

use super::*;
use crate::class::{Charge, Class, Failure};
use crate::endpoint::{Parts, Reasoning, Thinking};
use crate::family::Family;
use events::json::Json;
use events::message::{Message, Part, Seal, ToolCall, ToolResult};
use events::prompt::{Catalogue, Params};
use events::quantity::Tokens;
use events::run::ledger::UNKNOWN_RESULT;
use serde_json::{Value, json};

fn endpoint(quirks: Quirks) -> Endpoint {
    let base = "http://127.0.0.1:1/v1".parse().unwrap();
    Endpoint::new("test", Family::OpenaiChat, base, None, quirks)
}

fn request(messages: &[Message]) -> Request {
    Request {
        model: "m".into(),
        tools: Catalogue::default(),
        messages: messages.iter().map(Message::body).collect(),
        params: Params::default(),
    }
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, name: None, parts }
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
}

fn wire(quirks: Quirks, request: &Request) -> Value {
    serde_json::from_slice(&encode(&endpoint(quirks), request, Mode::Whole).unwrap()).unwrap()
}

#[track_caller]
fn messages(given: &[Message], then: &Value) {
    assert_eq!(&wire(Quirks::STANDARD, &request(given))["messages"], then);
}

#[track_caller]
fn refused(given: &Request, quirks: Quirks, about: &str) {
    let failure = Failure::from(encode(&endpoint(quirks), given, Mode::Stream).unwrap_err());
    assert!(failure.message.contains(about), "{}", failure.message);
    assert_eq!(failure.charge, Charge::NotCharged);
}

#[test]
fn the_bytes_of_a_request_do_not_change() {
    let mut given = request(&[Message::text(Role::System, "be brief"), user("hi")]);
    given.params.output_max = Some(Tokens(64));
    given.params.extra =
        Json::from_bytes(br#"{"temperature":0.5,"stop":["x"],"model":"evil","stream":false}"#);
    given.tools = Catalogue::new(Json::from_bytes(
        br#"[{"description":"now","name":"clock_now","parameters":{"b":1,"a":1.10}},{"name":"z"}]"#,
    ));
    let bytes = encode(&endpoint(Quirks::STANDARD), &given, Mode::Stream).unwrap();
    let expected = concat!(
        r#"{"max_tokens":64,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"#,
        r#""model":"m","stop":["x"],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"#,
        r#""tools":[{"type":"function","function":{"name":"clock_now","description":"now","parameters":{"b":1,"a":1.10}}},"#,
        r#"{"type":"function","function":{"name":"z","parameters":{"type":"object","properties":{}}}}]}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn a_plain_request_has_no_field_that_nobody_asked_for() {
    assert_eq!(
        wire(Quirks::STANDARD, &request(&[user("hi")])),
        json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }], "stream": false })
    );
}

#[test]
fn user_parts_are_sent_as_they_are() {
    let image = Part::Image { url: "data:image/png;base64,AA".into(), detail: Some("low".into()) };
    let odd = Part::Opaque(json!({ "type": "input_audio", "input_audio": {} }));
    let parts = vec![Part::Text { text: "see".into() }, image, odd];
    messages(
        &[
            Message { role: Role::User, name: Some("ann".into()), parts },
            Message { role: Role::User, name: None, parts: vec![] },
        ],
        &json!([
            { "role": "user", "name": "ann", "content": [
                { "type": "text", "text": "see" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA", "detail": "low" } },
                { "type": "input_audio", "input_audio": {} },
            ] },
            { "role": "user", "content": "" },
        ]),
    );
}

#[test]
fn a_tool_that_failed_says_so_in_its_words() {
    let result = ToolResult { call: "a".into(), content: "no \"file\"".into(), is_error: true };
    let failed = Message { role: Role::Tool, name: None, parts: vec![Part::ToolResult(result)] };
    let given = request(&[user("go"), assistant(vec![call("a", "f", "{}")]), failed]);
    let sent = wire(Quirks::STANDARD, &given)["messages"][2].clone();
    let words = r#"{"status":"error","error":"tool_failed","message":"no \"file\""}"#;
    let then = json!({ "role": "tool", "content": words, "tool_call_id": "a" });
    assert_eq!(sent, then);
}

#[test]
fn thinking_is_asked_of_those_who_know_the_word() {
    let mut given = request(&[user("hi")]);
    given.params.extra = Json::from_bytes(br#"{"thinking":{"type":"adaptive"}}"#);
    assert!(wire(Quirks::STANDARD, &given).get("thinking").is_some());
    let strict = Quirks { thinking: Thinking::Omitted, ..Quirks::STANDARD };
    assert!(wire(strict, &given).get("thinking").is_none());
}

#[test]
fn calls_and_their_results_keep_their_order_and_bytes() {
    messages(
        &[
            user("go"),
            assistant(vec![
                Part::Text { text: "so".into() },
                call("a", "note_append", r#"{"text": "x"}"#),
                call("b", "weird.name ", ""),
            ]),
            Message::tool_result("b", "two".into()),
            Message::tool_result("a", "one".into()),
            assistant(vec![]),
        ],
        &json!([
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": "so", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "note_append", "arguments": "{\"text\": \"x\"}" } },
                { "id": "b", "type": "function", "function": { "name": "weird_name_", "arguments": "{}" } },
            ] },
            { "role": "tool", "content": "two", "tool_call_id": "b" },
            { "role": "tool", "content": "one", "tool_call_id": "a" },
            { "role": "assistant", "content": "" },
        ]),
    );
}

#[test]
fn a_call_without_a_result_gets_exactly_one_that_says_so() {
    assert!(UNKNOWN_RESULT.contains("outcome unknown") && UNKNOWN_RESULT.contains("verify first"));
    let calls = || assistant(vec![call("a", "f", "{}"), call("b", "f", "{}")]);
    let made = json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": "a", "type": "function", "function": { "name": "f", "arguments": "{}" } },
        { "id": "b", "type": "function", "function": { "name": "f", "arguments": "{}" } },
    ] });
    let orphan =
        |id: &str| json!({ "role": "tool", "content": UNKNOWN_RESULT, "tool_call_id": id });
    let go = json!({ "role": "user", "content": "go" });
    messages(&[user("go"), calls()], &json!([go, made, orphan("a"), orphan("b")]));
    messages(
        &[calls(), Message::tool_result("b", "two".into()), user("go")],
        &json!([made, { "role": "tool", "content": "two", "tool_call_id": "b" }, orphan("a"), go]),
    );
}

#[test]
fn a_result_that_answers_no_open_call_is_refused() {
    let calls = assistant(vec![call("a", "f", "{}")]);
    let result = || Message::tool_result("a", "one".into());
    refused(
        &request(&[user("x"), result()]),
        Quirks::STANDARD,
        "message 1 answers tool call \"a\"",
    );
    refused(&request(&[calls.clone(), result(), result()]), Quirks::STANDARD, "message 2 answers");
    refused(&request(&[calls, user("x"), result()]), Quirks::STANDARD, "message 2 answers");
    let twice = assistant(vec![call("a", "f", ""), call("a", "f", "")]);
    refused(&request(&[twice]), Quirks::STANDARD, "\"a\" twice");
    refused(&request(&[assistant(vec![call("", "f", "")])]), Quirks::STANDARD, "empty");
    refused(&request(&[Message::text(Role::Tool, "x")]), Quirks::STANDARD, "no tool result");
}

#[test]
fn reasoning_goes_back_to_the_one_who_gave_it_only() {
    let quirks = Quirks { reasoning: Reasoning::ReasoningContent, ..Quirks::STANDARD };
    let sealed = |model: &str, profile: &str| {
        let seal = Seal {
            family: "openai_chat".into(),
            endpoint: "http://127.0.0.1:1/v1".into(),
            profile: profile.into(),
            model: model.into(),
        };
        let parts = vec![
            Part::Reasoning { text: "hm".into(), seal, sealed: None },
            Part::Text { text: "so".into() },
        ];
        request(&[assistant(parts)])
    };
    let sent = |quirks, given: &Request| wire(quirks, given)["messages"][0].clone();
    let with = json!({ "role": "assistant", "content": "so", "reasoning_content": "hm" });
    let without = json!({ "role": "assistant", "content": "so" });
    assert_eq!(sent(quirks, &sealed("m", "")), with);
    assert_eq!(sent(quirks, &sealed("other", "")), without);
    assert_eq!(sent(quirks, &sealed("m", "second")), without);
    assert_eq!(sent(Quirks::STANDARD, &sealed("m", "")), without);
}

#[test]
fn quirks_change_the_body() {
    let mut given = request(&[user("hi")]);
    given.params.output_max = Some(Tokens(9));
    given.params.extra =
        Json::from_bytes(br#"{"temperature":1,"max_tokens":5,"max_completion_tokens":5}"#);
    let openai = Quirks { output_max: OutputMax::MaxCompletionTokens, ..Quirks::STANDARD };
    let body = wire(openai, &given);
    assert_eq!((&body["max_completion_tokens"], &body["max_tokens"]), (&json!(9), &Value::Null));
    let kimi = Quirks { temperature: Temperature::Omitted, ..Quirks::STANDARD };
    assert_eq!(wire(kimi, &given)["temperature"], Value::Null);
    let minimax = Quirks { defaults: &[("reasoning_split", "true")], ..Quirks::STANDARD };
    assert_eq!(wire(minimax, &given)["reasoning_split"], json!(true));
    given.params.extra = Json::from_bytes(br#"{"reasoning_split":false}"#);
    assert_eq!(wire(minimax, &given)["reasoning_split"], json!(false));
    let text_only = Quirks { parts: Parts::TextOnly, ..Quirks::STANDARD };
    let image = Message {
        role: Role::User,
        name: None,
        parts: vec![Part::Image { url: "u".into(), detail: None }],
    };
    refused(&request(&[image]), text_only, "message 0 has more than text");
}

#[test]
fn the_cache_key_names_the_stable_prefix() {
    let quirks = Quirks { cache_key: CacheKey::Sent, ..Quirks::STANDARD };
    let key = |system: &str, text: &str| {
        wire(quirks, &request(&[Message::text(Role::System, system), user(text)]))["prompt_cache_key"].clone()
    };
    assert_eq!(key("a", "x"), key("a", "y"));
    assert_ne!(key("a", "x"), key("b", "x"));
    assert_eq!(key("a", "x").as_str().map(str::len), Some(38));
    let mut own = request(&[user("x")]);
    own.params.extra = Json::from_bytes(br#"{"prompt_cache_key":"mine"}"#);
    assert_eq!(wire(quirks, &own)["prompt_cache_key"], json!("mine"));
}

#[test]
fn what_the_family_refuses_is_refused_here() {
    let given = || request(&[user("x")]);
    let tools = |json: &str| Request {
        tools: Catalogue::new(Json::from_bytes(json.as_bytes())),
        ..given()
    };
    let extra = |json: &str| {
        let extra = Json::from_bytes(json.as_bytes());
        Request { params: Params { extra, ..Params::default() }, ..given() }
    };
    refused(&Request { model: String::new(), ..given() }, Quirks::STANDARD, "names no model");
    refused(&request(&[]), Quirks::STANDARD, "no message");
    refused(
        &Request { messages: vec![Body::new(Json::default())], ..given() },
        Quirks::STANDARD,
        "message 0 does not read",
    );
    refused(&tools(r#"[{"name":"note.append"}]"#), Quirks::STANDARD, "\"note.append\"");
    refused(&tools(&format!(r#"[{{"name":"{}"}}]"#, "x".repeat(65))), Quirks::STANDARD, "1 to 64");
    refused(&tools(r#"[{"name":"a"},{"name":"a"}]"#), Quirks::STANDARD, "\"a\" stands twice");
    refused(&tools("{}"), Quirks::STANDARD, "tools do not read");
    refused(&extra("[1]"), Quirks::STANDARD, "not a JSON object");
    refused(&extra(r#"{"n":2}"#), Quirks::STANDARD, "n is 2");
    let many: Vec<Value> = (0..129).map(|n| json!({ "name": format!("t{n}") })).collect();
    let many = tools(&Value::from(many).to_string());
    let capped = Quirks { tools_max: Some(128), ..Quirks::STANDARD };
    refused(&many, capped, "129 tools are offered, test takes 128");
    assert_eq!(
        Failure::from(encode(&endpoint(capped), &many, Mode::Whole).unwrap_err()).class,
        Class::ToolsTooMany
    );
    assert!(encode(&endpoint(Quirks::STANDARD), &many, Mode::Whole).is_ok());
}

#[test]
fn a_tool_choice_without_tools_is_left_out() {
    let mut given = request(&[user("x")]);
    given.params.extra =
        Json::from_bytes(br#"{"tool_choice":"auto","parallel_tool_calls":true,"n":1}"#);
    assert_eq!(wire(Quirks::STANDARD, &given)["tool_choice"], Value::Null);
    given.tools = Catalogue::new(Json::from_bytes(br#"[{"name":"a"}]"#));
    assert_eq!(wire(Quirks::STANDARD, &given)["tool_choice"], json!("auto"));
}
