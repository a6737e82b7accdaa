//! Tools: what a model may call, how it is named and checked, and the native ones.
//!
//! Invariant: no tool runs with arguments that its schema does not admit, and what it runs with is byte for byte what
//! was checked and recorded. This crate knows no actor, no journal and no provider; who may call what, how often and
//! with whose consent is ruled elsewhere, and nothing here repeats a call.
//!
//! Reading order: [`tool`] (the trait), [`name`], [`canonical`], [`schema`], [`registry`], [`native`].

#![warn(missing_docs)]

pub mod canonical;
pub mod name;
pub mod native;
pub mod registry;
pub mod schema;
pub mod tool;

pub use registry::{Entry, Registry, RegistryError};
pub use tool::{
    Call, Gate, Invalid, Leave, Origin, Rejection, Tier, Tool, ToolError, Violation, Working,
};
