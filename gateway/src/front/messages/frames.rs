//! A streamed answer in the order of this API: `message_start`, blocks one after another, `message_delta` with the
//! reason and the usage, `message_stop`. A stream has one honest end, which takes the writer with it.

use super::answer::{Answer, UsageWire, Words, id, word};
use super::{Thoughts, problem, thought};
use crate::front::blocks::{Blocks, Kind, Step, pieces};
use crate::front::door::{Ending, Failure, Head};
use crate::stream::sse;
use bytes::{BufMut as _, Bytes, BytesMut};
use events::message::Message;
use providers::Delta;
use serde::Serialize;
use serde_json::json;

/// Bytes set aside at a time for frames: 8 KiB, some forty deltas.
const BUFFER_BYTES: usize = 8 * 1024;

/// Writes the frames of one answer.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    id: String,
    model: String,
    thoughts: Thoughts,
    blocks: Blocks,
    /// The block that is open, unless it is one that is not shown.
    open: Option<Kind>,
    /// The next block's number.
    next: usize,
    words: Words,
}

/// Shows that the other end lives.
#[must_use]
pub const fn ping() -> Bytes {
    Bytes::from_static(b"event: ping\ndata: {\"type\":\"ping\"}\n\n")
}

impl Frames {
    /// A writer that has sent nothing yet.
    #[must_use]
    pub fn new(head: &Head<'_>, thoughts: Thoughts) -> Self {
        Self {
            buffer: BytesMut::with_capacity(BUFFER_BYTES),
            id: id(head),
            model: head.model.to_owned(),
            thoughts,
            blocks: Blocks::default(),
            open: None,
            next: 0,
            words: Words::Answer,
        }
    }

    /// The first frame: who speaks.
    pub fn open(&mut self) -> Bytes {
        #[derive(Serialize)]
        struct Start<'a> {
            r#type: &'static str,
            message: Answer<'a>,
        }
        let message = Answer {
            id: self.id.clone(),
            kind: "message",
            role: "assistant",
            model: &self.model,
            content: vec![],
            stop_reason: None,
            stop_sequence: (),
            usage: UsageWire::not_yet(),
        };
        let start = Start { r#type: "message_start", message };
        put(&mut self.buffer, "message_start", &start);
        self.take()
    }

    /// A piece as it comes.
    pub fn piece(&mut self, piece: &Delta) -> Bytes {
        let steps = self.blocks.push(piece);
        self.steps(&steps)
    }

    /// All that a finished message says, for an answer whose deltas nobody saw.
    pub fn said(&mut self, message: &Message) -> Bytes {
        self.steps(&Blocks::said(message))
    }

    /// The end of an answer.
    #[must_use]
    pub fn finish(mut self, end: &Ending<'_>) -> Bytes {
        #[derive(Serialize)]
        struct Delta {
            r#type: &'static str,
            delta: Stop,
            usage: UsageWire,
        }
        #[derive(Serialize)]
        struct Stop {
            stop_reason: &'static str,
            stop_sequence: (),
        }
        let rest = self.blocks.finish();
        let mut out = BytesMut::from(self.steps(&rest).as_ref());
        let stop = Stop { stop_reason: word(end.finish, self.words), stop_sequence: () };
        let usage = UsageWire::of(end.usage);
        put(&mut out, "message_delta", &Delta { r#type: "message_delta", delta: stop, usage });
        put(&mut out, "message_stop", &json!({"type": "message_stop"}));
        out.freeze()
    }

    /// The end of an answer that went wrong after it began. No `message_stop` follows.
    #[must_use]
    pub fn fail(mut self, failure: &Failure<'_>) -> Bytes {
        let status = problem::status(failure.status, failure.class);
        let body = problem::body(status, failure.message, failure.code, None);
        sse::write_named(&mut self.buffer, "error", |out| out.put_slice(body.as_bytes()));
        self.take()
    }

    fn steps(&mut self, steps: &[Step]) -> Bytes {
        for step in steps {
            match step {
                Step::Opened(Kind::Thought | Kind::Unread(_))
                    if self.thoughts == Thoughts::Hidden => {}
                Step::Opened(kind) => self.begin(kind),
                Step::More(text) => self.more(text),
                Step::Sealed(sealed) => self.sealed(&thought::signature(sealed)),
                Step::Closed => self.end(),
            }
        }
        self.take()
    }

    fn begin(&mut self, kind: &Kind) {
        let block = match kind {
            Kind::Text | Kind::Refusal => json!({"type": "text", "text": ""}),
            Kind::Thought => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Kind::Unread(sealed) => {
                json!({"type": "redacted_thinking", "data": thought::signature(sealed)})
            }
            Kind::Call { id, name } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        };
        if *kind == Kind::Refusal {
            self.words = Words::Refusal;
        }
        let start =
            json!({"type": "content_block_start", "index": self.next, "content_block": block});
        put(&mut self.buffer, "content_block_start", &start);
        if self.next == 0 {
            self.buffer.put_slice(&ping());
        }
        self.open = Some(kind.clone());
    }

    fn more(&mut self, text: &str) {
        let (kind, field) = match &self.open {
            Some(Kind::Text | Kind::Refusal) => ("text_delta", "text"),
            Some(Kind::Thought) => ("thinking_delta", "thinking"),
            Some(Kind::Call { .. }) => ("input_json_delta", "partial_json"),
            Some(Kind::Unread(_)) | None => return,
        };
        for piece in pieces(text) {
            self.delta(kind, field, piece);
        }
    }

    fn sealed(&mut self, signature: &str) {
        if self.open.is_some() {
            self.delta("signature_delta", "signature", signature);
        }
    }

    fn end(&mut self) {
        if self.open.take().is_some() {
            let stop = json!({"type": "content_block_stop", "index": self.next});
            put(&mut self.buffer, "content_block_stop", &stop);
            self.next += 1;
        }
    }

    fn delta(&mut self, kind: &'static str, field: &'static str, text: &str) {
        let Self { buffer, next, .. } = self;
        sse::write_named(buffer, "content_block_delta", |out| {
            out.put_slice(b"{\"type\":\"content_block_delta\",\"index\":");
            put_json(out, next);
            out.put_slice(b",\"delta\":{\"type\":");
            put_json(out, kind);
            out.put_slice(b",");
            put_json(out, field);
            out.put_slice(b":");
            put_json(out, text);
            out.put_slice(b"}}");
        });
    }

    /// Takes what was written out of the buffer without copying it.
    fn take(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }
}

fn put(out: &mut BytesMut, event: &'static str, value: &impl Serialize) {
    sse::write_named(out, event, |out| put_json(out, value));
}

fn put_json(out: &mut BytesMut, value: &(impl Serialize + ?Sized)) {
    // A buffer in memory takes every byte, and strings and integers always serialise.
    let _written = serde_json::to_writer(out.writer(), value);
}
