//! Where a page of a list ends, so that the next one begins right there.
//!
//! It names the last row by the columns that the list is ordered by, and no position: places in different shards have
//! no order, and the time of a row with its id is the same on every node.

use crate::column::{instant, text};
use events::quantity::Instant;
use rusqlite::types::Value;
use std::fmt;

/// The last row of a page, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark<I> {
    /// The time that the list is ordered by.
    pub at: Instant,
    /// Whose row it is: decides between rows of one time.
    pub id: I,
}

impl<I: fmt::Display> Mark<I> {
    /// As `(time, id) < (?, ?)` takes it.
    pub(crate) fn values(&self) -> [Value; 2] {
        [instant(self.at), text(&self.id)]
    }
}
