//! What can be typed after `piton scripted`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How it is used.
pub(super) const EXAMPLES: &str = "Examples:\n  piton scripted                          one that talks, in every API's own wire; say help to it\n  \
    piton scripted --script drill.toml      what the file says; deploy/scripted.md has its form\n  \
    PITON_OPENAI_BASE_URL=http://127.0.0.1:9101/v1 piton serve   a node in front of it";

/// Play a provider that follows a script.
#[derive(Debug, Args)]
pub struct Scripted {
    /// The script; without one it answers by what it is asked
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Where it listens, when the script does not say; port 0 for a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Read the script, say what is wrong with it, and play nothing
    #[arg(long, requires = "script")]
    pub check: bool,
}
