//! Neutral requests and the exact bytes that they become.

use super::*;
use crate::class::{Charge, Class, Failure};
use crate::decode::shredder;
use crate::endpoint::{Parts, Quirks};
use crate::family::Family;
use events::json::Json;
use events::message::{Message, Part, Role, ToolCall, ToolResult};
use events::prompt::{Catalogue, Params};
use events::quantity::Tokens;
use events::run::chosen::NOTE;
use events::run::ledger::UNKNOWN_RESULT;
use serde_json::{Value, json};

fn endpoint() -> Endpoint {
    shredder::endpoint(Family::AnthropicMessages)
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

fn system(text: &str) -> Message {
    Message::text(Role::System, text)
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, name: None, parts }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: "f".into(), arguments: arguments.into() })
}

fn thought(sealed: &str, model: &str) -> Part {
    let (text, seal) = ("hm".into(), endpoint().seal(model));
    Part::Reasoning { text, seal, sealed: Some(sealed.into()) }
}

fn bytes(request: &Request) -> String {
    String::from_utf8(encode(&endpoint(), request, Mode::Stream).unwrap()).unwrap()
}

fn wire(request: &Request) -> Value {
    serde_json::from_str(&bytes(request)).unwrap()
}

/// The messages on the wire without our marks, which have a test of their own.
#[track_caller]
fn messages(given: &[Message], then: &Value) {
    let mut body = wire(&request(given));
    for message in body["messages"].as_array_mut().unwrap() {
        for block in message["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    assert_eq!(&body["messages"], then);
}

fn wishes_of(extra: &Value, tools: &str) -> Result<Value, EncodeError> {
    let mut given = request(&[user("hi")]);
    given.params.extra = Json::from_bytes(extra.to_string().as_bytes());
    given.tools = Catalogue::new(Json::from_bytes(tools.as_bytes()));
    Ok(serde_json::from_slice(&encode(&endpoint(), &given, Mode::Whole)?).unwrap())
}

fn wishes(extra: &Value) -> Result<Value, EncodeError> {
    wishes_of(extra, r#"[{"name":"f"}]"#)
}

#[track_caller]
fn wished(extra: Value, name: &str, then: Value) {
    assert_eq!(wishes(&extra).unwrap()[name], then, "{extra}");
}

#[track_caller]
fn refused(given: &Request, about: &str) {
    let failure = Failure::from(encode(&endpoint(), given, Mode::Stream).unwrap_err());
    assert!(failure.message.contains(about), "{}", failure.message);
    assert_eq!((failure.class, failure.charge), (Class::InvalidRequest, Charge::NotCharged));
}

#[test]
fn the_bytes_of_a_request_do_not_change() {
    let mut given = request(&[
        system("be brief"),
        user("hi"),
        assistant(vec![
            thought(r#"{ "signature":"s/+=","thinking":"hé" }"#, "m"),
            text("so"),
            call("toolu_1", r#"{"b": 1.50,"a":"é"}"#),
        ]),
        Message::tool_result("toolu_1", "72F".into()),
    ]);
    given.params.output_max = Some(Tokens(64));
    given.params.extra =
        Json::from_bytes(br#"{"temperature":0.50,"stop":["x"],"model":"evil","seed":7}"#);
    given.tools = Catalogue::new(Json::from_bytes(
        br#"[{"description":"now","name":"clock_now","parameters":{"type":"object","b":1,"a":1.10}},{"name":"z"}]"#,
    ));
    assert_eq!(
        bytes(&given),
        concat!(
            r#"{"max_tokens":64,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},"#,
            r#"{"role":"assistant","content":[{ "signature":"s/+=","thinking":"hé" },{"type":"text","text":"so"},"#,
            r#"{"type":"tool_use","id":"toolu_1","name":"f","input":{"b": 1.50,"a":"é"}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"72F","cache_control":{"type":"ephemeral"}}]}],"#,
            r#""model":"m","stop_sequences":["x"],"stream":true,"#,
            r#""system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],"temperature":0.50,"#,
            r#""tools":[{"name":"clock_now","description":"now","input_schema":{"type":"object","b":1,"a":1.10}},"#,
            r#"{"name":"z","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}]}"#,
        )
    );
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter() {
    let steps = [
        system("s"),
        user("hi"),
        assistant(vec![thought("{}", "m"), call("a", "{}")]),
        Message::tool_result("a", "r".into()),
        assistant(vec![text("done")]),
        user("more"),
    ];
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let said = |count: usize| {
        let body = bytes(&request(&steps[..count])).replace(mark, "");
        let (_, messages) = body.split_once("\"messages\":[").unwrap();
        let (messages, _) = messages.split_once("],\"model\"").unwrap();
        messages.to_owned()
    };
    // After three the call is open, and nobody asks then.
    for (shorter, longer) in [(2, 4), (4, 5), (5, 6)] {
        assert!(said(longer).starts_with(&said(shorter)), "{shorter} and {longer}");
    }
    assert_eq!(bytes(&request(&steps)).matches(mark).count(), 2, "system and last message");
}

#[test]
fn there_are_never_more_than_four_marks() {
    let part = |n: u64| {
        Part::Opaque(
            json!({ "type": "document", "cache_control": { "type": "ephemeral" }, "n": n }),
        )
    };
    for (own, all) in [(0, 3), (1, 4), (2, 4), (3, 4), (4, 4)] {
        let mut parts: Vec<Part> = (0..own).map(part).collect();
        parts.push(text("hi"));
        let mut given = request(&[system("s"), Message { role: Role::User, name: None, parts }]);
        given.tools = Catalogue::new(Json::from_bytes(br#"[{"name":"f"}]"#));
        assert_eq!(bytes(&given).matches("\"ephemeral\"").count(), all, "{own} of the caller's");
    }
}

#[test]
fn turns_of_one_role_are_one_message_and_results_come_first() {
    let failed = ToolResult { call: "z".into(), content: "no".into(), is_error: true };
    let failed = Part::ToolResult(failed);
    messages(
        &[
            user("a"),
            user("b"),
            assistant(vec![call("x", "{}"), call("y", "not json"), call("z", "{}")]),
            Message::tool_result("y", r#"{"status":"error","error":"invalid_arguments"}"#.into()),
            Message { role: Role::Tool, name: None, parts: vec![failed] },
            user("go on"),
        ],
        &json!([
            { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] },
            { "role": "assistant", "content": [
                { "type": "tool_use", "id": "x", "name": "f", "input": {} },
                { "type": "tool_use", "id": "y", "name": "f", "input": {} },
                { "type": "tool_use", "id": "z", "name": "f", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "y", "is_error": true,
                  "content": "{\"status\":\"error\",\"error\":\"invalid_arguments\"}" },
                { "type": "tool_result", "tool_use_id": "z", "is_error": true, "content": "no" },
                { "type": "tool_result", "tool_use_id": "x", "is_error": true, "content": UNKNOWN_RESULT },
                { "type": "text", "text": "go on" },
            ] },
        ]),
    );
}

#[test]
fn ids_that_the_family_refuses_are_mended_on_both_sides() {
    let given = request(&[
        user("a"),
        assistant(vec![call("functions.f:0", "{}")]),
        Message::tool_result("functions.f:0", "1".into()),
        assistant(vec![call("functions.f:0", "{}")]),
        Message::tool_result("functions.f:0", "2".into()),
    ]);
    let body = wire(&given);
    let called = |at: usize| body["messages"][at]["content"][0]["id"].as_str().unwrap();
    let answered = |at: usize| body["messages"][at]["content"][0]["tool_use_id"].as_str().unwrap();
    assert!(
        called(1) == answered(2) && called(3) == answered(4) && called(1) != called(3),
        "{body}"
    );
    assert!(called(1).chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{body}");
}

#[test]
fn reasoning_goes_back_unchanged_to_the_one_who_gave_it_and_to_nobody_else() {
    let block = r#"{"signature": "EqEE+/==", "thinking": "h\u00e9", "type": "thinking"}"#;
    let said = |part: Part| bytes(&request(&[user("a"), assistant(vec![part, text("so")])]));
    assert!(said(thought(block, "m")).contains(block));
    let other = said(thought(block, "other"));
    assert!(!other.contains("EqEE") && other.contains("so"), "{other}");
    let (seal, text, sealed) = (endpoint().seal("m"), "hm".to_owned(), Some(block.to_owned()));
    for (family, endpoint, profile) in [
        ("openai_chat", &*seal.endpoint, ""),
        (&seal.family, "http://h/", ""),
        (&seal.family, &seal.endpoint, "second"),
    ] {
        let seal = events::message::Seal {
            family: family.to_owned(),
            endpoint: endpoint.to_owned(),
            profile: profile.to_owned(),
            model: "m".to_owned(),
        };
        let part = Part::Reasoning { seal, text: text.clone(), sealed: sealed.clone() };
        assert!(!said(part).contains("EqEE"));
    }
    let unsealed = Part::Reasoning { seal, text: "hm".into(), sealed: None };
    assert!(!said(unsealed).contains("hm"), "thoughts are never made into text");
}

#[test]
fn an_assistant_that_said_nothing_that_may_be_said_is_left_out() {
    messages(
        &[user("a"), assistant(vec![thought("{}", "other"), text(" ")]), user("b")],
        &json!([{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }]),
    );
}

#[test]
fn a_late_system_text_is_said_under_a_mark() {
    let body = wire(&request(&[system("first"), user("a"), system("late")]));
    assert_eq!(body["system"][0]["text"], "first");
    assert_eq!(body["messages"][0]["content"][1]["text"], "<system>\nlate\n</system>");
}

#[test]
fn images_are_sent_by_value_or_by_address() {
    let image = |url: &str| {
        let parts = vec![Part::Image { url: url.into(), detail: Some("low".into()) }];
        Message { role: Role::User, name: None, parts }
    };
    messages(
        &[image("data:image/png;base64,iVBO"), image("https://h/cat.jpg")],
        &json!([{ "role": "user", "content": [
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBO" } },
            { "type": "image", "source": { "type": "url", "url": "https://h/cat.jpg" } },
        ] }]),
    );
    refused(&request(&[image("data:image/tiff;base64,AA")]), "no JPEG");
    refused(&request(&[image("data:image/png,AA")]), "not base64");
    refused(&request(&[image("file:///etc/passwd")]), "neither");
    let quirks = Quirks { parts: Parts::TextOnly, ..Quirks::STANDARD };
    let blind = Endpoint { quirks, ..endpoint() };
    let given = request(&[image("https://h/cat.jpg")]);
    assert!(encode(&blind, &given, Mode::Whole).is_err());
}

#[test]
fn what_the_family_refuses_is_named_before_it_is_sent() {
    refused(&Request { model: String::new(), ..request(&[user("a")]) }, "no model");
    refused(&request(&[]), "no message");
    refused(&request(&[system("only")]), "no message");
    refused(&request(&[user(" \n")]), "message 0 has nothing but empty text");
    refused(&request(&[assistant(vec![text("a")]), user("b")]), "message 0 has no user's message");
    refused(&request(&[user("a"), Message::tool_result("x", "r".into())]), "message 1 answers");
    let twice = assistant(vec![call("x", "{}"), call("x", "{}")]);
    refused(&request(&[user("a"), twice]), "\"x\" twice");
    let audio = vec![Part::Opaque(json!({ "type": "input_audio" }))];
    refused(&request(&[Message { role: Role::User, name: None, parts: audio }]), "does not have");
    refused(&request(&[user("a"), assistant(vec![thought("{", "m")])]), "no JSON");
    let mut tools = request(&[user("a")]);
    for (catalogue, about) in
        [(r#"[{"name":"a b"}]"#, "is not 1 to 128"), (r#"[{"name":"f"},{"name":"f"}]"#, "twice")]
    {
        tools.tools = Catalogue::new(Json::from_bytes(catalogue.as_bytes()));
        refused(&tools, about);
    }
}

#[test]
fn an_output_without_a_bound_gets_the_model_s_own() {
    assert_eq!(wire(&request(&[user("a")]))["max_tokens"], 4_096);
    let minimax = Endpoint { provider: "minimax".into(), ..endpoint() };
    let given = Request { model: "MiniMax-M2.5".into(), ..request(&[user("a")]) };
    let body: Value =
        serde_json::from_slice(&encode(&minimax, &given, Mode::Whole).unwrap()).unwrap();
    assert_eq!(body["max_tokens"], 8_192);
}

#[test]
fn tool_choices_have_the_family_s_words() {
    let choice = |extra: Value, then: Value| wished(extra, "tool_choice", then);
    choice(json!({}), Value::Null);
    choice(json!({ "tool_choice": "auto" }), json!({ "type": "auto" }));
    choice(
        json!({ "tool_choice": "none", "parallel_tool_calls": false }),
        json!({ "type": "none" }),
    );
    choice(json!({ "tool_choice": "required" }), json!({ "type": "any" }));
    choice(
        json!({ "tool_choice": { "type": "function", "function": { "name": "f" } }, "parallel_tool_calls": false }),
        json!({ "type": "tool", "name": "f", "disable_parallel_tool_use": true }),
    );
    choice(
        json!({ "parallel_tool_calls": false }),
        json!({ "type": "auto", "disable_parallel_tool_use": true }),
    );
    choice(json!({ "parallel_tool_calls": true }), Value::Null);
    choice(json!({ "tool_choice": { "type": "any" } }), json!({ "type": "any" }));
    let allowed = json!({ "tool_choice": { "type": "allowed_tools" } });
    assert!(wishes(&allowed).is_err());
    assert_eq!(wishes_of(&allowed, "[]").unwrap()["tool_choice"], Value::Null, "nothing to choose");
}

#[test]
fn sampling_and_stops_keep_the_family_s_bounds() {
    wished(json!({ "temperature": 1.7 }), "temperature", json!(1));
    wished(json!({ "temperature": 0.3, "top_p": 1 }), "top_p", Value::Null);
    wished(json!({ "top_p": 0.9 }), "top_p", json!(0.9));
    wished(json!({ "stop": "END" }), "stop_sequences", json!(["END"]));
    wished(json!({ "stop": ["\n", "a"] }), "stop_sequences", json!(["a"]));
    wished(json!({ "stop": ["\n"] }), "stop_sequences", Value::Null);
    wished(json!({ "user": "u1" }), "metadata", json!({ "user_id": "u1" }));
    wished(json!({ "service_tier": "flex" }), "service_tier", Value::Null);
    wished(json!({ "service_tier": "auto" }), "service_tier", json!("auto"));
    wished(json!({ "seed": 7, "logprobs": true }), "seed", Value::Null);
    assert!(matches!(wishes(&json!({ "n": 2 })), Err(EncodeError::Several(_))));
}

#[test]
fn effort_and_thinking_have_the_family_s_words() {
    let high = json!({ "reasoning_effort": "high", "temperature": 0.3, "top_k": 4 });
    let body = wishes(&high).unwrap();
    assert_eq!(body["thinking"], json!({ "type": "adaptive" }));
    assert_eq!(body["output_config"], json!({ "effort": "high" }));
    assert_eq!((&body["temperature"], &body["top_k"]), (&Value::Null, &Value::Null));
    let none = wishes(&json!({ "reasoning": { "effort": "none" }, "temperature": 0.3 })).unwrap();
    assert_eq!(
        (&none["thinking"], &none["temperature"]),
        (&json!({ "type": "disabled" }), &json!(0.3))
    );
    let budget = json!({ "thinking": { "type": "enabled", "budget_tokens": 10_000 } });
    assert_eq!(wishes(&budget).unwrap()["max_tokens"], 14_096, "room for the answer");
    let mut given = request(&[user("a")]);
    given.params.output_max = Some(Tokens(64));
    given.params.extra = Json::from_bytes(budget.to_string().as_bytes());
    refused(&given, "budget_tokens 10000");
}

#[test]
fn a_json_answer_is_asked_for_by_a_closed_schema() {
    let schema =
        json!({ "type": "object", "properties": { "a": { "type": "integer", "minimum": 1 } } });
    let format = json!({ "response_format": { "type": "json_schema",
        "json_schema": { "name": "n", "strict": true, "schema": schema } }, "reasoning_effort": "low" });
    let expected = json!({ "effort": "low", "format": { "type": "json_schema", "schema": {
        "type": "object", "additionalProperties": false,
        "properties": { "a": { "type": "integer", "description": "{minimum: 1}" } } } } });
    assert_eq!(wishes(&format).unwrap()["output_config"], expected);
    for (format, about) in [
        (json!({ "type": "json_object" }), "json_object"),
        (
            json!({ "type": "json_schema", "json_schema": { "schema": { "type": "array" } } }),
            "no object at its root",
        ),
        (json!({ "type": "json_schema" }), "no json_schema.schema"),
        (json!({ "type": "grammar" }), "of a type"),
    ] {
        let words = wishes(&json!({ "response_format": format })).unwrap_err().to_string();
        assert!(words.contains(about), "{words}");
    }
    assert!(wishes(&json!({ "response_format": { "type": "text" } })).is_ok());
}

#[test]
fn a_budget_for_thinking_waits_while_calls_of_another_model_are_answered() {
    let with = |parts: Vec<Part>| {
        let mut given =
            request(&[user("a"), assistant(parts), Message::tool_result("x", "r".into())]);
        given.params.extra =
            Json::from_bytes(br#"{"thinking":{"type":"enabled","budget_tokens":1024}}"#);
        wire(&given)["thinking"].clone()
    };
    let budget = json!({ "type": "enabled", "budget_tokens": 1024 });
    assert_eq!(with(vec![thought("{}", "m"), call("x", "{}")]), budget);
    assert_eq!(with(vec![thought("{}", "other"), call("x", "{}")]), Value::Null);
    assert_eq!(wishes(&json!({ "thinking": budget })).unwrap()["thinking"], budget);
}

#[test]
fn a_note_about_one_request_stands_behind_the_system_and_under_no_mark() {
    let note = Message { name: Some(NOTE.to_owned()), ..system("left out: b") };
    let body = wire(&request(&[system("be brief"), user("a"), note.clone()]));
    let expected = json!([
        { "type": "text", "text": "be brief", "cache_control": { "type": "ephemeral" } },
        { "type": "text", "text": "left out: b" },
    ]);
    assert_eq!(body["system"], expected);
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    let alone = wire(&request(&[user("a"), note]));
    assert_eq!(alone["system"], json!([{ "type": "text", "text": "left out: b" }]));
}

#[test]
fn a_tool_that_chooses_between_forms_is_folded_and_one_that_is_no_object_takes_no_other_away() {
    let mut given = request(&[user("a")]);
    let tools = json!([
        { "name": "a", "parameters": { "oneOf": [{ "properties": { "x": {} }, "required": ["x"] }] } },
        { "name": "b", "parameters": { "type": "array" } },
        { "name": "c" },
        { "name": "d", "parameters": 7 },
        { "name": "e", "parameters": { "anyOf": [] } },
    ]);
    given.tools = Catalogue::new(Json::from_bytes(tools.to_string().as_bytes()));
    let sent = &wire(&given)["tools"];
    assert_eq!(sent.as_array().unwrap().len(), 2);
    let folded = json!({ "type": "object", "properties": { "x": {} }, "required": ["x"] });
    assert_eq!(sent[0]["input_schema"], folded);
    assert_eq!(sent[1]["name"], "c");
}
