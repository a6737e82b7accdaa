//! A chat completions answer as its provider writes it. Calls that are made at once are written in turns, a piece of
//! each: whoever joins them wrongly shall notice.

use crate::delta::{Answer, Stop};
use crate::play::{CREATED, Field, Frame, Part as Of, Pieces, event, joined, list, object, quoted};
use events::message::{Part, ToolCall};
use events::quantity::{MicroUsd, Tokens};
use events::usage::{CostSource, Usage};

/// What ends a stream of the family.
const DONE: &str = "[DONE]";

/// What a message says, in the only order that the family has.
#[derive(Default)]
struct Said<'a> {
    text: String,
    reasoning: String,
    refusal: String,
    calls: Vec<&'a ToolCall>,
}

impl<'a> Said<'a> {
    fn of(answer: &'a Answer) -> Self {
        let mut said = Self::default();
        for part in &answer.message.parts {
            match part {
                Part::Text { text } => said.text.push_str(text),
                Part::Reasoning { text, .. } => said.reasoning.push_str(text),
                Part::Refusal { text } => said.refusal.push_str(text),
                Part::ToolCall(call) => said.calls.push(call),
                Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => {}
            }
        }
        said
    }
}

pub(crate) fn stream(answer: &Answer, pieces: Pieces) -> Vec<Frame> {
    let said = Said::of(answer);
    let delta = |field: &str, json: String| chunk(answer, &object(&[(field, Some(json))]), None);
    let says = |json: String| Frame { bytes: event("", &json), part: Of::Says };
    let opens = object(&[("role", Some(quoted("assistant"))), ("content", Some(quoted("")))]);
    let mut frames =
        vec![Frame { bytes: event("", &chunk(answer, &opens, None)), part: Of::Opens }];
    for (field, text) in [
        ("reasoning_content", &said.reasoning),
        ("content", &said.text),
        ("refusal", &said.refusal),
    ] {
        frames.extend(pieces.of(text).into_iter().map(|piece| says(delta(field, quoted(piece)))));
    }
    let call = |index: usize, rest: &[Field<'_>]| {
        let made = joined(&[&[("index", Some(index.to_string()))], rest]);
        says(delta("tool_calls", list(&[made])))
    };
    for (index, made) in said.calls.iter().enumerate() {
        frames.push(call(index, &fields_of(made, "")));
    }
    let torn: Vec<Vec<&str>> =
        said.calls.iter().map(|made| pieces.of_arguments(&made.arguments)).collect();
    let rounds = torn.iter().map(Vec::len).max().unwrap_or_default();
    for round in 0..rounds {
        for (index, torn) in torn.iter().enumerate() {
            if let Some(piece) = torn.get(round) {
                let function = object(&[("arguments", Some(quoted(piece)))]);
                frames.push(call(index, &[("function", Some(function))]));
            }
        }
    }
    let ends = |json: &str| Frame { bytes: event("", json), part: Of::Ends };
    frames.push(ends(&chunk(answer, "{}", Some(reason(&answer.stop)))));
    if let Some(used) = usage(&answer.usage) {
        let fields = [("choices", Some("[]".to_owned())), ("usage", Some(used))];
        frames.push(ends(&head(answer, "chat.completion.chunk", &fields)));
    }
    frames.push(ends(DONE));
    frames
}

pub(crate) fn whole(answer: &Answer) -> String {
    let said = Said::of(answer);
    let some = |text: &str| (!text.is_empty()).then(|| quoted(text));
    let calls: Vec<String> =
        said.calls.iter().map(|call| object(&fields_of(call, &call.arguments))).collect();
    let message = object(&[
        ("role", Some(quoted("assistant"))),
        ("content", some(&said.text).or_else(|| Some("null".to_owned()))),
        ("reasoning_content", some(&said.reasoning)),
        ("refusal", some(&said.refusal)),
        ("tool_calls", (!calls.is_empty()).then(|| list(&calls))),
    ]);
    let choice = object(&[
        ("index", Some("0".to_owned())),
        ("message", Some(message)),
        ("finish_reason", Some(quoted(reason(&answer.stop)))),
    ]);
    let fields = [("choices", Some(list(&[choice]))), ("usage", usage(&answer.usage))];
    head(answer, "chat.completion", &fields)
}

fn fields_of(call: &ToolCall, arguments: &str) -> [(&'static str, Option<String>); 3] {
    let function =
        object(&[("name", Some(quoted(&call.name))), ("arguments", Some(quoted(arguments)))]);
    [
        ("id", Some(quoted(&call.id))),
        ("type", Some(quoted("function"))),
        ("function", Some(function)),
    ]
}

fn chunk(answer: &Answer, delta: &str, reason: Option<&str>) -> String {
    let choice = object(&[
        ("index", Some("0".to_owned())),
        ("delta", Some(delta.to_owned())),
        ("finish_reason", Some(reason.map_or_else(|| "null".to_owned(), quoted))),
    ]);
    head(answer, "chat.completion.chunk", &[("choices", Some(list(&[choice])))])
}

fn head(answer: &Answer, kind: &str, rest: &[Field<'_>]) -> String {
    let own = [
        ("id", answer.request_id.as_deref().map(quoted)),
        ("object", Some(quoted(kind))),
        ("created", Some(CREATED.to_string())),
        ("model", answer.served_model.as_deref().map(quoted)),
    ];
    joined(&[&own, rest])
}

fn reason(stop: &Stop) -> &str {
    match stop {
        Stop::End => "stop",
        Stop::Length => "length",
        Stop::ToolCalls => "tool_calls",
        Stop::ContentFilter => "content_filter",
        Stop::Other(word) => word,
    }
}

fn usage(usage: &Usage) -> Option<String> {
    let number = |tokens: Option<Tokens>| tokens.map(|Tokens(count)| count.to_string());
    let total = match (usage.prompt, usage.completion) {
        (Some(Tokens(prompt)), Some(Tokens(completion))) => {
            Some(prompt.saturating_add(completion).to_string())
        }
        (None | Some(_), None | Some(_)) => None,
    };
    let details = |fields: &[Field<'_>]| {
        fields.iter().any(|(_, json)| json.is_some()).then(|| object(fields))
    };
    let cost = usage.cost.filter(|_| usage.cost_source == Some(CostSource::Reported));
    let fields = [
        ("prompt_tokens", number(usage.prompt)),
        ("completion_tokens", number(usage.completion)),
        ("total_tokens", total),
        (
            "prompt_tokens_details",
            details(&[
                ("cached_tokens", number(usage.cached_input)),
                ("cache_write_tokens", number(usage.cache_write)),
            ]),
        ),
        ("completion_tokens_details", details(&[("reasoning_tokens", number(usage.reasoning))])),
        ("cost", cost.map(|MicroUsd(cost)| dollars(cost))),
    ];
    details(&fields)
}

/// As a decimal number of US dollars.
fn dollars(micro: u64) -> String {
    format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000)
}
