//! The one follower of a node: it reads each shard of the log once for all projections, each by a loop of its own, and
//! hands the batches to the one writer.
//!
//! It never skips: what a fold can not read halts that projection in every shard, a gap or damage in one shard halts
//! all of them, and an outage of a shard is waited for while the others go on.

use crate::Name;
use crate::batch::{self, Batch, Decode, chain, gather};
use crate::cursor::{Cursor, Halt, History};
use crate::rebuild::{self, Request};
use crate::status::{Board, Entry, Live, Whose, note};
use crate::tables::Set;
use crate::writer::{self, Stand, ViewsError, Writer};
use crate::{Reach, cursor, metric, reach};
use events::record::{Position, Shard};
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use store::{FollowError, Store, StoreError};
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, watch};

/// How long an outage of the store or of `views.db` is waited for before the next try (1 s).
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Batches in memory at once, of all shards: one is folded while another is fetched. A shard that waits for its turn
/// holds no more than the page of the log that it reads.
pub(crate) const BATCHES_MAX: usize = 2;

/// What reads entries and which folds there are. A value, so that a test can be another build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    pub(crate) decode: Decode,
    pub(crate) code: fn(Name) -> u32,
}

impl Build {
    pub(crate) const THIS: Self = Self { decode: events::catalogue::decode, code: Name::code };
}

/// A shard and the loop that follows it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) shard: Shard,
    /// A cursor was moved: look again from where to follow. One waiter, the loop.
    moved: Notify,
}

impl Lane {
    pub(crate) fn new(shard: Shard) -> Self {
        Self { shard, moved: Notify::new() }
    }
}

/// What the live loops and the rebuilds share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) writer: Writer,
    pub(crate) history: History,
    pub(crate) build: Build,
    pub(crate) board: watch::Sender<Board>,
    /// One for each shard of the store.
    pub(crate) lanes: Vec<Lane>,
    /// Held while the file is changed and the board is told of it, so that they change in one order: a board that is
    /// ahead of the file would make a reader of its own write wait for nothing.
    pub(crate) turn: Mutex<()>,
    /// A permit for each of [`BATCHES_MAX`].
    pub(crate) room: Semaphore,
    pub(crate) stop: Arc<watch::Sender<bool>>,
}

impl Shared {
    /// The newest commit of each shard, as far as it is known here.
    pub(crate) fn newest(&self) -> Reach {
        reach::newest(&self.store)
    }

    /// The cursor of tables in which nothing stands yet.
    pub(crate) fn start(&self, name: Name) -> Cursor {
        let shards: Vec<Shard> = self.lanes.iter().map(|lane| lane.shard).collect();
        Cursor::start(&shards, self.history, (self.build.code)(name))
    }

    /// Lets every loop look again from where to follow.
    pub(crate) fn look_again(&self) {
        self.lanes.iter().for_each(|lane| lane.moved.notify_one());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    pub(crate) async fn stopped(&self) {
        // The sender is in `self`: waiting for it can not fail.
        let _stopped = self.stop.subscribe().wait_for(|stop| *stop).await.is_ok();
    }

    /// Waits out an outage, or until the stop.
    pub(crate) async fn pause(&self, whose: Whose, trouble: String) {
        tracing::warn!(?whose, trouble, "projections wait");
        note(&self.board, |board| {
            board.troubles.insert(whose, trouble);
        });
        tokio::select! {
            () = self.stopped() => {}
            () = tokio::time::sleep(RETRY_PAUSE) => {}
        }
    }
}

/// The loops to be spawned: the followers of the shards and the rebuilds. They end on stop, or when the store is closed.
#[derive(Debug)]
#[must_use = "nothing is followed until it runs"]
pub struct Runner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) requests: mpsc::Receiver<Request>,
}

impl Runner {
    /// Follows the log until the stop. May be dropped at any time: the cursors in the file say where to go on.
    pub async fn run(self) {
        let Self { shared, requests } = self;
        shared.board.borrow().measure(&shared.newest());
        let lanes = join_all(shared.lanes.iter().map(|lane| live(&shared, lane)));
        tokio::join!(lanes, rebuild::serve(&shared, requests));
    }
}

/// Why one follow of a shard ended.
enum End {
    Stopped,
    /// A cursor was moved, or stands before what is read.
    Moved,
    Log(FollowError),
    Store(StoreError),
    Views(ViewsError),
}

async fn live(shared: &Shared, lane: &Lane) {
    let whose = Whose::Lane(lane.shard);
    while !shared.is_stopped() {
        let from = shared.board.borrow().followed().map(|(_, reach)| reach.of(lane.shard)).min();
        let end = match from {
            Some(from) => follow(shared, lane, from).await,
            None => tokio::select! {
                () = shared.stopped() => End::Stopped,
                () = lane.moved.notified() => End::Moved,
            },
        };
        match end {
            End::Stopped | End::Moved => {}
            End::Store(error) if batch::is_passing(&error) => outage(shared, lane, &error).await,
            End::Store(error) => shared.pause(whose, chain(&error)).await,
            End::Views(error) => shared.pause(whose, chain(&error)).await,
            End::Log(error) => log_ended(shared, lane, error).await,
        }
    }
}

/// A closed store stays closed; any other outage passes.
async fn outage(shared: &Shared, lane: &Lane, error: &StoreError) {
    if matches!(error, StoreError::Closed) {
        shared.stop.send_replace(true);
    } else {
        shared.pause(Whose::Lane(lane.shard), chain(error)).await;
    }
}

async fn log_ended(shared: &Shared, lane: &Lane, error: FollowError) {
    let done = match error {
        FollowError::Store(error) if batch::is_passing(&error) => {
            return outage(shared, lane, &error).await;
        }
        FollowError::Ahead { newest, .. } => {
            rolled_back(shared, Position { shard: lane.shard, sequence: newest }).await
        }
        FollowError::Gap { .. } => {
            metrics::counter!(metric::GAPS).increment(1);
            halt_all(shared, lane.shard, &error).await
        }
        FollowError::NoShard(_) | FollowError::Store(_) => {
            halt_all(shared, lane.shard, &error).await
        }
    };
    if let Err(error) = done {
        shared.pause(Whose::Lane(lane.shard), chain(&error)).await;
    }
}

/// A quiet shard hands out nothing that would show the end of an outage, so the store is asked for it.
async fn recovered(shared: &Shared, lane: &Lane, from: u64) -> Result<(), StoreError> {
    let whose = Whose::Lane(lane.shard);
    let troubled = shared.board.borrow().troubles.contains_key(&whose);
    // One that has something to hand out is recovered when that has landed.
    if troubled && from == shared.newest().of(lane.shard) {
        shared.store.stats().await?;
        note(&shared.board, |board| {
            board.troubles.remove(&whose);
        });
    }
    Ok(())
}

/// One pass over a shard, from a cursor until something ends it.
async fn follow(shared: &Shared, lane: &Lane, from: u64) -> End {
    let asked = tokio::select! {
        biased;
        () = shared.stopped() => return End::Stopped,
        asked = recovered(shared, lane, from) => asked,
    };
    if let Err(error) = asked {
        return End::Store(error);
    }
    let mut log = pin!(shared.store.follow(lane.shard, from));
    loop {
        let first = tokio::select! {
            biased;
            () = shared.stopped() => return End::Stopped,
            () = lane.moved.notified() => return End::Moved,
            first = log.next() => match first {
                Some(first) => first,
                None => return End::Store(StoreError::Closed),
            },
        };
        // Never closed, so it ends with a permit.
        let Ok(_room) = shared.room.acquire().await else { return End::Stopped };
        let gathered = gather(&shared.store, shared.build.decode, lane.shard, first, &mut log);
        let mut batch = match gathered.await {
            Ok(batch) => batch,
            Err(error) => return End::Store(error),
        };
        let end = batch.end.take();
        match feed(shared, batch).await {
            Ok(Fed::All) => {}
            Ok(Fed::NotAll) => return End::Moved,
            Err(error) => return End::Views(error),
        }
        if let Some(end) = end {
            return End::Log(end);
        }
    }
}

enum Fed {
    All,
    /// A projection stands before the batch.
    NotAll,
}

async fn feed(shared: &Shared, batch: Batch) -> Result<Fed, ViewsError> {
    let _turn = shared.turn.lock().await;
    let shard = batch.shard;
    let targets: Vec<(Name, Set)> =
        shared.board.borrow().followed().map(|(name, _)| (name, Set::Live)).collect();
    let stands = shared.writer.apply(targets, &Arc::new(batch)).await?;
    let mut fed = Fed::All;
    note(&shared.board, |board| {
        board.troubles.remove(&Whose::Lane(shard));
        let at = |sequence| Position { shard, sequence };
        for (name, stand) in stands {
            match stand {
                Stand::At(sequence) => board.advance(name, at(sequence), None),
                Stand::Halted(sequence, halt) => board.advance(name, at(sequence), Some(halt)),
                Stand::Behind(sequence) => {
                    board.advance(name, at(sequence), None);
                    fed = Fed::NotAll;
                }
            }
        }
        board.measure(&shared.newest());
    });
    Ok(fed)
}

/// A shard can not be read on: no projection goes past its damage, and none goes on without it.
async fn halt_all(shared: &Shared, shard: Shard, error: &FollowError) -> Result<(), ViewsError> {
    let _turn = shared.turn.lock().await;
    let reason = chain(error);
    let stands = |(name, reach): (Name, &Reach)| (name, reach.of(shard));
    let followed: Vec<(Name, u64)> = shared.board.borrow().followed().map(stands).collect();
    for (name, sequence) in followed {
        let at = Position { shard, sequence: sequence.saturating_add(1) };
        let halt = Halt { at, reason: reason.clone() };
        let kept = halt.clone();
        let keep = move |connection: &rusqlite::Connection| {
            cursor::save_halt(connection, name, Set::Live, &kept)
        };
        shared.writer.write(keep).await?;
        note(&shared.board, |board| {
            board.advance(name, Position { shard, sequence }, Some(halt));
            board.measure(&shared.newest());
        });
    }
    shared.look_again();
    Ok(())
}

/// A shard is shorter than it was: rows of what is gone are thrown away, and with them those of the other shards, for
/// nobody can tell the sums apart.
async fn rolled_back(shared: &Shared, end: Position) -> Result<(), ViewsError> {
    let _turn = shared.turn.lock().await;
    let ahead = |(_, reach): &(Name, &Reach)| reach.of(end.shard) > end.sequence;
    let ahead: Vec<Name> =
        shared.board.borrow().followed().filter(ahead).map(|(name, _)| name).collect();
    for name in ahead {
        let start = shared.start(name);
        let reach = start.reach();
        let reset = move |connection: &rusqlite::Connection| writer::reset(connection, name, start);
        shared.writer.write(reset).await?;
        // What is known of the shard's end is what was just met.
        let mut newest = shared.newest();
        newest.set(end);
        note(&shared.board, |board| {
            if let Some(entry) = board.entries.get_mut(&name) {
                *entry = Entry { reach, live: catching_up(newest), ..entry.clone() };
            }
        });
    }
    shared.look_again();
    Ok(())
}

/// How empty tables are kept up while the log ends at `newest`.
pub(crate) fn catching_up(newest: Reach) -> Live {
    if Reach::default().covers(&newest) { Live::Follows } else { Live::CatchesUp(newest) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::facts::{here, reach, run};
    use crate::tests::journal::Journal;
    use crate::tests::recorder::Recorder;
    use crate::tests::views::{Folder, LONG, caught_up, during, state};
    use crate::{Handle, State};
    use events::record::Hash;
    use store::Corrupt;

    /// Projections that have folded two commits of four, and whose log then ends so.
    async fn ended(error: FollowError) -> (Recorder, Folder, Journal, Handle, Runner) {
        let (mut journal, folder) = (Journal::new(50), Folder::new());
        journal.open_run(run(1), "hi").await;
        journal.open_run(run(2), "hi").await;
        folder.follow(&journal).await;
        journal.open_run(run(3), "hi").await;
        journal.open_run(run(4), "hi").await;
        let recorder = Recorder::default();
        let (handle, runner) = folder.start(&journal.store).await;
        let recording = metrics::set_default_local_recorder(&recorder);
        log_ended(&runner.shared, &runner.shared.lanes[0], error).await;
        drop(recording);
        (recorder, folder, journal, handle, runner)
    }

    #[tokio::test]
    async fn a_gap_halts_all_and_is_counted() {
        let (recorder, folder, journal, handle, runner) =
            ended(FollowError::Gap { after: 2, found: 4 }).await;
        for name in Name::ALL {
            let State::Halted { at, reason } = state(&handle, name) else { panic!("{name}") };
            assert_eq!((at, reason.as_str()), (here(3), "sequence 2 is followed by 4"));
        }
        assert_eq!(recorder.count(metric::GAPS), 1);
        assert_eq!(recorder.gauge(metric::HALTED), Some(1.0));
        // It stays so until somebody has looked: the next start tries again.
        drop(runner);
        assert_eq!(folder.follow(&journal).await, Folder::new().follow(&journal).await);
    }

    #[tokio::test]
    async fn damage_halts_all_and_an_outage_does_not() {
        let found = Corrupt::Blob { stored: Hash([1; 32]), found: Hash([2; 32]) };
        let corrupt = StoreError::Corrupt { position: here(3), source: found };
        let (recorder, _folder, _, handle, runner) = ended(FollowError::Store(corrupt)).await;
        let State::Halted { reason, .. } = state(&handle, Name::Keys) else { panic!() };
        assert!(reason.contains("the journal is damaged at 0.3: blob 0101"), "{reason}");
        assert_eq!(recorder.count(metric::GAPS), 0);
        drop(runner);

        let outage = StoreError::Outage(store::Outage::Full);
        let (_, _folder, journal, handle, runner) = ended(FollowError::Store(outage)).await;
        let status = handle.status().into_iter().next().unwrap();
        assert_eq!(status.state, State::Running);
        assert!(status.trouble.is_some_and(|trouble| trouble.contains("disk is full")));
        during(runner, caught_up(&handle, journal.end())).await;
    }

    #[tokio::test]
    async fn a_log_that_was_rolled_back_is_folded_from_the_start() {
        let (_, folder, journal, handle, runner) =
            ended(FollowError::Ahead { cursor: 2, newest: 1 }).await;
        let status = handle.status().into_iter().next().unwrap();
        assert_eq!((status.state, status.position), (State::Rebuilding, reach(0)));
        during(runner, async {
            caught_up(&handle, journal.end()).await;
            assert_eq!(state(&handle, Name::Runs), State::Running);
        })
        .await;
        let whole = Folder::new().follow(&journal).await;
        assert_eq!(crate::tests::views::rows(&folder.path()), whole);
    }

    #[tokio::test]
    async fn what_stands_before_a_batch_is_followed_from_there() {
        let (mut journal, folder) = (Journal::new(51), Folder::new());
        journal.open_run(run(1), "hi").await;
        journal.open_run(run(2), "hi").await;
        let (handle, runner) = folder.start(&journal.store).await;
        // As after a swap to rows that stand before what is read just then.
        let end =
            tokio::time::timeout(LONG, follow(&runner.shared, &runner.shared.lanes[0], 1)).await;
        assert!(matches!(end, Ok(End::Moved)));
        assert!(handle.status().iter().all(|status| status.position == reach(0)));
        during(runner, caught_up(&handle, journal.end())).await;
    }

    #[tokio::test]
    async fn a_closed_store_ends_the_runner() {
        let (_, _folder, _, handle, runner) = ended(FollowError::Store(StoreError::Closed)).await;
        runner.run().await;
        assert_eq!(state(&handle, Name::Runs), State::Stopped);
    }
}
