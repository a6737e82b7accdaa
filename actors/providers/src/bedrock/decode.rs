//! A Converse answer, read frame by frame or whole.
//!
//! The blocks of an answer are told apart by their numbers; what goes on after its end, or belongs to no block, is a
//! failure of the answer. A stream is an answer only once `messageStop` came, and nothing of a frame whose sums do
//! not fit is believed.

mod blocks;
mod usage;

use super::frames::{Frame, Parser, json as parsed};
use crate::class::Began;
use crate::class::envelope::Envelope;
use crate::decode::{ANSWER_BYTES_MAX, Decoder, Fault, Ids, LABEL_BYTES_MAX, Progress, text};
use crate::delta::{Answer, Delta, Stop};
use crate::secret::cut;
use blocks::Blocks;
use bytes::Bytes;
use events::message::{Message, Role, Seal};
use events::usage::Usage;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader {
    parser: Parser,
    /// Whole ones that were not read yet.
    frames: Vec<Frame>,
    blocks: Blocks,
    stop: Option<String>,
    /// Whether the last frame came.
    done: bool,
    usage: Usage,
}

impl Reader {
    /// A reader of the answer to a request with these bytes.
    pub(crate) fn new(request: Bytes) -> Self {
        Self {
            parser: Parser::default(),
            frames: Vec::new(),
            blocks: Blocks::new(Ids::new(request)),
            stop: None,
            done: false,
            usage: Usage::default(),
        }
    }

    fn frame(&mut self, frame: &Frame, sink: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        if self.blocks.bytes() + frame.payload.len() > ANSWER_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        match frame.kind.as_str() {
            "event" => {
                let payload = parsed(&frame.payload).ok_or(Fault::NotJson("a frame"))?;
                self.event(&frame.name, &payload, sink)
            }
            "exception" => {
                let payload = parsed(&frame.payload).unwrap_or_default();
                let words = text(&payload, "message").or_else(|| text(&payload, "Message"));
                let said = self.says(&frame.name, words.unwrap_or_default());
                Err(said)
            }
            "error" => Err(self.says(&frame.name, &frame.words)),
            // Of a kind that is not known yet: nothing in it can be a part of the answer.
            _ => Ok(()),
        }
    }

    fn event(
        &mut self,
        name: &str,
        payload: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        match name {
            "contentBlockStart" => self.blocks.start(payload, sink),
            "contentBlockDelta" => self.blocks.delta(payload, sink),
            "contentBlockStop" => {
                self.blocks.stop(payload);
                Ok(())
            }
            "messageStop" => self.stopped(payload),
            "metadata" => {
                if let Some(report) = payload.get("usage") {
                    usage::merge(&mut self.usage, report);
                }
                self.done = self.stop.is_some();
                Ok(())
            }
            // `messageStart` says only whose turn it is; others are not known yet.
            _ => Ok(()),
        }
    }

    fn stopped(&mut self, root: &Value) -> Result<(), Fault> {
        let reason = text(root, "stopReason").unwrap_or("end_turn");
        if matches!(reason, "malformed_model_output" | "malformed_tool_use") {
            return Err(Fault::Call("the model wrote a tool call that is none"));
        }
        self.stop = Some(cut(reason, LABEL_BYTES_MAX).to_owned());
        Ok(())
    }

    fn says(&self, code: &str, words: &str) -> Fault {
        let error = json!({ "error": { "code": code, "message": words } });
        let began = if self.blocks.is_empty() { Began::No } else { Began::Yes };
        Fault::Reported { error, began }
    }
}

impl Decoder for Reader {
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault> {
        let read = self.parser.feed(bytes, &mut self.frames);
        for frame in std::mem::take(&mut self.frames) {
            self.frame(&frame, sink)?;
            if self.done {
                return Ok(Progress::Done);
            }
        }
        // What came before the damage is sound: it may have been the end.
        read?;
        Ok(Progress::More)
    }

    fn end(&mut self, _sink: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        // Half a frame is no frame: without a terminal one the stream ends as truncated.
        Ok(())
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Fault> {
        let root: Value = serde_json::from_slice(body).map_err(|_| Fault::NotJson("the body"))?;
        if let Some(report) = root.get("usage") {
            usage::merge(&mut self.usage, report);
        }
        let message = root.get("output").and_then(|output| output.get("message"));
        let Some(content) = message.and_then(|message| message.get("content")) else {
            let is_error = Envelope::is_error(&root) || root.get("message").is_some();
            return Err(if is_error {
                Fault::Reported { error: root, began: Began::No }
            } else {
                Fault::NoMessage
            });
        };
        let content = content.as_array().map(Vec::as_slice).unwrap_or_default();
        self.blocks.whole(content, &written(body))?;
        self.stopped(&root)?;
        self.done = true;
        Ok(())
    }

    fn is_terminal(&self) -> bool {
        self.stop.is_some()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(
        self: Box<Self>,
        seal: Seal,
        request_id: Option<String>,
        _sink: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault> {
        let Some(reason) = self.stop else { return Err(Fault::Truncated) };
        let (parts, calls) = self.blocks.finish(&seal)?;
        let message = Message { role: Role::Assistant, name: None, parts };
        let stop = stop(&reason, calls);
        Ok(Answer { message, stop, usage: self.usage, served_model: None, request_id })
    }
}

/// The inputs of the calls of a whole body as they were written; a parsed number would not be the model's any more.
fn written(body: &[u8]) -> Vec<Option<String>> {
    #[derive(serde::Deserialize)]
    struct Root<'a> {
        #[serde(borrow)]
        output: Output<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Output<'a> {
        #[serde(borrow)]
        message: Said<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Said<'a> {
        #[serde(borrow)]
        content: Vec<Block<'a>>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Block<'a> {
        #[serde(borrow, default)]
        tool_use: Option<Use<'a>>,
    }
    #[derive(serde::Deserialize)]
    struct Use<'a> {
        #[serde(borrow, default)]
        input: Option<&'a RawValue>,
    }
    let root: Option<Root<'_>> = serde_json::from_slice(body).ok();
    let blocks = root.map(|root| root.output.message.content).unwrap_or_default();
    let input = |block: Block<'_>| block.tool_use?.input.map(|input| input.get().to_owned());
    blocks.into_iter().map(input).collect()
}

fn stop(reason: &str, calls: usize) -> Stop {
    match reason {
        // A window that is full cuts the answer as its own bound does.
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "guardrail_intervened" | "content_filtered" => Stop::ContentFilter,
        _ if calls > 0 => Stop::ToolCalls,
        "end_turn" | "stop_sequence" | "tool_use" => Stop::End,
        other => Stop::Other(other.chars().take(80).collect()),
    }
}

#[cfg(test)]
mod tests;
