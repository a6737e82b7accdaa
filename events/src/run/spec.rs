//! What a run was asked to do, frozen when it is queued, so that a later change of configuration changes no run.

use super::choose::Plan;
use super::terms::Source;
use crate::budget::Scope;
use crate::message::Body;
use crate::model_call;
use crate::prompt::{Catalogue, Params};
use crate::quantity::{MicroUsd, Millis, Tokens};
use crate::record::{Actor, Hash};
use crate::role::{Independence, Role};
use crate::tool_policy::Frozen;
use crate::usage::{Billing, Price};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts the changes of a decision, a fold text or a prompt. Replay is exact for an equal number.
pub const LOGIC: u16 = 2;

/// Which door the run came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plane {
    /// A model API: the caller reads the answer as it comes, and tools are the caller's.
    Model,
    /// The runs API: tools run on the server.
    Run,
    /// The embeddings API: one call for the vectors of its texts, which are its answer.
    Embeddings,
}

/// How the caller reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// As it comes.
    Live,
    /// When it is complete.
    Whole,
}

/// One model that may serve the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Provider id.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
    /// Its price when the run was queued; `None` when the table has none.
    pub price: Option<Price>,
    /// How it is paid.
    pub billing: Billing,
    /// The most output it produces in one call, for reservations.
    pub output_max: Tokens,
    /// The API family that its provider speaks.
    pub family: String,
    /// The most input it reads, where that is known.
    pub context_max: Option<Tokens>,
    /// The most tools that a request to its provider offers; `None` for any number.
    pub tools_max: Option<u32>,
}

/// Why a model that was meant to serve is not in the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unfit {
    /// The model is plainly another vendor's.
    ModelMismatch,
    /// Its API can not do what the request needs.
    CapabilityUnsupported,
}

impl Unfit {
    /// Its word on wires, in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelMismatch => "model_mismatch",
            Self::CapabilityUnsupported => "capability_unsupported",
        }
    }
}

/// A model that was meant to serve the run, before those of its route, and can not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Provider id.
    pub provider: String,
    /// Model name at that provider.
    pub model: String,
    /// Why not.
    pub unfit: Unfit,
}

/// What may be repeated after a lost outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayClass {
    /// Changes nothing: runs again.
    ReadOnly,
    /// Runs again with the same idempotency key.
    Idempotent,
    /// Changes the world: never again by itself.
    Effectful,
}

/// What becomes of a call that somebody has to agree to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApprovalMode {
    /// It is held, and somebody is asked.
    #[default]
    Hold,
    /// Nobody is there: a native tool is refused, and a server's own policy decides about its tools.
    Forward,
}

/// Bounds of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Model calls with their tool calls (32).
    pub steps_max: u32,
    /// Tool calls of one answer (64).
    pub calls_per_step_max: u32,
    /// How long the caller may take to run its own tools (10 min).
    pub client_wait: Millis,
    /// How long somebody may take to agree to a call, which is denied then (30 min).
    pub approval_wait: Millis,
    /// The most that all calls together may cost, reservations included.
    pub cost_max: Option<MicroUsd>,
    /// The cost beyond which it is said once that it costs much; it goes on.
    pub spend_alert: Option<MicroUsd>,
    /// The most model calls, repeated ones included.
    pub model_calls_max: Option<u32>,
    /// What a session said before and is sent again whole; older turns are folded (12,000).
    pub history_max: Tokens,
    /// Bounds of recovery.
    pub recovery: model_call::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps_max: 32,
            calls_per_step_max: 64,
            client_wait: Millis(600_000),
            approval_wait: Millis(1_800_000),
            cost_max: None,
            spend_alert: None,
            model_calls_max: None,
            history_max: Tokens(12_000),
            recovery: model_call::Limits::default(),
        }
    }
}

/// The frozen request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Through which door.
    pub plane: Plane,
    /// How its answer is read.
    pub delivery: Delivery,
    /// Which project it belongs to.
    pub project: String,
    /// Who asked.
    pub caller: Actor,
    /// What a model is asked for.
    pub role: Role,
    /// The phase of a flow that it belongs to.
    pub phase: Option<String>,
    /// Who may serve it, in order; the first is the primary, unless that was dropped.
    pub route: Vec<Candidate>,
    /// Who was meant to serve before the first of the route and can not, in order.
    pub dropped: Vec<Dropped>,
    /// Who said the primary: `call`, `phase`, `project`, `env`, `table`, `selection` or `default`.
    pub route_source: String,
    /// Whether an evaluator may be served by whom it judges.
    pub independence: Independence,
    /// The tools offered to the model.
    pub tools: Catalogue,
    /// What of them is offered first where not all are; empty when all of them always are.
    pub plan: Plan,
    /// Which of them run on the server, by model-facing name; the others are the caller's.
    pub server_tools: Vec<String>,
    /// What the caller wants of the model.
    pub params: Params,
    /// The messages of this turn (all of them for a run without a session).
    pub input: Vec<Body>,
    /// Bounds.
    pub limits: Limits,
    /// What becomes of calls that somebody has to agree to.
    pub approval_mode: ApprovalMode,
    /// What it works on, as its caller says.
    pub source: Source,
    /// The bounds of its invocations.
    pub tool_policy: Frozen,
    /// The budgets that count it, narrow to wide.
    pub budgets: Vec<Scope>,
    /// The campaign that it is a part of: all runs of one have the same bounds.
    pub campaign: Option<String>,
    /// [`LOGIC`] of the build that queued it.
    pub logic: u16,
    /// The caller's own pairs; they never enter a prompt.
    pub metadata: BTreeMap<String, String>,
    /// 64 bits drawn when the run was queued, so that runs of one prompt do not come back in step.
    pub seed: u64,
    /// Names the caller's request: the same idempotency key with another one is a conflict.
    pub input_hash: Hash,
}
