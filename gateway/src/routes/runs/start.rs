//! `POST /v1/runs`: starts a run and answers at once. The answer means that the run is durable.

use super::{object, offer};
use crate::app::{App, place_of};
use crate::auth::Caller;
use crate::auth::role::{Right, may, who_may};
use crate::error::{ApiError, Code};
use crate::extract::{Whole, malformed};
use crate::routes::spec::{Draft, draft};
use actors::order::{Lane, Observed};
use actors::routing::Needs;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use events::id::{RunId, SessionId, digest};
use events::journal;
use events::json::Json as JsonBytes;
use events::message::{Body, Message, Role};
use events::prompt::{Catalogue, Params};
use events::quantity::{MicroUsd, Tokens};
use events::role::{NotARole, Role as Duty};
use events::run::life::Life;
use events::run::spec::{ApprovalMode, Delivery, Plane, Spec};
use events::run::terms::Source;
use events::run::{Command, Refusal, Run};
use events::session::{self, Session};
use events::settings::{Settings, SettingsId};
use events::tool_policy::Frozen;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The header by which a repeat is known.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Bytes of an `Idempotency-Key`; it only has to be unique.
const IDEMPOTENCY_KEY_MAX: usize = 255;
/// Steps that a caller may ask for; a run is bounded whatever is asked.
const STEPS_MAX: u32 = 256;
/// Bytes of the name of a phase.
const PHASE_MAX: usize = 128;
/// Bytes of each word of `source`.
const SOURCE_MAX: usize = 512;
/// Bytes of a campaign's name.
const CAMPAIGN_MAX: usize = 128;
/// Bytes of a name and of a value in `metadata`.
const METADATA_MAX: (usize, usize) = (64, 512);

/// The body. An unknown field is an error here: a misspelt bound must not be silently without effect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    input: Input,
    model: Option<String>,
    /// What the model is asked for; `chat` unless said.
    role: Option<String>,
    /// The phase of a flow that this is part of.
    phase: Option<String>,
    session_id: Option<String>,
    project_id: Option<String>,
    instructions: Option<String>,
    /// A person's choice of tools; nothing else is offered.
    enabled_tools: Option<Vec<String>>,
    /// The disciplines that it is about; tools that only others need are left to the search.
    domains: Option<Vec<String>>,
    max_steps: Option<u32>,
    max_output_tokens: Option<u64>,
    #[serde(default)]
    budget: Budget,
    #[serde(default)]
    on_busy: OnBusy,
    /// What becomes of calls that somebody has to agree to.
    #[serde(default)]
    approval_mode: Approving,
    /// What the run works on, as its caller says.
    #[serde(default)]
    source: Declared,
    /// The campaign that this is a part of, with the tool policy that it was planned under.
    campaign: Option<Campaign>,
    /// The caller's own pairs; kept out of the prompt.
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Messages(Vec<Said>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    role: String,
    content: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    usd: Option<f64>,
    calls: Option<u32>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Approving {
    #[default]
    Hold,
    Forward,
}

/// What a run works on: nobody has read it from a folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    repository: Option<String>,
    commit: Option<String>,
    tree: Option<String>,
}

impl Declared {
    fn source(self) -> Result<Source, ApiError> {
        let Self { repository, commit, tree } = self;
        let fields = [("repository", &repository), ("commit", &commit), ("tree", &tree)];
        for (name, value) in fields {
            if value.as_ref().is_some_and(|text| !(1..=SOURCE_MAX).contains(&text.len())) {
                return Err(bad(format!("source.{name}: give 1 to {SOURCE_MAX} bytes")));
            }
        }
        Ok(Source { repository, commit, tree, read: false })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Campaign {
    id: String,
    policy_revision: u32,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnBusy {
    #[default]
    Queue,
    Reject,
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidRequest, message.into())
}

/// Starts a run.
///
/// # Errors
///
/// 400 for a malformed body or a model without a route, 409 for a busy session or an idempotency key that was used
/// for something else, 429 when there is no room.
pub async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, ApiError> {
    let asked: Asked =
        serde_json::from_slice(&body).map_err(|error| malformed("the body", &error.to_string()))?;
    let session = asked.session_id.as_deref().map(session_id).transpose()?;
    let (run, repeat) = run_id(&app, &caller, &headers, session)?;
    attended(&caller, asked.approval_mode)?;
    app.admit_run()?;
    let on_busy = asked.on_busy;
    let campaign = asked.campaign.clone();
    let asked = in_scope(&app, asked, session).await?;
    let mut spec = spec(&app, &caller, asked, session, &body)?;
    let known = if repeat { known(&app, run).await? } else { None };
    // A repeat gets its run, whatever the policy is by now.
    if let Some(campaign) = campaign.filter(|_| known.is_none()) {
        spec.tool_policy = planned(&app, &campaign).await?;
        spec.campaign = Some(campaign.id);
    }
    let spec = Arc::new(spec);
    let replayed = known.is_some();
    let observed = match (known, session) {
        (Some(observed), _) => same(observed, &spec)?,
        (None, None) => open(&app, &caller, run, &spec).await?,
        (None, Some(session)) => submit(&app, &caller, (session, run), &spec, on_busy).await?,
    };
    let mut response =
        (StatusCode::ACCEPTED, Json(object(&app, run, &observed).await?)).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/runs/{run}")) {
        response.headers_mut().insert("location", location);
    }
    if replayed {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// A run that names no project is of the one that its conversation is about.
async fn in_scope(
    app: &App,
    mut asked: Asked,
    session: Option<SessionId>,
) -> Result<Asked, ApiError> {
    if let (None, Some(session)) = (&asked.project_id, session) {
        let seen = app.observe::<Session>(session).await?;
        asked.project_id = seen.state.scope.clone();
    }
    Ok(asked)
}

/// Who may start a run that nobody attends.
fn attended(caller: &Caller, mode: Approving) -> Result<(), ApiError> {
    let right = Right::RunUnattended;
    if mode == Approving::Hold || may(caller.role, right) {
        return Ok(());
    }
    let why = format!("approval_mode: only a key of these roles may {right}: {}", who_may(right));
    Err(ApiError::new(Code::Forbidden, why).param("approval_mode"))
}

fn session_id(text: &str) -> Result<SessionId, ApiError> {
    text.parse().map_err(|error: events::id::NotAnId| bad(format!("session_id: {error}")))
}

async fn known(app: &App, run: RunId) -> Result<Option<Observed<Run>>, ApiError> {
    let observed = app.observe::<Run>(run).await?;
    Ok((observed.state.life != Life::New).then_some(observed))
}

/// The tool policy in force, by the word of its owner: all runs of a campaign have the one that it was planned under.
async fn planned(app: &App, campaign: &Campaign) -> Result<Frozen, ApiError> {
    let Campaign { id, policy_revision } = campaign;
    if !(1..=CAMPAIGN_MAX).contains(&id.len()) {
        return Err(bad(format!("campaign.id: give 1 to {CAMPAIGN_MAX} bytes")));
    }
    let observed = app.observe::<Settings>(SettingsId::Tools).await?;
    let frozen = observed.state.tool_policy();
    if frozen.revision == *policy_revision {
        return Ok(frozen);
    }
    let why = format!(
        "campaign {id:?} was planned under tool policy revision {policy_revision}, and {} is in force: plan it again \
         (`piton tools policy` shows it)",
        frozen.revision
    );
    Err(ApiError::new(Code::PolicyRevisionMismatch, why).param("campaign.policy_revision"))
}

/// A repeat gets what the first request made, if it asks for the same.
fn same(observed: Observed<Run>, spec: &Spec) -> Result<Observed<Run>, ApiError> {
    let is_same =
        observed.state.spec.as_ref().is_some_and(|frozen| frozen.input_hash == spec.input_hash);
    if is_same { Ok(observed) } else { Err(Refusal::OtherInput.into()) }
}

/// Checks a key that a caller made up.
///
/// # Errors
///
/// 400 for an empty or a long one.
pub fn idempotency_key(key: &HeaderValue) -> Result<(), ApiError> {
    if key.is_empty() || key.len() > IDEMPOTENCY_KEY_MAX {
        return Err(bad(format!("Idempotency-Key must have 1 to {IDEMPOTENCY_KEY_MAX} bytes")));
    }
    Ok(())
}

/// A drawn id, or the one that the caller's idempotency key always gives; then also that it may be a repeat.
fn run_id(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    session: Option<SessionId>,
) -> Result<(RunId, bool), ApiError> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else {
        let place = session.map_or_else(|| app.place(), SessionId::place);
        return Ok((RunId::new(place, app.entropy().draw()), false));
    };
    idempotency_key(key)?;
    let actor = caller.actor.to_string();
    let parts: [&[u8]; 3] = [b"piton/idempotency", actor.as_bytes(), key.as_bytes()];
    let place = session.map_or_else(|| place_of(digest(&parts)), SessionId::place);
    Ok((RunId::derived(place, &parts), true))
}

fn spec(
    app: &App,
    caller: &Caller,
    asked: Asked,
    session: Option<SessionId>,
    body: &[u8],
) -> Result<Spec, ApiError> {
    let input = messages(asked.instructions, asked.input)?;
    let plan = offer::plan(app, asked.enabled_tools.as_deref(), asked.domains)?;
    let (name_max, value_max) = METADATA_MAX;
    if let Some((name, _)) =
        asked.metadata.iter().find(|(name, value)| name.len() > name_max || value.len() > value_max)
    {
        return Err(bad(format!(
            "metadata.{name}: names have at most {name_max} bytes, values at most {value_max}"
        )));
    }
    let mut limits = app.run_limits(Plane::Run);
    limits.steps_max = asked.max_steps.unwrap_or(limits.steps_max);
    if !(1..=STEPS_MAX).contains(&limits.steps_max) {
        return Err(bad(format!("max_steps: give 1 to {STEPS_MAX}")));
    }
    let role = asked.role.as_deref().map_or_else(|| Ok(Duty::chat()), str::parse);
    let role = role.map_err(|error: NotARole| bad(format!("role: {error}")))?;
    if asked.phase.as_ref().is_some_and(|phase| !(1..=PHASE_MAX).contains(&phase.len())) {
        return Err(bad(format!("phase: give 1 to {PHASE_MAX} bytes")));
    }
    limits.model_calls_max = asked.budget.calls;
    limits.cost_max = asked.budget.usd.map(|usd| micro_usd("budget.usd", usd)).transpose()?;
    let said = Draft {
        plane: Plane::Run,
        delivery: Delivery::Live,
        caller: caller.actor,
        project: asked.project_id.unwrap_or_else(|| "default".to_owned()),
        session,
        model: asked.model.as_deref(),
        role,
        needs: Needs::Text,
        phase: asked.phase,
        tools: Catalogue::default(),
        server_tools: vec![],
        params: Params {
            output_max: asked.max_output_tokens.map(Tokens),
            extra: JsonBytes::from_bytes(b"{}"),
        },
        input,
        limits,
        approval_mode: match asked.approval_mode {
            Approving::Hold => ApprovalMode::Hold,
            Approving::Forward => ApprovalMode::Forward,
        },
        source: asked.source.source()?,
        metadata: asked.metadata,
        input_hash: journal::hash(body),
    };
    offer::choose(app, &plan, draft(app, said)?)
}

/// Dollars as millionths, by way of decimal text: money never goes through binary fractions.
///
/// # Errors
///
/// 400 for what is no amount.
pub fn micro_usd(field: &str, dollars: f64) -> Result<MicroUsd, ApiError> {
    let text = format!("{dollars:.6}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    let micro = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(1_000_000));
    let amount = micro.and_then(|micro| micro.checked_add(part.parse().ok()?));
    amount
        .map(MicroUsd)
        .ok_or_else(|| bad(format!("{field}: {dollars} is not an amount of dollars")))
}

fn messages(instructions: Option<String>, input: Input) -> Result<Vec<Body>, ApiError> {
    let mut all: Vec<Body> =
        instructions.iter().map(|text| Message::text(Role::System, text).body()).collect();
    match input {
        Input::Text(text) => all.push(Message::text(Role::User, &text).body()),
        Input::Messages(said) => {
            for (at, one) in said.into_iter().enumerate() {
                let role = match one.role.as_str() {
                    "system" | "developer" => Role::System,
                    "user" => Role::User,
                    "assistant" => Role::Assistant,
                    other => {
                        return Err(bad(format!(
                            "input[{at}].role: {other} is not system, user or assistant"
                        )));
                    }
                };
                all.push(Message::text(role, &one.content).body());
            }
        }
    }
    if all.is_empty() { Err(bad("input: say something")) } else { Ok(all) }
}

async fn open(
    app: &App,
    caller: &Caller,
    run: RunId,
    spec: &Arc<Spec>,
) -> Result<Observed<Run>, ApiError> {
    let command = Command::Open { spec: Arc::clone(spec), session: None, grant: None };
    let order = app.order(command, caller.actor, Lane::Data);
    app.decide::<Run>(run, order).await
}

/// The session takes the run in first; then the run is made known, so that it is found from now on.
async fn submit(
    app: &App,
    caller: &Caller,
    (session, run): (SessionId, RunId),
    spec: &Arc<Spec>,
    on_busy: OnBusy,
) -> Result<Observed<Run>, ApiError> {
    let on_busy = match on_busy {
        OnBusy::Queue => session::OnBusy::Queue,
        OnBusy::Reject => session::OnBusy::Reject,
    };
    let command = session::Command::Submit { run, spec: Arc::clone(spec), on_busy, seen: None };
    let order = app.order(command, caller.actor, Lane::Data);
    app.decide::<Session>(session, order).await?;
    // From here on the work is done whatever becomes of this request.
    let command = Command::Open { spec: Arc::clone(spec), session: Some(session), grant: None };
    let order = app.order(command, caller.actor, Lane::Data);
    let opened = app.decide::<Run>(run, order).await;
    opened.map_err(|error| ApiError::new(Code::Lost, error.to_string()).run(run))
}
