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

fn request(model: &str, messages: &[Message]) -> Request {
    Request {
        model: model.into(),
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

fn sealed(model: &str, text: &str, sealed: Option<&str>) -> Part {
    let seal = endpoint(Family::Gemini).seal(model);
    Part::Reasoning { text: text.into(), seal, sealed: sealed.map(str::to_owned) }
}

fn text(given: &Request) -> String {
    String::from_utf8(encode(&endpoint(Family::Gemini), given, Mode::Stream).unwrap()).unwrap()
}

fn wire(given: &Request) -> Value {
    serde_json::from_str(&text(given)).unwrap()
}

fn with(extra: &str) -> Request {
    let mut given = request("gemini-3-pro", &[user("hi")]);
    given.params.extra = Json::from_bytes(extra.as_bytes());
    given
}

fn tools(json: &str) -> Catalogue {
    Catalogue::new(Json::from_bytes(json.as_bytes()))
}

#[track_caller]
fn refused(given: &Request, about: &str) {
    let failure =
        Failure::from(encode(&endpoint(Family::Gemini), given, Mode::Stream).unwrap_err());
    assert!(failure.message.contains(about), "{}", failure.message);
    assert_eq!(failure.charge, Charge::NotCharged);
}

#[test]
fn the_bytes_of_a_request_do_not_change() {
    let extra = r#"{"temperature":0.50,"top_p":1,"stop":"x","seed":7,"user":"ann","stream":true}"#;
    let mut given = with(extra);
    given.messages.insert(0, Message::text(Role::System, "be brief").body());
    given.params.output_max = Some(Tokens(64));
    given.tools = tools(
        r#"[{"description":"now","name":"clock_now","parameters":{"type":"object","properties":{"zone":{"type":"string"}},"additionalProperties":false}},{"name":"z"}]"#,
    );
    let then = concat!(
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"#,
        r#""generationConfig":{"maxOutputTokens":64,"seed":7,"stopSequences":["x"],"temperature":0.50,"topP":1},"#,
        r#""systemInstruction":{"parts":[{"text":"be brief"}]},"#,
        r#""tools":[{"functionDeclarations":[{"name":"clock_now","description":"now","parameters":{"properties":{"zone":{"type":"STRING"}},"type":"OBJECT"}},{"name":"z"}]}]}"#,
    );
    assert_eq!(text(&given), then);
}

#[test]
fn a_plain_request_has_no_field_that_nobody_asked_for() {
    let then = json!({ "contents": [{ "role": "user", "parts": [{ "text": "hi" }] }] });
    assert_eq!(wire(&request("gemini-3-pro", &[user("hi")])), then);
}

#[test]
fn a_tool_that_failed_says_so() {
    let result = ToolResult { call: "a".into(), content: "{}".into(), is_error: true };
    let failed = Message { role: Role::Tool, name: None, parts: vec![Part::ToolResult(result)] };
    let given = [user("go"), assistant(vec![call("a", "f", "{}")]), failed];
    let sent = wire(&request("gemini-2.5-flash", &given));
    let response = &sent["contents"][2]["parts"][0]["functionResponse"]["response"];
    assert_eq!(response, &json!({ "error": "{}" }));
}

#[test]
fn all_results_of_a_turn_stand_together_in_the_order_of_its_calls() {
    let given = request(
        "gemini-2.5-flash",
        &[
            user("go"),
            assistant(vec![
                call("a", "note", r#"{"n": 1.10}"#),
                call("b", "9weird name", "not json"),
                call("c", "lost", ""),
            ]),
            Message::tool_result("b", "two".into()),
            Message::tool_result("a", r#"{"ok": 1.0}"#.into()),
            user("and?"),
        ],
    );
    let then = [
        r#"{"role":"user","parts":[{"text":"go"}]},"#,
        r#"{"role":"model","parts":[{"functionCall":{"id":"a","name":"note","args":{"n": 1.10}}},{"functionCall":{"id":"b","name":"_9weird_name","args":{}}},{"functionCall":{"id":"c","name":"lost","args":{}}}]},"#,
        r#"{"role":"user","parts":[{"functionResponse":{"id":"a","name":"note","response":{"ok": 1.0}}},{"functionResponse":{"id":"b","name":"_9weird_name","response":{"result":"two"}}},{"functionResponse":{"id":"c","name":"lost","response":"#,
        UNKNOWN_RESULT,
        r#"}}]},{"role":"user","parts":[{"text":"and?"}]}"#,
    ]
    .concat();
    let sent = text(&given);
    assert!(sent.contains(&then), "{sent}");
}

#[test]
fn a_signature_goes_back_on_the_part_that_it_came_with() {
    let parts = |given: &Request| wire(given)["contents"][1]["parts"].clone();
    let given = request(
        "gemini-3-pro",
        &[
            user("go"),
            assistant(vec![
                sealed("gemini-3-pro", "hm", None),
                sealed("gemini-3-pro", "so", Some(r#"{"thoughtSignature":"AA+/="}"#)),
                sealed("gemini-3-pro", "", Some(r#"{"thoughtSignature":"BB"}"#)),
                Part::Text { text: "well".into() },
                sealed("gemini-3-pro", "", Some(r#"{"thoughtSignature":"CC"}"#)),
                call("a", "f", "{}"),
                call("b", "f", "{}"),
                sealed("gemini-3-pro", "", Some(r#"{"text":"","thoughtSignature":"DD"}"#)),
            ]),
        ],
    );
    let then = json!([
        { "text": "hm", "thought": true },
        { "text": "so", "thought": true, "thoughtSignature": "AA+/=" },
        { "text": "well", "thoughtSignature": "BB" },
        { "functionCall": { "id": "a", "name": "f", "args": {} }, "thoughtSignature": "CC" },
        { "functionCall": { "id": "b", "name": "f", "args": {} } },
        { "text": "", "thoughtSignature": "DD" },
    ]);
    assert_eq!(parts(&given), then);
    // Another model's: nothing of it is sent, and its calls say that they are another's.
    let other = Request { model: "gemini-3.5-pro".into(), ..given.clone() };
    let then = json!([
        { "text": "well" },
        { "functionCall": { "id": "a", "name": "f", "args": {} }, "thoughtSignature": "skip_thought_signature_validator" },
        { "functionCall": { "id": "b", "name": "f", "args": {} } },
    ]);
    assert_eq!(parts(&other), then);
    // Older ones demand none.
    let older = Request { model: "gemini-2.5-pro".into(), ..given };
    assert_eq!(parts(&older)[1]["thoughtSignature"], Value::Null);
}

#[test]
fn speakers_take_turns_and_nobody_says_nothing() {
    let given = request(
        "gemini-3-pro",
        &[
            Message::text(Role::System, "a"),
            Message::text(Role::System, "b"),
            user("one"),
            user("two"),
            assistant(vec![Part::Text { text: String::new() }]),
            Message::text(Role::System, "late"),
            assistant(vec![Part::Refusal { text: "no".into() }]),
        ],
    );
    let sent = wire(&given);
    assert_eq!(sent["systemInstruction"], json!({ "parts": [{ "text": "a" }, { "text": "b" }] }));
    let then = json!([
        { "role": "user", "parts": [{ "text": "one" }, { "text": "two" }, { "text": "<system>\nlate\n</system>" }] },
        { "role": "model", "parts": [{ "text": "no" }] },
    ]);
    assert_eq!(sent["contents"], then);
    refused(&request("m", &[user("")]), "no content");
    refused(&request("m", &[Message::text(Role::System, "a")]), "no message");
}

#[test]
fn images_go_by_value_only() {
    let image = |url: &str| Message {
        role: Role::User,
        name: None,
        parts: vec![Part::Image { url: url.into(), detail: None }],
    };
    let sent = wire(&request("m", &[image("data:image/png;base64,iVBO")]));
    let then = json!([{ "inlineData": { "mimeType": "image/png", "data": "iVBO" } }]);
    assert_eq!(sent["contents"][0]["parts"], then);
    refused(&request("m", &[image("https://h/x.png")]), "message 0 has an image by address");
    refused(&request("m", &[image("data:image/gif;base64,AA")]), "type");
}

#[test]
fn wishes_are_said_in_the_familys_own_words() {
    let config = |extra: &str| wire(&with(extra))["generationConfig"].clone();
    assert_eq!(
        config(
            r#"{"max_tokens":5,"stop":["a","b"],"top_k":3,"presence_penalty":1,"frequency_penalty":null}"#
        ),
        json!({ "maxOutputTokens": 5, "stopSequences": ["a", "b"], "topK": 3, "presencePenalty": 1 })
    );
    assert_eq!(
        config(
            r#"{"temperature":1,"generationConfig":{"temperature":0,"responseModalities":["TEXT"]}}"#
        ),
        json!({ "temperature": 0, "responseModalities": ["TEXT"] })
    );
    let safety = r#"{"safetySettings":[{"category":"c","threshold":"t"}]}"#;
    assert_eq!(wire(&with(safety))["safetySettings"][0]["threshold"], "t");
    assert_eq!(
        config(r#"{"reasoning_effort":"low"}"#)["thinkingConfig"],
        json!({ "thinkingLevel": "LOW", "includeThoughts": true })
    );
    let budget = |effort: &str| {
        let extra = format!(r#"{{"reasoning_effort":"{effort}"}}"#);
        let given = Request { model: "gemini-2.5-pro".into(), ..with(&extra) };
        wire(&given)["generationConfig"]["thinkingConfig"]["thinkingBudget"].clone()
    };
    assert_eq!(["none", "high", "max"].map(budget), [json!(0), json!(24_576), json!(-1)]);
}

#[test]
fn json_output_is_asked_for_with_a_view_of_the_schema() {
    let config = |format: &str| {
        wire(&with(&format!(r#"{{"response_format":{format}}}"#)))["generationConfig"].clone()
    };
    let schema = r#"{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"],"additionalProperties":false}}}"#;
    let then = json!({ "responseMimeType": "application/json", "responseSchema": {
        "type": "OBJECT", "properties": { "a": { "type": "STRING", "nullable": true } }, "required": ["a"],
    } });
    assert_eq!(config(schema), then);
    let object = json!({ "responseMimeType": "application/json" });
    assert_eq!(config(r#"{"type":"json_object"}"#), object);
    assert_eq!(config(r#"{"type":"text"}"#), Value::Null);
    refused(
        &with(r#"{"response_format":{"type":"grammar"}}"#),
        "response_format has the type grammar",
    );
}

#[test]
fn tools_may_must_or_must_not_be_called() {
    let config = |choice: &str| {
        let mut given = with(&format!(r#"{{"tool_choice":{choice},"parallel_tool_calls":false}}"#));
        given.tools = tools(r#"[{"name":"a"}]"#);
        wire(&given)["toolConfig"]["functionCallingConfig"].clone()
    };
    for (choice, mode) in [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")] {
        assert_eq!(config(&format!("{choice:?}")), json!({ "mode": mode }));
    }
    let named = r#"{"type":"function","function":{"name":"a"}}"#;
    assert_eq!(config(named), json!({ "mode": "ANY", "allowedFunctionNames": ["a"] }));
    let allowed = |mode: &str| {
        format!(
            r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"{mode}","tools":[{named}]}}}}"#
        )
    };
    let allowed = |mode: &str| config(&allowed(mode))["mode"].clone();
    assert_eq!((allowed("required"), allowed("auto")), (json!("ANY"), json!("VALIDATED")));
    assert_eq!(config("null"), Value::Null);
    // Without tools there is nothing to choose from.
    assert_eq!(wire(&with(r#"{"tool_choice":"auto"}"#))["toolConfig"], Value::Null);
    let mut odd = with(r#"{"tool_choice":"some"}"#);
    odd.tools = tools(r#"[{"name":"a"}]"#);
    refused(&odd, "tool_choice is \"some\"");
}

#[test]
fn what_the_family_refuses_is_refused_here() {
    refused(&request("", &[user("x")]), "names no model");
    refused(&with(r#"{"n":2}"#), "n is 2");
    refused(&with("[1]"), "not a JSON object");
    let tool = |json: &str| Request { tools: tools(json), ..with("{}") };
    refused(&tool(r#"[{"name":"note.append"}]"#), "\"note.append\"");
    let left = r#"[{"name":"9a"},{"name":"b"},{"name":"c","parameters":{"type":"array"}}]"#;
    let left = &wire(&tool(left))["tools"][0]["functionDeclarations"];
    assert_eq!(*left, json!([{ "name": "b" }]), "one that can not be told of takes no other away");
    let odd = Message {
        role: Role::User,
        name: None,
        parts: vec![Part::Opaque(json!({ "type": "file" }))],
    };
    refused(&request("m", &[odd]), "does not know");
}
