//! The streams of one kind as every node knows them: folded from the log of all shards, never asked for and never
//! written to. For what each node needs at once and few ever change: credentials, settings, grants.
//!
//! It is always a little behind, and says by how much: a decision that may not be stale is refused when that is more
//! than [`LAG_MAX`]. What a node sees for itself goes to the owner as a command and comes back by the log.

use crate::metric;
use crate::order::Observed;
use crate::task;
use events::aggregate::{Aggregate, IllegalEvent};
use events::codec::CodecError;
use events::record::{Position, Recorded, Shard, StreamKey, Version};
use futures_util::{StreamExt, pin_mut};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use store::{FollowError, Store, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How far behind a follower may be for a decision that may not be stale.
pub const LAG_MAX: Duration = Duration::from_secs(5);
/// How often the newest commit of a shard is asked for: half of what a follower may be behind while all is well (1 s).
const ASK_EVERY: Duration = Duration::from_millis(500);
/// The wait before a log that could not be read is asked for again.
const AGAIN: Duration = Duration::from_secs(1);
/// Commits of one page of a stream that is read from its beginning.
const PAGE_COMMITS: usize = 256;

/// Why the streams can not be followed now.
#[derive(Debug, thiserror::Error)]
pub enum FollowerError {
    /// The journal can not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log can not be followed.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// A fact of a newer build: this node's view stays as it was, and grows stale.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The log and the rules of this build disagree.
    #[error(transparent)]
    Illegal(#[from] IllegalEvent),
}

/// What is known is too old to decide on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this node is {} ms behind with what other nodes changed: ask again, or ask another node", .0.as_millis())]
pub struct Stale(pub Duration);

/// A fold of all streams of one kind; clones are the same.
pub struct Follower<A: Aggregate>(Arc<Shared<A>>);

struct Shared<A: Aggregate> {
    /// Held over no await.
    streams: RwLock<BTreeMap<A::Id, Observed<A>>>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    shards: Vec<Seen>,
}

/// How far one shard was read.
struct Seen {
    shard: Shard,
    position: watch::Sender<u64>,
    /// When all that stood in it then was read. Held over no await.
    whole: Mutex<Instant>,
}

impl<A: Aggregate> Clone for Follower<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: Aggregate> fmt::Debug for Follower<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("kind", &A::KIND).finish_non_exhaustive()
    }
}

impl<A: Aggregate> Follower<A> {
    /// Reads the streams of these ids, and then whatever any node writes to a stream of the kind. A stream of another
    /// id that was written to before is met with its next commit: name all that count.
    ///
    /// # Errors
    ///
    /// When the journal can not be read now.
    pub async fn start(
        store: Store,
        known: impl IntoIterator<Item = A::Id>,
    ) -> Result<(Self, Vec<JoinHandle<()>>), FollowerError> {
        let mut shards = Vec::new();
        for shard in store.shards() {
            let asked = Instant::now();
            let position = watch::Sender::new(store.newest(shard).await?);
            shards.push(Seen { shard, position, whole: Mutex::new(asked) });
        }
        let (streams, changes) = (RwLock::default(), watch::Sender::new(0));
        let follower = Self(Arc::new(Shared { streams, changes, shards }));
        for id in known {
            follower.catch_up(&store, id).await?;
        }
        let mut tasks = Vec::new();
        for nth in 0..follower.0.shards.len() {
            let keep = follower.clone().keep(store.clone(), nth);
            tasks.push(task::spawn(task::Kind::Follow, keep));
            let measure = follower.clone().measure(store.clone(), nth);
            tasks.push(task::spawn(task::Kind::Follow, measure));
        }
        Ok((follower, tasks))
    }

    /// What is known of one stream; the empty fold when there is none.
    #[must_use]
    pub fn get(&self, id: &A::Id) -> Observed<A> {
        let streams = self.0.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.get(id).cloned().unwrap_or_else(nothing)
    }

    /// All streams that have an entry.
    #[must_use]
    pub fn all(&self) -> Vec<(A::Id, Observed<A>)> {
        let streams = self.0.streams.read().unwrap_or_else(PoisonError::into_inner);
        let written = streams.iter().filter(|(_, observed)| observed.version > Version::EMPTY);
        written.map(|(id, observed)| (*id, observed.clone())).collect()
    }

    /// Counts what became known: what was worked out from it is still right while the number is the same.
    #[must_use]
    pub fn known(&self) -> u64 {
        *self.0.changes.borrow()
    }

    /// Changes whenever something becomes known.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// How far behind it is at most: so long ago everything that stood in the log was known.
    #[must_use]
    pub fn lag(&self) -> Duration {
        let whole = |seen: &Seen| *seen.whole.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = self.0.shards.iter().map(whole).min();
        oldest.map_or(Duration::ZERO, |oldest| oldest.elapsed())
    }

    /// Whether a decision may rest on it.
    ///
    /// # Errors
    ///
    /// [`Stale`] when it is more than [`LAG_MAX`] behind.
    pub fn fresh(&self) -> Result<(), Stale> {
        let lag = self.lag();
        if lag > LAG_MAX { Err(Stale(lag)) } else { Ok(()) }
    }

    /// Follows one shard for as long as the node lives. What can not be read is asked for again; until then the view is
    /// the one of before, and its lag shows.
    async fn keep(self, store: Store, nth: usize) {
        let Some(seen) = self.0.shards.get(nth) else { return };
        loop {
            if let Err(error) = self.follow(&store, seen).await {
                let error: &dyn std::error::Error = &error;
                let (kind, shard) = (A::KIND.name(), seen.shard.0);
                tracing::warn!(kind, shard, error, "what other nodes change is not learned now");
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn follow(&self, store: &Store, seen: &Seen) -> Result<(), FollowerError> {
        let after = *seen.position.borrow();
        let log = store.follow(seen.shard, after);
        pin_mut!(log);
        while let Some(recorded) = log.next().await {
            let recorded = recorded?;
            self.take(store, &recorded).await?;
            seen.position.send_replace(recorded.position.sequence);
        }
        Ok(())
    }

    async fn take(&self, store: &Store, recorded: &Recorded) -> Result<(), FollowerError> {
        let stream = &recorded.commit.stream;
        if stream.kind() != A::KIND {
            return Ok(());
        }
        let Some(id) = A::id(stream) else { return Ok(()) };
        let before = self.get(&id);
        if recorded.commit.last_version() <= before.version {
            return Ok(());
        }
        if recorded.commit.first_version != before.version.plus(1) {
            return self.catch_up(store, id).await;
        }
        let after = folded(store, before, recorded).await?;
        self.believe(id, after);
        Ok(())
    }

    /// Reads a stream from where it is known to.
    async fn catch_up(&self, store: &Store, id: A::Id) -> Result<(), FollowerError> {
        let stream: StreamKey = A::stream(&id);
        let mut observed = self.get(&id);
        loop {
            let page = store.read(&stream, observed.version, PAGE_COMMITS).await?;
            for recorded in &page {
                observed = folded(store, observed, recorded).await?;
            }
            if page.len() < PAGE_COMMITS {
                break;
            }
        }
        if observed.version > Version::EMPTY {
            self.believe(id, observed);
        }
        Ok(())
    }

    /// Two tasks never write of one stream: it stands in one shard.
    fn believe(&self, id: A::Id, observed: Observed<A>) {
        let mut streams = self.0.streams.write().unwrap_or_else(PoisonError::into_inner);
        streams.insert(id, observed);
        drop(streams);
        self.0.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Asks for the newest commit of a shard, waits until it was read, and notes when that was the newest.
    async fn measure(self, store: Store, nth: usize) {
        let Some(seen) = self.0.shards.get(nth) else { return };
        loop {
            let asked = Instant::now();
            if let Ok(newest) = store.newest(seen.shard).await {
                let mut position = seen.position.subscribe();
                let read = position.wait_for(|position| *position >= newest);
                // Looked at again now and then, so that the metric moves while it waits.
                if let Ok(Ok(_)) = tokio::time::timeout(LAG_MAX, read).await {
                    *seen.whole.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                }
            }
            metric::lags(A::KIND, self.lag());
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}

fn nothing<A: Aggregate>() -> Observed<A> {
    let state = Arc::new(A::State::default());
    Observed { version: Version::EMPTY, position: Position::default(), state }
}

async fn folded<A: Aggregate>(
    store: &Store,
    before: Observed<A>,
    recorded: &Recorded,
) -> Result<Observed<A>, FollowerError> {
    let mut state = Arc::unwrap_or_clone(before.state);
    for entry in &recorded.commit.entries {
        let payload = store.payload(entry).await?;
        state = A::evolve(state, &A::decode(entry.kind, entry.schema, &payload)?)?;
    }
    let (version, position) = (recorded.commit.last_version(), recorded.position);
    Ok(Observed { version, position, state: Arc::new(state) })
}
