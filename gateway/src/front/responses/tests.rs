//! What a request may look like and what comes of it, what a response looks like, and what is refused with which words.

use super::input::ItemId;
use super::items::Sort;
use super::object::{Standing, object};
use super::*;
use crate::front::door::{Ending, Failure, Head};
use crate::front::finish::Finish;
use bytes::Bytes;
use events::id::Place;
use events::message::{Part, Seal, ToolCall};
use events::model_call::Class;
use events::quantity::{Instant, Tokens};
use events::usage::Usage;
use providers::Delta;
use serde_json::{Value, json};

const NOW: Instant = Instant(1_700_000_000_000_000);

/// A request with these fields besides the least.
fn with(fields: Value) -> Value {
    let mut body = json!({"model": "demo", "input": "hi"});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn request(fields: Value) -> Request {
    parse(with(fields).to_string().as_bytes()).unwrap()
}

fn extra(fields: Value) -> String {
    request(fields).params.extra.as_str().to_owned()
}

#[track_caller]
fn refused(fields: Value, then: &str) {
    assert_eq!(parse(with(fields).to_string().as_bytes()).unwrap_err().to_string(), then);
}

fn run_id(unique: u128) -> RunId {
    RunId::new(Place::default(), unique)
}

fn text(text: &str) -> Part {
    Part::Text { text: text.into() }
}

fn call(id: &str) -> Part {
    let (name, arguments) = ("f".into(), r#"{"x":1}"#.into());
    Part::ToolCall(ToolCall { id: id.into(), name, arguments })
}

fn thought(words: &str) -> Part {
    let seal =
        Seal { family: "f".into(), endpoint: "e".into(), profile: "p".into(), model: "m".into() };
    Part::Reasoning { text: words.into(), seal, sealed: Some("{\"sig\":1}".into()) }
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, name: None, parts }
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

fn call_item(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{\"x\":1}"})
}

fn output_item(id: &str, output: impl Into<Value>) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output.into()})
}

/// The conversation of an input, after nothing and with no answers.
fn said(input: Value) -> Result<Vec<Message>, BadRequest> {
    request(json!({"input": input})).messages(vec![], &BTreeMap::new())
}

#[test]
fn a_string_is_what_a_user_says_and_instructions_come_before_all() {
    let got = request(json!({"instructions": "be kind"}));
    assert_eq!((got.store, got.delivery, got.previous), (true, Delivery::Whole, None));
    let before = vec![user("first"), assistant(vec![text("yes")])];
    let all = got.messages(before.clone(), &BTreeMap::new()).unwrap();
    let system = Message::text(Role::System, "be kind");
    assert_eq!(all, [vec![system], before, vec![user("hi")]].concat());
}

#[test]
fn what_an_assistant_says_in_many_items_is_one_message_with_its_results_behind_it() {
    let input = json!([
        {"role": "developer", "content": "d"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "look"}, {"type": "input_text", "text": ""},
            {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"}]},
        {"type": "reasoning", "id": "rs_other", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "role": "assistant", "id": "msg_x", "status": "completed",
            "content": [{"type": "output_text", "text": "so", "annotations": []}]},
        call_item("a"), call_item("b"),
        output_item("b", json!([{"type": "input_text", "text": "2"}])),
        {"role": "user", "content": "and?"},
        output_item("a", "1")]);
    let image = Part::Image { url: "https://a/b.png".into(), detail: Some("low".into()) };
    let expected = [
        Message::text(Role::System, "d"),
        Message { parts: vec![text("look"), image], ..user("") },
        assistant(vec![text("so"), call("a"), call("b")]),
        Message::tool_result("a", "1".into()),
        Message::tool_result("b", "2".into()),
        user("and?"),
    ];
    assert_eq!(said(input).unwrap(), expected);
}

#[test]
fn calls_of_two_turns_may_have_one_id_and_each_has_its_own_result() {
    let input =
        json!([call_item("a"), output_item("a", "1"), call_item("a"), output_item("a", "2")]);
    let result = |content: &str| Message::tool_result("a", content.into());
    let one = assistant(vec![call("a")]);
    assert_eq!(said(input).unwrap(), [one.clone(), result("1"), one, result("2")]);
}

#[test]
fn a_call_without_its_output_and_an_output_without_its_call_are_refused_here() {
    let told = |input: Value| said(input).unwrap_err().to_string();
    let then = "input: has no output of the call \"a\"; send {\"type\": \"function_call_output\", \
                \"call_id\": …, \"output\": \"…\"}";
    assert_eq!(told(json!([call_item("a"), {"role": "user", "content": "x"}])), then);
    let then = "input: answers \"a\", which no item calls, or once too often; send its \
                function_call, or the previous_response_id that has it";
    assert_eq!(told(json!([output_item("a", "1")])), then);
    assert_eq!(told(json!([call_item("a"), output_item("a", "1"), output_item("a", "2")])), then);
    let then = "input: has two calls with the call_id \"a\"; give each call an id of its own";
    assert_eq!(told(json!([call_item("a"), call_item("a"), output_item("a", "1")])), then);
}

#[test]
fn reasoning_comes_back_from_the_journal_where_nothing_beside_it_was_edited() {
    let answer = assistant(vec![thought("hm"), text("so"), call("a")]);
    let answers = BTreeMap::from([(run_id(7), answer.clone())]);
    let id = ItemId { run: run_id(7), sort: Sort::Thought, nth: 0 }.to_string();
    let words = |word: &str| {
        let item = json!({"role": "assistant", "content": word});
        let reasoning = json!({"type": "reasoning", "summary": [], "encrypted_content": id});
        request(json!({"input": [reasoning, item, call_item("a"), output_item("a", "1")]}))
    };
    let result = Message::tool_result("a", "1".into());
    let same = words("so").messages(vec![], &answers).unwrap();
    assert_eq!(same, [answer, result.clone()]);
    let edited = words("no").messages(vec![], &answers).unwrap();
    assert_eq!(edited, [assistant(vec![text("no"), call("a")]), result.clone()]);
    let stranger = words("so").messages(vec![], &BTreeMap::new()).unwrap();
    assert_eq!(stranger, [assistant(vec![text("so"), call("a")]), result]);
    assert_eq!(words("so").items[0].names(), Some(run_id(7)));
}

#[test]
fn an_item_may_be_named_instead_of_sent() {
    let answer = assistant(vec![thought("hm"), text("so"), call("a")]);
    let answers = BTreeMap::from([(run_id(7), answer.clone())]);
    let name = |sort: Sort, nth: usize| json!({"type": "item_reference", "id": ItemId { run: run_id(7), sort, nth }.to_string()});
    let asked = |items: Value| request(json!({"input": items})).messages(vec![], &answers);
    let items = json!([
        name(Sort::Thought, 0),
        name(Sort::Message, 0),
        name(Sort::Call, 0),
        output_item("a", "1")
    ]);
    let result = Message::tool_result("a", "1".into());
    assert_eq!(asked(items).unwrap(), [answer, result]);
    let told = asked(json!([name(Sort::Message, 1)])).unwrap_err().to_string();
    let then = "input[0].id: is \"msg_run_000000000000000000000000000007_1\", which you were not \
                given or which is no more; send the item itself";
    assert_eq!(told, then);
    let then = "input[0].id: is \"msg_1\", which this server did not give; send the item itself";
    refused(json!({"input": [{"type": "item_reference", "id": "msg_1"}]}), then);
}

#[test]
fn tools_and_wishes_take_their_neutral_names() {
    let tools = json!([
        {"type": "function", "name": "zeta", "parameters": {"type": "object"}, "strict": true},
        {"type": "web_search"}, {"type": "namespace", "name": "n", "tools": []},
        {"type": "function", "name": "alpha", "description": "A."}]);
    let expected = concat!(
        r#"[{"description":"A.","name":"alpha","parameters":{"properties":{},"type":"object"}},"#,
        r#"{"description":"","name":"zeta","parameters":{"type":"object"}}]"#
    );
    assert_eq!(request(json!({"tools": tools})).tools.json().as_str(), expected);
    let wishes = json!({"temperature": 0.5, "top_p": 1, "user": "u", "max_output_tokens": 9,
        "reasoning": {"effort": "low"}, "text": {"verbosity": "low", "format":
        {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}},
        "parallel_tool_calls": false, "tool_choice": "auto", "unknown": 1});
    let expected = concat!(
        r#"{"reasoning_effort":"low","response_format":{"json_schema":{"name":"n","#,
        r#""schema":{"type":"object"},"strict":true},"type":"json_schema"},"#,
        r#""temperature":0.5,"top_p":1,"user":"u","verbosity":"low"}"#
    );
    assert_eq!(extra(wishes.clone()), expected);
    assert_eq!(request(wishes).params.output_max, Some(Tokens(9)));
    let one = json!({"tools": tools, "parallel_tool_calls": false,
        "tool_choice": {"type": "function", "name": "zeta"}, "text": {"format": {"type": "text"}}});
    let expected = r#"{"parallel_tool_calls":false,"tool_choice":{"function":{"name":"zeta"},"type":"function"}}"#;
    assert_eq!(extra(one), expected);
}

#[test]
fn reasoning_is_given_to_whoever_asks_for_it() {
    let thoughts = |fields: Value| request(fields).thoughts;
    let key = json!(["reasoning.encrypted_content", "file_search_call.results"]);
    assert_eq!(thoughts(json!({"reasoning": {"effort": "low"}})), Thoughts::Hidden);
    assert_eq!(thoughts(json!({"reasoning": {"summary": "auto"}})), Thoughts::Words);
    assert_eq!(thoughts(json!({"include": key})), Thoughts::Key);
    let both = json!({"include": key, "reasoning": {"summary": "detailed"}});
    assert_eq!(thoughts(both), Thoughts::All);
}

#[test]
fn what_is_not_served_is_refused_by_name() {
    refused(
        json!({"background": true}),
        "background: is not served here; leave it out and stream, or start a run with POST /v1/runs",
    );
    assert!(request(json!({"background": false, "truncation": "disabled"})).store);
    refused(
        json!({"conversation": "conv_1"}),
        "conversation: is not served here; go on with previous_response_id",
    );
    refused(
        json!({"prompt": {"id": "p"}}),
        "prompt: is not served here; send instructions and input, since no prompts are kept here",
    );
    refused(
        json!({"truncation": "auto"}),
        "truncation: is \"auto\", and nothing is cut out silently here; leave it out, or send \"disabled\"",
    );
    refused(
        json!({"previous_response_id": "resp_1"}),
        "previous_response_id: is \"resp_1\", which is no response of this server; send the id of a response that it gave",
    );
    refused(
        json!({"input": [{"type": "computer_call"}]}),
        "input[0].type: is \"computer_call\", which is no item here; use message, function_call, \
         function_call_output, reasoning or item_reference",
    );
    refused(
        json!({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}),
        "input[0].content[0].type: is \"input_file\", which can not stand here; send {\"type\": \"input_text\", \"text\": …}",
    );
    refused(
        json!({"tool_choice": {"type": "web_search"}}),
        "tool_choice.type: is \"web_search\", which is no choice here; use auto, required, none or \
         {\"type\": \"function\", \"name\": …}",
    );
    refused(
        json!({"metadata": {"piton.response": "{}"}}),
        "metadata: has a key that begins with piton., which is this server's own; rename the key",
    );
    refused(json!({"input": []}), "input: must not be empty; send at least one message");
}

fn usage() -> Usage {
    Usage {
        prompt: Some(Tokens(1_010)),
        completion: Some(Tokens(5)),
        cached_input: Some(Tokens(900)),
        reasoning: Some(Tokens(2)),
        ..Usage::default()
    }
}

fn style(fields: Value) -> Style {
    let request = request(fields);
    Style::of(&request, Mark::of(&request, NOW))
}

fn answered() -> Message {
    let unread = match thought("") {
        Part::Reasoning { seal, .. } => {
            Part::Reasoning { text: String::new(), seal, sealed: Some("{}".into()) }
        }
        other => other,
    };
    assistant(vec![thought("hm"), unread, text("so"), call("c")])
}

fn ended(message: &Message, finish: Finish, style: &Style) -> Value {
    let end = Ending { message, finish, usage: &usage() };
    object(run_id(7), Standing::Ended(&end), style)
}

#[test]
fn a_response_has_what_was_asked_and_what_came_of_it() {
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let style = style(json!({"instructions": "be kind", "metadata": {"k": "v"}, "tools": tools,
        "tool_choice": {"type": "function", "name": "f"}, "temperature": 0.5,
        "previous_response_id": id(run_id(6)), "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"], "max_output_tokens": 9, "text": {"format":
        {"type": "json_schema", "name": "n", "schema": {}, "strict": true}}}));
    let got = ended(&answered(), Finish::ToolCalls, &style);
    let golden = include_str!("golden/whole.json");
    assert_eq!(serde_json::to_string_pretty(&got).unwrap(), golden.trim_end());
}

#[test]
fn each_end_has_its_status_and_what_is_unknown_is_null() {
    let style = style(json!({}));
    let said = assistant(vec![text("a")]);
    for (finish, status, reason, item) in [
        (Finish::Stop, "completed", Value::Null, "completed"),
        (Finish::Length, "incomplete", json!({"reason": "max_output_tokens"}), "incomplete"),
        (Finish::ContentFilter, "incomplete", json!({"reason": "content_filter"}), "incomplete"),
    ] {
        let got = ended(&said, finish, &style);
        assert_eq!((&got["status"], &got["incomplete_details"]), (&json!(status), &reason));
        assert_eq!(got["output"][0]["status"], item);
    }
    let known = Usage { cached_input: None, reasoning: None, ..usage() };
    let plain = json!({"input_tokens": 1010, "input_tokens_details": null, "output_tokens": 5,
        "output_tokens_details": null, "total_tokens": 1015});
    let half = Usage { completion: None, ..usage() };
    for (usage, then) in [(&Usage::default(), Value::Null), (&half, Value::Null), (&known, plain)] {
        let end = Ending { message: &said, finish: Finish::Stop, usage };
        assert_eq!(object(run_id(7), Standing::Ended(&end), &style)["usage"], then);
    }
    let cancelled = object(run_id(7), Standing::Cancelled, &style);
    assert_eq!((&cancelled["status"], &cancelled["usage"]), (&json!("cancelled"), &Value::Null));
    let hidden = ended(&answered(), Finish::ToolCalls, &style);
    let sorts: Vec<&Value> =
        hidden["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(sorts, ["message", "function_call"], "{hidden}");
}

#[track_caller]
fn streams(fields: Value, play: impl FnOnce(frames::Frames) -> Vec<Bytes>, golden: &str) {
    let head = Head { run: run_id(7), created: NOW, model: "demo" };
    let bytes = play(frames::Frames::new(&head, &style(fields))).concat();
    let got = String::from_utf8(bytes).unwrap();
    let numbers: Vec<u64> = got
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<Value>(data).unwrap())
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..).take(numbers.len()).collect::<Vec<u64>>());
    // What is repeated of the request has a golden of its own.
    let got: Vec<String> = got.lines().map(short).collect();
    assert_eq!(got.join("\n") + "\n", golden);
}

fn short(line: &str) -> String {
    let Some(data) = line.strip_prefix("data: ") else { return line.to_owned() };
    let mut event: Value = serde_json::from_str(data).unwrap();
    if let Some(response) = event.get_mut("response") {
        let keep = ["id", "status", "output", "usage", "error", "incomplete_details"];
        response.as_object_mut().unwrap().retain(|key, _| keep.contains(&key.as_str()));
    }
    format!("data: {event}")
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

fn end(finish: Finish, frames: frames::Frames) -> Bytes {
    frames.finish(&Ending { message: &answered(), finish, usage: &usage() })
}

#[test]
fn a_stream_has_the_whole_order_of_the_api() {
    for (fields, golden) in [
        (json!({"reasoning": {"summary": "auto"}}), include_str!("golden/stream_summary.txt")),
        (json!({}), include_str!("golden/stream_calls.txt")),
    ] {
        let play = |mut frames: frames::Frames| {
            let mut sent = vec![frames.open()];
            sent.extend(deltas().iter().map(|piece| frames.piece(piece)));
            sent.push(end(Finish::ToolCalls, frames));
            sent
        };
        streams(fields, play, golden);
    }
}

#[test]
fn an_answer_that_was_cut_ends_incomplete_with_its_item() {
    for piece in [true, false] {
        let play = |mut frames: frames::Frames| {
            let opened = frames.open();
            let said = if piece {
                frames.piece(&Delta::Text("Half".into()))
            } else {
                frames.said(&assistant(vec![text("Half")]))
            };
            vec![opened, said, end(Finish::Length, frames)]
        };
        streams(json!({}), play, include_str!("golden/stream_cut.txt"));
    }
}

#[test]
fn a_refusal_has_events_of_its_own() {
    let play = |mut frames: frames::Frames| {
        vec![frames.open(), frames.piece(&Delta::Refusal("no".into())), end(Finish::Stop, frames)]
    };
    streams(json!({}), play, include_str!("golden/stream_refusal.txt"));
}

#[test]
fn an_error_inside_a_stream_is_told_twice_and_nothing_follows() {
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
    streams(json!({}), play, include_str!("golden/stream_error.txt"));
}
