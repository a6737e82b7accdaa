//! The issued keys, read from their streams before the first request, so that a key works from the first moment and a
//! revoked one never.

use super::patience::until_it_reads;
use crate::app::App;
use crate::auth::Verifier;
use actors::entropy::Entropy;
use events::aggregate::Aggregate;
use events::codec::CodecError;
use events::key::{Event, Issued, Key};
use events::record::{Position, StreamKind};
use futures_util::{StreamExt, pin_mut};
use projections::{Handle, Reach, ReadError};
use store::{FollowError, Store, StoreError};

/// The wait before a log that could not be read is asked for again.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

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
    #[error("the log of the keys can not be followed")]
    Follow(#[from] FollowError),
    /// A fact of a newer build.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Bytes for a key.
pub(super) fn drawn(entropy: &Entropy) -> [u8; 32] {
    let mut bytes = [0; 32];
    let (low, high) = bytes.split_at_mut(16);
    low.copy_from_slice(&entropy.draw().to_le_bytes());
    high.copy_from_slice(&entropy.draw().to_le_bytes());
    bytes
}

/// Tells the verifier every key that was issued and not revoked: from the read model as far as it has got in each
/// shard, and from the log of every shard for the rest. Says how far it has read in each, for whoever goes on from there.
///
/// # Errors
///
/// When the journal or the read model can not be read.
pub async fn load(
    store: &Store,
    views: &Handle,
    verifier: &Verifier,
) -> Result<Vec<Position>, KeysError> {
    until_it_reads(async || loaded(store, views, verifier).await).await
}

async fn loaded(
    store: &Store,
    views: &Handle,
    verifier: &Verifier,
) -> Result<Vec<Position>, KeysError> {
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
    let mut read = Vec::new();
    for shard in store.shards() {
        let mut at = Position { shard, sequence: folded.of(shard) };
        let newest = *store.notice(shard).borrow();
        if newest > at.sequence {
            learn(store, &mut at, Some(newest), verifier).await?;
        }
        read.push(at);
    }
    Ok(read)
}

/// Learns what other nodes issue and revoke in one shard, for as long as the node lives. What can not be read is asked
/// for again: until then the keys are those of before.
pub(super) async fn keep(app: App, mut at: Position) {
    loop {
        if let Err(error) = learn(app.store(), &mut at, None, &app.verifier).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(shard = at.shard.0, error, "keys of other nodes are not learned now");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The keys of one shard from a position on, up to a sequence or for ever. A key's facts are all in one shard, so no
/// order across shards is needed.
async fn learn(
    store: &Store,
    at: &mut Position,
    until: Option<u64>,
    verifier: &Verifier,
) -> Result<(), KeysError> {
    let log = store.follow(at.shard, at.sequence);
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
        *at = recorded.position;
        if until.is_some_and(|newest| at.sequence >= newest) {
            return Ok(());
        }
    }
    Ok(())
}
