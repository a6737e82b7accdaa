//! What may be asked of a run, and why it is refused.

use super::approval::{self, ApprovalNo};
use super::draw;
use super::halt::Halt;
use super::ledger::{self, ToolNo};
use super::life::{Fence, MessageRef};
use super::mediated;
use super::spec::Spec;
use super::step::{self, CallNo};
use super::unsent::Flight;
use crate::budget::Scope;
use crate::id::SessionId;
use crate::message::Body;
use crate::quantity::Instant;
use crate::record::Actor;
use crate::tool_policy::Field;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The session's word that the run may begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The lock.
    pub fence: Fence,
    /// What was said before.
    pub history: Vec<MessageRef>,
    /// The provider that last served the session's generator.
    pub generated_by: Option<String>,
}

/// What may be asked of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Exist, and begin if nothing stands in the way.
    Open {
        /// The frozen request.
        spec: Arc<Spec>,
        /// The conversation; `None` for a run that stands alone.
        session: Option<SessionId>,
        /// The session's word; without it a run of a session only waits.
        grant: Option<Grant>,
    },
    /// What came of a model call.
    Model {
        /// Which wire call.
        call: CallNo,
        /// What came of it.
        outcome: step::Settled,
    },
    /// What came of a tool call.
    Tool {
        /// Which call.
        call: ToolNo,
        /// Which try.
        attempt: u32,
        /// What came of it.
        outcome: ledger::Settled,
    },
    /// Run a tool in the run's name, through the broker.
    Invoke(Box<mediated::Invoke>),
    /// Give up an invocation whose outcome is unknown.
    Abandon {
        /// Which call.
        call: ToolNo,
        /// 32 lowercase hexadecimal digits that name the decision.
        request: String,
        /// Who decides.
        by: Actor,
    },
    /// Go on after a halt.
    Resume {
        /// Who says so.
        by: Actor,
    },
    /// Somebody answers a hold.
    Approval {
        /// Which one.
        approval: ApprovalNo,
        /// What.
        answer: Box<approval::Answer>,
    },
    /// The caller's own tools were run.
    ClientAnswer {
        /// Tool messages.
        results: Vec<Body>,
    },
    /// The caller goes on without answering.
    ClientGone,
    /// What came of a question to a budget.
    Slice {
        /// Which question.
        ask: draw::SliceNo,
        /// What came of it.
        outcome: draw::Settled,
    },
    /// A budget has taken its slice back.
    Returned {
        /// Which budget.
        scope: Scope,
    },
    /// End now.
    Stop {
        /// What is known of the call in flight. Its owner's node knows, whoever asks.
        seen: Flight,
    },
    /// End now, and give the answer out no more.
    Withhold {
        /// The same.
        seen: Flight,
    },
    /// Look whether a time has come.
    Due,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The stream is empty.
    #[error("there is no such run")]
    NoSuchRun,
    /// It waits for its session.
    #[error("the run waits for its session and has not begun")]
    NotStarted,
    /// It is over.
    #[error("the run has ended")]
    Ended,
    /// The same id with another request.
    #[error("the run was asked something else before under this id")]
    OtherInput,
    /// No such model call.
    #[error("model call {0:?} was never asked")]
    NoSuchCall(CallNo),
    /// No such tool call.
    #[error("tool call {0:?} was never asked")]
    NoSuchTool(ToolNo),
    /// No such question.
    #[error("question {0:?} was never asked of a budget")]
    NoSuchSlice(draw::SliceNo),
    /// It waits for nothing of the caller's.
    #[error("the run waits for no tool of the caller")]
    NothingHeld,
    /// There is no such hold.
    #[error("the run holds no call under approval {}", .0.0)]
    NoSuchApproval(ApprovalNo),
    /// Another answer came first.
    #[error("it was answered before: {0}")]
    AnsweredBefore(String),
    /// The run ended while it was held.
    #[error("the run has ended and waits for no answer")]
    NotWaiting,
    /// What was seen is not what is asked.
    #[error("the answer is bound to another call: look at it again")]
    OtherSubject,
    /// Only a time or an end gives such an answer.
    #[error("an answer approves or denies")]
    NoAnswer,
    /// An outcome is unknown.
    #[error("the outcome of tool call {} is unknown: abandon it, then resume the run", .0.0)]
    Unresolved(ToolNo),
    /// It stands still.
    #[error("the run is halted: {}", .0.word())]
    Halted(Halt),
    /// It does not.
    #[error("the run is not halted")]
    NotHalted,
    /// One at a time.
    #[error("an invocation is under way: one at a time runs in a run")]
    UnderWay,
    /// The budget is used up.
    #[error("the run's {which} of {limit} is used up")]
    ToolBudget {
        /// Of how many.
        limit: u32,
        /// Which limit.
        which: Field,
    },
    /// The same id with another input.
    #[error("this correlation id was used for another input: take a new one")]
    OtherInvocation,
    /// The tool does not go through the broker.
    #[error("{0} is no tool that goes through the broker")]
    NotMediated(String),
    /// Nobody is there to ask.
    #[error("{0} needs an approval: grant it first")]
    ConsentNeeded(String),
    /// A decision's id is none.
    #[error("a request id has 32 lowercase hexadecimal digits")]
    NotARequestId,
    /// It decided something else.
    #[error("this request id was used for tool call {}", .0.0)]
    RequestIdUsed(ToolNo),
    /// It may still be running.
    #[error("the invocation may still be running: it can be given up once its lease has ended")]
    Leased(Instant),
    /// Nothing is unknown of it.
    #[error("the invocation is settled: {0}")]
    Settled(String),
    /// A call stays without a result.
    #[error("tool call {0} has no result: send one tool message for each call")]
    ResultMissing(String),
    /// A result for a call that was not made.
    #[error("tool call {0} was not asked for")]
    ResultStray(String),
}
