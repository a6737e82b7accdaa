//! Who serves which role on this node, and why: what an operator asks before and after changing a route.

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::extract::Query;
use actors::routing::{Routing, Target, Wanted};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use events::role::{KNOWN, Role};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/harness/routing", get(routing))
}

/// What a caller may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    project_id: Option<String>,
    role: Option<String>,
}

/// The effective routes: of every role that a route was configured for, or of the one that is asked about, for a
/// project where one is given. A role that is absent runs on the
/// default: the durable selection, or else what the node found.
///
/// # Errors
///
/// 400 for a role that is none.
async fn routing(
    State(app): State<App>,
    Query(about): Query<About>,
) -> Result<Json<Value>, ApiError> {
    let project = about.project_id.unwrap_or_default();
    let asked = about.role.map(|role| role.parse::<Role>()).transpose();
    let asked = asked.map_err(|error| ApiError::new(Code::InvalidRequest, error.to_string()))?;
    let effective = app.routing();
    let roles = asked.map_or_else(|| roles(&effective), |role| BTreeSet::from([role]));
    let routes: Value = roles.iter().map(|role| of(&effective, role, &project)).collect();
    let standing = effective.standing();
    let problems = problems(&effective);
    Ok(Json(json!({
        "object": "routing",
        "project_id": Some(&project).filter(|project| !project.is_empty()),
        "status": if problems.is_empty() && standing.is_some() { "ok" } else { "degraded" },
        "data": routes,
        "default_provider": standing.map(|(provider, _, _)| provider),
        "default_model": standing.and_then(|(_, model, _)| model),
        "default_source": standing.map(|(_, _, source)| source.name()),
        "evaluator_independence": effective.independence().name(),
        "configured": effective.configured().collect::<Vec<_>>(),
        "problems": problems,
    })))
}

/// The problems of the routes, for people.
#[must_use]
pub fn problems(routing: &Routing) -> Vec<String> {
    routing.problems().iter().map(ToString::to_string).collect()
}

/// Every role that something is configured for. One of the environment is known by its variable only, so it is found
/// among the roles that are known.
fn roles(routing: &Routing) -> BTreeSet<Role> {
    let table = routing.table();
    let projects = table.projects.values().flat_map(|routes| routes.keys());
    let named = table.file.keys().chain(projects).chain(table.role_fallbacks.keys()).cloned();
    let known = KNOWN.iter().filter_map(|name| name.parse::<Role>().ok());
    let set = known.filter(|role| table.environment.contains_key(&role.variable()));
    named.chain(set).collect()
}

fn of(routing: &Routing, role: &Role, project: &str) -> Value {
    let wanted = Wanted { project, ..Wanted::model(None, role) };
    let places: Vec<Value> = routing
        .explain(role, project)
        .into_iter()
        .map(|(source, target)| json!({"source": source.name(), "route": target.map(Target::to_string)}))
        .collect();
    match routing.route(&wanted) {
        Ok(routed) => {
            let names = routed.route.iter().map(|one| format!("{}:{}", one.provider, one.model));
            let names: Vec<String> = names.collect();
            let dropped =
                routed.dropped.iter().map(|one| format!("{}:{}", one.provider, one.model));
            let dropped: Vec<String> = dropped.collect();
            json!({
                "role": role.as_str(), "route": names.first(), "fallbacks": names.get(1..), "dropped": dropped,
                "source": routed.source.name(), "configured": true, "places": places,
            })
        }
        Err(error) => json!({
            "role": role.as_str(), "route": null, "fallbacks": [], "dropped": [], "source": null, "configured": false,
            "places": places, "problem": error.to_string(),
        }),
    }
}
