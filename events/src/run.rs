//! One run: a unit of agent work with one stream. Its parts are pure and folded from that stream: its [`life`], the
//! current [`step`] with its model call, the [`ledger`] of tool calls, what it [`draw`]s on, and what it is [`hold`]ing for.
//!
//! What a restart does with an open intent is [`Aggregate::awake`]; what happens next is [`Aggregate::pending`]: both
//! of folded state alone, so that the way after a crash and the way without one are the same code.

pub mod account;
mod admit;
pub mod approval;
pub mod choose;
pub mod chosen;
pub mod command;
mod course;
pub mod draw;
pub mod duplicate;
pub mod halt;
pub mod hold;
pub mod ledger;
pub mod life;
pub mod mediated;
mod offer;
pub mod owed;
mod recovery;
pub mod rejection;
pub mod replay;
pub mod served;
pub mod spec;
pub mod step;
pub mod terms;
pub mod tried;
pub mod unsent;
mod view;
pub mod withhold;

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::budget::{Scope, Short};
use crate::codec::CodecError;
use crate::id::{RunId, SessionId};
use crate::message::Body;
use crate::model_call::{Attempts, Class};
use crate::quantity::Instant;
use crate::record::{Entry, StreamKey, StreamKind};
use crate::usage::{Total, Usage};
use approval::ApprovalNo;
pub use command::{Command, Grant, Refusal};
use halt::Decider;
use hold::Held;
use ledger::ToolNo;
use life::{Fence, Life, MessageRef};
pub use owed::{AskModel, Effect, EffectId, RunTool};
use serde::{Deserialize, Serialize};
use served::ServedBy;
use spec::{Plane, Spec};
use std::collections::BTreeMap;
use std::sync::Arc;
use step::{CallNo, OpenCall};

crate::events! {
    /// What can have happened to a run.
    pub enum Event {
        /// It exists.
        Queued(life::Queued) = 200 / 1 "queued";
        /// It began.
        Started(life::Started) = 201 / 1 "started";
        /// Intent to ask the model.
        ModelAsked(step::ModelAsked) = 202 / 1 "model_asked";
        /// The model's answer.
        ModelAnswered(step::ModelAnswered) = 203 / 1 "model_answered";
        /// The model call failed.
        ModelFailed(step::ModelFailed) = 204 / 1 "model_failed";
        /// No answer will come; it may have been worked on.
        ModelUnknown(step::ModelUnknown) = 205 / 1 "model_unknown";
        /// The next try waits for a time.
        ModelDelayed(step::ModelDelayed) = 206 / 1 "model_delayed";
        /// The model was not asked: nothing left, and nothing was charged.
        ModelNotSent(unsent::ModelNotSent) = 207 / 1 "model_not_sent";
        /// More of a budget is asked for.
        SliceAsked(draw::SliceAsked) = 240 / 1 "slice_asked";
        /// It is held.
        SliceGranted(draw::SliceGranted) = 241 / 1 "slice_granted";
        /// It does not fit.
        SliceRefused(draw::SliceRefused) = 242 / 1 "slice_refused";
        /// What was not used went back.
        SliceReturned(draw::SliceReturned) = 243 / 1 "slice_returned";
        /// Intent to run a tool.
        ToolAsked(ledger::ToolAsked) = 210 / 1 "tool_intent";
        /// A call that is not run.
        ToolRefused(ledger::ToolRefused) = 211 / 1 "tool_refused";
        /// The tool's answer.
        ToolReceipt(ledger::ToolReceipt) = 212 / 1 "tool_receipt";
        /// No answer will come; it may have taken effect.
        ToolUnknown(ledger::ToolUnknown) = 213 / 1 "tool_unknown";
        /// A repeatable tool runs again.
        ToolRetried(ledger::ToolRetried) = 214 / 1 "tool_retried";
        /// The tool was not called: nothing left.
        ToolNotSent(ledger::ToolNotSent) = 215 / 1 "tool_not_sent";
        /// An operator gave an unknown outcome up.
        ToolReconciled(mediated::ToolReconciled) = 216 / 1 "tool_reconciled";
        /// Which tools requests offer from here on.
        ToolsChosen(chosen::ToolsChosen) = 217 / 1 "tools_chosen";
        /// A provider's refusal stopped it.
        Paused(halt::Paused) = 218 / 1 "paused";
        /// It goes on.
        Resumed(halt::Resumed) = 219 / 1 "resumed";
        /// Somebody has to agree to a call.
        ApprovalAsked(approval::ApprovalAsked) = 223 / 1 "approval_asked";
        /// Somebody has answered, or nobody will.
        ApprovalResolved(approval::ApprovalResolved) = 224 / 1 "approval_resolved";
        /// The same call was made before in this turn: its answer stands.
        ToolRepeated(ledger::ToolRepeated) = 226 / 1 "tool_repeated";
        /// The caller is asked to run its own tools.
        ClientAsked(hold::ClientAsked) = 220 / 1 "client_tools_asked";
        /// It has.
        ClientAnswered(hold::ClientAnswered) = 221 / 1 "client_tools_answered";
        /// It will not.
        ClientGone(hold::ClientGone) = 222 / 1 "client_tools_gone";
        /// Its cost has gone over a mark.
        SpendCrossed(account::SpendCrossed) = 225 / 1 "spend_crossed";
        /// The end.
        Finished(life::Finished) = 230 / 1 "finished";
        /// Its answer is given out no more.
        Withheld(withhold::Withheld) = 231 / 1 "withheld";
    }
}

impl Event {
    /// The model call that it closes.
    #[must_use]
    pub const fn closes(&self) -> Option<CallNo> {
        match self {
            Self::ModelAnswered(answered) => Some(answered.call),
            Self::ModelFailed(failed) => Some(failed.call),
            Self::ModelUnknown(unknown) => Some(unknown.call),
            Self::ModelNotSent(unsent) => Some(unsent.call),
            Self::Queued(_)
            | Self::Started(_)
            | Self::ModelAsked(_)
            | Self::ModelDelayed(_)
            | Self::SliceAsked(_)
            | Self::SliceGranted(_)
            | Self::SliceRefused(_)
            | Self::SliceReturned(_)
            | Self::ToolAsked(_)
            | Self::ToolRefused(_)
            | Self::ToolReceipt(_)
            | Self::ToolUnknown(_)
            | Self::ToolRetried(_)
            | Self::ToolNotSent(_)
            | Self::ToolReconciled(_)
            | Self::ToolsChosen(_)
            | Self::ToolRepeated(_)
            | Self::Paused(_)
            | Self::Resumed(_)
            | Self::ApprovalAsked(_)
            | Self::ApprovalResolved(_)
            | Self::ClientAsked(_)
            | Self::ClientAnswered(_)
            | Self::ClientGone(_)
            | Self::SpendCrossed(_)
            | Self::Finished(_)
            | Self::Withheld(_) => None,
        }
    }
}

/// A fold of the stream. Bodies stand behind `Arc`: it is cloned once a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The frozen request; `None` while the stream is empty.
    pub spec: Option<Arc<Spec>>,
    /// The conversation.
    pub session: Option<SessionId>,
    /// Its lock.
    pub fence: Option<Fence>,
    /// Where the run stands.
    pub life: Life,
    /// What the session said before, by name.
    pub history: Arc<[MessageRef]>,
    /// The provider that last served the session's generator.
    pub generated_by: Option<String>,
    /// What this run said: its input, the model's answers, the tools' results.
    pub transcript: Vec<Body>,
    /// Results of the caller's tools that the model has not been told yet.
    pub answers: Vec<Body>,
    /// Which step, from 1; 0 before the first answer was asked for.
    pub step: u32,
    /// Whether the next model call begins a new step.
    pub between_steps: bool,
    /// The next wire call's number.
    pub next_call: CallNo,
    /// The wire call in flight.
    pub model: Option<OpenCall>,
    /// How often what was tried in this step.
    pub attempts: Attempts,
    /// The attempts that failed in it, the newest [`tried::TRIED_MAX`] of them.
    pub tried: Vec<tried::Tried>,
    /// Calls that were not sent.
    pub unsent: unsent::Unsent,
    /// The next try waits for a time.
    pub delayed: Option<step::ModelDelayed>,
    /// What it holds of the budgets that count it.
    pub slices: BTreeMap<Scope, draw::Slice>,
    /// The newest question to a budget.
    pub next_slice: draw::SliceNo,
    /// The question that is open: the next call waits for it.
    pub asking: Option<draw::SliceAsked>,
    /// Which budget it did not fit into.
    pub short: Option<Box<Short>>,
    /// The next tool call's number.
    pub next_tool: ToolNo,
    /// The calls of the current step.
    pub tools: Vec<ledger::Call>,
    /// Tool calls whose outcome was lost.
    pub tools_unknown: u32,
    /// What it is offered of them, and why.
    pub choosing: chosen::Choosing,
    /// What its calls answered, for those that it repeats.
    pub done: duplicate::Answers,
    /// Its calls that went through the broker.
    pub invocations: Vec<mediated::Invocation>,
    /// The next hold's number.
    pub next_approval: ApprovalNo,
    /// Its holds, those that are answered too.
    pub approvals: Vec<approval::Approval>,
    /// Why it stands still.
    pub halt: Option<halt::Halt>,
    /// Whether the newest answer is the last one.
    pub concluded: bool,
    /// What it waits for from outside.
    pub held: Option<Held>,
    /// What its model calls used and cost.
    pub total: Total,
    /// The same by who served them: a candidate of the route, by its place.
    pub by_candidate: BTreeMap<u32, Total>,
    /// How the primary failed in this step, if it did.
    pub primary_failed: Option<Class>,
    /// Answers so far.
    pub answered: u32,
    /// Its cost has gone over the mark of its limits.
    pub spend_crossed: bool,
    /// What the newest answer used and cost.
    pub usage: Usage,
    /// Who gave the newest answer, instead of whom, and whether it judges itself.
    pub served_by: Option<ServedBy>,
    /// How the newest answer stopped.
    pub stop: Option<step::Stop>,
    /// Its answer is given out no more.
    pub withheld: bool,
}

impl State {
    /// The end, once there is one.
    #[must_use]
    pub const fn ended(&self) -> Option<&life::Finished> {
        match &self.life {
            Life::Ended(end) => Some(end),
            Life::New | Life::Queued | Life::Running => None,
        }
    }

    /// Whoever is asked now, or gave the newest answer where no call is in flight.
    #[must_use]
    pub fn serving(&self) -> Option<ServedBy> {
        let open = self.model.as_ref().map(|open| open.asked.candidate);
        open.map_or_else(|| self.served_by.clone(), |place| served::served_by(self, place))
    }

    /// Model calls that were asked, whatever came of them; one that was not sent was not asked.
    #[must_use]
    pub const fn model_calls(&self) -> u32 {
        self.next_call.0.saturating_sub(self.unsent.in_all)
    }

    /// The newest assistant message.
    #[must_use]
    pub fn answer(&self) -> Option<&Body> {
        let is_answer =
            |body: &&Body| body.message().is_ok_and(|m| m.role == crate::message::Role::Assistant);
        let input = self.spec.as_ref().map_or(0, |spec| spec.input.len());
        self.transcript.iter().skip(input).rev().find(is_answer)
    }
}

pub(crate) fn fold(state: &State, events: &[Event]) -> Result<State, IllegalEvent> {
    events.iter().try_fold(state.clone(), Run::evolve)
}

/// Marker: the rules of a run.
#[derive(Debug)]
pub struct Run;

impl Aggregate for Run {
    type Id = RunId;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Effect;
    type EffectId = EffectId;

    const KIND: StreamKind = StreamKind::Run;
    const FOLD: u32 = 10;

    fn stream(id: &RunId) -> StreamKey {
        StreamKey::rooted(StreamKind::Run, id.place().partition, id)
    }

    fn id(stream: &StreamKey) -> Option<RunId> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        life::must_run(state, command)?;
        match command {
            Command::Open { spec, session, grant } => {
                life::open(state, spec, *session, grant.as_ref(), now)
            }
            Command::Model { call, outcome } => step::settled(state, *call, outcome, now),
            Command::Tool { call, attempt, outcome } => {
                ledger::settled(state, *call, *attempt, outcome, now)
            }
            Command::Slice { ask, outcome } => draw::settled(state, *ask, outcome),
            Command::Returned { scope } => Ok(draw::returned(state, *scope)),
            Command::ClientAnswer { results } => hold::answer(state, results, now),
            Command::Invoke(asked) => mediated::invoke(state, asked, now),
            Command::Abandon { call, request, by } => {
                mediated::abandon(state, *call, request, Decider::Actor(*by), now)
            }
            Command::Resume { by } => halt::resume(state, Decider::Actor(*by), now),
            Command::Approval { approval, answer } => {
                approval::answer(state, *approval, answer, now)
            }
            Command::ClientGone => Ok(hold::gone(state)),
            Command::Stop { seen } => Ok(life::stop(state, seen)),
            Command::Withhold { seen } => Ok(withhold::withhold(state, seen)),
            Command::Due => Ok(owed::due(state, now)),
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        let before = state.life.word();
        // Each part changes the state in place: it is large, and a run of many steps is folded from its first event.
        let to = &mut state;
        let legal = match event {
            Event::Queued(event) => life::queued(to, event),
            Event::Started(event) => life::started(to, event),
            Event::ModelAsked(event) => step::on_asked(to, event),
            Event::ModelAnswered(event) => step::on_answered(to, event),
            Event::ModelFailed(event) => step::on_failed(to, event),
            Event::ModelUnknown(event) => step::on_unknown(to, event),
            Event::ModelDelayed(event) => step::on_delayed(to, event),
            Event::ModelNotSent(event) => unsent::on_not_sent(to, event),
            Event::SliceAsked(event) => draw::on_asked(to, event),
            Event::SliceGranted(event) => draw::on_granted(to, event),
            Event::SliceRefused(event) => draw::on_refused(to, event),
            Event::SliceReturned(event) => draw::on_returned(to, event),
            Event::ToolAsked(event) => ledger::on_asked(to, event),
            Event::ToolRefused(event) => ledger::on_refused(to, event),
            Event::ToolReceipt(event) => ledger::on_receipt(to, event),
            Event::ToolUnknown(event) => ledger::on_unknown(to, event),
            Event::ToolRetried(event) => ledger::on_retried(to, event),
            Event::ToolNotSent(event) => ledger::on_not_sent(to, event),
            Event::ToolReconciled(event) => ledger::on_reconciled(to, event),
            Event::ToolsChosen(event) => offer::on_chosen(to, event),
            Event::ToolRepeated(event) => ledger::on_repeated(to, event),
            Event::Paused(event) => halt::on_paused(to, event),
            Event::Resumed(event) => halt::on_resumed(to, event),
            Event::ApprovalAsked(event) => approval::on_asked(to, event),
            Event::ApprovalResolved(event) => approval::on_resolved(to, event),
            Event::ClientAsked(event) => hold::on_asked(to, event),
            Event::ClientAnswered(event) => hold::on_answered(to, event),
            Event::SpendCrossed(event) => account::on_crossed(to, event),
            Event::ClientGone(event) => hold::on_gone(to, event),
            Event::Finished(event) => life::finished(to, event),
            Event::Withheld(event) => withhold::on_withheld(to, event),
        };
        match legal {
            Some(()) => Ok(state),
            None => Err(IllegalEvent { event: event.name().to_owned(), before: before.to_owned() }),
        }
    }

    fn awake(state: &State) -> Vec<Event> {
        // The instant only bounds a pause; a lost call is asked again at once.
        let now = Instant::default();
        let events = ledger::awake(state);
        step::and_then(state, events, |after| match &after.model {
            Some(open) => step::unknown(after, open, now),
            None if ledger::open(state).next().is_none() => vec![],
            None => course::go_on(after, now),
        })
    }

    fn pending(state: &State) -> Vec<(EffectId, Effect)> {
        owed::pending(state)
    }

    fn wake(state: &State) -> Wake {
        owed::wake(state)
    }

    fn due() -> Option<Command> {
        Some(Command::Due)
    }

    fn lost(effect: &EffectId) -> Command {
        owed::lost(effect)
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        Event::decode(kind, schema, payload)
    }
}

impl Life {
    /// A word for people.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ended(_) => "ended",
        }
    }
}

impl Spec {
    /// Whether text that was handed out can be taken back.
    #[must_use]
    pub fn discards(&self) -> bool {
        matches!(self.plane, Plane::Run)
    }
}

#[cfg(test)]
mod tests;
