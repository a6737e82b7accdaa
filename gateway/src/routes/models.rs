//! Which models answer here.

use crate::app::App;
use crate::error::{ApiError, Code};
use crate::routes::spec::model_or_role;
use actors::routing::Wanted;
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

/// The routes of this resource.
pub fn routes() -> Router<App> {
    Router::new().route("/v1/models", get(list)).route("/v1/models/{*model}", get(show))
}

fn object(name: &str) -> Value {
    let owner = name.split_once(':').map_or("piton", |(provider, _)| provider);
    // A constant, as at other gateways: nobody knows when a model was made.
    json!({"id": name, "object": "model", "created": 0, "owned_by": owner})
}

/// The models that are known by name; any other name of a configured provider is passed on to it.
pub async fn list(State(app): State<App>) -> Json<Value> {
    let data: Value = app.models().iter().map(|name| object(name)).collect();
    Json(json!({"object": "list", "data": data}))
}

/// One model.
///
/// # Errors
///
/// 404 for a name that has no route here.
pub async fn show(
    State(app): State<App>,
    Path(model): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let (asked, role) = model_or_role(&model)?;
    match app.routing().route(&Wanted::model(asked, &role)) {
        Ok(routed) => {
            let mut object = object(&model);
            let owner = routed.route.first().map(|one| one.provider.as_str());
            if let (Some(map), Some(owner)) = (object.as_object_mut(), owner) {
                map.insert("owned_by".to_owned(), Value::from(owner));
            }
            Ok(Json(object))
        }
        Err(error) => Err(ApiError::new(Code::ModelNotFound, error.to_string())),
    }
}
