//! The parts of an answer in the order in which they came. Pieces of text are joined; a part with a signature stays
//! alone, for the signature is of exactly that part.

use crate::decode::{Fault, Ids, PARTS_MAX, text};
use crate::delta::Delta;
use crate::gemini::Signed;
use events::message::{Part, Seal, ToolCall};
use serde_json::Value;

#[derive(Debug)]
pub(super) struct Parts {
    list: Vec<Piece>,
    calls: usize,
    bytes: usize,
    ids: Ids,
}

#[derive(Debug)]
struct Piece {
    what: What,
    signature: Option<String>,
}

#[derive(Debug)]
enum What {
    Text(String),
    Thought(String),
    Call(ToolCall),
    /// A picture, a run of code: what no other family has.
    Opaque(Value),
}

/// Whether words are the answer's or about it.
#[derive(Clone, Copy)]
enum Voice {
    Speaking,
    Thinking,
}

impl Parts {
    pub(super) const fn new(ids: Ids) -> Self {
        Self { list: Vec::new(), calls: 0, bytes: 0, ids }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes that are kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tool calls so far.
    pub(super) const fn calls(&self) -> usize {
        self.calls
    }

    /// The parts of one response; `written` has the arguments of its calls as they were written.
    pub(super) fn read(
        &mut self,
        parts: &[Value],
        written: &[Option<String>],
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        for (at, part) in parts.iter().enumerate() {
            let signature = text(part, "thoughtSignature").map(str::to_owned);
            if let Some(call) = part.get("functionCall") {
                let arguments = written.get(at).cloned().flatten();
                let call = self.call(call, arguments, answer)?;
                let index = self.calls;
                self.calls += 1;
                let (id, name) = (call.id.clone(), call.name.clone());
                sink(Delta::ToolCallStarted { index, id, name });
                sink(Delta::ToolCallArguments { index, fragment: call.arguments.clone() });
                self.push(What::Call(call), signature)?;
            } else if let Some(more) = part.get("text").and_then(Value::as_str) {
                let is_thought = part.get("thought") == Some(&Value::Bool(true));
                let voice = if is_thought { Voice::Thinking } else { Voice::Speaking };
                self.said(voice, more, signature, sink)?;
            } else if part.as_object().is_some_and(|part| !part.is_empty()) {
                self.push(What::Opaque(part.clone()), None)?;
            }
        }
        Ok(())
    }

    /// The parts as messages have them: each signature right before what it signs.
    pub(super) fn finish(self, seal: &Seal) -> Vec<Part> {
        let mut out = Vec::with_capacity(self.list.len());
        for Piece { what, signature } in self.list {
            let own = match &what {
                What::Text(text) if text.is_empty() => Some(String::new()),
                What::Text(_) | What::Thought(_) | What::Call(_) | What::Opaque(_) => None,
            };
            let sealed = signature.and_then(|thought_signature| {
                serde_json::to_string(&Signed { text: own, thought_signature }).ok()
            });
            if let What::Thought(text) = what {
                out.push(Part::Reasoning { text, seal: seal.clone(), sealed });
                continue;
            }
            if sealed.is_some() {
                let (text, seal) = (String::new(), seal.clone());
                out.push(Part::Reasoning { text, seal, sealed });
            }
            match what {
                What::Text(text) if !text.is_empty() => out.push(Part::Text { text }),
                What::Text(_) | What::Thought(_) => {}
                What::Call(call) => out.push(Part::ToolCall(call)),
                What::Opaque(part) => out.push(Part::Opaque(part)),
            }
        }
        out
    }

    fn call(&self, call: &Value, written: Option<String>, answer: &str) -> Result<ToolCall, Fault> {
        let says = |name: &str| call.get(name).is_some_and(|value| !value.is_null());
        if says("partialArgs") || call.get("willContinue") == Some(&Value::Bool(true)) {
            return Err(Fault::Call("a tool call comes in pieces that nobody asked for"));
        }
        let name = text(call, "name").ok_or(Fault::Call("a tool call has no name"))?.to_owned();
        let arguments = match call.get("args") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(args @ Value::Object(_)) => written.unwrap_or_else(|| args.to_string()),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err(Fault::Call("the arguments of a tool call are no object"));
            }
        };
        let is_taken = |id: &str| {
            self.list.iter().any(|piece| matches!(&piece.what, What::Call(call) if call.id == id))
        };
        // Two calls of one answer must not share an id, or a result would answer both.
        let given = text(call, "id").filter(|id| !is_taken(id));
        let id = given.map_or_else(|| self.ids.make(answer, self.calls), str::to_owned);
        Ok(ToolCall { id, name, arguments })
    }

    fn said(
        &mut self,
        voice: Voice,
        more: &str,
        signature: Option<String>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        if !more.is_empty() {
            let more = more.to_owned();
            sink(match voice {
                Voice::Thinking => Delta::Reasoning(more),
                Voice::Speaking => Delta::Text(more),
            });
        } else if signature.is_none() {
            return Ok(());
        }
        let open = self.list.last_mut().filter(|last| last.signature.is_none());
        match (open.map(|piece| &mut piece.what), voice) {
            (Some(What::Thought(text)), Voice::Thinking)
            | (Some(What::Text(text)), Voice::Speaking)
                if signature.is_none() =>
            {
                text.push_str(more);
                self.bytes += more.len();
                Ok(())
            }
            // A signature without words is of a part of its own, thought or not: it says nothing either way.
            (_, Voice::Thinking) if !more.is_empty() => {
                self.push(What::Thought(more.to_owned()), signature)
            }
            (_, _) => self.push(What::Text(more.to_owned()), signature),
        }
    }

    fn push(&mut self, what: What, signature: Option<String>) -> Result<(), Fault> {
        if self.list.len() >= PARTS_MAX {
            return Err(Fault::Call("more parts than any answer has"));
        }
        self.bytes += match &what {
            What::Text(text) | What::Thought(text) => text.len(),
            What::Call(call) => call.id.len() + call.name.len() + call.arguments.len(),
            What::Opaque(part) => part.to_string().len(),
        };
        self.bytes += signature.as_ref().map_or(0, String::len);
        self.list.push(Piece { what, signature });
        Ok(())
    }
}
