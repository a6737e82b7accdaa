//! Read models folded from events, for people and lists: runs, usage, sessions, keys, credentials,
//! grants, gates, search, holds, invocations.
//!
//! Invariant: a projection's rows are the fold of exactly the commits up to its cursor in each shard of the log, for
//! both change in one transaction; shards come in any order, for a row rests on one stream or is a commutative sum; what it can not read halts it by name, and nothing is skipped. All of it can be deleted and is built
//! again. Absent on purpose: a decision that rests on a projection, an edge to `actors`, a counter of what happened
//! (the actor whose append made a fact counts it).
//!
//! Reading order: [`name`], [`reach`], [`status`], the pure folds ([`calls`], [`runs`], [`usage`], [`sessions`], [`keys`],
//! [`credentials`], [`grants`], [`gates`], [`search`], [`approvals`], [`invocations`]), then how they are kept (`tables`, `cursor`, `column`), fed (`batch`, `writer`, [`runner`], [`rebuild`]) and asked
//! ([`mark`], [`reader`], [`handle`]).

#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

pub mod approvals;
mod batch;
pub mod calls;
mod column;
pub mod credentials;
mod cursor;
pub mod gates;
pub mod grants;
pub mod handle;
pub mod invocations;
pub mod keys;
pub mod mark;
pub mod metric;
pub mod name;
pub mod numbered;
pub mod reach;
pub mod reader;
pub mod rebuild;
pub mod runner;
pub mod runs;
pub mod search;
pub mod sessions;
pub mod status;
mod tables;
pub mod usage;
mod writer;

pub use handle::{Config, Handle, NotThere, StartError, start};
pub use mark::Mark;
pub use name::Name;
pub use numbered::Numbered;
pub use reach::Reach;
pub use reader::ReadError;
pub use rebuild::{RebuildError, Rebuilt};
pub use runner::Runner;
pub use status::{State, Status};
pub use tables::OpenError;

#[cfg(test)]
mod tests;
