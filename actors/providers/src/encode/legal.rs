//! Every history of a small world, and long ones of chance, for every family: what is sent is legal there, and what is
//! not legal is named here, before it is sent and before it costs anything.
//!
//! Each family's rules are said once more below, from its wire alone: a call is answered at once and exactly once,
//! speakers take turns, the user begins, nobody says nothing.

mod folded;

use super::EncodeError;
use crate::class::{Charge, Class, Failure};
use crate::decode::shredder;
use crate::family::{Family, Mode};
use events::message::{Message, Part, Role, ToolCall};
use events::prompt::{Catalogue, Params, Request};
use serde_json::Value;

/// Messages of the histories that are all tried; of longer ones some are.
const ALL: usize = 3;
/// Longer histories that are tried with each family.
const SOME: usize = 600;

fn call(id: &str) -> Part {
    let (name, arguments) = ("f".to_owned(), "{}".to_owned());
    Part::ToolCall(ToolCall { id: id.to_owned(), name, arguments })
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { role: Role::Assistant, name: None, parts }
}

/// What may be said next.
fn words() -> Vec<Message> {
    vec![
        Message::text(Role::System, "s"),
        Message::text(Role::User, "u"),
        Message::text(Role::User, " "),
        Message::text(Role::Assistant, "a"),
        Message::text(Role::Assistant, ""),
        assistant(vec![call("1")]),
        assistant(vec![Part::Text { text: "so".to_owned() }, call("1"), call("2")]),
        Message::tool_result("1", "r".to_owned()),
        Message::tool_result("2", String::new()),
    ]
}

/// What is wrong with a history whoever reads it: a result that answers no open call, with its place.
fn stray(history: &[Message]) -> Option<usize> {
    let mut open: Vec<String> = vec![];
    for (place, message) in history.iter().enumerate() {
        for result in message.results() {
            let Some(at) = open.iter().position(|call| *call == result.call) else {
                return Some(place);
            };
            open.remove(at);
        }
        if message.role != Role::Tool {
            open = message.calls().map(|call| call.id.clone()).collect();
        }
    }
    None
}

/// One block on a wire, as far as the rules speak of it.
#[derive(Debug, Clone, PartialEq)]
enum Block {
    Text(String),
    Call(String),
    Result(String),
}

type Turns = Vec<(String, Vec<Block>)>;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The turns of a body whose messages are blocks of a role.
fn blocks(body: &Value, messages: &str, content: &str, block: impl Fn(&Value) -> Block) -> Turns {
    let turn = |message: &Value| {
        let all = message[content].as_array().unwrap();
        (text(&message["role"]), all.iter().map(&block).collect())
    };
    body[messages].as_array().unwrap().iter().map(turn).collect()
}

fn read(family: Family, body: &Value) -> Turns {
    match family {
        Family::AnthropicMessages => {
            blocks(body, "messages", "content", |block| match block["type"].as_str().unwrap() {
                "tool_use" => Block::Call(text(&block["id"])),
                "tool_result" => Block::Result(text(&block["tool_use_id"])),
                _ => Block::Text(text(&block["text"])),
            })
        }
        Family::Bedrock => blocks(body, "messages", "content", |block| {
            if let Some(call) = block.get("toolUse") {
                return Block::Call(text(&call["toolUseId"]));
            }
            match block.get("toolResult") {
                Some(result) => Block::Result(text(&result["toolUseId"])),
                None => Block::Text(text(&block["text"])),
            }
        }),
        Family::Gemini => blocks(body, "contents", "parts", |part| {
            if let Some(call) = part.get("functionCall") {
                return Block::Call(text(&call["id"]));
            }
            match part.get("functionResponse") {
                Some(result) => Block::Result(text(&result["id"])),
                None => Block::Text(text(&part["text"])),
            }
        }),
        Family::OpenaiChat => body["messages"].as_array().unwrap().iter().map(chat).collect(),
        Family::OpenaiResponses => body["input"].as_array().unwrap().iter().map(item).collect(),
    }
}

fn chat(message: &Value) -> (String, Vec<Block>) {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let mut all: Vec<Block> = calls.map(|call| Block::Call(text(&call["id"]))).collect();
    match message.get("tool_call_id") {
        Some(id) => all.push(Block::Result(text(id))),
        None => all.insert(0, Block::Text(text(&message["content"]))),
    }
    (text(&message["role"]), all)
}

fn item(item: &Value) -> (String, Vec<Block>) {
    let block = match item["type"].as_str().unwrap() {
        "function_call" => Block::Call(text(&item["call_id"])),
        "function_call_output" => Block::Result(text(&item["call_id"])),
        _ => Block::Text(text(&item["content"][0]["text"])),
    };
    (text(&item["role"]), vec![block])
}

/// Calls are answered at once, each exactly once, and nothing else is.
fn pairs(family: Family, turns: &Turns) {
    let mut open: Vec<&str> = vec![];
    let mut seen: Vec<&str> = vec![];
    for block in turns.iter().flat_map(|(_, blocks)| blocks) {
        match block {
            Block::Call(id) => {
                // The others know a call by its place.
                let by_id = !matches!(family, Family::OpenaiChat | Family::Gemini);
                assert!(!(by_id && seen.contains(&id.as_str())), "{id} twice: {turns:?}");
                open.push(id);
                seen.push(id);
            }
            Block::Result(id) => {
                let at = open.iter().position(|call| call == id);
                open.remove(at.unwrap_or_else(|| panic!("{id} answers nothing: {turns:?}")));
            }
            Block::Text(_) => assert!(open.is_empty(), "{open:?} not answered at once: {turns:?}"),
        }
    }
    assert!(open.is_empty(), "{open:?} is never answered: {turns:?}");
}

/// The families that have turns of two speakers.
fn alternates(family: Family, turns: &Turns) {
    let is_empty = |block: &Block| matches!(block, Block::Text(text) if text.trim().is_empty());
    assert_eq!(turns[0].0, "user", "{turns:?}");
    for (role, blocks) in turns {
        assert!(!blocks.is_empty(), "a turn of nothing: {turns:?}");
        let calls = blocks.iter().any(|block| matches!(block, Block::Call(_)));
        let results = blocks.iter().any(|block| matches!(block, Block::Result(_)));
        let strange = if role == "user" { calls } else { results };
        assert!(!strange, "a block of the other speaker: {turns:?}");
        if family == Family::Gemini {
            // Its results are a turn of their own.
            let texts = blocks.iter().any(|block| matches!(block, Block::Text(_)));
            assert!(!(results && texts), "{turns:?}");
        } else {
            assert!(!blocks.iter().any(is_empty), "a block of nothing: {turns:?}");
            let first_text = blocks.iter().position(|block| matches!(block, Block::Text(_)));
            let last_result = blocks.iter().rposition(|block| matches!(block, Block::Result(_)));
            let in_order = first_text.zip(last_result).is_none_or(|(text, result)| result < text);
            assert!(in_order, "results come first: {turns:?}");
        }
    }
    if family != Family::Gemini {
        let same = turns.windows(2).any(|two| two[0].0 == two[1].0);
        assert!(!same, "one speaker twice in a row: {turns:?}");
    }
}

/// Whether a family may refuse a history.
fn is_illegal(family: Family, history: &[Message]) -> bool {
    let is_blank = |message: &&Message| message.plain().trim().is_empty();
    let mut said = history.iter().filter(|message| message.role != Role::System);
    let silent = said
        .clone()
        .all(|one| one.role == Role::Assistant && one.calls().count() == 0 && is_blank(&one));
    let led = said.next().is_some_and(|first| first.role == Role::Assistant);
    let blank =
        history.iter().filter(|message| message.role == Role::User).any(|one| is_blank(&one));
    match family {
        Family::OpenaiChat => history.is_empty(),
        Family::OpenaiResponses => silent,
        Family::Gemini => silent || led,
        Family::AnthropicMessages | Family::Bedrock => silent || led || blank,
    }
}

fn check(family: Family, history: &[Message]) {
    let request = Request {
        model: "m".to_owned(),
        tools: Catalogue::default(),
        messages: history.iter().map(Message::body).collect(),
        params: Params::default(),
    };
    let sent = family.encode(&shredder::endpoint(family), &request, Mode::Whole);
    let error = match sent {
        Ok(bytes) => {
            assert_eq!(stray(history), None, "{family:?} takes a stray result: {history:?}");
            let turns = read(family, &serde_json::from_slice(&bytes).unwrap());
            pairs(family, &turns);
            if !matches!(family, Family::OpenaiChat | Family::OpenaiResponses) {
                alternates(family, &turns);
            }
            return;
        }
        Err(error) => error,
    };
    match (stray(history), &error) {
        (Some(place), EncodeError::ResultWithoutCall { position, .. }) => {
            assert_eq!(place, *position, "{family:?}: {history:?}");
        }
        (Some(_), other) => panic!("{family:?} names another fault, {other}: {history:?}"),
        (None, _) => {
            assert!(is_illegal(family, history), "{family:?} refuses, {error}: {history:?}");
        }
    }
    let failure = Failure::from(error);
    assert_eq!((failure.class, failure.charge), (Class::InvalidRequest, Charge::NotCharged));
    let named = failure.message.contains("message ") || failure.message.contains("no message");
    assert!(named, "{}", failure.message);
}

#[test]
fn what_is_built_of_any_history_is_legal_and_what_is_not_is_named_before_it_is_sent() {
    let words = words();
    let mut layer: Vec<Vec<Message>> = vec![vec![]];
    for _ in 0..=ALL {
        for history in &layer {
            Family::ALL.into_iter().for_each(|family| check(family, history));
        }
        let longer = |history: Vec<Message>| {
            words.iter().map(move |word| [history.clone(), vec![word.clone()]].concat())
        };
        layer = layer.into_iter().flat_map(longer).collect();
    }
    // Of what is longer, some: the dice are always the same.
    let mut dice = 7_u64;
    let mut roll = |sides: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(dice >> 33).unwrap() % sides
    };
    for _ in 0..SOME {
        let length = ALL + 1 + roll(8);
        let history: Vec<Message> = (0..length).map(|_| words[roll(words.len())].clone()).collect();
        Family::ALL.into_iter().for_each(|family| check(family, &history));
    }
}
