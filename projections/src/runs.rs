//! One row a run: where it stands, who served it, what it used. Depends on the run's own stream only.
//!
//! A list says where its rows stand in the log and may be behind; whoever must know asks the run's owner.

mod rows;

pub use rows::{Page, Query};
pub(crate) use rows::{fold, list, one};

use crate::calls::{Calls, Served, Settled};
use crate::column::words;
use events::aggregate::IllegalEvent;
use events::id::{RunId, SessionId};
use events::quantity::Instant;
use events::record::{Actor, Position};
use events::run::Event;
use events::run::life::{self, Outcome, Reason};
use events::run::spec::Plane;
use events::usage::Total;

/// The number of this fold: raised by every change of what it makes of a fact.
pub const CODE: u32 = 2;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// For people.
    pub detail: String,
    /// When.
    pub at: Instant,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It waits for its session.
    Queued,
    /// It is at work.
    Running,
    /// Its caller runs tools of its own.
    WaitingForClient {
        /// And must be back by then.
        until: Instant,
    },
    /// Somebody has to agree to a call.
    WaitingForApproval {
        /// It is denied then.
        until: Instant,
    },
    /// The next call waits for a time, or for somebody: a provider refused the one before.
    Paused {
        /// It goes on by itself then; `None` when somebody has to say so.
        until: Option<Instant>,
    },
    /// The outcome of an invocation is unknown, or was until somebody gave it up.
    NeedsReconciliation,
    /// It is over.
    Ended(End),
}

/// A [`Phase`] without what it carries, to filter by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It waits for its session.
    Queued,
    /// It is at work.
    Running,
    /// Its caller runs tools of its own.
    WaitingForClient,
    /// Somebody has to agree to a call.
    WaitingForApproval,
    /// The next call waits for a time, or for somebody.
    Paused,
    /// The outcome of an invocation is unknown.
    NeedsReconciliation,
    /// It is over.
    Ended,
}

words!(Standing {
    Queued = "queued",
    Running = "running",
    WaitingForClient = "waiting_for_client",
    WaitingForApproval = "waiting_for_approval",
    Paused = "paused",
    NeedsReconciliation = "needs_reconciliation",
    Ended = "ended",
});

impl Phase {
    /// Which one it is.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        match self {
            Self::Queued => Standing::Queued,
            Self::Running => Standing::Running,
            Self::WaitingForClient { .. } => Standing::WaitingForClient,
            Self::WaitingForApproval { .. } => Standing::WaitingForApproval,
            Self::Paused { .. } => Standing::Paused,
            Self::NeedsReconciliation => Standing::NeedsReconciliation,
            Self::Ended(_) => Standing::Ended,
        }
    }
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::WaitingForClient,
        Self::WaitingForApproval,
        Self::Paused,
        Self::NeedsReconciliation,
        Self::Ended,
    ];

    /// The word in filters.
    #[must_use]
    pub fn word(self) -> &'static str {
        crate::column::Word::word(self)
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which one.
    pub id: RunId,
    /// Its conversation; `None` for one that stands alone.
    pub session: Option<SessionId>,
    /// Its project.
    pub project: String,
    /// Who asked.
    pub caller: Actor,
    /// Through which door.
    pub plane: Plane,
    /// Where it stands.
    pub phase: Phase,
    /// The first of its route; `None` for a route of nobody.
    pub primary: Option<Served>,
    /// Who gave the newest answer.
    pub served: Option<Served>,
    /// When it was queued; runs are listed in this order.
    pub created: Instant,
    /// When it began.
    pub started: Option<Instant>,
    /// Steps that were begun.
    pub steps: u32,
    /// Wire calls that were asked, the one in flight included.
    pub model_calls: u32,
    /// Tool calls that were intended.
    pub tools_asked: u32,
    /// Those whose outcome was lost.
    pub tools_unknown: u32,
    /// What its settled calls used and cost.
    pub total: Total,
    /// Its first commit.
    pub opened: Position,
    /// Its newest commit.
    pub last: Position,
}

/// A row and what the next fact of its run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    row: Row,
    calls: Calls,
}

/// When and where a fact was recorded.
#[derive(Debug, Clone, Copy)]
struct When {
    at: Instant,
    position: Position,
}

fn opened(id: RunId, event: &life::Queued, when: When) -> Kept {
    let spec = &event.spec;
    let calls = Calls::new(spec);
    let row = Row {
        id,
        session: event.session,
        project: spec.project.clone(),
        caller: spec.caller,
        plane: spec.plane,
        phase: Phase::Queued,
        primary: calls.primary().cloned(),
        served: None,
        created: when.at,
        started: None,
        steps: 0,
        model_calls: 0,
        tools_asked: 0,
        tools_unknown: 0,
        total: Total::default(),
        opened: when.position,
        last: when.position,
    };
    Kept { row, calls }
}

/// One fact more. Total over the facts of a run; knows only what it rests on, for the run's own rules have been kept.
fn evolve(
    before: Option<Kept>,
    id: RunId,
    event: &Event,
    when: When,
) -> Result<Kept, IllegalEvent> {
    let word = before.as_ref().map_or("nothing", |kept| kept.row.phase.standing().word());
    let illegal =
        || IllegalEvent { event: event.name().to_owned(), before: format!("a run: {word}") };
    let mut kept = match (before, event) {
        (None, Event::Queued(queued)) => return Ok(opened(id, queued, when)),
        (Some(kept), _) if kept.row.phase.standing() != Standing::Ended => kept,
        // What it did not use of its budgets goes back after its end, its answer may be withheld, and what was unknown
        // settled.
        (Some(kept), Event::SliceReturned(_) | Event::Withheld(_) | Event::ToolReconciled(_)) => {
            kept
        }
        (None | Some(_), _) => return Err(illegal()),
    };
    apply(&mut kept, event, when).ok_or_else(illegal)?;
    kept.row.last = when.position;
    Ok(kept)
}

fn apply(kept: &mut Kept, event: &Event, when: When) -> Option<()> {
    let Kept { row, calls } = kept;
    match event {
        Event::Queued(_) => return None,
        Event::Started(_) => {
            row.started = Some(when.at);
            row.phase = Phase::Running;
        }
        Event::ModelAsked(asked) => {
            calls.asked(asked)?;
            row.phase = Phase::Running;
            row.steps = asked.step;
            row.model_calls = row.model_calls.saturating_add(1);
        }
        Event::ModelAnswered(answered) => {
            let (served, settled) = calls.answered(answered)?;
            row.served = Some(served);
            settled.count(&mut row.total);
        }
        Event::ModelFailed(failed) => count(row, &calls.failed(failed)?),
        Event::ModelUnknown(unknown) => count(row, &calls.unknown(unknown)?),
        Event::ModelNotSent(unsent) => {
            calls.not_sent(unsent)?;
            row.model_calls = row.model_calls.saturating_sub(1);
        }
        Event::ModelDelayed(delayed) => row.phase = Phase::Paused { until: Some(delayed.until) },
        Event::ToolAsked(_) => row.tools_asked = row.tools_asked.saturating_add(1),
        Event::ToolUnknown(unknown) => {
            row.tools_unknown = row.tools_unknown.saturating_add(1);
            if unknown.lease_until.is_some() {
                row.phase = Phase::NeedsReconciliation;
            }
        }
        Event::Paused(paused) => row.phase = Phase::Paused { until: paused.until },
        Event::ApprovalAsked(asked) => {
            row.phase = Phase::WaitingForApproval { until: asked.until };
        }
        // An outcome that is unknown outlasts an answer.
        Event::ApprovalResolved(_) if row.phase.standing() != Standing::WaitingForApproval => {}
        Event::ApprovalResolved(_) | Event::Resumed(_) => row.phase = Phase::Running,
        Event::ToolRefused(_)
        | Event::ToolReceipt(_)
        | Event::ToolRetried(_)
        | Event::SpendCrossed(_)
        | Event::ToolNotSent(_)
        | Event::ToolReconciled(_)
        | Event::ToolsChosen(_)
        | Event::ToolRepeated(_)
        | Event::SliceAsked(_)
        | Event::SliceGranted(_)
        | Event::SliceRefused(_)
        | Event::SliceReturned(_)
        | Event::Withheld(_) => {}
        Event::ClientAsked(asked) => row.phase = Phase::WaitingForClient { until: asked.until },
        Event::ClientAnswered(_) | Event::ClientGone(_) => row.phase = Phase::Running,
        Event::Finished(finished) => {
            row.phase = Phase::Ended(End {
                outcome: finished.outcome,
                reason: finished.reason.clone(),
                detail: finished.detail.clone(),
                at: when.at,
            });
        }
    }
    Some(())
}

fn count(row: &mut Row, (_, settled): &(Served, Settled)) {
    settled.count(&mut row.total);
}

#[cfg(test)]
mod tests;
