//! The issued keys, read from their streams before the first request, so that a key works from the first moment and a
//! revoked one never.

use crate::auth::Verifier;
use events::aggregate::Aggregate;
use events::codec::CodecError;
use events::key::{Event, Issued, Key};
use events::record::{Position, StreamKind};
use futures_util::{StreamExt, pin_mut};
use projections::{Handle, Reach, ReadError};
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

/// Tells the verifier every key that was issued and not revoked: from the read model as far as it has got in each
/// shard, and from the log of every shard for the rest.
///
/// # Errors
///
/// When the journal or the read model can not be read.
pub async fn load(store: &Store, views: &Handle, verifier: &Verifier) -> Result<(), KeysError> {
    let mut after = None;
    let mut folded: Option<Reach> = None;
    loop {
        let page = views.keys(after).await?;
        folded = Some(folded.map_or_else(|| page.at.clone(), |folded| folded.lower(&page.at)));
        for row in page.rows.into_iter().filter(|row| row.revoked.is_none()) {
            verifier.insert(row.id, &Issued { name: row.name, role: row.role, hash: row.hash });
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    // Once it has counted them, the store knows the newest commit of each shard.
    store.stats().await?;
    let folded = folded.unwrap_or_default();
    for shard in store.shards() {
        let after = Position { shard, sequence: folded.of(shard) };
        follow(store, after, verifier).await?;
    }
    Ok(())
}

/// The rest of one shard. A key's facts are all in one, so no order across shards is needed.
async fn follow(store: &Store, after: Position, verifier: &Verifier) -> Result<(), KeysError> {
    let newest = *store.notice(after.shard).borrow();
    if newest <= after.sequence {
        return Ok(());
    }
    let log = store.follow(after.shard, after.sequence);
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
