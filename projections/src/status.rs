//! Where each projection stands, for health, for metrics and for readers that wait for their own write.

use crate::cursor::{Halt, SHARD};
use crate::{Name, metric};
use events::record::Position;
use std::collections::BTreeMap;
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
    /// The last commit in its rows; sequence zero for none.
    pub position: Position,
    /// Commits after that one.
    pub lag: u64,
    /// The number of its fold in this build.
    pub code: u32,
    /// Why the newest batch did not land, while it is tried again.
    pub trouble: Option<String>,
}

/// How the live rows of a projection are kept up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Live {
    /// With the log.
    Follows,
    /// From the start, in place, until here: rows of another history were thrown away.
    CatchesUp(u64),
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
    pub(crate) sequence: u64,
    pub(crate) live: Live,
    pub(crate) beside: Beside,
}

impl Entry {
    fn state(&self) -> State {
        match (&self.live, self.beside) {
            (Live::Follows, Beside::Nothing) => State::Running,
            (Live::Halted(halt), Beside::Nothing) => {
                State::Halted { at: position(halt.at), reason: halt.reason.clone() }
            }
            (Live::CatchesUp(_) | Live::Stale, _) | (_, Beside::Rebuild) => State::Rebuilding,
        }
    }
}

pub(crate) fn position(sequence: u64) -> Position {
    Position { shard: SHARD, sequence }
}

/// Where all of them stand. Only the runner writes it.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) entries: BTreeMap<Name, Entry>,
    pub(crate) trouble: Option<String>,
}

impl Board {
    /// The projections that the live loop feeds.
    pub(crate) fn followed(&self) -> impl Iterator<Item = (Name, u64)> {
        let entries = self.entries.iter();
        entries.filter_map(|(name, entry)| match entry.live {
            Live::Follows | Live::CatchesUp(_) => Some((*name, entry.sequence)),
            Live::Stale | Live::Halted(_) => None,
        })
    }

    /// Notes what a batch led to.
    pub(crate) fn advance(&mut self, name: Name, sequence: u64, halt: Option<Halt>) {
        let Some(entry) = self.entries.get_mut(&name) else { return };
        entry.sequence = sequence;
        let reached = matches!(entry.live, Live::CatchesUp(until) if until <= sequence);
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
    pub(crate) fn measure(&self, newest: u64) {
        for (name, entry) in &self.entries {
            let halted = match entry.live {
                Live::Halted(_) => 1.0,
                Live::Follows | Live::CatchesUp(_) | Live::Stale => 0.0,
            };
            metrics::gauge!(metric::HALTED, metric::PROJECTION => name.word()).set(halted);
            if entry.live == Live::Follows {
                let lag = u32::try_from(newest.saturating_sub(entry.sequence)).unwrap_or(u32::MAX);
                metrics::gauge!(metric::LAG_COMMITS, metric::PROJECTION => name.word()).set(lag);
            }
        }
    }

    pub(crate) fn status(&self, name: Name, newest: u64) -> Option<Status> {
        let entry = self.entries.get(&name)?;
        Some(Status {
            name,
            state: entry.state(),
            position: position(entry.sequence),
            lag: newest.saturating_sub(entry.sequence),
            code: name.code(),
            trouble: self.trouble.clone(),
        })
    }
}

/// Changes the board and wakes whoever waits on it.
pub(crate) fn note(board: &watch::Sender<Board>, change: impl FnOnce(&mut Board)) {
    board.send_modify(change);
}
