//! What was reported of a call's usage while it runs, for whoever gives it up before its end: several families say the
//! input at the start of a stream, and what was read of it is paid whether or not the rest is.

use events::usage::Usage;
use std::sync::{Arc, Mutex, PoisonError};

/// The usage of one call so far. All clones are one.
#[derive(Debug, Clone, Default)]
pub struct Seen(
    // A lock for a copy of a few words; held over no await.
    Arc<Mutex<Usage>>,
);

impl Seen {
    /// What was reported so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, usage: Usage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }
}
