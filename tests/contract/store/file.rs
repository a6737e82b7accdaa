//! What only a file has: an owner, settings, triggers, copies, and a verification beside the running owner.

use super::{BOOT, journal};
use crate::probe::{JOURNAL, all, grow, stream, wake_of};
use events::record::{Boot, Hash, JournalId, Version};
use rusqlite::Connection;
use std::path::Path;
use std::process::Command;
use store::backup::{BackupError, restore};
use store::verify::{Report, verify};
use store::{Faults, Open, OpenError, Outage, Store, StoreError};
use tempfile::TempDir;

fn open(path: &Path, boot: Boot) -> Result<Store, OpenError> {
    Store::open(Open { path: path.into(), boot, fresh: JOURNAL, faults: Faults::none() })
}

/// A journal of some commits in two streams.
async fn filled(path: &Path) -> Store {
    let store = open(path, BOOT).unwrap();
    for n in 0..5_u8 {
        grow(&store, &stream("a"), &[&[n], &[n]]).await;
        grow(&store, &stream("b"), &[&[n]]).await;
    }
    store
}

fn verified(path: &Path) -> Report {
    let report = verify(path, wake_of, |_, _| {}).unwrap();
    assert_eq!(report.problems, []);
    report
}

#[tokio::test]
async fn a_second_owner_is_refused_with_the_first_ones_pid() {
    let folder = TempDir::new().unwrap();
    let path = journal(&folder);
    let store = filled(&path).await;
    let me = std::process::id();
    let error = open(&path, BOOT).unwrap_err();
    assert!(matches!(error, OpenError::Owned { pid: Some(pid), .. } if pid == me), "{error}");
    // By another name, too.
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(open(&link, BOOT), Err(OpenError::Owned { .. })));
    // And from another process, whose words a person reads.
    let other =
        Command::new(env!("CARGO_BIN_EXE_writer")).arg(&path).args(["honest", "1", "2"]).output();
    let other = other.unwrap();
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(!other.status.success() && said.contains(&format!("process {me}")), "{said}");
    grow(&store, &stream("a"), &[b"still the owner"]).await;

    store.close().await;
    open(&path, Boot(2)).unwrap().close().await;
}

#[tokio::test]
async fn a_closed_store_answers_and_writes_nothing() {
    let folder = TempDir::new().unwrap();
    let store = filled(&journal(&folder)).await;
    let rest = store.clone();
    let tail = store.tail(&stream("a")).await.unwrap();
    store.close().await;
    let answer = rest.append(crate::probe::after(&rest, &stream("a"), tail, &[b"late"])).await;
    assert!(matches!(answer, store::Appended::Unknown(Outage::Unavailable(_))), "{answer:?}");
    assert!(rest.read(&stream("a"), tail.version, 1).await.is_err());
    assert_eq!(verified(&journal(&folder)).commits, 10);
    rest.close().await;
}

#[tokio::test]
async fn a_journal_is_verified_beside_its_owner_at_rest_and_as_a_copy() {
    let folder = TempDir::new().unwrap();
    let path = journal(&folder);
    let store = filled(&path).await;
    let live = verified(&path);
    assert_eq!((live.commits, live.entries, live.streams, live.wakes), (10, 15, 2, 2));
    assert_eq!(live.rolling, store.stats().await.unwrap().rolling);
    assert_eq!(live.journal, JOURNAL);
    store.close().await;

    let before = listing(folder.path());
    assert_eq!(verified(&path), live);
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(verified(&copy), live);
    std::fs::remove_file(&copy).unwrap();
    assert_eq!(listing(folder.path()), before, "a verification leaves nothing behind");

    // A mark of every commit, twice.
    let mut seen = vec![];
    verify(&path, wake_of, |done, total| seen.push((done, total))).unwrap();
    assert_eq!(seen, (1..=20).map(|done| (done, 20)).collect::<Vec<_>>());
}

fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_wake_that_the_rules_do_not_give_is_reported() {
    let folder = TempDir::new().unwrap();
    let store = open(&journal(&folder), BOOT).unwrap();
    let stream = stream("a");
    let mut append = crate::probe::after(&store, &stream, store.empty_tail(&stream), &[b"x"]);
    append.wake = events::aggregate::Wake::OnCommand;
    crate::probe::landed(&store.append(append).await);
    let report = verify(&journal(&folder), wake_of, |_, _| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].to_string().contains("wake"), "{}", report.problems[0]);
}

#[tokio::test]
async fn triggers_keep_every_commit_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = journal(&folder);
    filled(&path).await.close().await;
    let connection = Connection::open(&path).unwrap();
    for change in ["update commits set frame = x'00'", "delete from commits where sequence = 3"] {
        let error = connection.execute(change, []).unwrap_err().to_string();
        assert!(error.contains("a commit is never"), "{error}");
    }
    drop(connection);
    verified(&path);
}

#[tokio::test]
async fn what_is_no_journal_is_left_as_it_was() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("other.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("create table mine(x)").unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(open(&path, BOOT), Err(OpenError::NotAJournal { .. })));
    assert!(matches!(verify(&path, wake_of, |_, _| {}), Err(OpenError::NotAJournal { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let noise = folder.path().join("noise");
    std::fs::write(&noise, [7; 5_000]).unwrap();
    assert!(matches!(open(&noise, BOOT), Err(OpenError::Sqlite(_))));
    let nowhere = folder.path().join("no/such/folder.db");
    assert!(matches!(open(&nowhere, BOOT), Err(OpenError::Io { .. })));

    let newer = journal(&folder);
    filled(&newer).await.close().await;
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(open(&newer, BOOT), Err(OpenError::Schema { found: 99, known: 1 })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_busy_journal_is_whole_and_is_put_back_with_a_mark() {
    let folder = TempDir::new().unwrap();
    let (path, copy) = (journal(&folder), folder.path().join("backup.db"));
    let store = filled(&path).await;
    let busy = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..200_u8 {
                grow(&store, &stream("busy"), &[&[n; 2_000]]).await;
            }
        })
    };
    let report = store.backup(&copy, |done, total| assert!(done <= total)).await.unwrap();
    assert!(report.commits >= 10, "{report:?}");
    busy.await.unwrap();
    let again = store.backup(&copy, |_, _| {}).await;
    assert!(matches!(again, Err(BackupError::Exists(_))), "{again:?}");
    assert_eq!(verified(&copy).rolling, report.rolling);

    let owned = restore(&copy, &path, |_, _| {});
    assert!(matches!(owned, Err(BackupError::Open(OpenError::Owned { .. }))), "{owned:?}");
    assert_eq!(store.stats().await.unwrap().restores, 0);
    store.close().await;
    let restored = restore(&copy, &path, |_, _| {}).unwrap();
    assert_eq!((restored.commits, restored.rolling), (report.commits, report.rolling));
    let store = open(&path, Boot(2)).unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.restores, stats.commits, stats.rolling), (1, report.commits, report.rolling));
    assert_eq!(all(&store, &stream("a")).await.len(), 5);
    store.close().await;
    // What was replaced is kept, and is in the way of the next one.
    let kept = verified(&folder.path().join("journal.db.replaced"));
    assert_eq!(kept.commits, 210);
    assert!(matches!(restore(&copy, &path, |_, _| {}), Err(BackupError::Exists(_))));
}

#[tokio::test]
async fn a_damaged_copy_is_not_put_back() {
    let folder = TempDir::new().unwrap();
    let (path, copy) = (journal(&folder), folder.path().join("backup.db"));
    let store = filled(&path).await;
    store.backup(&copy, |_, _| {}).await.unwrap();
    store.close().await;
    let connection = Connection::open(&copy).unwrap();
    connection
        .execute_batch("update heads set hash = zeroblob(32) where stream = 'probe/a'")
        .unwrap();
    drop(connection);
    let error = restore(&copy, &path, |_, _| {}).unwrap_err();
    assert!(
        matches!(&error, BackupError::Damaged(report) if report.problems_count == 1),
        "{error}"
    );
    assert_eq!(verified(&path).commits, 10, "the journal is as it was");
}

#[tokio::test]
async fn a_journal_keeps_the_name_it_was_made_with() {
    let folder = TempDir::new().unwrap();
    let path = journal(&folder);
    filled(&path).await.close().await;
    let open = Open { path, boot: BOOT, fresh: JournalId(77), faults: Faults::none() };
    let store = Store::open(open).unwrap();
    assert_eq!(store.journal(), JOURNAL);
    assert_ne!(store.stats().await.unwrap().rolling, Hash::default());
}

#[tokio::test]
async fn a_damaged_head_is_a_conflict_whose_reader_is_told() {
    for (column, damage) in
        [("hash", "zeroblob(32)"), ("sequence", "sequence - 1"), ("version", "version + 1")]
    {
        let folder = TempDir::new().unwrap();
        let path = journal(&folder);
        filled(&path).await.close().await;
        let connection = Connection::open(&path).unwrap();
        let update = format!("update heads set {column} = {damage} where stream = 'probe/a'");
        assert_eq!(connection.execute(&update, []).unwrap(), 1);
        drop(connection);
        let store = open(&path, Boot(2)).unwrap();
        let stream = stream("a");
        let append = crate::probe::after(&store, &stream, store.empty_tail(&stream), &[b"x"]);
        let answer = store.append(append).await;
        assert!(matches!(answer, store::Appended::Conflict { .. }), "{column}: {answer:?}");
        for read in
            [store.read(&stream, Version(0), 99).await, store.read(&stream, Version(10), 99).await]
        {
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{column}: {read:?}");
        }
        assert!(matches!(store.tail(&stream).await, Err(StoreError::Corrupt { .. })), "{column}");
        store.close().await;
    }
}
