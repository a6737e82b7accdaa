//! A streamed answer: `chat.completion.chunk` frames, written behind one another into one buffer.
//!
//! What is the same in each frame is written once, so that a delta costs one escape and two copies. A stream has one
//! honest end, which takes the writer with it: [`Frames::finish`], or [`Frames::fail`], after which no `[DONE]` comes.

use super::UsageChunk;
use super::answer::{Head, UsageWire, word};
use super::problem::Problem;
use crate::front::blocks::pieces;
use crate::front::finish::Finish;
use crate::stream::sse;
use bytes::{BufMut as _, Bytes, BytesMut};
use events::message::{Message, Part};
use events::usage::Usage;
use providers::Delta;
use serde::Serialize;

/// Bytes set aside at a time for frames: 8 KiB, some thirty deltas, so that most frames allocate nothing.
const BUFFER_BYTES: usize = 8 * 1024;

/// Writes the frames of one answer. Each call gives the bytes to send next, none when there is nothing to say.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    /// A frame up to its `choices`.
    start: Vec<u8>,
    /// A frame's end, behind its `choices`.
    end: &'static [u8],
    usage: UsageChunk,
}

impl Frames {
    /// A writer that has sent nothing yet.
    #[must_use]
    pub fn new(head: &Head, usage: UsageChunk) -> Self {
        let mut start = BytesMut::from(&b"{\"id\":"[..]);
        put_json(&mut start, &head.id);
        start.put_slice(b",\"object\":\"chat.completion.chunk\",\"created\":");
        put_json(&mut start, &head.created);
        start.put_slice(b",\"model\":");
        put_json(&mut start, &head.model);
        let end: &[u8] = match usage {
            // As OpenAI: where a usage chunk will come, the others hold a null.
            UsageChunk::Wanted => b",\"usage\":null}",
            UsageChunk::Unwanted => b"}",
        };
        let buffer = BytesMut::with_capacity(BUFFER_BYTES);
        Self { buffer, start: start.to_vec(), end, usage }
    }

    /// The first frame: who speaks.
    pub fn open(&mut self) -> Bytes {
        self.delta(|out| out.put_slice(b"\"role\":\"assistant\",\"content\":\"\""));
        self.take()
    }

    /// More text.
    pub fn text(&mut self, text: &str) -> Bytes {
        self.pieces(text, |out, piece| {
            out.put_slice(b"\"content\":");
            put_json(out, piece);
        });
        self.take()
    }

    /// More of a refusal.
    pub fn refusal(&mut self, text: &str) -> Bytes {
        self.pieces(text, |out, piece| {
            out.put_slice(b"\"refusal\":");
            put_json(out, piece);
        });
        self.take()
    }

    /// A call begins. `index` counts the calls of this answer from zero; its arguments follow under it.
    pub fn call(&mut self, index: usize, id: &str, name: &str) -> Bytes {
        self.delta(|out| {
            out.put_slice(b"\"tool_calls\":[{\"index\":");
            put_json(out, &index);
            out.put_slice(b",\"id\":");
            put_json(out, id);
            out.put_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            put_json(out, name);
            out.put_slice(b",\"arguments\":\"\"}}]");
        });
        self.take()
    }

    /// More of a call's arguments.
    pub fn arguments(&mut self, index: usize, fragment: &str) -> Bytes {
        self.pieces(fragment, |out, piece| {
            out.put_slice(b"\"tool_calls\":[{\"index\":");
            put_json(out, &index);
            out.put_slice(b",\"function\":{\"arguments\":");
            put_json(out, piece);
            out.put_slice(b"}}]");
        });
        self.take()
    }

    /// A piece as it comes.
    pub fn piece(&mut self, piece: &Delta) -> Bytes {
        match piece {
            Delta::Text(text) => self.text(text),
            Delta::Refusal(text) => self.refusal(text),
            // This API has no place for it.
            Delta::Reasoning(_) => Bytes::new(),
            Delta::ToolCallStarted { index, id, name } => self.call(*index, id, name),
            Delta::ToolCallArguments { index, fragment } => self.arguments(*index, fragment),
        }
    }

    /// All that a finished message says, for an answer whose deltas nobody saw.
    pub fn said(&mut self, message: &Message) -> Bytes {
        let mut all = BytesMut::new();
        let mut calls = 0..;
        for part in &message.parts {
            match part {
                Part::Text { text } => all.put(self.text(text)),
                Part::Refusal { text } => all.put(self.refusal(text)),
                Part::ToolCall(call) => {
                    let index = calls.next().unwrap_or_default();
                    all.put(self.call(index, &call.id, &call.name));
                    all.put(self.arguments(index, &call.arguments));
                }
                Part::Image { .. }
                | Part::ToolResult(_)
                | Part::Reasoning { .. }
                | Part::Opaque(_) => (),
            }
        }
        all.freeze()
    }

    /// The end of an answer: why it ends, the usage where it is wanted and known, `[DONE]`.
    #[must_use]
    pub fn finish(mut self, finish: Finish, usage: &Usage) -> Bytes {
        let Self { buffer, start, end, .. } = &mut self;
        sse::write_line(buffer, |out| {
            out.put_slice(start);
            out.put_slice(
                b",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":",
            );
            put_json(out, word(finish));
            out.put_slice(b"}]");
            out.put_slice(end);
        });
        let known = match self.usage {
            UsageChunk::Wanted => UsageWire::of(usage),
            UsageChunk::Unwanted => None,
        };
        if let Some(usage) = known {
            let Self { buffer, start, .. } = &mut self;
            sse::write_line(buffer, |out| {
                out.put_slice(start);
                out.put_slice(b",\"choices\":[],\"usage\":");
                put_json(out, &usage);
                out.put_slice(b"}");
            });
        }
        sse::write_line(&mut self.buffer, |out| out.put_slice(b"[DONE]"));
        self.take()
    }

    /// The end of an answer that went wrong after it began. No `[DONE]` follows, so nobody takes it for complete.
    #[must_use]
    pub fn fail(mut self, problem: &Problem<'_>) -> Bytes {
        sse::write_line(&mut self.buffer, |out| put_json(out, &problem.wire()));
        self.take()
    }

    fn pieces(&mut self, text: &str, fields: impl Fn(&mut BytesMut, &str)) {
        for piece in pieces(text) {
            self.delta(|out| fields(out, piece));
        }
    }

    fn delta(&mut self, fields: impl FnOnce(&mut BytesMut)) {
        let Self { buffer, start, end, .. } = self;
        sse::write_line(buffer, |out| {
            out.put_slice(start);
            out.put_slice(b",\"choices\":[{\"index\":0,\"delta\":{");
            fields(out);
            out.put_slice(b"},\"logprobs\":null,\"finish_reason\":null}]");
            out.put_slice(end);
        });
    }

    /// Takes what was written out of the buffer without copying it. The rest of its block holds the next frames.
    fn take(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }
}

fn put_json(out: &mut BytesMut, value: &(impl Serialize + ?Sized)) {
    // A buffer in memory takes every byte, and strings and integers always serialise.
    let _written = serde_json::to_writer(out.writer(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::message::{Role, ToolCall};
    use events::quantity::Tokens;

    fn frames(usage: UsageChunk) -> Frames {
        let head = Head {
            id: "chatcmpl-run_050000000000000000000000000007".into(),
            created: 1_764_528_000,
            model: "openai:\"odd\"".into(),
        };
        Frames::new(&head, usage)
    }

    fn usage() -> Usage {
        Usage { prompt: Some(Tokens(12)), completion: Some(Tokens(3)), ..Usage::default() }
    }

    fn text(parts: &[Bytes]) -> String {
        String::from_utf8(parts.concat()).unwrap()
    }

    #[test]
    fn a_streamed_answer_matches_its_golden_bytes() {
        let mut frames = frames(UsageChunk::Wanted);
        let mut parts = vec![frames.open()];
        parts.extend(["Hello", "", ", \"you\"\n", "\u{1f9d7} é"].map(|delta| frames.text(delta)));
        parts.push(frames.finish(Finish::Stop, &usage()));
        assert_eq!(text(&parts), include_str!("golden/stream.txt"));
    }

    #[test]
    fn a_streamed_answer_with_calls_matches_its_golden_bytes() {
        let mut frames = frames(UsageChunk::Unwanted);
        let mut parts =
            vec![frames.open(), frames.text("I look."), frames.call(0, "call_1", "clock_now")];
        parts.push(frames.arguments(0, "{}"));
        parts.push(frames.call(1, "call_2", "note_append"));
        parts.extend(["{\"te", "xt\":", "\"a\"}"].map(|fragment| frames.arguments(1, fragment)));
        parts.push(frames.finish(Finish::ToolCalls, &usage()));
        assert_eq!(text(&parts), include_str!("golden/stream_calls.txt"));
    }

    #[test]
    fn an_error_inside_a_stream_is_its_last_frame() {
        let mut frames = frames(UsageChunk::Wanted);
        let problem = Problem {
            message: "the provider failed",
            kind: "server_error",
            param: None,
            code: Some("stream_error"),
        };
        let parts = [frames.open(), frames.text("Half"), frames.fail(&problem)];
        assert_eq!(text(&parts), include_str!("golden/stream_error.txt"));
    }

    #[test]
    fn a_usage_chunk_that_would_know_nothing_is_not_sent() {
        let end = text(&[frames(UsageChunk::Wanted).finish(Finish::Length, &Usage::default())]);
        assert_eq!(end.matches("data: ").count(), 2);
        assert!(end.contains("\"finish_reason\":\"length\"") && end.ends_with("data: [DONE]\n\n"));
    }

    #[test]
    fn a_finished_message_says_what_its_deltas_would_have() {
        let call = ToolCall { id: "c".into(), name: "n".into(), arguments: "{}".into() };
        let parts = vec![Part::Text { text: "a".into() }, Part::ToolCall(call)];
        let message = Message { role: Role::Assistant, name: None, parts };
        let mut one = frames(UsageChunk::Unwanted);
        let deltas = [one.text("a"), one.call(0, "c", "n"), one.arguments(0, "{}")];
        assert_eq!(text(&deltas), text(&[frames(UsageChunk::Unwanted).said(&message)]));
    }
}
