//! Commits without meaning, for the store's own stories: a stream, what stands in it, and the next commit of it.

use events::aggregate::Wake;
use events::id::digest;
use events::journal::{encode, hash};
use events::quantity::{Instant, Millis};
use events::record::{
    Boot, Commit, CommitId, Entry, Epoch, JournalId, Payload, Recorded, StreamKey, StreamKind,
    Tail, Version,
};
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Append, Appended, Store};

/// The journal of every story.
pub const JOURNAL: JournalId = JournalId(0x0070_6974_6f6e);

/// A stream of the tests' own.
pub fn stream(name: &str) -> StreamKey {
    StreamKey::named(StreamKind::Probe, name)
}

/// An id that no other commit of this process and boot has; processes on one journal need a boot each.
pub fn fresh(boot: Boot) -> CommitId {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
    CommitId(digest(&[
        &boot.0.to_le_bytes(),
        &drawn.to_le_bytes(),
        &std::process::id().to_le_bytes(),
    ]))
}

pub fn entry(payload: &[u8]) -> Entry {
    Entry { kind: 1, schema: 1, seal: None, payload: Payload::Inline(payload.into()) }
}

/// A commit that follows `tail`, by this owner, with an entry for each payload.
pub fn after(store: &Store, stream: &StreamKey, tail: Tail, payloads: &[&[u8]]) -> Append {
    by((store.epoch(stream.partition()), store.boot()), store, stream, tail, payloads)
}

/// As [`after`], by another owner.
pub fn by(
    (epoch, boot): (Epoch, Boot),
    store: &Store,
    stream: &StreamKey,
    tail: Tail,
    payloads: &[&[u8]],
) -> Append {
    let commit = Commit {
        journal: store.journal(),
        stream: stream.clone(),
        first_version: tail.version.plus(1),
        epoch,
        boot,
        id: fresh(boot),
        at: Instant(1_700_000_000_000_000 + i64::try_from(tail.version.0).unwrap()),
        causes: vec![],
        prev: tail.hash,
        entries: payloads.iter().map(|payload| entry(payload)).collect(),
    };
    let wake = wake_after(&commit);
    Append { commit, expected: tail, wake, blobs: vec![] }
}

/// The tests' rule for a wake: a second after the newest commit was decided.
pub fn wake_after(commit: &Commit) -> Wake {
    Wake::At(commit.at.after(Millis(1_000)))
}

/// The same rule over a whole stream, for a verification.
pub fn wake_of(
    _: &StreamKey,
    commits: &[Recorded],
    _: store::verify::Payloads<'_>,
) -> Option<Wake> {
    commits.last().map(|recorded| wake_after(&recorded.commit))
}

/// The tail that an append leaves when it lands at `sequence`.
pub fn tail_of(append: &Append, sequence: u64) -> Tail {
    let Commit { epoch, boot, .. } = append.commit;
    let version = append.commit.last_version();
    Tail { version, hash: encode(&append.commit).hash, epoch, boot, sequence }
}

/// Appends and insists that it landed.
#[track_caller]
pub fn landed(appended: &Appended) -> Tail {
    match appended {
        Appended::Appended { tail, .. } => *tail,
        other => panic!("not appended: {other:?}"),
    }
}

/// Appends one commit to a stream, after what stands there.
pub async fn grow(store: &Store, stream: &StreamKey, payloads: &[&[u8]]) -> Tail {
    let tail = store.tail(stream).await.unwrap();
    landed(&store.append(after(store, stream, tail, payloads)).await)
}

/// Everything in a stream.
pub async fn all(store: &Store, stream: &StreamKey) -> Vec<Recorded> {
    store.read(stream, Version::EMPTY, usize::MAX).await.unwrap()
}

/// Numbers that look random and come again for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Below `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 += 1;
        let drawn = hash(&self.0.to_le_bytes()).0;
        u64::from_le_bytes(drawn[..8].try_into().unwrap()) % below
    }
}
