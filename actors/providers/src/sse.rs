//! Server-sent events, read incrementally and within bounds.
//!
//! Total: any bytes in any split give events or [`TooLong`], never a panic, and the split changes nothing. A
//! provider that never ends a line is cut off instead of filling the memory.

/// Bytes of one line. One chunk can carry a whole tool call with a file in its arguments; none needs 4 MiB.
pub const LINE_BYTES_MAX: usize = 4 << 20;
/// Bytes of one event: the sum of its data lines.
pub const EVENT_BYTES_MAX: usize = 4 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The `event:` field; empty where there is none.
    pub name: String,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// A line or an event is longer than anything a provider sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {what} of the stream is longer than {max} bytes")]
pub struct TooLong {
    /// `line` or `event`.
    pub what: &'static str,
    /// The bound.
    pub max: usize,
}

/// The parser of one stream.
#[derive(Debug, Default)]
pub struct Parser {
    /// The line so far, without its end.
    line: Vec<u8>,
    pending: Event,
    has_data: bool,
    /// Whether the first line, which may carry a byte order mark, is behind us.
    started: bool,
    /// Whether the last byte was a CR that ended a line: an LF after it belongs to it.
    after_return: bool,
}

impl Parser {
    /// Reads more bytes; finished events go to `out`.
    ///
    /// # Errors
    ///
    /// [`TooLong`]: give the stream up. What stands in `out` came before.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<Event>) -> Result<(), TooLong> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, end) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
            self.extend(line)?;
            self.end_line(out)?;
            bytes = if let Some(rest) = end.strip_prefix(b"\r") {
                self.after_return = rest.is_empty();
                rest.strip_prefix(b"\n").unwrap_or(rest)
            } else {
                end.strip_prefix(b"\n").unwrap_or_default()
            };
        }
        self.extend(bytes)
    }

    /// Ends the stream. An event whose closing blank line never came is still given: some servers leave it out
    /// after their last event, and whether its data is whole is for the reader of the data to say.
    ///
    /// # Errors
    ///
    /// [`TooLong`] as for [`Parser::feed`].
    pub fn finish(mut self, out: &mut Vec<Event>) -> Result<(), TooLong> {
        if !self.line.is_empty() {
            self.end_line(out)?;
        }
        self.end_event(out);
        Ok(())
    }

    /// Bytes held back because their line or event is not complete.
    #[must_use]
    pub fn held(&self) -> usize {
        self.line.len() + self.pending.data.len() + self.pending.name.len()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            return Err(TooLong { what: "line", max: LINE_BYTES_MAX });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<Event>) -> Result<(), TooLong> {
        let mut bytes = std::mem::take(&mut self.line);
        // Lines end at ASCII bytes, so a line never holds half a character of a sound stream.
        let text = String::from_utf8_lossy(&bytes);
        let first = !std::mem::replace(&mut self.started, true);
        let line = text.strip_prefix('\u{feff}').filter(|_| first).unwrap_or(&text);
        if line.is_empty() {
            self.end_event(out);
        } else if !line.starts_with(':') {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            self.field(field, value.strip_prefix(' ').unwrap_or(value))?;
        }
        drop(text);
        // Keeps the buffer for the next line.
        bytes.clear();
        self.line = bytes;
        Ok(())
    }

    fn field(&mut self, field: &str, value: &str) -> Result<(), TooLong> {
        if field == "data" {
            if self.pending.data.len() + value.len() >= EVENT_BYTES_MAX {
                return Err(TooLong { what: "event", max: EVENT_BYTES_MAX });
            }
            if std::mem::replace(&mut self.has_data, true) {
                self.pending.data.push('\n');
            }
            self.pending.data.push_str(value);
        } else if field == "event" {
            value.clone_into(&mut self.pending.name);
        }
        // `id` and `retry` speak of reconnecting, which no model API does; unknown fields are skipped by the rules.
        Ok(())
    }

    fn end_event(&mut self, out: &mut Vec<Event>) {
        let event = std::mem::take(&mut self.pending);
        if std::mem::take(&mut self.has_data) {
            out.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<Event> {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        for piece in pieces {
            parser.feed(piece, &mut out).unwrap();
        }
        parser.finish(&mut out).unwrap();
        out
    }

    #[track_caller]
    fn check(text: &str, then: &[(&str, &str)]) {
        let event =
            |(name, data): &(&str, &str)| Event { name: (*name).into(), data: (*data).into() };
        let then: Vec<Event> = then.iter().map(event).collect();
        let bytes = text.as_bytes();
        assert_eq!(parse(&[bytes]), then, "{text:?}");
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single), then, "a byte at a time: {text:?}");
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(parse(&[head, tail]), then, "split at {at}: {text:?}");
        }
    }

    #[test]
    fn lines_end_in_three_ways_and_splits_change_nothing() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "event: ping\ndata: {}\n\n: note\n\ndata: é日🦀\n\n".replace('\n', end);
            check(&text, &[("ping", "{}"), ("", "é日🦀")]);
        }
        check("data: a\r\n\ndata: b\n\r\n", &[("", "a"), ("", "b")]);
    }

    #[test]
    fn data_lines_are_joined_and_one_space_is_taken_off() {
        check("data: a\ndata:b\ndata:  c\ndata\n\n", &[("", "a\nb\n c\n")]);
        check("event:error\ndata:{}\n\n", &[("error", "{}")]);
        check("data:\n\n", &[("", "")]);
    }

    #[test]
    fn what_carries_no_data_is_no_event() {
        check(": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\n\nevent: ping\n\n", &[]);
        check("", &[]);
        check("nonsense\n\n", &[]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_start_only() {
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("", "a")]);
    }

    #[test]
    fn an_event_without_its_closing_line_is_given_at_the_end() {
        check("data: [DONE]", &[("", "[DONE]")]);
        check("data: a\n\ndata: b\n", &[("", "a"), ("", "b")]);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(parse(&[b"data: a\xffb\n\n"])[0].data, "a\u{fffd}b");
    }

    #[test]
    fn an_endless_line_is_cut_off_in_bounded_memory() {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let piece = vec![b'x'; 64 << 10];
        let refused = (0..1_000).find_map(|_| {
            assert!(parser.held() <= LINE_BYTES_MAX);
            parser.feed(&piece, &mut out).err()
        });
        assert_eq!(refused, Some(TooLong { what: "line", max: LINE_BYTES_MAX }));
    }

    #[test]
    fn an_endless_event_is_cut_off() {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        let line = format!("data: {}\n", "x".repeat(1 << 20));
        let refused = (0..10).find_map(|_| parser.feed(line.as_bytes(), &mut out).err());
        assert_eq!(refused, Some(TooLong { what: "event", max: EVENT_BYTES_MAX }));
        assert!(parser.held() <= EVENT_BYTES_MAX + line.len());
    }
}
