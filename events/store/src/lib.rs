//! Where events are kept: one contract over memory (tests), one `SQLite` file (the embedded default) and the streams
//! of a NATS cluster.
//!
//! Invariant: an append that was answered [`Appended::Appended`] is durable; what nobody can say is
//! [`Appended::Unknown`] and never called a failure; a reader sees every commit once, in order, or a named error.
//! Absent on purpose: a way to change or delete a commit, a time-out of its own, knowledge of what an entry means.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use events::{aggregate::Wake, quantity::Instant, record::*};
//! use store::{Append, Appended, Faults, Store};
//!
//! let store = Store::memory(Boot(1), JournalId(7), Faults::none());
//! let stream = StreamKey::named(StreamKind::Probe, "example");
//! let tail = store.tail(&stream).await?;
//! let payload = Payload::Inline(b"it happened"[..].into());
//! let commit = Commit {
//!     journal: store.journal(),
//!     stream: stream.clone(),
//!     first_version: tail.version.plus(1),
//!     epoch: store.epoch(stream.partition()),
//!     boot: store.boot(),
//!     id: CommitId(1),
//!     at: Instant(1),
//!     causes: vec![],
//!     prev: tail.hash,
//!     entries: vec![Entry { kind: 1, schema: 1, seal: None, payload }],
//! };
//! let append = Append { commit, expected: tail, wake: Wake::OnCommand, blobs: vec![] };
//! assert!(matches!(store.append(append.clone()).await, Appended::Appended { .. }));
//! assert!(matches!(store.append(append).await, Appended::Duplicate { version: Version(1), .. }));
//! assert_eq!(store.read(&stream, Version::EMPTY, 10).await?.len(), 1);
//! # Ok::<(), store::StoreError>(())
//! # }).unwrap();
//! ```
//!
//! Reading order: [`contract`], [`Store`], [`fault`], the backends (`slot` has the rule that all share), then
//! [`verify`] and [`backup`]; [`vault`] keeps secrets, which never stand in a commit, and [`private`] its files.

#![warn(missing_docs)]

pub mod backup;
pub mod contract;
mod error;
pub mod fault;
mod follow;
pub mod jetstream;
mod memory;
pub mod metric;
#[doc(hidden)]
pub mod model;
mod owner;
pub mod private;
mod slot;
mod snapshot;
mod spill;
mod sqlite;
mod store;
pub mod vault;
pub mod verify;
mod wakes;

pub use contract::{Append, Appended, Blob, Due, Malformed, Outage, Stats};
pub use error::{Corrupt, OpenError, StoreError};
pub use fault::{Fault, Faults, Point};
pub use follow::FollowError;
pub use jetstream::{Connect, ConnectError};
pub use owner::next_epoch;
pub use snapshot::{SNAPSHOT_BYTES_MAX, Snapshot};
pub use spill::{BLOB_BYTES_MAX, COMMIT_INLINE_MAX, PAYLOAD_INLINE_MAX, spill};
pub use store::{Open, Store};
pub use vault::Vault;
