//! What can be typed about the nodes of a cluster.

use clap::{Args, Subcommand};
use std::path::PathBuf;

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
    /// Let no older build in any more, once every node runs this one; there is no way back
    #[command(
        after_help = "Examples:\n  piton nodes upgrade-schema\n  piton nodes upgrade-schema --yes"
    )]
    UpgradeSchema(UpgradeSchema),
}

/// Raise the minimum reader.
#[derive(Debug, Args)]
pub struct UpgradeSchema {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
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

/// A cluster of machines.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Make a bundle for each of three machines: configurations, certificates, passwords
    #[command(after_help = "Examples:\n  piton cluster init --servers n1,n2,n3 --out cluster\n  \
                            piton cluster init --servers 10.0.0.1,10.0.0.2,10.0.0.3 --namespace prod --out cluster")]
    Init(ClusterInit),
    /// Check a machine's bundle, put its files into their places and say how to start
    #[command(after_help = "Examples:\n  piton cluster join --from n2")]
    Join(ClusterJoin),
    /// Seal every secret of the vault under the newest key of the cluster key file; nodes go on meanwhile
    #[command(
        after_help = "Put the new key's line first into the cluster key file of every node, then run this once. It may be\n\
                      cut and run again. It says when the old key's line may be dropped."
    )]
    RotateKey,
}

/// Make bundles.
#[derive(Debug, Args)]
pub struct ClusterInit {
    /// The three machines, as they reach each other; with other ports HOST:CLIENT:ROUTE:MONITOR:NODE
    #[arg(long, value_name = "HOST,HOST,HOST")]
    pub servers: String,
    /// The folder for the bundles; new, or empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Which journal on the servers
    #[arg(long, value_name = "NAME", default_value = "piton")]
    pub namespace: String,
    /// The root below which a machine's files are put; {name} stands for the machine's name
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub prefix: String,
}

/// Set a machine up.
#[derive(Debug, Args)]
pub struct ClusterJoin {
    /// The machine's bundle: one of the folders that `cluster init` made
    #[arg(long, value_name = "BUNDLE")]
    pub from: PathBuf,
    /// Write over files that exist with other contents
    #[arg(long)]
    pub force: bool,
    /// Do not ask whether the bundle's address is this machine's
    #[arg(long)]
    pub anywhere: bool,
}
