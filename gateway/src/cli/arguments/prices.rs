//! What can be typed after `piton prices`.

use clap::Subcommand;
use std::path::PathBuf;

/// The table of prices.
#[derive(Debug, Subcommand)]
pub enum Prices {
    /// List the prices in force, with the day and the place they were read from
    #[command(visible_alias = "list")]
    Ls,
    /// Say what another table would change
    #[command(after_help = "Examples:\n  piton prices diff --file prices.json")]
    Diff {
        /// The other table
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Take another table, after checking it
    #[command(
        after_help = "Examples:\n  piton prices ls --json > prices.json   # then edit it: micro-USD per million tokens\n  piton prices update --file prices.json"
    )]
    Update {
        /// The other table
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}
