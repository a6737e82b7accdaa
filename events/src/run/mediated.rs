//! Invocations: the tool calls that go through the broker. Each draws one call of the run's frozen budget with its intent,
//! one is under way at a time, and one whose outcome nobody knows stops everything that would build on it until a person
//! has settled it. Nothing gives budget back, and nothing is sent twice.

use super::halt::{Decider, Halt, Resumed};
use super::ledger::{ToolAsked, ToolNo, UnknownReason};
use super::life::Life;
use super::rejection::Rejection;
use super::terms::{Consent, Terms};
use super::{Event, Refusal, State, course, owed, step};
use crate::id::{digest, digest256};
use crate::json::Json;
use crate::quantity::{Instant, Millis};
use crate::record::Hash;
use crate::tool_policy::{Field, Frozen, OnUnknown};
use serde::{Deserialize, Serialize};

/// What an invocation may take beyond its time before somebody may give it up: a reply on its way is let in.
pub const LEASE_EXTRA: Millis = Millis(5_000);

/// What the intent of an invocation keeps beside its terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The id that the caller gave it; `None` for a call of the model, whose id follows from the run and its number.
    pub correlation: Option<u128>,
    /// Names tool, arguments, source, policy and configuration: the same id with another of it is refused.
    pub input: Hash,
    /// The policy that the run was queued with.
    pub policy_revision: u32,
    /// The stage of the run.
    pub stage: String,
    /// Nobody may give it up before then.
    pub lease_until: Instant,
}

/// One invocation of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// Which call.
    pub call: ToolNo,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// Its terms.
    pub terms: Terms,
    /// What its intent keeps.
    pub admission: Admission,
    /// What came of it.
    pub disposition: Disposition,
    /// Whether the model asked for it; otherwise somebody outside did, and the model is not told.
    pub is_models: bool,
}

/// What came of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disposition {
    /// It was admitted; nobody has said what came of it.
    Pending,
    /// It answered.
    Succeeded(String),
    /// The provider refused it, or it never left.
    Rejected {
        /// Why.
        class: Rejection,
        /// What the caller is told.
        content: String,
    },
    /// Nobody knows what came of it.
    Unknown(UnknownReason),
    /// Somebody has given it up.
    Abandoned {
        /// Which decision.
        request: String,
        /// Whose.
        by: Decider,
    },
}

impl Disposition {
    /// The word for people and wires.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded(_) => "succeeded",
            Self::Rejected { .. } => "rejected",
            Self::Unknown(_) => "unknown",
            Self::Abandoned { .. } => "abandoned",
        }
    }
}

/// Somebody gave an invocation up, without claiming anything of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReconciled {
    /// Which call.
    pub call: ToolNo,
    /// 32 lowercase hexadecimal digits that name the decision.
    pub request: String,
    /// Who decided.
    pub by: Decider,
}

/// A call that somebody outside makes in the run's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoke {
    /// Names it; the same one again is the same call.
    pub correlation: u128,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// What the edge found.
    pub terms: Terms,
}

/// The public id of an invocation: of its run and its correlation id.
#[must_use]
pub fn invocation_id(run: u128, correlation: u128) -> String {
    let id = digest(&[b"piton/invocation", &run.to_le_bytes(), &correlation.to_le_bytes()]);
    format!("inv_{id:032x}")
}

/// The policy that binds a run.
#[must_use]
pub fn policy(state: &State) -> Frozen {
    state.spec.as_ref().map_or_else(Frozen::default, |spec| spec.tool_policy)
}

/// The invocation that nobody has settled.
#[must_use]
pub fn unresolved(state: &State) -> Option<&Invocation> {
    state.invocations.iter().find(|one| matches!(one.disposition, Disposition::Unknown(_)))
}

/// Whether one is under way.
pub(super) fn under_way(state: &State) -> bool {
    state.invocations.iter().any(|one| one.disposition == Disposition::Pending)
}

/// Why the next invocation of a tool does not fit: the limit, and what it is of.
pub(super) fn spent(state: &State, name: &str) -> Option<(u32, Field)> {
    let policy = policy(state).policy;
    let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
    let of_tool = state.invocations.iter().filter(|one| one.name == name).count();
    if count(state.invocations.len()) >= policy.calls_limit {
        return Some((policy.calls_limit, Field::CallsLimit));
    }
    (count(of_tool) >= policy.per_tool_limit)
        .then_some((policy.per_tool_limit, Field::PerToolLimit))
}

/// How long an invocation may take: what its tool says, and no longer than the policy does.
#[must_use]
pub fn timeout(state: &State, terms: &Terms) -> Millis {
    terms.timeout.min(policy(state).policy.timeout)
}

/// What an intent keeps, if the call goes through the broker.
pub(super) fn admission(
    state: &State,
    correlation: Option<u128>,
    (name, arguments, terms): (&str, &Json, &Terms),
    now: Instant,
) -> Option<Box<Admission>> {
    let mediated = terms.mediated.as_ref()?;
    let policy = policy(state);
    let source = postcard::to_stdvec(&mediated.source).unwrap_or_default();
    let revision = policy.revision.to_le_bytes();
    let parts: [&[u8]; 5] =
        [name.as_bytes(), arguments.as_bytes(), &source, &revision, mediated.revision.as_bytes()];
    let spec = state.spec.as_ref()?;
    let stage = spec.phase.clone().unwrap_or_else(|| spec.role.as_str().to_owned());
    Some(Box::new(Admission {
        correlation,
        input: Hash(digest256(&parts)),
        policy_revision: policy.revision,
        stage,
        lease_until: now.after(timeout(state, terms)).after(LEASE_EXTRA),
    }))
}

/// Admits a call from outside the loop, or finds what came of it before: then nothing happens, and the caller looks.
pub(super) fn invoke(state: &State, asked: &Invoke, now: Instant) -> Result<Vec<Event>, Refusal> {
    let subject = (asked.name.as_str(), &asked.arguments, &asked.terms);
    let admission = admission(state, Some(asked.correlation), subject, now);
    let Some(admission) = admission else { return Err(Refusal::NotMediated(asked.name.clone())) };
    let given = Some(asked.correlation);
    if let Some(before) = state.invocations.iter().find(|one| one.admission.correlation == given) {
        let same = before.admission.input == admission.input;
        return if same { Ok(vec![]) } else { Err(Refusal::OtherInvocation) };
    }
    if let Some(open) = unresolved(state) {
        return Err(Refusal::Unresolved(open.call));
    }
    if let Some(halt) = &state.halt {
        return Err(Refusal::Halted(halt.clone()));
    }
    if under_way(state) {
        return Err(Refusal::UnderWay);
    }
    if let Some((limit, which)) = spent(state, &asked.name) {
        return Err(Refusal::ToolBudget { limit, which });
    }
    if asked.terms.consent == Consent::Needed {
        return Err(Refusal::ConsentNeeded(asked.name.clone()));
    }
    Ok(vec![Event::ToolAsked(ToolAsked {
        call: state.next_tool,
        index: None,
        id: String::new(),
        name: asked.name.clone(),
        arguments: asked.arguments.clone(),
        terms: asked.terms.clone(),
        admission: Some(admission),
    })])
}

/// Gives up an invocation whose outcome is unknown.
pub(super) fn abandon(
    state: &State,
    call: ToolNo,
    request: &str,
    by: Decider,
    now: Instant,
) -> Result<Vec<Event>, Refusal> {
    let is_id = request.len() == 32
        && request.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_id {
        return Err(Refusal::NotARequestId);
    }
    let Some(found) = state.invocations.iter().find(|one| one.call == call) else {
        return Err(Refusal::NoSuchTool(call));
    };
    let used = |one: &&Invocation| matches!(&one.disposition, Disposition::Abandoned { request: before, .. } if before == request);
    match state.invocations.iter().find(used) {
        // The same decision again.
        Some(before) if before.call == call => return Ok(vec![]),
        Some(other) => return Err(Refusal::RequestIdUsed(other.call)),
        None => {}
    }
    match &found.disposition {
        Disposition::Unknown(_) | Disposition::Pending if now < found.admission.lease_until => {
            Err(Refusal::Leased(found.admission.lease_until))
        }
        Disposition::Unknown(_) => {
            let request = request.to_owned();
            Ok(vec![Event::ToolReconciled(ToolReconciled { call, request, by })])
        }
        // Its owner has the time, and says so itself.
        Disposition::Pending => Err(Refusal::UnderWay),
        Disposition::Succeeded(_)
        | Disposition::Rejected { .. }
        | Disposition::Abandoned { .. } => {
            Err(Refusal::Settled(found.disposition.word().to_owned()))
        }
    }
}

/// When the run's policy gives up what is unresolved, if it does.
pub(super) fn abandons_at(state: &State) -> Option<Instant> {
    let open = unresolved(state)?;
    let reads = open.terms.class == super::spec::ReplayClass::ReadOnly;
    let gives_up = policy(state).policy.on_unknown_read_only == OnUnknown::Abandon;
    (reads && gives_up).then_some(open.admission.lease_until)
}

/// What the policy decides by itself goes on by itself.
pub(super) fn abandon_by_policy(state: &State, now: Instant) -> Vec<Event> {
    let (Some(open), Some(at)) = (unresolved(state), abandons_at(state)) else { return vec![] };
    if now < at {
        return vec![];
    }
    let by = Decider::Policy(policy(state).revision);
    // A decision of its own for every call: the number of the call names it.
    let request = format!("{:032x}", digest(&[b"piton/policy", &open.call.0.to_le_bytes()]));
    let settled = abandon(state, open.call, &request, by, now).unwrap_or_default();
    let events = [settled, vec![Event::Resumed(Resumed { by })]].concat();
    step::and_then(state, events, |after| course::go_on(after, now))
}

pub(super) fn on_admitted(state: &mut State, event: &ToolAsked) -> Option<()> {
    let Some(admission) = &event.admission else {
        return (event.index.is_some() && event.terms.mediated.is_none()).then_some(());
    };
    if state.halt.is_some() || under_way(state) || spent(state, &event.name).is_some() {
        return None;
    }
    state.invocations.push(Invocation {
        call: event.call,
        name: event.name.clone(),
        arguments: event.arguments.clone(),
        terms: event.terms.clone(),
        admission: Admission::clone(admission),
        disposition: Disposition::Pending,
        is_models: event.index.is_some(),
    });
    Some(())
}

/// Records what came of a call, if it is one of these.
pub(super) fn on_settled(state: &mut State, call: ToolNo, disposition: Disposition) -> Option<()> {
    let Some(found) = state.invocations.iter_mut().find(|one| one.call == call) else {
        return Some(());
    };
    if found.disposition != Disposition::Pending {
        return None;
    }
    let is_unknown = matches!(disposition, Disposition::Unknown(_));
    found.disposition = disposition;
    if is_unknown {
        state.halt = Some(Halt::Reconciliation);
    }
    Some(())
}

pub(super) fn on_reconciled(state: &mut State, event: &ToolReconciled) -> Option<()> {
    if !owed::at_work(state) && !matches!(state.life, Life::Ended(_)) {
        return None;
    }
    let found = state.invocations.iter_mut().find(|one| one.call == event.call)?;
    if !matches!(found.disposition, Disposition::Unknown(_)) {
        return None;
    }
    let (request, by) = (event.request.clone(), event.by);
    found.disposition = Disposition::Abandoned { request, by };
    Some(())
}
