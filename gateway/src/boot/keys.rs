//! The issued keys, read from their streams before the first request, so that a key works from the first moment and a
//! revoked one never.

use crate::auth::Verifier;
use events::aggregate::Aggregate;
use events::codec::CodecError;
use events::key::{Event, Issued, Key};
use events::record::{Shard, StreamKind};
use futures_util::{StreamExt, pin_mut};
use projections::{Handle, ReadError};
use store::{FollowError, Store, StoreError};

/// The keys' streams can not be read.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The journal.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The read model.
    #[error(transparent)]
    Views(#[from] ReadError),
    /// The log.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// A fact of a newer build.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Tells the verifier every key that was issued and not revoked: from the read model as far as it has got, and from
/// the log for the rest.
///
/// # Errors
///
/// When the journal or the read model can not be read.
pub(super) async fn load(
    store: &Store,
    views: &Handle,
    verifier: &Verifier,
) -> Result<(), KeysError> {
    let mut after = None;
    let mut folded = u64::MAX;
    loop {
        let page = views.keys(after).await?;
        folded = folded.min(page.at.sequence);
        for row in page.rows.into_iter().filter(|row| row.revoked.is_none()) {
            verifier.insert(row.id, &Issued { name: row.name, role: row.role, hash: row.hash });
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    follow(store, folded, verifier).await
}

async fn follow(store: &Store, after: u64, verifier: &Verifier) -> Result<(), KeysError> {
    let shard = Shard::default();
    let newest = *store.notice(shard).borrow();
    if newest <= after {
        return Ok(());
    }
    let log = store.follow(shard, after);
    pin_mut!(log);
    while let Some(recorded) = log.next().await {
        let recorded = recorded?;
        let stream = &recorded.commit.stream;
        if let (StreamKind::Key, Some(id)) = (stream.kind(), Key::id(stream)) {
            for entry in &recorded.commit.entries {
                let payload = store.payload(entry).await?;
                match Event::decode(entry.kind, entry.schema, &payload)? {
                    Event::Issued(issued) => verifier.insert(id, &issued),
                    Event::Revoked(_) => verifier.remove(id),
                }
            }
        }
        if recorded.position.sequence >= newest {
            return Ok(());
        }
    }
    Ok(())
}
