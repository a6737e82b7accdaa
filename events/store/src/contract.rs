//! What is given to a store and what it answers, the same for every backend.
//!
//! Version *e + 1* of a stream is a slot that exactly one commit can fill. A caller that was not answered does not
//! know whether its commit fills the slot: it publishes the same bytes again until the slot is seen filled.

use events::aggregate::Wake;
use events::journal::{ENTRIES_MAX, FRAME_BYTES_MAX};
use events::record::{BlobRef, Commit, Epoch, Hash, JournalId, Position, StreamKey, Tail, Version};
use std::sync::Arc;

/// Bytes that are too large for a commit, with the name that an entry of the commit refers to.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// The SHA-256 of `bytes`, and how many they are.
    pub reference: BlobRef,
    /// The stored bytes.
    pub bytes: Arc<[u8]>,
}

impl Blob {
    /// Names bytes.
    #[must_use]
    pub fn new(bytes: Arc<[u8]>) -> Self {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self { reference: BlobRef { hash: events::journal::hash(&bytes), bytes: size }, bytes }
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "blob {} of {} bytes", self.reference.hash, self.reference.bytes)
    }
}

/// A commit to append, and what it was decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The commit; it links to `expected` by its `prev` and `first_version`.
    pub commit: Commit,
    /// The newest commit of the stream, as far as the caller knows. Its epoch and boot are informative.
    pub expected: Tail,
    /// When the stream must be looked at again. Outside the hash: it can be derived from the entries.
    pub wake: Wake,
    /// Bytes that the entries refer to; stored with the commit or not at all.
    pub blobs: Vec<Blob>,
}

/// What an append came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// It is durable.
    Appended {
        /// Where it stands.
        position: Position,
        /// What the next commit links to.
        tail: Tail,
    },
    /// These very bytes stood already, from an earlier try. They may have been folded already.
    Duplicate {
        /// Where they stand.
        position: Position,
        /// The stream's version after them.
        version: Version,
    },
    /// The slot is taken by another commit, or the commit does not fit the tail. Read again and decide again.
    Conflict {
        /// The newest commit of the stream.
        tail: Tail,
    },
    /// A later owner, or another life of this one, has written to the stream. Stop being its owner.
    Fenced {
        /// Whose commit stands last.
        epoch: Epoch,
    },
    /// Nobody can say. Publish the same bytes again: the answer settles it.
    Unknown(Outage),
    /// No store could keep this commit, ever. The fault is its writer's; trying again does not help.
    Malformed(Malformed),
}

/// Why nobody can say what an append came to, or why a probe did not land.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Outage {
    /// The answer was lost.
    #[error("the store's answer was lost")]
    Lost,
    /// No space is left.
    #[error("the disk is full: free some space, then the store goes on by itself")]
    Full,
    /// The store could not be used; the text says how it failed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
}

/// Why no store could keep a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is too large. Move payloads to blobs ([`crate::spill`]), or make two commits of it.
    #[error("a commit of {bytes} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLarge {
        /// What it would take.
        bytes: usize,
    },
    /// It has none, or too many.
    #[error("a commit has 1 to {ENTRIES_MAX} entries, not {0}")]
    Entries(usize),
    /// Too many causes, or they claim more entries than there are.
    #[error("causes account for {claimed} entries of {entries}")]
    Causes {
        /// What the causes add up to.
        claimed: usize,
        /// What there is.
        entries: usize,
    },
    /// The first version of a stream is 1.
    #[error("the first entry of a stream has version 1, not 0")]
    FirstVersion,
    /// It was made for another journal.
    #[error("the commit belongs to journal {given}, this is {ours}")]
    Journal {
        /// What the commit says.
        given: JournalId,
        /// What the store is.
        ours: JournalId,
    },
    /// It could not be read back.
    #[error(transparent)]
    Stream(#[from] events::record::NotAStream),
    /// Make several of it.
    #[error("a blob of {bytes} bytes is over the limit of {max}", max = crate::BLOB_BYTES_MAX)]
    BlobTooLarge {
        /// What was given.
        bytes: usize,
    },
    /// The bytes of a blob are not what its reference says.
    #[error("the bytes given for blob {0} do not hash to it")]
    BlobBytes(Hash),
    /// An entry refers to a blob that is neither given nor stored.
    #[error("blob {0} is neither given with the commit nor stored")]
    BlobMissing(Hash),
}

/// A stream to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Which one.
    pub stream: StreamKey,
    /// Why: [`Wake::Now`], or a deadline of its own.
    pub wake: Wake,
}

/// How much a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Commits in all; also the newest sequence.
    pub commits: u64,
    /// Entries in all.
    pub entries: u64,
    /// Streams with at least one commit.
    pub streams: u64,
    /// Blobs, the erased ones not counted.
    pub blobs: u64,
    /// Bytes of the database file; zero in memory.
    pub file_bytes: u64,
    /// Bytes of the write-ahead log; zero in memory.
    pub wal_bytes: u64,
    /// How often this journal was restored from a copy. Part of every cursor that is kept outside the store.
    pub restores: u64,
    /// The hash over (sequence, commit hash) up to the newest commit.
    pub rolling: Hash,
}
