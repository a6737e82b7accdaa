//! Model APIs: a neutral request goes in and wire bytes come out; wire bytes go in and an answer comes out.
//!
//! Invariant: a call gives an [`Answer`] that was read up to its terminal event, or a [`Failure`] that says what went
//! wrong and whether it can have cost anything, or [`Unanswered::NotSent`], and then nothing left. This crate translates and decides nothing: no retry, no fallback, no
//! choice of provider happens here (`events::model_call` rules them), it reads no clock of the day, no environment
//! and no file, and it knows no actor.
//!
//! Reading order: [`endpoint`] and [`registry`] (where a call goes), [`delta`] (what it yields), [`family`] (what is
//! spoken there, pure), [`encode`] and [`decode`] (what the families share), a module for each family, [`sse`],
//! [`class`] (what went wrong), [`login`] (tokens that are asked for and end), [`play`] (the other side of the wire),
//! [`transport`] (the only socket), [`pricing`], [`metric`].

#![warn(missing_docs)]

mod anthropic;
mod bedrock;
pub mod class;
mod decimal;
pub mod decode;
pub mod delta;
pub mod encode;
pub mod endpoint;
mod escape;
pub mod family;
mod gemini;
mod image;
pub mod login;
pub mod metric;
mod openai_chat;
mod openai_responses;
pub mod play;
pub mod pricing;
pub mod registry;
mod schema;
mod secret;
mod seen;
pub mod sse;
pub mod transport;

pub use class::{Charge, Class, Failure};
pub use delta::{Answer, Delta, Stop};
pub use endpoint::{Endpoint, Quirks};
pub use family::{Family, Mode};
pub use schema::unfit;
pub use secret::Secret;
pub use seen::Seen;
pub use transport::{Client, ClientError, Unanswered};

#[cfg(test)]
mod recorded;
