//! What every door freezes into a run: the route with its prices, the bounds, the logic number.

use crate::app::App;
use crate::error::{ApiError, Code};
use actors::routing::{Needs, RouteError, Routed, Wanted};
use events::budget::Whose;
use events::id::SessionId;
use events::message::{Body, Message, Part};
use events::prompt::{Catalogue, Params};
use events::quantity::Millis;
use events::record::{Actor, Hash};
use events::role::Role;
use events::run::choose::Plan;
use events::run::spec::{ApprovalMode, Delivery, LOGIC, Limits, Plane, Spec, Unfit};
use events::run::terms::Source;
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
    /// In which conversation.
    pub session: Option<SessionId>,
    /// The model as asked; `None` for the one of the role.
    pub model: Option<&'a str>,
    /// What it is asked for.
    pub role: Role,
    /// What the whole conversation needs of whoever serves it.
    pub needs: Needs,
    /// The phase of a flow that it belongs to.
    pub phase: Option<String>,
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
    /// What becomes of calls that somebody has to agree to.
    pub approval_mode: ApprovalMode,
    /// What it works on.
    pub source: Source,
    /// The caller's own pairs.
    pub metadata: BTreeMap<String, String>,
    /// Names the request.
    pub input_hash: Hash,
}

/// What comes before a role that is named in the place of a model.
const ROLE_PREFIX: &str = "role:";

/// What a client's model names: a role (`role:planner`), for clients that can not say one otherwise, or else a model,
/// asked for in a chat.
///
/// # Errors
///
/// 400 for a role that is none.
pub fn model_or_role(model: &str) -> Result<(Option<&str>, Role), ApiError> {
    let Some(role) = model.trim().strip_prefix(ROLE_PREFIX) else {
        return Ok((Some(model), Role::chat()));
    };
    let role = role.parse().map_err(|error: events::role::NotARole| {
        ApiError::new(Code::InvalidModel, format!("model: {error}"))
    })?;
    Ok((None, role))
}

/// What messages need of whoever reads them.
#[must_use]
pub fn needs(messages: &[Message]) -> Needs {
    let is_image = |part: &Part| matches!(part, Part::Image { .. });
    let has_image = messages.iter().any(|message| message.parts.iter().any(is_image));
    if has_image { Needs::Images } else { Needs::Text }
}

/// Routes what is wanted, and says so in the log.
///
/// # Errors
///
/// 400 or 404 for a model or a role that has no route here.
pub fn route(app: &App, wanted: &Wanted<'_>) -> Result<Routed, ApiError> {
    let routed = app.routing().route(wanted).map_err(|error| {
        let code = match error {
            RouteError::Name(_) | RouteError::NoModel { .. } | RouteError::Mismatch(_) => {
                Code::InvalidModel
            }
            RouteError::TextOnly(_) => Code::InvalidRequest,
            RouteError::NotConfigured { .. }
            | RouteError::Unconfigured { .. }
            | RouteError::Nobody => Code::RouteUnconfigured,
        };
        ApiError::new(code, error.to_string())
    })?;
    let role = wanted.role.as_str();
    for dropped in routed.dropped.iter().filter(|one| one.unfit == Unfit::ModelMismatch) {
        let (provider, model) = (dropped.provider.as_str(), dropped.model.as_str());
        tracing::warn!(role, provider, model, "harness_provider_model_mismatch");
    }
    if let Some(first) = routed.route.first() {
        let (provider, model) = (first.provider.as_str(), first.model.as_str());
        tracing::info!(role, source = routed.source.name(), provider, model, "llm_route_resolved");
    }
    Ok(routed)
}

/// Freezes a request.
///
/// # Errors
///
/// Those of [`route`].
pub fn draft(app: &App, draft: Draft<'_>) -> Result<Spec, ApiError> {
    let project = &draft.project;
    let (role, needs) = (&draft.role, draft.needs);
    let wanted = Wanted { project, needs, ..Wanted::model(draft.model, role) };
    let routed = route(app, &wanted)?;
    let budgets = app.budgets_of(Whose { session: draft.session, caller: draft.caller, project });
    Ok(Spec {
        plane: draft.plane,
        delivery: draft.delivery,
        project: draft.project,
        caller: draft.caller,
        role: draft.role,
        phase: draft.phase,
        route: routed.route,
        dropped: routed.dropped,
        independence: app.routing().independence(),
        route_source: routed.source.name().to_owned(),
        tools: draft.tools,
        plan: Plan::default(),
        server_tools: draft.server_tools,
        params: draft.params,
        input: draft.input,
        limits: draft.limits,
        approval_mode: draft.approval_mode,
        source: draft.source,
        budgets,
        tool_policy: app.tool_policy(),
        campaign: None,
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
        if plane != Plane::Run {
            recovery.wait_max = recovery.wait_max.min(MODEL_PLANE_WAIT_MAX);
        }
        let spend_alert = self.config.run_spend_alert;
        Limits {
            spend_alert,
            history_max: self.config.history,
            client_wait: self.config.limits.client_tool_wait,
            approval_wait: self.config.limits.approval_timeout,
            recovery,
            ..Limits::default()
        }
    }
}
