//! A Responses answer as its provider writes it: every item begins, comes in pieces and is said whole at its end. Calls
//! that are made at once come in turns, a piece of each: whoever joins them wrongly shall notice.

use crate::delta::{Answer, Stop};
use crate::play::{CREATED, Field, Frame, Part as Of, Pieces, event, joined, list, object, quoted};
use events::message::{Part, ToolCall};
use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::Value;

pub(crate) fn stream(answer: &Answer, pieces: Pieces) -> Vec<Frame> {
    let items = items(answer);
    let mut writer = Writer { pieces, out: Vec::new() };
    for kind in ["response.created", "response.in_progress"] {
        let response = response(answer, "in_progress", "[]", None);
        writer.write(Of::Opens, kind, &[("response", Some(response))]);
    }
    let mut at = 0;
    while let Some(item) = items.get(at) {
        let calls = items.iter().skip(at).take_while(|item| item.is_call()).count();
        if calls > 1 {
            writer.calls(at, items.get(at..at + calls).unwrap_or_default());
        } else {
            writer.begin(at, item);
            writer.pieces(at, item);
            writer.end(at, item);
        }
        at += calls.max(1);
    }
    let (kind, whole) = over(answer, &items);
    writer.write(Of::Ends, kind, &[("response", Some(whole))]);
    writer.out
}

pub(crate) fn whole(answer: &Answer) -> String {
    over(answer, &items(answer)).1
}

/// A reasoning item that goes back.
pub(crate) fn encrypted(text: &str, content: &str) -> String {
    let summary = object(&[("type", Some(quoted("summary_text"))), ("text", Some(quoted(text)))]);
    let summary = if text.is_empty() { Vec::new() } else { vec![summary] };
    object(&[
        ("id", Some(quoted("rs_played"))),
        ("type", Some(quoted("reasoning"))),
        ("summary", Some(list(&summary))),
        ("encrypted_content", (!content.is_empty()).then(|| quoted(content))),
    ])
}

/// One item of the output: as it begins, what it says in pieces, as it stays.
struct Item<'a> {
    id: String,
    begins: String,
    says: Says<'a>,
    whole: String,
}

enum Says<'a> {
    Text(&'a str),
    Refusal(&'a str),
    /// Summaries.
    Thoughts(Vec<String>),
    Call(&'a ToolCall),
}

impl Item<'_> {
    const fn is_call(&self) -> bool {
        matches!(self.says, Says::Call(_))
    }
}

fn items(answer: &Answer) -> Vec<Item<'_>> {
    let parts = answer.message.parts.iter().enumerate();
    parts.filter_map(|(index, part)| item(index, part)).collect()
}

fn item(index: usize, part: &Part) -> Option<Item<'_>> {
    let message = |kind: &str, field: &str, text: &str| {
        let id = format!("msg_{index}");
        let with = |content: &str| {
            object(&[
                ("id", Some(quoted(&id))),
                ("type", Some(quoted("message"))),
                ("role", Some(quoted("assistant"))),
                ("content", Some(content.to_owned())),
            ])
        };
        let part = object(&[("type", Some(quoted(kind))), (field, Some(quoted(text)))]);
        (with("[]"), with(&list(&[part])), id)
    };
    match part {
        Part::Text { text } => {
            let (begins, whole, id) = message("output_text", "text", text);
            Some(Item { id, begins, says: Says::Text(text), whole })
        }
        Part::Refusal { text } => {
            let (begins, whole, id) = message("refusal", "refusal", text);
            Some(Item { id, begins, says: Says::Refusal(text), whole })
        }
        Part::Reasoning { text, sealed, .. } => Some(thought(index, text, sealed.as_ref())),
        Part::ToolCall(call) => {
            let id = format!("fc_{index}");
            let with = |arguments: &str| {
                object(&[
                    ("id", Some(quoted(&id))),
                    ("type", Some(quoted("function_call"))),
                    ("call_id", Some(quoted(&call.id))),
                    ("name", Some(quoted(&call.name))),
                    ("arguments", Some(quoted(arguments))),
                ])
            };
            let (begins, whole) = (with(""), with(&call.arguments));
            Some(Item { id, begins, says: Says::Call(call), whole })
        }
        Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => None,
    }
}

fn thought<'a>(index: usize, text: &str, sealed: Option<&String>) -> Item<'a> {
    let whole = sealed.cloned().unwrap_or_else(|| encrypted(text, ""));
    let read: Value = serde_json::from_str(&whole).unwrap_or_default();
    let said = |name: &str| read.get(name).and_then(Value::as_str).map(str::to_owned);
    let id = said("id").unwrap_or_else(|| format!("rs_{index}"));
    let kind = said("type").unwrap_or_default();
    let summaries = read.get("summary").and_then(Value::as_array).into_iter().flatten();
    let text = |one: &Value| one.get("text").and_then(Value::as_str).map(str::to_owned);
    let summaries: Vec<String> = summaries.filter_map(text).collect();
    let begins = object(&[
        ("id", Some(quoted(&id))),
        ("type", Some(quoted(&kind))),
        ("summary", Some("[]".to_owned())),
    ]);
    Item { id, begins, says: Says::Thoughts(summaries), whole }
}

/// Writes events, each with its number.
struct Writer {
    pieces: Pieces,
    out: Vec<Frame>,
}

impl Writer {
    fn write(&mut self, part: Of, kind: &str, fields: &[Field<'_>]) {
        let own =
            [("type", Some(quoted(kind))), ("sequence_number", Some(self.out.len().to_string()))];
        self.out.push(Frame { bytes: event(kind, &joined(&[&own, fields])), part });
    }

    fn item(&mut self, kind: &str, at: usize, item: &str) {
        let fields = [("output_index", Some(at.to_string())), ("item", Some(item.to_owned()))];
        self.write(Of::Says, kind, &fields);
    }

    fn piece(&mut self, kind: &str, at: usize, id: &str, fields: &[Field<'_>]) {
        let of = [("item_id", Some(quoted(id))), ("output_index", Some(at.to_string()))];
        let all = [&of[..], fields].concat();
        self.write(Of::Says, kind, &all);
    }

    fn begin(&mut self, at: usize, item: &Item<'_>) {
        self.item("response.output_item.added", at, &item.begins);
    }

    fn end(&mut self, at: usize, item: &Item<'_>) {
        if let Says::Call(call) = &item.says {
            let whole = [("arguments", Some(quoted(&call.arguments)))];
            self.piece("response.function_call_arguments.done", at, &item.id, &whole);
        }
        self.item("response.output_item.done", at, &item.whole);
    }

    /// What an item says.
    fn pieces(&mut self, at: usize, item: &Item<'_>) {
        let id = item.id.as_str();
        let first = ("content_index", Some("0".to_owned()));
        match &item.says {
            Says::Text(text) => {
                let empty =
                    object(&[("type", Some(quoted("output_text"))), ("text", Some(quoted("")))]);
                let part = [first.clone(), ("part", Some(empty))];
                self.piece("response.content_part.added", at, id, &part);
                for piece in self.pieces.of(text) {
                    let delta = [first.clone(), ("delta", Some(quoted(piece)))];
                    self.piece("response.output_text.delta", at, id, &delta);
                }
                let whole = [first, ("text", Some(quoted(text)))];
                self.piece("response.output_text.done", at, id, &whole);
            }
            Says::Refusal(text) => {
                for piece in self.pieces.of(text) {
                    let delta = [first.clone(), ("delta", Some(quoted(piece)))];
                    self.piece("response.refusal.delta", at, id, &delta);
                }
            }
            Says::Thoughts(summaries) => {
                for (place, text) in summaries.iter().enumerate() {
                    let place = ("summary_index", Some(place.to_string()));
                    let added = std::slice::from_ref(&place);
                    self.piece("response.reasoning_summary_part.added", at, id, added);
                    for piece in self.pieces.of(text) {
                        let delta = [place.clone(), ("delta", Some(quoted(piece)))];
                        self.piece("response.reasoning_summary_text.delta", at, id, &delta);
                    }
                }
            }
            Says::Call(call) => {
                for piece in self.pieces.of_arguments(&call.arguments) {
                    self.arguments(at, id, piece);
                }
            }
        }
    }

    fn arguments(&mut self, at: usize, id: &str, piece: &str) {
        let delta = [("delta", Some(quoted(piece)))];
        self.piece("response.function_call_arguments.delta", at, id, &delta);
    }

    /// Calls that stand together.
    fn calls(&mut self, first: usize, calls: &[Item<'_>]) {
        let torn: Vec<Vec<&str>> = calls
            .iter()
            .map(|item| match &item.says {
                Says::Call(call) => self.pieces.of_arguments(&call.arguments),
                Says::Text(_) | Says::Refusal(_) | Says::Thoughts(_) => Vec::new(),
            })
            .collect();
        for (at, item) in calls.iter().enumerate() {
            self.begin(first + at, item);
        }
        let rounds = torn.iter().map(Vec::len).max().unwrap_or_default();
        for round in 0..rounds {
            for (at, (item, torn)) in calls.iter().zip(&torn).enumerate() {
                if let Some(piece) = torn.get(round) {
                    self.arguments(first + at, &item.id, piece);
                }
            }
        }
        for (at, item) in calls.iter().enumerate() {
            self.end(first + at, item);
        }
    }
}

/// The event that ends an answer, and the answer in it.
fn over(answer: &Answer, items: &[Item<'_>]) -> (&'static str, String) {
    let output: Vec<String> = items.iter().map(|item| item.whole.clone()).collect();
    let incomplete = match &answer.stop {
        Stop::End | Stop::ToolCalls => None,
        Stop::Length => Some("max_output_tokens"),
        Stop::ContentFilter => Some("content_filter"),
        Stop::Other(word) => Some(word.as_str()),
    };
    match incomplete {
        None => ("response.completed", response(answer, "completed", &list(&output), None)),
        Some(why) => {
            let why = object(&[("reason", Some(quoted(why)))]);
            let whole = response(answer, "incomplete", &list(&output), Some(why));
            ("response.incomplete", whole)
        }
    }
}

fn response(answer: &Answer, status: &str, output: &str, incomplete: Option<String>) -> String {
    let null = || Some("null".to_owned());
    let used = Some(status).filter(|status| *status != "in_progress");
    object(&[
        ("id", answer.request_id.as_deref().map(quoted)),
        ("object", Some(quoted("response"))),
        ("created_at", Some(CREATED.to_string())),
        ("status", Some(quoted(status))),
        ("model", answer.served_model.as_deref().map(quoted)),
        ("error", null()),
        ("incomplete_details", incomplete.or_else(null)),
        ("output", Some(output.to_owned())),
        ("usage", used.and_then(|_| usage(&answer.usage)).or_else(null)),
    ])
}

fn usage(usage: &Usage) -> Option<String> {
    let number = |tokens: Option<Tokens>| tokens.map(|Tokens(count)| count.to_string());
    let some = |fields: &[Field<'_>]| {
        fields.iter().any(|(_, json)| json.is_some()).then(|| object(fields))
    };
    let total = match (usage.prompt, usage.completion) {
        (Some(prompt), Some(completion)) => Some(prompt.plus(completion)),
        (None | Some(_), None | Some(_)) => None,
    };
    some(&[
        ("input_tokens", number(usage.prompt)),
        (
            "input_tokens_details",
            some(&[
                ("cached_tokens", number(usage.cached_input)),
                ("cache_write_tokens", number(usage.cache_write)),
            ]),
        ),
        ("output_tokens", number(usage.completion)),
        ("output_tokens_details", some(&[("reasoning_tokens", number(usage.reasoning))])),
        ("total_tokens", number(total)),
    ])
}
