//! What is asked of a stream's host, and the three kinds of answer: a belief, a refusal, or no decision at all.
//!
//! The two layers of an answer are never merged: "the rules say no" is final, "nobody decided" is to be repeated.

use events::aggregate::Aggregate;
use events::quantity::{Instant, Millis};
use events::record::{Actor, CommandId, Position, Version};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Which way a command takes to its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The usual way, with room for `INBOX` commands of a stream.
    Data,
    /// Read first, with room of its own, so that a flood of data can not keep a stop from arriving.
    Control,
}

impl Lane {
    /// The word in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Control => "control",
        }
    }
}

/// A command on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order<C> {
    /// What is asked.
    pub command: C,
    /// Repeated when the same command is asked again, so that it counts once.
    pub id: CommandId,
    /// The larger piece of work: the first command of the chain.
    pub correlation: u128,
    /// Who asks.
    pub actor: Actor,
    /// When the caller stops waiting; from then on a command that was not decided yet never will be.
    pub deadline: Instant,
    /// Which way it takes.
    pub lane: Lane,
}

/// What a host believed when it answered: the state is exactly that of the version.
pub struct Observed<A: Aggregate> {
    /// The stream's version.
    pub version: Version,
    /// Where the commit stands that ends at this version; sequence 0 for a stream without entries.
    pub position: Position,
    /// The fold of the stream up to the version.
    pub state: Arc<A::State>,
}

impl<A: Aggregate> Clone for Observed<A> {
    fn clone(&self) -> Self {
        Self { version: self.version, position: self.position, state: Arc::clone(&self.state) }
    }
}

impl<A: Aggregate> fmt::Debug for Observed<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("version", &self.version)
            .field("position", &self.position)
            .field("state", &self.state)
            .finish()
    }
}

/// Why a command got no decision. Whoever asks again sends the same command under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoDecision {
    /// No room, or the store is out. Nothing was done: ask again after the wait.
    #[error("no room for the command now: repeat it in {} ms", retry_after.0)]
    Busy {
        /// When it is worth asking again.
        retry_after: Millis,
    },
    /// The stream's host fell too often. Nothing was done: look at the log of the node.
    #[error("the stream is parked until {} (µs since 1970) because its host fell too often", until.0)]
    Parked {
        /// When it is tried again.
        until: Instant,
    },
    /// The host went away or lost its place in the log; the command may have been applied. Repeat it.
    #[error("the host went away before it answered: repeat the command with its id")]
    Lost,
    /// The deadline passed while waiting; the command may yet be applied. Repeat it with a later one.
    #[error(
        "the deadline passed while waiting: repeat the command with its id and a later deadline"
    )]
    TimedOut,
    /// It was too late when it arrived. Nothing was done.
    #[error("the deadline had passed before the command was decided: send a later one")]
    DeadlinePassed,
    /// The id is older than those the stream remembers, so nobody can say whether it was applied. Read the state
    /// and, if it still applies, send it under a new id.
    #[error(
        "the command's id is older than the stream remembers: read its state, then use a new id"
    )]
    Expired,
    /// Nothing was done: send less, or a reference to a blob.
    #[error("the command has {bytes} bytes, the most is {max}: send less")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        max: usize,
    },
    /// No host of this kind can be reached here, or the node is stopping. Nothing was done.
    #[error(
        "nobody here answers for the stream: ask another node, or this one when it is up again"
    )]
    NobodyThere,
    /// The owner runs a build that does not know the command, or the asker one that does not know the refusal.
    /// Nothing was done: upgrade the older one.
    #[error(
        "build {owner} of the owner and build {asker} of the asker do not know the same: upgrade the older one"
    )]
    Unsupported {
        /// Whose command it is.
        asker: Build,
        /// Who should have decided.
        owner: Build,
    },
}

/// Which build of Piton a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Build {
    /// Raised when what was can not go on.
    pub major: u16,
    /// Raised when there is more.
    pub minor: u16,
    /// Raised when it is mended.
    pub patch: u16,
}

impl Build {
    /// This one.
    pub const OURS: Self = Self {
        major: number(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: number(env!("CARGO_PKG_VERSION_MINOR")),
        patch: number(env!("CARGO_PKG_VERSION_PATCH")),
    };
}

const fn number(text: &str) -> u16 {
    match u16::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => u16::MAX,
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// A decision, or none.
pub type Answer<A> = Result<Result<Observed<A>, <A as Aggregate>::Refusal>, NoDecision>;
