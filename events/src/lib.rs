//! What can happen and when it may: pure rules over facts, with no I/O, no async and no clock.
//!
//! Invariant: the same state, command and time always give the same events, and whatever `decide` says,
//! `evolve` accepts. Nothing here reads a clock, draws a random number or waits.
//!
//! Reading order: [`quantity`], [`id`], [`record`], [`journal`], [`codec`], [`aggregate`], then the message
//! model ([`message`], [`prompt`], [`context`], [`usage`], [`role`]), the recovery rule ([`model_call`]), leave to send ([`leave`]), the bounds of
//! mediated tools ([`tool_policy`]) and the aggregates
//! (session, run, key, credential, settings, budget, and of a [`project`] its grants, its gates, its artifacts and what it says of itself), and
//! [`subject`], which spells where NATS carries them.

#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

pub mod about;
pub mod aggregate;
pub mod artifact;
pub mod budget;
pub mod catalogue;
pub mod codec;
pub mod context;
pub mod credential;
pub mod gate;
pub mod grant;
pub mod id;
pub mod journal;
pub mod json;
pub mod key;
pub mod leave;
pub mod message;
pub mod model_call;
pub mod project;
pub mod prompt;
pub mod quantity;
pub mod record;
pub mod role;
pub mod run;
pub mod session;
pub mod settings;
pub mod subject;
pub mod tool_policy;
pub mod usage;
