//! Whether the node lives, is ready, and how it is; and its metrics.

use crate::app::App;
use crate::boot::ClusterView;
use crate::wire;
use actors::health::Standing;
use actors::routing::{Routing, Source};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use projections::State as Following;
use serde_json::{Value, json};
use store::jetstream::Sync;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/health", get(live))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/health/detailed", get(detailed))
        .route("/v1/capabilities", get(capabilities))
        .route("/metrics", get(metrics))
}

/// The process answers.
pub async fn live() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// The node takes work: its store answers and it is not stopping.
pub async fn ready(State(app): State<App>) -> Response {
    let standing = app.node.gate.standing().borrow().clone();
    let out = match standing {
        Standing::Open => None,
        Standing::Closed { reason, .. } => Some(reason),
    };
    let stopping = *app.stopping.borrow();
    let status = match (&out, stopping) {
        (_, true) => "stopping",
        _ if app.cluster.as_ref().is_some_and(ClusterView::is_fenced) => "fenced",
        (Some(_), false) => "store_unavailable",
        (None, false) if !app.has_its_share() => "joining",
        (None, false) => "ready",
    };
    let code = if status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({"status": status}))).into_response()
}

/// Everything that an operator looks at first.
pub async fn detailed(State(app): State<App>) -> Json<Value> {
    let store = app.store().stats().await;
    let views = app.projections.status();
    let parked = app.directory.parked();
    let usage = app.projections.usage_summary(24, app.clock().now()).await;
    let routing = app.routing();
    let answers = routing.standing();
    let route_problems = super::harness::problems(&routing);
    let mends = credentials(&app);
    let word = |fine: bool| if fine { "ok" } else { "degraded" };
    let halted = views.iter().any(|view| view.state != Following::Running);
    let standing = app.node.gate.standing().borrow().clone();
    let out = match standing {
        Standing::Open => None,
        Standing::Closed { reason, .. } => Some(reason),
    };
    let (proved, sync) = match app.store().sync() {
        Sync::Proved => (true, None),
        Sync::Silent(why) | Sync::Lazy(why) => (false, Some(why)),
    };
    let cluster = app.cluster.as_ref().map(wire::node::health);
    let apart = cluster.as_ref().is_some_and(|cluster| cluster.degraded);
    let degraded = out.is_some()
        || !parked.is_empty()
        || halted
        || answers.is_none()
        || !proved
        || apart
        || !mends.is_empty();
    Json(json!({
        "status": word(!degraded),
        "version": env!("CARGO_PKG_VERSION"),
        "store": match store {
            Ok(stats) => json!({
                "available": out.is_none(),
                "why": out.map(|out| out.to_string()),
                "commits": stats.commits,
                "file_bytes": stats.file_bytes,
                "wal_bytes": stats.wal_bytes,
                "restores": stats.restores,
                "sync": {"proved": proved, "why": sync},
            }),
            Err(error) => json!({"available": false, "why": error.to_string()}),
        },
        "bus": cluster.as_ref().map(|cluster| cluster.bus.clone()),
        "nodes": cluster.map(|cluster| cluster.nodes),
        "projections": views.iter().map(wire::list::view).collect::<Value>(),
        "model_routing": {
            "status": word(answers.is_some() && route_problems.is_empty()),
            "problems": route_problems,
            "configured": routing.configured().collect::<Vec<_>>(),
            "default_provider": answers.map(|(provider, _, _)| provider),
            "default_model": answers.and_then(|(_, model, _)| model),
            "default_source": answers.map(|(_, _, source)| source.name()),
            "why": why(&routing),
        },
        "credentials": {"status": word(mends.is_empty()), "problems": mends},
        "actors": {
            "runs_live": *app.directory.runs.live().borrow(),
            "sessions_live": *app.directory.sessions.live().borrow(),
            "parked": parked,
        },
        "faults": app.store().faults().armed(),
        "approvers": {"reachable": app.approvers.reachable(app.clock().now())},
        "llm_usage_24h": match usage {
            Ok(summary) => wire::list::usage(24, &summary),
            Err(error) => json!({"available": false, "why": error.to_string()}),
        },
    }))
}

/// Why whoever serves what has no route does, for people.
fn why(routing: &Routing) -> Option<&str> {
    let (_, _, source) = routing.standing()?;
    if source == Source::Selection {
        return Some("because it was selected (`piton selection show`)");
    }
    routing.default().map(|one| one.why.as_str())
}

/// The profiles about which a person has to do something, and what.
fn credentials(app: &App) -> Vec<Value> {
    let (mut found, now) = (Vec::new(), app.clock().now());
    for (provider, known) in app.credentials.follower().all() {
        for (name, profile) in &known.state.profiles {
            if let Some(mend) = wire::credential::mend(provider, name, profile, now) {
                let shown = wire::credential::profile(provider, name, profile, now);
                found.push(json!({
                    "provider": provider.as_str(),
                    "profile": name,
                    "state": shown.get("state"),
                    "reason": shown.get("reason"),
                    "mend": mend,
                }));
            }
        }
    }
    found
}

/// What this build can do, for clients that ask before they try.
pub async fn capabilities(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "chat_completions": {"stream": true, "tools": "client", "sessions": "x-piton-session-id"},
        "messages": {"stream": true, "tools": "client", "count_tokens": "upper-bound"},
        "responses": {"stream": true, "tools": "client", "previous_response_id": true},
        "runs": {"kinds": ["turn"], "events": "sse", "journal": true, "replay": true},
        "tools": app.tools.names().collect::<Vec<_>>(),
        "providers": app.routing().configured().collect::<Vec<_>>(),
    }))
}

/// Prometheus text.
pub async fn metrics(State(app): State<App>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.render()).into_response()
}
