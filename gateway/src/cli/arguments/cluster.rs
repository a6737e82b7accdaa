//! What can be typed about the nodes of a cluster.

use clap::{Args, Subcommand};

/// Nodes.
#[derive(Debug, Subcommand)]
pub enum Nodes {
    /// List the nodes: who lives, what each holds, and the one that is asked
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  piton nodes ls\n  piton nodes ls --json"
    )]
    Ls,
    /// Have a node hand over its partitions and take none, until it is started again or --undo
    #[command(
        after_help = "Examples:\n  piton nodes drain node-2          wait until it holds nothing, then stop it\n  \
                            piton nodes drain node-2 --undo"
    )]
    Drain(Drain),
    /// End a node that hangs or is cut off: others take its partitions, and its writes are refused
    #[command(
        after_help = "Examples:\n  piton nodes fence node-2\n  piton nodes fence node-2 --yes"
    )]
    Fence(Fence),
}

/// Drain a node.
#[derive(Debug, Args)]
pub struct Drain {
    /// The node's name
    #[arg(value_name = "NODE")]
    pub name: String,
    /// Let it take its share again
    #[arg(long)]
    pub undo: bool,
    /// Do not wait until it holds nothing
    #[arg(long, conflicts_with = "undo")]
    pub no_wait: bool,
    /// Give up waiting after so many seconds, with exit code 11; the drain goes on
    #[arg(long, value_name = "SECONDS", default_value_t = 120, conflicts_with_all = ["undo", "no_wait"])]
    pub timeout: u64,
}

/// Fence a node.
#[derive(Debug, Args)]
pub struct Fence {
    /// The node's name
    #[arg(value_name = "NODE")]
    pub name: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
