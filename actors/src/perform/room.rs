//! Room for model calls in flight: who comes first is let in first, and whoever waited too long keeps the place.
//!
//! A call that waits for room outlives its dispatch window, so it may not leave under the intent that it waited with. It
//! reports so once there is room, is intended anew, and finds its place kept: one more commit for each call that waited,
//! however long the queue is, and no call that starves or fails.

use crate::task;
use events::id::RunId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a place is kept for the next intent of its run: as long as that one could be sent.
const KEPT: Duration = Duration::from_millis(events::leave::DISPATCH_WINDOW.0);

/// Places for model calls. Clones are the same.
#[derive(Debug, Clone)]
pub struct Room {
    places: Arc<Semaphore>,
    // A std lock: it is held over no await.
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    places: BTreeMap<RunId, (u64, Place)>,
    /// Counts what was kept, so that a late end ends only its own.
    count: u64,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

impl Room {
    /// Room for so many calls.
    #[must_use]
    pub fn for_calls(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), kept: Arc::default() }
    }

    /// The place that was kept for a run, or the next one that is free. `None` once the node stops.
    pub(super) async fn enter(&self, run: RunId) -> Option<Place> {
        let kept = self.with(|kept| kept.places.remove(&run));
        match kept {
            Some((_, place)) => Some(place),
            None => Arc::clone(&self.places).acquire_owned().await.ok().map(Place),
        }
    }

    /// Keeps a place for the next call of a run, for a while.
    pub(super) fn keep(&self, run: RunId, place: Place) {
        let nth = self.with(|kept| {
            kept.count += 1;
            // A run has one call at a time, so no place of another one is given up.
            kept.places.insert(run, (kept.count, place));
            kept.count
        });
        let room = self.clone();
        task::spawn(task::Kind::Room, async move {
            tokio::time::sleep(KEPT).await;
            room.with(|kept| kept.places.retain(|_, (other, _)| *other != nth));
        });
    }

    fn with<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> T {
        what(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::Place as At;
    use futures_util::FutureExt;

    fn run(unique: u128) -> RunId {
        RunId::new(At::default(), unique)
    }

    #[tokio::test]
    async fn a_place_is_kept_for_its_run_and_for_a_while() {
        let room = Room::for_calls(1);
        let place = room.enter(run(1)).await.unwrap();
        room.keep(run(1), place);
        assert!(room.enter(run(2)).now_or_never().is_none(), "it is kept");
        let place = room.enter(run(1)).now_or_never().unwrap().unwrap();
        room.keep(run(1), place);
        // The first end of time finds another place there, and the second one ends it.
        let began = tokio::time::Instant::now();
        let place = room.enter(run(2)).await.unwrap();
        assert!(began.elapsed() >= KEPT - Duration::from_millis(100), "{:?}", began.elapsed());
        drop(place);
        assert!(room.enter(run(1)).now_or_never().is_some());
    }
}
