//! Fronts: one module for each API that a client may speak, request to neutral and neutral to frames.
//!
//! Pure: nothing here waits, reads a clock or knows a run. A front that decided something would decide it for one
//! API and forget the others.

pub mod chat;
