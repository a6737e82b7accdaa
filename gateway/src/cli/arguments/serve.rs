//! What can be typed after `piton serve`.

use clap::Args;

/// Start a node and serve until it is stopped.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen [default: 127.0.0.1:7486]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub bind: Option<String>,
    /// Answer with a scripted model, offline; every answer says so
    #[arg(long)]
    pub demo: bool,
    /// Keep the journal on these NATS servers and share it with other nodes
    #[arg(long, value_name = "URL[,URL]")]
    pub nats: Option<String>,
    /// Which journal on the servers [default: piton]
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// This node's name, unique among the nodes [default: drawn once and kept in the data folder]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Where the servers' monitoring answers, for the proof that they sync before they acknowledge
    #[arg(long, value_name = "URL[,URL]")]
    pub nats_monitor: Option<String>,
    /// The file of the cluster's keys, the same on every node; secrets are sealed under them
    #[arg(long, value_name = "FILE")]
    pub cluster_key: Option<String>,
    /// Use servers that are not proved to sync: a power failure may lose what was acknowledged
    #[arg(long)]
    pub allow_lazy_fsync: bool,
    /// A proxy with TLS stands in front, so other addresses than loopback may be bound
    #[arg(long)]
    pub behind_proxy: bool,
    /// A drill: hold or fail this node on purpose, by files in a folder or by a plan (deploy/drills.md); needs an empty file
    /// FAULTS-ALLOWED in the data folder
    #[arg(long, value_name = "DIR|PLAN")]
    pub faults: Option<String>,
}
