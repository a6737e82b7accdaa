//! The nodes of the cluster as this node sees them, and what belongs to each; a node is drained or fenced through any
//! other.

use crate::app::App;
use crate::auth::Caller;
use crate::boot::ClusterView;
use crate::error::{ApiError, Code};
use crate::wire::node::{self, Row, Standing};
use actors::bus::node::{Answer, Described, NoAnswer, Question};
use actors::cluster::bucket::uptime;
use actors::cluster::member::{Nodes, Wish};
use actors::cluster::{NodeName, place};
use actors::order::{Build, Lane};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use events::id::PARTITIONS;
use events::record::Boot;
use events::settings::{Command, Reader, Settings, SettingsId};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a node gets to say how it is. One that takes longer hangs, or is cut off.
const DESCRIBE_MAX: Duration = Duration::from_secs(1);
/// How long a node gets to hear a wish.
const WISH_MAX: Duration = Duration::from_secs(3);
/// How long a fence waits for the other nodes to have taken what the fenced one held.
const TAKEN_MAX: Duration = Duration::from_secs(10);

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/nodes", get(list))
        .route("/v1/nodes/upgrade-schema", post(upgrade_schema))
        .route("/v1/nodes/{name}/drain", post(drain).delete(undrain))
        .route("/v1/nodes/{name}/fence", post(fence))
}

/// Who lives, how many partitions belong to each, who holds them and how each says it is. A node with a journal of its
/// own is alone and serves all.
pub async fn list(State(app): State<App>) -> Json<Value> {
    let Some(cluster) = &app.cluster else {
        let serves = app.served.borrow().count();
        let alone = json!({
            "name": null, "this": true, "state": "serving", "build": Build::OURS.to_string(),
            "belongs": PARTITIONS, "holds": PARTITIONS, "serves": serves,
        });
        return Json(json!({"object": "list", "count": 1, "unowned": 0, "data": [alone]}));
    };
    let rows = rows(&app, cluster).await;
    let held: usize = rows.iter().map(|row| row.holds).sum();
    let unowned = usize::from(PARTITIONS).saturating_sub(held);
    let rows: Vec<Value> = rows.iter().map(node::row).collect();
    Json(json!({"object": "list", "count": rows.len(), "unowned": unowned, "data": rows}))
}

/// The lives of nodes that were seen: those that say they are there, those that were fenced, and those that are gone and
/// still hold a lease.
fn lives(cluster: &ClusterView, nodes: &Nodes) -> BTreeMap<NodeName, (Boot, Standing)> {
    let mut lives: BTreeMap<NodeName, (Boot, Standing)> = BTreeMap::new();
    for holder in cluster.holders.borrow().values() {
        lives.insert(holder.node.clone(), (holder.boot, Standing::Gone));
    }
    for (name, boot) in nodes.fenced() {
        lives.insert(name.clone(), (*boot, Standing::Fenced));
    }
    for (name, life) in nodes.lives() {
        lives.insert(name.clone(), (life.boot, Standing::Lives(life.wish)));
    }
    lives
}

async fn rows(app: &App, cluster: &ClusterView) -> Vec<Row> {
    let nodes = Arc::clone(&cluster.nodes.borrow());
    let holders = Arc::clone(&cluster.holders.borrow());
    let owners = place::owners(&nodes.takers());
    let (heard, now) = (cluster.heard.borrow().clone(), uptime());
    let lives = lives(cluster, &nodes);
    let described = join_all(lives.iter().map(|(name, (boot, standing))| async {
        match standing {
            Standing::Gone | Standing::Fenced => None,
            Standing::Lives(_) => describe(app, cluster, name, *boot).await,
        }
    }));
    let described = described.await;
    let row = |((name, (boot, standing)), described)| Row {
        this: name == cluster.node,
        belongs: owners.values().filter(|owner| **owner == name).count(),
        holds: holders.values().filter(|holder| holder.node == name).count(),
        heard_ms: heard.get(&name).map(|at| now.0.saturating_sub(at.0)),
        name,
        boot,
        standing,
        described,
    };
    lives.into_iter().zip(described).map(row).collect()
}

async fn describe(
    app: &App,
    cluster: &ClusterView,
    node: &NodeName,
    boot: Boot,
) -> Option<Described> {
    if *node == cluster.node {
        return Some(cluster.describe(*app.served.borrow()));
    }
    let question = Question::Describe(Build::OURS);
    match cluster.peers.ask(node, &question, DESCRIBE_MAX).await {
        Ok(Answer::Described(described)) => Some(described).filter(|said| said.boot == boot),
        Ok(Answer::Done | Answer::Unsupported(_)) | Err(_) => None,
    }
}

/// The cluster, and the node of this name in it.
fn known<'a>(app: &'a App, name: &str) -> Result<(&'a ClusterView, NodeName, Boot), ApiError> {
    let Some(cluster) = &app.cluster else {
        let why = "this node keeps its journal in a file of its own, so there is no other one: stop it with SIGTERM";
        return Err(ApiError::new(Code::NotClustered, why));
    };
    let mut lives = lives(cluster, &cluster.nodes.borrow());
    let found = name.parse().ok().and_then(|name| lives.remove_entry::<NodeName>(&name));
    let (name, (boot, _)) = found.ok_or_else(|| {
        let names: Vec<&str> = lives.keys().map(NodeName::as_str).collect();
        let why = format!("there is no node {name:?}: the nodes are {}", names.join(", "));
        ApiError::new(Code::NotFound, why)
    })?;
    Ok((cluster, name, boot))
}

/// Has a node hand over everything and take nothing, while it goes on as a gateway; for this life of it only.
///
/// # Errors
///
/// 404 for an unknown node, 409 when no other one would take partitions, 503 when it does not answer.
pub async fn drain(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let (cluster, node, _) = known(&app, &name)?;
    let takes = cluster
        .nodes
        .borrow()
        .lives()
        .any(|(other, life)| *other != node && life.wish == Wish::Take);
    if !takes {
        let why = format!(
            "no other node than {node} takes partitions, so nobody would serve: start one, or undo a drain, first"
        );
        return Err(ApiError::new(Code::NodeRefused, why));
    }
    wish(cluster, &node, Wish::Drain, &caller).await
}

/// Has a node take its share again.
///
/// # Errors
///
/// 404 for an unknown node, 503 when it does not answer.
pub async fn undrain(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let (cluster, node, _) = known(&app, &name)?;
    wish(cluster, &node, Wish::Take, &caller).await
}

async fn wish(
    cluster: &ClusterView,
    node: &NodeName,
    wish: Wish,
    caller: &Caller,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let (question, word) = match wish {
        Wish::Drain => (Question::Drain, "draining"),
        Wish::Take => (Question::Undrain, "serving"),
    };
    let silent = |why: NoAnswer| {
        let why = format!(
            "{node} does not answer ({why}): look at it with `piton nodes ls`; one that must not act any more is fenced"
        );
        ApiError::new(Code::NodeSilent, why)
    };
    match cluster.peers.ask(node, &question, WISH_MAX).await.map_err(silent)? {
        Answer::Done => {
            tracing::info!(%node, ?wish, actor = ?caller.actor, "node_wished");
            Ok((StatusCode::ACCEPTED, Json(json!({"name": node.as_str(), "state": word}))))
        }
        Answer::Unsupported(build) => {
            let why =
                format!("{node} runs build {build}, which can not be drained: stop it instead");
            Err(ApiError::new(Code::NodeRefused, why))
        }
        Answer::Described(_) => Err(silent(NoAnswer::Unread)),
    }
}

/// Ends a life of a node from outside: its partitions are taken under higher epochs, so its appends are refused, and if it
/// hears it, it stops. Answers once nobody sees it hold a lease, or after ten seconds. May be repeated.
///
/// # Errors
///
/// 404 for an unknown node, 409 for the one that is asked, 503 when the leases can not be reached.
pub async fn fence(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let (cluster, node, boot) = known(&app, &name)?;
    if node == cluster.node {
        let why =
            format!("{node} is the node that you ask: stop it, or ask another one to fence it");
        return Err(ApiError::new(Code::NodeRefused, why));
    }
    let held = |of: &Boot| cluster.holders.borrow().values().filter(|one| one.boot == *of).count();
    let taken = held(&boot);
    cluster.bucket.fence(&node, boot).await.map_err(|error| {
        let why = format!("whether {node} is fenced is not known: ask again");
        ApiError::new(Code::Lost, why).keyed().because(error)
    })?;
    tracing::warn!(%node, partitions = taken, actor = ?caller.actor, "node_fenced");
    let mut holders = cluster.holders.clone();
    let gone = holders.wait_for(|holders| holders.values().all(|holder| holder.boot != boot));
    let _late = tokio::time::timeout(TAKEN_MAX, gone).await;
    let left = held(&boot);
    Ok(Json(json!({
        "name": node.as_str(),
        "state": "fenced",
        "boot": format!("{:032x}", boot.0),
        "taken": taken.saturating_sub(left),
        "holds": left,
    })))
}

/// Lets no build in any more that reads less than this one. Every node must run this build; there is no way back.
///
/// # Errors
///
/// 409 while a node runs another build, or the minimum is higher already; 503 when a node does not answer.
pub async fn upgrade_schema(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, ApiError> {
    if let Some(cluster) = &app.cluster {
        for row in rows(&app, cluster).await {
            same_build(&row)?;
        }
    }
    let order = app.order(Command::RaiseReader(Reader::OURS), caller.actor, Lane::Control);
    let observed = app.decide::<Settings>(SettingsId::Journal, order).await?;
    Ok(Json(json!({"minimum_reader": observed.state.reader.0, "build": Build::OURS.to_string()})))
}

fn same_build(row: &Row) -> Result<(), ApiError> {
    let Row { name, standing, described, .. } = row;
    match (standing, described) {
        (Standing::Gone | Standing::Fenced, _) => Ok(()),
        (Standing::Lives(_), Some(said)) if said.build == Build::OURS => Ok(()),
        (Standing::Lives(_), Some(said)) => {
            let (build, ours) = (said.build, Build::OURS);
            let why =
                format!("{name} runs build {build}, this node {ours}: finish the upgrade first");
            Err(ApiError::new(Code::NodeRefused, why))
        }
        (Standing::Lives(_), None) => {
            let why = format!(
                "{name} does not answer, so its build is not known: ask again, or fence it"
            );
            Err(ApiError::new(Code::NodeSilent, why))
        }
    }
}
