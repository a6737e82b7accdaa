//! The binary event stream of AWS, read incrementally and within bounds.
//!
//! Total: any bytes in any split give frames or a [`Fault`], never a panic, and the split changes nothing. Each
//! frame has two sums over its bytes, so one byte that was changed on the way is found and nothing of its frame is
//! believed.

use crate::decode::Fault;
use crate::sse::TooLong;
use serde_json::Value;

/// Bytes of one frame. One can carry a whole tool call with a file in its arguments; none needs 4 MiB.
pub(crate) const FRAME_BYTES_MAX: usize = 4 << 20;
/// Bytes of a frame's headers, as the vendor's own client bounds them.
const HEADERS_BYTES_MAX: usize = 128 << 10;
/// Two lengths and the sum over them.
const PRELUDE_BYTES: usize = 12;
/// The sum over all before it.
const SUM_BYTES: usize = 4;
/// The type of a header's value that is text.
const TEXT: u8 = 7;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// `:message-type`: `event`, `exception` or `error`.
    pub(crate) kind: String,
    /// `:event-type`, `:exception-type` or `:error-code`.
    pub(crate) name: String,
    /// `:error-message`, which stands in place of a payload.
    pub(crate) words: String,
    pub(crate) payload: Vec<u8>,
}

/// The parser of one stream.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// What is not a whole frame yet.
    held: Vec<u8>,
}

impl Parser {
    /// Reads more bytes; whole frames go to `out`.
    ///
    /// # Errors
    ///
    /// A [`Fault`]: give the stream up. What stands in `out` came before and is sound.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Frame>) -> Result<(), Fault> {
        self.held.extend_from_slice(bytes);
        let mut rest = self.held.as_slice();
        let read = loop {
            match frame(rest) {
                Ok(Some((frame, after))) => {
                    out.push(frame);
                    rest = after;
                }
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        let done = self.held.len() - rest.len();
        self.held.drain(..done);
        read
    }

    /// Bytes held back because their frame is not complete.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }
}

/// The first frame and what follows it; `None` while it is not all there.
fn frame(bytes: &[u8]) -> Result<Option<(Frame, &[u8])>, Fault> {
    let Some((prelude, _)) = bytes.split_at_checked(PRELUDE_BYTES) else { return Ok(None) };
    let (lengths, sum) = prelude.split_at_checked(8).unwrap_or_default();
    if number(sum) != Some(crc32(lengths)) {
        return Err(Fault::Damaged("the sum over its lengths"));
    }
    let (total, headers) = lengths.split_at_checked(4).unwrap_or_default();
    let (Some(total), Some(headers)) = (length(total), length(headers)) else {
        return Err(Fault::Damaged("a length"));
    };
    if total > FRAME_BYTES_MAX {
        return Err(TooLong { what: "frame", max: FRAME_BYTES_MAX }.into());
    }
    if headers > HEADERS_BYTES_MAX || total < PRELUDE_BYTES + headers + SUM_BYTES {
        return Err(Fault::Damaged("a length"));
    }
    let Some((whole, after)) = bytes.split_at_checked(total) else { return Ok(None) };
    let (summed, sum) = whole.split_at_checked(total - SUM_BYTES).unwrap_or_default();
    if number(sum) != Some(crc32(summed)) {
        return Err(Fault::Damaged("the sum over its bytes"));
    }
    let inside = summed.get(PRELUDE_BYTES..).unwrap_or_default();
    let (headers, payload) = inside.split_at_checked(headers).unwrap_or_default();
    let mut frame = Frame { payload: payload.to_vec(), ..Frame::default() };
    read(headers, &mut frame).ok_or(Fault::Damaged("a header"))?;
    Ok(Some((frame, after)))
}

/// Reads the headers that say what the frame is; others are stepped over.
fn read(mut headers: &[u8], frame: &mut Frame) -> Option<()> {
    while let Some((size, rest)) = headers.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*size))?;
        let (kind, rest) = rest.split_first()?;
        let (value, rest) = match *kind {
            // Two truths, and numbers, times and ids of a known size.
            0 | 1 => rest.split_at_checked(0)?,
            2 => rest.split_at_checked(1)?,
            3 => rest.split_at_checked(2)?,
            4 => rest.split_at_checked(4)?,
            5 | 8 => rest.split_at_checked(8)?,
            9 => rest.split_at_checked(16)?,
            6 | TEXT => {
                let (size, rest) = rest.split_at_checked(2)?;
                rest.split_at_checked(usize::from(u16::from_be_bytes(size.try_into().ok()?)))?
            }
            _ => return None,
        };
        headers = rest;
        if *kind != TEXT {
            continue;
        }
        let to = match name {
            b":message-type" => &mut frame.kind,
            b":event-type" | b":exception-type" | b":error-code" => &mut frame.name,
            b":error-message" => &mut frame.words,
            _ => continue,
        };
        *to = std::str::from_utf8(value).ok()?.to_owned();
    }
    Some(())
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

fn length(bytes: &[u8]) -> Option<usize> {
    number(bytes).and_then(|length| usize::try_from(length).ok())
}

/// The payload as JSON.
pub(crate) fn json(payload: &[u8]) -> Option<Value> {
    serde_json::from_slice(payload).ok()
}

/// CRC-32 as in zlib, a byte at a time.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        let [low, ..] = sum.to_le_bytes();
        TABLE.get(usize::from(low ^ byte)).copied().unwrap_or_default() ^ (sum >> 8)
    };
    !bytes.iter().fold(u32::MAX, step)
}

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut rest: &mut [u32] = &mut table;
    let mut number: u32 = 0;
    while let Some((entry, more)) = rest.split_first_mut() {
        let mut sum = number;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        *entry = sum;
        number += 1;
        rest = more;
    }
    table
}

/// Frames as they are written.
pub(crate) mod written {
    use super::{PRELUDE_BYTES, SUM_BYTES, TEXT, crc32};

    /// A frame with these headers of text and this payload.
    pub(crate) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        for (name, value) in headers {
            // A length that does not fit is written as one that no reader believes.
            head.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            head.extend_from_slice(name.as_bytes());
            head.push(TEXT);
            let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
            head.extend_from_slice(&length.to_be_bytes());
            head.extend_from_slice(value.as_bytes());
        }
        raw(&head, payload)
    }

    /// A frame with headers as they are.
    pub(crate) fn raw(head: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
        let total = PRELUDE_BYTES + head.len() + payload.len() + SUM_BYTES;
        let mut frame = length(total).to_vec();
        frame.extend_from_slice(&length(head.len()));
        frame.extend_from_slice(&crc32(&frame).to_be_bytes());
        frame.extend_from_slice(head);
        frame.extend_from_slice(payload);
        frame.extend_from_slice(&crc32(&frame).to_be_bytes());
        frame
    }

    /// An event with a payload of JSON.
    pub(crate) fn event(name: &str, payload: &str) -> Vec<u8> {
        let headers = [
            (":event-type", name),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ];
        frame(&headers, payload.as_bytes())
    }

    /// An exception in the stream.
    pub(crate) fn exception(name: &str, payload: &str) -> Vec<u8> {
        let headers = [(":exception-type", name), (":message-type", "exception")];
        frame(&headers, payload.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::written::{event, exception, frame as write, raw};
    use super::*;

    fn parse(pieces: &[&[u8]]) -> Result<Vec<Frame>, Fault> {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        for piece in pieces {
            parser.feed(piece, &mut out)?;
        }
        assert_eq!(parser.held(), 0);
        Ok(out)
    }

    fn stream() -> Vec<u8> {
        let mut bytes = event("messageStart", r#"{"role":"assistant"}"#);
        bytes.extend(exception("throttlingException", r#"{"message":"é"}"#));
        bytes.extend(write(
            &[(":message-type", "error"), (":error-code", "c"), (":error-message", "w")],
            b"",
        ));
        bytes
    }

    #[test]
    fn frames_are_read_and_splits_change_nothing() {
        let bytes = stream();
        let frame = |kind: &str, name: &str, words: &str, payload: &str| Frame {
            kind: kind.into(),
            name: name.into(),
            words: words.into(),
            payload: payload.into(),
        };
        let then = vec![
            frame("event", "messageStart", "", r#"{"role":"assistant"}"#),
            frame("exception", "throttlingException", "", r#"{"message":"é"}"#),
            frame("error", "c", "w", ""),
        ];
        assert_eq!(parse(&[&bytes]), Ok(then.clone()));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single), Ok(then.clone()));
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(parse(&[head, tail]), Ok(then.clone()), "split at {at}");
        }
    }

    #[test]
    fn every_byte_that_is_changed_is_found() {
        let bytes = stream();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let (mut parser, mut out) = (Parser::default(), Vec::new());
                let read = parser.feed(&changed, &mut out);
                assert!(read.is_err(), "byte {at}, bit {bit}");
                assert!(out.len() < 3);
            }
        }
    }

    #[test]
    fn the_sum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn headers_of_other_types_are_stepped_over() {
        let mut head = Vec::new();
        for (kind, size) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
            head.extend_from_slice(&[1, b'x', kind]);
            head.extend(vec![7; size]);
        }
        head.extend_from_slice(&[1, b'x', 6, 0, 3, 1, 2, 3]);
        head.extend_from_slice(b"\x0d:message-type\x07\x00\x05event");
        assert_eq!(parse(&[&raw(&head, b"p")]).unwrap()[0].kind, "event");
        for end in 1..head.len() {
            // A header that is cut is none, though the sums are good; between two it is whole.
            let _either = parse(&[&raw(&head[..end], b"")]);
        }
        assert_eq!(parse(&[&raw(&[1, b'x', 10], b"")]), Err(Fault::Damaged("a header")));
        assert_eq!(parse(&[&raw(&[9, b'x'], b"")]), Err(Fault::Damaged("a header")));
        let not_text = b"\x0d:message-type\x07\x00\x01\xff";
        assert_eq!(parse(&[&raw(not_text, b"")]), Err(Fault::Damaged("a header")));
    }

    #[test]
    fn lengths_have_bounds_and_memory_too() {
        let prelude = |total: u32, headers: u32| {
            let mut bytes = total.to_be_bytes().to_vec();
            bytes.extend_from_slice(&headers.to_be_bytes());
            bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
            bytes
        };
        let long = TooLong { what: "frame", max: FRAME_BYTES_MAX };
        assert_eq!(parse(&[&prelude(u32::MAX, 0)]), Err(Fault::Frame(long)));
        for (total, headers) in [(0, 0), (15, 0), (20, 5), (1 << 20, 1 << 19)] {
            let read = parse(&[&prelude(total, headers)]);
            assert_eq!(read, Err(Fault::Damaged("a length")), "{total} {headers}");
        }
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        parser.feed(&prelude(1 << 20, 0), &mut out).unwrap();
        parser.feed(&[0; 1_000], &mut out).unwrap();
        assert_eq!((parser.held(), out.len()), (1_012, 0));
    }
}
