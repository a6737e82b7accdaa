//! What can be typed after `piton auth`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Provider credentials.
#[derive(Debug, Subcommand)]
pub enum Auth {
    /// List the profiles of every provider and how they fare
    #[command(visible_alias = "list")]
    Ls,
    /// Add a profile; its key is read from standard input, or from a variable that is named
    #[command(after_help = "Examples:\n  pass openai/work | piton auth add openai work\n  \
                      piton auth add openai work --from-env WORK_OPENAI_KEY")]
    Add(Secret),
    /// Put another key into a profile; what was seen of the old one does not count
    Rotate(Secret),
    /// Use a profile no more, until it is revived or rotated
    MarkDead(Profile),
    /// Use a dead or cooling profile again
    Revive(Profile),
    /// Forget a profile and its key
    Rm(Profile),
    /// Add every profile of a credential file, as a node without a cluster keeps it
    #[command(after_help = "Examples:\n  piton auth import ~/.piton/credentials.json")]
    Import(Import),
}

/// A profile and where its key comes from; never a flag, for every process of the machine can read those.
#[derive(Debug, Args)]
pub struct Secret {
    /// The provider's id
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
    /// The profile's name
    #[arg(value_name = "PROFILE", default_value = "main")]
    pub profile: String,
    /// Read the key from this variable instead of standard input
    #[arg(long, value_name = "NAME")]
    pub from_env: Option<String>,
}

/// A profile.
#[derive(Debug, Args)]
pub struct Profile {
    /// The provider's id
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
    /// The profile's name
    #[arg(value_name = "PROFILE")]
    pub profile: String,
}

/// A file of credentials.
#[derive(Debug, Args)]
pub struct Import {
    /// The file; only its owner may read it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
