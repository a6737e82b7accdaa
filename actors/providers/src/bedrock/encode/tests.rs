//! Neutral requests and the exact bytes that they become.

use super::*;
use crate::class::{Charge, Failure};
use crate::decode::shredder::endpoint;
use crate::family::Family;
use events::json::Json;
use events::message::{Message, Part, Role, ToolCall, ToolResult};
use events::prompt::{Catalogue, Params};
use events::quantity::Tokens;
use events::run::ledger::UNKNOWN_RESULT;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-20250514-v1:0";

fn request(messages: &[Message]) -> Request {
    Request {
        model: CLAUDE.into(),
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

fn text(given: &Request) -> String {
    String::from_utf8(encode(&endpoint(Family::Bedrock), given, Mode::Stream).unwrap()).unwrap()
}

fn wire(given: &Request) -> Value {
    serde_json::from_str(&text(given)).unwrap()
}

fn with(extra: &str) -> Request {
    let mut given = request(&[user("hi")]);
    given.params.extra = Json::from_bytes(extra.as_bytes());
    given
}

fn tools(json: &str) -> Catalogue {
    Catalogue::new(Json::from_bytes(json.as_bytes()))
}

#[track_caller]
fn refused(given: &Request, about: &str) {
    let failure =
        Failure::from(encode(&endpoint(Family::Bedrock), given, Mode::Stream).unwrap_err());
    assert!(failure.message.contains(about), "{}", failure.message);
    assert_eq!(failure.charge, Charge::NotCharged);
}

#[test]
fn the_bytes_of_a_request_do_not_change() {
    let mut given = with(r#"{"temperature":0.50,"top_p":1,"stop":"x","user":"ann"}"#);
    given.messages.insert(0, Message::text(Role::System, "be brief").body());
    given.params.output_max = Some(Tokens(64));
    given.tools = tools(
        r#"[{"description":"now","name":"clock_now","parameters":{"type":"object","b":1.10}},{"description":"","name":"z"}]"#,
    );
    let then = concat!(
        r#"{"inferenceConfig":{"maxTokens":64,"stopSequences":["x"],"temperature":0.50,"topP":1},"#,
        r#""messages":[{"role":"user","content":[{"text":"hi"}]}],"system":[{"text":"be brief"}],"#,
        r#""toolConfig":{"tools":[{"toolSpec":{"name":"clock_now","description":"now","inputSchema":{"json":{"type":"object","b":1.10}}}},"#,
        r#"{"toolSpec":{"name":"z","inputSchema":{"json":{"type":"object","properties":{}}}}}]}}"#,
    );
    assert_eq!(text(&given), then);
}

#[test]
fn a_tool_that_failed_is_marked() {
    let result = ToolResult { call: "a".into(), content: "no".into(), is_error: true };
    let failed = Message { role: Role::Tool, name: None, parts: vec![Part::ToolResult(result)] };
    let sent = wire(&request(&[user("go"), assistant(vec![call("a", "f", "{}")]), failed]));
    let then = json!({ "toolResult": { "toolUseId": "a", "content": [{ "text": "no" }], "status": "error" } });
    assert_eq!(sent["messages"][2]["content"][0], then);
}

#[test]
fn results_stand_at_the_head_of_the_next_message() {
    let given = request(&[
        user("go"),
        assistant(vec![
            Part::Text { text: " ".into() },
            call("tooluse_a", "note", r#"{"n": 1.10}"#),
            call("functions.f:0", "weird.name", "not json"),
        ]),
        Message::tool_result("functions.f:0", String::new()),
        user("and?"),
        user("well?"),
    ]);
    let sent = wire(&given);
    let other =
        sent["messages"][1]["content"][1]["toolUse"]["toolUseId"].as_str().unwrap().to_owned();
    assert!(other.starts_with("functions_f_0_"), "{other}");
    let then = json!([
        { "role": "user", "content": [{ "text": "go" }] },
        { "role": "assistant", "content": [
            { "toolUse": { "toolUseId": "tooluse_a", "name": "note", "input": { "n": 1.10 } } },
            { "toolUse": { "toolUseId": other, "name": "weird_name", "input": {} } },
        ] },
        { "role": "user", "content": [
            { "toolResult": { "toolUseId": other, "content": [] } },
            { "toolResult": { "toolUseId": "tooluse_a", "content": [{ "text": UNKNOWN_RESULT }] } },
            { "text": "and?" },
            { "text": "well?" },
        ] },
    ]);
    assert_eq!(sent["messages"], then);
    assert!(text(&given).contains(r#""input":{"n": 1.10}"#));
    // Nothing is on offer, yet the history has calls: they must be named.
    let named: Vec<&str> = sent["toolConfig"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["toolSpec"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["note", "weird_name"]);
}

#[test]
fn reasoning_goes_back_as_it_came_to_the_one_who_gave_it_only() {
    let seal = endpoint(Family::Bedrock).seal(CLAUDE);
    let thought = |text: &str, sealed: Option<&str>| Part::Reasoning {
        text: text.into(),
        seal: seal.clone(),
        sealed: sealed.map(str::to_owned),
    };
    let parts = vec![
        thought("hm", Some(r#"{"signature":"S+/="}"#)),
        thought("", Some(r#"{"redactedContent":"UkVE"}"#)),
        thought("nobody signed this", None),
        Part::Text { text: "so".into() },
    ];
    let given = request(&[user("x"), assistant(parts)]);
    let then = json!([
        { "reasoningContent": { "reasoningText": { "text": "hm", "signature": "S+/=" } } },
        { "reasoningContent": { "redactedContent": "UkVE" } },
        { "text": "so" },
    ]);
    assert_eq!(wire(&given)["messages"][1]["content"], then);
    let other = Request { model: "amazon.nova-pro-v1:0".into(), ..given };
    assert_eq!(wire(&other)["messages"][1]["content"], json!([{ "text": "so" }]));
}

#[test]
fn speakers_take_turns_and_the_user_begins() {
    let given = request(&[
        Message::text(Role::System, "a"),
        user("one"),
        assistant(vec![Part::Text { text: String::new() }]),
        Message::text(Role::System, "late"),
        assistant(vec![Part::Refusal { text: "no".into() }]),
    ]);
    let then = json!([
        { "role": "user", "content": [{ "text": "one" }, { "text": "<system>\nlate\n</system>" }] },
        { "role": "assistant", "content": [{ "text": "no" }] },
    ]);
    assert_eq!(wire(&given)["messages"], then);
    refused(
        &request(&[assistant(vec![Part::Text { text: "x".into() }])]),
        "before any of the user's",
    );
    refused(&request(&[user(" \n")]), "no content");
    refused(&request(&[Message::text(Role::System, "a")]), "no message");
}

#[test]
fn images_go_by_value_only() {
    let image = |url: &str| Message {
        role: Role::User,
        name: None,
        parts: vec![Part::Image { url: url.into(), detail: None }],
    };
    let sent = wire(&request(&[image("data:image/jpg;base64,/9j/")]));
    let then = json!([{ "image": { "format": "jpeg", "source": { "bytes": "/9j/" } } }]);
    assert_eq!(sent["messages"][0]["content"], then);
    refused(&request(&[image("https://h/x.png")]), "message 0 has an image by address");
    refused(&request(&[image("data:image/heic;base64,AA")]), "type");
}

#[test]
fn wishes_are_said_in_the_familys_own_words() {
    let native = r#"{"max_completion_tokens":5,"guardrailConfig":{"guardrailIdentifier":"g"},"temperature":null,"serviceTier":{"type":"flex"}}"#;
    let sent = wire(&with(native));
    assert_eq!(sent["inferenceConfig"], json!({ "maxTokens": 5 }));
    assert_eq!(sent["guardrailConfig"]["guardrailIdentifier"], "g");
    assert_eq!(sent["serviceTier"]["type"], "flex");
    let sent = wire(&with(r#"{"reasoning_effort":"high","temperature":1,"top_p":1}"#));
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 16_384 } });
    assert_eq!(sent["additionalModelRequestFields"], thinking);
    assert_eq!(sent["inferenceConfig"], Value::Null);
    let mut short = with(r#"{"reasoning_effort":"low","temperature":1}"#);
    short.params.output_max = Some(Tokens(1_024));
    let sent = wire(&short);
    assert_eq!(sent["additionalModelRequestFields"], Value::Null);
    assert_eq!(sent["inferenceConfig"], json!({ "maxTokens": 1_024, "temperature": 1 }));
    let other = Request { model: "openai.gpt-oss-120b-1:0".into(), ..short };
    assert_eq!(wire(&other)["additionalModelRequestFields"], json!({ "reasoning_effort": "low" }));
    let own =
        r#"{"reasoning_effort":"low","temperature":1,"additionalModelRequestFields":{"top_k":3}}"#;
    let sent = wire(&with(own));
    assert_eq!(sent["additionalModelRequestFields"], json!({ "top_k": 3 }));
    assert_eq!(sent["inferenceConfig"], json!({ "temperature": 1 }));
}

#[test]
fn json_output_is_asked_for_with_the_schema_as_text() {
    let shape = |format: &str| {
        wire(&with(&format!(r#"{{"response_format":{format}}}"#)))["outputConfig"].clone()
    };
    let schema = r#"{"type":"json_schema","json_schema":{"name":"n","description":"d","strict":true,"schema":{"type":"object"}}}"#;
    let inner = json!({ "schema": "{\"type\":\"object\"}", "name": "n", "description": "d" });
    let then =
        json!({ "textFormat": { "type": "json_schema", "structure": { "jsonSchema": inner } } });
    assert_eq!(shape(schema), then);
    assert_eq!(shape(r#"{"type":"text"}"#), Value::Null);
    for odd in [r#"{"type":"json_object"}"#, r#"{"type":"json_schema"}"#] {
        refused(
            &with(&format!(r#"{{"response_format":{odd}}}"#)),
            "Converse takes text, or json_schema",
        );
    }
}

#[test]
fn tools_may_must_or_must_not_be_called() {
    let config = |choice: &str| {
        let mut given = with(&format!(r#"{{"tool_choice":{choice}}}"#));
        given.tools = tools(r#"[{"name":"a"},{"name":"b"}]"#);
        let config = wire(&given)["toolConfig"].clone();
        (config["tools"].as_array().map(Vec::len), config["toolChoice"].clone())
    };
    assert_eq!(config("\"auto\""), (Some(2), Value::Null));
    assert_eq!(config("null"), (Some(2), Value::Null));
    assert_eq!(config("\"none\""), (None, Value::Null));
    assert_eq!(config("\"required\""), (Some(2), json!({ "any": {} })));
    let named = r#"{"type":"function","function":{"name":"a"}}"#;
    assert_eq!(config(named), (Some(2), json!({ "tool": { "name": "a" } })));
    let allowed = |mode: &str| {
        config(&format!(r#"{{"allowed_tools":{{"mode":"{mode}","tools":[{named}]}}}}"#))
    };
    assert_eq!(allowed("auto"), (Some(1), Value::Null));
    assert_eq!(allowed("required"), (Some(1), json!({ "any": {} })));
    let mut odd = with(r#"{"tool_choice":"some"}"#);
    odd.tools = tools(r#"[{"name":"a"}]"#);
    refused(&odd, "tool_choice is \"some\"");
}

#[test]
fn what_the_family_refuses_is_refused_here() {
    refused(&Request { model: String::new(), ..with("{}") }, "names no model");
    refused(&with(r#"{"n":2}"#), "n is 2");
    refused(
        &Request { tools: tools(r#"[{"name":"note.append"}]"#), ..with("{}") },
        "\"note.append\"",
    );
    let odd = Message {
        role: Role::User,
        name: None,
        parts: vec![Part::Opaque(json!({ "type": "file" }))],
    };
    refused(&request(&[odd]), "does not know");
}
