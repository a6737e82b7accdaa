//! A journal on a NATS cluster: a `JetStream` stream for each shard, one message for each commit.
//!
//! Streams are made once, with the journal, and never again. What an answer left open is settled by looking into the
//! slot ([`settle`]); nothing is published into a connection that is down; and unless it is allowed, no server is used
//! that acknowledges before its disk has the bytes. Absent on purpose: a consumer for each stream key, deletion,
//! a fall-back to weaker settings.
//!
//! The stream of shard k of namespace n is `EV_<n>_<k>_<generation>` (n may hold underscores: it is read from its
//! end), of the subjects `ev.<n>.<p>.<kind>.<id>` with p mod 8 = k.

mod api;
mod append;
mod blob;
mod error;
mod found;
mod index;
mod link;
mod message;
mod opening;
mod read;
mod settings;
pub mod settle;
mod shard;
mod snapshot;
mod sync;
mod verify;

use crate::slot::Candidate;
use crate::verify::Report;
use crate::{Appended, Blob, Due, FollowError, Outage, Snapshot, Stats, StoreError};
use api::persist;
pub(crate) use api::{Ask, context, leader, publish, unavailable};
pub use error::{ConnectError, SERVER_NEEDED, Unsafe};
use events::id::{Generation, Partition};
use events::quantity::Instant;
use events::record::{BlobRef, Epoch, Hash, JournalId, Recorded, Shard, StreamKey, Tail, Version};
use events::subject::{Meta, Namespace, Subject};
use futures_util::future::try_join_all;
use link::Link;
pub use link::client;
pub use settings::{Connect, Credentials, LazySync, OUTAGE_MAX, SHARD_BYTES_MAX, SHARDS, Servers};
use settings::{IN_FLIGHT_MAX, READ_MAX, TAILS_MAX, WAIT_MAX};
use shard::ShardView;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use sync::Keeper;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use verify::WakeOf;

/// Appends of one stream go one after the other; streams that share a lane do too. Enough that few do.
const LANES: usize = 4_096;
/// Bytes that a shard must have free before it is not called full: the largest commit and its headers, with some room.
const ROOM_MIN: i64 = 2 << 20;

/// Where a commit of a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    version: Version,
    hash: Hash,
    sequence: u64,
}

/// What is proved of the servers' syncing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sync {
    /// Every server syncs before it acknowledges; looked at within the last minute.
    Proved,
    /// It was proved, and a server does not answer now: it acknowledges nothing either.
    Silent(String),
    /// It is not so, or was never proved: a power failure may lose what was acknowledged.
    Lazy(String),
}

/// A handle on the journal.
#[derive(Debug, Clone)]
pub(crate) struct JetStream(Arc<Owned>);

/// What ends with the last handle.
#[derive(Debug)]
struct Owned {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

#[derive(Debug)]
struct Shared {
    link: Arc<Link>,
    namespace: Namespace,
    journal: JournalId,
    /// In the order of their numbers.
    shards: Vec<Arc<ShardView>>,
    /// The first of them, for there is always one.
    first: Arc<ShardView>,
    room: Semaphore,
    lanes: Vec<tokio::sync::Mutex<()>>,
    spare: tokio::sync::Mutex<()>,
    lane_of: RandomState,
    /// Std locks, held over no await. Both are caches and thrown away when they are full.
    tails: Mutex<HashMap<StreamKey, Tail>>,
    places: Mutex<HashMap<StreamKey, Place>>,
    sync: watch::Sender<Sync>,
    lazy_sync: LazySync,
    monitors: Vec<String>,
    keepers: Vec<Keeper>,
}

impl JetStream {
    /// Finds the journal or makes it, and follows its shards.
    #[expect(clippy::disallowed_methods, reason = "no actor's tasks: they end with the handle")]
    pub(crate) async fn open(connect: &Connect) -> Result<Self, ConnectError> {
        let link = Arc::new(Link::open(connect.servers.clone()).await?);
        let client = link.life().client;
        let (found, sync) = opening::find(&client, connect).await?;
        opening::tell(&sync);
        let namespace = connect.namespace.clone();
        let view = |k: u16| {
            Arc::new(ShardView::new(Shard(k), namespace.shard_stream(k, Generation::FIRST)))
        };
        let first = view(0);
        let shards = std::iter::once(Arc::clone(&first)).chain((1..SHARDS).map(view)).collect();
        let shared = Arc::new(Shared {
            link: Arc::clone(&link),
            namespace: namespace.clone(),
            journal: found.journal,
            first: Arc::clone(&first),
            shards,
            room: Semaphore::new(IN_FLIGHT_MAX),
            lanes: (0..LANES).map(|_| tokio::sync::Mutex::new(())).collect(),
            spare: tokio::sync::Mutex::default(),
            lane_of: RandomState::new(),
            tails: Mutex::default(),
            places: Mutex::default(),
            sync: watch::Sender::new(sync),
            lazy_sync: connect.lazy_sync,
            monitors: connect.monitors.clone(),
            keepers: found.keepers,
        });
        let follow = |view: &Arc<ShardView>| {
            tokio::spawn(Arc::clone(view).follow(Arc::clone(&link), namespace.clone()))
        };
        let mut tasks: Vec<JoinHandle<()>> = shared.shards.iter().map(follow).collect();
        tasks.push(tokio::spawn(opening::prove_again(Arc::clone(&shared))));
        Ok(Self(Arc::new(Owned { shared, tasks })))
    }

    pub(crate) fn journal(&self) -> JournalId {
        self.0.shared.journal
    }

    pub(crate) fn connections_given_up(&self) -> u64 {
        self.0.shared.link.given_up()
    }

    pub(crate) fn sync(&self) -> Sync {
        self.0.shared.sync.borrow().clone()
    }

    pub(crate) async fn append(&self, candidate: Candidate) -> Appended {
        self.0.shared.append(candidate).await
    }

    /// Of one who may not append: its commit may stand all the same, from when it might.
    pub(crate) async fn refuse(&self, candidate: Candidate, owned: Epoch) -> Appended {
        self.0.shared.refuse(candidate, owned).await
    }

    /// Ends the followers; later appends are refused. What is under way is answered.
    pub(crate) fn close(&self) {
        self.0.shared.room.close();
        for task in &self.0.tasks {
            task.abort();
        }
    }

    pub(crate) async fn read(
        &self,
        stream: &StreamKey,
        after: Version,
        commits_max: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.0.shared.read(stream, after, commits_max).await
    }

    pub(crate) async fn tail(&self, stream: &StreamKey) -> Result<Tail, StoreError> {
        self.0.shared.tail(stream).await
    }

    pub(crate) async fn blob(&self, blob: &BlobRef) -> Result<Arc<[u8]>, StoreError> {
        self.0.shared.blob(blob).await
    }

    pub(crate) async fn put_blob(&self, blob: &Blob) -> Result<(), StoreError> {
        self.0.shared.keep_blob(blob).await
    }

    pub(crate) async fn erase_blob(&self, blob: &BlobRef) -> Result<(), StoreError> {
        self.0.shared.erase_blob(blob).await
    }

    pub(crate) async fn put_snapshot(
        &self,
        stream: &StreamKey,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        self.0.shared.put_snapshot(stream, snapshot).await
    }

    pub(crate) async fn snapshot(
        &self,
        stream: &StreamKey,
    ) -> Result<Option<(Snapshot, Hash, Option<Hash>)>, StoreError> {
        self.0.shared.snapshot(stream).await
    }

    /// Waits until a page can be read; only damage, a gap or the end of the store ends a follower.
    pub(crate) async fn page(
        &self,
        shard: Shard,
        after: u64,
    ) -> Result<Vec<Recorded>, FollowError> {
        loop {
            match self.0.shared.page(shard, after).await {
                // An election or an outage: a follower waits it out, or every one would end with each dead leader.
                Err(FollowError::Store(StoreError::Outage(outage))) => {
                    if self.0.shared.room.is_closed() {
                        return Err(StoreError::Closed.into());
                    }
                    tracing::debug!(shard = shard.0, %outage, "a follower waits");
                    tokio::time::sleep(WAIT_MAX).await;
                }
                answered => return answered,
            }
        }
    }

    pub(crate) fn notice(&self, shard: Shard) -> Option<watch::Receiver<u64>> {
        self.0.shared.shard(shard).map(|view| view.notice())
    }

    /// Of no shard there is no newest commit.
    pub(crate) async fn newest(&self, shard: Shard) -> Result<u64, StoreError> {
        match self.0.shared.shard(shard) {
            Some(view) => self.0.shared.newest(view).await,
            None => Ok(0),
        }
    }

    pub(crate) fn shards(&self) -> Vec<Shard> {
        self.0.shared.shards.iter().map(|view| view.shard).collect()
    }

    pub(crate) fn shard_of(&self, stream: &StreamKey) -> Shard {
        self.0.shared.shard_of(stream).shard
    }

    pub(crate) async fn due(
        &self,
        partition: Partition,
        before: Instant,
        page: usize,
        after: Option<&Due>,
    ) -> Result<Vec<Due>, StoreError> {
        let view = self.0.shared.caught_up(partition).await?;
        let due = view.index().due(partition, before, page, after);
        Ok(due)
    }

    pub(crate) async fn next_wake(
        &self,
        partition: Partition,
        after: Instant,
    ) -> Result<Option<Instant>, StoreError> {
        let view = self.0.shared.caught_up(partition).await?;
        let next = view.index().next_wake(partition, after);
        Ok(next)
    }

    /// The highest epoch of any commit of a partition, as its leader has them now.
    pub(crate) async fn epoch_seen(&self, partition: Partition) -> Result<Epoch, StoreError> {
        let view = self.0.shared.shard_at(partition);
        let newest = self.0.shared.newest(view).await?;
        self.0.shared.wait_for(view, newest).await?;
        let epoch = view.index().epoch(partition);
        Ok(epoch)
    }

    /// A write of the store's own, and a look at every shard's leader.
    pub(crate) async fn probe(&self) -> Result<(), Outage> {
        self.0.shared.probe().await
    }

    pub(crate) async fn stats(&self) -> Result<Stats, StoreError> {
        let shared = &self.0.shared;
        let mut stats = Stats { blobs: shared.blobs().await?, ..Stats::default() };
        for view in &shared.shards {
            let newest = shared.newest(view).await?;
            shared.wait_for(view, newest).await?;
            let index = view.index();
            stats.commits = stats.commits.saturating_add(index.sequence);
            stats.entries = stats.entries.saturating_add(index.entries);
            stats.streams = stats.streams.saturating_add(index.streams);
            for (one, other) in stats.rolling.0.iter_mut().zip(index.rolling.0) {
                *one ^= other;
            }
        }
        Ok(stats)
    }

    pub(crate) async fn verify(&self, wake_of: WakeOf<'_>) -> Result<Report, StoreError> {
        self.0.shared.verify(wake_of).await
    }
}

impl Shared {
    fn shard(&self, shard: Shard) -> Option<&Arc<ShardView>> {
        self.shards.iter().find(|view| view.shard == shard)
    }

    fn shard_at(&self, partition: Partition) -> &Arc<ShardView> {
        let at = usize::from(u16::from(partition.number()) % SHARDS);
        self.shards.get(at).unwrap_or(&self.first)
    }

    fn shard_of(&self, stream: &StreamKey) -> &Arc<ShardView> {
        self.shard_at(stream.partition())
    }

    fn turn(&self, stream: &StreamKey) -> &tokio::sync::Mutex<()> {
        let lanes = u64::try_from(LANES).unwrap_or(1);
        let lane = usize::try_from(self.lane_of.hash_one(stream) % lanes).unwrap_or_default();
        self.lanes.get(lane).unwrap_or(&self.spare)
    }

    fn remembered(&self, stream: &StreamKey) -> Option<Tail> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner).get(stream).copied()
    }

    fn remember(&self, stream: &StreamKey, tail: Tail) {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        if tails.len() >= TAILS_MAX {
            tails.clear();
        }
        tails.insert(stream.clone(), tail);
    }

    fn place(&self, stream: &StreamKey) -> Option<Place> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).get(stream).copied()
    }

    fn keep_place(&self, stream: &StreamKey, place: Place) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= TAILS_MAX {
            places.clear();
        }
        places.insert(stream.clone(), place);
    }

    /// The newest sequence of a shard, as its leader has it.
    async fn newest(&self, view: &ShardView) -> Result<u64, StoreError> {
        Ok(persist(READ_MAX, || self.info(view)).await?.0)
    }

    /// The newest sequence of a shard's leader, and the bytes that it may still take.
    async fn info(&self, view: &ShardView) -> Result<(u64, i64), Outage> {
        let stream = context(self.link.up()?).get_stream(&view.name).await;
        let stream = stream.map_err(|error| unavailable(&error))?;
        let info = stream.cached_info();
        let bytes = i64::try_from(info.state.bytes).unwrap_or(i64::MAX);
        let room = match info.config.max_bytes {
            limit if limit > 0 => limit.saturating_sub(bytes),
            _ => i64::MAX,
        };
        Ok((info.state.last_sequence, room))
    }

    async fn wait_for(&self, view: &ShardView, sequence: u64) -> Result<(), StoreError> {
        // A long journal takes longer to read than an answer may: it is waited for while the follower gets on.
        let mut before = view.index().sequence;
        while !view.reached(sequence, READ_MAX).await {
            let now = view.index().sequence;
            if now == before {
                return Err(Self::behind(view));
            }
            before = now;
        }
        Ok(())
    }

    fn behind(view: &ShardView) -> StoreError {
        let why = match view.halted() {
            Some(gap) => {
                format!("{}: sequence {} is followed by {}", view.name, gap.after, gap.found)
            }
            None => format!("the follower of {} is behind", view.name),
        };
        StoreError::Outage(Outage::Unavailable(why))
    }

    /// The partition's shard, once it has seen what this node wrote to it.
    async fn caught_up(&self, partition: Partition) -> Result<&ShardView, StoreError> {
        let view = self.shard_at(partition);
        self.wait_for(view, view.newest_written()).await?;
        Ok(view)
    }

    async fn probe(&self) -> Result<(), Outage> {
        if let Some(outage) = self.lazy_outage() {
            return Err(outage);
        }
        let client = self.link.up()?;
        let subject = self.namespace.spell(&Subject::Meta(Meta::Probe));
        let heard = publish(&client, subject, async_nats::HeaderMap::new(), "".into()).await;
        match heard {
            settle::Heard::Stored(_) | settle::Heard::Repeated(_) => {}
            settle::Heard::Refused(outage) => return Err(outage),
            other => return Err(Outage::Unavailable(format!("a probe was answered {other:?}"))),
        }
        let rooms = try_join_all(self.shards.iter().map(|view| self.info(view))).await?;
        if rooms.iter().any(|(_, room)| *room < ROOM_MIN) {
            return Err(Outage::Full);
        }
        Ok(())
    }
}
