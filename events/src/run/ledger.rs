//! The tool calls of a run. A call is intended before it starts and settled after; what a restart finds between the
//! two is handled by its replay class, and an effectful one is never run a second time.

use super::approval::ApprovalNo;
use super::halt::Paused;
use super::mediated::{self, Admission, Disposition};
use super::rejection::Rejection;
use super::spec::ReplayClass;
use super::terms::Terms;
use super::{Event, Refusal, State, course, offer, owed, step};
use crate::id::digest;
use crate::json::Json;
use crate::leave::NotSent;
use crate::message::{Body, Message};
use crate::quantity::Instant;
use serde::{Deserialize, Serialize};

/// Numbers the tool calls of a run, from 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ToolNo(pub u32);

/// Tries of one repeatable call, after which its outcome stays unknown.
const TRIES_MAX: u32 = 5;

/// What the edge found about a call in a model's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The provider's id of the call.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments (RFC 8785), or the model's own bytes where they are not JSON.
    pub arguments: Json,
    /// Who runs it.
    pub verdict: Verdict,
}

/// Who runs a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// This node, on these terms.
    Server(Box<Terms>),
    /// The caller.
    Client,
    /// Nobody: the text says why. It was NOT executed.
    Refused(String),
}

/// The intent to run a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolAsked {
    /// Which call.
    pub call: ToolNo,
    /// Its place in the model's answer; `None` for a call from outside.
    pub index: Option<u32>,
    /// The provider's id of the call.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// On which terms.
    pub terms: Terms,
    /// For an invocation: with this it draws a call of the run's budget.
    pub admission: Option<Box<Admission>>,
}

/// A call that nobody runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRefused {
    /// Its place in the model's answer.
    pub index: u32,
    /// The provider's id of the call.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// What the model is told.
    pub content: String,
}

/// The same call was made before in this turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRepeated {
    /// Its place in the model's answer.
    pub index: u32,
    /// The provider's id of the call.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// What the model is told: the answer that it had.
    pub content: String,
}

/// Whether a tool did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolOutcome {
    /// It did.
    Succeeded,
    /// It says that it did not.
    Failed,
    /// Whoever was asked through the broker refused.
    Rejected(Rejection),
}

impl ToolOutcome {
    /// The word for people and wires.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Rejected(_) => "rejected",
        }
    }
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolReceipt {
    /// Which call.
    pub call: ToolNo,
    /// Whether it worked.
    pub outcome: ToolOutcome,
    /// What the model is told.
    pub content: String,
}

/// The outcome of a call is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUnknown {
    /// Which call.
    pub call: ToolNo,
    /// Why nobody knows.
    pub reason: UnknownReason,
    /// For an invocation, which halts its run: nobody may give it up before then.
    pub lease_until: Option<Instant>,
}

/// Why nobody knows what came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnknownReason {
    /// Its node died, or was stopped.
    Interrupted,
    /// No answer came in time, or the connection was lost.
    Unanswered,
    /// The answer was larger than the policy admits.
    TooLarge,
    /// The answer was not what the tool declares.
    Unfit,
    /// The run was stopped while it was under way.
    Stopped,
}

impl UnknownReason {
    /// The word for people and wires.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::Unanswered => "unanswered",
            Self::TooLarge => "too_large",
            Self::Unfit => "unfit",
            Self::Stopped => "stopped",
        }
    }
}

/// A call that may be repeated is run again, as the same call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRetried {
    /// Which call.
    pub call: ToolNo,
    /// Which try, from 1.
    pub attempt: u32,
}

/// The tool was not called: the call came too late to be sent. Certain, and told to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolNotSent {
    /// Which call.
    pub call: ToolNo,
    /// Why not.
    pub why: NotSent,
}

/// What an effect reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settled {
    /// The tool answered.
    Receipt(ToolOutcome, String),
    /// A provider refused in a way that the next call would meet too, perhaps until a time.
    Refused(Rejection, Option<Instant>, String),
    /// The task died without a word.
    Lost,
    /// It may have taken effect, and this is why nobody knows.
    Unknown(UnknownReason),
    /// Nothing left.
    NotSent(NotSent),
}

/// What the model is told of a lost outcome.
pub const UNKNOWN_RESULT: &str = r#"{"status":"unknown","error":"outcome_unknown","hint":"outcome unknown: the call may or may not have taken effect; verify first, do not simply repeat it"}"#;

/// What the model is told of a call that was not sent.
pub const NOT_SENT_RESULT: &str = r#"{"status":"error","error":"not_sent","hint":"the call was NOT executed: it could not be sent in time and nothing of it left; call again if it is still wanted"}"#;

/// What the model is told of an outcome that somebody has given up.
pub const ABANDONED_RESULT: &str = r#"{"status":"abandoned","error":"outcome_unknown","hint":"nobody knows whether the call took effect, and it was given up without being repeated; verify first"}"#;

/// Where one call stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It is not intended yet.
    Waiting,
    /// Somebody has to agree first.
    Held(ApprovalNo),
    /// Intended; this try may be running.
    Open {
        /// Which try, from 0.
        attempt: u32,
    },
    /// The model will be told this.
    Settled(String),
}

/// One call of the current step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its number, once it is intended.
    pub call: Option<ToolNo>,
    /// Its place in the model's answer.
    pub index: u32,
    /// The provider's id.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// Who runs it.
    pub verdict: Verdict,
    /// Where it stands.
    pub standing: Standing,
}

impl Call {
    /// Whether its outcome is still awaited.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Open { .. })
    }

    /// Whether the model can not be told of it yet.
    #[must_use]
    pub const fn is_unsettled(&self) -> bool {
        !matches!(self.standing, Standing::Settled(_))
    }

    /// Its terms; nobody runs a call that has none.
    #[must_use]
    pub fn terms(&self) -> Option<&Terms> {
        match &self.verdict {
            Verdict::Server(terms) => Some(terms),
            Verdict::Client | Verdict::Refused(_) => None,
        }
    }
}

/// The correlation id of a call: the same for every try, so that the world can tell a repeat.
#[must_use]
pub fn correlation(run: u128, call: ToolNo) -> u128 {
    digest(&[b"piton/tool", &run.to_le_bytes(), &call.0.to_le_bytes()])
}

/// The try of a call that is under way, with its terms.
pub(super) fn under_way(state: &State, call: ToolNo) -> Option<(u32, &Terms)> {
    let of_step = state.tools.iter().find(|one| one.call == Some(call));
    if let Some(one) = of_step {
        let Standing::Open { attempt } = one.standing else { return None };
        return Some((attempt, one.terms()?));
    }
    let outside = state.invocations.iter().find(|one| one.call == call && !one.is_models)?;
    (outside.disposition == Disposition::Pending).then_some((0, &outside.terms))
}

pub(super) fn settled(
    state: &State,
    call: ToolNo,
    attempt: u32,
    outcome: &Settled,
    now: Instant,
) -> Result<Vec<Event>, Refusal> {
    if call >= state.next_tool {
        return Err(Refusal::NoSuchTool(call));
    }
    let Some((_, terms)) = under_way(state, call).filter(|(open, _)| *open == attempt) else {
        return Ok(vec![]);
    };
    let receipt = |outcome, content: &str| {
        Event::ToolReceipt(ToolReceipt { call, outcome, content: content.to_owned() })
    };
    let events = match outcome {
        Settled::Receipt(ToolOutcome::Failed, content) if terms.mediated.is_some() => {
            vec![receipt(ToolOutcome::Rejected(Rejection::Other), content)]
        }
        Settled::Receipt(outcome, content) => vec![receipt(*outcome, content)],
        Settled::Refused(_, _, content) if terms.mediated.is_none() => {
            vec![receipt(ToolOutcome::Failed, content)]
        }
        Settled::Refused(class, until, content) => {
            let paused = Event::Paused(Paused { class: *class, until: *until });
            let receipt = receipt(ToolOutcome::Rejected(*class), content);
            std::iter::once(receipt).chain(class.pauses().then_some(paused)).collect()
        }
        Settled::Lost => vec![lost(state, terms, (call, attempt), UnknownReason::Interrupted)],
        Settled::Unknown(reason) => vec![lost(state, terms, (call, attempt), *reason)],
        Settled::NotSent(why) => vec![Event::ToolNotSent(ToolNotSent { call, why: *why })],
    };
    Ok(step::and_then(state, events, |after| course::go_on(after, now)))
}

fn lost(
    state: &State,
    terms: &Terms,
    (call, attempt): (ToolNo, u32),
    reason: UnknownReason,
) -> Event {
    match terms.class {
        ReplayClass::ReadOnly | ReplayClass::Idempotent
            if terms.mediated.is_none() && attempt + 1 < TRIES_MAX =>
        {
            Event::ToolRetried(ToolRetried { call, attempt: attempt + 1 })
        }
        ReplayClass::ReadOnly | ReplayClass::Idempotent | ReplayClass::Effectful => {
            unknown(state, call, reason)
        }
    }
}

/// The calls that are under way.
pub(super) fn open(state: &State) -> impl Iterator<Item = ToolNo> {
    let of_step = state.tools.iter().filter(|one| one.is_open()).filter_map(|one| one.call);
    let outside = state
        .invocations
        .iter()
        .filter(|one| !one.is_models && one.disposition == Disposition::Pending);
    of_step.chain(outside.map(|one| one.call))
}

/// What a new host says of each open call: run again under a new try, or unknown.
pub(super) fn awake(state: &State) -> Vec<Event> {
    let one = |call| {
        let (attempt, terms) = under_way(state, call)?;
        Some(lost(state, terms, (call, attempt), UnknownReason::Interrupted))
    };
    open(state).filter_map(one).collect()
}

pub(super) fn give_up(state: &State) -> Vec<Event> {
    open(state).map(|call| unknown(state, call, UnknownReason::Stopped)).collect()
}

fn unknown(state: &State, call: ToolNo, reason: UnknownReason) -> Event {
    let invocation = state.invocations.iter().find(|one| one.call == call);
    let lease_until = invocation.map(|one| one.admission.lease_until);
    Event::ToolUnknown(ToolUnknown { call, reason, lease_until })
}

pub(super) fn on_asked(state: &mut State, event: &ToolAsked) -> Option<()> {
    if event.call != state.next_tool || !owed::at_work(state) {
        return None;
    }
    mediated::on_admitted(state, event)?;
    state.next_tool = ToolNo(state.next_tool.0.checked_add(1)?);
    let Some(index) = event.index else { return Some(()) };
    let call = waiting_at(state, index)?;
    call.call = Some(event.call);
    call.verdict = Verdict::Server(Box::new(event.terms.clone()));
    call.standing = Standing::Open { attempt: 0 };
    Some(())
}

fn waiting_at(state: &mut State, index: u32) -> Option<&mut Call> {
    let waits = |one: &&mut Call| one.index == index && one.standing == Standing::Waiting;
    state.tools.iter_mut().find(waits)
}

pub(super) fn on_refused(state: &mut State, event: &ToolRefused) -> Option<()> {
    waiting_at(state, event.index)?.standing = Standing::Settled(event.content.clone());
    Some(())
}

pub(super) fn on_repeated(state: &mut State, event: &ToolRepeated) -> Option<()> {
    waiting_at(state, event.index)?.standing = Standing::Settled(event.content.clone());
    Some(())
}

fn settle(state: &mut State, call: ToolNo, content: &str, disposition: Disposition) -> Option<()> {
    under_way(state, call)?;
    mediated::on_settled(state, call, disposition)?;
    if let Some(open) = state.tools.iter_mut().find(|one| one.call == Some(call)) {
        open.standing = Standing::Settled(content.to_owned());
    }
    Some(())
}

pub(super) fn on_receipt(state: &mut State, event: &ToolReceipt) -> Option<()> {
    let content = event.content.clone();
    let disposition = match event.outcome {
        ToolOutcome::Succeeded => Disposition::Succeeded(content),
        ToolOutcome::Failed => Disposition::Rejected { class: Rejection::Other, content },
        ToolOutcome::Rejected(class) => Disposition::Rejected { class, content },
    };
    let of_step = state.tools.iter().find(|one| one.call == Some(event.call));
    let asked = of_step.map(|one| (one.name.clone(), one.arguments.clone()));
    settle(state, event.call, &event.content, disposition)?;
    if let Some((name, arguments)) = asked {
        state.done.settled(&name, &arguments, event.outcome, &event.content);
        if event.outcome == ToolOutcome::Succeeded {
            offer::on_success(state, &name, &event.content);
        }
    }
    Some(())
}

pub(super) fn on_unknown(state: &mut State, event: &ToolUnknown) -> Option<()> {
    state.tools_unknown = state.tools_unknown.saturating_add(1);
    settle(state, event.call, UNKNOWN_RESULT, Disposition::Unknown(event.reason))
}

pub(super) fn on_not_sent(state: &mut State, event: &ToolNotSent) -> Option<()> {
    let content = NOT_SENT_RESULT.to_owned();
    let disposition = Disposition::Rejected { class: Rejection::Other, content };
    settle(state, event.call, NOT_SENT_RESULT, disposition)
}

pub(super) fn on_retried(state: &mut State, event: &ToolRetried) -> Option<()> {
    let open = state.tools.iter_mut().find(|one| one.call == Some(event.call))?;
    match open.standing {
        Standing::Open { attempt } if attempt.checked_add(1) == Some(event.attempt) => {
            open.standing = Standing::Open { attempt: event.attempt };
            Some(())
        }
        Standing::Waiting | Standing::Held(_) | Standing::Open { .. } | Standing::Settled(_) => {
            None
        }
    }
}

/// The model is told of an outcome that was given up what it is: no success, and no reason to repeat.
pub(super) fn on_reconciled(state: &mut State, event: &mediated::ToolReconciled) -> Option<()> {
    mediated::on_reconciled(state, event)?;
    if let Some(told) = state.tools.iter_mut().find(|one| one.call == Some(event.call)) {
        told.standing = Standing::Settled(ABANDONED_RESULT.to_owned());
    }
    Some(())
}

/// What the model is told of the step's calls, in its own order; complete when none is unsettled.
pub(super) fn results(state: &State) -> Vec<Body> {
    let mut done: Vec<_> = state.tools.iter().collect();
    done.sort_by_key(|one| one.index);
    let content = |one: &Call| match &one.standing {
        Standing::Settled(content) => Some(Message::tool_result_body(&one.id, content)),
        Standing::Waiting | Standing::Held(_) | Standing::Open { .. } => None,
    };
    done.into_iter().filter_map(content).collect()
}
