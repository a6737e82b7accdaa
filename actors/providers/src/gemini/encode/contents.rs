//! The conversation as contents: the leading system texts apart, and all results of one turn together, in the order
//! of its calls, because the family counts them.

use super::{NAME_CHARS_MAX, is_first};
use crate::encode::{EncodeError, Said, history_name, turns};
use crate::endpoint::Endpoint;
use crate::gemini::Signed;
use crate::image::Inline;
use events::message::{Part, Seal, ToolResult};
use events::prompt::Request;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// What stands for the signature of a call that another model made: newer models refuse a call without one, and this
/// word of Google's own tells them that there is none.
const FOREIGN: &str = "skip_thought_signature_validator";
/// The pictures that the family reads.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

#[derive(Serialize)]
pub(super) struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Wire>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Response>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob {
    mime_type: String,
    data: String,
}

#[derive(Serialize)]
struct Call {
    id: String,
    name: String,
    args: Box<RawValue>,
}

#[derive(Serialize)]
struct Response {
    id: String,
    name: String,
    response: Box<RawValue>,
}

struct Contents<'a> {
    seal: Seal,
    model: &'a str,
    system: Vec<Wire>,
    out: Vec<Content>,
    /// Id and name of the last turn's calls, and what was answered so far.
    calls: Vec<(String, String)>,
    results: Vec<ToolResult>,
}

/// The system instruction and the contents.
///
/// # Errors
///
/// What the family is known to refuse, with the message's place.
pub(super) fn contents(
    endpoint: &Endpoint,
    request: &Request,
) -> Result<(Option<Content>, Vec<Content>), EncodeError> {
    let mut contents = Contents {
        seal: endpoint.seal(&request.model),
        model: &request.model,
        system: Vec::new(),
        out: Vec::new(),
        calls: Vec::new(),
        results: Vec::new(),
    };
    for turn in turns(request)? {
        match turn.said {
            Said::Result(result) => contents.results.push(result),
            Said::System(texts) => contents.system(texts)?,
            Said::User(parts) => {
                contents.answered()?;
                let parts = user(turn.position, parts)?;
                contents.say("user", parts);
            }
            Said::Assistant(parts) => {
                contents.answered()?;
                if contents.out.is_empty() {
                    let what = "an assistant's words before any of the user's";
                    return Err(EncodeError::Part { position: turn.position, what });
                }
                contents.assistant(parts)?;
            }
        }
    }
    contents.answered()?;
    if contents.out.is_empty() {
        return Err(EncodeError::NoMessages);
    }
    let system =
        (!contents.system.is_empty()).then_some(Content { role: None, parts: contents.system });
    Ok((system, contents.out))
}

impl Contents<'_> {
    /// Puts parts behind what the same speaker said before: the family wants speakers to take turns.
    fn say(&mut self, role: &'static str, parts: Vec<Wire>) {
        let is_answers =
            |content: &Content| content.parts.iter().any(|part| part.function_response.is_some());
        match self.out.last_mut() {
            Some(last) if last.role == Some(role) && !is_answers(last) => last.parts.extend(parts),
            Some(_) | None if parts.is_empty() => {}
            Some(_) | None => self.out.push(Content { role: Some(role), parts }),
        }
    }

    /// Before anything was said it is the instruction; later, the family has no place for it but the asker's.
    fn system(&mut self, texts: Vec<String>) -> Result<(), EncodeError> {
        self.answered()?;
        let texts = texts.into_iter().filter(|text| !text.is_empty());
        if self.out.is_empty() {
            self.system.extend(texts.map(said));
        } else {
            let parts = texts.map(|text| said(format!("<system>\n{text}\n</system>"))).collect();
            self.say("user", parts);
        }
        Ok(())
    }

    fn assistant(&mut self, parts: Vec<Part>) -> Result<(), EncodeError> {
        let mut wire: Vec<Wire> = Vec::with_capacity(parts.len());
        let mut signature: Option<String> = None;
        let mut calls = Vec::new();
        for part in parts {
            match part {
                Part::Reasoning { text, seal, sealed } if seal == self.seal => {
                    if let Some(part) = thought(text, sealed.as_deref(), &mut signature) {
                        wire.push(part);
                    }
                }
                Part::Text { text } | Part::Refusal { text } => {
                    if !text.is_empty() {
                        wire.push(Wire { thought_signature: signature.take(), ..said(text) });
                    }
                }
                Part::ToolCall(call) => {
                    let name = past_name(&call.name);
                    let foreign = calls.is_empty() && demands_signatures(self.model);
                    let signature =
                        signature.take().or_else(|| foreign.then(|| FOREIGN.to_owned()));
                    calls.push((call.id.clone(), name.clone()));
                    let args = arguments(&call.arguments)?;
                    let call = Call { id: call.id, name, args };
                    wire.push(Wire {
                        function_call: Some(call),
                        thought_signature: signature,
                        ..Wire::default()
                    });
                }
                // Another reader's reasoning, and items that no family takes from an assistant.
                Part::Reasoning { .. }
                | Part::Opaque(_)
                | Part::Image { .. }
                | Part::ToolResult(_) => {}
            }
        }
        if signature.is_some() {
            wire.push(Wire { thought_signature: signature, ..said(String::new()) });
        }
        self.say("model", wire);
        self.calls = calls;
        Ok(())
    }

    /// Says all results of the last turn, in the order of its calls.
    fn answered(&mut self) -> Result<(), EncodeError> {
        let mut results = std::mem::take(&mut self.results);
        let mut parts = Vec::with_capacity(results.len());
        for (id, name) in std::mem::take(&mut self.calls) {
            let Some(at) = results.iter().position(|result| result.call == id) else { continue };
            let response = outcome(results.swap_remove(at))?;
            let answer = Response { id, name, response };
            parts.push(Wire { function_response: Some(answer), ..Wire::default() });
        }
        if !parts.is_empty() {
            self.out.push(Content { role: Some("user"), parts });
        }
        Ok(())
    }
}

fn said(text: String) -> Wire {
    Wire { text: Some(text), ..Wire::default() }
}

/// A reasoning part of ours: a thought, or a signature for the part after it.
fn thought(text: String, sealed: Option<&str>, next: &mut Option<String>) -> Option<Wire> {
    let signed = sealed.and_then(|sealed| serde_json::from_str::<Signed>(sealed).ok());
    let (own, signature) = match signed {
        Some(Signed { text, thought_signature }) => (text, Some(thought_signature)),
        None => (None, None),
    };
    if !text.is_empty() {
        return Some(Wire { thought: Some(true), thought_signature: signature, ..said(text) });
    }
    match own {
        Some(own) => Some(Wire { thought_signature: signature, ..said(own) }),
        None => {
            *next = signature;
            None
        }
    }
}

/// A name that a model made up, as the family takes it.
fn past_name(name: &str) -> String {
    let name = history_name(name, NAME_CHARS_MAX);
    if is_first(&name) { name } else { history_name(&format!("_{name}"), NAME_CHARS_MAX) }
}

/// Models from the third generation on refuse a call without a signature.
fn demands_signatures(model: &str) -> bool {
    let model = model.strip_prefix("models/").unwrap_or(model);
    model.starts_with("gemini-")
        && !["gemini-1", "gemini-2"].iter().any(|old| model.starts_with(old))
}

/// The arguments as an object; what a model wrote that is none can not be sent, and its result says so.
fn arguments(text: &str) -> Result<Box<RawValue>, EncodeError> {
    Ok(match object(text) {
        Some(object) => object,
        None => RawValue::from_string("{}".to_owned())?,
    })
}

/// The text, when it is a JSON object.
fn object(text: &str) -> Option<Box<RawValue>> {
    let raw: Box<RawValue> = serde_json::from_str(text.trim()).ok()?;
    raw.get().starts_with('{').then_some(raw)
}

fn outcome(result: ToolResult) -> Result<Box<RawValue>, EncodeError> {
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Outcome {
        Result(String),
        Error(String),
    }
    let ToolResult { content, is_error, .. } = result;
    if is_error {
        return Ok(to_raw_value(&Outcome::Error(content))?);
    }
    Ok(match object(&content) {
        Some(object) => object,
        None => to_raw_value(&Outcome::Result(content))?,
    })
}

fn user(position: usize, parts: Vec<Part>) -> Result<Vec<Wire>, EncodeError> {
    let odd = |what| EncodeError::Part { position, what };
    let mut wire = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text { text } | Part::Refusal { text } => {
                if !text.is_empty() {
                    wire.push(said(text));
                }
            }
            Part::Image { url, .. } => {
                let Inline { kind, data } = Inline::read(&url, &IMAGES).map_err(odd)?;
                let blob = Blob { mime_type: kind.to_owned(), data: data.to_owned() };
                wire.push(Wire { inline_data: Some(blob), ..Wire::default() });
            }
            Part::Opaque(_) => return Err(odd("a part that Gemini does not know")),
            Part::ToolCall(_) | Part::ToolResult(_) | Part::Reasoning { .. } => {
                return Err(odd("a part that only an assistant has"));
            }
        }
    }
    if wire.is_empty() { Err(odd("no content, which Gemini refuses")) } else { Ok(wire) }
}
