//! The nodes of a cluster on the wire.

use super::time::rfc3339;
use crate::boot::ClusterView;
use actors::bus::node::Described;
use actors::cluster::NodeName;
use actors::cluster::member::Wish;
use events::id::PARTITIONS;
use events::record::Boot;
use serde_json::{Value, json};

/// One node, as the one that is asked sees it.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub name: NodeName,
    /// Whether it is the one that is asked.
    pub this: bool,
    /// Which life of it.
    pub boot: Boot,
    /// How it stands.
    pub standing: Standing,
    /// Partitions that the placement gives it.
    pub belongs: usize,
    /// Partitions that it has leases of.
    pub holds: usize,
    /// Milliseconds since its last word.
    pub heard_ms: Option<u64>,
    /// What it says itself; none when it did not answer.
    pub described: Option<Described>,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It says that it is there.
    Lives(Wish),
    /// It was fenced and has not been started again.
    Fenced,
    /// It says nothing any more, and its leases have not ended yet.
    Gone,
}

/// The cluster as one node sees it, for its health.
#[derive(Debug, Clone)]
pub struct Health {
    /// Whether an operator should look.
    pub degraded: bool,
    /// The connection to the others.
    pub bus: Value,
    /// Who is there, and who holds what.
    pub nodes: Value,
}

/// How the cluster looks from here.
#[must_use]
pub fn health(cluster: &ClusterView) -> Health {
    let nodes = cluster.nodes.borrow().clone();
    let connected = cluster.peers.is_connected();
    let unowned = usize::from(PARTITIONS).saturating_sub(cluster.holders.borrow().len());
    let names: Vec<&str> = nodes.lives().map(|(name, _)| name.as_str()).collect();
    let fenced: Vec<&str> = nodes.fenced().keys().map(NodeName::as_str).collect();
    let wish = nodes.life(&cluster.node).map(|life| life.wish);
    let seen = json!({
        "this": cluster.node.as_str(),
        "seen": names,
        "draining": wish == Some(Wish::Drain),
        "fenced": fenced,
        "leases": cluster.owns.borrow().len(),
        "unowned": unowned,
    });
    let degraded = !connected || unowned > 0 || cluster.is_fenced();
    Health { degraded, bus: json!({"connected": connected}), nodes: seen }
}

/// A row of the list.
#[must_use]
pub fn row(row: &Row) -> Value {
    let said = row.described.as_ref();
    let state = match (row.standing, said) {
        (Standing::Fenced, _) => "fenced",
        (Standing::Gone, _) => "gone",
        (Standing::Lives(_), None) => "silent",
        (Standing::Lives(Wish::Drain), Some(_)) => "draining",
        (Standing::Lives(Wish::Take), Some(_)) => "serving",
    };
    json!({
        "name": row.name.as_str(),
        "this": row.this,
        "state": state,
        "boot": format!("{:032x}", row.boot.0),
        "build": said.map(|said| said.build.to_string()),
        "since": said.map(|said| rfc3339(said.since)),
        "belongs": row.belongs,
        "holds": row.holds,
        "serves": said.map(|said| said.serves),
        "heard_ms": row.heard_ms,
        "horizon_ms": said.and_then(|said| said.horizon).map(|left| left.0),
    })
}
