//! The nodes of the cluster as this node sees them, and what belongs to each.

use crate::app::App;
use actors::cluster::place;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use events::id::PARTITIONS;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/nodes", get(list))
}

/// Who lives, how many partitions belong to each, and of this node how many it serves. A node with a journal of its own
/// is alone and serves all.
pub async fn list(State(app): State<App>) -> Json<Value> {
    let serves = app.served.borrow().count();
    let Some(cluster) = &app.cluster else {
        let alone = json!({"name": null, "this": true, "belongs": PARTITIONS, "serves": serves});
        return Json(json!({"object": "list", "count": 1, "data": [alone]}));
    };
    let nodes = cluster.nodes.borrow().clone();
    let names: BTreeSet<_> = nodes.keys().cloned().collect();
    let owners = place::owners(&names);
    let rows = nodes.iter().map(|(name, boot)| {
        let this = *name == cluster.node;
        json!({
            "name": name.as_str(),
            "this": this,
            "boot": format!("{:032x}", boot.0),
            "belongs": owners.values().filter(|owner| *owner == name).count(),
            "serves": this.then_some(serves),
        })
    });
    let rows: Vec<Value> = rows.collect();
    Json(json!({"object": "list", "count": rows.len(), "data": rows}))
}
