//! The one rule of appending, for every backend: what may fill the next slot of a stream, and what may not.
//!
//! The order of the questions matters. These very bytes standing already is a duplicate even when a later owner
//! has written since: comparing only the tail would call an own commit that landed a conflict.

use crate::{Append, BLOB_BYTES_MAX, Blob, Malformed};
use events::aggregate::Wake;
use events::journal::{ENTRIES_MAX, FRAME_BYTES_MAX, Frame, encode, hash};
use events::quantity::Instant;
use events::record::{
    BlobRef, Boot, Commit, CommitId, Epoch, Hash, JournalId, Payload, StreamKey, Tail, Version,
};

/// A checked append, encoded: what a backend needs and nothing else.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) stream: StreamKey,
    pub(crate) first: Version,
    pub(crate) last: Version,
    pub(crate) id: CommitId,
    pub(crate) epoch: Epoch,
    pub(crate) boot: Boot,
    pub(crate) prev: Hash,
    pub(crate) expected: Tail,
    pub(crate) wake: Option<i64>,
    pub(crate) frame: Frame,
    pub(crate) blobs: Vec<Blob>,
    /// Blobs that entries refer to and that are not given.
    pub(crate) referred: Vec<BlobRef>,
}

/// What a slot says to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fits,
    Fenced(Epoch),
    Conflict,
}

impl Candidate {
    /// Checks what no store could keep, then encodes. Runs on the caller's thread: the writer's is the scarce one.
    pub(crate) fn new(append: Append, ours: JournalId) -> Result<(Self, Commit), Malformed> {
        let Append { commit, expected, wake, blobs } = append;
        check(&commit, ours)?;
        for blob in &blobs {
            if blob.bytes.len() > BLOB_BYTES_MAX {
                return Err(Malformed::BlobTooLarge { bytes: blob.bytes.len() });
            }
            let bytes = u64::try_from(blob.bytes.len()).unwrap_or(u64::MAX);
            if blob.reference != (BlobRef { hash: hash(&blob.bytes), bytes }) {
                return Err(Malformed::BlobBytes(blob.reference.hash));
            }
        }
        let referred = commit.entries.iter().filter_map(|entry| match &entry.payload {
            Payload::Inline(_) => None,
            Payload::Blob(wanted) => {
                let given = blobs.iter().any(|blob| blob.reference == *wanted);
                (!given).then_some(*wanted)
            }
        });
        let referred = referred.collect();
        let frame = encode(&commit);
        if frame.bytes.len() > FRAME_BYTES_MAX {
            return Err(Malformed::TooLarge { bytes: frame.bytes.len() });
        }
        let candidate = Self {
            stream: commit.stream.clone(),
            first: commit.first_version,
            last: commit.last_version(),
            id: commit.id,
            epoch: commit.epoch,
            boot: commit.boot,
            prev: commit.prev,
            expected,
            wake: stored_wake(wake),
            frame,
            blobs,
            referred,
        };
        Ok((candidate, commit))
    }

    /// What the newest commit of the stream says to it.
    pub(crate) fn judge(&self, tail: &Tail) -> Verdict {
        if tail.epoch > self.epoch || (tail.epoch == self.epoch && tail.boot != self.boot) {
            return Verdict::Fenced(tail.epoch);
        }
        let expected = (self.expected.version, self.expected.hash, self.expected.sequence);
        let linked = (self.first, self.prev) == (tail.version.plus(1), tail.hash);
        if expected == (tail.version, tail.hash, tail.sequence) && linked {
            Verdict::Fits
        } else {
            Verdict::Conflict
        }
    }

    /// The stream's tail once it stands at `sequence`.
    pub(crate) fn tail(&self, sequence: u64) -> Tail {
        let Self { last, epoch, boot, frame, .. } = self;
        Tail { version: *last, hash: frame.hash, epoch: *epoch, boot: *boot, sequence }
    }

    /// What it takes of a transaction.
    pub(crate) fn bytes(&self) -> usize {
        let blobs: usize = self.blobs.iter().map(|blob| blob.bytes.len()).sum();
        self.frame.bytes.len().saturating_add(blobs)
    }
}

fn check(commit: &Commit, ours: JournalId) -> Result<(), Malformed> {
    if commit.journal != ours {
        return Err(Malformed::Journal { given: commit.journal, ours });
    }
    // A stream that does not read back would be a commit that does not read back.
    commit.stream.as_str().parse::<StreamKey>()?;
    let entries = commit.entries.len();
    if !(1..=ENTRIES_MAX).contains(&entries) {
        return Err(Malformed::Entries(entries));
    }
    let claimed = commit.causes.iter().map(|cause| usize::from(cause.entries)).sum();
    if claimed > entries || commit.causes.len() > ENTRIES_MAX {
        return Err(Malformed::Causes { claimed, entries });
    }
    if commit.first_version == Version::EMPTY {
        return Err(Malformed::FirstVersion);
    }
    Ok(())
}

/// The stored form of a wake: 0 is now, none is on command, else microseconds since 1970 (at least 1).
pub(crate) fn stored_wake(wake: Wake) -> Option<i64> {
    match wake {
        Wake::Now => Some(0),
        Wake::At(instant) => Some(instant.0.max(1)),
        Wake::OnCommand => None,
    }
}

/// What a stored wake means.
pub(crate) fn wake(stored: Option<i64>) -> Wake {
    match stored {
        None => Wake::OnCommand,
        Some(0) => Wake::Now,
        Some(micros) => Wake::At(Instant(micros)),
    }
}
