//! How pieces of a run of another node come into its ring here, and how a reader learns that all of them have come.
//!
//! The log and the pieces take different ways: an answer is often in the log before its last piece is here. A reader
//! that closed a call then would lose its end without a word, so it asks first.

use super::{Delta, PieceNo, Reader, Ring, lock};
use events::id::RunId;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Readers of one run that may wait for its owner's word at a time; more go on without it.
pub(super) const WANTED_MAX: usize = 64;
/// How long a reader waits for that word. A live owner answers in milliseconds; a dead one never.
const WHOLE_MAX: Duration = Duration::from_secs(1);

/// Where the pieces of runs of other nodes come from.
pub trait Far: Send + Sync {
    /// Fills a ring for as long as somebody reads it, and answers whoever wants all of it.
    fn feed(&self, run: RunId, inlet: Inlet, wanted: mpsc::Receiver<Wanted>);
}

/// A reader that waits until everything that the owner has is here.
#[derive(Debug)]
pub struct Wanted(oneshot::Sender<Whole>);

impl Wanted {
    /// Says how it stands.
    pub fn answer(self, whole: Whole) {
        // Whoever asked may be gone.
        let _heard = self.0.send(whole);
    }
}

/// Whether everything that was said is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// It is.
    Yes,
    /// Nobody could say.
    Unsure,
}

/// What became of pieces that were offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// They are in, or were before.
    Taken,
    /// There are some before them that have not come: they are to be asked for.
    Hole,
}

/// The end of a ring into which pieces come; it does not keep the ring.
#[derive(Debug)]
pub struct Inlet(Weak<Mutex<Ring>>);

impl Inlet {
    pub(super) fn new(ring: &Arc<Mutex<Ring>>) -> Self {
        Self(Arc::downgrade(ring))
    }

    /// Whether somebody still reads or writes here.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The newest piece that has come.
    #[must_use]
    pub fn newest(&self) -> Option<PieceNo> {
        lock(&*self.0.upgrade()?).last
    }

    /// Takes pieces that follow `after`, unless that has not come either.
    pub fn offer(&self, after: Option<PieceNo>, pieces: Vec<Delta>) -> Offered {
        let Some(ring) = self.0.upgrade() else { return Offered::Taken };
        let mut ring = lock(&ring);
        if after > ring.last {
            return Offered::Hole;
        }
        pieces.into_iter().for_each(|delta| ring.insert(delta));
        Offered::Taken
    }

    /// Takes pieces of which the owner has no earlier ones any more: what is missing before them is a gap.
    pub fn force(&self, after: Option<PieceNo>, pieces: Vec<Delta>) {
        let Some(ring) = self.0.upgrade() else { return };
        let mut ring = lock(&ring);
        if let Some(after) = after {
            ring.lose(after);
        }
        pieces.into_iter().for_each(|delta| ring.insert(delta));
    }
}

impl Reader {
    /// Waits until every piece that was said before this question is here, wherever it was said. Cancelling loses
    /// nothing. Pieces of this node's own runs are here at once.
    pub async fn whole(&self) -> Whole {
        let Some(feed) = lock(&self.ring).feed.clone() else { return Whole::Yes };
        let (told, answer) = oneshot::channel();
        // Full: too many wait already, and the answer would be late for this one.
        if feed.try_send(Wanted(told)).is_err() {
            return Whole::Unsure;
        }
        let answer = tokio::time::timeout(WHOLE_MAX, answer).await;
        answer.map_or(Whole::Unsure, |answer| answer.unwrap_or(Whole::Unsure))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Found, Live};
    use super::*;
    use events::id::Place;
    use events::run::step::CallNo;
    use providers::Delta as Piece;

    fn run() -> RunId {
        RunId::new(Place::default(), 1)
    }

    fn delta(call: u32, number: u64) -> Delta {
        Delta { call: CallNo(call), number, piece: Piece::Text("a".to_owned()) }
    }

    /// `0.3` is a piece, `-` a gap.
    fn shown(reader: &mut Reader) -> Vec<String> {
        let shown = |found: Found| match found {
            Found::Delta(delta) => format!("{}.{}", delta.call.0, delta.number),
            Found::Gap => "-".to_owned(),
        };
        reader.take().into_iter().map(shown).collect()
    }

    #[test]
    fn pieces_from_afar_come_once_and_in_order() {
        let live = Live::default();
        let mut reader = live.reader(run());
        let inlet = Inlet::new(&reader.ring);
        let first = (CallNo(0), 0);
        assert_eq!(inlet.offer(None, vec![delta(0, 0), delta(0, 1)]), Offered::Taken);
        assert_eq!(inlet.offer(Some(first), vec![delta(0, 1), delta(0, 2)]), Offered::Taken);
        assert_eq!(shown(&mut reader), ["0.0", "0.1", "0.2"]);
        // Of a call that came later: what a former owner still says is old.
        assert_eq!(inlet.offer(Some((CallNo(0), 2)), vec![delta(1, 0)]), Offered::Taken);
        assert_eq!(inlet.offer(Some((CallNo(0), 2)), vec![delta(0, 3)]), Offered::Taken);
        assert_eq!(shown(&mut reader), ["1.0"]);
    }

    #[test]
    fn a_hole_is_seen_and_what_can_not_be_had_is_a_gap() {
        let live = Live::default();
        let mut reader = live.reader(run());
        let inlet = Inlet::new(&reader.ring);
        assert_eq!(inlet.offer(None, vec![delta(0, 0)]), Offered::Taken);
        assert_eq!(inlet.offer(Some((CallNo(0), 3)), vec![delta(0, 4)]), Offered::Hole);
        assert_eq!(shown(&mut reader), ["0.0"], "nothing is taken over a hole");
        inlet.force(Some((CallNo(0), 3)), vec![delta(0, 4), delta(0, 7)]);
        assert_eq!(shown(&mut reader), ["-", "0.4", "-", "0.7"]);
        // The end of one call was lost, and the next one begins.
        assert_eq!(inlet.offer(Some((CallNo(0), 9)), vec![delta(1, 0)]), Offered::Hole);
        inlet.force(Some((CallNo(0), 9)), vec![delta(1, 0)]);
        assert_eq!(shown(&mut reader), ["-", "1.0"]);
    }

    #[test]
    fn a_reader_that_begins_at_a_call_is_spared_the_earlier_ones() {
        let live = Live::default();
        let mut reader = live.reader(run());
        reader.begin(CallNo(1));
        Inlet::new(&reader.ring).force(Some((CallNo(0), 4)), vec![delta(0, 5), delta(1, 0)]);
        assert_eq!(shown(&mut reader), ["1.0"]);
    }

    #[tokio::test]
    async fn what_is_said_here_is_whole_and_what_nobody_feeds_is_unsure() {
        struct Deaf;
        impl Far for Deaf {
            fn feed(&self, _run: RunId, _inlet: Inlet, _wanted: mpsc::Receiver<Wanted>) {}
        }
        let live = Live::default();
        assert_eq!(live.reader(run()).whole().await, Whole::Yes);
        live.reach(Box::new(Deaf));
        assert_eq!(live.reader(run()).whole().await, Whole::Unsure);
    }
}
