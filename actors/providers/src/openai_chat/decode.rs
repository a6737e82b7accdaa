//! A chat completions answer, read piece by piece or whole.
//!
//! Total: any bytes give an answer or a fault. A stream is an answer only once its terminal event came, `[DONE]` or a
//! finish reason; what ends before is truncated, and none of its tool calls is given out, for they may be cut short.

mod calls;
pub(super) mod usage;

use crate::class::Began;
use crate::class::envelope::Envelope;
use crate::decode::{ANSWER_BYTES_MAX, Events, Fault, LABEL_BYTES_MAX, Progress, text};
use crate::delta::{Answer, Delta, Stop};
use crate::secret::cut;
use crate::sse::Event;
use bytes::Bytes;
use calls::Calls;
use events::message::{Message, Part, Role, Seal};
use events::usage::Usage;
use serde_json::Value;

/// What ends a stream of the family.
const DONE: &str = "[DONE]";

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader {
    text: String,
    reasoning: String,
    refusal: String,
    calls: Calls,
    finish: Option<String>,
    done: bool,
    choice: bool,
    usage: Usage,
    served_model: Option<String>,
    answer_id: String,
}

impl Reader {
    /// A reader of the answer to a request with these bytes, from which ids are made where the provider gives none.
    pub(crate) fn new(request: Bytes) -> Self {
        Self {
            text: String::new(),
            reasoning: String::new(),
            refusal: String::new(),
            calls: Calls::new(request),
            finish: None,
            done: false,
            choice: false,
            usage: Usage::default(),
            served_model: None,
            answer_id: String::new(),
        }
    }

    fn progress(&self) -> Progress {
        if self.done { Progress::Done } else { Progress::More }
    }

    fn began(&self) -> Began {
        let silent = self.text.is_empty()
            && self.reasoning.is_empty()
            && self.refusal.is_empty()
            && self.calls.is_empty()
            && self.finish.is_none();
        if silent { Began::No } else { Began::Yes }
    }

    /// The bound holds for what is kept; the frames around it are read and gone.
    fn check_length(&self, more: usize) -> Result<(), Fault> {
        let kept = self.text.len() + self.reasoning.len() + self.refusal.len() + self.calls.bytes();
        if kept + more > ANSWER_BYTES_MAX { Err(Fault::TooLong) } else { Ok(()) }
    }

    /// What stands beside the choices.
    fn report(&mut self, root: &Value) {
        if let Some(usage) = root.get("usage") {
            usage::merge(&mut self.usage, usage);
        }
        if let Some(model) = text(root, "model") {
            self.served_model = Some(cut(model, LABEL_BYTES_MAX).to_owned());
        }
        if let Some(id) = text(root, "id").filter(|_| self.answer_id.is_empty()) {
            cut(id, LABEL_BYTES_MAX).clone_into(&mut self.answer_id);
        }
    }

    fn delta(&mut self, delta: &Value, sink: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        self.spoken(delta, sink);
        if let Some(pieces) = delta.get("tool_calls").and_then(Value::as_array) {
            self.calls.chunk(pieces, &self.answer_id, sink)?;
        }
        Ok(())
    }

    /// Text, reasoning and refusal of a delta or a message.
    fn spoken(&mut self, delta: &Value, sink: &mut dyn FnMut(Delta)) {
        // Some send reasoning under both names.
        if let Some(more) = text(delta, "reasoning_content").or_else(|| text(delta, "reasoning")) {
            self.reasoning.push_str(more);
            sink(Delta::Reasoning(more.to_owned()));
        }
        let content = delta.get("content");
        let parts = content
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|part| text(part, "text"));
        for more in
            content.and_then(Value::as_str).filter(|more| !more.is_empty()).into_iter().chain(parts)
        {
            self.text.push_str(more);
            sink(Delta::Text(more.to_owned()));
        }
        if let Some(more) = text(delta, "refusal") {
            self.refusal.push_str(more);
            sink(Delta::Refusal(more.to_owned()));
        }
    }

    fn finished(&mut self, choice: &Value) -> Result<(), Fault> {
        let reason = text(choice, "finish_reason");
        // An aggregator's upstream failed: said by the reason, by an object beside it, or both.
        if reason == Some("error") || choice.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Fault::Reported { error: choice.clone(), began: self.began() });
        }
        let Some(reason) = reason else { return Ok(()) };
        self.finish = Some(reason.to_owned());
        Ok(())
    }
}

impl Events for Reader {
    fn event(&mut self, event: &Event, sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault> {
        let data = event.data.trim();
        if self.done || data.is_empty() {
            return Ok(self.progress());
        }
        if data == DONE {
            self.done = true;
            return Ok(Progress::Done);
        }
        self.check_length(data.len())?;
        let chunk: Value = serde_json::from_str(data).map_err(|_| Fault::NotJson("a chunk"))?;
        if Envelope::is_error(&chunk) || (event.name == "error" && chunk.get("choices").is_none()) {
            self.report(&chunk);
            return Err(Fault::Reported { error: chunk, began: self.began() });
        }
        self.report(&chunk);
        let Some(choice) = first_choice(&chunk) else { return Ok(Progress::More) };
        self.choice = true;
        if let Some(usage) = choice.get("usage") {
            usage::merge(&mut self.usage, usage);
        }
        // Some put the whole message where the pieces belong; after pieces it only repeats them.
        let message = choice.get("message").filter(|_| self.began() == Began::No);
        if let Some(delta) = choice.get("delta").filter(|delta| !delta.is_null()).or(message) {
            self.delta(delta, sink)?;
        }
        self.finished(choice)?;
        Ok(self.progress())
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Fault> {
        let root: Value = serde_json::from_slice(body).map_err(|_| Fault::NotJson("the body"))?;
        self.report(&root);
        if Envelope::is_error(&root) {
            return Err(Fault::Reported { error: root, began: Began::No });
        }
        let Some(choice) = first_choice(&root) else { return Err(Fault::NoMessage) };
        self.choice = true;
        let message =
            choice.get("message").filter(|message| !message.is_null()).ok_or(Fault::NoMessage)?;
        self.spoken(message, &mut |_| ());
        if let Some(calls) = message.get("tool_calls").and_then(Value::as_array) {
            self.calls.whole(calls, &self.answer_id)?;
        }
        self.finished(choice)?;
        self.done = true;
        Ok(())
    }

    fn is_terminal(&self) -> bool {
        self.done || self.finish.is_some()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(
        self,
        seal: Seal,
        request_id: Option<String>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault> {
        if !self.is_terminal() {
            return Err(Fault::Truncated);
        }
        if !self.choice {
            return Err(Fault::NoMessage);
        }
        let calls = self.calls.finish(sink)?;
        let stop = stop(self.finish.as_deref(), calls.len());
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() {
            parts.push(Part::Reasoning { text: self.reasoning, seal, sealed: None });
        }
        if !self.text.is_empty() {
            parts.push(Part::Text { text: self.text });
        }
        if !self.refusal.is_empty() {
            parts.push(Part::Refusal { text: self.refusal });
        }
        parts.extend(calls.into_iter().map(Part::ToolCall));
        let message = Message { role: Role::Assistant, name: None, parts };
        let request_id = request_id.or((!self.answer_id.is_empty()).then_some(self.answer_id));
        Ok(Answer { message, stop, usage: self.usage, served_model: self.served_model, request_id })
    }
}

/// The one choice that is kept: we never ask for another.
fn first_choice(root: &Value) -> Option<&Value> {
    let choices = root.get("choices").and_then(Value::as_array)?;
    choices
        .iter()
        .find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or_default() == 0)
}

/// Compatibles say `stop` although calls came, and `tool_calls` although none did: what came counts.
fn stop(reason: Option<&str>, calls: usize) -> Stop {
    match reason {
        Some("length") => Stop::Length,
        Some("content_filter") => Stop::ContentFilter,
        None | Some(_) if calls > 0 => Stop::ToolCalls,
        None | Some("stop" | "tool_calls" | "function_call") => Stop::End,
        Some(other) => Stop::Other(other.chars().take(80).collect()),
    }
}

#[cfg(test)]
mod tests;
