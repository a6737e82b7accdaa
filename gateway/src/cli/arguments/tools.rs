//! What can be typed after `piton tools`.

use clap::Subcommand;

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
}
