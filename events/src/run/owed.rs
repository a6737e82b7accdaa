//! What a run owes the world, derived from folded state alone: the same after a crash as before it.

use super::ledger::{self, ToolNo};
use super::life::{Life, MessageRef};
use super::spec::{Candidate, Spec};
use super::step::{self, CallNo};
use super::{Command, State, draw};
use crate::aggregate::Wake;
use crate::budget::{Amount, Scope};
use crate::id::SessionId;
use crate::message::Body;
use crate::model_call::Without;
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
}

/// Whether something is open that must settle before another call is intended.
pub(super) fn busy(state: &State) -> bool {
    state.model.is_some()
        || state.asking.is_some()
        || state.held.is_some()
        || state.tools.iter().any(ledger::Call::is_open)
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
        let ask = AskModel {
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
    let tool = |one: &ledger::Call| match (one.call, &one.standing) {
        (Some(call), ledger::Standing::Open { attempt }) => {
            let (name, arguments) = (one.name.clone(), one.arguments.clone());
            let run = RunTool { call, attempt: *attempt, name, arguments };
            Some((EffectId::Tool(call, *attempt), Effect::RunTool(run)))
        }
        (None, _) | (Some(_), ledger::Standing::Settled(_)) => None,
    };
    let slice = state.asking.iter();
    let slice = slice.map(|open| (EffectId::Slice(open.ask), Effect::AskSlice(open.clone())));
    model.into_iter().chain(slice).chain(state.tools.iter().filter_map(tool)).collect()
}

pub(super) fn wake(state: &State) -> Wake {
    let owes = state.model.is_some()
        || state.asking.is_some()
        || state.tools.iter().any(ledger::Call::is_open);
    match (&state.life, &state.held, &state.delayed) {
        (Life::Running, _, _) if owes => Wake::Now,
        (Life::Ended(_), _, _) if !state.slices.is_empty() => Wake::Now,
        (Life::Running, Some(held), _) => Wake::At(held.until),
        (Life::Running, None, Some(delayed)) => Wake::At(delayed.until),
        (Life::New | Life::Queued | Life::Running | Life::Ended(_), _, _) => Wake::OnCommand,
    }
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
