//! The way out of a node of a cluster: public events for programs outside.

use super::BootError;
use super::journal::Clustered;
use super::stop::Stop;
use crate::app::App;
use crate::stream::public::Teller;
use crate::wire::fact::Bodies;
use actors::bus::Outside;
use actors::task;

/// A connection for public events, and how much of them is told; none where there is no server.
pub(super) async fn open(
    clustered: Option<&Clustered>,
) -> Result<Option<(Outside, Bodies)>, BootError> {
    let Some(Clustered { servers, nats, .. }) = clustered else { return Ok(None) };
    let client = store::jetstream::client(servers).await?;
    let bodies = if nats.events_text { Bodies::Whole } else { Bodies::Named };
    Ok(Some((Outside::new(client, nats.namespace.clone()), bodies)))
}

/// Tells each shard from here, whenever it is this node's to tell.
pub(super) fn tell(app: &App, out: Option<(Outside, Bodies)>, stop: &mut Stop) {
    super::desk::tell(app, out.as_ref().map(|(out, _)| out.clone()), stop);
    let Some((out, bodies)) = out else { return };
    for shard in app.store().shards() {
        let teller = Teller::new(app.store().clone(), out.clone(), bodies, shard);
        stop.helper(task::spawn(task::Kind::Follow, teller.run(app.served.clone())));
    }
}
