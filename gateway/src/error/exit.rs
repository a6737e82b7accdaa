//! What `piton` tells a shell when it ends. Scripts branch on these numbers: never change one.

use std::process::ExitCode;

/// How the command line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// It could not be done, for a reason that none of the others names.
    Failure = 1,
    /// The command or its arguments make no sense.
    Usage = 2,
    /// The configuration is wrong or lacks something.
    Configuration = 3,
    /// There is no key, or the node does not know it.
    Auth = 4,
    /// There is no such thing.
    NotFound = 5,
    /// It does not fit the state of things, or the thing is taken.
    Conflict = 6,
    /// The key's role may not, or a person said no.
    Denied = 7,
    /// The budget is used up.
    Budget = 8,
    /// Every provider that could answer has failed.
    ProvidersExhausted = 9,
    /// An outcome is unknown, and a person has to look.
    NeedsReconciliation = 10,
    /// The time is over.
    TimedOut = 11,
    /// Stored bytes are not those that were written, or decisions differ from the recorded ones.
    Integrity = 12,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}
