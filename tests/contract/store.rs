//! What a store must do, over and over the same for each backend: a behaviour is an async function over a
//! [`Home`], and the list below runs it in memory, in a file, and on NATS servers: one that syncs always, one that does
//! not and is allowed to, and three in a cluster. A journal is verified after each.

mod append;
mod beside;
mod file;
mod follow;
mod nats;
mod wake;

use crate::probe::JOURNAL;
use events::id::Partition;
use events::record::{Boot, StreamKey};
use std::path::PathBuf;
use store::verify::{no_wakes, verify};
use store::{Faults, Open, Store};
use tempfile::TempDir;

/// Where a behaviour keeps its store.
pub enum Home {
    Memory,
    Sqlite(TempDir),
    Nats(nats::Place),
}

/// The first life of a behaviour's process.
pub const BOOT: Boot = Boot(1);

/// A stream of the suite. All of them share a shard, so that a behaviour may count on their order.
pub fn stream(name: &str) -> StreamKey {
    let names = (0..).map(|n: u32| crate::probe::stream(&format!("{name}~{n}")));
    let shared =
        |stream: &StreamKey| u16::from(stream.partition().number()) % store::jetstream::SHARDS == 0;
    names.into_iter().find(shared).expect("one of eight is in the shard")
}

impl Home {
    fn sqlite() -> Self {
        Self::Sqlite(TempDir::new().unwrap())
    }

    /// An empty store.
    async fn open(&self) -> Store {
        self.open_with(Faults::none()).await
    }

    async fn open_with(&self, faults: Faults) -> Store {
        match self {
            Self::Memory => Store::memory(BOOT, JOURNAL, faults),
            Self::Sqlite(folder) => {
                Store::open(Open { path: journal(folder), boot: BOOT, fresh: JOURNAL, faults })
                    .unwrap()
            }
            Self::Nats(place) => place.open(BOOT, faults, None).await,
        }
    }

    /// The same journal in the process's next life.
    async fn reopen(&self, store: Store, boot: Boot) -> Store {
        match self {
            Self::Memory => store.successor(boot, Faults::none()),
            Self::Sqlite(folder) => {
                store.close().await;
                let path = journal(folder);
                Store::open(Open { path, boot, fresh: JOURNAL, faults: Faults::none() }).unwrap()
            }
            Self::Nats(place) => {
                store.clone().close().await;
                place.open(boot, Faults::none(), Some(&store)).await
            }
        }
    }

    /// Nothing that a behaviour did may look like damage.
    async fn verify(&self) {
        let report = match self {
            Self::Memory => return,
            Self::Sqlite(folder) => verify(&journal(folder), no_wakes, |_, _| {}).unwrap(),
            Self::Nats(place) => {
                let store = place.open(BOOT, Faults::none(), None).await;
                store.verify(no_wakes).await.unwrap().unwrap()
            }
        };
        assert_eq!(report.problems, []);
    }
}

pub fn journal(folder: &TempDir) -> PathBuf {
    folder.path().join("journal.db")
}

/// Takes every partition, each above the epoch that it had.
pub async fn own_all(store: &Store, before: Option<&Store>) {
    let own = |partition| async move {
        let lease = before.map(|store| store.epoch(partition)).unwrap_or_default();
        store.own(partition, lease).await.unwrap()
    };
    futures_util::future::join_all(Partition::all().map(own)).await;
}

/// Makes a test of each behaviour for each backend, and the list of them.
macro_rules! behaviours {
    ($($group:ident :: $name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$group::$name(&super::Home::Memory).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let home = super::Home::sqlite();
                super::$group::$name(&home).await;
                home.verify().await;
            })*
        }

        /// All of them, for homes that are too dear to have one for each.
        fn all_behaviours() -> Vec<(&'static str, nats::Behaviour)> {
            vec![$((stringify!($name), |home| Box::pin($group::$name(home)))),*]
        }
    };
}

behaviours! {
    append::what_is_appended_is_read_back,
    append::the_same_bytes_again_are_a_duplicate,
    append::a_lost_reply_is_settled_after_a_later_owner_has_written,
    append::another_commit_in_the_slot_is_a_conflict,
    append::an_id_with_other_bytes_is_a_conflict,
    append::what_does_not_fit_the_tail_is_a_conflict,
    append::a_later_owner_fences_the_one_before,
    append::another_life_of_the_same_owner_fences,
    append::a_commit_lands_whole_or_not_at_all,
    append::what_no_store_could_keep_is_malformed,
    append::one_slot_has_one_winner,
    append::a_conflict_rejects_one_commit_of_many,
    append::commits_of_one_stream_may_wait_together,
    append::the_epoch_rises_with_every_life,
    append::faults_come_where_they_are_planned,
    append::an_outage_ends,
    append::the_rolling_hash_covers_the_order,
    follow::a_stream_is_read_in_pages,
    follow::a_follower_misses_nothing_that_comes_meanwhile,
    follow::a_follower_keeps_step_with_its_writer,
    follow::a_late_reader_sees_the_same,
    follow::a_cursor_ahead_of_the_log_is_an_error,
    follow::an_unknown_shard_is_an_error,
    follow::a_notice_comes_after_each_append,
    wake::now_comes_first_and_then_the_oldest,
    wake::due_is_paged_without_gap_or_repeat,
    wake::the_newest_commit_decides_the_wake,
    wake::the_next_wake_is_the_earliest_to_come,
    beside::large_payloads_stand_in_blobs,
    beside::a_blob_is_kept_before_any_commit_refers_to_it,
    beside::an_erased_blob_says_so,
    beside::a_blob_that_is_not_there_is_malformed,
    beside::a_snapshot_that_fits_is_returned,
    beside::a_snapshot_that_does_not_fit_is_dropped,
    beside::a_newer_snapshot_takes_the_place,
}
