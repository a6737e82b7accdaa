//! What every family's decoder goes through: one stream in every split and dress, cut at every byte, and with every
//! byte changed. A stream means the same however the network tears it, and half of one means nothing.

use super::{Fault, Progress};
use crate::delta::{Answer, Delta};
use crate::endpoint::{Endpoint, Quirks};
use crate::family::Family;
use bytes::Bytes;
use events::usage::Usage;

/// Splits and cuts of one stream that are tried; of a longer one every n-th.
const TRIES_MAX: usize = 6_000;

/// Everything that one reading of a stream yields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    pub(crate) result: Result<Answer, Fault>,
    pub(crate) usage: Usage,
    pub(crate) deltas: Vec<Delta>,
}

pub(crate) fn endpoint(family: Family) -> Endpoint {
    let base = "http://127.0.0.1:1/v1".parse().unwrap();
    Endpoint::new("test", family, base, None, Quirks::STANDARD)
}

/// Reads pieces of a stream, as the transport does.
pub(crate) fn read(family: Family, pieces: &[&[u8]]) -> Reading {
    let mut decoder = family.decoder(Bytes::from_static(b"request"));
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let mut fault = None;
    let mut progress = Progress::More;
    for piece in pieces {
        match decoder.feed(piece, &mut sink) {
            Ok(Progress::More) => {}
            Ok(Progress::Done) => {
                progress = Progress::Done;
                break;
            }
            Err(found) => {
                fault = Some(found);
                break;
            }
        }
    }
    if progress == Progress::More && fault.is_none() {
        fault = decoder.end(&mut sink).err();
    }
    let usage = decoder.usage();
    let seal = endpoint(family).seal("m");
    let result = fault.map_or_else(|| decoder.finish(seal, None, &mut sink), Err);
    Reading { result, usage, deltas }
}

/// Reads a stream at once.
pub(crate) fn whole(family: Family, text: &str) -> Reading {
    read(family, &[text.as_bytes()])
}

fn places(length: usize) -> impl Iterator<Item = usize> {
    (0..=length).step_by(length / TRIES_MAX + 1)
}

/// Every split and every dress of a stream gives the same. Its events end in `\n\n` and their data is one line.
#[track_caller]
pub(crate) fn shred(family: Family, text: &str) {
    let expected = whole(family, text);
    let bytes = text.as_bytes();
    for at in places(bytes.len()) {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(read(family, &[head, tail]), expected, "split at {at}");
    }
    for size in [1, 2, 3, 5, 7, 64, 1_000] {
        let pieces: Vec<_> = bytes.chunks(size).collect();
        assert_eq!(read(family, &pieces), expected, "{size} bytes at a time");
    }
    let dresses = [
        ("CRLF", text.replace('\n', "\r\n")),
        ("CR", text.replace('\n', "\r")),
        ("a byte order mark", format!("\u{feff}{text}")),
        ("comments", text.replace("\n\n", "\n\n: PROCESSING\r\n\r\nid: 1\nretry: 5\n")),
        ("no space", text.replace("data: ", "data:").replace("event: ", "event:")),
        ("data of several lines", text.replace("data: {", "data: {\ndata:   ")),
        ("no names of events", without_names(text)),
    ];
    for (dress, text) in dresses {
        assert_eq!(whole(family, &text), expected, "{dress}");
        let single: Vec<_> = text.as_bytes().chunks(1).collect();
        assert_eq!(read(family, &single), expected, "{dress}, a byte at a time");
    }
}

fn without_names(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("event:")).collect()
}

/// Every cut before `terminal` (the place behind the data of the terminal event) is truncated and gives no call;
/// every later one gives the whole message.
#[track_caller]
pub(crate) fn cut(family: Family, text: &str, terminal: usize) {
    let bytes = text.as_bytes();
    let expected = whole(family, text).result.unwrap();
    for at in places(bytes.len()) {
        let result = read(family, &[&bytes[..at]]).result;
        if at < terminal {
            assert_eq!(result, Err(Fault::Truncated), "cut at {at}");
        } else {
            let answer = result.unwrap();
            let (message, stop) = (&answer.message, &answer.stop);
            assert_eq!((message, stop), (&expected.message, &expected.stop), "cut at {at}");
        }
    }
}

/// No changed byte makes the decoder fall over, or hand out more than the stream holds.
#[track_caller]
pub(crate) fn mangle(family: Family, text: &str) {
    let mut bytes = text.as_bytes().to_vec();
    let shown = whole(family, text).deltas.len() + 2;
    let others = [0, b'\n', b'"', b'{', b'}', b'[', b'1', 0xff];
    for at in 0..bytes.len() {
        let kept = bytes[at];
        // Two of them at each place; all of them in every eight places.
        for other in [others[at % 8], others[(at + 3) % 8]] {
            bytes[at] = other;
            assert!(read(family, &[&bytes]).deltas.len() <= shown, "byte {at} as {other}");
        }
        bytes[at] = kept;
    }
}

/// The calls as somebody who only sees the deltas puts them together: id, name, arguments.
pub(crate) fn shown_calls(deltas: &[Delta]) -> Vec<(String, String, String)> {
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::ToolCallStarted { index, id, name } => {
                assert_eq!(*index, calls.len());
                calls.push((id.clone(), name.clone(), String::new()));
            }
            Delta::ToolCallArguments { index, fragment } => calls[*index].2.push_str(fragment),
            Delta::Text(_) | Delta::Reasoning(_) | Delta::Refusal(_) => {}
        }
    }
    calls
}
