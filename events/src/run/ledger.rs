//! The tool calls of a run. A call is intended before it starts and settled after; what a restart finds between the
//! two is handled by its replay class, and an effectful one is never run a second time.

use super::spec::ReplayClass;
use super::{Event, Refusal, State, step};
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
    /// This node, by this class.
    Server(ReplayClass),
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
    /// Its place in the model's answer.
    pub index: u32,
    /// The provider's id of the call.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// What a restart may do.
    pub class: ReplayClass,
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

/// Whether a tool did its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolOutcome {
    /// It did.
    Succeeded,
    /// It says that it did not.
    Failed,
}

impl ToolOutcome {
    /// The word for people and wires.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
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
    /// The task died without a word.
    Lost,
    /// Nothing left.
    NotSent(NotSent),
}

/// What the model is told of a lost outcome.
pub const UNKNOWN_RESULT: &str = r#"{"status":"unknown","error":"outcome_unknown","hint":"outcome unknown: the call may or may not have taken effect; verify first, do not simply repeat it"}"#;

/// What the model is told of a call that was not sent.
pub const NOT_SENT_RESULT: &str = r#"{"status":"error","error":"not_sent","hint":"the call was NOT executed: it could not be sent in time and nothing of it left; call again if it is still wanted"}"#;

/// Where one call stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
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
    /// Its number; `None` for a refused one, which was never intended.
    pub call: Option<ToolNo>,
    /// Its place in the model's answer.
    pub index: u32,
    /// The provider's id.
    pub id: String,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// What a restart may do.
    pub class: ReplayClass,
    /// Where it stands.
    pub standing: Standing,
}

impl Call {
    /// Whether its outcome is still awaited.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Open { .. })
    }
}

/// The correlation id of a call: the same for every try, so that the world can tell a repeat.
#[must_use]
pub fn correlation(run: u128, call: ToolNo) -> u128 {
    digest(&[b"piton/tool", &run.to_le_bytes(), &call.0.to_le_bytes()])
}

pub(super) fn intend(state: &State, asks: &[Ask]) -> Vec<Event> {
    let mut next = state.next_tool.0;
    let most = state.spec.as_ref().map_or(0, |spec| spec.limits.calls_per_step_max);
    let mut events = vec![];
    for (index, ask) in (0_u32..).zip(asks) {
        let (id, name) = (ask.id.clone(), ask.name.clone());
        match &ask.verdict {
            Verdict::Server(_) if index >= most => {
                let content = format!(
                    "{{\"status\":\"error\",\"error\":\"too_many_calls\",\"hint\":\"at most {most} calls of one answer run; this one was NOT executed\"}}"
                );
                events.push(Event::ToolRefused(ToolRefused { index, id, name, content }));
            }
            Verdict::Server(class) => {
                let (call, arguments) = (ToolNo(next), ask.arguments.clone());
                events.push(Event::ToolAsked(ToolAsked {
                    call,
                    index,
                    id,
                    name,
                    arguments,
                    class: *class,
                }));
                next = next.saturating_add(1);
            }
            Verdict::Refused(content) => {
                events.push(Event::ToolRefused(ToolRefused {
                    index,
                    id,
                    name,
                    content: content.clone(),
                }));
            }
            Verdict::Client => {}
        }
    }
    events
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
    let Some(open) = state.tools.iter().find(|one| one.call == Some(call)) else {
        return Ok(vec![]);
    };
    if open.standing != (Standing::Open { attempt }) {
        return Ok(vec![]);
    }
    let event = match outcome {
        Settled::Receipt(outcome, content) => {
            Event::ToolReceipt(ToolReceipt { call, outcome: *outcome, content: content.clone() })
        }
        Settled::Lost => lost(open, call, attempt),
        Settled::NotSent(why) => Event::ToolNotSent(ToolNotSent { call, why: *why }),
    };
    Ok(step::and_then(state, vec![event], |after| step::advance_if_idle(after, now)))
}

fn lost(open: &Call, call: ToolNo, attempt: u32) -> Event {
    match open.class {
        ReplayClass::ReadOnly | ReplayClass::Idempotent if attempt + 1 < TRIES_MAX => {
            Event::ToolRetried(ToolRetried { call, attempt: attempt + 1 })
        }
        ReplayClass::ReadOnly | ReplayClass::Idempotent | ReplayClass::Effectful => {
            Event::ToolUnknown(ToolUnknown { call })
        }
    }
}

/// What a new host says of each open call: run again under a new try, or unknown.
pub(super) fn awake(state: &State) -> Vec<Event> {
    let open = |one: &Call| match (one.call, &one.standing) {
        (Some(call), Standing::Open { attempt }) => Some(lost(one, call, *attempt)),
        (None, _) | (Some(_), Standing::Settled(_)) => None,
    };
    state.tools.iter().filter_map(open).collect()
}

pub(super) fn give_up(state: &State) -> Vec<Event> {
    let open = state.tools.iter().filter(|one| one.is_open());
    open.filter_map(|one| one.call).map(|call| Event::ToolUnknown(ToolUnknown { call })).collect()
}

pub(super) fn on_asked(state: &mut State, event: &ToolAsked) -> Option<()> {
    if event.call != state.next_tool || !state.between_steps || state.step == 0 {
        return None;
    }
    state.next_tool = ToolNo(state.next_tool.0.checked_add(1)?);
    state.tools.push(Call {
        call: Some(event.call),
        index: event.index,
        id: event.id.clone(),
        name: event.name.clone(),
        arguments: event.arguments.clone(),
        class: event.class,
        standing: Standing::Open { attempt: 0 },
    });
    Some(())
}

pub(super) fn on_refused(state: &mut State, event: &ToolRefused) -> Option<()> {
    if !state.between_steps || state.step == 0 {
        return None;
    }
    state.tools.push(Call {
        call: None,
        index: event.index,
        id: event.id.clone(),
        name: event.name.clone(),
        arguments: Json::default(),
        class: ReplayClass::ReadOnly,
        standing: Standing::Settled(event.content.clone()),
    });
    Some(())
}

fn settle(state: &mut State, call: ToolNo, content: &str) -> Option<()> {
    let open = state.tools.iter_mut().find(|one| one.call == Some(call) && one.is_open())?;
    open.standing = Standing::Settled(content.to_owned());
    Some(())
}

pub(super) fn on_receipt(state: &mut State, event: &ToolReceipt) -> Option<()> {
    settle(state, event.call, &event.content)
}

pub(super) fn on_unknown(state: &mut State, event: &ToolUnknown) -> Option<()> {
    state.tools_unknown = state.tools_unknown.saturating_add(1);
    settle(state, event.call, UNKNOWN_RESULT)
}

pub(super) fn on_not_sent(state: &mut State, event: &ToolNotSent) -> Option<()> {
    settle(state, event.call, NOT_SENT_RESULT)
}

pub(super) fn on_retried(state: &mut State, event: &ToolRetried) -> Option<()> {
    let open = state.tools.iter_mut().find(|one| one.call == Some(event.call))?;
    match open.standing {
        Standing::Open { attempt } if attempt.checked_add(1) == Some(event.attempt) => {
            open.standing = Standing::Open { attempt: event.attempt };
            Some(())
        }
        Standing::Open { .. } | Standing::Settled(_) => None,
    }
}

/// What the model is told of the step's calls, in its own order; complete when none is open.
pub(super) fn results(state: &State) -> Vec<Body> {
    let mut done: Vec<_> = state.tools.iter().collect();
    done.sort_by_key(|one| one.index);
    let content = |one: &Call| match &one.standing {
        Standing::Settled(content) => Some(Message::tool_result_body(&one.id, content)),
        Standing::Open { .. } => None,
    };
    done.into_iter().filter_map(content).collect()
}
