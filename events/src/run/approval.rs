//! Calls that wait for somebody to agree. A hold is a state of the run: it is answered after a restart, through any node,
//! once; what it lets run is intended in the same commit. Nobody's answer is a no.

use super::ledger::{self, Standing};
use super::life::Life;
use super::terms::{Consent, Terms};
use super::{Event, Refusal, State, course, step};
use crate::grant::Pattern;
use crate::id::digest256;
use crate::json::Json;
use crate::quantity::Instant;
use crate::record::{Actor, Hash};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Numbers the holds of a run, from 0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ApprovalNo(pub u32);

/// Answered holds that a run still knows; an answer to an older one is refused.
const KEPT_MAX: usize = 128;

/// Somebody is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAsked {
    /// Which hold.
    pub approval: ApprovalNo,
    /// The call's place in the model's answer.
    pub index: u32,
    /// The model-facing name.
    pub name: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// Names the tool with its arguments; an answer is bound to it.
    pub subject: Hash,
    /// Without an answer it is denied then.
    pub until: Instant,
}

/// What came of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalResolved {
    /// Which hold.
    pub approval: ApprovalNo,
    /// What.
    pub resolution: Resolution,
    /// Who answered; nobody where a time passed or the run ended.
    pub by: Option<Actor>,
}

/// How a hold ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resolution {
    /// The call may run.
    Approved {
        /// With these arguments instead, checked again.
        edited: Option<Box<Edited>>,
        /// What else is agreed to.
        reach: Reach,
    },
    /// It may not.
    Denied {
        /// Why, in the approver's words; the model is told.
        reason: String,
    },
    /// Nobody answered in time.
    Expired,
    /// The run ended first.
    Voided,
    /// It could not run any more.
    Orphaned {
        /// Why.
        reason: String,
    },
}

impl Resolution {
    /// The word for people and wires.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Approved { .. } => "approved",
            Self::Denied { .. } => "denied",
            Self::Expired => "expired",
            Self::Voided => "voided",
            Self::Orphaned { .. } => "orphaned",
        }
    }
}

/// Other arguments than the model's, judged again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edited {
    /// Canonical arguments.
    pub arguments: Json,
    /// What was found about them.
    pub terms: Terms,
}

/// How far an approval reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// This call.
    Call,
    /// Calls of this tool in this run whose arguments fit.
    Run(Pattern),
    /// Beyond the run, by the standing grant that was made for it.
    Standing(String),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What the approver saw; `None` when it does not say.
    pub subject: Option<Hash>,
    /// Approved, denied or orphaned.
    pub resolution: Resolution,
    /// Who answers.
    pub by: Actor,
}

/// One hold of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// What was asked.
    pub asked: ApprovalAsked,
    /// What came of it.
    pub resolved: Option<ApprovalResolved>,
}

/// Names a tool with its arguments.
#[must_use]
pub fn subject(name: &str, arguments: &Json) -> Hash {
    Hash(digest256(&[b"piton/approval", name.as_bytes(), arguments.as_bytes()]))
}

/// The holds that nobody has answered.
pub fn open(state: &State) -> impl Iterator<Item = &ApprovalAsked> {
    state.approvals.iter().filter(|one| one.resolved.is_none()).map(|one| &one.asked)
}

/// The approval of this run that covers a call.
pub(super) fn covers(state: &State, name: &str, arguments: &Json) -> Option<ApprovalNo> {
    let covering = |one: &&Approval| match one.resolved.as_ref().map(|done| &done.resolution) {
        Some(Resolution::Approved { reach: Reach::Run(pattern), .. }) => {
            one.asked.name == name && pattern.matches(arguments)
        }
        Some(_) | None => false,
    };
    state.approvals.iter().rev().find(covering).map(|one| one.asked.approval)
}

pub(super) fn ask(state: &State, call: &ledger::Call, now: Instant) -> Option<Event> {
    let wait = state.spec.as_ref()?.limits.approval_wait;
    Some(Event::ApprovalAsked(ApprovalAsked {
        approval: state.next_approval,
        index: call.index,
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        subject: subject(&call.name, &call.arguments),
        until: now.after(wait),
    }))
}

pub(super) fn answer(
    state: &State,
    approval: ApprovalNo,
    answer: &Answer,
    now: Instant,
) -> Result<Vec<Event>, Refusal> {
    let found = state.approvals.iter().find(|one| one.asked.approval == approval);
    let Some(held) = found else {
        return Err(if approval < state.next_approval {
            Refusal::AnsweredBefore("long ago".to_owned())
        } else {
            Refusal::NoSuchApproval(approval)
        });
    };
    match &held.resolved {
        Some(done) if done.resolution == answer.resolution => return Ok(vec![]),
        Some(done) if done.resolution == Resolution::Voided => return Err(Refusal::NotWaiting),
        Some(done) => return Err(Refusal::AnsweredBefore(done.resolution.word().to_owned())),
        None => {}
    }
    if matches!(answer.resolution, Resolution::Expired | Resolution::Voided) {
        return Err(Refusal::NoAnswer);
    }
    if answer.subject.is_some_and(|seen| seen != held.asked.subject) {
        return Err(Refusal::OtherSubject);
    }
    let (resolution, by) = (answer.resolution.clone(), Some(answer.by));
    let event = Event::ApprovalResolved(ApprovalResolved { approval, resolution, by });
    Ok(step::and_then(state, vec![event], |after| course::go_on(after, now)))
}

/// When the next hold is denied.
pub(super) fn wake(state: &State) -> Option<Instant> {
    open(state).map(|asked| asked.until).min()
}

pub(super) fn due(state: &State, now: Instant) -> Vec<Event> {
    let late = open(state).filter(|asked| asked.until <= now);
    let expired: Vec<Event> = late.map(|asked| closed(asked, Resolution::Expired)).collect();
    if expired.is_empty() {
        return expired;
    }
    step::and_then(state, expired, |after| course::go_on(after, now))
}

/// Nobody is asked any more.
pub(super) fn give_up(state: &State) -> Vec<Event> {
    open(state).map(|asked| closed(asked, Resolution::Voided)).collect()
}

const fn closed(asked: &ApprovalAsked, resolution: Resolution) -> Event {
    Event::ApprovalResolved(ApprovalResolved { approval: asked.approval, resolution, by: None })
}

pub(super) fn on_asked(state: &mut State, event: &ApprovalAsked) -> Option<()> {
    if event.approval != state.next_approval || state.life != Life::Running {
        return None;
    }
    let call = state.tools.iter_mut().find(|one| one.index == event.index)?;
    if call.standing != Standing::Waiting {
        return None;
    }
    call.standing = Standing::Held(event.approval);
    state.next_approval = ApprovalNo(event.approval.0.checked_add(1)?);
    state.approvals.push(Approval { asked: event.clone(), resolved: None });
    let is_spent = |one: &Approval| match one.resolved.as_ref().map(|done| &done.resolution) {
        Some(Resolution::Approved { reach: Reach::Run(_), .. }) | None => false,
        Some(_) => true,
    };
    if state.approvals.len() > KEPT_MAX
        && let Some(oldest) = state.approvals.iter().position(is_spent)
    {
        state.approvals.remove(oldest);
    }
    Some(())
}

pub(super) fn on_resolved(state: &mut State, event: &ApprovalResolved) -> Option<()> {
    let held = state.approvals.iter_mut().find(|one| one.asked.approval == event.approval)?;
    if held.resolved.is_some() {
        return None;
    }
    held.resolved = Some(event.clone());
    let waits = |one: &&mut ledger::Call| one.standing == Standing::Held(event.approval);
    let call = state.tools.iter_mut().find(waits)?;
    match &event.resolution {
        Resolution::Approved { edited, .. } => {
            call.standing = Standing::Waiting;
            if let Some(edited) = edited {
                call.arguments = edited.arguments.clone();
                call.verdict = ledger::Verdict::Server(Box::new(edited.terms.clone()));
            }
            if let ledger::Verdict::Server(terms) = &mut call.verdict {
                terms.consent = Consent::Approved(event.approval);
            }
        }
        Resolution::Denied { reason } => {
            call.standing = Standing::Settled(refused("approval_denied", reason));
        }
        Resolution::Expired => {
            let why = "nobody answered in time";
            call.standing = Standing::Settled(refused("approval_expired", why));
        }
        Resolution::Voided => {
            call.standing = Standing::Settled(refused("approval_voided", "the run ended"));
        }
        Resolution::Orphaned { reason } => {
            call.standing = Standing::Settled(refused("approval_orphaned", reason));
        }
    }
    Some(())
}

/// What the model is told of a call that was not agreed to.
fn refused(error: &str, message: &str) -> String {
    json!({
        "status": "error",
        "error": error,
        "message": message,
        "hint": "the call was NOT executed; do not repeat it unchanged",
    })
    .to_string()
}
