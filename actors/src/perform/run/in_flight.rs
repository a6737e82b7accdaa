//! What was reported so far of the usage of this node's calls in flight: a run that is stopped keeps what was seen.

use events::id::RunId;
use events::run::step::CallNo;
use events::usage::Usage;
use providers::Seen;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The calls in flight, no more than [`super::MODEL_CALLS_MAX`].
#[derive(Debug, Default)]
pub struct InFlight(
    // Held over no await.
    Mutex<BTreeMap<(RunId, CallNo), Seen>>,
);

/// One of them; it is known until this is dropped, also when it is aborted.
pub(super) struct Flight<'a> {
    all: &'a InFlight,
    place: (RunId, CallNo),
    pub(super) seen: Seen,
}

impl InFlight {
    pub(super) fn begin(&self, run: RunId, call: CallNo) -> Flight<'_> {
        let (place, seen) = ((run, call), Seen::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(place, seen.clone());
        Flight { all: self, place, seen }
    }

    /// What was seen of the newest call of a run; nothing of one that has none here.
    pub(super) fn usage(&self, run: RunId) -> Usage {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_run = all.range((run, CallNo(0))..=(run, CallNo(u32::MAX)));
        of_run.last().map(|(_, seen)| seen.usage()).unwrap_or_default()
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.place);
    }
}
