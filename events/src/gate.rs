//! The gates of a project: named preconditions of tools, each with somebody who says whether it is open, and with the
//! evidence for it.
//!
//! Invariant: a gate of which nobody says whether it is open is not open; a hard one is never waived; a waiver lets one
//! run through, and ends with the next verdict; every fact of a gate raises its version, which intents record.

mod terms;

pub use terms::{
    Declaration, EVIDENCE_BYTES_MAX, Evaluator, Evidence, Hardness, Judgement, NAME_BYTES_MAX,
    REASON_BYTES_MAX, REFERENCE_BYTES_MAX, Said, Standing, Surface, Surfaces, Verdict, Waiver, Why,
    is_name, of_variable, variable,
};

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::id::RunId;
use crate::project::Project;
use crate::quantity::Instant;
use crate::record::{Actor, Entry, StreamKey, StreamKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Gates of one project (64).
pub const GATES_MAX: usize = 64;
/// Runs that a gate lets through by a waiver (256); the oldest of more meet it closed again.
pub const WAIVERS_MAX: usize = 256;

crate::events! {
    /// What can have happened to the gates of a project.
    pub enum Event {
        /// It works so from now on.
        Declared(Declared) = 700 / 1 "gate_declared";
        /// Somebody gave evidence.
        Evaluated(Evaluated) = 701 / 1 "gate_evaluated";
        /// A run was let through.
        Waived(Waived) = 702 / 1 "gate_waived";
    }
}

/// It works so from now on; whom it let through by a waiver it does not any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// Which gate.
    pub name: String,
    /// Its version now.
    pub version: u32,
    /// How it works.
    pub declaration: Declaration,
}

/// Somebody gave evidence; whom it let through by a waiver it does not any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluated {
    /// Which gate.
    pub name: String,
    /// Its version now.
    pub version: u32,
    /// What was said.
    pub judgement: Judgement,
}

/// A run was let through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waived {
    /// Which gate.
    pub name: String,
    /// Its version now.
    pub version: u32,
    /// Whom, and why.
    pub waiver: Waiver,
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Take this evidence.
    Evaluate {
        /// Of which gate.
        name: String,
        /// What the node that was asked says of it.
        said: Said,
        /// What the evidence says.
        verdict: Verdict,
        /// What that rests on.
        evidence: Evidence,
        /// Who gives it.
        by: Actor,
    },
    /// Let a run through.
    Waive {
        /// Which gate.
        name: String,
        /// What the node that was asked says of it.
        said: Said,
        /// Which run.
        run: RunId,
        /// Why.
        reason: String,
        /// Who says so.
        by: Actor,
    },
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The name can be no gate's.
    #[error("a gate's name has 1 to {NAME_BYTES_MAX} characters of a-z 0-9 _ -")]
    BadName,
    /// Nobody declares it.
    #[error(
        "nobody says whether the gate {0} is open: declare it as [gates.{0}] in the configuration"
    )]
    NoSuchGate(String),
    /// Its evaluator asks nobody.
    #[error("the gate {0} takes no evidence: declare its evaluator as \"evidence\"")]
    TakesNone(String),
    /// It can not be kept.
    #[error(
        "evidence has a text of 1 to {EVIDENCE_BYTES_MAX} bytes and perhaps a reference of 1 to {REFERENCE_BYTES_MAX}"
    )]
    BadEvidence,
    /// It can not be kept.
    #[error("a waiver has a reason of 1 to {REASON_BYTES_MAX} bytes")]
    BadReason,
    /// Nobody may.
    #[error("the gate {0} is hard: it can not be waived")]
    Hard(String),
    /// The node's environment closes it.
    #[error("the gate {0} stands before what this node makes read-only: that can not be waived")]
    ReadOnly(String),
    /// It is open.
    #[error("the gate {0} is open: there is nothing to waive")]
    IsOpen(String),
    /// There are too many.
    #[error("{GATES_MAX} gates of this project have a history: there can be no more")]
    Full,
}

/// One gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Counts its facts.
    pub version: u32,
    /// How it works, as it was declared last.
    pub declaration: Declaration,
    /// The newest evidence.
    pub judgement: Option<Judgement>,
    /// Whom it lets through all the same, the newest last.
    pub waivers: VecDeque<Waiver>,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Those that have a history, by name.
    pub gates: BTreeMap<String, Gate>,
}

impl State {
    /// How a gate works: as the node's configuration says, else as was said last, else as it is built in.
    #[must_use]
    pub fn declaration(&self, name: &str, said: Said) -> Option<Declaration> {
        let before = || self.gates.get(name).map(|gate| gate.declaration);
        said.declared.or_else(before).or_else(|| Declaration::built_in(name))
    }

    /// Whether a call may pass a gate, waivers left aside.
    #[must_use]
    pub fn stand(&self, name: &str, surfaces: &Surfaces) -> Standing {
        self.stands(name, surfaces.said(name))
    }

    /// Whether a call of this run may pass a gate.
    #[must_use]
    pub fn stand_for(&self, run: RunId, name: &str, surfaces: &Surfaces) -> Standing {
        let said = surfaces.said(name);
        match self.waived(run, name, said) {
            Some(version) => Standing::Open { version },
            None => self.stands(name, said),
        }
    }

    /// The gate's version, where a waiver of a run counts.
    fn waived(&self, run: RunId, name: &str, said: Said) -> Option<u32> {
        let gate = self.gates.get(name)?;
        let soft = self.declaration(name, said)?.hardness == Hardness::Soft;
        let counts = soft && said.surface == Surface::Writable;
        let has = || gate.waivers.iter().any(|waiver| waiver.run == run);
        (counts && has()).then_some(gate.version)
    }

    fn stands(&self, name: &str, said: Said) -> Standing {
        if said.surface == Surface::ReadOnly {
            let variable = variable(name).unwrap_or_default();
            return Standing::Closed { why: Why::ReadOnly(variable) };
        }
        let gate = self.gates.get(name);
        let open = Standing::Open { version: gate.map_or(0, |gate| gate.version) };
        let Some(declaration) = self.declaration(name, said) else { return Standing::NoEvaluator };
        let judgement = gate.and_then(|gate| gate.judgement.as_ref());
        let why = match (declaration.evaluator, judgement) {
            (Evaluator::Open, _) => return open,
            (Evaluator::Closed, _) => Why::Declared,
            (Evaluator::Evidence, None) => Why::NoEvidence,
            (Evaluator::Evidence, Some(Judgement { verdict: Verdict::Passed, .. })) => return open,
            (Evaluator::Evidence, Some(Judgement { verdict: Verdict::Failed, evidence, .. })) => {
                Why::Failed(evidence.text.clone())
            }
        };
        Standing::Closed { why }
    }
}

/// Marker: the rules of a project's gates. They owe the world nothing.
#[derive(Debug)]
pub struct Gates;

/// Gates have no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

/// How the gate works now and the version of its next fact, with the fact that says the former if it is news.
fn declared(
    state: &State,
    name: &str,
    said: Said,
) -> Result<(Declaration, u32, Vec<Event>), Refusal> {
    if !is_name(name) {
        return Err(Refusal::BadName);
    }
    let no_such = || Refusal::NoSuchGate(name.to_owned());
    let declaration = state.declaration(name, said).ok_or_else(no_such)?;
    let gate = state.gates.get(name);
    if gate.is_none() && state.gates.len() >= GATES_MAX {
        return Err(Refusal::Full);
    }
    let next = gate.map_or(0, |gate| gate.version).saturating_add(1);
    if gate.is_some_and(|gate| gate.declaration == declaration) {
        return Ok((declaration, next, vec![]));
    }
    let event = Declared { name: name.to_owned(), version: next, declaration };
    Ok((declaration, next.saturating_add(1), vec![Event::Declared(event)]))
}

fn evaluate(
    state: &State,
    (name, said): (&str, Said),
    judgement: Judgement,
) -> Result<Vec<Event>, Refusal> {
    let (declaration, version, mut events) = declared(state, name, said)?;
    if declaration.evaluator != Evaluator::Evidence {
        return Err(Refusal::TakesNone(name.to_owned()));
    }
    if !judgement.evidence.is_sound() {
        return Err(Refusal::BadEvidence);
    }
    let gate = state.gates.get(name).filter(|gate| events.is_empty() && gate.waivers.is_empty());
    let before = gate.and_then(|gate| gate.judgement.as_ref());
    if before.is_some_and(|before| Judgement { at: before.at, ..judgement.clone() } == *before) {
        return Ok(vec![]);
    }
    events.push(Event::Evaluated(Evaluated { name: name.to_owned(), version, judgement }));
    Ok(events)
}

fn waive(state: &State, (name, said): (&str, Said), waiver: Waiver) -> Result<Vec<Event>, Refusal> {
    let (declaration, version, mut events) = declared(state, name, said)?;
    let named = || name.to_owned();
    if !(1..=REASON_BYTES_MAX).contains(&waiver.reason.len()) {
        return Err(Refusal::BadReason);
    }
    if said.surface == Surface::ReadOnly {
        return Err(Refusal::ReadOnly(named()));
    }
    if declaration.hardness == Hardness::Hard {
        return Err(Refusal::Hard(named()));
    }
    if events.is_empty() && state.waived(waiver.run, name, said).is_some() {
        return Ok(vec![]);
    }
    match state.stands(name, said) {
        Standing::Open { .. } => return Err(Refusal::IsOpen(named())),
        Standing::Closed { .. } | Standing::NoEvaluator => {}
    }
    events.push(Event::Waived(Waived { name: named(), version, waiver }));
    Ok(events)
}

/// `None` when the event may not follow.
fn apply(state: &mut State, event: &Event) -> Option<()> {
    let follows = |gate: &Gate, version: u32| gate.version.saturating_add(1) == version;
    match event {
        Event::Declared(Declared { name, version, declaration }) => {
            let (version, declaration) = (*version, *declaration);
            if let Some(gate) = state.gates.get_mut(name) {
                follows(gate, version).then_some(())?;
                (gate.version, gate.declaration) = (version, declaration);
                gate.waivers.clear();
            } else {
                (version == 1).then_some(())?;
                let waivers = VecDeque::new();
                let gate = Gate { version, declaration, judgement: None, waivers };
                state.gates.insert(name.clone(), gate);
            }
        }
        Event::Evaluated(Evaluated { name, version, judgement }) => {
            let gate = state.gates.get_mut(name).filter(|gate| follows(gate, *version))?;
            (gate.version, gate.judgement) = (*version, Some(judgement.clone()));
            gate.waivers.clear();
        }
        Event::Waived(Waived { name, version, waiver }) => {
            let gate = state.gates.get_mut(name).filter(|gate| follows(gate, *version))?;
            gate.version = *version;
            if gate.waivers.len() == WAIVERS_MAX {
                gate.waivers.pop_front();
            }
            gate.waivers.push_back(waiver.clone());
        }
    }
    Some(())
}

impl Aggregate for Gates {
    type Id = Project;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Gates;
    const FOLD: u32 = 1;

    fn stream(id: &Project) -> StreamKey {
        StreamKey::named(StreamKind::Gates, id.as_str())
    }

    fn id(stream: &StreamKey) -> Option<Project> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        match command.clone() {
            Command::Evaluate { name, said, verdict, evidence, by } => {
                evaluate(state, (&name, said), Judgement { verdict, evidence, by, at: now })
            }
            Command::Waive { name, said, run, reason, by } => {
                waive(state, (&name, said), Waiver { run, reason, by, at: now })
            }
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        if apply(&mut state, event).is_some() {
            return Ok(state);
        }
        let before = format!("{} gates", state.gates.len());
        Err(IllegalEvent { event: event.name().to_owned(), before })
    }

    fn awake(_state: &State) -> Vec<Event> {
        vec![]
    }

    fn pending(_state: &State) -> Vec<(Never, Never)> {
        vec![]
    }

    fn wake(_state: &State) -> Wake {
        Wake::OnCommand
    }

    fn due() -> Option<Command> {
        None
    }

    fn lost(effect: &Never) -> Command {
        match *effect {}
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        Event::decode(kind, schema, payload)
    }
}

#[cfg(test)]
mod tests;
