//! Questions to `views.db`: a few read-only connections, one short transaction a question.
//!
//! A reader never slows the writer (write-ahead log), and never sees rows without the cursor they belong to.

use crate::cursor;
use crate::tables::{LOCK_WAIT, Set};
use crate::{Name, Reach};
use rusqlite::{Connection, OpenFlags};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Connections, and so questions at once: more than cores only makes each slower.
const READERS: usize = 4;
/// How long a question waits for a connection (5 s); each takes milliseconds.
const READER_WAIT: Duration = Duration::from_secs(5);
/// Rows of one page, whatever is asked for.
pub const ROWS_MAX: u16 = 200;

/// Rows that were asked for, within what a page may have; zero asks for all that it may.
pub(crate) fn page_rows(limit: u16) -> u16 {
    if limit == 0 { ROWS_MAX } else { limit.min(ROWS_MAX) }
}

/// A question got no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Too many ask at once. Try again.
    #[error("the projections are busy: try again")]
    Busy,
    /// `SQLite` refused; it may be tried again. When it stays so, delete `views.db` and start again.
    #[error("views.db could not be read")]
    Sqlite(#[from] rusqlite::Error),
    /// The thread that asked died, or the runtime ends.
    #[error("the question to views.db was broken off")]
    BrokenOff,
}

#[derive(Debug, Clone)]
pub(crate) struct Readers {
    path: Arc<PathBuf>,
    /// A std lock round a push and a pop.
    idle: Arc<Mutex<Vec<Connection>>>,
    room: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        let room = Arc::new(Semaphore::new(READERS));
        Self { path: Arc::new(path), idle: Arc::default(), room }
    }

    /// Asks in one read transaction.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, ReadError> {
        let room = Arc::clone(&self.room).acquire_owned();
        let permit = tokio::time::timeout(READER_WAIT, room).await;
        let permit = permit.ok().and_then(Result::ok).ok_or(ReadError::Busy)?;
        let (path, idle) = (Arc::clone(&self.path), Arc::clone(&self.idle));
        let answered = tokio::task::spawn_blocking(move || {
            // Held until the connection is back, also when nobody waits any more.
            let _permit = permit;
            let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = lock().pop();
            let mut connection = waiting.map_or_else(|| open(&path), Ok)?;
            let transaction = connection.transaction()?;
            let answer = question(&transaction)?;
            drop(transaction);
            lock().push(connection);
            Ok(answer)
        });
        let answered: Result<rusqlite::Result<T>, _> = answered.await;
        answered.map_err(|_| ReadError::BrokenOff)?.map_err(ReadError::Sqlite)
    }
}

fn open(path: &std::path::Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(LOCK_WAIT)?;
    Ok(connection)
}

/// Where the rows of a projection stand, in the transaction they are read in.
pub(crate) fn stands_at(connection: &Connection, name: Name) -> rusqlite::Result<Reach> {
    cursor::reach(connection, name, Set::Live)
}
