//! Long-lived answers: how events and deltas go out while they come.
//!
//! A reader that lags is cut off and resumes by position; no frame is skipped silently.

pub mod public;
pub mod sse;
