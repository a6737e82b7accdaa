//! A `generateContent` answer as its provider writes it: each event a response of its own, a call whole in one part, and
//! the same finish reason whether calls were made or not.

use super::Signed;
use crate::delta::{Answer, Stop};
use crate::play::{Field, Frame, Part as Of, Pieces, event, joined, list, object, quoted, value};
use events::message::Part;
use events::quantity::Tokens;
use events::usage::Usage;

pub(crate) fn stream(answer: &Answer, pieces: Pieces) -> Vec<Frame> {
    let prompt = object(&[("promptTokenCount", answer.usage.prompt.map(number))]);
    let prompt = Some(prompt).filter(|_| answer.usage.prompt.is_some());
    let says = |part: &String| {
        let json = response(answer, std::slice::from_ref(part), None, prompt.clone());
        Frame { bytes: event("", &json), part: Of::Says }
    };
    let mut frames: Vec<Frame> = parts(answer, Some(pieces)).iter().map(says).collect();
    let last = response(answer, &[], Some(reason(&answer.stop)), usage(&answer.usage));
    frames.push(Frame { bytes: event("", &last), part: Of::Ends });
    frames
}

pub(crate) fn whole(answer: &Answer) -> String {
    let reason = Some(reason(&answer.stop));
    response(answer, &parts(answer, None), reason, usage(&answer.usage))
}

/// What carries a signature that belongs to the part with the words, or to the part behind it.
pub(crate) fn signed(signature: &str) -> Option<String> {
    let signed = Signed { text: None, thought_signature: signature.to_owned() };
    serde_json::to_string(&signed).ok().filter(|_| !signature.is_empty())
}

/// The parts of an answer. A part with a signature is never torn: the signature is of exactly that part.
fn parts(answer: &Answer, pieces: Option<Pieces>) -> Vec<String> {
    let mut out = Vec::new();
    let mut next: Option<String> = None;
    for part in &answer.message.parts {
        match part {
            Part::Text { text } | Part::Refusal { text } => {
                let signature = next.take();
                out.extend(said(text, &[], signature, pieces));
            }
            Part::Reasoning { text, sealed, .. } => {
                let read = |sealed: &String| serde_json::from_str::<Signed>(sealed).ok();
                let sealed = sealed.as_ref().and_then(read);
                let (own, signature) =
                    sealed.map_or((None, None), |one| (one.text, Some(one.thought_signature)));
                if !text.is_empty() {
                    let thought = [("thought", Some("true".to_owned()))];
                    out.extend(said(text, &thought, signature, pieces));
                } else if own.is_some() {
                    out.extend(said("", &[], signature, pieces));
                } else {
                    next = signature;
                }
            }
            Part::ToolCall(call) => {
                let made = object(&[
                    ("id", Some(quoted(&call.id))),
                    ("name", Some(quoted(&call.name))),
                    ("args", Some(value(&call.arguments))),
                ]);
                let call = [("functionCall", Some(made))];
                out.push(joined(&[
                    &call,
                    &[("thoughtSignature", next.take().map(|s| quoted(&s)))],
                ]));
            }
            Part::Image { .. } | Part::ToolResult(_) | Part::Opaque(_) => {}
        }
    }
    out
}

fn said(
    text: &str,
    more: &[Field<'_>],
    signature: Option<String>,
    pieces: Option<Pieces>,
) -> Vec<String> {
    let torn = match pieces {
        Some(pieces) if signature.is_none() => pieces.of(text),
        Some(_) | None => vec![text],
    };
    let signature = signature.map(|text| quoted(&text));
    let part = |piece: &str| {
        joined(&[
            &[("text", Some(quoted(piece)))],
            more,
            &[("thoughtSignature", signature.clone())],
        ])
    };
    torn.into_iter().map(part).collect()
}

fn response(
    answer: &Answer,
    parts: &[String],
    reason: Option<&str>,
    usage: Option<String>,
) -> String {
    let content = object(&[("role", Some(quoted("model"))), ("parts", Some(list(parts)))]);
    let candidate = object(&[
        ("content", Some(content)),
        ("finishReason", reason.map(quoted)),
        ("index", Some("0".to_owned())),
    ]);
    object(&[
        ("candidates", Some(list(&[candidate]))),
        ("usageMetadata", usage),
        ("modelVersion", answer.served_model.as_deref().map(quoted)),
        ("responseId", answer.request_id.as_deref().map(quoted)),
    ])
}

fn reason(stop: &Stop) -> &str {
    match stop {
        Stop::End | Stop::ToolCalls => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::ContentFilter => "SAFETY",
        Stop::Other(word) => word,
    }
}

fn number(Tokens(count): Tokens) -> String {
    count.to_string()
}

/// The thoughts are counted beside the output.
fn usage(usage: &Usage) -> Option<String> {
    let thought = usage.reasoning.unwrap_or_default();
    let spoken = usage.completion.map(|all| Tokens(all.0.saturating_sub(thought.0)));
    let total = match (usage.prompt, usage.completion) {
        (Some(prompt), Some(completion)) => Some(number(prompt.plus(completion))),
        (None | Some(_), None | Some(_)) => None,
    };
    let fields = [
        ("promptTokenCount", usage.prompt.map(number)),
        ("cachedContentTokenCount", usage.cached_input.map(number)),
        ("candidatesTokenCount", spoken.map(number)),
        ("thoughtsTokenCount", usage.reasoning.map(number)),
        ("totalTokenCount", total),
    ];
    fields.iter().any(|(_, json)| json.is_some()).then(|| object(&fields))
}
