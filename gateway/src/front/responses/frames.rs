//! A streamed answer in the whole order of this API: the response created and in progress, each item added, its parts,
//! its deltas, all of it once more, and the response as it ended. A stream has one honest end, which takes the writer
//! with it. Every event has a number; they have no gap.

use super::items::{Items, Status};
use super::object::{self, Standing};
use super::{Style, Thoughts};
use crate::front::blocks::{Blocks, Kind, Step, pieces};
use crate::front::door::{Ending, Failure, Head};
use crate::front::finish::Finish;
use crate::stream::sse;
use bytes::{BufMut as _, Bytes, BytesMut};
use events::id::RunId;
use events::message::Message;
use providers::Delta;
use serde::Serialize;
use serde_json::{Value, json};

/// Bytes set aside at a time for frames: 8 KiB, some thirty deltas.
const BUFFER_BYTES: usize = 8 * 1024;

/// Writes the frames of one answer.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    run: RunId,
    style: Style,
    blocks: Blocks,
    items: Items,
    /// The next event's number.
    next: u64,
}

/// A delta of any sort. A field that the sort has not is left out.
#[derive(Serialize)]
struct Piece<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<u8>,
    delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<[(); 0]>,
}

impl Frames {
    /// A writer that has sent nothing yet.
    #[must_use]
    pub fn new(head: &Head<'_>, style: &Style) -> Self {
        Self {
            buffer: BytesMut::with_capacity(BUFFER_BYTES),
            run: head.run,
            style: style.clone(),
            blocks: Blocks::default(),
            items: Items::new(head.run, style.thoughts()),
            next: 0,
        }
    }

    /// The first frames: who speaks.
    pub fn open(&mut self) -> Bytes {
        let response = object::object(self.run, Standing::Working, &self.style);
        for kind in ["response.created", "response.in_progress"] {
            self.put(kind, json!({"response": response}));
        }
        self.take()
    }

    /// A piece as it comes.
    pub fn piece(&mut self, piece: &Delta) -> Bytes {
        let steps = self.blocks.push(piece);
        self.steps(steps, Status::Completed)
    }

    /// All that a finished message says, for an answer whose deltas nobody saw. Its last item is left open: how it
    /// stands the end says.
    pub fn said(&mut self, message: &Message) -> Bytes {
        let mut steps = Blocks::said(message);
        steps.pop();
        self.steps(steps, Status::Completed)
    }

    /// The end of an answer.
    #[must_use]
    pub fn finish(mut self, end: &Ending<'_>) -> Bytes {
        let last = object::last(end.finish);
        let rest = self.blocks.finish();
        let mut out = BytesMut::from(self.steps(rest, last).as_ref());
        self.end(last);
        let kind = match end.finish {
            Finish::Stop | Finish::ToolCalls => "response.completed",
            Finish::Length | Finish::ContentFilter => "response.incomplete",
        };
        self.close(kind, Standing::Ended(end));
        out.extend_from_slice(&self.buffer);
        out.freeze()
    }

    /// The end of an answer that went wrong after it began: the error, for clients that read it alone, and the
    /// response that failed.
    #[must_use]
    pub fn fail(mut self, failure: &Failure<'_>) -> Bytes {
        let Failure { message, kind, code, .. } = *failure;
        // The live API nests what its documentation has flat; clients read one or the other.
        let error = json!({"type": kind, "code": code, "message": message, "param": null});
        self.put("error", json!({"code": code, "message": message, "param": null, "error": error}));
        self.close("response.failed", Standing::Failed(failure));
        self.take()
    }

    fn close(&mut self, kind: &'static str, standing: Standing<'_>) {
        let none = Items::new(self.run, self.style.thoughts());
        let output = std::mem::replace(&mut self.items, none).into_done();
        let response = object::with(self.run, standing, &self.style, output);
        self.put(kind, json!({"response": response}));
    }

    /// Writes steps; `last` is how the item stands that the last of them closes.
    fn steps(&mut self, steps: Vec<Step>, last: Status) -> Bytes {
        let count = steps.len();
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Opened(kind) => self.begin(kind),
                Step::More(text) => self.more(&text),
                // The name of the item brings it back, and is known from the beginning.
                Step::Sealed(_) => (),
                Step::Closed => self.end(if at + 1 == count { last } else { Status::Completed }),
            }
        }
        self.take()
    }

    fn begin(&mut self, kind: Kind) {
        let (place, thoughts) = (self.items.place(), self.style.thoughts());
        let Some(item) = self.items.begin(kind) else { return };
        let (value, id) = (item.value(Status::Begun, thoughts), item.id.clone());
        let part = item.part("").zip(part_events(&item.kind, thoughts));
        self.put("response.output_item.added", json!({"output_index": place, "item": value}));
        if let Some((part, (added, _, index))) = part {
            self.put(added, json!({"item_id": id, "output_index": place, index: 0, "part": part}));
        }
    }

    fn more(&mut self, text: &str) {
        self.items.more(text);
        let words = self.style.thoughts().words();
        let Some(item) = self.items.open() else { return };
        let (kind, content, summary) = match item.kind {
            Kind::Text => ("response.output_text.delta", Some(0), None),
            Kind::Refusal => ("response.refusal.delta", Some(0), None),
            Kind::Thought if words => ("response.reasoning_summary_text.delta", None, Some(0)),
            Kind::Call { .. } => ("response.function_call_arguments.delta", None, None),
            Kind::Thought | Kind::Unread(_) => return,
        };
        for delta in pieces(text) {
            let piece = Piece {
                kind,
                sequence_number: self.next,
                item_id: &item.id,
                output_index: self.items.place(),
                content_index: content,
                summary_index: summary,
                delta,
                logprobs: (item.kind == Kind::Text).then_some([]),
            };
            self.next += 1;
            sse::write_named(&mut self.buffer, kind, |out| put_json(out, &piece));
        }
    }

    fn end(&mut self, status: Status) {
        let Some(item) = self.items.open() else { return };
        let (place, id) = (self.items.place(), item.id.clone());
        let done = match &item.kind {
            Kind::Text => Some((
                "response.output_text.done",
                json!({"content_index": 0, "text": item.text, "logprobs": []}),
            )),
            Kind::Refusal => {
                Some(("response.refusal.done", json!({"content_index": 0, "refusal": item.text})))
            }
            Kind::Thought if self.style.thoughts().words() => Some((
                "response.reasoning_summary_text.done",
                json!({"summary_index": 0, "text": item.text}),
            )),
            Kind::Call { name, .. } => Some((
                "response.function_call_arguments.done",
                json!({"name": name, "arguments": item.arguments()}),
            )),
            Kind::Thought | Kind::Unread(_) => None,
        };
        let part = item.part(&item.text).zip(part_events(&item.kind, self.style.thoughts()));
        if let Some((kind, mut fields)) = done {
            set(&mut fields, "item_id", json!(id));
            set(&mut fields, "output_index", json!(place));
            self.put(kind, fields);
        }
        if let Some((part, (_, done, index))) = part {
            self.put(done, json!({"item_id": id, "output_index": place, index: 0, "part": part}));
        }
        let value = self.items.end(status).cloned();
        self.put("response.output_item.done", json!({"output_index": place, "item": value}));
    }

    fn put(&mut self, kind: &'static str, mut fields: Value) {
        set(&mut fields, "type", json!(kind));
        set(&mut fields, "sequence_number", json!(self.next));
        self.next += 1;
        sse::write_named(&mut self.buffer, kind, |out| put_json(out, &fields));
    }

    /// Takes what was written out of the buffer without copying it.
    fn take(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }
}

/// What opens and closes the one part of an item, and what its number is called; none for items without parts.
const fn part_events(
    kind: &Kind,
    thoughts: Thoughts,
) -> Option<(&'static str, &'static str, &'static str)> {
    match kind {
        Kind::Text | Kind::Refusal => {
            Some(("response.content_part.added", "response.content_part.done", "content_index"))
        }
        Kind::Thought if thoughts.words() => Some((
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_part.done",
            "summary_index",
        )),
        Kind::Thought | Kind::Unread(_) | Kind::Call { .. } => None,
    }
}

fn set(fields: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = fields {
        fields.insert(name.to_owned(), value);
    }
}

fn put_json(out: &mut BytesMut, value: &impl Serialize) {
    // A buffer in memory takes every byte, and strings and integers always serialise.
    let _written = serde_json::to_writer(out.writer(), value);
}
