//! Tools: what a model may call, how it is named and checked, and the native ones.
//!
//! Invariant: no tool runs with arguments that its schema does not admit, and what it runs with is byte for byte what
//! was checked and recorded. This crate knows no actor, no journal and no provider; who may call what, how often and
//! with whose consent is ruled elsewhere, and nothing here repeats a call.
//!
//! Reading order: [`tool`] (the trait), [`name`], [`canonical`], [`schema`], [`settings`] (what is ruled), [`registry`],
//! [`scope`] (what a run may be offered), [`search`], [`outbound`], [`native`].

#![warn(missing_docs)]

pub mod canonical;
pub mod name;
pub mod native;
pub mod outbound;
pub mod registry;
pub mod schema;
pub mod scope;
pub mod search;
pub mod settings;
pub mod tool;

pub use name::{Identity, Names, Style};
pub use registry::{Entry, Quarantined, Registry, RegistryError};
pub use settings::Settings;
pub use tool::{
    Call, Gate, Invalid, Leave, Origin, Rejection, Tier, Tool, ToolError, Violation, Working,
};
