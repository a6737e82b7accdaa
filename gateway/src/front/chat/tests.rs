//! What a request may look like, what comes of it, and what is refused with which words.

use super::*;
use events::message::{Message, Part, Role, ToolCall};
use events::prompt::Catalogue;
use events::quantity::Tokens;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A request with these fields besides a model and one message.
fn with(fields: Value) -> Value {
    let mut body = json!({"model": "demo", "messages": [{"role": "user", "content": "hi"}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn asked(body: &Value) -> Asked {
    parse(body.to_string().as_bytes()).unwrap().asked
}

fn said(message: Value) -> Message {
    let called = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    asked(&with(json!({"messages": [called, message]}))).messages.remove(1)
}

#[track_caller]
fn refused(fields: Value, then: &str) {
    assert_eq!(parse(with(fields).to_string().as_bytes()).unwrap_err().to_string(), then);
}

#[track_caller]
fn refused_message(message: Value, then: &str) {
    refused(json!({"messages": [{"role": "user", "content": "hi"}, message]}), then);
}

#[test]
fn the_least_request_is_a_model_and_a_message() {
    let expected = Asked {
        model: "demo".into(),
        messages: vec![Message::text(Role::User, "hi")],
        tools: Catalogue::default(),
        params: Params { output_max: None, extra: events::json::Json::from_bytes(b"{}") },
        metadata: BTreeMap::new(),
    };
    assert_eq!(asked(&with(json!({}))), expected);
    // The same with what clients send and nobody needs, and with null for absent.
    let noisy = json!({"store": false, "x": {"y": [1]}, "tools": null, "stream": null, "n": 1,
        "max_tokens": null, "metadata": null, "functions": null, "temperature": null});
    assert_eq!(asked(&with(noisy)), expected);
}

#[test]
fn a_stream_has_a_usage_chunk_only_where_it_is_asked_for() {
    let stream = |fields: Value| parse(with(fields).to_string().as_bytes()).unwrap().stream;
    let events = |usage| Stream::Events { usage };
    assert_eq!(stream(json!({"stream": true})), events(UsageChunk::Unwanted));
    let wanted = json!({"stream": true, "stream_options": {"include_usage": true}});
    assert_eq!(stream(wanted), events(UsageChunk::Wanted));
    let whole = json!({"stream": false, "stream_options": {"include_usage": true}});
    assert_eq!(stream(whole), Stream::Whole);
}

#[test]
fn roles_and_both_forms_of_content_become_parts() {
    let text = |text: &str| Part::Text { text: text.into() };
    assert_eq!(
        said(json!({"role": "developer", "content": "d"})),
        Message::text(Role::System, "d")
    );
    let mixed = json!({"role": "user", "name": "ann", "content": [
        {"type": "text", "text": "see", "cache_control": {}},
        {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
        {"type": "text", "text": ""},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]});
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}});
    let image = Part::Image { url: "https://a/b.png".into(), detail: Some("low".into()) };
    let expected = Message {
        role: Role::User,
        name: Some("ann".into()),
        parts: vec![text("see"), image, Part::Opaque(audio)],
    };
    assert_eq!(said(mixed), expected);
    let refusal = said(json!({"role": "assistant", "content": "", "refusal": "no"}));
    assert_eq!(refusal.parts, [Part::Refusal { text: "no".into() }]);
}

#[test]
fn calls_and_results_keep_their_ids_and_exact_arguments() {
    let call = said(json!({"role": "assistant", "content": "so", "tool_calls": [
        {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{ \"a\":1"}}]}));
    let expected = ToolCall { id: "x".into(), name: "f".into(), arguments: "{ \"a\":1".into() };
    assert_eq!(call.parts, [Part::Text { text: "so".into() }, Part::ToolCall(expected)]);
    let result = said(json!({"role": "tool", "tool_call_id": "c", "name": "f",
        "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]}));
    assert_eq!(result, Message::tool_result("c", "12".into()));
    let empty = said(json!({"role": "tool", "tool_call_id": "c", "content": ""}));
    assert_eq!(empty, Message::tool_result("c", String::new()));
}

#[test]
fn no_client_can_write_a_part_that_would_read_back_as_a_neutral_one() {
    for kind in ["image", "tool_call", "tool_result", "reasoning"] {
        let part = json!({"type": kind, "url": "u", "call": "c", "content": "x"});
        let then = format!(
            "messages[1].content[0].type: is \"{kind}\", which is no part of this API; \
             use text, image_url, input_audio or file"
        );
        refused_message(json!({"role": "user", "content": [part]}), &then);
    }
    let file = json!({"type": "file", "file": {"file_id": "f"}});
    let message = said(json!({"role": "user", "content": [file]}));
    assert_eq!(message.body().message(), Ok(message));
}

#[test]
fn tools_are_sorted_and_ones_of_other_types_are_ignored() {
    let tools = json!([
        {"type": "function", "function": {"name": "zeta", "strict": true, "parameters":
            {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "string"}}}}},
        {"type": "web_search"},
        {"type": "namespace", "name": "x", "tools": []},
        {"type": "function", "function": {"name": "alpha", "description": "A."}}]);
    let expected = concat!(
        r#"[{"description":"A.","name":"alpha","parameters":{"properties":{},"type":"object"}},"#,
        r#"{"description":"","name":"zeta","parameters":{"properties":{"a":{"type":"string"},"#,
        r#""b":{"type":"number"}},"type":"object"}}]"#
    );
    assert_eq!(asked(&with(json!({"tools": tools}))).tools.json().as_str(), expected);
    let other_order = json!([tools[3], tools[0]]);
    assert_eq!(asked(&with(json!({"tools": other_order}))).tools.json().as_str(), expected);
}

#[test]
fn known_wishes_are_kept_in_one_canonical_object() {
    let params =
        asked(&with(json!({"top_p": 0.5, "temperature": 1.0, "stop": ["a", "b"], "seed": 7,
        "user": "u", "n": 1, "max_tokens": 9, "max_completion_tokens": 9, "unheard_of": 1,
        "response_format": {"type": "json_schema", "json_schema": {"schema": {}, "name": "n"}}})))
        .params;
    let expected = concat!(
        r#"{"response_format":{"json_schema":{"name":"n","schema":{}},"type":"json_schema"},"#,
        r#""seed":7,"stop":["a","b"],"temperature":1,"top_p":0.5,"user":"u"}"#
    );
    assert_eq!((params.extra.as_str(), params.output_max), (expected, Some(Tokens(9))));
}

#[test]
fn a_choice_among_no_tools_is_left_out_and_a_demand_is_kept() {
    let extra = |fields: Value| asked(&with(fields)).params.extra.as_str().to_owned();
    let idle = json!({"tools": [{"type": "web_search"}], "tool_choice": "auto", "parallel_tool_calls": true});
    assert_eq!(extra(idle), "{}");
    assert_eq!(extra(json!({"tool_choice": "required"})), r#"{"tool_choice":"required"}"#);
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let offered = json!({"tools": tools, "tool_choice": "none"});
    assert_eq!(extra(offered), r#"{"tool_choice":"none"}"#);
}

#[test]
fn a_fault_names_the_field_the_rule_and_the_mend() {
    refused(json!({"model": 5}), "model: must be a string, not a number; send a string");
    refused(json!({"model": " "}), "model: must not be empty; name a model of GET /v1/models");
    refused(json!({"messages": []}), "messages: must not be empty; send at least one message");
    refused(json!({"messages": null}), "messages: is missing; send a list of at least one message");
    refused(
        json!({"stream": "yes"}),
        "stream: must be true or false, not a string; send true or false",
    );
    refused(json!({"n": 2}), "n: must be 1; send one request for each answer that you want");
    refused(
        json!({"max_tokens": -1}),
        "max_tokens: must be an integer of at least 1; leave it out for no bound of yours",
    );
    refused(
        json!({"max_tokens": 5, "max_completion_tokens": 6}),
        "max_tokens: is 5 but max_completion_tokens is 6; send max_completion_tokens alone",
    );
    refused(
        json!({"temperature": "hot"}),
        "temperature: must be a number, not a string; send a number",
    );
    refused(json!({"stop": ["a", 1]}), "stop[1]: must be a string, not a number; send a string");
    refused(
        json!({"seed": 9_007_199_254_740_993_i64}),
        "seed: must be an integer from -9007199254740991 to 9007199254740991; send one that JSON carries exactly",
    );
    refused(
        json!({"modalities": ["text", "audio"]}),
        "modalities[1]: must be \"text\", the only output there is; leave it out",
    );
    refused(
        json!({"metadata": {"a": 1}}),
        "metadata.a: must be a string, not a number; send a string",
    );
    refused(
        json!({"functions": []}),
        "functions: is the legacy form, which is not supported; send tools: [{\"type\": \"function\", \"function\": {…}}] instead",
    );
    refused(
        json!({"function_call": "auto"}),
        "function_call: is the legacy form, which is not supported; send tool_choice instead",
    );
}

#[test]
fn a_fault_of_a_message_names_its_place() {
    refused_message(
        json!({"role": "user", "content": 7}),
        "messages[1].content: must be a string or a list of parts, not a number; send a string or a list of parts",
    );
    refused_message(
        json!({"role": "user"}),
        "messages[1].content: is missing; send a string, or a list of parts",
    );
    refused_message(
        json!({"role": "robot", "content": ""}),
        "messages[1].role: is \"robot\", which is no role here; use system, developer, user, assistant or tool",
    );
    refused_message(
        json!({"role": "function", "name": "f", "content": ""}),
        "messages[1].role: is the legacy form, which is not supported; send role \"tool\" with tool_call_id",
    );
    refused_message(
        json!({"role": "tool", "tool_call_id": "gone", "content": ""}),
        "messages[1]: answers \"gone\", which no earlier message calls; send the assistant message with its tool_calls before it",
    );
    refused_message(
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}),
        "messages[1].content[0].image_url.url: is \"file:///etc/passwd\", which is neither an https: nor a data: address; put the image on a server, or into a data: address",
    );
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    refused_message(
        json!({"role": "assistant", "tool_calls": [call, call]}),
        "messages[1].tool_calls[1]: has the id \"c\" of another call; give each call an id of its own",
    );
    let tree = json!({"id": "c", "function": {"name": "f", "arguments": {}}});
    refused_message(
        json!({"role": "assistant", "tool_calls": [tree]}),
        "messages[1].tool_calls[0].function.arguments: must be a string, not an object; send the JSON as text, exactly as the model wrote it",
    );
}

#[test]
fn a_fault_of_a_tool_names_its_place() {
    let tool = |function: Value| json!({"tools": [{"type": "function", "function": function}]});
    refused(
        tool(json!({"name": "a.b"})),
        "tools[0].function.name: is \"a.b\", which is not a name that every provider takes; use a-z, A-Z, 0-9, _ and -, at most 64 characters",
    );
    refused(
        tool(json!({"name": "a", "parameters": "{}"})),
        "tools[0].function.parameters: must be an object, not a string; send an object",
    );
    let twice = json!({"type": "function", "function": {"name": "a"}});
    refused(
        json!({"tools": [twice, twice]}),
        "tools[1]: offers \"a\" a second time; give each tool a name of its own",
    );
}

#[test]
fn what_is_not_json_is_a_fault_and_never_a_panic() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let many = format!("[{}0]", "0,".repeat(500_000));
    for (body, why) in [
        (&b""[..], "EOF"),
        (b"{", "EOF"),
        (b"\xff", "expected value"),
        (b"{} {}", "trailing characters"),
        (b"\"\xff\"", "invalid unicode"),
        (br#"{"model":"\ud800"}"#, "hex escape"),
        (br#"{"temperature":1e999}"#, "number out of range"),
        (deep.as_bytes(), "recursion limit exceeded"),
        (many.as_bytes(), "more than 500000 values"),
    ] {
        let text = parse(body).unwrap_err().to_string();
        let is_named = text.starts_with("body: can not be read as JSON (") && text.contains(why);
        assert!(is_named && text.ends_with("; send one JSON object, in UTF-8"), "{why}: {text}");
    }
    for (body, sort) in [(&b"[]"[..], "a list"), (b" 7 ", "a number"), (b"null", "null")] {
        let then = format!("body: must be an object, not {sort}; send an object");
        assert_eq!(parse(body).unwrap_err().to_string(), then);
    }
}

#[test]
fn of_two_fields_with_one_name_the_last_counts() {
    let body = r#"{"model":"a","messages":[{"role":"user","content":"x"}],"model":"b"}"#;
    assert_eq!(parse(body.as_bytes()).unwrap().asked.model, "b");
}

#[test]
fn every_cut_of_a_request_is_refused() {
    let body =
        with(json!({"tools": [{"type": "function", "function": {"name": "f"}}], "stop": "é"}));
    let text = body.to_string();
    for end in 0..text.len() {
        assert!(parse(&text.as_bytes()[..end]).is_err(), "{end}");
    }
}
