//! The reading of one answer, whatever its family: bytes in any split go in, deltas come out on the way and an answer
//! at the end.
//!
//! Total: any bytes give an answer or a [`Fault`]. A stream is an answer only once its terminal event came; what ends
//! before is truncated, and none of its tool calls is given out, for they may be cut short.

mod ids;

use crate::class::Began;
use crate::delta::{Answer, Delta};
use crate::sse::{self, Event, Parser};
use events::message::Seal;
use events::usage::Usage;
pub(crate) use ids::Ids;
use serde_json::Value;

/// Bytes of text, reasoning and arguments of one answer: far above the longest output of any model.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Bytes that are kept of the answer's id and of its model's name.
pub(crate) const LABEL_BYTES_MAX: usize = 128;
/// Tool calls, or other parts, of one answer; the largest batch seen has 64.
pub(crate) const PARTS_MAX: usize = 512;

/// Why bytes are not an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// The provider says so inside a success.
    #[error("the answer is an error")]
    Reported {
        /// The body or chunk that says it.
        error: Value,
        /// Whether some of the answer had come.
        began: Began,
    },
    /// It ended before its terminal event.
    #[error("the stream ended without its terminal event")]
    Truncated,
    /// A chunk or a body is not JSON.
    #[error("{0} is not JSON")]
    NotJson(&'static str),
    /// It ended well, but nobody said anything.
    #[error("the answer has no message")]
    NoMessage,
    /// Its tool calls, or other parts, can not be told apart.
    #[error("{0}")]
    Call(&'static str),
    /// It is longer than any answer.
    #[error("the answer is longer than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// A frame of it is longer than any frame.
    #[error(transparent)]
    Frame(#[from] sse::TooLong),
    /// A frame of it was damaged on the way.
    #[error("a frame of the answer is damaged: {0} does not fit")]
    Damaged(&'static str),
}

/// Whether more is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Go on.
    More,
    /// The last event has been read.
    Done,
}

/// Reads one answer.
pub trait Decoder: Send {
    /// Reads the next bytes of a stream; what may be shown goes to `sink`.
    ///
    /// # Errors
    ///
    /// A [`Fault`]: the answer is lost, and [`Decoder::usage`] says what it used.
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault>;

    /// Says that the stream is over: what was held back for its rest is read as it stands.
    ///
    /// # Errors
    ///
    /// As for [`Decoder::feed`].
    fn end(&mut self, sink: &mut dyn FnMut(Delta)) -> Result<(), Fault>;

    /// Reads a whole body.
    ///
    /// # Errors
    ///
    /// As for [`Decoder::feed`].
    fn body(&mut self, body: &[u8]) -> Result<(), Fault>;

    /// Whether the terminal event has been read: from then on a cut connection costs nothing.
    fn is_terminal(&self) -> bool;

    /// Usage as far as it was reported.
    fn usage(&self) -> Usage;

    /// The answer, its reasoning under this seal; `request_id` is the provider's, from its headers.
    ///
    /// # Errors
    ///
    /// [`Fault::Truncated`] without a terminal event, [`Fault::NoMessage`] when nobody said anything.
    fn finish(
        self: Box<Self>,
        seal: Seal,
        request_id: Option<String>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault>;
}

/// Reads the events of an answer that comes as server-sent events.
pub(crate) trait Events: Send {
    /// Reads one event.
    fn event(&mut self, event: &Event, sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault>;
    /// As [`Decoder::body`].
    fn body(&mut self, body: &[u8]) -> Result<(), Fault>;
    /// As [`Decoder::is_terminal`].
    fn is_terminal(&self) -> bool;
    /// As [`Decoder::usage`].
    fn usage(&self) -> Usage;
    /// As [`Decoder::finish`].
    fn finish(
        self,
        seal: Seal,
        request_id: Option<String>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault>;
}

/// A decoder of server-sent events.
#[derive(Debug)]
pub(crate) struct Sse<E> {
    parser: Parser,
    /// Kept to be filled again.
    events: Vec<Event>,
    reader: E,
}

impl<E: Events> Sse<E> {
    pub(crate) fn new(reader: E) -> Self {
        Self { parser: Parser::default(), events: Vec::new(), reader }
    }
}

impl<E: Events> Decoder for Sse<E> {
    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Delta)) -> Result<Progress, Fault> {
        let parsed = self.parser.feed(bytes, &mut self.events);
        for event in self.events.drain(..) {
            if self.reader.event(&event, sink)? == Progress::Done {
                return Ok(Progress::Done);
            }
        }
        // What came before the frame that is too long is read: it may have been the end.
        parsed?;
        Ok(Progress::More)
    }

    fn end(&mut self, sink: &mut dyn FnMut(Delta)) -> Result<(), Fault> {
        let mut events = Vec::new();
        // What is too long to be an event ends as a stream that is cut off there.
        let _cut = std::mem::take(&mut self.parser).finish(&mut events);
        for event in events {
            match self.reader.event(&event, sink) {
                // Half an event: the stream was cut, and without a terminal event it ends as truncated.
                Ok(Progress::More | Progress::Done) | Err(Fault::NotJson(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &[u8]) -> Result<(), Fault> {
        self.reader.body(body)
    }

    fn is_terminal(&self) -> bool {
        self.reader.is_terminal()
    }

    fn usage(&self) -> Usage {
        self.reader.usage()
    }

    fn finish(
        self: Box<Self>,
        seal: Seal,
        request_id: Option<String>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<Answer, Fault> {
        self.reader.finish(seal, request_id, sink)
    }
}

/// A field's text, unless it is empty.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
pub(crate) mod shredder;
