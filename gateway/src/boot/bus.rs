//! The bus between the nodes of a cluster.

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
    directory.answer_on(&bus);
    Ok(bus)
}
