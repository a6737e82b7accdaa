//! Commits on their way to the folds: fetched, decoded, and gathered into what one transaction takes.
//!
//! What does not decode is carried along with its reason, for only a fold that reads that stream is halted by it.

use events::catalogue::Fact;
use events::codec::CodecError;
use events::quantity::Instant;
use events::record::{Entry, Hash, Payload, Position, Recorded, Shard, StreamKey};
use futures_util::{FutureExt, Stream, StreamExt};
use store::{FollowError, Store, StoreError};

/// Commits of one transaction. Enough that its cost vanishes, few enough that a reader sees rows soon.
pub(crate) const BATCH_COMMITS: usize = 512;
/// Payload bytes of one transaction (8 MiB), for they are all in memory at once.
const BATCH_BYTES: u64 = 8 << 20;

/// How a build reads an entry. A value, so that a test can be an older build.
pub(crate) type Decode = fn(&StreamKey, u16, u16, &[u8]) -> Result<Fact, CodecError>;

/// A commit as the folds see it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) position: Position,
    pub(crate) hash: Hash,
    pub(crate) stream: StreamKey,
    pub(crate) at: Instant,
    pub(crate) facts: Result<Vec<Fact>, Unreadable>,
}

/// Why a commit's facts are not at hand, and will not be by trying again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("{0}")]
    Payload(String),
}

/// What one transaction takes, all of one shard.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) shard: Shard,
    pub(crate) commits: Vec<Decoded>,
    /// Entries of those commits.
    pub(crate) entries: u64,
    /// Why there will be no more.
    pub(crate) end: Option<FollowError>,
}

/// Whether the same question may have an answer later.
pub(crate) fn is_passing(error: &StoreError) -> bool {
    match error {
        StoreError::Outage(_) | StoreError::Sqlite(_) | StoreError::Closed => true,
        StoreError::Corrupt { .. }
        | StoreError::NoBlob(_)
        | StoreError::Erased(_)
        | StoreError::SnapshotTooLarge { .. } => false,
    }
}

/// An error and all its causes in one line: they are stored, and shown without their source.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn size(entry: &Entry) -> u64 {
    match &entry.payload {
        Payload::Inline(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        Payload::Blob(blob) => blob.bytes,
    }
}

async fn facts(
    store: &Store,
    decode: Decode,
    recorded: &Recorded,
) -> Result<Result<Vec<Fact>, Unreadable>, StoreError> {
    let mut facts = Vec::with_capacity(recorded.commit.entries.len());
    for entry in &recorded.commit.entries {
        if entry.seal.is_some() {
            return Ok(Err(CodecError::Absent { kind: entry.kind }.into()));
        }
        let payload = match store.payload(entry).await {
            Ok(payload) => payload,
            Err(error) if is_passing(&error) => return Err(error),
            Err(error) => return Ok(Err(Unreadable::Payload(chain(&error)))),
        };
        match decode(&recorded.commit.stream, entry.kind, entry.schema, &payload) {
            Ok(fact) => facts.push(fact),
            Err(error) => return Ok(Err(error.into())),
        }
    }
    Ok(Ok(facts))
}

/// The first commit and whatever is there already after it, within the bounds of a transaction.
///
/// # Errors
///
/// When a payload could not be fetched now; nothing of the batch is handled then.
pub(crate) async fn gather(
    store: &Store,
    decode: Decode,
    shard: Shard,
    first: Result<Recorded, FollowError>,
    log: &mut (impl Stream<Item = Result<Recorded, FollowError>> + Unpin),
) -> Result<Batch, StoreError> {
    let mut batch = Batch { shard, commits: vec![], entries: 0, end: None };
    let (mut next, mut bytes) = (Some(first), 0_u64);
    while let Some(one) = next {
        let recorded = match one {
            Ok(recorded) => recorded,
            Err(end) => {
                batch.end = Some(end);
                break;
            }
        };
        let facts = facts(store, decode, &recorded).await?;
        let entries = recorded.commit.entries.iter();
        bytes = entries.map(size).fold(bytes, u64::saturating_add);
        let count = u64::try_from(recorded.commit.entries.len()).unwrap_or(u64::MAX);
        batch.entries = batch.entries.saturating_add(count);
        let Recorded { position, hash, commit } = recorded;
        let (stream, at) = (commit.stream, commit.at);
        batch.commits.push(Decoded { position, hash, stream, at, facts });
        if batch.commits.len() >= BATCH_COMMITS || bytes >= BATCH_BYTES {
            break;
        }
        // Whatever would have to be waited for is of the next transaction.
        next = log.next().now_or_never().flatten();
    }
    Ok(batch)
}
