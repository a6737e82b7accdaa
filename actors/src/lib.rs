//! The supervised actors and the bus between them: the only crate that waits on decisions.
//!
//! Invariant: a host's memory is always a fold of its stream; nothing is believed, answered or started before the
//! log has it; every queue has a bound, and full is an answer. Absent on purpose: names of actors, a timer per
//! actor, effects that are not owed by a stream, any read of a projection.
//!
//! Reading order: [`task`], [`clock`], [`entropy`], [`order`], [`permit`], [`health`], [`node`], then the host
//! ([`host`], the inbox before it, [`departure`] of its effects, [`table`], [`supervisor`]), who wakes it ([`agenda`]) and who asks it
//! ([`directory`], [`bus`]), on which node ([`cluster`]), who reads along ([`follower`]), and what for ([`credentials`]);
//! what must hold before a tool call may be intended ([`preconditions`], [`hooks`]); [`metric`] names what is counted.

#![warn(missing_docs)]

pub mod agenda;
pub mod bus;
pub mod clock;
pub mod cluster;
pub mod credentials;
pub mod departure;
pub mod directory;
pub mod entropy;
pub mod follower;
pub mod health;
pub mod hooks;
pub mod host;
mod inbox;
pub mod judge;
pub mod live;
pub mod metric;
pub mod node;
pub mod order;
pub mod perform;
pub mod permit;
pub mod preconditions;
pub mod routing;
pub mod served;
pub mod supervisor;
pub mod table;
pub mod task;
