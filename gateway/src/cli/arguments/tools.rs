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
    /// Show what a run's mediated calls came to; exit code 10 while an outcome is unknown
    #[command(
        after_help = "Examples:\n  piton tools invocations run_...\n  piton tools invocations run_... --output jsonl"
    )]
    Invocations {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Give up a call whose outcome is unknown, once its lease has ended; nothing is sent
    #[command(
        after_help = "Example:\n  piton tools abandon run_... inv_... --request-id 00112233445566778899aabbccddeeff\n  \
                      piton run resume run_..."
    )]
    Abandon {
        /// The run's id
        #[arg(value_name = "RUN")]
        run: String,
        /// The invocation: its own id or its correlation id
        #[arg(value_name = "INVOCATION")]
        invocation: String,
        /// 32 lowercase hexadecimal digits that name this decision; the same again is harmless
        #[arg(long, value_name = "ID")]
        request_id: String,
    },
}
