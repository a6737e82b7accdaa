//! The one cursor loop: catching up and live are the same code, so there is no moment to lose a commit in.
//!
//! A notice only means "look again from your cursor". The loop asserts that sequences have no gap; a gap, or a
//! cursor ahead of the log (a restored journal), ends it with a named error rather than a skipped commit.

use crate::{Store, StoreError};
use events::record::{Recorded, Shard};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};

/// Commits of one page; short, so that no read holds the write-ahead log back.
pub(crate) const PAGE_COMMITS: usize = 256;
/// Frame bytes after which a page is full.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// Why a follower stopped. It must not go on by itself.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// A commit is missing. Verify the journal.
    #[error("sequence {after} is followed by {found}")]
    Gap {
        /// The last one that was seen.
        after: u64,
        /// What came next.
        found: u64,
    },
    /// The cursor names a commit that the log does not have: the server that answers is behind, or the journal was rolled
    /// back. Ask again; if it stays so, rebuild from the start.
    #[error(
        "the cursor stands at {cursor}, but the log ends at {newest}: the server that answers is behind, or the journal was rolled back"
    )]
    Ahead {
        /// Where the follower stands.
        cursor: u64,
        /// The newest commit.
        newest: u64,
    },
    /// This store has no such shard.
    #[error("this store has no shard {}", .0.0)]
    NoShard(Shard),
    /// The store could not answer, or is damaged.
    #[error("the store could not be read")]
    Store(#[from] StoreError),
}

pub(crate) fn follow(
    store: Store,
    shard: Shard,
    after: u64,
) -> impl Stream<Item = Result<Recorded, FollowError>> + Send + use<> {
    let notice = store.notice(shard);
    stream::try_unfold((store, notice, after), move |(store, mut notice, cursor)| async move {
        loop {
            // Before the look, so that what lands during it is not slept through.
            notice.mark_unchanged();
            let page = store.page(shard, cursor).await?;
            if let Some(last) = page.last() {
                let next = last.position.sequence;
                contiguous(&page, cursor)?;
                return Ok(Some((stream::iter(page).map(Ok), (store, notice, next))));
            }
            if notice.changed().await.is_err() {
                return Err(FollowError::Store(StoreError::Closed));
            }
        }
    })
    .try_flatten()
}

fn contiguous(page: &[Recorded], cursor: u64) -> Result<(), FollowError> {
    let mut after = cursor;
    for recorded in page {
        let found = recorded.position.sequence;
        if found != after.saturating_add(1) {
            return Err(FollowError::Gap { after, found });
        }
        after = found;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::record::{
        Boot, Commit, CommitId, Epoch, Hash, JournalId, Position, StreamKey, StreamKind, Version,
    };

    fn at(sequence: u64) -> Recorded {
        let commit = Commit {
            journal: JournalId(1),
            stream: StreamKey::named(StreamKind::Probe, "a"),
            first_version: Version(1),
            epoch: Epoch(1),
            boot: Boot(1),
            id: CommitId(1),
            at: events::quantity::Instant(1),
            causes: vec![],
            prev: Hash::default(),
            entries: vec![],
        };
        Recorded { position: Position { shard: Shard(0), sequence }, hash: Hash::default(), commit }
    }

    #[test]
    fn a_page_with_a_gap_is_not_handed_out() {
        assert!(contiguous(&[at(4), at(5)], 3).is_ok());
        assert!(matches!(
            contiguous(&[at(4), at(6)], 3),
            Err(FollowError::Gap { after: 4, found: 6 })
        ));
        assert!(matches!(contiguous(&[at(3)], 3), Err(FollowError::Gap { after: 3, found: 3 })));
    }
}
