//! What was said and what was written, found by its words: the texts of users and models in sessions, and the newest
//! version of each artifact.
//!
//! A tool's result is not found: the answer of a search would find itself. A text's row has a number that follows from
//! where it stands and not from when it was folded, so that a rebuild in another order of shards makes the same rows.

mod query;
mod rows;

pub use query::{NoQuery, TERMS_MAX, Words};
pub use rows::{Hit, Kind, Page, Query};
pub(crate) use rows::{find, fold};

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 1;
/// Bytes of one text that are searched (512 KiB): an artifact whole, and of a message more than anybody reads.
pub const TEXT_BYTES_MAX: usize = 512 << 10;

#[cfg(test)]
mod tests;
