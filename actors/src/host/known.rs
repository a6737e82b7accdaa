//! The newest commands that a stream has applied. A repeat is answered from here before the rules are asked, so
//! that a command whose answer was lost counts once.
//!
//! The oldest id is forgotten first, so every forgotten id is older than every kept one: "older than the oldest
//! kept" is exactly "nobody can say any more".

use events::record::{Cause, CommandId, Version};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Commands of a stream that are remembered, 32 bytes each. A caller that
/// repeats a command does so within seconds; a stream decides hundreds of commands in minutes.
const KNOWN_MAX: usize = 256;

/// Command ids with the version that each one produced, in the order of the ids. New ids are mostly the newest, so a
/// sorted list is as quick as a tree, and a stream that has heard one command does not carry a node of eleven.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known(VecDeque<(CommandId, Version)>);

impl Known {
    /// Takes in what a commit says about itself: `first` is the version of its first entry.
    pub(crate) fn learn(&mut self, first: Version, causes: &[Cause]) {
        let mut version = Version(first.0.saturating_sub(1));
        for cause in causes {
            version = version.plus(usize::from(cause.entries));
            let learned = (cause.command, version);
            match self.place(cause.command) {
                Ok(place) => self.0.iter_mut().skip(place).take(1).for_each(|one| *one = learned),
                Err(place) => self.0.insert(place, learned),
            }
        }
        let over = self.0.len().saturating_sub(KNOWN_MAX);
        self.0.drain(..over);
    }

    /// The stream's version after a command that was applied.
    pub(crate) fn version(&self, command: CommandId) -> Option<Version> {
        let place = self.place(command).ok()?;
        self.0.get(place).map(|(_, version)| *version)
    }

    /// Whether a command may have been applied and forgotten.
    pub(crate) fn has_forgotten(&self, command: CommandId) -> bool {
        let oldest = self.0.front().filter(|_| self.0.len() >= KNOWN_MAX);
        oldest.is_some_and(|(oldest, _)| command < *oldest)
    }

    /// Where a command stands, or where it would.
    fn place(&self, command: CommandId) -> Result<usize, usize> {
        match self.0.back() {
            Some((newest, _)) if command > *newest => Err(self.0.len()),
            Some(_) | None => self.0.binary_search_by_key(&command, |(id, _)| *id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::record::Actor;

    fn cause(command: u128, entries: u16) -> Cause {
        Cause { command: CommandId(command), correlation: 0, actor: Actor::Node, entries }
    }

    #[test]
    fn each_command_of_a_commit_has_the_version_after_its_own_entries() {
        let mut known = Known::default();
        known.learn(Version(5), &[cause(1, 2), cause(2, 1)]);
        assert_eq!(known.version(CommandId(1)), Some(Version(6)));
        assert_eq!(known.version(CommandId(2)), Some(Version(7)));
        assert_eq!(known.version(CommandId(3)), None);
    }

    #[test]
    fn what_is_forgotten_is_older_than_all_that_is_kept_in_whatever_order_it_came() {
        let mut known = Known::default();
        let ids = (0..600).map(|n: u128| (n * 7_919) % 600);
        for (at, id) in (1..).zip(ids) {
            known.learn(Version(at), &[cause(id, 1)]);
        }
        for id in (0..600).map(CommandId) {
            assert_ne!(known.version(id).is_some(), known.has_forgotten(id), "{id}");
        }
        assert_eq!(known.0.len(), KNOWN_MAX);
    }

    #[test]
    fn a_stream_with_room_has_forgotten_nothing() {
        let mut known = Known::default();
        known.learn(Version(1), &[cause(9, 1)]);
        assert!(!known.has_forgotten(CommandId(0)));
    }
}
