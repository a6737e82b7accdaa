//! What a run owes the world, derived from folded state alone: the same after a crash as before it.

use super::ledger::{self, ToolNo};
use super::life::{Life, MessageRef};
use super::mediated;
use super::spec::{Candidate, Spec};
use super::step::{self, CallNo};
use super::terms::Terms;
use super::{Command, Event, State, approval, draw, halt, hold, offer};
use crate::aggregate::Wake;
use crate::budget::{Amount, Scope};
use crate::id::SessionId;
use crate::message::Body;
use crate::model_call::Without;
use crate::prompt::Catalogue;
use crate::quantity::{Instant, Millis};
use std::sync::Arc;

/// Which effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectId {
    /// A wire call.
    Model(CallNo),
    /// One try of a tool call.
    Tool(ToolNo, u32),
    /// A question to a budget.
    Slice(draw::SliceNo),
    /// A budget's slice on its way back.
    Return(Scope),
}

/// What is owed to the world.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Ask a model.
    AskModel(Box<AskModel>),
    /// Run a tool.
    RunTool(RunTool),
    /// Ask a budget for a slice.
    AskSlice(draw::SliceAsked),
    /// Give a slice back: what was used of it.
    ReturnSlice(Scope, Amount),
}

/// One wire call to be made.
#[derive(Debug, Clone)]
pub struct AskModel {
    /// The intent.
    pub asked: step::ModelAsked,
    /// Whom to ask.
    pub candidate: Candidate,
    /// The frozen request.
    pub spec: Arc<Spec>,
    /// The tools that it offers.
    pub tools: Catalogue,
    /// What the model is told, behind everything else, of those that it does not.
    pub note: Option<Body>,
    /// The conversation and what it said before.
    pub history: Option<(SessionId, Arc<[MessageRef]>)>,
    /// What the run said.
    pub transcript: Vec<Body>,
    /// The provider's profiles that failed in this step.
    pub tried: Vec<String>,
    /// Whether a token was had anew in this step: it is not once more.
    pub renewed: bool,
    /// What is left out of the request on the wire.
    pub without: Without,
}

/// One tool call to be made.
#[derive(Debug, Clone)]
pub struct RunTool {
    /// Which call.
    pub call: ToolNo,
    /// Which try.
    pub attempt: u32,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: crate::json::Json,
    /// On which terms.
    pub terms: Terms,
    /// How long it may take.
    pub timeout: Millis,
    /// For an invocation.
    pub mediated: Option<Through>,
    /// The project of the run.
    pub project: String,
}

/// What the broker sends a call with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// The id that its caller gave it.
    pub correlation: Option<u128>,
    /// The most bytes of an answer that is admitted.
    pub result_max: u64,
}

/// Whether the run has begun and not ended.
pub(super) const fn at_work(state: &State) -> bool {
    matches!(state.life, Life::Running)
}

/// Whether something is open that must settle before another call is intended.
pub(super) fn busy(state: &State) -> bool {
    state.model.is_some()
        || state.asking.is_some()
        || state.held.is_some()
        || state.halt.is_some()
        || state.tools.iter().any(ledger::Call::is_unsettled)
}

pub(super) fn pending(state: &State) -> Vec<(EffectId, Effect)> {
    if state.ended().is_some() {
        let back = |(scope, used)| (EffectId::Return(scope), Effect::ReturnSlice(scope, used));
        return draw::owed(state).map(back).collect();
    }
    let Some(spec) = state.spec.as_ref().filter(|_| state.life == Life::Running) else {
        return vec![];
    };
    let model = state.model.as_ref().and_then(|open| {
        let (tools, note) = offer::sent(&state.choosing, spec);
        let ask = AskModel {
            tools,
            note,
            asked: open.asked.clone(),
            candidate: step::candidate(state, open)?.clone(),
            spec: Arc::clone(spec),
            history: state.session.map(|session| (session, Arc::clone(&state.history))),
            transcript: state.transcript.clone(),
            tried: state.failed_profiles(open.asked.candidate),
            renewed: state.attempts.renewed,
            without: state.attempts.without,
        };
        Some((EffectId::Model(open.asked.call), Effect::AskModel(Box::new(ask))))
    });
    let slice = state.asking.iter();
    let slice = slice.map(|open| (EffectId::Slice(open.ask), Effect::AskSlice(open.clone())));
    let tool = |call| tool(state, spec, call);
    model.into_iter().chain(slice).chain(ledger::open(state).filter_map(tool)).collect()
}

fn tool(state: &State, spec: &Spec, call: ToolNo) -> Option<(EffectId, Effect)> {
    let (attempt, terms) = ledger::under_way(state, call)?;
    let invocation = state.invocations.iter().find(|one| one.call == call);
    let of_step = state.tools.iter().find(|one| one.call == Some(call));
    let of_step = of_step.map(|one| (&one.name, &one.arguments));
    let (name, arguments) =
        of_step.or_else(|| invocation.map(|one| (&one.name, &one.arguments)))?;
    let through = |one: &mediated::Invocation| Through {
        correlation: one.admission.correlation,
        result_max: mediated::policy(state).policy.max_result_bytes,
    };
    let timeout =
        if invocation.is_some() { mediated::timeout(state, terms) } else { terms.timeout };
    let run = RunTool {
        call,
        attempt,
        name: name.clone(),
        arguments: arguments.clone(),
        terms: terms.clone(),
        timeout,
        mediated: invocation.map(through),
        project: spec.project.clone(),
    };
    Some((EffectId::Tool(call, attempt), Effect::RunTool(run)))
}

pub(super) fn wake(state: &State) -> Wake {
    let owes =
        state.model.is_some() || state.asking.is_some() || ledger::open(state).next().is_some();
    match &state.life {
        Life::Running if owes => Wake::Now,
        Life::Ended(_) if !state.slices.is_empty() => Wake::Now,
        Life::Running => first_of(state).map_or(Wake::OnCommand, Wake::At),
        Life::New | Life::Queued | Life::Ended(_) => Wake::OnCommand,
    }
}

/// When something happens by itself.
fn first_of(state: &State) -> Option<Instant> {
    let held = state.held.as_ref().map(|held| held.until);
    // A halt outlasts the pause before the next try.
    let delayed = state.delayed.as_ref().filter(|_| state.halt.is_none()).map(|one| one.until);
    [held, delayed, approval::wake(state), halt::wake(state)].into_iter().flatten().min()
}

/// What has come due, one thing after the other.
pub(super) fn due(state: &State, now: Instant) -> Vec<Event> {
    let held = hold::due(state, now);
    let delayed = step::and_then(state, held, |after| step::due(after, now));
    let asked = step::and_then(state, delayed, |after| approval::due(after, now));
    step::and_then(state, asked, |after| halt::due(after, now))
}

pub(super) fn lost(effect: &EffectId) -> Command {
    match *effect {
        EffectId::Model(call) => Command::Model { call, outcome: step::Settled::Lost },
        EffectId::Tool(call, attempt) => {
            Command::Tool { call, attempt, outcome: ledger::Settled::Lost }
        }
        EffectId::Slice(ask) => Command::Slice { ask, outcome: draw::Settled::Lost },
        // Nothing was taken in; the host begins again with what is owed.
        EffectId::Return(_) => Command::Due,
    }
}
