//! Neutral requests and the exact bytes that they become.

use super::*;
use crate::class::{Charge, Class, Failure};
use crate::decode::shredder;
use crate::endpoint::{Parts, Quirks};
use crate::family::Family;
use events::json::Json;
use events::message::{Message, Part, Role, ToolCall};
use events::prompt::{Catalogue, Params};
use events::quantity::Tokens;
use events::run::ledger::UNKNOWN_RESULT;
use serde_json::{Value, json};

fn endpoint() -> Endpoint {
    shredder::endpoint(Family::OpenaiResponses)
}

fn codex() -> Endpoint {
    Endpoint { quirks: Quirks { dialect: Dialect::Codex, ..Quirks::STANDARD }, ..endpoint() }
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

const REASONING: &str =
    r#"{ "type":"reasoning","id":"rs_1","encrypted_content":"g+/=","summary":[] }"#;

fn bytes(endpoint: &Endpoint, request: &Request) -> String {
    String::from_utf8(encode(endpoint, request, Mode::Whole).unwrap()).unwrap()
}

fn wire(request: &Request) -> Value {
    serde_json::from_str(&bytes(&endpoint(), request)).unwrap()
}

fn wishes(endpoint: &Endpoint, extra: &Value) -> Result<Value, EncodeError> {
    let mut given = request(&[user("hi")]);
    given.params.extra = Json::from_bytes(extra.to_string().as_bytes());
    given.tools = Catalogue::new(Json::from_bytes(br#"[{"name":"f"}]"#));
    Ok(serde_json::from_slice(&encode(endpoint, &given, Mode::Whole)?).unwrap())
}

#[track_caller]
fn wished(extra: Value, name: &str, then: Value) {
    assert_eq!(wishes(&endpoint(), &extra).unwrap()[name], then, "{extra}");
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
        system("and kind"),
        user("hi"),
        assistant(vec![thought(REASONING, "m"), text("so"), call("call_1", r#"{"b": 1.50}"#)]),
        Message::tool_result("call_1", "72F".into()),
    ]);
    given.params.output_max = Some(Tokens(64));
    given.params.extra =
        Json::from_bytes(br#"{"temperature":0.50,"model":"evil","store":true,"seed":7}"#);
    given.tools = Catalogue::new(Json::from_bytes(
        br#"[{"description":"now","name":"clock_now","parameters":{"b":1,"a":1.10},"strict":true},{"name":"z"}]"#,
    ));
    assert_eq!(
        bytes(&endpoint(), &given),
        concat!(
            r#"{"include":["reasoning.encrypted_content"],"input":["#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},"#,
            r#"{ "type":"reasoning","id":"rs_1","encrypted_content":"g+/=","summary":[] },"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"so"}]},"#,
            r#"{"type":"function_call","call_id":"call_1","name":"f","arguments":"{\"b\": 1.50}"},"#,
            r#"{"type":"function_call_output","call_id":"call_1","output":"72F"}],"#,
            r#""instructions":"be brief\n\nand kind","max_output_tokens":64,"model":"m","store":false,"stream":false,"#,
            r#""temperature":0.50,"#,
            r#""tools":[{"type":"function","name":"clock_now","description":"now","parameters":{"b":1,"a":1.10},"strict":true},"#,
            r#"{"type":"function","name":"z","parameters":{"type":"object","properties":{}},"strict":false}]}"#,
        )
    );
}

#[test]
fn a_longer_conversation_begins_with_the_bytes_of_the_shorter() {
    let steps = [
        system("s"),
        user("hi"),
        assistant(vec![thought(REASONING, "m"), call("a", "{}")]),
        Message::tool_result("a", "r".into()),
        assistant(vec![text("done")]),
        user("more"),
    ];
    let quirks = Quirks { cache_key: CacheKey::Sent, ..Quirks::STANDARD };
    let endpoint = Endpoint { quirks, ..endpoint() };
    let body = |count: usize| bytes(&endpoint, &request(&steps[..count]));
    let input = |count: usize| {
        let body = body(count);
        let (before, _) = body.split_once("],\"instructions\"").unwrap();
        before.to_owned()
    };
    for (shorter, longer) in [(2, 4), (4, 5), (5, 6)] {
        assert!(input(longer).starts_with(&input(shorter)), "{shorter} and {longer}");
    }
    let key = |count: usize| {
        let body: Value = serde_json::from_str(&body(count)).unwrap();
        body["prompt_cache_key"].as_str().unwrap().to_owned()
    };
    assert!(key(2) == key(6) && key(2).starts_with("piton-"));
}

#[test]
fn reasoning_goes_back_unchanged_to_the_one_who_gave_it_and_only_before_what_it_led_to() {
    let said = |parts: Vec<Part>| bytes(&endpoint(), &request(&[user("a"), assistant(parts)]));
    assert!(said(vec![thought(REASONING, "m"), text("so")]).contains(REASONING));
    assert!(!said(vec![thought(REASONING, "other"), text("so")]).contains("rs_1"));
    assert!(!said(vec![text("so"), thought(REASONING, "m")]).contains("rs_1"));
    let search = r#"{"type":"web_search_call","id":"ws_1"}"#;
    assert!(!said(vec![thought(search, "m"), text("so")]).contains("ws_1"), "not stored there");
    assert!(!said(vec![thought(REASONING, "other"), text("so")]).contains("hm"));
    refused(&request(&[user("a"), assistant(vec![thought("{", "m"), text("b")])]), "no JSON");
}

#[test]
fn every_call_has_its_output_and_late_instructions_stand_where_they_were_said() {
    let body = wire(&request(&[
        user("a"),
        assistant(vec![call("x:0", "not json"), call("y", " ")]),
        Message::tool_result("x:0", "1".into()),
        system("late"),
        assistant(vec![Part::Refusal { text: "no".into() }]),
    ]));
    let input = body["input"].as_array().unwrap();
    let mended = input[1]["call_id"].as_str().unwrap();
    assert!(mended.starts_with("x_0_") && input[3]["call_id"] == mended, "{body}");
    assert_eq!(
        (&input[1]["arguments"], &input[2]["arguments"]),
        (&json!("not json"), &json!("{}"))
    );
    let lost = json!({ "type": "function_call_output", "call_id": "y", "output": UNKNOWN_RESULT });
    assert_eq!(input[4], lost);
    assert_eq!(input[5]["role"], "developer");
    assert_eq!(input[6]["content"], json!([{ "type": "refusal", "refusal": "no" }]));
}

#[test]
fn images_and_files_are_sent() {
    let parts = vec![
        Part::Image { url: "data:image/png;base64,iVBO".into(), detail: Some("low".into()) },
        Part::Opaque(json!({ "type": "input_file", "file_id": "f" })),
    ];
    let given = request(&[Message { role: Role::User, name: None, parts }]);
    let content = json!([
        { "type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "low" },
        { "type": "input_file", "file_id": "f" },
    ]);
    assert_eq!(wire(&given)["input"][0]["content"], content);
    let quirks = Quirks { parts: Parts::TextOnly, ..Quirks::STANDARD };
    assert!(encode(&Endpoint { quirks, ..endpoint() }, &given, Mode::Whole).is_err());
    let audio = vec![Part::Opaque(json!({ "type": "input_audio" }))];
    refused(&request(&[Message { role: Role::User, name: None, parts: audio }]), "does not have");
}

#[test]
fn what_the_family_refuses_is_named_before_it_is_sent() {
    refused(&Request { model: String::new(), ..request(&[user("a")]) }, "no model");
    refused(&request(&[]), "no message");
    refused(&request(&[system("only")]), "no message");
    refused(&request(&[user("a"), Message::tool_result("x", "r".into())]), "message 1 answers");
    let mut short = request(&[user("a")]);
    short.params.output_max = Some(Tokens(9));
    refused(&short, "max_output_tokens is 9: give at least 16");
    let mut tools = request(&[user("a")]);
    tools.tools = Catalogue::new(Json::from_bytes(br#"[{"name":"a b"}]"#));
    refused(&tools, "is not 1 to 64");
    let stop = wishes(&endpoint(), &json!({ "stop": ["END"] })).unwrap_err().to_string();
    assert!(stop.contains("stop is given"), "{stop}");
    assert!(wishes(&endpoint(), &json!({ "stop": null })).is_ok());
}

#[test]
fn wishes_have_the_family_s_words() {
    wished(json!({ "reasoning_effort": "high" }), "reasoning", json!({ "effort": "high" }));
    wished(
        json!({ "reasoning": { "effort": "low", "summary": "auto" }, "reasoning_effort": "high" }),
        "reasoning",
        json!({ "effort": "low", "summary": "auto" }),
    );
    wished(json!({ "user": "u1" }), "safety_identifier", json!("u1"));
    wished(json!({ "parallel_tool_calls": false }), "parallel_tool_calls", json!(false));
    wished(json!({ "tool_choice": "required" }), "tool_choice", json!("required"));
    wished(
        json!({ "tool_choice": { "type": "function", "function": { "name": "f" } } }),
        "tool_choice",
        json!({ "type": "function", "name": "f" }),
    );
    wished(
        json!({ "tool_choice": { "type": "allowed_tools", "allowed_tools": { "mode": "auto",
            "tools": [{ "type": "function", "function": { "name": "f" } }] } } }),
        "tool_choice",
        json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "function", "name": "f" }] }),
    );
    let schema = json!({ "type": "object", "properties": { "a": { "minimum": 1 } } });
    wished(
        json!({ "verbosity": "low", "response_format": { "type": "json_schema",
            "json_schema": { "name": "n", "strict": true, "schema": schema } } }),
        "text",
        json!({ "verbosity": "low",
            "format": { "type": "json_schema", "name": "n", "strict": true, "schema": schema } }),
    );
    let object = json!({ "response_format": { "type": "json_object" } });
    wished(object, "text", json!({ "format": { "type": "json_object" } }));
    assert!(wishes(&endpoint(), &json!({ "response_format": { "type": "json_schema" } })).is_err());
}

#[test]
fn a_model_that_does_not_reason_is_not_asked_for_reasoning() {
    let include = |model: &str| {
        wire(&Request { model: model.into(), ..request(&[user("a")]) })["include"].clone()
    };
    assert_eq!(include("gpt-4.1-mini"), Value::Null);
    assert_eq!(include("gpt-6-luna"), json!(["reasoning.encrypted_content"]));
}

#[test]
fn the_subscription_is_asked_in_pieces_with_instructions_and_few_fields() {
    let body = wishes(
        &codex(),
        &json!({ "temperature": 0.5, "user": "u", "metadata": {}, "reasoning_effort": "low" }),
    );
    let expected = json!({
        "include": ["reasoning.encrypted_content"], "instructions": "", "model": "m", "store": false, "stream": true,
        "input": [{ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "hi" }] }],
        "reasoning": { "effort": "low" },
        "tools": [{ "type": "function", "name": "f", "parameters": { "type": "object", "properties": {} }, "strict": false }],
    });
    assert_eq!(body.unwrap(), expected);
}

/// It refuses a bound on output by name, and many clients send one with every request.
#[test]
fn the_subscription_is_given_no_bound_on_output() {
    let mut given = request(&[user("a")]);
    given.params.output_max = Some(Tokens(4_096));
    let sent = |endpoint: &Endpoint| -> Value {
        serde_json::from_slice(&encode(endpoint, &given, Mode::Whole).unwrap()).unwrap()
    };
    assert_eq!(sent(&codex())["max_output_tokens"], Value::Null);
    assert_eq!(sent(&endpoint())["max_output_tokens"], json!(4_096));
}
