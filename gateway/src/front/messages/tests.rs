//! What a request may look like and what comes of it, what an answer looks like, and what is refused with which words.

use super::*;
use crate::front::blocks::Sealed;
use crate::front::door::{Ending, Failure, Head};
use crate::front::finish::Finish;
use bytes::Bytes;
use events::id::{Place, RunId};
use events::message::{Message, Part, Role, Seal, ToolCall, ToolResult};
use events::model_call::Class;
use events::quantity::Instant;
use events::usage::Usage;
use providers::Delta;
use serde_json::{Value, json};

/// A request with these fields besides the least.
fn with(fields: Value) -> Value {
    let mut body = json!({"model": "demo", "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn request(fields: Value) -> Request {
    parse(with(fields).to_string().as_bytes()).unwrap()
}

fn asked(fields: Value) -> Asked {
    request(fields).asked
}

fn extra(fields: Value) -> String {
    asked(fields).params.extra.as_str().to_owned()
}

/// The messages that come of one, which may answer the call `c`.
fn said(message: Value) -> Vec<Message> {
    let called = json!({"role": "assistant", "content": [
        {"type": "tool_use", "id": "c", "name": "f", "input": {}}]});
    asked(json!({"messages": [called, message]})).messages.split_off(1)
}

#[track_caller]
fn refused(fields: Value, then: &str) {
    assert_eq!(parse(with(fields).to_string().as_bytes()).unwrap_err().to_string(), then);
}

#[track_caller]
fn refused_block(role: &str, block: Value, then: &str) {
    refused(json!({"messages": [{"role": role, "content": [block]}]}), then);
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn result(content: &str) -> Message {
    Message::tool_result("c", content.into())
}

fn seal() -> Seal {
    let [family, endpoint, profile, model] = ["f", "https://a", "", "m"].map(str::to_owned);
    Seal { family, endpoint, profile, model }
}

#[test]
fn the_least_request_is_a_model_a_bound_and_a_message() {
    let expected = Asked {
        model: "demo".into(),
        messages: vec![Message::text(Role::User, "hi")],
        tools: Catalogue::default(),
        params: Params {
            output_max: Some(Tokens(9)),
            extra: events::json::Json::from_bytes(b"{}"),
        },
        metadata: std::collections::BTreeMap::new(),
    };
    let style = Style { delivery: Delivery::Whole, thoughts: Thoughts::Hidden };
    assert_eq!(request(json!({})), Request { asked: expected.clone(), style });
    // The same with what clients send and nobody needs, and with null for absent.
    let noisy = json!({"stream": false, "tools": [], "system": "", "metadata": {}, "thinking": null,
        "service_tier": "auto", "betas": ["x"], "tool_choice": {"type": "auto"}, "x": {"y": [1]}});
    assert_eq!(asked(noisy), expected);
    assert_eq!(request(json!({"stream": true})).style.delivery, Delivery::Live);
    refused(
        json!({"max_tokens": null}),
        "max_tokens: is missing; say how many tokens the answer may have at most",
    );
    refused(
        json!({"max_tokens": 0}),
        "max_tokens: must be an integer of at least 1; send at least 1",
    );
}

#[test]
fn a_system_text_comes_first_as_a_string_or_as_blocks() {
    let system = |system: Value| asked(json!({"system": system})).messages.remove(0);
    assert_eq!(system(json!("be brief")), Message::text(Role::System, "be brief"));
    let blocks = json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "b"}]);
    let expected = Message { role: Role::System, name: None, parts: vec![text("a"), text("b")] };
    assert_eq!(system(blocks), expected);
    let then = "system[0].type: is \"image\", and here stands text; \
        send {\"type\": \"text\", \"text\": …}";
    refused(json!({"system": [{"type": "image"}]}), then);
}

#[test]
fn blocks_of_a_user_become_parts() {
    let blocks = json!([
        {"type": "text", "text": "see", "cache_control": {}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
        {"type": "text", "text": ""},
        {"type": "document", "title": "t"}]);
    let image = |url: &str| Part::Image { url: url.into(), detail: None };
    let parts = vec![
        text("see"),
        image("data:image/png;base64,AA=="),
        image("https://a/b.png"),
        Part::Opaque(json!({"type": "document", "title": "t"})),
    ];
    let expected = Message { role: Role::User, name: None, parts };
    assert_eq!(said(json!({"role": "user", "content": blocks})), [expected]);
}

#[test]
fn results_are_messages_of_their_own_before_what_else_is_said() {
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}});
    let blocks = json!([
        {"type": "text", "text": "so?"},
        {"type": "tool_result", "tool_use_id": "c", "content": [
            {"type": "text", "text": "1"}, {"type": "text", "text": "2"}, image]}]);
    let parts = vec![text("so?"), Part::Image { url: "https://a/b.png".into(), detail: None }];
    let user = Message { role: Role::User, name: None, parts };
    assert_eq!(said(json!({"role": "user", "content": blocks})), [result("12"), user]);
    let alone = |block: Value| said(json!({"role": "user", "content": [block]}));
    let failed =
        json!({"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": true});
    let no = ToolResult { call: "c".into(), content: "no".into(), is_error: true };
    assert_eq!(alone(failed)[0].parts, [Part::ToolResult(no)]);
    let silent = json!({"type": "tool_result", "tool_use_id": "c"});
    assert_eq!(alone(silent), [result("")]);
    refused_block(
        "user",
        json!({"type": "tool_result", "tool_use_id": "x", "content": ""}),
        "messages[0]: answers \"x\", which no earlier message calls; \
         send the assistant message with its tool_use before it",
    );
}

#[test]
fn calls_keep_their_ids_and_the_order_of_their_input() {
    let body = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"go"},
        {"role":"assistant","content":[{"type":"text","text":"so"},
        {"type":"tool_use","id":"x","name":"f","input":{"b":1,"a":[null,"é",1.5]}}]}]}"#;
    let arguments = r#"{"b":1,"a":[null,"é",1.5]}"#.to_owned();
    let call = ToolCall { id: "x".into(), name: "f".into(), arguments };
    let message = parse(body.as_bytes()).unwrap().asked.messages.remove(1);
    assert_eq!(message.parts, [text("so"), Part::ToolCall(call)]);
    refused_block(
        "assistant",
        json!({"type": "tool_use", "id": "x", "name": "f", "input": "{}"}),
        "messages[0].content[0].input: must be an object, not a string; send an object",
    );
}

#[test]
fn a_thought_comes_back_under_its_seal_and_a_strangers_is_dropped() {
    let parts =
        |blocks: Value| said(json!({"role": "assistant", "content": blocks})).remove(0).parts;
    let signature = |sealed: Option<&str>| {
        thought::signature(&Sealed { seal: seal(), sealed: sealed.map(str::to_owned) })
    };
    let mine = json!({"type": "thinking", "thinking": "hm", "signature": signature(None)});
    let kept = Part::Reasoning { text: "hm".into(), seal: seal(), sealed: None };
    assert_eq!(parts(json!([mine, {"type": "text", "text": "a"}])), [kept, text("a")]);
    let block = r#"{ "data":"x" }"#;
    let unread = json!({"type": "redacted_thinking", "data": signature(Some(block))});
    let kept = Part::Reasoning { text: String::new(), seal: seal(), sealed: Some(block.into()) };
    assert_eq!(parts(json!([unread])), std::slice::from_ref(&kept));
    // It went out as it came back.
    let said = Message { role: Role::Assistant, name: None, parts: vec![kept] };
    assert_eq!(whole(&said, Finish::Stop, Thoughts::Shown)["content"], json!([unread]));
    for signature in ["", "EqQBCgIYAhIM", "piton:{}", "piton:"] {
        let others = json!({"type": "thinking", "thinking": "hm", "signature": signature});
        let redacted = json!({"type": "redacted_thinking", "data": "AA=="});
        assert_eq!(parts(json!([others, redacted, {"type": "text", "text": "a"}])), [text("a")]);
    }
}

#[test]
fn no_client_can_write_a_block_that_would_read_back_as_a_neutral_part() {
    for kind in ["tool_call", "reasoning", "refusal"] {
        let block = json!({"type": kind, "text": "x", "call": "c", "content": "x"});
        let then = format!(
            "messages[0].content[0].type: is \"{kind}\", which is no block of this API; \
             send {{\"type\": \"text\", \"text\": …}}"
        );
        refused_block("user", block.clone(), &then);
        refused_block("assistant", block, &then);
    }
    refused_block(
        "assistant",
        json!({"type": "tool_result", "tool_use_id": "c"}),
        "messages[0].content[0].type: is a block that only a user has; \
         send {\"type\": \"text\", \"text\": …}",
    );
    refused_block(
        "user",
        json!({"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}}),
        "messages[0].content[0].source.url: is \"file:///etc/passwd\", which is neither an https: \
         nor a data: address; put the image on a server, or into a data: address",
    );
}

#[test]
fn tools_and_wishes_take_their_neutral_names() {
    let tools = json!([
        {"name": "zeta", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "custom", "name": "alpha", "description": "A.", "cache_control": {}}]);
    let expected = concat!(
        r#"[{"description":"A.","name":"alpha","parameters":{"properties":{},"type":"object"}},"#,
        r#"{"description":"","name":"zeta","parameters":{"type":"object"}}]"#
    );
    assert_eq!(asked(json!({"tools": tools})).tools.json().as_str(), expected);
    let wishes = json!({"temperature": 0.5, "top_p": 1, "top_k": 5, "stop_sequences": ["x"],
        "metadata": {"user_id": "u"}, "output_config": {"effort": "low", "format":
        {"type": "json_schema", "schema": {"type": "object"}}}});
    let expected = concat!(
        r#"{"reasoning_effort":"low","response_format":{"json_schema":{"name":"output","#,
        r#""schema":{"type":"object"},"strict":true},"type":"json_schema"},"#,
        r#""stop":["x"],"temperature":0.5,"top_k":5,"top_p":1,"user":"u"}"#
    );
    assert_eq!(extra(wishes), expected);
    let choice = |choice: Value| extra(json!({"tools": tools, "tool_choice": choice}));
    assert_eq!(choice(json!({"type": "any"})), r#"{"tool_choice":"required"}"#);
    let one = choice(json!({"type": "tool", "name": "zeta", "disable_parallel_tool_use": true}));
    let expected = r#"{"parallel_tool_calls":false,"tool_choice":{"function":{"name":"zeta"},"type":"function"}}"#;
    assert_eq!(one, expected);
    let then =
        "tool_choice.type: is \"some\", which is no choice here; use auto, any, tool or none";
    refused(json!({"tool_choice": {"type": "some"}}), then);
}

#[test]
fn thinking_is_shown_to_whoever_asks_for_it() {
    let thoughts = |thinking: Value| request(json!({"thinking": thinking})).style.thoughts;
    assert_eq!(thoughts(json!({"type": "enabled", "budget_tokens": 1024})), Thoughts::Shown);
    assert_eq!(thoughts(json!({"type": "adaptive", "display": "omitted"})), Thoughts::Hidden);
    assert_eq!(thoughts(json!({"type": "disabled"})), Thoughts::Hidden);
    assert_eq!(
        extra(json!({"thinking": {"type": "adaptive"}})),
        r#"{"thinking":{"type":"adaptive"}}"#
    );
    let then = "thinking.type: is \"deep\", which is no way of thinking here; use enabled, adaptive or disabled";
    refused(json!({"thinking": {"type": "deep"}}), then);
}

#[test]
fn a_count_bounds_the_bytes_of_all_that_the_model_reads() {
    let count = |fields: Value| count(with(fields).to_string().as_bytes()).unwrap().1.0;
    let bare = count(json!({"max_tokens": null}));
    assert_eq!(bare, 53, "the message as it is stored");
    let tools = json!([{"name": "f", "input_schema": {}}]);
    assert!(count(json!({"system": "s", "tools": tools})) > bare + 90);
}

fn head(model: &str) -> Head<'_> {
    let run = RunId::new(Place::default(), 7);
    Head { run, created: Instant(1_700_000_000_000_000), model }
}

fn usage() -> Usage {
    Usage {
        prompt: Some(Tokens(1_010)),
        completion: Some(Tokens(5)),
        cached_input: Some(Tokens(900)),
        cache_write: Some(Tokens(100)),
        reasoning: Some(Tokens(2)),
        ..Usage::default()
    }
}

fn answered(arguments: &str) -> Message {
    let call = ToolCall { id: "c".into(), name: "f".into(), arguments: arguments.into() };
    let parts = vec![
        Part::Reasoning { text: "hm".into(), seal: seal(), sealed: None },
        text("so"),
        Part::ToolCall(call),
    ];
    Message { role: Role::Assistant, name: None, parts }
}

fn whole(message: &Message, finish: Finish, thoughts: Thoughts) -> Value {
    let end = Ending { message, finish, usage: &usage() };
    serde_json::from_slice(&answer::whole(&head("m"), &end, thoughts)).unwrap()
}

#[test]
fn a_whole_answer_has_its_blocks_its_reason_and_its_usage() {
    let end = Ending {
        message: &answered(r#"{"b":1,"a":2}"#),
        finish: Finish::ToolCalls,
        usage: &usage(),
    };
    let bytes = answer::whole(&head("m"), &end, Thoughts::Shown);
    let golden = include_str!("golden/whole.txt");
    assert_eq!(std::str::from_utf8(&bytes).unwrap(), golden.trim_end());
    let hidden = whole(&answered("{}"), Finish::ToolCalls, Thoughts::Hidden);
    assert_eq!(hidden["content"][0], json!({"type": "text", "text": "so"}));
}

#[test]
fn arguments_that_are_no_json_are_not_made_into_a_call_that_nobody_made() {
    let input = |arguments: &str| {
        whole(&answered(arguments), Finish::ToolCalls, Thoughts::Hidden)["content"][1]["input"]
            .clone()
    };
    assert_eq!(input(" "), json!({}));
    assert_eq!(input("{\"a\": "), json!("{\"a\": "));
}

#[test]
fn each_end_has_its_word_and_what_is_unknown_is_null() {
    let said = Message { role: Role::Assistant, name: None, parts: vec![text("a")] };
    let no = Message { parts: vec![Part::Refusal { text: "no".into() }], ..said.clone() };
    for (message, finish, word) in [
        (&said, Finish::Stop, "end_turn"),
        (&said, Finish::Length, "max_tokens"),
        (&said, Finish::ContentFilter, "refusal"),
        (&said, Finish::ToolCalls, "tool_use"),
        (&no, Finish::Stop, "refusal"),
    ] {
        assert_eq!(whole(message, finish, Thoughts::Hidden)["stop_reason"], word);
    }
    let end = Ending { message: &said, finish: Finish::Stop, usage: &Usage::default() };
    let bytes = answer::whole(&head("m"), &end, Thoughts::Hidden);
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(answer["usage"], json!({"input_tokens": null, "output_tokens": null}));
}

#[track_caller]
fn streams(thoughts: Thoughts, play: impl FnOnce(frames::Frames) -> Vec<Bytes>, golden: &str) {
    let bytes = play(frames::Frames::new(&head("m"), thoughts)).concat();
    assert_eq!(String::from_utf8(bytes).unwrap(), golden);
}

fn deltas() -> Vec<Delta> {
    let call = |index: usize, id: &str, name: &str| Delta::ToolCallStarted {
        index,
        id: id.into(),
        name: name.into(),
    };
    let more = |index: usize, text: &str| Delta::ToolCallArguments { index, fragment: text.into() };
    vec![
        Delta::Reasoning("h".into()),
        Delta::Reasoning("m".into()),
        Delta::Text("so".into()),
        call(0, "a", "f"),
        call(1, "b", "g"),
        more(1, "{\"y\":"),
        more(0, "{\"x\""),
        more(0, ":1}"),
        more(1, "2}"),
    ]
}

fn ended(finish: Finish, frames: frames::Frames) -> Bytes {
    frames.finish(&Ending { message: &answered("{}"), finish, usage: &usage() })
}

#[test]
fn a_stream_opens_and_closes_its_blocks_one_after_another() {
    for (thoughts, golden) in [
        (Thoughts::Shown, include_str!("golden/stream_thinking.txt")),
        (Thoughts::Hidden, include_str!("golden/stream_calls.txt")),
    ] {
        let play = |mut frames: frames::Frames| {
            let mut sent = vec![frames.open()];
            sent.extend(deltas().iter().map(|piece| frames.piece(piece)));
            sent.push(ended(Finish::ToolCalls, frames));
            sent
        };
        streams(thoughts, play, golden);
    }
}

#[test]
fn a_message_whose_pieces_nobody_saw_comes_with_its_signature() {
    let play = |mut frames: frames::Frames| {
        let sent = vec![frames.open(), frames.said(&answered("{}"))];
        [sent, vec![ended(Finish::ToolCalls, frames)]].concat()
    };
    streams(Thoughts::Shown, play, include_str!("golden/stream_late.txt"));
}

#[test]
fn an_error_inside_a_stream_is_its_last_frame() {
    let failure = Failure {
        status: 503,
        class: Some(Class::Overloaded),
        message: "too much to do",
        kind: "server_error",
        code: "providers_exhausted",
    };
    let play = |mut frames: frames::Frames| {
        vec![frames.open(), frames.piece(&Delta::Text("Half".into())), frames.fail(&failure)]
    };
    streams(Thoughts::Hidden, play, include_str!("golden/stream_error.txt"));
}
