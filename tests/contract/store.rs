//! What a store must do, over and over the same for each backend: a behaviour is an async function over a
//! [`Home`], and the list below runs it in memory and in a file. A file is verified after each.

mod append;
mod beside;
mod file;
mod follow;
mod wake;

use crate::probe::JOURNAL;
use events::record::Boot;
use std::path::PathBuf;
use store::verify::{no_wakes, verify};
use store::{Faults, Open, Store};
use tempfile::TempDir;

/// Where a behaviour keeps its store.
pub enum Home {
    Memory,
    Sqlite(TempDir),
}

/// The first life of a behaviour's process.
pub const BOOT: Boot = Boot(1);

impl Home {
    fn sqlite() -> Self {
        Self::Sqlite(TempDir::new().unwrap())
    }

    /// An empty store.
    fn open(&self) -> Store {
        self.open_with(Faults::none())
    }

    fn open_with(&self, faults: Faults) -> Store {
        match self {
            Self::Memory => Store::memory(BOOT, JOURNAL, faults),
            Self::Sqlite(folder) => {
                Store::open(Open { path: journal(folder), boot: BOOT, fresh: JOURNAL, faults })
                    .unwrap()
            }
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
        }
    }

    /// Nothing that a behaviour did may look like damage.
    fn verify(&self) {
        if let Self::Sqlite(folder) = self {
            let report = verify(&journal(folder), no_wakes, |_, _| {}).unwrap();
            assert_eq!(report.problems, []);
        }
    }
}

pub fn journal(folder: &TempDir) -> PathBuf {
    folder.path().join("journal.db")
}

/// Makes a test of each behaviour for each backend.
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
                home.verify();
            })*
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
    beside::an_erased_blob_says_so,
    beside::a_blob_that_is_not_there_is_malformed,
    beside::a_snapshot_that_fits_is_returned,
    beside::a_snapshot_that_does_not_fit_is_dropped,
    beside::a_newer_snapshot_takes_the_place,
}
