//! Names of what the store measures, each with its unit. Ids are never labels.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Seconds from the start of a transaction to its end, fsync included.
pub const COMMIT_SECONDS: &str = "piton_store_commit_seconds";
/// Commits of one transaction.
pub const BATCH_COMMITS: &str = "piton_store_batch_commits";
/// Commits that became durable.
pub const COMMITS: &str = "piton_store_commits_total";
/// Appends that found the queue full and had to wait for room.
pub const QUEUE_FULL: &str = "piton_store_queue_full_total";
/// Appends that did not find their slot free.
pub const CONFLICTS: &str = "piton_store_conflicts_total";
/// Appends whose bytes stood already.
pub const DUPLICATES: &str = "piton_store_duplicates_total";
/// Appends of a former owner.
pub const FENCED: &str = "piton_store_fenced_total";
/// Transactions that failed as a whole, so that nobody could say what became of their commits.
pub const BATCHES_FAILED: &str = "piton_store_batches_failed_total";
/// Bytes of the write-ahead log. Grows without end only while a reader holds an old page of it.
pub const WAL_BYTES: &str = "piton_store_wal_bytes";
/// Snapshots that did not fit their stream and were dropped.
pub const SNAPSHOTS_DROPPED: &str = "piton_store_snapshots_dropped_total";

/// Looks into a slot on a cluster, because the answer to an append was lost, refused or ambiguous.
pub const LOOKS: &str = "piton_store_looks_total";
/// Seconds from the first publish of an append on a cluster to its settled answer.
pub const APPEND_SECONDS: &str = "piton_store_append_seconds";
/// Appends on a cluster that were not answered with a plain yes and had to be looked for, by what they came to.
pub const SETTLED: &str = "piton_store_settled_total";
/// Appends of which nobody can say whether they stand. Their hosts wait until the store answers.
pub const UNKNOWN: &str = "piton_store_unknown_total";
/// Connections to a cluster that came back after an outage.
pub const RECONNECTS: &str = "piton_store_reconnects_total";
/// Connections to a cluster that were given up after a long outage.
pub const GIVEN_UP: &str = "piton_store_connections_given_up_total";
/// 1 while it is proved that every server of the cluster syncs before it acknowledges, else 0.
pub const SYNC_PROVED: &str = "piton_store_sync_proved";

/// What an append came to: appended, duplicate, lost or unknown.
pub const OUTCOME: &str = "outcome";

/// Tells the recorder what the names mean.
pub fn describe() {
    describe_histogram!(COMMIT_SECONDS, Unit::Seconds, "one transaction, fsync included");
    describe_histogram!(BATCH_COMMITS, Unit::Count, "commits of one transaction");
    describe_counter!(COMMITS, Unit::Count, "commits that became durable");
    describe_counter!(QUEUE_FULL, Unit::Count, "appends that waited for room in the queue");
    describe_counter!(CONFLICTS, Unit::Count, "appends whose slot was not free");
    describe_counter!(DUPLICATES, Unit::Count, "appends whose bytes stood already");
    describe_counter!(FENCED, Unit::Count, "appends of a former owner");
    describe_counter!(BATCHES_FAILED, Unit::Count, "transactions that failed as a whole");
    describe_histogram!(APPEND_SECONDS, Unit::Seconds, "an append on a cluster, until settled");
    describe_counter!(SETTLED, Unit::Count, "appends that had to be looked for, by outcome");
    describe_counter!(UNKNOWN, Unit::Count, "appends of which nobody can say whether they stand");
    describe_counter!(RECONNECTS, Unit::Count, "connections that came back after an outage");
    describe_counter!(LOOKS, Unit::Count, "looks into a slot after an unclear answer");
    describe_counter!(GIVEN_UP, Unit::Count, "connections given up after a long outage");
    describe_gauge!(SYNC_PROVED, Unit::Count, "whether every server is proved to sync");
    describe_gauge!(WAL_BYTES, Unit::Bytes, "write-ahead log");
    describe_counter!(SNAPSHOTS_DROPPED, Unit::Count, "snapshots that did not fit their stream");
}
