//! The one spawn of this workspace: each task has a kind, and the kind says what cancel and failure mean.
//!
//! A task that is started anywhere else can die without anybody noticing, which is how work falls asleep.

use std::future::Future;
use tokio::task::JoinHandle;
use tracing::Instrument;

/// What a task is for, and so what its end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Owed to the world by a stream. A panic or an abort is reported to its host as a lost outcome; an abort
    /// because the stream no longer owes it is not.
    Effect,
    /// Ticks the idle hosts of one table. Ends with the table; a panic would only keep hosts awake.
    Sweep,
    /// Waits for one host to have started, or for what it waits for itself to be over. A failure is a fall of that host.
    Startup,
    /// Waits before a fallen host is started again. Ends with the table.
    Restart,
    /// Wakes the streams of one partition. Runs as long as the node; dies with it.
    Agenda,
    /// Keeps this node's leases, or waits for one answer of their bucket. Its end lets every lease run out, which shows.
    Lease,
    /// Probes the store while it is out. Ends when the store answers; a panic leaves the gate closed, which shows.
    Probe,
    /// Gives a place back that was kept for a call which did not come. A panic would keep it for ever.
    Room,
    /// Refreshes the token of a login. It outlives its host, for the token that it was given must be kept: whoever asks
    /// next finds it in the vault.
    Refresh,
    /// Serves one caller. Cancel at any await is harmless: only the log holds what counts.
    Serve,
    /// Follows the log from a cursor of its own. Whoever started it starts it again from that cursor.
    Follow,
}

impl Kind {
    /// The word in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Effect => "effect",
            Self::Sweep => "sweep",
            Self::Startup => "startup",
            Self::Restart => "restart",
            Self::Agenda => "agenda",
            Self::Lease => "lease",
            Self::Probe => "probe",
            Self::Room => "room",
            Self::Refresh => "refresh",
            Self::Serve => "serve",
            Self::Follow => "follow",
        }
    }
}

/// Starts a task. Dropping the handle does not stop it.
#[expect(clippy::disallowed_methods, reason = "the one spawn")]
pub fn spawn<F>(kind: Kind, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let span = tracing::debug_span!(parent: None, "task", kind = kind.name());
    tokio::spawn(future.instrument(span))
}
