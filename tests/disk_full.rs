//! A disk that is really full for a while: every append is told so and settles once there is space again. Nothing
//! that was acknowledged is lost, nothing stays parked, and readers go on.

use crate::probe::{JOURNAL, after, all, stream, wake_of};
use events::record::{Boot, CommitId, Version};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use store::verify::verify;
use store::{Appended, Faults, Open, Outage, Store};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Seconds without space; `PITON_TEST_DISK_SECONDS` overrides it.
const SECONDS: u64 = 20;
/// Streams that are written at the same time.
const WRITERS: usize = 32;
/// Commits of each writer before the disk is filled, and again once there is space.
const COMMITS: usize = 12;
/// Between two looks of a writer at whether the store can write again.
const LOOK: Duration = Duration::from_millis(50);
/// What nothing here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Says to the story that it runs in a name space of its own.
const INSIDE: &str = "PITON_TEST_INSIDE";

/// A file system of its own that can be filled.
pub struct Disk {
    pub folder: TempDir,
}

impl Disk {
    pub fn mount() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(folder.path());
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then_some(Self { folder })
    }

    fn ballast(&self) -> PathBuf {
        self.folder.path().join("ballast")
    }

    /// Takes all the space there is.
    pub fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        for size in [1 << 20, 4_096] {
            let chunk = vec![0; size];
            let error = loop {
                if let Err(error) = file.write_all(&chunk) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        }
    }

    pub fn free(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.folder.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// The whole story in a name space where anybody may mount. Says whether there was one.
fn in_a_name_space(story: &str) -> bool {
    let me = std::env::current_exe().unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount"]);
    let possible = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if possible {
        let run = unshare.arg(me).args(["--exact", story, "--nocapture"]).env(INSIDE, "1").status();
        assert!(run.unwrap().success());
    }
    possible
}

pub fn seconds() -> Duration {
    let seconds = std::env::var("PITON_TEST_DISK_SECONDS");
    Duration::from_secs(seconds.map_or(SECONDS, |seconds| seconds.parse().unwrap()))
}

/// What a writer has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    acknowledged: usize,
    outages: usize,
}

/// Appends until it is stopped, and never gives an append up: what is unknown is asked again.
async fn write(
    store: Store,
    name: String,
    stop: watch::Receiver<bool>,
    seen: watch::Sender<Seen>,
) -> Vec<CommitId> {
    let stream = stream(&name);
    let mut tail = store.tail(&stream).await.unwrap();
    let mut acknowledged = vec![];
    while !*stop.borrow() {
        let append = after(&store, &stream, tail, &[&[7; 2_000]]);
        loop {
            match store.append(append.clone()).await {
                Appended::Appended { tail: next, .. } => {
                    tail = next;
                    break;
                }
                Appended::Duplicate { .. } => {
                    tail = store.tail(&stream).await.unwrap();
                    break;
                }
                Appended::Unknown(outage) => {
                    assert_eq!(outage, Outage::Full, "{name}");
                    seen.send_modify(|seen| seen.outages += 1);
                    while store.probe().await.is_err() {
                        sleep_until(Instant::now() + LOOK).await;
                    }
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        acknowledged.push(append.commit.id);
        seen.send_modify(|seen| seen.acknowledged += 1);
    }
    acknowledged
}

/// Waits until every writer has seen this.
async fn each(writers: &mut [watch::Receiver<Seen>], enough: impl Fn(&Seen) -> bool) {
    for seen in writers {
        timeout(PATIENCE, seen.wait_for(&enough)).await.unwrap().unwrap();
    }
}

async fn story(path: &Path, faults: Faults, fill: impl Fn(), free: impl Fn()) {
    let open = Open { path: path.into(), boot: Boot(1), fresh: JOURNAL, faults };
    let store = Store::open(open).unwrap();
    let (stop, stopped) = watch::channel(false);
    let mut writers = vec![];
    let mut seen = vec![];
    for writer in 0..WRITERS {
        let (sender, receiver) = watch::channel(Seen::default());
        seen.push(receiver);
        writers.push(tokio::spawn(write(
            store.clone(),
            format!("w{writer}"),
            stopped.clone(),
            sender,
        )));
    }
    each(&mut seen, |seen| seen.acknowledged >= COMMITS).await;
    fill();
    each(&mut seen, |seen| seen.outages > 0).await;
    let until = Instant::now() + seconds();
    let before: Vec<Seen> = seen.iter().map(|seen| *seen.borrow()).collect();
    sleep_until(until).await;
    assert_eq!(store.probe().await, Err(Outage::Full));
    let during: Vec<Seen> = seen.iter().map(|seen| *seen.borrow()).collect();
    assert_eq!(before, during, "a writer that waits for space does nothing else");
    assert!(all(&store, &stream("w0")).await.len() >= COMMITS, "readers go on");
    free();
    let enough = during.iter().map(|seen| seen.acknowledged + COMMITS).max().unwrap();
    each(&mut seen, |seen| seen.acknowledged >= enough).await;
    stop.send_replace(true);
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        acknowledged.extend(timeout(PATIENCE, writer).await.unwrap().unwrap());
    }
    store.probe().await.unwrap();
    let mut stored = BTreeSet::new();
    for writer in 0..WRITERS {
        let commits = store.read(&stream(&format!("w{writer}")), Version::EMPTY, usize::MAX).await;
        stored.extend(commits.unwrap().iter().map(|recorded| recorded.commit.id));
    }
    assert_eq!(stored, acknowledged, "what was acknowledged, and nothing else");
    store.close().await;
    assert_eq!(verify(path, wake_of, |_, _| {}).unwrap().problems, []);
    println!("{} commits through {:?} without space", acknowledged.len(), seconds());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_and_parks_nobody() {
    if let Some(disk) = Disk::mount() {
        let path = disk.folder.path().join("journal.db");
        story(&path, Faults::none(), || disk.fill(), || disk.free()).await;
    } else if std::env::var(INSIDE).is_ok()
        || !in_a_name_space("disk_full::a_full_disk_loses_nothing_and_parks_nobody")
    {
        // Neither root nor name spaces: the answers of a full disk without the disk.
        println!("no disk can be mounted here: its answers are injected");
        let (folder, faults) = (TempDir::new().unwrap(), Faults::counting());
        let path = folder.path().join("journal.db");
        let (down, up) = (faults.clone(), faults.clone());
        story(&path, faults, || down.take_down(Outage::Full), || up.bring_up()).await;
    }
}
