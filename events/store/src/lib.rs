//! Where events are kept: one contract over memory (tests) and one `SQLite` file (the embedded default).
//!
//! Invariant: an append that was answered [`Appended::Appended`] is durable; what nobody can say is
//! [`Appended::Unknown`] and never called a failure; a reader sees every commit once, in order, or a named error.
//! Absent on purpose: a way to change or delete a commit, a time-out of its own, knowledge of what an entry means.
//!
//! Reading order: [`contract`], [`slot`](mod@contract) inside it, [`Store`], [`fault`], the backends, then
//! [`verify`] and [`backup`].

#![warn(missing_docs)]

pub mod backup;
pub mod contract;
mod error;
pub mod fault;
mod follow;
mod memory;
pub mod metric;
mod slot;
mod snapshot;
mod spill;
mod sqlite;
mod store;
pub mod verify;

pub use contract::{Append, Appended, Blob, Due, Malformed, Outage, Stats};
pub use error::{Corrupt, OpenError, StoreError};
pub use fault::{Fault, Faults, Point};
pub use follow::FollowError;
pub use snapshot::{SNAPSHOT_BYTES_MAX, Snapshot};
pub use spill::{BLOB_BYTES_MAX, COMMIT_INLINE_MAX, PAYLOAD_INLINE_MAX, spill};
pub use store::{Open, Store};
