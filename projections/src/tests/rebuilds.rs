//! Folding again: by command, after another fold, and after another history.

use super::facts::{here, reach, run, used};
use super::journal::{Dice, Journal, answer};
use super::recorder::Recorder;
use super::views::{Folder, LONG, Rows, caught_up, during, in_state, rows, state};
use crate::runner::Build;
use crate::{Name, RebuildError, State};
use events::record::{Boot, JournalId};
use std::sync::{Arc, Mutex};
use store::{Faults, Open, Store};

/// Rows without where they came from: two histories of the same facts differ only there.
fn tables(rows: Rows) -> Rows {
    rows.into_iter().filter(|(table, _)| !table.starts_with('(')).collect()
}

#[tokio::test]
async fn rebuilt_equals_live() {
    for seed in 20..23 {
        let (mut journal, folder) = (Journal::new(seed.into()), Folder::new());
        let mut dice = Dice::new(seed);
        let (handle, runner) = folder.start(&journal.store).await;
        during(runner, async {
            // Live: in many small batches.
            for _ in 0..20 {
                journal.wander(&mut dice, 30).await;
                caught_up(&handle, journal.end()).await;
            }
            let live = rows(&folder.path());
            for name in Name::ALL {
                let told = Arc::new(Mutex::new(vec![]));
                let sink = Arc::clone(&told);
                let progress = move |done, total| sink.lock().unwrap().push((done, total));
                let rebuilt = handle.rebuild(name, progress).await.unwrap();
                assert_eq!(rebuilt.position, journal.reach());
                let total = journal.store.stats().await.unwrap().entries;
                let told = told.lock().unwrap().clone();
                assert_eq!((told[0], *told.last().unwrap()), ((0, total), (total, total)));
                assert_eq!((told.is_sorted(), rebuilt.events), (true, total));
            }
            assert_eq!(rows(&folder.path()), live);
            // And they go on being live.
            journal.wander(&mut dice, 50).await;
            caught_up(&handle, journal.end()).await;
        })
        .await;
        assert_eq!(rows(&folder.path()), Folder::new().follow(&journal).await);
    }
}

#[tokio::test]
async fn a_rebuild_beside_writers_loses_and_doubles_nothing() {
    let (mut journal, folder) = (Journal::new(24), Folder::new());
    let mut dice = Dice::new(24);
    journal.wander(&mut dice, 600).await;
    let (handle, runner) = folder.start(&journal.store).await;
    let beside = Box::pin(async {
        let rebuilds = async {
            for name in Name::ALL {
                handle.rebuild(name, |_, _| {}).await.unwrap();
            }
        };
        let writes = async {
            for _ in 0..200 {
                journal.wander(&mut dice, 3).await;
                tokio::task::yield_now().await;
            }
        };
        // A reader beside them never sees a table missing, or fewer runs than before.
        let reads = async {
            let mut seen = 0;
            for _ in 0..100 {
                let page = handle.runs(crate::runs::Query::default()).await.unwrap();
                assert!(page.count >= seen, "{} after {seen}", page.count);
                seen = page.count;
            }
        };
        tokio::join!(rebuilds, writes, reads);
        caught_up(&handle, journal.end()).await;
    });
    during(runner, beside).await;
    assert_eq!(rows(&folder.path()), Folder::new().follow(&journal).await);
}

#[tokio::test]
async fn a_rebuild_that_meets_what_it_can_not_read_leaves_the_old_rows() {
    let (mut journal, folder) = (Journal::new(25), Folder::new());
    journal.open_run(run(1), "hi").await;
    journal.append_stranger(run(1)).await;
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, async {
        in_state(&handle, Name::Runs, |state| matches!(state, State::Halted { .. })).await;
        let before = rows(&folder.path());
        let rebuilt = handle.rebuild(Name::Runs, |_, _| {}).await;
        assert!(matches!(&rebuilt, Err(RebuildError::Halted { at, .. }) if *at == here(2)));
        assert_eq!(rows(&folder.path()), before);
        assert!(matches!(state(&handle, Name::Runs), State::Halted { at, .. } if at == here(2)));
        assert!(handle.run(run(1)).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn another_fold_serves_the_old_rows_until_it_has_its_own() {
    let (mut journal, folder) = (Journal::new(26), Folder::new());
    journal.wander(&mut Dice::new(26), 300).await;
    let whole = folder.follow(&journal).await;
    // As an older fold would have left it: a row that the new one does not make.
    let connection = rusqlite::Connection::open(folder.path()).unwrap();
    connection.execute("UPDATE sessions SET title = 'old'", []).unwrap();
    drop(connection);

    let code = |name: Name| name.code() + u32::from(name == Name::Sessions);
    let build = Build { code, ..Build::THIS };
    let (handle, runner) = folder.start_as(&journal.store, build).await;
    assert_eq!(state(&handle, Name::Runs), State::Running);
    assert_eq!(state(&handle, Name::Sessions), State::Rebuilding);
    let page = handle.sessions(crate::sessions::Query::default()).await.unwrap();
    assert!(page.rows.iter().all(|row| row.title.as_deref() == Some("old")));
    during(runner, in_state(&handle, Name::Sessions, |state| *state == State::Running)).await;
    assert_eq!(rows(&folder.path()), whole);
    // The number was kept with the rows: the next start of that build has nothing to do.
    let (handle, _runner) = folder.start_as(&journal.store, build).await;
    assert_eq!(state(&handle, Name::Sessions), State::Running);
}

/// A copy that was put back: the rows speak of commits that never were.
#[tokio::test]
async fn a_restored_journal_is_folded_from_the_start() {
    let folder = Folder::new();
    let mut long = Journal::new(27);
    long.wander(&mut Dice::new(27), 300).await;
    folder.follow(&long).await;

    let mut short = Journal::new(27);
    short.wander(&mut Dice::new(28), 40).await;
    assert!(short.newest < long.newest);
    let (handle, runner) = folder.start(&short.store).await;
    assert_eq!(state(&handle, Name::Runs), State::Rebuilding);
    during(runner, async {
        caught_up(&handle, short.end()).await;
        assert_eq!(state(&handle, Name::Runs), State::Running);
    })
    .await;
    let whole = Folder::new().follow(&short).await;
    assert_eq!(rows(&folder.path()), whole);

    // It grows past the cursor, and is put back to another copy that is longer still: only the hash tells.
    let mut other = Journal::new(27);
    other.wander(&mut Dice::new(29), 400).await;
    assert!(other.newest > short.newest);
    assert_eq!(folder.follow(&other).await, Folder::new().follow(&other).await);

    // Another journal with the very same facts.
    let mut foreign = Journal::new(30);
    foreign.wander(&mut Dice::new(29), 400).await;
    let (handle, _runner) = folder.start(&foreign.store).await;
    assert_eq!(state(&handle, Name::Runs), State::Rebuilding);
    let renewed = folder.follow(&foreign).await;
    assert_eq!(tables(renewed), tables(Folder::new().follow(&other).await));
}

#[tokio::test]
async fn rebuilds_are_asked_for_within_bounds_and_end_with_the_runner() {
    let (mut journal, folder) = (Journal::new(31), Folder::new());
    journal.open_run(run(1), "hi").await;
    journal.tell_run(run(1), &answer(0, used(1, 1, None))).await;
    let (handle, runner) = folder.start(&journal.store).await;
    let waiting: Vec<_> = (0..crate::rebuild::REQUESTS_MAX)
        .map(|_| Box::pin(handle.rebuild(Name::Runs, |_, _| {})))
        .collect();
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
    let refused = handle.rebuild(Name::Runs, |_, _| {}).await;
    assert!(matches!(refused, Err(RebuildError::Busy)), "{refused:?}");
    drop(runner);
    let all = tokio::time::timeout(LONG, waiting).await.unwrap();
    assert!(all.iter().all(|one| matches!(one, Err(RebuildError::Stopped))), "{all:?}");
}

/// What is folded again has happened before: nobody may be told of it a second time.
#[tokio::test]
async fn a_rebuild_touches_no_metric() {
    let (mut journal, folder) = (Journal::new(32), Folder::new());
    journal.wander(&mut Dice::new(32), 100).await;
    let recorder = Recorder::default();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, async {
        caught_up(&handle, journal.end()).await;
        let before = recorder.touched();
        assert!(before > 0, "following itself is measured");
        for name in Name::ALL {
            handle.rebuild(name, |_, _| {}).await.unwrap();
        }
        assert_eq!(recorder.touched(), before);
    })
    .await;
}

fn owner(path: &std::path::Path, boot: u128) -> Store {
    let (boot, fresh) = (Boot(boot), JournalId(33));
    Store::open(Open { path: path.to_path_buf(), boot, fresh, faults: Faults::none() }).unwrap()
}

/// The same over a journal file: a new owner changes nothing, a copy that is put back changes all.
#[tokio::test]
async fn a_journal_file_is_followed_across_owners_and_rebuilt_after_a_restore() {
    let (folder, files) = (Folder::new(), tempfile::tempdir().unwrap());
    let (path, copy) = (files.path().join("journal.db"), files.path().join("copy.db"));
    let mut journal = Journal::of(owner(&path, 1));
    let mut dice = Dice::new(33);
    journal.wander(&mut dice, 60).await;
    let (handle, runner) = folder.start(&journal.store).await;
    during(runner, async {
        journal.wander(&mut dice, 60).await;
        caught_up(&handle, journal.end()).await;
    })
    .await;
    journal.store.backup(&copy, |_, _| {}).await.unwrap();
    let copied = rows(&folder.path());

    let folded = journal.newest;
    journal.store.close().await;
    journal.store = owner(&path, 2);
    let (handle, runner) = folder.start(&journal.store).await;
    let status = handle.status().into_iter().next().unwrap();
    assert_eq!((status.state, status.position, status.lag), (State::Running, reach(folded), 0));
    during(runner, async {
        journal.wander(&mut dice, 60).await;
        caught_up(&handle, journal.end()).await;
    })
    .await;
    assert_eq!(rows(&folder.path()), Folder::new().follow(&journal).await);

    journal.store.close().await;
    store::backup::restore(&copy, &path, |_, _| {}).unwrap();
    journal.store = owner(&path, 3);
    let (handle, runner) = folder.start(&journal.store).await;
    assert_eq!(state(&handle, Name::Runs), State::Rebuilding);
    during(runner, caught_up(&handle, here(folded))).await;
    assert_eq!(rows(&folder.path()), copied);
    journal.store.close().await;
}
