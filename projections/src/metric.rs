//! Names of what the follower measures, each with its unit.
//!
//! They speak of the follower and of nothing that it reads: a rebuild would otherwise count every fact again.

use metrics::{Unit, describe_counter, describe_gauge};

/// Commits between a projection's cursor and the newest one. Silent while it is rebuilt.
pub const LAG_COMMITS: &str = "piton_projection_lag_commits";
/// Commits that were missing from the log when they were to come.
pub const GAPS: &str = "piton_projection_gaps_total";
/// 1 while a projection is halted at a commit it can not read, else 0.
pub const HALTED: &str = "piton_projection_halted";

/// Which projection; its values are the words of [`crate::Name`].
pub const PROJECTION: &str = "projection";

/// Tells the recorder what the names mean.
pub fn describe() {
    describe_gauge!(LAG_COMMITS, Unit::Count, "commits that a projection has not folded yet");
    describe_counter!(GAPS, Unit::Count, "commits that were missing from the log");
    describe_gauge!(HALTED, Unit::Count, "1 while a projection is halted");
}
