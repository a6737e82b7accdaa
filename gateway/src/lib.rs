//! The edge: HTTP, the command line and the wiring of one node. It parses, asks and converts; it decides nothing.
//!
//! Invariant: text becomes a type here and nowhere else, and nothing of ours is spelled in JSON anywhere else. Absent on
//! purpose: rules, and reading the environment anywhere but in [`config`].
//!
//! Reading order: [`cli`] and [`config`], [`boot`] (how a node starts and stops), [`app`], [`service`] (what every request
//! passes), [`routes`], then what they speak: [`front`] (the wires of others), [`wire`] (ours), [`stream`], [`webhooks`]; beside them
//! [`native`] (tools that ask the node) and [`artifacts`], [`bundle`] (what the machines of a cluster need), [`auth`], [`error`], [`telemetry`], [`scripted`].

pub mod app;
pub mod artifacts;
pub mod auth;
pub mod boot;
pub mod bundle;
pub mod cli;
pub mod config;
pub mod directory;
pub mod error;
pub mod extract;
pub mod front;
pub mod metric;
pub mod native;
pub mod routes;
pub mod scripted;
pub mod service;
pub mod stream;
pub mod telemetry;
pub mod webhooks;
pub mod wire;
