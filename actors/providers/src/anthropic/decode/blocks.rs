//! The content blocks of one answer, put together from their pieces.
//!
//! A piece belongs to the open block of its index, or to the only open one. A piece of a tool call that fits no block
//! or two is a failure of the answer: a tool that runs with another call's arguments is worse than an answer that is
//! asked for again.

use crate::decode::{Fault, Ids, PARTS_MAX, text};
use crate::delta::Delta;
use bytes::Bytes;
use events::message::{Part, Seal, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The blocks so far, in the order in which they began.
#[derive(Debug)]
pub(super) struct Blocks {
    list: Vec<Block>,
    ids: Ids,
    /// Tool calls among them.
    calls: usize,
    /// Bytes that are kept.
    bytes: usize,
}

#[derive(Debug)]
struct Block {
    index: Option<u64>,
    is_open: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text(String),
    Thinking {
        text: String,
        signature: String,
        /// The block as it came; exact unless pieces came after it.
        came: String,
        is_whole: bool,
    },
    Call(Call),
    /// Redacted thinking, and what later versions add.
    Other {
        came: String,
        /// Pieces of its input.
        input: String,
    },
}

#[derive(Debug)]
struct Call {
    /// Its place among the calls.
    place: usize,
    /// The provider's id; empty where it gave none.
    given: String,
    id: String,
    name: String,
    /// The input that the block began with, unless that is empty.
    began_with: String,
    arguments: String,
}

/// A thinking block as the family wants it back.
#[derive(Serialize)]
struct Thinking<'a> {
    r#type: &'static str,
    thinking: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    signature: &'a str,
}

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    input: Option<Box<RawValue>>,
}

impl Blocks {
    pub(super) fn new(request: Bytes) -> Self {
        Self { list: Vec::new(), ids: Ids::new(request), calls: 0, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A block begins, perhaps with some of its content.
    pub(super) fn start(
        &mut self,
        index: Option<u64>,
        came: &RawValue,
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let block: Value =
            serde_json::from_str(came.get()).map_err(|_| Fault::NotJson("a block"))?;
        let said = |name: &str| text(&block, name).unwrap_or_default().to_owned();
        if let Some(open) = self.open_at(index).filter(|_| index.is_some()) {
            // Some say twice that a call begins.
            return match &open.kind {
                Kind::Call(call) if call.given == said("id") && call.arguments.is_empty() => Ok(()),
                Kind::Call(_) | Kind::Text(_) | Kind::Thinking { .. } | Kind::Other { .. } => {
                    Err(Fault::Call("a block begins before the one in its place has ended"))
                }
            };
        }
        if self.list.len() >= PARTS_MAX {
            return Err(Fault::Call("more blocks than any answer has"));
        }
        self.bytes += came.get().len();
        let kind = match text(&block, "type").unwrap_or_default() {
            "text" => {
                let text = said("text");
                if !text.is_empty() {
                    sink(Delta::Text(text.clone()));
                }
                Kind::Text(text)
            }
            "thinking" => {
                let text = said("thinking");
                if !text.is_empty() {
                    sink(Delta::Reasoning(text.clone()));
                }
                let came = came.get().to_owned();
                Kind::Thinking { text, signature: said("signature"), came, is_whole: true }
            }
            "tool_use" => Kind::Call(self.call(&block, came, answer, sink)?),
            _ => Kind::Other { came: came.get().to_owned(), input: String::new() },
        };
        self.list.push(Block { index, is_open: true, kind });
        Ok(())
    }

    fn call(
        &mut self,
        block: &Value,
        came: &RawValue,
        answer: &str,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Call, Fault> {
        let name = text(block, "name").ok_or(Fault::Call("a tool call has no name"))?.to_owned();
        let given = text(block, "id").unwrap_or_default().to_owned();
        let place = self.calls;
        self.calls += 1;
        // Two calls of one answer must not share an id, or a result would answer both.
        let taken = |block: &Block| matches!(&block.kind, Kind::Call(call) if call.id == given);
        let id = if given.is_empty() || self.list.iter().any(taken) {
            self.ids.make(answer, place)
        } else {
            given.clone()
        };
        sink(Delta::ToolCallStarted { index: place, id: id.clone(), name: name.clone() });
        let input = serde_json::from_str::<Input>(came.get()).ok().and_then(|block| block.input);
        let input = input.map(|input| input.get().to_owned()).unwrap_or_default();
        let is_nothing = matches!(block.get("input"), None | Some(Value::Null))
            || block.get("input").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
        let began_with = if is_nothing { String::new() } else { input };
        Ok(Call { place, given, id, name, began_with, arguments: String::new() })
    }

    /// More of a block.
    pub(super) fn delta(
        &mut self,
        index: Option<u64>,
        delta: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let (kind, field) = match text(delta, "type").unwrap_or_default() {
            kind @ "text_delta" => (kind, "text"),
            kind @ "thinking_delta" => (kind, "thinking"),
            kind @ "signature_delta" => (kind, "signature"),
            kind @ "input_json_delta" => (kind, "partial_json"),
            // Citations, and what later versions add: of no use here.
            _ => return Ok(()),
        };
        let Some(more) = text(delta, field) else { return Ok(()) };
        self.bytes += more.len();
        if index.is_none() && self.list.iter().filter(|block| block.is_open).count() > 1 {
            return Err(Fault::Call("a piece of a block may belong to two"));
        }
        let home = self.open_at(index);
        match (kind, home.map(|block| &mut block.kind)) {
            ("text_delta", Some(Kind::Text(text))) => {
                text.push_str(more);
                sink(Delta::Text(more.to_owned()));
            }
            ("thinking_delta", Some(Kind::Thinking { text, is_whole, .. })) => {
                text.push_str(more);
                *is_whole = false;
                sink(Delta::Reasoning(more.to_owned()));
            }
            ("signature_delta", Some(Kind::Thinking { signature, is_whole, .. })) => {
                signature.push_str(more);
                *is_whole = false;
            }
            ("input_json_delta", Some(Kind::Call(call))) => {
                call.arguments.push_str(more);
                let fragment = more.to_owned();
                sink(Delta::ToolCallArguments { index: call.place, fragment });
            }
            ("input_json_delta", Some(Kind::Other { input, .. })) => input.push_str(more),
            (_, Some(Kind::Other { .. })) => {}
            // Twins begin a text without saying so.
            ("text_delta", None) => {
                if self.list.len() >= PARTS_MAX {
                    return Err(Fault::Call("more blocks than any answer has"));
                }
                self.list.push(Block { index, is_open: true, kind: Kind::Text(more.to_owned()) });
                sink(Delta::Text(more.to_owned()));
            }
            (_, Some(_) | None) => return Err(Fault::Call("a piece fits no block of the answer")),
        }
        Ok(())
    }

    /// A block ends.
    pub(super) fn stop(&mut self, index: Option<u64>) {
        if let Some(block) = self.open_at(index) {
            block.is_open = false;
        }
    }

    /// The open block of an index; the last open one where no index is said.
    fn open_at(&mut self, index: Option<u64>) -> Option<&mut Block> {
        let is_it = |block: &&mut Block| block.is_open && (index.is_none() || block.index == index);
        self.list.iter_mut().rev().find(is_it)
    }

    /// The parts of the answer.
    pub(super) fn finish(
        self,
        seal: &Seal,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Vec<Part>, Fault> {
        let mut parts = Vec::with_capacity(self.list.len());
        for Block { kind, .. } in self.list {
            match kind {
                Kind::Text(text) if text.is_empty() => {}
                Kind::Text(text) => parts.push(Part::Text { text }),
                Kind::Thinking { text, signature, came, is_whole } => {
                    let sealed = if is_whole {
                        came
                    } else {
                        let (thinking, signature) = (text.as_str(), signature.as_str());
                        json(&Thinking { r#type: "thinking", thinking, signature })?
                    };
                    parts.push(Part::Reasoning { text, seal: seal.clone(), sealed: Some(sealed) });
                }
                Kind::Call(call) => parts.push(Part::ToolCall(call.finish(sink)?)),
                Kind::Other { came, input } => {
                    let sealed = if input.is_empty() { came } else { with_input(&came, &input)? };
                    let text = String::new();
                    parts.push(Part::Reasoning { text, seal: seal.clone(), sealed: Some(sealed) });
                }
            }
        }
        Ok(parts)
    }
}

impl Call {
    fn finish(self, sink: &mut dyn FnMut(Delta)) -> Result<ToolCall, Fault> {
        let Self { place, id, name, began_with, arguments, .. } = self;
        let came = !arguments.trim().is_empty();
        if came && !began_with.is_empty() && !is_equal(&began_with, &arguments) {
            return Err(Fault::Call("a tool call has two different inputs"));
        }
        if came {
            return Ok(ToolCall { id, name, arguments });
        }
        let arguments = if began_with.is_empty() { "{}".to_owned() } else { began_with };
        sink(Delta::ToolCallArguments { index: place, fragment: arguments.clone() });
        Ok(ToolCall { id, name, arguments })
    }
}

fn is_equal(one: &str, other: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    parse(one).is_some_and(|one| Some(one) == parse(other))
}

/// A block that came without its input, and the input in pieces.
fn with_input(came: &str, input: &str) -> Result<String, Fault> {
    let odd = |_| Fault::NotJson("the input of a block");
    let mut block: Value = serde_json::from_str(came).map_err(odd)?;
    let input: Value = serde_json::from_str(input).map_err(odd)?;
    if let Some(fields) = block.as_object_mut() {
        fields.insert("input".to_owned(), input);
    }
    json(&block)
}

fn json(value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|_| Fault::NotJson("a block"))
}
