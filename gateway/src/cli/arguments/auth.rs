//! What can be typed after `piton auth`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Provider credentials.
#[derive(Debug, Subcommand)]
pub enum Auth {
    /// List the profiles of every provider and how they fare
    #[command(visible_alias = "list")]
    Ls,
    /// Log in to a subscription; somebody confirms it in a browser, on this machine or on any other
    #[command(after_help = "Examples:\n  piton auth login openai-codex\n  \
                      piton auth login openai-codex work --browser\n\n\
                      A profile that exists gets the tokens of the new login.")]
    Login(Login),
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
    /// Add the login that Codex keeps, or every profile of a credential file
    #[command(after_help = "Examples:\n  piton auth import codex --follow\n  \
                      piton auth import codex --path /srv/codex/auth.json\n  \
                      piton auth import ~/.piton/credentials.json\n\n\
                      With --follow the file is read anew when its token has ended, and Codex goes on refreshing it.\n\
                      Without it the tokens are copied, and refreshed here: Codex must not use them any more.")]
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

/// A login.
#[derive(Debug, Args)]
pub struct Login {
    /// The provider's id
    #[arg(value_name = "PROVIDER")]
    pub provider: String,
    /// The profile's name
    #[arg(value_name = "PROFILE", default_value = "main")]
    pub profile: String,
    /// Come back from a browser of this machine instead of entering a code
    #[arg(long)]
    pub browser: bool,
    /// Where the browser comes back to on this machine [default: 1455, else 1457: the issuer knows these]
    #[arg(long, value_name = "PORT", requires = "browser")]
    pub port: Option<u16>,
}

/// A file of credentials.
#[derive(Debug, Args)]
pub struct Import {
    /// `codex`, or a file of credentials; only its owner may read it
    #[arg(value_name = "codex|FILE")]
    pub source: PathBuf,
    /// With codex: the profile's name [default: codex]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// With codex: use the token that Codex refreshes, and never refresh it here
    #[arg(long)]
    pub follow: bool,
    /// With codex: its file [default: $CODEX_HOME/auth.json, else ~/.codex/auth.json]
    #[arg(long, value_name = "FILE")]
    pub path: Option<PathBuf>,
}
