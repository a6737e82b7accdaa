//! A state from the log itself, for an asker whose build has another shape of it than the owner's.
//!
//! Two builds share the events, never the folds: while a cluster is upgraded the owner's state does not read here.

use events::aggregate::{Aggregate, IllegalEvent};
use events::codec::CodecError;
use events::record::Version;
use store::{Store, StoreError};

/// Commits of one page.
const PAGE_COMMITS: usize = 256;

/// Why there is no such state here.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefoldError {
    #[error("the stream can not be read")]
    Store(#[from] StoreError),
    #[error("the stream does not decode in this build")]
    Codec(#[from] CodecError),
    #[error("the log and the rules of this build disagree")]
    Illegal(#[from] IllegalEvent),
    #[error("the stream ends before version {}", .0.0)]
    Short(Version),
}

/// The fold of a stream up to exactly a version.
pub(super) async fn refold<A: Aggregate>(
    store: &Store,
    id: &A::Id,
    upto: Version,
) -> Result<A::State, RefoldError> {
    let stream = A::stream(id);
    let (mut state, mut version) = (A::State::default(), Version::EMPTY);
    while version < upto {
        let page = store.read(&stream, version, PAGE_COMMITS).await?;
        if page.is_empty() {
            return Err(RefoldError::Short(upto));
        }
        for recorded in page.iter().take_while(|recorded| recorded.commit.last_version() <= upto) {
            for entry in &recorded.commit.entries {
                let payload = store.payload(entry).await?;
                state = A::evolve(state, &A::decode(entry.kind, entry.schema, &payload)?)?;
            }
            version = recorded.commit.last_version();
        }
        let passed = page.last().is_some_and(|last| last.commit.last_version() > upto);
        if passed && version < upto {
            return Err(RefoldError::Short(upto));
        }
    }
    Ok(state)
}
