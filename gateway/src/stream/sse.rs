//! Writes server-sent events: a field that held a line break would be read as two fields, so breaks are split or
//! refused, and a frame has a limit, because a reader buffers a whole one.

use bytes::{BufMut as _, Bytes, BytesMut};
use std::time::Duration;

/// The media type of a stream of events.
pub const CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";

/// Bytes of the fields of one event: 4 MiB. The largest payload of ours is a blob of a model's answer, far below it;
/// a browser and the parsers of the SDKs hold a whole event in memory.
pub const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Silence before a keep-alive: 10 s. Proxies and SDKs commonly give up on a silent connection after 15 s to 60 s.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);

/// The fields of one event, in the order in which they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event<'a> {
    /// What a reader hands back as `Last-Event-ID`; one line.
    pub id: Option<&'a str>,
    /// The kind of event, `message` to a reader where there is none; one line.
    pub event: Option<&'a str>,
    /// The data, of any number of lines.
    pub data: &'a str,
}

/// The event can not be written. Nothing was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnEvent {
    /// An id or a kind that a reader would misread.
    #[error("the {field} of an event is {text:?}; give one line without a null character")]
    NotALine {
        /// `id` or `event`.
        field: &'static str,
        /// The first 80 characters of what was given.
        text: String,
    },
    /// More than a reader should have to hold.
    #[error(
        "an event has {bytes} bytes and the most is {EVENT_BYTES_MAX}; send a reference instead"
    )]
    TooLarge {
        /// Bytes of its fields together.
        bytes: usize,
    },
}

/// Writes one event behind what `out` holds.
///
/// # Errors
///
/// [`NotAnEvent`] when a reader could not take it as it is; `out` is unchanged then.
pub fn write(out: &mut BytesMut, event: &Event<'_>) -> Result<(), NotAnEvent> {
    let lines = [("id", event.id), ("event", event.event)];
    let mut bytes = event.data.len();
    for (field, line) in lines.iter().filter_map(|(field, line)| line.map(|line| (*field, line))) {
        if line.contains(['\n', '\r', '\0']) {
            return Err(NotAnEvent::NotALine { field, text: line.chars().take(80).collect() });
        }
        bytes = bytes.saturating_add(line.len());
    }
    if bytes > EVENT_BYTES_MAX {
        return Err(NotAnEvent::TooLarge { bytes });
    }
    for (field, line) in lines {
        if let Some(line) = line {
            put_line(out, field, line);
        }
    }
    // A reader takes all three of \r\n, \n and \r for the end of a line.
    let mut rest = event.data;
    while let Some(at) = rest.find(['\n', '\r']) {
        let (line, tail) = rest.split_at_checked(at).unwrap_or((rest, ""));
        put_line(out, "data", line);
        let after_crlf = tail.strip_prefix("\r\n");
        rest = after_crlf.or_else(|| tail.get(1..)).unwrap_or_default();
    }
    put_line(out, "data", rest);
    out.put_slice(b"\n");
    Ok(())
}

/// Writes one event of a single data line. What `line` writes must hold no line break, as JSON of ours never does.
pub fn write_line(out: &mut BytesMut, line: impl FnOnce(&mut BytesMut)) {
    out.put_slice(b"data: ");
    line(out);
    out.put_slice(b"\n\n");
}

/// Writes one event of a kind and a single data line, as [`write_line`] does; the kind is a word of ours.
pub fn write_named(out: &mut BytesMut, event: &'static str, line: impl FnOnce(&mut BytesMut)) {
    put_line(out, "event", event);
    write_line(out, line);
}

/// A comment, which readers skip: shows a proxy and a client that the other end lives.
#[must_use]
pub const fn keep_alive() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

/// Tells a reader how long to wait before it connects again.
pub fn write_retry(out: &mut BytesMut, wait: Duration) {
    put_line(out, "retry", &wait.as_millis().to_string());
    out.put_slice(b"\n");
}

fn put_line(out: &mut BytesMut, field: &str, line: &str) {
    out.reserve(field.len() + line.len() + 3);
    out.put_slice(field.as_bytes());
    out.put_slice(b": ");
    out.put_slice(line.as_bytes());
    out.put_slice(b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: Event<'_>, then: Result<&str, NotAnEvent>) {
        let mut out = BytesMut::from("before\n\n");
        let written = write(&mut out, &given);
        let text = std::str::from_utf8(&out).unwrap().strip_prefix("before\n\n").unwrap();
        match then {
            Ok(expected) => assert_eq!((written, text), (Ok(()), expected)),
            Err(why) => assert_eq!((written, text), (Err(why), "")),
        }
    }

    #[test]
    fn the_fields_stand_one_to_a_line_and_a_blank_line_ends_them() {
        let full = Event { id: Some("7"), event: Some("run.ended"), data: "{}" };
        check(full, Ok("id: 7\nevent: run.ended\ndata: {}\n\n"));
        check(Event { data: "", ..Event::default() }, Ok("data: \n\n"));
    }

    #[test]
    fn each_line_of_the_data_is_a_field_whatever_ends_it() {
        let data = "a\nb\r\nc\rd\n";
        check(
            Event { data, ..Event::default() },
            Ok("data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"),
        );
        check(Event { data: "é\n\nü", ..Event::default() }, Ok("data: é\ndata: \ndata: ü\n\n"));
    }

    #[test]
    fn an_id_can_not_smuggle_in_a_field() {
        for text in ["1\ndata: forged", "1\r", "1\0"] {
            let refused = NotAnEvent::NotALine { field: "id", text: text.to_owned() };
            check(Event { id: Some(text), ..Event::default() }, Err(refused));
        }
        let refused = NotAnEvent::NotALine { field: "event", text: "a\nb".to_owned() };
        check(Event { event: Some("a\nb"), ..Event::default() }, Err(refused));
    }

    #[test]
    fn an_event_of_the_limit_is_written_and_one_byte_more_is_not() {
        let data = "x".repeat(EVENT_BYTES_MAX - 1);
        let event = Event { id: Some("1"), data: &data, ..Event::default() };
        assert_eq!(write(&mut BytesMut::new(), &event), Ok(()));
        let larger = Event { id: Some("12"), ..event };
        check(larger, Err(NotAnEvent::TooLarge { bytes: EVENT_BYTES_MAX + 1 }));
    }

    #[test]
    fn a_comment_and_a_retry_are_frames_of_their_own() {
        let mut out = BytesMut::from(keep_alive().as_ref());
        write_retry(&mut out, Duration::from_secs(2));
        write_line(&mut out, |out| out.put_slice(b"[DONE]"));
        write_named(&mut out, "ping", |out| out.put_slice(b"{}"));
        let expected = b": keep-alive\n\nretry: 2000\n\ndata: [DONE]\n\nevent: ping\ndata: {}\n\n";
        assert_eq!(&out[..], expected);
    }
}
