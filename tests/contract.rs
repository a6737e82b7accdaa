//! Suites that every backend of a contract must pass, the same for each.

mod bus;
mod store;
