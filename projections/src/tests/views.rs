//! Views in a folder of their own, and all that stands in them.

use super::journal::Journal;
use crate::handle::start_as;
use crate::runner::Build;
use crate::{Config, Handle, Name, Runner, State};
use events::record::Position;
use rusqlite::types::Value;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;
use store::Store;

/// Longer than anything here takes; a wait that reaches it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("views.db")
    }

    pub(crate) async fn start(&self, store: &Store) -> (Handle, Runner) {
        self.start_as(store, Build::THIS).await
    }

    pub(crate) async fn start_as(&self, store: &Store, build: Build) -> (Handle, Runner) {
        let config = Config { store: store.clone(), path: self.path() };
        start_as(config, build).await.unwrap()
    }

    /// Follows until all that a journal has is folded.
    pub(crate) async fn follow(&self, journal: &Journal) -> Rows {
        let (handle, runner) = self.start(&journal.store).await;
        during(runner, caught_up(&handle, journal.end())).await;
        rows(&self.path())
    }
}

/// Runs the loops while something else happens, then drops them wherever they are.
/// Boxed, for with its body it is a large future.
pub(crate) fn during<T>(
    runner: Runner,
    body: impl Future<Output = T>,
) -> Pin<Box<impl Future<Output = T>>> {
    Box::pin(async {
        tokio::select! {
            () = runner.run() => panic!("the runner ended by itself"),
            done = body => done,
        }
    })
}

pub(crate) async fn caught_up(handle: &Handle, end: Position) {
    for name in Name::ALL {
        handle.at_least(name, end, LONG).await.unwrap();
    }
}

pub(crate) async fn in_state(handle: &Handle, name: Name, wanted: impl Fn(&State) -> bool) {
    let mut board = handle.board();
    let is = || handle.status().into_iter().any(|one| one.name == name && wanted(&one.state));
    let wait = board.wait_for(|_| true);
    drop(tokio::time::timeout(LONG, wait).await.unwrap().unwrap());
    let reached = async {
        while !is() {
            board.changed().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, reached).await.unwrap();
}

pub(crate) fn state(handle: &Handle, name: Name) -> State {
    handle.status().into_iter().find(|status| status.name == name).unwrap().state
}

/// Every row of every live table, and how far each projection got.
pub(crate) type Rows = Vec<(String, Vec<Value>)>;

pub(crate) fn rows(path: &Path) -> Rows {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(LONG).unwrap();
    let transaction = connection.unchecked_transaction().unwrap();
    let mut all = vec![];
    let owned = Name::ALL.iter().flat_map(|name| name.tables());
    let cursors = "(SELECT projection, tables, shard, sequence, hash, halted_at FROM cursors NATURAL JOIN sets)";
    for table in owned.copied().chain([cursors]) {
        let mut statement = transaction.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            (0..columns).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>()
        };
        let found = statement.query_map([], read).unwrap();
        all.extend(found.map(|row| (table.to_owned(), row.unwrap())));
    }
    all.sort_by_key(|row| format!("{row:?}"));
    all
}
