//! Artifacts and projects: texts with versions, and what a project says of itself.

use crate::app::App;
use crate::artifacts::{TextError, text};
use crate::auth::Caller;
use crate::error::{ApiError, Code, chain};
use crate::extract::Query;
use crate::wire;
use actors::order::Lane;
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Extension, Json, Router};
use events::about::{self, About};
use events::artifact::{Artifacts, Command, Name, Source, Write};
use events::project::Project;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The project of whoever names none.
const DEFAULT: &str = "default";

/// The routes of these resources.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/v1/artifacts", get(list))
        .route("/v1/artifacts/{project}/{name}", get(show).put(write))
        .route("/v1/projects/{project}", get(project).put(describe))
}

/// Which project.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Of {
    project: Option<String>,
}

/// Which version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    version: Option<u32>,
}

/// The body of a write.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    content: String,
    over_version: Option<u32>,
}

/// The body of a description.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    description: String,
}

impl From<TextError> for ApiError {
    fn from(error: TextError) -> Self {
        match error {
            TextError::Store(error) => error.into(),
            TextError::Codec(_) | TextError::Missing(_) => {
                Self::new(Code::Integrity, chain(&error))
            }
        }
    }
}

fn name(text: &str) -> Result<Name, ApiError> {
    text.parse().map_err(|error: events::artifact::NotAName| {
        ApiError::new(Code::InvalidRequest, error.to_string()).param("name")
    })
}

/// The newest version of each artifact of a project, without its text.
///
/// # Errors
///
/// 503 while nobody can be asked.
pub async fn list(State(app): State<App>, Query(of): Query<Of>) -> Result<Json<Value>, ApiError> {
    let project = of.project.as_deref().unwrap_or(DEFAULT);
    let seen = app.observe::<Artifacts>(Project::of(project)).await?;
    let newest = seen.state.artifacts.iter();
    let rows: Vec<Value> = newest
        .filter_map(|(name, versions)| Some(wire::artifact::row(name, versions.last()?)))
        .collect();
    Ok(Json(json!({"object": "list", "project": project, "count": rows.len(), "data": rows})))
}

/// One version of an artifact with its text, and which versions there are.
///
/// # Errors
///
/// 400 for what is no name, 404 for what was never written.
pub async fn show(
    State(app): State<App>,
    Path((project, named)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Result<Json<Value>, ApiError> {
    let (id, name) = (Project::of(&project), name(&named)?);
    let seen = app.observe::<Artifacts>(id).await?;
    let none = || {
        let version = which.version.map_or_else(String::new, |number| format!(" version {number}"));
        ApiError::new(Code::NotFound, format!("{project} has no artifact {name}{version}"))
    };
    let kept = seen.state.version(&name, which.version).ok_or_else(none)?;
    let mut object = wire::artifact::object(&project, &text(app.store(), id, kept).await?);
    let all = seen.state.artifacts.get(&name);
    let versions: Vec<Value> = all
        .into_iter()
        .flat_map(|all| all.iter())
        .map(|one| wire::artifact::row(&name, one))
        .collect();
    if let Some(keys) = object.as_object_mut() {
        keys.insert("versions".to_owned(), Value::Array(versions));
    }
    Ok(Json(object))
}

/// Writes a version.
///
/// # Errors
///
/// 400 for what is no name or too long, 409 when somebody else wrote since.
pub async fn write(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((project, named)): Path<(String, String)>,
    crate::extract::Json(body): crate::extract::Json<Text>,
) -> Result<Json<Value>, ApiError> {
    let (content, over, by) = (Arc::from(body.content), body.over_version, caller.actor);
    let name = name(&named)?;
    let asked = Write { name: name.clone(), content, over, source: Source::Caller, by };
    let order = app.order(Command::Write(asked), by, Lane::Data);
    let seen = app.decide::<Artifacts>(Project::of(&project), order).await?;
    let row = seen.state.version(&name, None).map(|kept| wire::artifact::row(&name, kept));
    Ok(Json(json!(row)))
}

/// What a project says of itself.
///
/// # Errors
///
/// 503 while nobody can be asked.
pub async fn project(
    State(app): State<App>,
    Path(project): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = Project::of(&project);
    let (about, kept) = (app.observe::<About>(id).await?, app.observe::<Artifacts>(id).await?);
    let count = kept.state.artifacts.len();
    Ok(Json(wire::artifact::project(&project, about.state.described.as_ref(), count)))
}

/// Says anew what a project is about.
///
/// # Errors
///
/// 400 for too much text.
pub async fn describe(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(project): Path<String>,
    crate::extract::Json(body): crate::extract::Json<Said>,
) -> Result<Json<Value>, ApiError> {
    let (name, description, by) = (project.clone(), body.description, caller.actor);
    let order = app.order(about::Command::Describe { name, description, by }, by, Lane::Data);
    let id = Project::of(&project);
    let about = app.decide::<About>(id, order).await?;
    let kept = app.observe::<Artifacts>(id).await?;
    let count = kept.state.artifacts.len();
    Ok(Json(wire::artifact::project(&project, about.state.described.as_ref(), count)))
}
