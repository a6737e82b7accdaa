//! Why a verb did not do its work, and the exit code that says so.

use crate::auth::private::PrivateError;
use crate::boot::BootError;
use crate::config::{self, ConfigError};
use crate::error::{Code, Exit, chain};
use axum::http::StatusCode;
use std::io;
use std::path::PathBuf;

/// Why a verb did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Mend the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Type it in another way.
    #[error("{0}")]
    Usage(String),
    /// Start a node.
    #[error(
        "no node is recorded in {}: start one with `piton serve`, or name one with --url or {}",
        .0.display(), config::URL
    )]
    NotStarted(PathBuf),
    /// Start a node, or name another.
    #[error(
        "no node answers at {url}: start one with `piton serve`, or name another with --url or {}",
        config::URL
    )]
    NoNode {
        /// Where it was looked for.
        url: String,
        /// What came instead.
        source: reqwest::Error,
    },
    /// Give a key.
    #[error("there is no key for {url}: set {}; {} is only sent to a node on this machine", config::API_KEY, file.display())]
    NoKey {
        /// Where it was to be sent.
        url: String,
        /// The command line's own key.
        file: PathBuf,
    },
    /// The node said no.
    #[error("{message}")]
    Api {
        /// Which error, when it is one of ours.
        code: Option<Code>,
        /// The status of the answer.
        status: StatusCode,
        /// What it said.
        message: String,
    },
    /// What answers there is no node, or one of another version.
    #[error("the answer from {url} is not a node's: {why}")]
    Strange {
        /// Who answered.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Ask again; work that was started goes on.
    #[error("the connection to the node was cut")]
    Cut(#[source] reqwest::Error),
    /// Wait longer; the work goes on.
    #[error("{0}")]
    TimedOut(String),
    /// Look at the file.
    #[error("{what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Look at the file.
    #[error(transparent)]
    Private(#[from] PrivateError),
    /// The reader of our output went away, or the disk behind it is full.
    #[error("the output could not be written")]
    Output(#[from] io::Error),
    /// Mend what stands in the way, or look at the report.
    #[error("{message}")]
    Store {
        /// How the command line ends.
        exit: Exit,
        /// What the store said.
        message: String,
    },
    /// Log in again, as its text says.
    #[error("{0}")]
    Login(String),
    /// The node could not start.
    #[error("{}", chain(.0))]
    Boot(Box<BootError>),
    /// Find out why, and start it again.
    #[error(
        "this node was fenced: what it held belongs to others now; once it is sound, start it again"
    )]
    Fenced,
    /// The node fell.
    #[error("{0}")]
    Node(String),
}

impl CliError {
    /// How the command line ends.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_) => Exit::Configuration,
            Self::Usage(_) => Exit::Usage,
            Self::NoKey { .. } | Self::Login(_) => Exit::Auth,
            Self::Api { code: Some(code), .. } => code.exit(),
            Self::Api { code: None, status, .. } => by_status(*status),
            Self::TimedOut(_) => Exit::TimedOut,
            Self::Fenced => Exit::Denied,
            Self::Store { exit, .. } => *exit,
            Self::Boot(error) => error.exit(),
            Self::NotStarted(_)
            | Self::NoNode { .. }
            | Self::Strange { .. }
            | Self::Cut(_)
            | Self::File { .. }
            | Self::Private(_)
            | Self::Output(_)
            | Self::Node(_) => Exit::Failure,
        }
    }

    /// The page that says what to do, when there is one.
    #[must_use]
    pub fn runbook(&self) -> Option<String> {
        match self {
            Self::Api { code: Some(code), .. } => Some(code.runbook()),
            _ => None,
        }
    }
}

/// For an answer without a code of ours: a proxy's, or one of another version.
fn by_status(status: StatusCode) -> Exit {
    match status.as_u16() {
        400 | 413 | 422 => Exit::Usage,
        401 => Exit::Auth,
        403 => Exit::Denied,
        404 => Exit::NotFound,
        409 => Exit::Conflict,
        408 | 504 => Exit::TimedOut,
        _ => Exit::Failure,
    }
}
