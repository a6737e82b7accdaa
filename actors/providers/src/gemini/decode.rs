//! A `generateContent` answer, read event by event or whole.
//!
//! Each event is a response of its own that adds parts; a tool call comes whole in one part and is never put together
//! from two. A stream is an answer only once a finish reason came: there is no other mark of the end.

mod parts;
mod usage;

use crate::class::Began;
use crate::class::envelope::Envelope;
use crate::decode::{ANSWER_BYTES_MAX, Events, Fault, Ids, LABEL_BYTES_MAX, Progress, text};
use crate::delta::{Answer, Delta, Stop};
use crate::secret::cut;
use crate::sse::Event;
use bytes::Bytes;
use events::message::{Message, Role, Seal};
use events::usage::Usage;
use parts::Parts;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use usage::Counts;

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader {
    parts: Parts,
    finish: Option<String>,
    /// Whether a candidate came.
    spoke: bool,
    /// Whether a whole body was read.
    whole: bool,
    counts: Counts,
    served_model: Option<String>,
    answer_id: String,
}

impl Reader {
    /// A reader of the answer to a request with these bytes.
    pub(crate) fn new(request: Bytes) -> Self {
        Self {
            parts: Parts::new(Ids::new(request)),
            finish: None,
            spoke: false,
            whole: false,
            counts: Counts::default(),
            served_model: None,
            answer_id: String::new(),
        }
    }

    /// Reads one response, which in a stream is a piece of the answer.
    fn response(&mut self, json: &str, sink: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        if self.parts.bytes() + json.len() > ANSWER_BYTES_MAX {
            return Err(Fault::TooLong);
        }
        let root: Value = serde_json::from_str(json).map_err(|_| Fault::NotJson("a response"))?;
        // Some errors come in an array of one.
        let first = root.as_array().and_then(|array| array.first()).unwrap_or(&root);
        self.report(first);
        if Envelope::is_error(first) {
            return Err(Fault::Reported { error: root.clone(), began: self.began() });
        }
        if let Some(reason) =
            first.get("promptFeedback").and_then(|feedback| text(feedback, "blockReason"))
        {
            let words = format!("the prompt was blocked: {reason}");
            return Err(self.says("content_filter", &words));
        }
        let Some(candidate) = first_candidate(first) else { return Ok(()) };
        self.spoke = true;
        let parts = candidate.get("content").and_then(|content| content.get("parts"));
        if let Some(parts) = parts.and_then(Value::as_array) {
            let id = self.answer_id.clone();
            self.parts.read(parts, &written(json), &id, sink)?;
        }
        self.finished(candidate)
    }

    /// What stands beside the candidates.
    fn report(&mut self, root: &Value) {
        if let Some(report) = root.get("usageMetadata") {
            self.counts.merge(report);
        }
        if let Some(model) = text(root, "modelVersion") {
            self.served_model = Some(cut(model, LABEL_BYTES_MAX).to_owned());
        }
        if let Some(id) = text(root, "responseId").filter(|_| self.answer_id.is_empty()) {
            cut(id, LABEL_BYTES_MAX).clone_into(&mut self.answer_id);
        }
    }

    fn finished(&mut self, candidate: &Value) -> Result<(), Fault> {
        let Some(reason) = text(candidate, "finishReason") else { return Ok(()) };
        match reason {
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => Err(Fault::Call("the model wrote a tool call that is none")),
            // Only the missing signature itself can be mended: by asking without any.
            "MISSING_THOUGHT_SIGNATURE" => {
                let words = "an earlier tool call came back without its thought signature";
                Err(self.says("missing_thought_signature", words))
            }
            // The default of the field: nothing is said yet.
            "FINISH_REASON_UNSPECIFIED" => Ok(()),
            reason => {
                self.finish = Some(cut(reason, LABEL_BYTES_MAX).to_owned());
                Ok(())
            }
        }
    }

    fn says(&self, code: &str, words: &str) -> Fault {
        let error = json!({ "error": { "code": code, "message": words } });
        Fault::Reported { error, began: self.began() }
    }

    fn began(&self) -> Began {
        if self.parts.is_empty() && self.finish.is_none() { Began::No } else { Began::Yes }
    }
}

impl Events for Reader {
    fn event(&mut self, event: &Event, sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault> {
        let data = event.data.trim();
        if !data.is_empty() {
            self.response(data, sink)?;
        }
        // Usage may follow the finish reason, and nothing says that it was the last.
        Ok(Progress::More)
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Fault> {
        let not_json = |_| Fault::NotJson("the body");
        let body: &RawValue = serde_json::from_slice(body).map_err(not_json)?;
        // A stream that was not asked for as events is one array of its responses.
        if let Ok(responses) = serde_json::from_str::<Vec<&RawValue>>(body.get()) {
            for response in responses {
                self.response(response.get(), &mut |_| ())?;
            }
            return Ok(());
        }
        self.response(body.get(), &mut |_| ())?;
        self.whole = true;
        if self.spoke { Ok(()) } else { Err(Fault::NoMessage) }
    }

    fn is_terminal(&self) -> bool {
        self.finish.is_some() || (self.whole && self.spoke)
    }

    fn usage(&self) -> Usage {
        self.counts.usage()
    }

    fn finish(
        self,
        seal: Seal,
        request_id: Option<String>,
        _sink: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault> {
        if !self.is_terminal() {
            return Err(Fault::Truncated);
        }
        let stop = stop(self.finish.as_deref(), self.parts.calls());
        let message =
            Message { role: Role::Assistant, name: None, parts: self.parts.finish(&seal) };
        let request_id = request_id.or((!self.answer_id.is_empty()).then_some(self.answer_id));
        let usage = self.counts.usage();
        Ok(Answer { message, stop, usage, served_model: self.served_model, request_id })
    }
}

/// The one candidate that is kept: we never ask for another.
fn first_candidate(root: &Value) -> Option<&Value> {
    let candidates = root.get("candidates").and_then(Value::as_array)?;
    candidates
        .iter()
        .find(|candidate| candidate.get("index").and_then(Value::as_u64).unwrap_or_default() == 0)
}

/// The arguments of the calls as they were written, in order; a parsed number would not be the model's own any more.
fn written(json: &str) -> Vec<Option<String>> {
    #[derive(serde::Deserialize)]
    struct Root<'a> {
        #[serde(borrow)]
        candidates: Vec<Candidate<'a>>,
    }
    #[derive(serde::Deserialize)]
    struct Candidate<'a> {
        #[serde(default)]
        index: u64,
        #[serde(borrow)]
        content: Content<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        parts: Vec<Part<'a>>,
    }
    #[derive(serde::Deserialize)]
    struct Part<'a> {
        #[serde(borrow, rename = "functionCall", default)]
        call: Option<Call<'a>>,
    }
    #[derive(serde::Deserialize)]
    struct Call<'a> {
        #[serde(borrow, default)]
        args: Option<&'a RawValue>,
    }
    let json = json.trim_start();
    let root = if json.starts_with('[') {
        serde_json::from_str(json).ok().and_then(|roots: Vec<Root<'_>>| roots.into_iter().next())
    } else {
        serde_json::from_str::<Root<'_>>(json).ok()
    };
    let candidates = root.map(|root| root.candidates).unwrap_or_default();
    let first = candidates.into_iter().find(|candidate| candidate.index == 0);
    let parts = first.map(|candidate| candidate.content.parts).unwrap_or_default();
    let args = |part: Part<'_>| part.call?.args.map(|args| args.get().to_owned());
    parts.into_iter().map(args).collect()
}

/// `STOP` is said of tool calls too: what came counts.
fn stop(reason: Option<&str>, calls: usize) -> Stop {
    match reason {
        Some("MAX_TOKENS") => Stop::Length,
        Some(
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION",
        ) => Stop::ContentFilter,
        None | Some(_) if calls > 0 => Stop::ToolCalls,
        None | Some("STOP") => Stop::End,
        Some(other) => Stop::Other(other.chars().take(80).collect()),
    }
}

#[cfg(test)]
mod tests;
