//! A Responses answer, read piece by piece or whole.
//!
//! An answer only once `response.completed` or `response.incomplete` came. Items count as they are finished; their
//! pieces are for showing, and arguments that were shown otherwise than they are finished lose the answer.

mod items;

use crate::class::Began;
use crate::class::envelope::Envelope;
use crate::decode::{ANSWER_BYTES_MAX, Events, Fault, LABEL_BYTES_MAX, Progress, text};
use crate::delta::{Answer, Delta, Stop};
use crate::secret::cut;
use crate::sse::Event;
use bytes::Bytes;
use events::message::{Message, Role, Seal};
use events::quantity::Tokens;
use events::usage::Usage;
use items::{End, Items};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What some send after the last event, and what ends nothing by itself.
const DONE: &str = "[DONE]";

/// The items of a response as they came.
#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    output: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct ResponseEvent {
    response: Output,
}

#[derive(Deserialize)]
struct ItemEvent {
    item: Box<RawValue>,
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader {
    items: Items,
    /// How it ended, once it has.
    end: Option<Ended>,
    usage: Usage,
    served_model: Option<String>,
    answer_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Completed,
    /// With the provider's reason.
    Incomplete(String),
}

impl Reader {
    /// A reader of the answer to a request with these bytes, from which ids are made where the provider gives none.
    pub(crate) fn new(request: Bytes) -> Self {
        Self {
            items: Items::new(request),
            end: None,
            usage: Usage::default(),
            served_model: None,
            answer_id: String::new(),
        }
    }

    fn began(&self) -> Began {
        if self.items.is_empty() { Began::No } else { Began::Yes }
    }

    /// What stands beside the items of a response.
    fn report(&mut self, response: &Value) {
        if let Some(model) = text(response, "model") {
            self.served_model = Some(cut(model, LABEL_BYTES_MAX).to_owned());
        }
        if let Some(id) = text(response, "id").filter(|_| self.answer_id.is_empty()) {
            cut(id, LABEL_BYTES_MAX).clone_into(&mut self.answer_id);
        }
        if let Some(report) = response.get("usage") {
            merge(&mut self.usage, report);
        }
    }

    /// A response that is over, and its items.
    fn over(
        &mut self,
        response: &Value,
        output: Option<Vec<Box<RawValue>>>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        self.report(response);
        let error = response.get("error").filter(|error| !error.is_null());
        let end = match (text(response, "status"), error) {
            (_, Some(error)) => {
                let error = json!({ "error": error });
                return Err(Fault::Reported { error, began: self.began() });
            }
            (None | Some("completed"), None) => Ended::Completed,
            (Some("incomplete"), None) => {
                let details = response.get("incomplete_details").unwrap_or(&Value::Null);
                Ended::Incomplete(text(details, "reason").unwrap_or("incomplete").to_owned())
            }
            (Some("in_progress" | "queued"), None) => return Err(Fault::Truncated),
            (Some(status), None) => {
                let error = json!({ "error": { "message": format!("the response is {status}") } });
                return Err(Fault::Reported { error, began: self.began() });
            }
        };
        self.items.rest(&output.unwrap_or_default(), &self.answer_id, sink)?;
        self.end = Some(end);
        Ok(())
    }

    /// An event that speaks of the whole response.
    fn response(
        &mut self,
        kind: &str,
        data: &str,
        chunk: &Value,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), Fault> {
        let response = chunk.get("response").unwrap_or(&Value::Null);
        match kind {
            "response.completed" | "response.incomplete" => {
                let read = serde_json::from_str::<ResponseEvent>(data);
                let output = read.ok().and_then(|event| event.response.output);
                self.over(response, output, sink)
            }
            "response.failed" | "response.cancelled" => {
                self.report(response);
                let error = response.get("error").filter(|error| !error.is_null());
                let error = error.map_or_else(
                    || json!({ "error": { "message": format!("the event is {kind}") } }),
                    |error| json!({ "error": error }),
                );
                Err(Fault::Reported { error, began: self.began() })
            }
            _ => {
                self.report(response);
                Ok(())
            }
        }
    }
}

impl Events for Reader {
    fn event(&mut self, event: &Event, sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault> {
        let data = event.data.trim();
        if self.end.is_some() || data == DONE {
            return Ok(Progress::Done);
        }
        if data.is_empty() {
            return Ok(Progress::More);
        }
        if self.items.bytes() + data.len() > ANSWER_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        let chunk: Value = serde_json::from_str(data).map_err(|_| Fault::NotJson("a chunk"))?;
        let kind = text(&chunk, "type").unwrap_or(&event.name);
        if kind == "error" || Envelope::is_error(&chunk) {
            return Err(Fault::Reported { error: chunk, began: self.began() });
        }
        match kind {
            "response.output_item.added" | "response.output_item.done" => {
                let ItemEvent { item } = serde_json::from_str(data)
                    .map_err(|_| Fault::Call("an item is spoken of and not there"))?;
                let index = chunk.get("output_index").and_then(Value::as_u64);
                let end = if kind.ends_with("done") { End::Done } else { End::Open };
                self.items.item(index, &item, end, &self.answer_id, sink)?;
            }
            _ if chunk.get("response").is_some() => self.response(kind, data, &chunk, sink)?,
            _ => self.items.piece(kind, &chunk, sink)?,
        }
        Ok(if self.end.is_some() { Progress::Done } else { Progress::More })
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Fault> {
        let root: Value = serde_json::from_slice(body).map_err(|_| Fault::NotJson("the body"))?;
        if Envelope::is_error(&root) {
            self.report(&root);
            return Err(Fault::Reported { error: root, began: Began::No });
        }
        if root.get("output").is_none_or(|output| !output.is_array()) {
            return Err(Fault::NoMessage);
        }
        let read: Output =
            serde_json::from_slice(body).map_err(|_| Fault::NotJson("the output"))?;
        self.over(&root, read.output, &mut |_| ())
    }

    fn is_terminal(&self) -> bool {
        self.end.is_some()
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
        let end = self.end.ok_or(Fault::Truncated)?;
        let is_cut = end != Ended::Completed;
        let cut = if is_cut { End::Open } else { End::Done };
        let parts = self.items.finish(&seal, cut, sink)?;
        let message = Message { role: Role::Assistant, name: None, parts };
        let stop = match end {
            Ended::Completed if message.calls().next().is_some() => Stop::ToolCalls,
            Ended::Completed => Stop::End,
            Ended::Incomplete(reason) => match reason.as_str() {
                "max_output_tokens" => Stop::Length,
                "content_filter" => Stop::ContentFilter,
                other => Stop::Other(other.chars().take(80).collect()),
            },
        };
        let request_id = request_id.or((!self.answer_id.is_empty()).then_some(self.answer_id));
        Ok(Answer { message, stop, usage: self.usage, served_model: self.served_model, request_id })
    }
}

/// Usage as the family reports it, cached input and reasoning included. The last report wins, field by field.
fn merge(usage: &mut Usage, report: &Value) {
    let take = |field: &mut Option<Tokens>, path: &str| {
        if let Some(found) = report.pointer(path).and_then(Value::as_u64) {
            *field = Some(Tokens(found));
        }
    };
    take(&mut usage.prompt, "/input_tokens");
    take(&mut usage.cached_input, "/input_tokens_details/cached_tokens");
    take(&mut usage.cache_write, "/input_tokens_details/cache_write_tokens");
    take(&mut usage.completion, "/output_tokens");
    take(&mut usage.reasoning, "/output_tokens_details/reasoning_tokens");
}

#[cfg(test)]
mod tests;
