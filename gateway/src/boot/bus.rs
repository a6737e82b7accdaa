//! The bus between nodes: what this one answers for.

use super::BootError;
use super::journal::Clustered;
use crate::directory::Directory;
use actors::bus::{Local, Nats};
use actors::node::Node;
use std::sync::Arc;

/// The bus to the other nodes; it answers for every kind of stream here.
pub(super) async fn between(
    clustered: &Clustered,
    local: Local<Directory>,
    node: &Node,
    directory: &Arc<Directory>,
) -> Result<Nats<Directory>, BootError> {
    let client = store::jetstream::client(&clustered.servers).await?;
    let namespace = clustered.nats.namespace.clone();
    let bus = Nats::new(client, namespace, local, node.store.clone(), node.clock.clone());
    bus.answer_for(&directory.sessions);
    bus.answer_for(&directory.runs);
    bus.answer_for(&directory.keys);
    bus.answer_for(&directory.settings);
    bus.answer_for(&directory.credentials);
    bus.answer_for(&directory.budgets);
    bus.answer_for(&directory.grants);
    bus.answer_for(&directory.gates);
    Ok(bus)
}
