//! The issued keys, read from their streams before the first request, so that a key works from the first moment and a
//! revoked one never.

use crate::auth::Verifier;
use events::aggregate::Aggregate;
use events::codec::CodecError;
use events::key::{Event, Key};
use events::record::{Shard, StreamKind};
use futures_util::{StreamExt, pin_mut};
use store::{FollowError, Store, StoreError};

/// The keys' streams can not be read.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The journal.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// A fact of a newer build.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Tells the verifier every key that was issued and not revoked.
///
/// # Errors
///
/// When the journal can not be read.
pub(super) async fn load(store: &Store, verifier: &Verifier) -> Result<(), KeysError> {
    let shard = Shard::default();
    let newest = *store.notice(shard).borrow();
    if newest == 0 {
        return Ok(());
    }
    let log = store.follow(shard, 0);
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
