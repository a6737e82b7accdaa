//! What both doors freeze into a run: the route with its prices, the bounds, the logic number.

use crate::app::App;
use crate::error::{ApiError, Code};
use actors::routing::RouteError;
use events::message::Body;
use events::prompt::{Catalogue, Params};
use events::quantity::Millis;
use events::record::{Actor, Hash};
use events::run::spec::{Delivery, LOGIC, Limits, Plane, Spec};
use std::collections::BTreeMap;

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
    /// The caller's own pairs.
    pub metadata: BTreeMap<String, String>,
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
        metadata: draft.metadata,
        seed: app.seed(),
        input_hash: draft.input_hash,
    })
}

/// The longest that a caller of a model API is kept waiting for a rate limit: clients of these give up after minutes.
const MODEL_PLANE_WAIT_MAX: Millis = Millis(60_000);

impl App {
    fn seed(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.entropy().draw().to_le_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// Bounds of a run, from the configuration.
    #[must_use]
    pub fn run_limits(&self, plane: Plane) -> Limits {
        let mut recovery = self.config.retry.limits();
        if plane == Plane::Model {
            recovery.wait_max = recovery.wait_max.min(MODEL_PLANE_WAIT_MAX);
        }
        Limits { client_wait: self.config.limits.client_tool_wait, recovery, ..Limits::default() }
    }
}
