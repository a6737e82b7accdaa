//! What can be typed after `piton artifacts`.

use clap::Subcommand;

/// Artifacts.
#[derive(Debug, Subcommand)]
pub enum Artifacts {
    /// List the artifacts of a project: the newest version of each
    #[command(visible_alias = "list")]
    Ls {
        /// Which project
        #[arg(long, value_name = "NAME", default_value = "default")]
        project: String,
    },
    /// Show an artifact with its versions and who made them
    #[command(
        after_help = "Examples:\n  piton artifacts show plan --text\n  piton artifacts show plan --project lab --version 2"
    )]
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Which project
        #[arg(long, value_name = "NAME", default_value = "default")]
        project: String,
        /// Which version; the newest unless said otherwise
        #[arg(long, value_name = "N")]
        version: Option<u32>,
        /// The text and nothing else
        #[arg(long)]
        text: bool,
    },
}
