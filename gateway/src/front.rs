//! Fronts: one module for each API that a client may speak, request to neutral and neutral to frames.
//!
//! Pure: nothing here waits, reads a clock or knows a run. A front that decided something would decide it for one
//! API and forget the others. What they share stands beside them: [`asked`] is what all requests become, [`door`] is
//! where an answer takes one of the shapes.

pub mod asked;
pub mod bad_request;
pub mod blocks;
pub mod chat;
pub mod created;
pub mod door;
pub mod embeddings;
pub mod finish;
pub mod history;
pub mod messages;
pub mod responses;

mod catalogue;
mod image;
mod pairing;
mod tree;
mod wishes;
