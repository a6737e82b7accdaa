//! What both doors freeze into a run: the route with its prices, the bounds, the logic number.

use crate::app::App;
use crate::error::{ApiError, Code};
use actors::routing::RouteError;
use events::message::Body;
use events::prompt::{Catalogue, Params};
use events::record::{Actor, Hash};
use events::run::spec::{Delivery, LOGIC, Limits, Plane, Spec};

/// What a request says; the rest comes from the node.
#[derive(Debug)]
pub struct Draft<'a> {
    /// Through which door.
    pub plane: Plane,
    /// How the answer is read.
    pub delivery: Delivery,
    /// Who asks.
    pub caller: Actor,
    /// Which project.
    pub project: String,
    /// The model as asked; `None` for the default.
    pub model: Option<&'a str>,
    /// The tools offered.
    pub tools: Catalogue,
    /// Those that run here.
    pub server_tools: Vec<String>,
    /// The rest for the model.
    pub params: Params,
    /// The messages of this turn.
    pub input: Vec<Body>,
    /// Bounds.
    pub limits: Limits,
    /// Names the request.
    pub input_hash: Hash,
}

/// Freezes a request.
///
/// # Errors
///
/// 400 or 404 for a model that has no route here.
pub fn draft(app: &App, draft: Draft<'_>) -> Result<Spec, ApiError> {
    let routed = app.routing.route(draft.model).map_err(|error| {
        let code = match error {
            RouteError::Name(_) => Code::InvalidModel,
            RouteError::NotConfigured { .. } | RouteError::Nobody => Code::RouteUnconfigured,
            RouteError::NoModel { .. } => Code::InvalidModel,
        };
        ApiError::new(code, error.to_string())
    })?;
    if let Some(first) = routed.route.first() {
        tracing::info!(
            role = "chat",
            source = routed.source,
            provider = first.provider,
            model = first.model,
            "llm_route_resolved"
        );
    }
    Ok(Spec {
        plane: draft.plane,
        delivery: draft.delivery,
        project: draft.project,
        caller: draft.caller,
        route: routed.route,
        route_source: routed.source.to_owned(),
        tools: draft.tools,
        server_tools: draft.server_tools,
        params: draft.params,
        input: draft.input,
        limits: draft.limits,
        logic: LOGIC,
        input_hash: draft.input_hash,
    })
}

impl App {
    /// Bounds of a run, from the configuration.
    #[must_use]
    pub fn run_limits(&self) -> Limits {
        Limits {
            client_wait: self.config.limits.client_tool_wait,
            recovery: self.config.retry.limits(),
            ..Limits::default()
        }
    }
}
