//! A conversation in which every tool call is answered exactly once and at once, which is what every family demands.
//!
//! A call whose result never came (the node died between the two) gets one synthetic result: without it the families
//! refuse the conversation for ever, and with a made-up one the model would believe what nobody knows.

use super::EncodeError;
use events::message::{Message, Part, Role, ToolResult};
use events::prompt::Request;
use events::run::chosen::NOTE;
use events::run::ledger::UNKNOWN_RESULT;
use serde::Serialize;

/// Something that is said.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The place of its message in the request, from 0.
    pub(crate) position: usize,
    /// The speaker's name, where the message has one.
    pub(crate) name: Option<String>,
    pub(crate) said: Said,
}

/// What is said, and by whom.
#[derive(Debug)]
pub(crate) enum Said {
    /// The operator's texts.
    System(Vec<String>),
    /// The asker's parts; no results among them.
    User(Vec<Part>),
    /// The model's parts; no results among them, and each call with an id of its own.
    Assistant(Vec<Part>),
    /// The answer to a call of the assistant's turn before it.
    Result(ToolResult),
}

struct Turns {
    out: Vec<Turn>,
    /// Calls of the last assistant's message that have no result yet.
    open: Vec<String>,
}

/// The turns of a request.
///
/// # Errors
///
/// [`EncodeError`] with the message's place: no message, one that does not read, a part where its role has none, a
/// result without its call, two calls with one id.
pub(crate) fn turns(request: &Request) -> Result<Vec<Turn>, EncodeError> {
    if request.messages.is_empty() {
        return Err(EncodeError::NoMessages);
    }
    let mut turns = Turns { out: Vec::with_capacity(request.messages.len()), open: Vec::new() };
    for (position, body) in request.messages.iter().enumerate() {
        let message = body.message().map_err(|source| EncodeError::Message { position, source })?;
        turns.push(position, message)?;
    }
    turns.close(request.messages.len());
    Ok(noted(turns.out))
}

/// The turns with our note about this request behind what the operator said at the beginning. It stands last in the
/// request, because it changes while the rest of it stays.
fn noted(mut turns: Vec<Turn>) -> Vec<Turn> {
    let is_note =
        |turn: &Turn| turn.name.as_deref() == Some(NOTE) && matches!(turn.said, Said::System(_));
    if let Some(note) = turns.pop_if(|turn| is_note(turn)) {
        let is_system = |turn: &Turn| matches!(turn.said, Said::System(_));
        let behind = turns.iter().position(|turn| !is_system(turn)).unwrap_or(turns.len());
        turns.insert(behind, note);
    }
    turns
}

impl Turns {
    fn push(&mut self, position: usize, message: Message) -> Result<(), EncodeError> {
        let Message { role, name, parts } = message;
        let (results, parts): (Vec<Part>, Vec<Part>) =
            parts.into_iter().partition(|part| matches!(part, Part::ToolResult(_)));
        let answers = !results.is_empty();
        for part in results {
            if let Part::ToolResult(result) = part {
                self.result(position, result)?;
            }
        }
        let odd = |what| Err(EncodeError::Part { position, what });
        let said = match role {
            Role::Tool | Role::User if answers && parts.is_empty() => return Ok(()),
            Role::Tool => return odd("no tool result, or more than results"),
            Role::System => Said::System(system(position, parts)?),
            Role::User => {
                let is_odd =
                    |part: &Part| matches!(part, Part::ToolCall(_) | Part::Reasoning { .. });
                if parts.iter().any(is_odd) {
                    return odd("a part that only an assistant has");
                }
                Said::User(parts)
            }
            Role::Assistant => {
                if parts.iter().any(|part| matches!(part, Part::Image { .. })) {
                    return odd("an assistant's image");
                }
                Said::Assistant(parts)
            }
        };
        // Before calls of its own open.
        self.close(position);
        if let Said::Assistant(parts) = &said {
            self.open(position, parts)?;
        }
        self.out.push(Turn { position, name, said });
        Ok(())
    }

    fn open(&mut self, position: usize, parts: &[Part]) -> Result<(), EncodeError> {
        for part in parts {
            let Part::ToolCall(call) = part else { continue };
            if call.id.is_empty() || self.open.contains(&call.id) {
                return Err(EncodeError::CallId { position, id: call.id.clone() });
            }
            self.open.push(call.id.clone());
        }
        Ok(())
    }

    fn result(&mut self, position: usize, result: ToolResult) -> Result<(), EncodeError> {
        let Some(at) = self.open.iter().position(|open| *open == result.call) else {
            return Err(EncodeError::ResultWithoutCall { position, call: result.call });
        };
        self.open.remove(at);
        self.out.push(Turn { position, name: None, said: Said::Result(result) });
        Ok(())
    }

    /// Answers what is still open.
    fn close(&mut self, position: usize) {
        for call in std::mem::take(&mut self.open) {
            let result = ToolResult { call, content: UNKNOWN_RESULT.to_owned(), is_error: false };
            self.out.push(Turn { position, name: None, said: Said::Result(result) });
        }
    }
}

fn system(position: usize, parts: Vec<Part>) -> Result<Vec<String>, EncodeError> {
    let text = |part| match part {
        Part::Text { text } => Ok(text),
        Part::Image { .. }
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Reasoning { .. }
        | Part::Refusal { .. }
        | Part::Opaque(_) => {
            Err(EncodeError::Part { position, what: "more than text in a system message" })
        }
    };
    parts.into_iter().map(text).collect()
}

/// The call that a result answers, and its text for a wire without a mark for failures: a model that is not told takes
/// the words for a result. Our own tools say it in this form.
pub(crate) fn unmarked(result: ToolResult) -> (String, String) {
    #[derive(Serialize)]
    struct Failed {
        status: &'static str,
        error: &'static str,
        message: String,
    }
    let ToolResult { call, content, is_error } = result;
    if !is_error {
        return (call, content);
    }
    let failed = Failed { status: "error", error: "tool_failed", message: content };
    // Strings only; serialising them can not fail.
    (call, serde_json::to_string(&failed).unwrap_or_default())
}
