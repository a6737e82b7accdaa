//! What the rest of a node holds of the projections: questions, status, and waiting for its own write.

use crate::batch::is_passing;
use crate::cursor::{self, Cursor, History};
use crate::reader::{ReadError, Readers};
use crate::rebuild::{Progress, REQUESTS_MAX, RebuildError, Rebuilt, Request};
use crate::runner::{BATCHES_MAX, Build, Lane, Runner, Shared, catching_up};
use crate::status::{Beside, Board, Entry, Live, State, Status};
use crate::tables::{self, OpenError, Set};
use crate::writer::{self, ViewsError, Writer};
use crate::{
    Name, Reach, approvals, credentials, gates, grants, invocations, keys, reach, runs, search,
    sessions, usage,
};
use events::id::{KeyId, RunId, SessionId};
use events::quantity::Instant;
use events::record::{Hash, Position};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use store::{Store, StoreError};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot, watch};

/// The longest wait for a position (30 s): a caller of HTTP has gone by then.
const AT_LEAST_MAX: Duration = Duration::from_secs(30);
/// How long a stop waits for the batch under way (10 s); after it the batch lands, or not, by itself.
const STOP_MAX: Duration = Duration::from_secs(10);

/// What the projections of a node are made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// The journal they are folded from.
    pub store: Store,
    /// Their file, `<data>/views.db`; made when it does not exist. Its folder must.
    pub path: PathBuf,
}

/// The projections could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file can not be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file can not be written.
    #[error(transparent)]
    Views(#[from] ViewsError),
    /// The journal can not be read.
    #[error("the journal could not be read")]
    Store(#[from] StoreError),
}

/// A position was not reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotThere {
    /// Not in that time. Ask again, or read what there is.
    #[error("the projection stands at {reached}: ask again")]
    Late {
        /// How far it got in that shard.
        reached: Position,
    },
    /// It stays before a commit that it can not read.
    #[error("the projection is halted before {at}: {reason}")]
    Halted {
        /// That commit.
        at: Position,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody follows the log, or not that shard of it.
    #[error("nobody follows the log up to {0}")]
    Stopped(Position),
}

/// A handle on the projections; clone it freely.
#[derive(Debug, Clone)]
pub struct Handle {
    store: Store,
    readers: Readers,
    board: watch::Receiver<Board>,
    requests: mpsc::Sender<Request>,
    stop: Arc<watch::Sender<bool>>,
}

/// Opens the views and finds out what of them still holds. Nothing is followed until the [`Runner`] runs.
///
/// # Errors
///
/// When the file can not be used, or the journal can not be read.
pub async fn start(config: Config) -> Result<(Handle, Runner), StartError> {
    start_as(config, Build::THIS).await
}

pub(crate) async fn start_as(config: Config, build: Build) -> Result<(Handle, Runner), StartError> {
    let Config { store, path } = config;
    // Once it has counted them, the store knows the newest commit of each shard.
    let stats = store.stats().await?;
    let newest = reach::newest(&store);
    let shards = store.shards();
    let history = History { journal: store.journal(), restores: stats.restores };
    let file = path.clone();
    let opened = tokio::task::spawn_blocking(move || tables::open(&file)).await;
    let writer = Writer::new(opened.map_err(|_| ViewsError::BrokenOff)??);
    let mut entries = BTreeMap::new();
    let mut hashes = BTreeMap::new();
    for name in Name::ALL {
        let code = (build.code)(name);
        let load =
            move |connection: &rusqlite::Connection| cursor::load(connection, name, Set::Live);
        let found = writer.write(load).await?;
        let same = match &found {
            Some(cursor) if cursor.history == history && cursor.is_of(&shards) => {
                is_of_log(&store, cursor, &newest, &mut hashes).await?
            }
            Some(_) | None => false,
        };
        let (reach, live) = match found {
            Some(cursor) if same => {
                let kept = Cursor { halt: None, ..cursor };
                let live = if kept.code == code { Live::Follows } else { Live::Stale };
                let reach = kept.reach();
                let retry = move |connection: &rusqlite::Connection| {
                    cursor::save(connection, name, Set::Live, &kept)
                };
                writer.write(retry).await?;
                (reach, live)
            }
            Some(_) | None => {
                let start = Cursor::start(&shards, history, code);
                let reach = start.reach();
                let reset =
                    move |connection: &rusqlite::Connection| writer::reset(connection, name, start);
                writer.write(reset).await?;
                (reach, catching_up(newest.clone()))
            }
        };
        entries.insert(name, Entry { reach, live, beside: Beside::Nothing });
    }
    let board = watch::Sender::new(Board { entries, troubles: BTreeMap::new() });
    let (asks, requests) = mpsc::channel(REQUESTS_MAX);
    let stop = Arc::new(watch::Sender::new(false));
    let handle = Handle {
        store: store.clone(),
        readers: Readers::new(path),
        board: board.subscribe(),
        requests: asks,
        stop: Arc::clone(&stop),
    };
    let lanes = shards.into_iter().map(Lane::new).collect();
    let (turn, room) = (Mutex::new(()), Semaphore::new(BATCHES_MAX));
    let shared = Shared { store, writer, history, build, board, lanes, turn, room, stop };
    Ok((handle, Runner { shared: Arc::new(shared), requests }))
}

/// Whether the log still has the cursor's very commits: a copy that was put back by hand has the same journal and
/// perhaps as many commits, but other ones. `hashes` has those that were looked up for other cursors.
async fn is_of_log(
    store: &Store,
    cursor: &Cursor,
    newest: &Reach,
    hashes: &mut BTreeMap<Position, Option<Hash>>,
) -> Result<bool, StoreError> {
    for (shard, place) in cursor.places.iter().filter(|(_, place)| place.sequence > 0) {
        if place.sequence > newest.of(*shard) {
            return Ok(false);
        }
        let at = Position { shard: *shard, sequence: place.sequence };
        let hash = match hashes.get(&at) {
            Some(hash) => *hash,
            None => hash_at(store, at).await?,
        };
        hashes.insert(at, hash);
        if hash.is_some_and(|hash| hash != place.hash) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The hash of the commit at a position of the log; `None` where it is damaged.
async fn hash_at(store: &Store, at: Position) -> Result<Option<Hash>, StoreError> {
    let mut log = pin!(store.follow(at.shard, at.sequence.saturating_sub(1)));
    match log.next().await {
        Some(Ok(recorded)) => Ok(Some(recorded.hash)),
        Some(Err(store::FollowError::Store(error))) if is_passing(&error) => Err(error),
        // Damage is for the follower to meet and to name.
        Some(Err(_)) | None => Ok(None),
    }
}

impl Handle {
    /// A page of runs, newest first.
    ///
    /// # Errors
    ///
    /// As each question: when the views can not be read.
    pub async fn runs(&self, query: runs::Query) -> Result<runs::Page, ReadError> {
        self.readers.read(move |connection| runs::list(connection, &query)).await
    }

    /// One run's row. A caller that has just been told of the run asks its owner instead.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn run(&self, id: RunId) -> Result<Option<runs::Row>, ReadError> {
        self.readers.read(move |connection| runs::one(connection, id)).await
    }

    /// A page of sessions, the most recently active first.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn sessions(&self, query: sessions::Query) -> Result<sessions::Page, ReadError> {
        self.readers.read(move |connection| sessions::list(connection, &query)).await
    }

    /// One session's row.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn session(&self, id: SessionId) -> Result<Option<sessions::Row>, ReadError> {
        self.readers.read(move |connection| sessions::one(connection, id)).await
    }

    /// The profiles of all providers, removed ones included, with what happened to each.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn credentials(&self) -> Result<credentials::Page, ReadError> {
        self.readers.read(credentials::list).await
    }

    /// The standing grants of all projects, those that ended and those taken back included.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn grants(&self) -> Result<grants::Page, ReadError> {
        self.readers.read(grants::list).await
    }

    /// The gates of all projects that have a history.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn gates(&self) -> Result<gates::Page, ReadError> {
        self.readers.read(gates::list).await
    }

    /// The texts that have some words, the best first.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn search(&self, query: search::Query) -> Result<search::Page, ReadError> {
        self.readers.read(move |connection| search::find(connection, &query)).await
    }

    /// A page of holds, the newest first.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn approvals(&self, query: approvals::Query) -> Result<approvals::Page, ReadError> {
        self.readers.read(move |connection| approvals::list(connection, &query)).await
    }

    /// A page of invocations, the newest first.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn invocations(
        &self,
        query: invocations::Query,
    ) -> Result<invocations::Page, ReadError> {
        self.readers.read(move |connection| invocations::list(connection, &query)).await
    }

    /// A page of keys, revoked ones included, by id.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn keys(&self, after: Option<KeyId>) -> Result<keys::Page, ReadError> {
        self.readers.read(move |connection| keys::list(connection, after)).await
    }

    /// Sums of all calls by one property.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn usage(&self, by: usage::By) -> Result<usage::Totals, ReadError> {
        self.readers.read(move |connection| usage::total(connection, by)).await
    }

    /// Sums of one run's calls by one property.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn usage_of(&self, run: RunId, by: usage::By) -> Result<Vec<usage::Line>, ReadError> {
        self.readers.read(move |connection| usage::of_run(connection, run, by)).await
    }

    /// Who was served by another model than the one that was meant to, the newest first, at most 200.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn fallbacks(&self) -> Result<Vec<usage::Fallback>, ReadError> {
        self.readers.read(usage::fallbacks).await
    }

    /// Sums of the calls that were settled in the last hours.
    ///
    /// # Errors
    ///
    /// When the views can not be read.
    pub async fn usage_summary(
        &self,
        window_hours: u32,
        now: Instant,
    ) -> Result<usage::Summary, ReadError> {
        let question =
            move |connection: &rusqlite::Connection| usage::summary(connection, window_hours, now);
        self.readers.read(question).await
    }

    /// Where each projection stands.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let newest = reach::newest(&self.store);
        let board = self.board.borrow();
        let stopped = self.board.has_changed().is_err();
        let mut all: Vec<Status> =
            Name::ALL.iter().filter_map(|name| board.status(*name, &newest)).collect();
        if stopped {
            all.iter_mut().for_each(|status| status.state = State::Stopped);
        }
        all
    }

    /// Waits until a projection has folded a position of one shard, at most `wait`, and never longer than half a minute.
    /// Says nothing of the other shards.
    ///
    /// # Errors
    ///
    /// When it has not by then, or will not.
    pub async fn at_least(
        &self,
        name: Name,
        wanted: Position,
        wait: Duration,
    ) -> Result<(), NotThere> {
        if !self.store.shards().contains(&wanted.shard) {
            return Err(NotThere::Stopped(wanted));
        }
        let mut board = self.board.clone();
        let mut reached = Position { sequence: 0, ..wanted };
        let look = |board: &Board| {
            let Some(entry) = board.entries.get(&name) else { return false };
            reached.sequence = entry.reach.of(wanted.shard);
            reached.sequence >= wanted.sequence || matches!(entry.live, Live::Halted(_))
        };
        let waited = tokio::time::timeout(wait.min(AT_LEAST_MAX), board.wait_for(look)).await;
        let live = match waited {
            Ok(Ok(board)) => board.entries.get(&name).map(|entry| entry.live.clone()),
            Ok(Err(_)) => return Err(NotThere::Stopped(wanted)),
            Err(_) => return Err(NotThere::Late { reached }),
        };
        match live {
            Some(Live::Halted(halt)) if reached.sequence < wanted.sequence => {
                Err(NotThere::Halted { at: halt.at, reason: halt.reason })
            }
            Some(Live::Follows | Live::CatchesUp(_) | Live::Stale | Live::Halted(_)) | None => {
                Ok(())
            }
        }
    }

    /// Folds a projection again from the first commit and then swaps its rows. `progress` is told events done and in
    /// all. Goes on if the caller does not wait for it.
    ///
    /// # Errors
    ///
    /// [`RebuildError`]; the old rows stand then.
    pub async fn rebuild(
        &self,
        name: Name,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Rebuilt, RebuildError> {
        let (reply, answer) = oneshot::channel();
        let progress: Progress = Box::new(progress);
        let asked = self.requests.try_send(Request { name, progress, reply });
        asked.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => RebuildError::Busy,
            mpsc::error::TrySendError::Closed(_) => RebuildError::Stopped,
        })?;
        answer.await.map_err(|_| RebuildError::Stopped)?
    }

    /// Ends the runner after the batch under way, and waits for that.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let mut board = self.board.clone();
        let gone = async { while board.changed().await.is_ok() {} };
        // Late or not, there is nothing more to do here: the cursors say where to go on.
        let _ended = tokio::time::timeout(STOP_MAX, gone).await.is_ok();
    }

    #[cfg(test)]
    pub(crate) fn board(&self) -> watch::Receiver<Board> {
        self.board.clone()
    }
}
