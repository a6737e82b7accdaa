//! What can be typed after `piton tools`.

use clap::Subcommand;
use std::path::PathBuf;

/// The tools of a node.
#[derive(Debug, Subcommand)]
pub enum Tools {
    /// List the tools, those that can not be used among them, with the reason
    #[command(visible_alias = "list")]
    Ls,
    /// Show one tool with its schema
    #[command(
        after_help = "Examples:\n  piton tools show note.append\n  piton tools show note_append --json"
    )]
    Show {
        /// Its own name, or the one that models know
        #[arg(value_name = "TOOL")]
        tool: String,
    },
    /// Call a tool once, outside any run; it really happens
    #[command(
        after_help = "Examples:\n  piton tools test clock.now\n  piton tools test note.append --arguments '{\"text\":\"hello\"}'"
    )]
    Test {
        /// Its own name, or the one that models know
        #[arg(value_name = "TOOL")]
        tool: String,
        /// What to call it with: a JSON object
        #[arg(long, value_name = "JSON", default_value = "{}")]
        arguments: String,
    },
    /// Show the bounds of mediated calls that a run gets which starts now
    Policy,
    /// Replace the whole policy; runs that are queued keep theirs
    #[command(after_help = "Example:\n  piton tools configure-policy --file tool-policy.json\n\n\
                            {\"calls_limit\": 30, \"per_tool_limit\": 10, \"timeout_seconds\": 30, \"max_result_bytes\": 256000}")]
    ConfigurePolicy {
        /// A file of JSON with the whole policy; - reads standard input
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}
