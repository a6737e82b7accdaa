//! Every family's decoder fed with streams that are nearly right: pieces left out, said twice, swapped and changed,
//! in the envelope that makes the decoder read on. Whatever comes, it gives an answer or a fault, the same one however
//! the network tears the stream, and shows no call that it does not end with.
//!
//! A fixed part of it runs always; `PITON_TEST_FUZZ_SECONDS` runs each decoder for that long (`.ci/extended fuzz`).

use bytes::Bytes;
use events::message::{Part, Seal};
use providers::decode::{Fault, Progress};
use providers::{Answer, Delta, Family};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tests::upstream::frame;

/// Streams of each decoder that are tried always.
const ROUNDS: u64 = 400;

/// Chance that can be had again: xorshift.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }
}

/// An event of a stream: its name, where the family names them, and what it carries.
type Event = (String, Value);

/// A sound stream, and whose it is.
type Seed = (Option<Family>, Vec<Event>);

/// Sound streams of every family: what one sends, another must survive.
fn seeds() -> Vec<Seed> {
    let typed = |events: &[Value]| {
        let event =
            |event: &Value| (event["type"].as_str().unwrap_or_default().to_owned(), event.clone());
        events.iter().map(event).collect::<Vec<_>>()
    };
    let choice = |delta: Value, reason: Option<&str>| json!({ "id": "c", "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let call = |index: u64, id: Option<&str>, text: &str| json!({ "tool_calls": [{ "index": index, "id": id, "function": { "name": id.map(|_| "f"), "arguments": text } }] });
    let parts = |parts: Value, reason: Option<&str>| json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": reason }], "usageMetadata": { "promptTokenCount": 3 } });
    let sound = [
        typed(&[
            choice(
                json!({ "role": "assistant", "content": "he", "reasoning_content": "hm" }),
                None,
            ),
            choice(call(0, Some("a"), "{\"x\":"), None),
            choice(call(0, None, "1}"), None),
            choice(call(1, Some("b"), "{}"), None),
            choice(json!({}), Some("tool_calls")),
            json!({ "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": 2 } }),
        ]),
        typed(&[
            parts(
                json!([{ "text": "hm", "thought": true }, { "text": "he", "thoughtSignature": "S" }]),
                None,
            ),
            parts(
                json!([{ "functionCall": { "name": "f", "id": "a", "args": { "x": 1 } }, "thoughtSignature": "T" }]),
                None,
            ),
            parts(json!([{ "functionCall": { "name": "f", "args": {} } }]), None),
            parts(json!([{ "text": "" }]), Some("STOP")),
        ]),
        converse(),
        typed(&[
            json!({ "type": "message_start", "message": { "id": "m", "content": [], "usage": { "input_tokens": 3 } } }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "a", "name": "f", "input": {} } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "input_json_delta", "partial_json": "{}" } }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 2 } }),
            json!({ "type": "message_stop" }),
        ]),
        typed(&responses()),
    ];
    let families = [
        Family::OpenaiChat,
        Family::Gemini,
        Family::Bedrock,
        Family::AnthropicMessages,
        Family::OpenaiResponses,
    ];
    let mut all: Vec<Seed> = families.map(Some).into_iter().zip(sound).collect();
    all.extend(recorded());
    all
}

fn converse() -> Vec<Event> {
    let block = |index: u64, delta: Value| json!({ "contentBlockIndex": index, "delta": delta });
    let events = [
        ("messageStart", json!({ "role": "assistant" })),
        ("contentBlockDelta", block(0, json!({ "reasoningContent": { "text": "hm" } }))),
        ("contentBlockDelta", block(0, json!({ "reasoningContent": { "signature": "S" } }))),
        ("contentBlockStop", json!({ "contentBlockIndex": 0 })),
        ("contentBlockDelta", block(1, json!({ "text": "he" }))),
        (
            "contentBlockStart",
            json!({ "contentBlockIndex": 2, "start": { "toolUse": { "toolUseId": "a", "name": "f" } } }),
        ),
        ("contentBlockDelta", block(2, json!({ "toolUse": { "input": "{}" } }))),
        ("contentBlockStop", json!({ "contentBlockIndex": 2 })),
        (
            "contentBlockStart",
            json!({ "contentBlockIndex": 3, "start": { "toolUse": { "toolUseId": "a", "name": "g" } } }),
        ),
        ("contentBlockStop", json!({ "contentBlockIndex": 3 })),
        ("messageStop", json!({ "stopReason": "tool_use" })),
        ("metadata", json!({ "usage": { "inputTokens": 3, "outputTokens": 2 } })),
    ];
    events.map(|(name, value)| (name.to_owned(), value)).into()
}

fn responses() -> [Value; 5] {
    let call = |arguments: &str| json!({ "type": "function_call", "id": "fc", "call_id": "a", "name": "f", "arguments": arguments });
    let response = |status: &str, output: Value| json!({ "id": "r", "model": "m", "status": status, "output": output, "usage": { "input_tokens": 3, "output_tokens": 2 } });
    [
        json!({ "type": "response.created", "response": response("in_progress", json!([])) }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": call("") }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc", "delta": "{}" }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": call("{}") }),
        json!({ "type": "response.completed", "response": response("completed", json!([call("{}")])) }),
    ]
}

/// A stream of the family three times out of four, where there is one, and anybody's else.
fn drawn(seeds: &[Seed], family: Family, chance: &mut Chance) -> Vec<Event> {
    let wants_own = chance.below(4) > 0;
    let is_own = |seed: &&Seed| seed.0 == Some(family) && wants_own;
    let own: Vec<&Seed> = seeds.iter().filter(is_own).collect();
    let from = if own.is_empty() { seeds.iter().collect() } else { own };
    from[chance.below(from.len())].1.clone()
}

/// The recorded streams of server-sent events, where they are.
fn recorded() -> Vec<Seed> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2);
    let folder = above.map(|folder| folder.join("shared/fixtures")).find(|folder| folder.is_dir());
    let Some(files) = folder.and_then(|folder| std::fs::read_dir(folder).ok()) else {
        println!("not run: the recordings are not beside the repository");
        return vec![];
    };
    let mut all = vec![];
    for text in files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok()) {
        let Ok(fixture) = serde_json::from_str::<Value>(&text) else { continue };
        for one in fixture["interactions"].as_array().into_iter().flatten() {
            let body = one["response"]["body"].as_str().unwrap_or_default();
            let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
            let events = data.filter_map(|data| serde_json::from_str::<Value>(data.trim()).ok());
            let events: Vec<Event> =
                events.map(|e| (e["type"].as_str().unwrap_or_default().to_owned(), e)).collect();
            if !events.is_empty() {
                all.push((Family::named(fixture["family"].as_str().unwrap_or_default()), events));
            }
        }
    }
    all
}

/// Changes something somewhere in a value.
fn change(value: &mut Value, chance: &mut Chance) {
    match value {
        Value::Object(fields) if chance.below(4) > 0 && !fields.is_empty() => {
            let at = chance.below(fields.len());
            let name = fields.keys().nth(at).unwrap().clone();
            if chance.below(8) == 0 {
                fields.remove(&name);
            } else {
                change(fields.get_mut(&name).unwrap(), chance);
            }
        }
        Value::Array(list) if chance.below(4) > 0 && !list.is_empty() => {
            let at = chance.below(list.len());
            if chance.below(8) == 0 {
                let again = list[at].clone();
                list.push(again);
            } else {
                change(&mut list[at], chance);
            }
        }
        other => {
            let odd = [
                Value::Null,
                json!(true),
                json!(0),
                json!(-1),
                json!(u64::MAX),
                json!(1e300),
                json!(""),
                json!("{}"),
                json!("é\u{0}🦀"),
                json!([]),
                json!({}),
                json!("error"),
                json!("x".repeat(300)),
            ];
            *other = odd[chance.below(odd.len())].clone();
        }
    }
}

fn disturb(events: &mut Vec<Event>, chance: &mut Chance) {
    for _ in 0..=chance.below(4) {
        if events.is_empty() {
            return;
        }
        let (at, other) = (chance.below(events.len()), chance.below(events.len()));
        match chance.below(6) {
            0 => drop(events.remove(at)),
            1 => events.swap(at, other),
            2 => events.insert(other, events[at].clone()),
            3 => events[at].0 = events[other].0.clone(),
            _ => change(&mut events[at].1, chance),
        }
    }
}

/// The stream as the family's own envelope has it.
fn wire(family: Family, events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in events {
        if family == Family::Bedrock {
            bytes.extend(frame(name, value.to_string().as_bytes()));
        } else {
            if !name.is_empty() && !name.contains(['\n', '\r']) {
                bytes.extend(format!("event: {name}\n").into_bytes());
            }
            bytes.extend(format!("data: {value}\n\n").into_bytes());
        }
    }
    bytes
}

type Reading = (Result<Answer, Fault>, Vec<Delta>);

fn read(family: Family, pieces: &[&[u8]]) -> Reading {
    let mut decoder = family.decoder(Bytes::from_static(b"request"));
    let mut deltas = vec![];
    let mut fault = None;
    let mut done = false;
    for piece in pieces {
        match decoder.feed(piece, &mut |delta| deltas.push(delta)) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => done = true,
            Err(found) => fault = Some(found),
        }
        if done || fault.is_some() {
            break;
        }
    }
    if !done && fault.is_none() {
        fault = decoder.end(&mut |delta| deltas.push(delta)).err();
    }
    let seal = Seal {
        family: family.name().into(),
        endpoint: "e".into(),
        profile: "p".into(),
        model: "m".into(),
    };
    let result = match fault {
        Some(fault) => Err(fault),
        None => decoder.finish(seal, None, &mut |delta| deltas.push(delta)),
    };
    (result, deltas)
}

fn holds(family: Family, bytes: &[u8], chance: &mut Chance) {
    let whole = read(family, &[bytes]);
    let (head, tail) = bytes.split_at(chance.below(bytes.len() + 1));
    assert_eq!(read(family, &[head, tail]), whole, "split at {}", head.len());
    let size = 1 + chance.below(97);
    let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
    assert_eq!(read(family, &pieces), whole, "{size} bytes at a time");
    let Ok(answer) = &whole.0 else { return };
    let ids: Vec<&str> = answer.message.calls().map(|call| call.id.as_str()).collect();
    let distinct: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "two calls share an id");
    assert!(ids.iter().all(|id| !id.is_empty()));
    assert!(answer.message.calls().all(|call| !call.name.is_empty()));
    let is_result = |part: &Part| matches!(part, Part::ToolResult(_));
    assert!(!answer.message.parts.iter().any(is_result), "an answer holds no result");
    let started = whole.1.iter().filter(|delta| matches!(delta, Delta::ToolCallStarted { .. }));
    assert_eq!(started.count(), ids.len(), "what was shown is what there is");
}

#[test]
fn no_stream_makes_a_decoder_fall_over() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = variable("PITON_TEST_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = variable("PITON_TEST_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15);
    let seeds = seeds();
    for family in Family::ALL {
        let mut chance = Chance(seed | 1);
        let began = Instant::now();
        let (mut rounds, mut answers) = (0_u64, 0_u64);
        while time.map_or(rounds < ROUNDS, |time| began.elapsed() < time) {
            rounds += 1;
            let state = chance.0;
            let mut events = drawn(&seeds, family, &mut chance);
            disturb(&mut events, &mut chance);
            let mut bytes = wire(family, &events);
            if chance.below(3) == 0 && !bytes.is_empty() {
                let at = chance.below(bytes.len());
                bytes[at] = chance.next().to_le_bytes()[0];
            }
            let tried = std::panic::AssertUnwindSafe(|| holds(family, &bytes, &mut chance));
            if let Err(panic) = std::panic::catch_unwind(tried) {
                eprintln!("{}: again with PITON_TEST_SEED={state}", family.name());
                eprintln!("{}", String::from_utf8_lossy(&bytes));
                std::panic::resume_unwind(panic);
            }
            answers += u64::from(read(family, &[&bytes]).0.is_ok());
        }
        println!("fuzzed {}: {rounds} streams, {answers} of them answers", family.name());
        assert!(answers > rounds / 50, "{}: hardly a stream was read", family.name());
    }
}
