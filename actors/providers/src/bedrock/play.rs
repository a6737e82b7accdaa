//! A Converse answer as its provider writes it: binary frames with their sums when it is streamed, each padded as AWS
//! pads them.

use super::Sealed;
use super::frames::written;
use crate::delta::{Answer, Stop};
use crate::play::{Field, Frame, Part as Of, Pieces, joined, list, object, quoted, value};
use events::message::{Part, ToolCall};
use events::quantity::Tokens;
use events::usage::Usage;

/// Stands behind each payload, so that its length says nothing of its words.
const PAD: &str = "abcdefghijkl";

pub(crate) fn stream(answer: &Answer, pieces: Pieces) -> Vec<Frame> {
    let frame = |name: &str, part: Of, fields: &[Field<'_>]| {
        let json = joined(&[fields, &[("p", Some(quoted(PAD)))]]);
        Frame { bytes: written::event(name, &json), part }
    };
    let mut frames = vec![frame("messageStart", Of::Opens, &[("role", Some(quoted("assistant")))])];
    for (index, part) in answer.message.parts.iter().enumerate() {
        let index = ("contentBlockIndex", Some(index.to_string()));
        let Some((begins, deltas)) = block(part, pieces) else { continue };
        if let Some(start) = begins {
            let fields = [index.clone(), ("start", Some(start))];
            frames.push(frame("contentBlockStart", Of::Says, &fields));
        }
        for delta in deltas {
            let fields = [index.clone(), ("delta", Some(delta))];
            frames.push(frame("contentBlockDelta", Of::Says, &fields));
        }
        frames.push(frame("contentBlockStop", Of::Says, &[index]));
    }
    let stop = [("stopReason", Some(quoted(reason(&answer.stop))))];
    frames.push(frame("messageStop", Of::Ends, &stop));
    let metrics = object(&[("latencyMs", Some("1".to_owned()))]);
    let last = [("metrics", Some(metrics)), ("usage", usage(&answer.usage))];
    frames.push(frame("metadata", Of::Ends, &last));
    frames
}

pub(crate) fn whole(answer: &Answer) -> String {
    let content: Vec<String> = answer.message.parts.iter().filter_map(in_one).collect();
    let message = object(&[("content", Some(list(&content))), ("role", Some(quoted("assistant")))]);
    object(&[
        ("output", Some(object(&[("message", Some(message))]))),
        ("stopReason", Some(quoted(reason(&answer.stop)))),
        ("usage", usage(&answer.usage)),
    ])
}

/// What carries the signature over a thought.
pub(crate) fn signed(signature: &str) -> Option<String> {
    let sealed = Sealed::Signature(signature.to_owned());
    serde_json::to_string(&sealed).ok().filter(|_| !signature.is_empty())
}

fn sealed_of(sealed: Option<&String>) -> Option<Sealed> {
    sealed.and_then(|sealed| serde_json::from_str(sealed).ok())
}

/// What a block begins with, where it begins at all, and the pieces it comes in.
fn block(part: &Part, pieces: Pieces) -> Option<(Option<String>, Vec<String>)> {
    let one = |name: &str, json: String| object(&[(name, Some(json))]);
    match part {
        Part::Text { text } | Part::Refusal { text } => {
            let deltas = pieces.of(text).into_iter().map(|piece| one("text", quoted(piece)));
            Some((None, deltas.collect()))
        }
        Part::Reasoning { text, sealed, .. } => {
            let thought = |name: &str, text: &str| one("reasoningContent", one(name, quoted(text)));
            let mut deltas: Vec<String> =
                pieces.of(text).into_iter().map(|piece| thought("text", piece)).collect();
            deltas.extend(sealed_of(sealed.as_ref()).map(|sealed| match sealed {
                Sealed::Signature(text) => thought("signature", &text),
                Sealed::RedactedContent(data) => thought("redactedContent", &data),
            }));
            Some((None, deltas))
        }
        Part::ToolCall(call) => {
            let begins = object(&[
                ("toolUseId", Some(quoted(&call.id))),
                ("name", Some(quoted(&call.name))),
            ]);
            let torn = pieces.of_arguments(&call.arguments).into_iter();
            let deltas = torn.map(|piece| one("toolUse", one("input", quoted(piece))));
            Some((Some(one("toolUse", begins)), deltas.collect()))
        }
        Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => None,
    }
}

/// A block as it stands in a whole message.
fn in_one(part: &Part) -> Option<String> {
    let one = |name: &str, json: String| object(&[(name, Some(json))]);
    match part {
        Part::Text { text } | Part::Refusal { text } => Some(one("text", quoted(text))),
        Part::Reasoning { text, sealed, .. } => {
            let thought = match sealed_of(sealed.as_ref()) {
                Some(Sealed::RedactedContent(data)) => one("redactedContent", quoted(&data)),
                sealed @ (Some(Sealed::Signature(_)) | None) => {
                    let signature = match sealed {
                        Some(Sealed::Signature(signature)) => Some(quoted(&signature)),
                        Some(Sealed::RedactedContent(_)) | None => None,
                    };
                    let said = [("text", Some(quoted(text))), ("signature", signature)];
                    one("reasoningText", object(&said))
                }
            };
            Some(one("reasoningContent", thought))
        }
        Part::ToolCall(ToolCall { id, name, arguments }) => {
            let made = object(&[
                ("toolUseId", Some(quoted(id))),
                ("name", Some(quoted(name))),
                ("input", Some(value(arguments))),
            ]);
            Some(one("toolUse", made))
        }
        Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => None,
    }
}

fn reason(stop: &Stop) -> &str {
    match stop {
        Stop::End => "end_turn",
        Stop::Length => "max_tokens",
        Stop::ToolCalls => "tool_use",
        Stop::ContentFilter => "content_filtered",
        Stop::Other(word) => word,
    }
}

/// The input is said without what a cache gave or took.
fn usage(usage: &Usage) -> Option<String> {
    let number = |tokens: Option<Tokens>| tokens.map(|Tokens(count)| count.to_string());
    let cached = usage.cached_input.unwrap_or_default().plus(usage.cache_write.unwrap_or_default());
    let fresh = usage.prompt.map(|prompt| Tokens(prompt.0.saturating_sub(cached.0)));
    let total = match (usage.prompt, usage.completion) {
        (Some(prompt), Some(completion)) => Some(prompt.plus(completion)),
        (None | Some(_), None | Some(_)) => None,
    };
    let fields = [
        ("inputTokens", number(fresh)),
        ("outputTokens", number(usage.completion)),
        ("cacheReadInputTokens", number(usage.cached_input)),
        ("cacheWriteInputTokens", number(usage.cache_write)),
        ("totalTokens", number(total)),
    ];
    fields.iter().any(|(_, json)| json.is_some()).then(|| object(&fields))
}
