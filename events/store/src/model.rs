//! The rules of appending and of settling alone, for the model check in `tests`; no product code calls it.
//!
//! A model that was told the rule again would prove the copy.

pub use crate::jetstream::settle::{Heard, Seen, Settled, Settling, Step};
use crate::slot::{Candidate, Verdict};
use crate::{Append, Malformed};
use events::record::{Epoch, Tail};

/// What a slot says to an append, before any backend is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// It may be published.
    Fits,
    /// An owner of that epoch, or another life of this one, wrote last.
    Fenced(Epoch),
    /// It was decided on another tail.
    Conflict,
}

/// Judges an append by the newest commit of its stream.
///
/// # Errors
///
/// When no store could keep it.
pub fn judge(append: Append, tail: &Tail) -> Result<Judged, Malformed> {
    let journal = append.commit.journal;
    let (candidate, _) = Candidate::new(append, journal)?;
    Ok(match candidate.judge(tail) {
        Verdict::Fits => Judged::Fits,
        Verdict::Fenced(epoch) => Judged::Fenced(epoch),
        Verdict::Conflict => Judged::Conflict,
    })
}
