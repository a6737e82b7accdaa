//! The one follower of a node: it reads the log once for all projections and hands each batch to the writer.
//!
//! It never skips: what a fold can not read halts that projection, a gap or damage in the log halts all of them, and
//! an outage is waited for.

use crate::Name;
use crate::batch::{self, Batch, Decode, chain, gather};
use crate::cursor::{Halt, History, SHARD};
use crate::rebuild::{self, Request};
use crate::status::{Board, Entry, Live, note};
use crate::tables::Set;
use crate::writer::{self, Stand, ViewsError, Writer};
use crate::{cursor, metric};
use futures_util::StreamExt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use store::{FollowError, Store, StoreError};
use tokio::sync::{Notify, mpsc, watch};

/// How long an outage of the store or of `views.db` is waited for before the next try (1 s).
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What reads entries and which folds there are. A value, so that a test can be another build.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Build {
    pub(crate) decode: Decode,
    pub(crate) code: fn(Name) -> u32,
}

impl Build {
    pub(crate) const THIS: Self = Self { decode: events::catalogue::decode, code: Name::code };
}

/// What the live loop and the rebuilds share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) writer: Writer,
    pub(crate) history: History,
    pub(crate) build: Build,
    pub(crate) board: watch::Sender<Board>,
    /// A cursor was moved: look again from where to follow. One waiter, the live loop.
    pub(crate) moved: Notify,
    pub(crate) stop: Arc<watch::Sender<bool>>,
}

impl Shared {
    /// The newest sequence of the store, as far as it is known here.
    pub(crate) fn newest(&self) -> u64 {
        *self.store.notice(SHARD).borrow()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    pub(crate) async fn stopped(&self) {
        // The sender is in `self`: waiting for it can not fail.
        let _stopped = self.stop.subscribe().wait_for(|stop| *stop).await.is_ok();
    }

    /// Waits out an outage, or until the stop.
    pub(crate) async fn pause(&self, trouble: String) {
        tracing::warn!(trouble, "projections wait");
        note(&self.board, |board| board.trouble = Some(trouble));
        tokio::select! {
            () = self.stopped() => {}
            () = tokio::time::sleep(RETRY_PAUSE) => {}
        }
    }
}

/// The loops to be spawned: the follower and the rebuilds. They end on stop, or when the store is closed.
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
        tokio::join!(live(&shared), rebuild::serve(&shared, requests));
    }
}

/// Why one follow of the log ended.
enum End {
    Stopped,
    /// A cursor was moved, or stands before what is read.
    Moved,
    Log(FollowError),
    Store(StoreError),
    Views(ViewsError),
}

async fn live(shared: &Shared) {
    shared.board.borrow().measure(shared.newest());
    while !shared.is_stopped() {
        let from = shared.board.borrow().followed().map(|(_, sequence)| sequence).min();
        let end = match from {
            Some(from) => follow(shared, from).await,
            None => tokio::select! {
                () = shared.stopped() => End::Stopped,
                () = shared.moved.notified() => End::Moved,
            },
        };
        match end {
            End::Stopped | End::Moved => {}
            End::Store(error) if batch::is_passing(&error) => outage(shared, &error).await,
            End::Store(error) => shared.pause(chain(&error)).await,
            End::Views(error) => shared.pause(chain(&error)).await,
            End::Log(error) => log_ended(shared, error).await,
        }
    }
}

/// A closed store stays closed; any other outage passes.
async fn outage(shared: &Shared, error: &StoreError) {
    if matches!(error, StoreError::Closed) {
        shared.stop.send_replace(true);
    } else {
        shared.pause(chain(error)).await;
    }
}

async fn log_ended(shared: &Shared, error: FollowError) {
    let done = match error {
        FollowError::Store(error) if batch::is_passing(&error) => {
            return outage(shared, &error).await;
        }
        FollowError::Ahead { newest, .. } => rolled_back(shared, newest).await,
        FollowError::Gap { .. } => {
            metrics::counter!(metric::GAPS).increment(1);
            halt_all(shared, &error).await
        }
        FollowError::NoShard(_) | FollowError::Store(_) => halt_all(shared, &error).await,
    };
    if let Err(error) = done {
        shared.pause(chain(&error)).await;
    }
}

/// One pass over the log, from a cursor until something ends it.
async fn follow(shared: &Shared, from: u64) -> End {
    let mut log = pin!(shared.store.follow(SHARD, from));
    loop {
        let first = tokio::select! {
            biased;
            () = shared.stopped() => return End::Stopped,
            () = shared.moved.notified() => return End::Moved,
            first = log.next() => match first {
                Some(first) => first,
                None => return End::Store(StoreError::Closed),
            },
        };
        let mut batch = match gather(&shared.store, shared.build.decode, first, &mut log).await {
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
    let targets: Vec<(Name, Set)> =
        shared.board.borrow().followed().map(|(name, _)| (name, Set::Live)).collect();
    let stands = shared.writer.apply(targets, &Arc::new(batch)).await?;
    let mut fed = Fed::All;
    note(&shared.board, |board| {
        board.trouble = None;
        for (name, stand) in stands {
            match stand {
                Stand::At(sequence) => board.advance(name, sequence, None),
                Stand::Halted(sequence, halt) => board.advance(name, sequence, Some(halt)),
                Stand::Behind(sequence) => {
                    board.advance(name, sequence, None);
                    fed = Fed::NotAll;
                }
            }
        }
        board.measure(shared.newest());
    });
    Ok(fed)
}

/// The log itself can not be read on: nobody goes past its damage.
async fn halt_all(shared: &Shared, error: &FollowError) -> Result<(), ViewsError> {
    let reason = chain(error);
    let followed: Vec<(Name, u64)> = shared.board.borrow().followed().collect();
    for (name, sequence) in followed {
        let halt = Halt { at: sequence.saturating_add(1), reason: reason.clone() };
        let kept = halt.clone();
        let keep = move |connection: &rusqlite::Connection| {
            let Some(mut cursor) = cursor::load(connection, name, Set::Live)? else {
                return Ok(());
            };
            cursor.halt = Some(kept);
            cursor::save(connection, name, Set::Live, &cursor)
        };
        shared.writer.write(keep).await?;
        note(&shared.board, |board| {
            board.advance(name, sequence, Some(halt));
            board.measure(shared.newest());
        });
    }
    Ok(())
}

/// The log is shorter than it was: rows of what is gone are thrown away.
async fn rolled_back(shared: &Shared, newest: u64) -> Result<(), ViewsError> {
    let followed: Vec<(Name, u64)> = shared.board.borrow().followed().collect();
    for (name, _) in followed.into_iter().filter(|(_, sequence)| *sequence > newest) {
        let (history, code) = (shared.history, (shared.build.code)(name));
        let reset =
            move |connection: &rusqlite::Connection| writer::reset(connection, name, history, code);
        shared.writer.write(reset).await?;
        note(&shared.board, |board| {
            if let Some(entry) = board.entries.get_mut(&name) {
                *entry = Entry { sequence: 0, live: catching_up(newest), ..entry.clone() };
            }
        });
    }
    Ok(())
}

/// How empty tables are kept up while the log ends at `newest`.
pub(crate) fn catching_up(newest: u64) -> Live {
    if newest == 0 { Live::Follows } else { Live::CatchesUp(newest) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::facts::{here, run};
    use crate::tests::journal::Journal;
    use crate::tests::recorder::Recorder;
    use crate::tests::views::{Folder, LONG, caught_up, during, state};
    use crate::{Handle, State};
    use events::record::{Hash, Position};
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
        log_ended(&runner.shared, error).await;
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
        let start = Position { sequence: 0, ..here(0) };
        assert_eq!((status.state, status.position), (State::Rebuilding, start));
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
        let end = tokio::time::timeout(LONG, follow(&runner.shared, 1)).await;
        assert!(matches!(end, Ok(End::Moved)));
        assert!(handle.status().iter().all(|status| status.position == here(0)));
        during(runner, caught_up(&handle, journal.end())).await;
    }

    #[tokio::test]
    async fn a_closed_store_ends_the_runner() {
        let (_, _folder, _, handle, runner) = ended(FollowError::Store(StoreError::Closed)).await;
        runner.run().await;
        assert_eq!(state(&handle, Name::Runs), State::Stopped);
    }
}
