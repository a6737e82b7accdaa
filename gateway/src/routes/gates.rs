//! Gates of a project: listed, shown, given evidence, and soft ones waived for one run.

use crate::app::App;
use crate::auth::Caller;
use crate::error::{ApiError, Code};
use crate::extract::{Json as Body, Query};
use crate::wire;
use actors::order::{Lane, Observed};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use events::gate::{Command, Evidence, Gates, Standing, State as Folded, Verdict};
use events::id::{NotAnId, RunId};
use events::project::Project;
use events::run::Run;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/gates", get(list))
        .route("/v1/gates/{project}/{name}", get(show))
        .route("/v1/gates/{project}/{name}/evidence", post(evidence))
        .route("/v1/runs/{id}/gates/{name}/waive", post(waive))
}

/// Whose gates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whose {
    project: Option<String>,
}

/// The body of `POST /v1/gates/{project}/{name}/evidence`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    verdict: Said,
    text: String,
    reference: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Passed,
    Failed,
}

/// The body of `POST /v1/runs/{id}/gates/{name}/waive`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waive {
    reason: String,
}

/// One gate as this node meets it; waivers are shown and left aside.
fn met(app: &App, project: &str, name: &str, state: &Folded) -> Value {
    let surfaces = &app.config.preconditions.surfaces;
    stood(app, (project, name), state, &state.stand(name, surfaces))
}

fn stood(app: &App, whose: (&str, &str), state: &Folded, stands: &Standing) -> Value {
    let said = app.config.preconditions.surfaces.said(whose.1);
    let declaration = state.declaration(whose.1, said);
    wire::gate::object(whose, declaration, stands, state.gates.get(whose.1))
}

/// The gates of a project: those with a history, those that this node's configuration declares or its environment
/// closes. Without a project, those with a history in any.
///
/// # Errors
///
/// When their owner or the read model can not be asked.
pub async fn list(
    State(app): State<App>,
    Query(whose): Query<Whose>,
) -> Result<Json<Value>, ApiError> {
    let rows: Vec<Value> = match whose.project {
        Some(project) => {
            let observed = app.observe::<Gates>(Project::of(&project)).await?;
            let surfaces = &app.config.preconditions.surfaces;
            let mut names: BTreeSet<&String> = observed.state.gates.keys().collect();
            names.extend(surfaces.declared.keys().chain(&surfaces.read_only));
            let one = |name: &String| met(&app, &project, name, &observed.state);
            names.into_iter().map(one).collect()
        }
        None => {
            let page = app.projections.gates().await?;
            let one = |row: &projections::gates::Row| {
                let gates = [(row.name.clone(), row.gate.clone())].into();
                met(&app, row.project.as_str(), &row.name, &Folded { gates })
            };
            page.rows.iter().map(one).collect()
        }
    };
    Ok(Json(json!({"object": "list", "count": rows.len(), "data": rows})))
}

/// One gate, by the word of its owner.
///
/// # Errors
///
/// 404 for one of which nobody says whether it is open.
pub async fn show(
    State(app): State<App>,
    Path((project, name)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let observed = app.observe::<Gates>(Project::of(&project)).await?;
    let said = app.config.preconditions.surfaces.said(&name);
    if observed.state.declaration(&name, said).is_none() {
        return Err(events::gate::Refusal::NoSuchGate(name).into());
    }
    Ok(Json(met(&app, &project, &name, &observed.state)))
}

/// Takes evidence for a gate, which ends the waivers that were given before it.
///
/// # Errors
///
/// 400 for evidence that can not be kept, 404 for a gate that nobody declares, 409 for one that takes none.
pub async fn evidence(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((project, name)): Path<(String, String)>,
    Body(Given { verdict, text, reference }): Body<Given>,
) -> Result<Json<Value>, ApiError> {
    let evaluate = Command::Evaluate {
        said: app.config.preconditions.surfaces.said(&name),
        name: name.clone(),
        verdict: match verdict {
            Said::Passed => Verdict::Passed,
            Said::Failed => Verdict::Failed,
        },
        evidence: Evidence { text, reference },
        by: caller.actor,
    };
    let observed = told(&app, &caller, &project, evaluate).await?;
    Ok(Json(met(&app, &project, &name, &observed.state)))
}

async fn told(
    app: &App,
    caller: &Caller,
    project: &str,
    command: Command,
) -> Result<Observed<Gates>, ApiError> {
    let order = app.order(command, caller.actor, Lane::Control);
    app.decide::<Gates>(Project::of(project), order).await
}

/// Lets one run through a soft gate.
///
/// # Errors
///
/// 404 for a run or a gate that there is none of, 409 for a run that has ended and for a gate that can not be waived or
/// needs no waiver.
pub async fn waive(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, name)): Path<(String, String)>,
    Body(Waive { reason }): Body<Waive>,
) -> Result<Json<Value>, ApiError> {
    let run: RunId = id
        .parse()
        .map_err(|error: NotAnId| ApiError::new(Code::InvalidRequest, error.to_string()))?;
    let known = app.observe::<Run>(run).await?;
    let Some(spec) = known.state.spec.clone() else {
        return Err(events::run::Refusal::NoSuchRun.into());
    };
    if known.state.ended().is_some() {
        return Err(events::run::Refusal::Ended.into());
    }
    let said = app.config.preconditions.surfaces.said(&name);
    let by = caller.actor;
    let command = Command::Waive { name: name.clone(), said, run, reason, by };
    let observed = told(&app, &caller, &spec.project, command).await?;
    let surfaces = &app.config.preconditions.surfaces;
    let stands = observed.state.stand_for(run, &name, surfaces);
    Ok(Json(stood(&app, (&spec.project, &name), &observed.state, &stands)))
}
