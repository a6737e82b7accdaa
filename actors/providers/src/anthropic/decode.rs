//! A Messages answer, read piece by piece or whole.
//!
//! An answer only once `message_stop` came. Blocks that this build does not know, and those that must go back
//! unchanged, are kept as the bytes they came in.

mod blocks;
mod usage;

use crate::class::Began;
use crate::class::envelope::Envelope;
use crate::decode::{ANSWER_BYTES_MAX, Events, Fault, LABEL_BYTES_MAX, Progress, text};
use crate::delta::{Answer, Delta, Stop};
use crate::secret::cut;
use crate::sse::Event;
use blocks::Blocks;
use bytes::Bytes;
use events::message::{Message, Role, Seal};
use events::usage::Usage;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use usage::Counts;

/// A message with its blocks as they came.
#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    content: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: Whole,
}

#[derive(Deserialize)]
struct BlockStart {
    content_block: Box<RawValue>,
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader {
    blocks: Blocks,
    stop: Option<String>,
    /// Whether a message began.
    started: bool,
    done: bool,
    counts: Counts,
    served_model: Option<String>,
    answer_id: String,
}

impl Reader {
    /// A reader of the answer to a request with these bytes, from which ids are made where the provider gives none.
    pub(crate) fn new(request: Bytes) -> Self {
        Self {
            blocks: Blocks::new(request),
            stop: None,
            started: false,
            done: false,
            counts: Counts::default(),
            served_model: None,
            answer_id: String::new(),
        }
    }

    fn progress(&self) -> Progress {
        if self.done { Progress::Done } else { Progress::More }
    }

    fn began(&self) -> Began {
        if self.blocks.is_empty() && self.stop.is_none() { Began::No } else { Began::Yes }
    }

    /// What stands beside the blocks of a message.
    fn report(&mut self, message: &Value) {
        self.started = true;
        if let Some(model) = text(message, "model") {
            self.served_model = Some(cut(model, LABEL_BYTES_MAX).to_owned());
        }
        if let Some(id) = text(message, "id").filter(|_| self.answer_id.is_empty()) {
            cut(id, LABEL_BYTES_MAX).clone_into(&mut self.answer_id);
        }
        self.counts.merge(message.get("usage"));
        if let Some(reason) = text(message, "stop_reason") {
            self.stop = Some(reason.to_owned());
        }
    }

    fn message_start(
        &mut self,
        data: &str,
        chunk: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        self.report(chunk.get("message").unwrap_or(&Value::Null));
        // Some say it twice; what had come by then is not said again.
        if self.blocks.is_empty()
            && let Ok(MessageStart { message }) = serde_json::from_str(data)
        {
            self.all(&message.content, sink)?;
        }
        Ok(())
    }

    /// Blocks that came whole.
    fn all(&mut self, content: &[Box<RawValue>], sink: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        for block in content {
            self.blocks.start(None, block, &self.answer_id, sink)?;
            self.blocks.stop(None);
        }
        Ok(())
    }
}

impl Events for Reader {
    fn event(&mut self, event: &Event, sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault> {
        let data = event.data.trim();
        if self.done || data.is_empty() {
            return Ok(self.progress());
        }
        if self.blocks.bytes() + data.len() > ANSWER_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        let chunk: Value = serde_json::from_str(data).map_err(|_| Fault::NotJson("a chunk"))?;
        let kind = text(&chunk, "type").unwrap_or(&event.name);
        if kind == "error" || Envelope::is_error(&chunk) {
            self.counts.merge(chunk.get("usage"));
            return Err(Fault::Reported { error: chunk, began: self.began() });
        }
        let index = chunk.get("index").and_then(Value::as_u64);
        match kind {
            "message_start" => self.message_start(data, &chunk, sink)?,
            "content_block_start" => {
                let BlockStart { content_block } = serde_json::from_str(data)
                    .map_err(|_| Fault::Call("a block begins without saying what it is"))?;
                self.blocks.start(index, &content_block, &self.answer_id, sink)?;
            }
            "content_block_delta" => {
                let delta = chunk.get("delta").unwrap_or(&Value::Null);
                self.blocks.delta(index, delta, sink)?;
            }
            "content_block_stop" => self.blocks.stop(index),
            "message_delta" => {
                let delta = chunk.get("delta").unwrap_or(&Value::Null);
                if let Some(reason) = text(delta, "stop_reason") {
                    self.stop = Some(reason.to_owned());
                }
                self.counts.merge(chunk.get("usage"));
            }
            "message_stop" => self.done = true,
            // `ping`, and what later versions add.
            _ => {}
        }
        Ok(self.progress())
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Fault> {
        let root: Value = serde_json::from_slice(body).map_err(|_| Fault::NotJson("the body"))?;
        if Envelope::is_error(&root) {
            self.counts.merge(root.get("usage"));
            return Err(Fault::Reported { error: root, began: Began::No });
        }
        if root.get("content").is_none_or(|content| !content.is_array()) {
            return Err(Fault::NoMessage);
        }
        self.report(&root);
        let whole: Whole =
            serde_json::from_slice(body).map_err(|_| Fault::NotJson("the content"))?;
        self.all(&whole.content, &mut |_| ())?;
        self.done = true;
        Ok(())
    }

    fn is_terminal(&self) -> bool {
        self.done
    }

    fn usage(&self) -> Usage {
        self.counts.usage()
    }

    fn finish(
        self,
        seal: Seal,
        request_id: Option<String>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault> {
        if !self.done {
            return Err(Fault::Truncated);
        }
        if !self.started && self.blocks.is_empty() {
            return Err(Fault::NoMessage);
        }
        let usage = self.counts.usage();
        let parts = self.blocks.finish(&seal, sink)?;
        let message = Message { role: Role::Assistant, name: None, parts };
        let stop = stop(self.stop.as_deref(), message.calls().count());
        let request_id = request_id.or((!self.answer_id.is_empty()).then_some(self.answer_id));
        Ok(Answer { message, stop, usage, served_model: self.served_model, request_id })
    }
}

/// Twins say `end_turn` although calls came, or nothing at all: what came counts.
fn stop(reason: Option<&str>, calls: usize) -> Stop {
    match reason {
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
        Some("refusal") => Stop::ContentFilter,
        None | Some("end_turn" | "stop_sequence" | "tool_use") if calls > 0 => Stop::ToolCalls,
        None | Some("end_turn" | "stop_sequence" | "tool_use") => Stop::End,
        // `pause_turn` among them.
        Some(other) => Stop::Other(other.chars().take(80).collect()),
    }
}

#[cfg(test)]
mod tests;
