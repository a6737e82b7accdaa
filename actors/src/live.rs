//! Text of a model's answer while it comes: a bounded ring for each run, read by any number of readers.
//!
//! Best effort and never journaled: the final message is the event. A reader that lags past the ring is told of the
//! gap; nobody's reading slows the effect that writes. What an attempt that died had handed out is discarded openly
//! by whoever reads the journal; it never enters a later prompt.
//!
//! The ring of a run whose owner is another node is filled by a feed from there: the pieces keep their numbers, so that
//! whoever reads here sees what is seen there.

mod feed;

use events::id::RunId;
use events::run::step::CallNo;
use providers::Delta as Piece;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};
use tokio::sync::{mpsc, watch};

pub use feed::{Far, Inlet, Offered, Wanted, Whole};

/// Deltas kept for one run; about an answer of 4,096 tokens.
const ITEMS_MAX: usize = 4_096;
/// Bytes of text kept for one run (1 MiB).
const BYTES_MAX: usize = 1 << 20;

/// The place of a piece in everything that a run's model calls say.
pub type PieceNo = (CallNo, u64);

/// Bytes of text in a piece.
pub(crate) fn bytes(piece: &Piece) -> usize {
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

impl Delta {
    /// Its place.
    #[must_use]
    pub const fn place(&self) -> PieceNo {
        (self.call, self.number)
    }
}

#[derive(Debug)]
struct Ring {
    items: VecDeque<Found>,
    bytes: usize,
    /// The place of the first kept item in everything that was ever pushed.
    start: u64,
    /// The newest piece, also when it is not kept any more.
    last: Option<PieceNo>,
    /// The newest piece that was kept and is not any more.
    dropped: Option<PieceNo>,
    /// Whose run it is, once somebody has written.
    project: Option<String>,
    /// Where a reader asks for what has not come yet, if another node may have it.
    feed: Option<mpsc::Sender<Wanted>>,
    end: watch::Sender<u64>,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            bytes: 0,
            start: 0,
            last: None,
            dropped: None,
            project: None,
            feed: None,
            end: watch::Sender::new(0),
        }
    }
}

impl Ring {
    /// The next piece of a call that is made here.
    fn push(&mut self, call: CallNo, piece: Piece) {
        let number = match self.last {
            Some((last, number)) if last == call => number + 1,
            Some(_) | None => 0,
        };
        self.keep(Delta { call, number, piece });
    }

    /// A piece that was numbered elsewhere. One that is not new is left out, and before one that does not follow there
    /// is a gap.
    fn insert(&mut self, delta: Delta) {
        if self.last.is_some_and(|last| delta.place() <= last) {
            return;
        }
        let next = match self.last {
            Some((last, number)) if last == delta.call => number + 1,
            Some(_) | None => 0,
        };
        if delta.number > next {
            self.put(Found::Gap);
        }
        self.keep(delta);
    }

    /// Everything up to a place is lost, as far as it has not come.
    fn lose(&mut self, upto: PieceNo) {
        if self.last < Some(upto) {
            self.put(Found::Gap);
            self.last = Some(upto);
        }
    }

    fn keep(&mut self, delta: Delta) {
        self.last = Some(delta.place());
        self.put(Found::Delta(Arc::new(delta)));
    }

    fn put(&mut self, item: Found) {
        self.bytes += item.bytes();
        self.items.push_back(item);
        while self.items.len() > ITEMS_MAX || self.bytes > BYTES_MAX {
            let Some(old) = self.items.pop_front() else { break };
            self.bytes -= old.bytes();
            self.start += 1;
            if let Found::Delta(old) = old {
                self.dropped = Some(old.place());
            }
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
#[derive(Default)]
pub struct Live {
    // Held over no await.
    rings: Mutex<Rings>,
    /// The way to other nodes, where there are any.
    far: OnceLock<Box<dyn Far>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("rings", &self.kept()).finish_non_exhaustive()
    }
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

    /// Says where the pieces of runs of other nodes come from, once.
    pub fn reach(&self, far: Box<dyn Far>) {
        // A second way would double nothing: numbers that have come are left out.
        let _first = self.far.set(far);
    }

    /// Where an effect writes what it hears, for a run of a project.
    #[must_use]
    pub fn writer(&self, run: RunId, project: &str, call: CallNo) -> Writer {
        let ring = self.ring(run);
        lock(&ring).project.get_or_insert_with(|| project.to_owned());
        Writer { ring, call }
    }

    /// A reader that begins with the first piece; if that is not kept any more, it is told of the gap.
    #[must_use]
    pub fn reader(&self, run: RunId) -> Reader {
        let reader = self.listen(run);
        if let Some(far) = self.far.get() {
            let mut ring = lock(&reader.ring);
            if ring.feed.is_none() {
                let (feed, wanted) = mpsc::channel(feed::WANTED_MAX);
                ring.feed = Some(feed);
                far.feed(run, Inlet::new(&reader.ring), wanted);
            }
        }
        reader
    }

    /// A reader of what is written or has come here, for whom nobody else is asked.
    pub(crate) fn listen(&self, run: RunId) -> Reader {
        let ring = self.ring(run);
        let end = lock(&ring).end.subscribe();
        Reader { ring, end, next: 0, first: CallNo(0) }
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
    /// Pieces were dropped before it looked, or never came. How many of a call, the number of its next piece says.
    Gap,
}

impl Found {
    fn bytes(&self) -> usize {
        match self {
            Self::Delta(delta) => bytes(&delta.piece),
            Self::Gap => 0,
        }
    }
}

/// Reads a run's pieces in order.
#[derive(Debug)]
pub struct Reader {
    ring: Arc<Mutex<Ring>>,
    end: watch::Receiver<u64>,
    next: u64,
    first: CallNo,
}

impl Reader {
    /// Leaves out what calls before this one said: it was read before.
    pub const fn begin(&mut self, first: CallNo) {
        self.first = first;
    }

    /// The newest piece that has come.
    pub(crate) fn newest(&self) -> Option<PieceNo> {
        lock(&self.ring).last
    }

    /// The newest piece that is not kept any more.
    pub(crate) fn dropped(&self) -> Option<PieceNo> {
        lock(&self.ring).dropped
    }

    /// Whose run it is, if somebody has written here.
    pub(crate) fn project(&self) -> Option<String> {
        lock(&self.ring).project.clone()
    }

    /// What is there now, in order; empty when the reader has seen all of it.
    pub fn take(&mut self) -> Vec<Found> {
        self.end.mark_unchanged();
        let ring = lock(&self.ring);
        let mut found = vec![];
        if self.next < ring.start {
            found.push(Found::Gap);
            self.next = ring.start;
        }
        let skip = usize::try_from(self.next - ring.start).unwrap_or(usize::MAX);
        let wanted = |found: &&Found| match found {
            Found::Delta(delta) => delta.call >= self.first,
            // Without a number nobody knows whose gap it is: a later piece's own number tells.
            Found::Gap => self.first == CallNo(0),
        };
        found.extend(ring.items.iter().skip(skip).filter(wanted).cloned());
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
            Found::Gap => None,
        };
        found.iter().filter_map(number).collect()
    }

    #[test]
    fn early_and_late_readers_see_the_same_pieces() {
        let live = Live::default();
        let mut early = live.reader(run());
        let writer = live.writer(run(), "default", CallNo(0));
        writer.push(text("a"));
        let mut seen = numbers(&early.take());
        writer.push(text("b"));
        live.writer(run(), "default", CallNo(1)).push(text("c"));
        seen.extend(numbers(&early.take()));
        assert_eq!(seen, [(0, 0), (0, 1), (1, 0)]);
        assert_eq!(numbers(&live.reader(run()).take()), seen);
        assert_eq!(early.take(), []);
    }

    #[test]
    fn a_reader_that_lags_past_the_ring_is_told_so() {
        let live = Live::default();
        let mut slow = live.reader(run());
        let writer = live.writer(run(), "default", CallNo(0));
        for _ in 0..ITEMS_MAX + 10 {
            writer.push(text("a"));
        }
        let found = slow.take();
        assert_eq!(found.first(), Some(&Found::Gap));
        assert_eq!(numbers(&found).first(), Some(&(0, 10)));
        assert_eq!(found.len(), ITEMS_MAX + 1);
    }

    #[test]
    fn large_pieces_are_bounded_by_bytes() {
        let live = Live::default();
        let writer = live.writer(run(), "default", CallNo(0));
        for _ in 0..5 {
            writer.push(text(&"a".repeat(BYTES_MAX / 2)));
        }
        assert_eq!(live.reader(run()).take().len(), 3, "a gap, and the two pieces that fit");
    }

    #[test]
    fn rings_that_nobody_holds_are_swept_out() {
        let live = Live::default();
        for n in 0..5_000 {
            live.writer(RunId::new(Place::default(), n), "default", CallNo(0)).push(text("a"));
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
        live.writer(run(), "default", CallNo(0)).push(text("a"));
        reader.changed().await;
        assert_eq!(reader.take().len(), 1);
    }
}
