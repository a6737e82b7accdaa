//! Where each projection stands, for health, for metrics and for readers that wait for their own write.

use crate::cursor::Halt;
use crate::{Name, Reach, metric};
use events::record::{Position, Shard};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::watch;

/// What a projection is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It follows the log.
    Running,
    /// It met a commit that it can not read and stays before it. A build that can goes on from there; otherwise
    /// verify the journal.
    Halted {
        /// That commit.
        at: Position,
        /// What is wrong with it.
        reason: String,
    },
    /// It is folded again from the first commit; what it answers is older, or not all there.
    Rebuilding,
    /// Nobody follows the log: the runner was stopped, or died.
    Stopped,
}

/// One projection, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Which one.
    pub name: Name,
    /// What it is doing.
    pub state: State,
    /// The last commit of each shard in its rows; sequence zero for none.
    pub position: Reach,
    /// Commits after those, of all shards.
    pub lag: u64,
    /// The number of its fold in this build.
    pub code: u32,
    /// Why the newest batch of a shard did not land, while it is tried again; of several shards, each reason once.
    pub trouble: Option<String>,
}

/// How the live rows of a projection are kept up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Live {
    /// With the log.
    Follows,
    /// From the start, in place, until here: rows of another history were thrown away.
    CatchesUp(Reach),
    /// Not at all: another fold made them, and a rebuild will replace them.
    Stale,
    /// Not any more.
    Halted(Halt),
}

/// Whether other rows are being made beside the live ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    Rebuild,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) reach: Reach,
    pub(crate) live: Live,
    pub(crate) beside: Beside,
}

impl Entry {
    fn state(&self) -> State {
        match (&self.live, self.beside) {
            (Live::Follows, Beside::Nothing) => State::Running,
            (Live::Halted(halt), Beside::Nothing) => {
                State::Halted { at: halt.at, reason: halt.reason.clone() }
            }
            (Live::CatchesUp(_) | Live::Stale, _) | (_, Beside::Rebuild) => State::Rebuilding,
        }
    }
}

/// Whose work does not land just now. Each says for itself when it does again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// The live loop's of a shard.
    Lane(Shard),
    Rebuild,
}

/// Where all of them stand. Only the runner writes it.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) entries: BTreeMap<Name, Entry>,
    pub(crate) troubles: BTreeMap<Whose, String>,
}

impl Board {
    /// The projections that the live loops feed.
    pub(crate) fn followed(&self) -> impl Iterator<Item = (Name, &Reach)> {
        let entries = self.entries.iter();
        entries.filter_map(|(name, entry)| match entry.live {
            Live::Follows | Live::CatchesUp(_) => Some((*name, &entry.reach)),
            Live::Stale | Live::Halted(_) => None,
        })
    }

    /// Notes what a batch of a shard led to.
    pub(crate) fn advance(&mut self, name: Name, to: Position, halt: Option<Halt>) {
        let Some(entry) = self.entries.get_mut(&name) else { return };
        entry.reach.set(to);
        let reached = matches!(&entry.live, Live::CatchesUp(until) if entry.reach.covers(until));
        match halt {
            Some(halt) => {
                tracing::error!(
                    projection = name.word(),
                    reason = halt.reason,
                    "projection halted"
                );
                entry.live = Live::Halted(halt);
            }
            None if reached => entry.live = Live::Follows,
            None => {}
        }
    }

    /// Sets the gauges. A projection that is rebuilt is silent.
    pub(crate) fn measure(&self, newest: &Reach) {
        for (name, entry) in &self.entries {
            let halted = match entry.live {
                Live::Halted(_) => 1.0,
                Live::Follows | Live::CatchesUp(_) | Live::Stale => 0.0,
            };
            metrics::gauge!(metric::HALTED, metric::PROJECTION => name.word()).set(halted);
            if entry.live == Live::Follows {
                let lag = u32::try_from(entry.reach.until(newest)).unwrap_or(u32::MAX);
                metrics::gauge!(metric::LAG_COMMITS, metric::PROJECTION => name.word()).set(lag);
            }
        }
    }

    pub(crate) fn status(&self, name: Name, newest: &Reach) -> Option<Status> {
        let entry = self.entries.get(&name)?;
        let troubles: BTreeSet<&str> = self.troubles.values().map(String::as_str).collect();
        let trouble = troubles.into_iter().collect::<Vec<_>>().join("; ");
        Some(Status {
            name,
            state: entry.state(),
            position: entry.reach.clone(),
            lag: entry.reach.until(newest),
            code: name.code(),
            trouble: (!trouble.is_empty()).then_some(trouble),
        })
    }
}

/// Changes the board and wakes whoever waits on it.
pub(crate) fn note(board: &watch::Sender<Board>, change: impl FnOnce(&mut Board)) {
    board.send_modify(change);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(shard: u16, sequence: u64) -> Position {
        Position { shard: Shard(shard), sequence }
    }

    fn board(live: Live) -> Board {
        let reach = [at(0, 4), at(3, 0)].into_iter().collect();
        let entry = Entry { reach, live, beside: Beside::Nothing };
        Board { entries: [(Name::Runs, entry)].into(), troubles: BTreeMap::new() }
    }

    #[track_caller]
    fn check(board: &Board, state: &State, position: &str, lag: u64) {
        let newest = [at(0, 4), at(3, 2)].into_iter().collect();
        let status = board.status(Name::Runs, &newest).unwrap();
        assert_eq!(
            (&status.state, status.position.to_string(), status.lag),
            (state, position.to_owned(), lag)
        );
    }

    #[test]
    fn it_stands_in_each_shard_and_lags_by_the_sum() {
        let mut board = board(Live::Follows);
        check(&board, &State::Running, "0.4", 2);
        board.advance(Name::Runs, at(3, 1), None);
        check(&board, &State::Running, "0.4,3.1", 1);
        // Further than the newest that is known in one shard makes up for nothing in another.
        board.advance(Name::Runs, at(0, 9), None);
        check(&board, &State::Running, "0.9,3.1", 1);
        board.advance(Name::Keys, at(3, 2), None);
        check(&board, &State::Running, "0.9,3.1", 1);
    }

    #[test]
    fn it_has_caught_up_when_it_has_in_every_shard() {
        let until: Reach = [at(0, 5), at(3, 2)].into_iter().collect();
        let mut one = board(Live::CatchesUp(until.clone()));
        one.advance(Name::Runs, at(3, 2), None);
        check(&one, &State::Rebuilding, "0.4,3.2", 0);
        one.advance(Name::Runs, at(0, 5), None);
        check(&one, &State::Running, "0.5,3.2", 0);
        let mut other = board(Live::CatchesUp(until));
        other.advance(Name::Runs, at(0, 5), None);
        check(&other, &State::Rebuilding, "0.5", 2);
        other.advance(Name::Runs, at(3, 2), None);
        check(&other, &State::Running, "0.5,3.2", 0);
    }

    #[test]
    fn a_halt_in_one_shard_ends_its_following_of_all() {
        let mut board = board(Live::Follows);
        assert_eq!(board.followed().count(), 1);
        let halt = Halt { at: at(3, 1), reason: "why".into() };
        board.advance(Name::Runs, at(3, 0), Some(halt));
        check(&board, &State::Halted { at: at(3, 1), reason: "why".into() }, "0.4", 2);
        assert_eq!(board.followed().count(), 0);
    }

    #[test]
    fn troubles_of_several_shards_are_told_each_once() {
        let mut board = board(Live::Follows);
        let trouble = |board: &Board| board.status(Name::Runs, &Reach::default()).unwrap().trouble;
        assert_eq!(trouble(&board), None);
        board.troubles.insert(Whose::Lane(Shard(0)), "no answer".into());
        board.troubles.insert(Whose::Lane(Shard(3)), "no answer".into());
        assert_eq!(trouble(&board).as_deref(), Some("no answer"));
        board.troubles.insert(Whose::Rebuild, "disk full".into());
        assert_eq!(trouble(&board).as_deref(), Some("disk full; no answer"));
    }
}
