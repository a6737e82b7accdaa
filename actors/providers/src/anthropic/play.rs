//! A Messages answer as its provider writes it.

use crate::delta::{Answer, Stop};
use crate::play::{Field, Frame, Part as Of, Pieces, event, joined, list, object, quoted, value};
use events::message::{Part, ToolCall};
use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::Value;

pub(crate) fn stream(answer: &Answer, pieces: Pieces) -> Vec<Frame> {
    let frame = |name: &str, part: Of, rest: &[Field<'_>]| {
        let json = joined(&[&[("type", Some(quoted(name)))], rest]);
        Frame { bytes: event(name, &json), part }
    };
    let message = message(answer, "[]", None, input(&answer.usage));
    let mut frames = vec![frame("message_start", Of::Opens, &[("message", Some(message))])];
    for (index, part) in answer.message.parts.iter().enumerate() {
        let index = ("index", Some(index.to_string()));
        let Some(Block { begins, kind, field, pieces, signature }) = block(part, pieces) else {
            continue;
        };
        let delta = |kind: &str, field: &str, piece: &str| {
            let delta = object(&[("type", Some(quoted(kind))), (field, Some(quoted(piece)))]);
            frame("content_block_delta", Of::Says, &[index.clone(), ("delta", Some(delta))])
        };
        let begins = [index.clone(), ("content_block", Some(begins))];
        frames.push(frame("content_block_start", Of::Says, &begins));
        frames.extend(pieces.into_iter().map(|piece| delta(kind, field, piece)));
        if !signature.is_empty() {
            frames.push(delta("signature_delta", "signature", &signature));
        }
        frames.push(frame("content_block_stop", Of::Says, &[index]));
    }
    let delta = object(&[
        ("stop_reason", Some(quoted(reason(&answer.stop)))),
        ("stop_sequence", Some("null".to_owned())),
    ]);
    let rest = [("delta", Some(delta)), ("usage", output(&answer.usage))];
    frames.push(frame("message_delta", Of::Ends, &rest));
    frames.push(frame("message_stop", Of::Ends, &[]));
    frames
}

pub(crate) fn whole(answer: &Answer) -> String {
    let content: Vec<String> = answer.message.parts.iter().filter_map(in_one).collect();
    let usage = counts(&answer.usage, &[Half::Input, Half::Output]);
    message(answer, &list(&content), Some(reason(&answer.stop)), usage)
}

/// A thinking block, as the family wants it back.
pub(crate) fn thinking(text: &str, signature: &str) -> String {
    object(&[
        ("type", Some(quoted("thinking"))),
        ("thinking", Some(quoted(text))),
        ("signature", (!signature.is_empty()).then(|| quoted(signature))),
    ])
}

/// A block and the pieces that it comes in.
struct Block<'a> {
    /// As it begins.
    begins: String,
    kind: &'static str,
    field: &'static str,
    pieces: Vec<&'a str>,
    /// Comes behind them.
    signature: String,
}

fn block(part: &Part, pieces: Pieces) -> Option<Block<'_>> {
    let plain = |begins: &str, kind, field, pieces| {
        let begins = begins.to_owned();
        Some(Block { begins, kind, field, pieces, signature: String::new() })
    };
    match part {
        Part::Text { text } | Part::Refusal { text } => {
            plain(r#"{"type":"text","text":""}"#, "text_delta", "text", pieces.of(text))
        }
        Part::Reasoning { text, sealed, .. } => {
            let said: Value =
                serde_json::from_str(sealed.as_deref().unwrap_or("{}")).unwrap_or_default();
            let said = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
            match sealed {
                // A block that only its own family reads comes whole.
                Some(came) if said("type") != "thinking" => plain(came, "", "", Vec::new()),
                Some(_) | None => Some(Block {
                    begins: r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(),
                    kind: "thinking_delta",
                    field: "thinking",
                    pieces: pieces.of(text),
                    signature: said("signature").to_owned(),
                }),
            }
        }
        Part::ToolCall(call) => {
            let pieces = pieces.of_arguments(&call.arguments);
            plain(&tool_use(call, "{}"), "input_json_delta", "partial_json", pieces)
        }
        Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => None,
    }
}

/// A block as it stands in a whole message.
fn in_one(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } | Part::Refusal { text } => {
            Some(object(&[("type", Some(quoted("text"))), ("text", Some(quoted(text)))]))
        }
        Part::Reasoning { text, sealed, .. } => {
            Some(sealed.clone().unwrap_or_else(|| thinking(text, "")))
        }
        Part::ToolCall(call) => Some(tool_use(call, &value(&call.arguments))),
        Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => None,
    }
}

fn tool_use(call: &ToolCall, input: &str) -> String {
    object(&[
        ("type", Some(quoted("tool_use"))),
        ("id", Some(quoted(&call.id))),
        ("name", Some(quoted(&call.name))),
        ("input", Some(input.to_owned())),
    ])
}

fn message(answer: &Answer, content: &str, reason: Option<&str>, usage: Option<String>) -> String {
    object(&[
        ("id", answer.request_id.as_deref().map(quoted)),
        ("type", Some(quoted("message"))),
        ("role", Some(quoted("assistant"))),
        ("model", answer.served_model.as_deref().map(quoted)),
        ("content", Some(content.to_owned())),
        ("stop_reason", Some(reason.map_or_else(|| "null".to_owned(), quoted))),
        ("usage", usage),
    ])
}

fn reason(stop: &Stop) -> &str {
    match stop {
        Stop::End => "end_turn",
        Stop::Length => "max_tokens",
        Stop::ToolCalls => "tool_use",
        Stop::ContentFilter => "refusal",
        Stop::Other(word) => word,
    }
}

/// Which half of what a call used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Input,
    Output,
}

fn input(usage: &Usage) -> Option<String> {
    counts(usage, &[Half::Input])
}

fn output(usage: &Usage) -> Option<String> {
    counts(usage, &[Half::Output])
}

/// The input is said without what a cache gave or took.
fn counts(usage: &Usage, halves: &[Half]) -> Option<String> {
    let number = |tokens: Option<Tokens>| tokens.map(|Tokens(count)| count);
    let (read, written) = (number(usage.cached_input), number(usage.cache_write));
    let cached = read.unwrap_or_default().saturating_add(written.unwrap_or_default());
    let fresh = number(usage.prompt).map(|prompt| prompt.saturating_sub(cached));
    let thought = number(usage.reasoning)
        .map(|count| object(&[("thinking_tokens", Some(count.to_string()))]));
    let text = |count: Option<u64>| count.map(|count| count.to_string());
    let fields = [
        (Half::Input, "input_tokens", text(fresh)),
        (Half::Input, "cache_read_input_tokens", text(read)),
        (Half::Input, "cache_creation_input_tokens", text(written)),
        (Half::Output, "output_tokens", text(number(usage.completion))),
        (Half::Output, "output_tokens_details", thought),
    ];
    let fields =
        fields.into_iter().filter(|(half, _, json)| halves.contains(half) && json.is_some());
    let fields: Vec<Field<'_>> = fields.map(|(_, name, json)| (name, json)).collect();
    (!fields.is_empty()).then(|| object(&fields))
}
