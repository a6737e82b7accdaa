//! Why a journal on NATS could not be opened.

use std::fmt;

/// The first server version whose answers the store's rules were checked against.
pub const SERVER_NEEDED: &str = "2.12.0";

/// The journal could not be opened. At most missing streams of a journal that nobody has used yet were made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An address is none. Give `nats://host:port`, and `http://host:port` for monitoring.
    #[error("{0:?} is not an address: give nats://host:port, or http://host:port for monitoring")]
    Address(String),
    /// An address holds a name or password, which would be shown with it. Give them as credentials.
    #[error("an address holds credentials: give them by themselves")]
    SecretInAddress,
    /// No server answered. Look at the addresses, the credentials and the servers.
    #[error("no NATS server could be reached: {0}")]
    Unreachable(String),
    /// A server is too old: its order of checks is not what the store relies on. Update it.
    #[error("server {server} has version {found}, at least {SERVER_NEEDED} is needed: update it")]
    TooOld {
        /// Which one.
        server: String,
        /// What it says.
        found: String,
    },
    /// It is not proved that what a server acknowledges is on its disk. Set `sync_interval: always` on every server,
    /// give all of their monitoring addresses, or accept the loss of acknowledged commits at a power failure.
    #[error(
        "{0}: set sync_interval: always in its jetstream block and give its monitoring address, or allow lazy fsync"
    )]
    Unsafe(Unsafe),
    /// A stream that must exist does not, and making it again would start its history anew. Restore it.
    #[error(
        "stream {0} is gone: the journal has used it, so it is not made again; restore it from a backup"
    )]
    StreamGone(String),
    /// A stream has commits, but no journal is named. Restore the stream of names, or give another namespace.
    #[error(
        "stream {0} has commits, but the journal's own name is gone: restore it, or give another namespace"
    )]
    Nameless(String),
    /// A stream is not set up as the journal needs it. Compare it with the documentation.
    #[error("stream {name} has {setting} {found}, but needs {wanted}")]
    Differs {
        /// Which one.
        name: String,
        /// Which setting.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        wanted: String,
    },
    /// What the journal keeps about itself does not read. Start a build that knows it, or restore it.
    #[error("what the journal keeps about itself does not read: {0}")]
    Meta(String),
    /// The servers did not do it in time. It may be tried again.
    #[error("{what} did not succeed: {why}")]
    Nats {
        /// What was tried.
        what: String,
        /// The last answer.
        why: String,
    },
}

/// What is not proved about syncing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsafe {
    /// A server says that it acknowledges before its disk has the bytes.
    Lazy(String),
    /// A server that keeps a part of the journal is at none of the monitoring addresses.
    Unwatched(String),
    /// A monitoring address did not answer as one does.
    Silent {
        /// Which one.
        monitor: String,
        /// How.
        why: String,
    },
}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lazy(server) => {
                write!(f, "server {server} acknowledges before its disk has the bytes")
            }
            Self::Unwatched(server) => {
                write!(
                    f,
                    "server {server} keeps a part of the journal, but no monitoring address is given for it"
                )
            }
            Self::Silent { monitor, why } => {
                write!(f, "the monitoring address {monitor} does not answer: {why}")
            }
        }
    }
}
