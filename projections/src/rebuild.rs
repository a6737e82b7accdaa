//! A projection folded again from the first commit, into shadow tables that then take the place of the live ones.
//!
//! Until the swap readers see the old rows; after it, rows that are at least as new. Nothing is counted: a rebuild is
//! silent, for every fact in it has happened before.

use crate::batch::{Batch, chain, gather, is_passing};
use crate::cursor::Halt;
use crate::runner::Shared;
use crate::status::{Beside, Entry, Live, Whose, note};
use crate::tables::Set;
use crate::writer::{self, Stand, Swapped, ViewsError};
use crate::{Name, Reach};
use events::record::{Position, Shard};
use futures_util::StreamExt;
use std::pin::pin;
use std::sync::Arc;
use store::{FollowError, StoreError};
use tokio::sync::{mpsc, oneshot};

/// Rebuilds that may wait for the one at work; a person asks for them, one for each projection is plenty.
pub(crate) const REQUESTS_MAX: usize = Name::ALL.len();

/// What a rebuild did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The last commit of each shard in the new rows.
    pub position: Reach,
    /// Events that were read.
    pub events: u64,
}

/// Why there are no new rows. The old ones stand as they were.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// It met a commit that it can not read. Start a build that can, or verify the journal.
    #[error("the rebuild halted before {at}: {reason}")]
    Halted {
        /// That commit.
        at: Position,
        /// What is wrong with it.
        reason: String,
    },
    /// Others wait already. Try again when they are done.
    #[error("{REQUESTS_MAX} rebuilds wait already: try again when they are done")]
    Busy,
    /// Nobody follows the log any more.
    #[error("the projections are stopped")]
    Stopped,
    /// The store did not answer; it may be tried again.
    #[error("the journal could not be read")]
    Store(#[from] StoreError),
    /// The views did not answer; it may be tried again.
    #[error(transparent)]
    Views(#[from] ViewsError),
}

/// Told events done and in all.
pub(crate) type Progress = Box<dyn FnMut(u64, u64) + Send>;

/// A rebuild that somebody asks for.
pub(crate) struct Request {
    pub(crate) name: Name,
    pub(crate) progress: Progress,
    pub(crate) reply: oneshot::Sender<Result<Rebuilt, RebuildError>>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rebuild of {}", self.name)
    }
}

/// Does first what the start found to be of another fold, then what is asked for, one after the other.
pub(crate) async fn serve(shared: &Shared, mut requests: mpsc::Receiver<Request>) {
    let is_stale = |entry: &Entry| entry.live == Live::Stale;
    let entries = shared.board.borrow().entries.clone();
    for (name, _) in entries.into_iter().filter(|(_, entry)| is_stale(entry)) {
        until_done(shared, name).await;
    }
    while !shared.is_stopped() {
        let request = tokio::select! {
            () = shared.stopped() => None,
            request = requests.recv() => request,
        };
        // Without handles only the stop is left to wait for.
        let Some(Request { name, mut progress, reply }) = request else { break };
        let done = rebuild(shared, name, &mut progress).await;
        // Whoever asked may have gone; the rebuild is done all the same.
        let _sent = reply.send(done).is_ok();
    }
}

/// Tries again through outages; what it can not read is final for this build.
async fn until_done(shared: &Shared, name: Name) {
    let mut silent: Progress = Box::new(|_, _| {});
    while !shared.is_stopped() {
        match rebuild(shared, name, &mut silent).await {
            Ok(_)
            | Err(RebuildError::Halted { .. } | RebuildError::Stopped | RebuildError::Busy) => {
                break;
            }
            Err(error @ (RebuildError::Store(_) | RebuildError::Views(_))) => {
                shared.pause(Whose::Rebuild, chain(&error)).await;
            }
        }
    }
    note(&shared.board, |board| {
        board.troubles.remove(&Whose::Rebuild);
    });
}

async fn rebuild(
    shared: &Shared,
    name: Name,
    progress: &mut Progress,
) -> Result<Rebuilt, RebuildError> {
    let with = |change: &dyn Fn(&mut Entry)| {
        note(&shared.board, |board| board.entries.get_mut(&name).into_iter().for_each(change));
    };
    with(&|entry| entry.beside = Beside::Rebuild);
    let built = build(shared, name, progress).await;
    if let Err(error) = &built {
        // What stays behind when this fails too is removed at the next start.
        let remove = move |connection: &rusqlite::Connection| writer::unshade(connection, name);
        let _removed = shared.writer.write(remove).await.is_ok();
        with(&|entry| {
            entry.beside = Beside::Nothing;
            if let (Live::Stale, RebuildError::Halted { at, reason }) = (&entry.live, error) {
                entry.live = Live::Halted(Halt { at: *at, reason: reason.clone() });
            }
        });
    }
    shared.look_again();
    built
}

/// A rebuild under way.
struct Work<'a> {
    /// Where the shadow tables stand.
    at: Reach,
    /// Events that were read.
    events: u64,
    /// Events that there were in all when it began.
    total: u64,
    progress: &'a mut Progress,
}

impl Work<'_> {
    fn tell(&mut self) {
        (self.progress)(self.events, self.total.max(self.events));
    }
}

async fn build(
    shared: &Shared,
    name: Name,
    progress: &mut Progress,
) -> Result<Rebuilt, RebuildError> {
    let start = shared.start(name);
    let at = start.reach();
    let shade = move |connection: &rusqlite::Connection| writer::shade(connection, name, start);
    shared.writer.write(shade).await?;
    let total = shared.store.stats().await?.entries;
    let mut work = Work { at, events: 0, total, progress };
    let mut goal = shared.newest();
    work.tell();
    loop {
        // One shard after the other: no row rests on their order.
        for lane in &shared.lanes {
            let goal = Position { shard: lane.shard, sequence: goal.of(lane.shard) };
            catch_up(shared, name, goal, &mut work).await?;
        }
        match swap(shared, name).await? {
            Swapped::Live(position) => return Ok(Rebuilt { position, events: work.events }),
            // The live rows went on meanwhile; each round is shorter than the one before.
            Swapped::Behind(live) => goal = shared.newest().upper(&live),
        }
    }
}

/// Folds one shard into the shadow tables, up to a position.
async fn catch_up(
    shared: &Shared,
    name: Name,
    goal: Position,
    work: &mut Work<'_>,
) -> Result<(), RebuildError> {
    let shard = goal.shard;
    let mut at = work.at.of(shard);
    let mut log = pin!(shared.store.follow(shard, at));
    while at < goal.sequence {
        let first = tokio::select! {
            biased;
            () = shared.stopped() => return Err(RebuildError::Stopped),
            first = log.next() => first.ok_or(StoreError::Closed)?,
        };
        let gathered = gather(&shared.store, shared.build.decode, shard, first, &mut log);
        let mut batch = gathered.await?;
        let (end, read) = (batch.end.take(), batch.entries);
        at = cast(shared, name, batch, at).await?;
        work.at.set(Position { shard, sequence: at });
        work.events = work.events.saturating_add(read);
        work.tell();
        match end {
            None => {}
            Some(FollowError::Store(error)) if is_passing(&error) => return Err(error.into()),
            Some(
                error @ (FollowError::Gap { .. }
                | FollowError::Ahead { .. }
                | FollowError::NoShard(_)
                | FollowError::Store(_)),
            ) => return Err(damaged(shard, at, &error)),
        }
    }
    Ok(())
}

/// Folds a batch into the shadow tables and says where they stand in its shard.
async fn cast(shared: &Shared, name: Name, batch: Batch, before: u64) -> Result<u64, RebuildError> {
    let stands = shared.writer.apply(vec![(name, Set::Shadow)], &Arc::new(batch)).await?;
    match stands.into_iter().next() {
        Some((_, Stand::At(sequence) | Stand::Behind(sequence))) => Ok(sequence),
        Some((_, Stand::Halted(_, Halt { at, reason }))) => {
            Err(RebuildError::Halted { at, reason })
        }
        None => Ok(before),
    }
}

fn damaged(shard: Shard, after: u64, error: &FollowError) -> RebuildError {
    let at = Position { shard, sequence: after.saturating_add(1) };
    RebuildError::Halted { at, reason: chain(error) }
}

/// Swaps, and says so before anybody moves the new cursor.
async fn swap(shared: &Shared, name: Name) -> Result<Swapped, ViewsError> {
    let _turn = shared.turn.lock().await;
    let swap = move |connection: &rusqlite::Connection| writer::swap(connection, name);
    let swapped = shared.writer.write(swap).await?;
    if let Swapped::Live(reach) = &swapped {
        note(&shared.board, |board| {
            if let Some(entry) = board.entries.get_mut(&name) {
                let reach = reach.clone();
                *entry = Entry { reach, live: Live::Follows, beside: Beside::Nothing };
            }
        });
    }
    Ok(swapped)
}
