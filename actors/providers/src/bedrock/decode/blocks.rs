//! The blocks of an answer, in the order in which they began. Text has no beginning of its own; a tool call has one,
//! and is whole only once its end came.

use crate::bedrock::Sealed;
use crate::decode::{Fault, Ids, PARTS_MAX, text};
use crate::delta::Delta;
use events::message::{Part, Seal, ToolCall};
use serde_json::Value;

#[derive(Debug)]
pub(super) struct Blocks {
    list: Vec<Block>,
    calls: usize,
    bytes: usize,
    ids: Ids,
}

#[derive(Debug)]
struct Block {
    index: u64,
    is_open: bool,
    what: What,
}

#[derive(Debug)]
enum What {
    Text(String),
    Thought {
        text: String,
        signature: String,
    },
    /// In base64.
    Redacted(String),
    Call {
        /// Its place among the calls.
        at: usize,
        call: ToolCall,
    },
    /// A picture, a result of the provider's own tools: what no other family has.
    Opaque(Value),
}

impl Blocks {
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

    /// `contentBlockStart`.
    pub(super) fn start(
        &mut self,
        event: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let index = number(event)?;
        if self.list.iter().any(|block| block.index == index) {
            return Err(Fault::Call("two parts of an answer have one number"));
        }
        let start = event.get("start").unwrap_or(&Value::Null);
        if let Some(call) = start.get("toolUse") {
            let call = self.call(call, String::new(), sink)?;
            return self.push(index, call);
        }
        if start.as_object().is_some_and(|start| !start.is_empty()) {
            return self.push(index, What::Opaque(start.clone()));
        }
        // What it is, its first piece will say.
        Ok(())
    }

    /// `contentBlockDelta`.
    pub(super) fn delta(
        &mut self,
        event: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let index = number(event)?;
        let delta = event.get("delta").unwrap_or(&Value::Null);
        if let Some(call) = delta.get("toolUse") {
            let more = text(call, "input").unwrap_or_default();
            let Some(What::Call { at, call }) = self.open(index)? else {
                return Err(Fault::Call("a piece of a tool call belongs to no call"));
            };
            call.arguments.push_str(more);
            let index = *at;
            self.bytes += more.len();
            if !more.is_empty() {
                sink(Delta::ToolCallArguments { index, fragment: more.to_owned() });
            }
            return Ok(());
        }
        if let Some(more) = text(delta, "text") {
            sink(Delta::Text(more.to_owned()));
            return match self.open(index)? {
                Some(What::Text(there)) => {
                    there.push_str(more);
                    self.bytes += more.len();
                    Ok(())
                }
                Some(_) => Err(Fault::Call("a text stands in another part")),
                None => self.push(index, What::Text(more.to_owned())),
            };
        }
        match delta.get("reasoningContent") {
            Some(thought) => self.thought(index, thought, sink),
            // Of a kind that is not known yet.
            None => Ok(()),
        }
    }

    /// `contentBlockStop`.
    pub(super) fn stop(&mut self, event: &Value) {
        let index = event.get("contentBlockIndex").and_then(Value::as_u64);
        for block in self.list.iter_mut().filter(|block| Some(block.index) == index) {
            block.is_open = false;
        }
    }

    /// The blocks of a whole message; `written` has the inputs of its calls as they were written.
    pub(super) fn whole(
        &mut self,
        content: &[Value],
        written: &[Option<String>],
    ) -> Result<(), Fault> {
        for (at, block) in content.iter().enumerate() {
            let index = u64::try_from(at).unwrap_or(u64::MAX);
            if let Some(call) = block.get("toolUse") {
                let input = match (call.get("input"), written.get(at).cloned().flatten()) {
                    (None | Some(Value::Null), _) => String::new(),
                    (Some(_), Some(written)) => written,
                    (Some(input), None) => input.to_string(),
                };
                let call = self.call(call, input, &mut |_| ())?;
                self.push(index, call)?;
            } else if let Some(words) = block.get("text").and_then(Value::as_str) {
                self.push(index, What::Text(words.to_owned()))?;
            } else if let Some(thought) = block.get("reasoningContent") {
                self.thought(index, thought.get("reasoningText").unwrap_or(thought), &mut |_| ())?;
            } else {
                self.push(index, What::Opaque(block.clone()))?;
            }
        }
        self.list.iter_mut().for_each(|block| block.is_open = false);
        Ok(())
    }

    /// The parts as messages have them, and how many calls are among them.
    pub(super) fn finish(self, seal: &Seal) -> Result<(Vec<Part>, usize), Fault> {
        let mut out = Vec::with_capacity(self.list.len());
        for Block { what, is_open, .. } in self.list {
            let sealed = |sealed: &Sealed| serde_json::to_string(sealed).ok();
            match what {
                What::Text(text) if text.is_empty() => {}
                What::Text(text) => out.push(Part::Text { text }),
                What::Thought { text, signature } => {
                    let signature = Some(signature).filter(|signature| !signature.is_empty());
                    let sealed = signature.and_then(|text| sealed(&Sealed::Signature(text)));
                    if sealed.is_some() || !text.is_empty() {
                        out.push(Part::Reasoning { text, seal: seal.clone(), sealed });
                    }
                }
                What::Redacted(data) => out.push(Part::Reasoning {
                    text: String::new(),
                    seal: seal.clone(),
                    sealed: sealed(&Sealed::RedactedContent(data)),
                }),
                What::Call { .. } if is_open => {
                    return Err(Fault::Call("a tool call has no end"));
                }
                What::Call { call, .. } => out.push(Part::ToolCall(call)),
                What::Opaque(block) => out.push(Part::Opaque(block)),
            }
        }
        Ok((out, self.calls))
    }

    /// The block of this number, which must not have ended.
    fn open(&mut self, index: u64) -> Result<Option<&mut What>, Fault> {
        match self.list.iter_mut().rev().find(|block| block.index == index) {
            Some(block) if block.is_open => Ok(Some(&mut block.what)),
            Some(_) => Err(Fault::Call("a part of an answer goes on after its end")),
            None => Ok(None),
        }
    }

    fn thought(
        &mut self,
        index: u64,
        thought: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        if let Some(data) = text(thought, "redactedContent") {
            return match self.open(index)? {
                // Base64 goes on only behind whole groups of four.
                Some(What::Redacted(there)) if there.len() % 4 == 0 && !there.ends_with('=') => {
                    there.push_str(data);
                    self.bytes += data.len();
                    Ok(())
                }
                Some(What::Redacted(_)) | None => self.push(index, What::Redacted(data.to_owned())),
                Some(_) => Err(Fault::Call("a thought stands in another part")),
            };
        }
        let more = text(thought, "text").unwrap_or_default();
        let sign = text(thought, "signature").unwrap_or_default();
        if !more.is_empty() {
            sink(Delta::Reasoning(more.to_owned()));
        }
        match self.open(index)? {
            Some(What::Thought { text, signature }) => {
                text.push_str(more);
                signature.push_str(sign);
                self.bytes += more.len() + sign.len();
                Ok(())
            }
            Some(_) => Err(Fault::Call("a thought stands in another part")),
            None => {
                let (text, signature) = (more.to_owned(), sign.to_owned());
                self.push(index, What::Thought { text, signature })
            }
        }
    }

    fn call(
        &mut self,
        call: &Value,
        arguments: String,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<What, Fault> {
        let name = text(call, "name").ok_or(Fault::Call("a tool call has no name"))?.to_owned();
        let is_taken = |id: &str| {
            let is_it = |what: &What| matches!(what, What::Call { call, .. } if call.id == id);
            self.list.iter().any(|block| is_it(&block.what))
        };
        // Two calls of one answer must not share an id, or a result would answer both.
        let given = text(call, "toolUseId").filter(|id| !is_taken(id));
        let at = self.calls;
        let id = given.map_or_else(|| self.ids.make("", at), str::to_owned);
        self.calls += 1;
        sink(Delta::ToolCallStarted { index: at, id: id.clone(), name: name.clone() });
        Ok(What::Call { at, call: ToolCall { id, name, arguments } })
    }

    fn push(&mut self, index: u64, what: What) -> Result<(), Fault> {
        if self.list.len() >= PARTS_MAX {
            return Err(Fault::Call("more parts than any answer has"));
        }
        self.bytes += match &what {
            What::Text(text) | What::Redacted(text) => text.len(),
            What::Thought { text, signature } => text.len() + signature.len(),
            What::Call { call, .. } => call.id.len() + call.name.len() + call.arguments.len(),
            What::Opaque(block) => block.to_string().len(),
        };
        self.list.push(Block { index, is_open: true, what });
        Ok(())
    }
}

fn number(event: &Value) -> Result<u64, Fault> {
    let index = event.get("contentBlockIndex").and_then(Value::as_u64);
    index.ok_or(Fault::Call("a piece of an answer has no number"))
}
