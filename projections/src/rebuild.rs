//! A projection folded again from the first commit, into shadow tables that then take the place of the live ones.
//!
//! Until the swap readers see the old rows; after it, rows that are at least as new. Nothing is counted: a rebuild is
//! silent, for every fact in it has happened before.

use crate::Name;
use crate::batch::{Batch, chain, gather, is_passing};
use crate::cursor::{Halt, SHARD};
use crate::runner::Shared;
use crate::status::{Beside, Entry, Live, note, position};
use crate::tables::Set;
use crate::writer::{self, Stand, Swapped, ViewsError};
use events::record::Position;
use futures_util::StreamExt;
use std::pin::pin;
use std::sync::Arc;
use store::{FollowError, StoreError};
use tokio::sync::{mpsc, oneshot};

/// Rebuilds that may wait for the one at work; a person asks for them, one for each projection is plenty.
pub(crate) const REQUESTS_MAX: usize = Name::ALL.len();

/// What a rebuild did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// The last commit in the new rows.
    pub position: Position,
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
                return;
            }
            Err(error @ (RebuildError::Store(_) | RebuildError::Views(_))) => {
                shared.pause(chain(&error)).await;
            }
        }
    }
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
    match &built {
        Ok(rebuilt) => {
            let sequence = rebuilt.position.sequence;
            with(&|entry| {
                *entry = Entry { sequence, live: Live::Follows, beside: Beside::Nothing }
            });
        }
        Err(error) => {
            // What stays behind when this fails too is removed at the next start.
            let remove = move |connection: &rusqlite::Connection| writer::unshade(connection, name);
            let _removed = shared.writer.write(remove).await.is_ok();
            with(&|entry| {
                entry.beside = Beside::Nothing;
                if let (Live::Stale, RebuildError::Halted { at, reason }) = (&entry.live, error) {
                    entry.live = Live::Halted(Halt { at: at.sequence, reason: reason.clone() });
                }
            });
        }
    }
    shared.moved.notify_one();
    built
}

async fn build(
    shared: &Shared,
    name: Name,
    progress: &mut Progress,
) -> Result<Rebuilt, RebuildError> {
    let (history, code) = (shared.history, (shared.build.code)(name));
    let shade =
        move |connection: &rusqlite::Connection| writer::shade(connection, name, history, code);
    shared.writer.write(shade).await?;
    let total = shared.store.stats().await?.entries;
    let mut log = pin!(shared.store.follow(SHARD, 0));
    let (mut at, mut events) = (0, 0_u64);
    let mut goal = shared.newest();
    progress(events, total);
    loop {
        while at < goal {
            let first = tokio::select! {
                biased;
                () = shared.stopped() => return Err(RebuildError::Stopped),
                first = log.next() => first.ok_or(StoreError::Closed)?,
            };
            let mut batch = gather(&shared.store, shared.build.decode, first, &mut log).await?;
            let (end, read) = (batch.end.take(), batch.entries);
            at = cast(shared, name, batch, at).await?;
            events = events.saturating_add(read);
            progress(events, total.max(events));
            match end {
                None => {}
                Some(FollowError::Store(error)) if is_passing(&error) => return Err(error.into()),
                Some(
                    error @ (FollowError::Gap { .. }
                    | FollowError::Ahead { .. }
                    | FollowError::NoShard(_)
                    | FollowError::Store(_)),
                ) => return Err(halted(at.saturating_add(1), chain(&error))),
            }
        }
        let swap = move |connection: &rusqlite::Connection| writer::swap(connection, name);
        match shared.writer.write(swap).await? {
            Swapped::Live(sequence) => {
                return Ok(Rebuilt { position: position(sequence), events });
            }
            // The live rows went on meanwhile; each round is shorter than the one before.
            Swapped::Behind(sequence) => goal = shared.newest().max(sequence),
        }
    }
}

/// Folds a batch into the shadow tables and says where they stand.
async fn cast(shared: &Shared, name: Name, batch: Batch, before: u64) -> Result<u64, RebuildError> {
    let stands = shared.writer.apply(vec![(name, Set::Shadow)], &Arc::new(batch)).await?;
    match stands.into_iter().next() {
        Some((_, Stand::At(sequence) | Stand::Behind(sequence))) => Ok(sequence),
        Some((_, Stand::Halted(_, halt))) => Err(halted(halt.at, halt.reason)),
        None => Ok(before),
    }
}

fn halted(sequence: u64, reason: String) -> RebuildError {
    RebuildError::Halted { at: position(sequence), reason }
}
