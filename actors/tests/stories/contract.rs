//! Temporary.
mod bus;
