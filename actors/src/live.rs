//! Text of a model's answer while it comes: a bounded ring for each run, read by any number of readers.
//!
//! Best effort and never journaled: the final message is the event. A reader that lags past the ring is told of the
//! gap; nobody's reading slows the effect that writes. What an attempt that died had handed out is discarded openly
//! by whoever reads the journal; it never enters a later prompt.

use events::id::RunId;
use events::run::step::CallNo;
use providers::Delta as Piece;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::watch;

/// Deltas kept for one run; about an answer of 4,096 tokens.
const ITEMS_MAX: usize = 4_096;
/// Bytes of text kept for one run (1 MiB).
const BYTES_MAX: usize = 1 << 20;

fn bytes(piece: &Piece) -> usize {
    match piece {
        Piece::Text(text) | Piece::Reasoning(text) | Piece::Refusal(text) => text.len(),
        Piece::ToolCallStarted { id, name, .. } => id.len() + name.len(),
        Piece::ToolCallArguments { fragment, .. } => fragment.len(),
    }
}

/// A numbered piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// Which wire call.
    pub call: CallNo,
    /// Its number within that call, from 0.
    pub number: u64,
    /// What.
    pub piece: Piece,
}

#[derive(Debug)]
struct Ring {
    items: VecDeque<Arc<Delta>>,
    bytes: usize,
    /// The place of the first kept item in everything that was ever pushed.
    start: u64,
    call: CallNo,
    number: u64,
    end: watch::Sender<u64>,
}

impl Default for Ring {
    fn default() -> Self {
        let (call, number) = (CallNo::default(), 0);
        Self {
            items: VecDeque::new(),
            bytes: 0,
            start: 0,
            call,
            number,
            end: watch::Sender::new(0),
        }
    }
}

impl Ring {
    fn push(&mut self, call: CallNo, piece: Piece) {
        if call != self.call {
            (self.call, self.number) = (call, 0);
        }
        self.bytes += bytes(&piece);
        self.items.push_back(Arc::new(Delta { call, number: self.number, piece }));
        self.number += 1;
        while self.items.len() > ITEMS_MAX || self.bytes > BYTES_MAX {
            let Some(old) = self.items.pop_front() else { break };
            self.bytes -= bytes(&old.piece);
            self.start += 1;
        }
        let end = self.start + u64::try_from(self.items.len()).unwrap_or(u64::MAX);
        self.end.send_replace(end);
    }
}

/// Dead entries that may pile up before they are swept out: as many as live ones, and at least so many.
const SWEEP_MIN: usize = 1_024;

#[derive(Debug, Default)]
struct Rings {
    /// A ring lives as long as its effect or a reader; afterwards the final message is in the log.
    by_run: BTreeMap<RunId, Weak<Mutex<Ring>>>,
    sweep_at: usize,
}

/// The rings of the runs that are at work or being read.
#[derive(Debug, Default)]
pub struct Live {
    // Held over no await.
    rings: Mutex<Rings>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    fn ring(&self, run: RunId) -> Arc<Mutex<Ring>> {
        let mut rings = lock(&self.rings);
        if let Some(ring) = rings.by_run.get(&run).and_then(Weak::upgrade) {
            return ring;
        }
        if rings.by_run.len() >= rings.sweep_at {
            rings.by_run.retain(|_, ring| ring.strong_count() > 0);
            rings.sweep_at = SWEEP_MIN.max(rings.by_run.len() * 2);
        }
        let ring = Arc::default();
        rings.by_run.insert(run, Arc::downgrade(&ring));
        ring
    }

    /// Where an effect writes what it hears.
    #[must_use]
    pub fn writer(&self, run: RunId, call: CallNo) -> Writer {
        Writer { ring: self.ring(run), call }
    }

    /// A reader that begins with the first piece; if that is not kept any more, it is told of the gap.
    #[must_use]
    pub fn reader(&self, run: RunId) -> Reader {
        let ring = self.ring(run);
        let end = lock(&ring).end.subscribe();
        Reader { ring, end, next: 0 }
    }

    /// Entries, dead ones included.
    #[must_use]
    pub fn kept(&self) -> usize {
        lock(&self.rings).by_run.len()
    }
}

/// Writes one call's pieces.
#[derive(Debug)]
pub struct Writer {
    ring: Arc<Mutex<Ring>>,
    call: CallNo,
}

impl Writer {
    /// Adds a piece; the oldest ones go when the ring is full.
    pub fn push(&self, piece: Piece) {
        lock(&self.ring).push(self.call, piece);
    }
}

/// What a reader finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A piece.
    Delta(Arc<Delta>),
    /// So many pieces were dropped before it looked.
    Gap(u64),
}

/// Reads a run's pieces in order.
#[derive(Debug)]
pub struct Reader {
    ring: Arc<Mutex<Ring>>,
    end: watch::Receiver<u64>,
    next: u64,
}

impl Reader {
    /// What is there now, in order; empty when the reader has seen all of it.
    pub fn take(&mut self) -> Vec<Found> {
        self.end.mark_unchanged();
        let ring = lock(&self.ring);
        let mut found = vec![];
        if self.next < ring.start {
            found.push(Found::Gap(ring.start - self.next));
            self.next = ring.start;
        }
        let skip = usize::try_from(self.next - ring.start).unwrap_or(usize::MAX);
        let fresh = ring.items.iter().skip(skip);
        found.extend(fresh.map(|delta| Found::Delta(Arc::clone(delta))));
        self.next = ring.start + u64::try_from(ring.items.len()).unwrap_or(u64::MAX);
        found
    }

    /// Waits until there may be more. Cancelling loses nothing.
    pub async fn changed(&mut self) {
        if self.end.changed().await.is_err() {
            // The ring outlives its readers, so this can not be; waiting for ever is then the harmless answer.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::Place;

    fn run() -> RunId {
        RunId::new(Place::default(), 1)
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn numbers(found: &[Found]) -> Vec<(u32, u64)> {
        let number = |found: &Found| match found {
            Found::Delta(delta) => Some((delta.call.0, delta.number)),
            Found::Gap(_) => None,
        };
        found.iter().filter_map(number).collect()
    }

    #[test]
    fn early_and_late_readers_see_the_same_pieces() {
        let live = Live::default();
        let mut early = live.reader(run());
        let writer = live.writer(run(), CallNo(0));
        writer.push(text("a"));
        let mut seen = numbers(&early.take());
        writer.push(text("b"));
        live.writer(run(), CallNo(1)).push(text("c"));
        seen.extend(numbers(&early.take()));
        assert_eq!(seen, [(0, 0), (0, 1), (1, 0)]);
        assert_eq!(numbers(&live.reader(run()).take()), seen);
        assert_eq!(early.take(), []);
    }

    #[test]
    fn a_reader_that_lags_past_the_ring_is_told_how_much_it_missed() {
        let live = Live::default();
        let mut slow = live.reader(run());
        let writer = live.writer(run(), CallNo(0));
        for _ in 0..ITEMS_MAX + 10 {
            writer.push(text("a"));
        }
        let found = slow.take();
        assert_eq!(found.first(), Some(&Found::Gap(10)));
        assert_eq!(found.len(), ITEMS_MAX + 1);
    }

    #[test]
    fn large_pieces_are_bounded_by_bytes() {
        let live = Live::default();
        let writer = live.writer(run(), CallNo(0));
        for _ in 0..5 {
            writer.push(text(&"a".repeat(BYTES_MAX / 2)));
        }
        assert_eq!(live.reader(run()).take().len(), 3, "a gap, and the two pieces that fit");
    }

    #[test]
    fn rings_that_nobody_holds_are_swept_out() {
        let live = Live::default();
        for n in 0..5_000 {
            live.writer(RunId::new(Place::default(), n), CallNo(0)).push(text("a"));
        }
        assert!(live.kept() <= SWEEP_MIN, "{} entries are kept", live.kept());
        assert_eq!(
            live.reader(run()).take(),
            [],
            "what nobody held is gone; the log has the message"
        );
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let live = Live::default();
        let mut reader = live.reader(run());
        assert_eq!(reader.take(), []);
        live.writer(run(), CallNo(0)).push(text("a"));
        reader.changed().await;
        assert_eq!(reader.take().len(), 1);
    }
}
