//! Reads the events of a stream as they come. A line, an event and the wait for the next byte each have a limit.

use std::mem;

/// Bytes of the largest event (5 MiB): what our server sends has at most 4, and the names of its fields.
pub(crate) const EVENT_BYTES_MAX: usize = 5 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    /// What to send as `Last-Event-ID`; empty when the stream gave none so far.
    pub(crate) id: String,
    /// Its kind; empty when it has none.
    pub(crate) name: String,
    /// Its data.
    pub(crate) data: String,
}

/// The server sends more than a reader should have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream has more than {EVENT_BYTES_MAX} bytes")]
pub(crate) struct TooLarge;

/// Turns bytes into events, wherever they are cut.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    event: Event,
    /// Bytes of the event so far, its unfinished line not counted.
    bytes: usize,
    has_data: bool,
    after_return: bool,
}

impl Decoder {
    /// The events that these bytes complete.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] when an event grows beyond the limit; the stream is of no use then.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let after_return = mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                // The second half of a \r\n, which may come in another piece.
                b'\n' if after_return => {}
                b'\n' | b'\r' => complete.extend(self.end_line()),
                _ => self.line.push(byte),
            }
            if self.bytes + self.line.len() > EVENT_BYTES_MAX {
                return Err(TooLarge);
            }
        }
        Ok(complete)
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event();
        }
        self.bytes += line.len();
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => value.clone_into(&mut self.event.id),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, and fields that nobody knows.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        self.bytes = 0;
        let id = self.event.id.clone();
        // The id holds until another one comes.
        let event = mem::replace(&mut self.event, Event { id, ..Event::default() });
        mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, name: &str, data: &str) -> Event {
        Event { id: id.to_owned(), name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let text = ": hello\n\nid: 1\nevent: a\ndata: é\ndata: y\n\ndata:z\r\ndata: w\r\n\r\nevent: no-data\n\nid: 2\rdata\r\rdata: cut";
        let expected = [event("1", "a", "é\ny"), event("1", "", "z\nw"), event("2", "", "")];
        for at in 0..text.len() {
            let (one, two) = text.as_bytes().split_at(at);
            let mut decoder = Decoder::default();
            let mut events = decoder.feed(one).unwrap();
            events.extend(decoder.feed(two).unwrap());
            assert_eq!(events, expected, "cut at {at}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut decoder = Decoder::default();
        let piece = vec![b'x'; 1 << 20];
        let fed: Vec<_> = (0..6).map(|_| decoder.feed(&piece)).collect();
        assert_eq!(fed.last(), Some(&Err(TooLarge)));
        assert_eq!(fed.first(), Some(&Ok(Vec::new())));
        let mut decoder = Decoder::default();
        let lines = "data: 0123456789\n".repeat(EVENT_BYTES_MAX / 16 + 1);
        assert_eq!(decoder.feed(lines.as_bytes()), Err(TooLarge));
    }
}
