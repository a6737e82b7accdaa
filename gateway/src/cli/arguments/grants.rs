//! What can be typed after `piton approvals grants`.

use clap::{Args, Subcommand};

/// Standing grants.
#[derive(Debug, Subcommand)]
pub enum Grants {
    /// List the grants that stand
    #[command(visible_alias = "list")]
    Ls {
        /// Only of this project
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Let calls of a tool through whose every argument is named here
    #[command(
        after_help = "Examples:\n  piton approvals grants add --tool note.append --glob /text='todo: **' --expires 86400\n  \
                      piton approvals grants add --project lab --tool file_write --equal /mode='\"append\"' --glob '/path=notes/*.md'"
    )]
    Add(GrantAdd),
    /// Take a grant back
    Rm {
        /// The grant's id
        #[arg(value_name = "GRANT")]
        id: String,
        /// Its project
        #[arg(long, value_name = "PROJECT", default_value = "default")]
        project: String,
    },
}

/// A standing grant.
#[derive(Debug, Args)]
pub struct GrantAdd {
    /// The project
    #[arg(long, value_name = "PROJECT", default_value = "default")]
    pub project: String,
    /// The tool
    #[arg(long, value_name = "TOOL")]
    pub tool: String,
    /// An argument, by JSON pointer, that must be this JSON value; the pointer "" is all arguments
    #[arg(long, value_name = "POINTER=JSON")]
    pub equal: Vec<String>,
    /// An argument, by JSON pointer, whose text must match: * within a path's part, ** across, ? one character
    #[arg(long, value_name = "POINTER=GLOB")]
    pub glob: Vec<String>,
    /// Ends after so many seconds; else it stands until it is taken back
    #[arg(long, value_name = "SECONDS")]
    pub expires: Option<u64>,
}
