//! An event as programs outside hear it: a subject, headers by which a gap shows, and one object of JSON.
//!
//! Texts that people or models wrote stay in the journal, unless the configuration lets them out: in their place stand
//! hash and size. `deploy/events.md` is made from this file's output, and a test compares them.

use super::fact::{self, Bodies};
use super::journal;
use super::time::rfc3339;
use events::catalogue::Fact;
use events::quantity::Instant;
use events::record::{Position, StreamKey};
use serde_json::{Value, json};

/// The number of this shape; it changes when a key changes its meaning or goes.
pub const FORMAT: u32 = 1;
/// The event's version in its stream.
pub const VERSION: &str = "Piton-Version";
/// The version of the event that its stream has before it; 0 before the first.
pub const PREVIOUS: &str = "Piton-Previous-Version";
/// Where its commit stands in the order of its shard: `SHARD.SEQUENCE`.
pub const POSITION: &str = "Piton-Position";

/// An event of the journal, with what its readers need beside it.
#[derive(Debug)]
pub struct Public<'a> {
    /// Its stream's project.
    pub project: &'a str,
    /// Its stream.
    pub stream: &'a StreamKey,
    /// Its version.
    pub version: u64,
    /// Where its commit stands.
    pub position: Position,
    /// When it was decided.
    pub at: Instant,
    /// What happened; `None` when only a newer build knows.
    pub fact: Option<&'a Fact>,
}

impl Public<'_> {
    /// The last part of its subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.fact.map_or("unknown", Fact::name)
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        vec![
            (VERSION, self.version.to_string()),
            (PREVIOUS, self.version.saturating_sub(1).to_string()),
            (POSITION, self.position.to_string()),
        ]
    }

    /// The body.
    #[must_use]
    pub fn body(&self, bodies: Bodies) -> Value {
        let data = self.fact.map_or(Value::Null, |known| {
            let mut data = fact::told(known, bodies);
            super::call::name_in(self.stream, known, &mut data);
            data
        });
        self.around(data)
    }

    /// The body of an event that is too large to be told; the journal has it.
    #[must_use]
    pub fn without_data(&self) -> Value {
        self.around(Value::Null)
    }

    fn around(&self, data: Value) -> Value {
        json!({
            "format": FORMAT,
            "project": self.project,
            "kind": self.stream.kind().name(),
            "id": self.stream.id(),
            "version": self.version,
            "previous_version": self.version.saturating_sub(1),
            "position": self.position.to_string(),
            "at": rfc3339(self.at),
            "name": self.name(),
            "event": self.fact.map(journal::event),
            "data": data,
        })
    }
}

#[cfg(test)]
mod tests;
