//! Re-drives a recorded run: from what was recorded it works out each command, decides it again and compares.
//!
//! Exact for an equal logic number; under another one only the structure is checked, and that is said.

use super::approval::Answer;
use super::halt::Decider;
use super::ledger::ToolOutcome;
use super::life::Started;
use super::mediated::Invoke;
use super::unsent::Flight;
use super::{Command, Event, Grant, Run, State, draw, ledger, spec, step};
use crate::aggregate::Aggregate;
use crate::quantity::Instant;
use crate::record::Actor;
use std::sync::Arc;

/// Where a replay went another way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// The recorded event may not follow.
    #[error("event {index} of the commit ({event}) may not follow what came before")]
    Illegal {
        /// Its place in the commit, from 0.
        index: usize,
        /// Its name.
        event: &'static str,
    },
    /// The rules decide something else today.
    #[error("event {index} of the commit: recorded {recorded}, decided {decided}")]
    Decision {
        /// Its place in the commit, from 0.
        index: usize,
        /// What stands in the journal.
        recorded: String,
        /// What the rules say.
        decided: String,
    },
}

/// Whether the rules are those the run was started under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logic {
    /// They are: decisions and request hashes are compared.
    Same,
    /// They are not: only the structure is.
    Other {
        /// The run's.
        recorded: u16,
        /// This build's.
        here: u16,
    },
}

/// What a run's first event says of its logic.
#[must_use]
pub fn logic(first: &Event) -> Logic {
    if let Event::Queued(queued) = first
        && queued.spec.logic != spec::LOGIC
    {
        return Logic::Other { recorded: queued.spec.logic, here: spec::LOGIC };
    }
    Logic::Same
}

/// Re-drives one commit and returns the state after it.
///
/// # Errors
///
/// The first [`Difference`].
pub fn commit(
    state: State,
    events: &[Event],
    at: Instant,
    logic: Logic,
) -> Result<State, Difference> {
    if logic == Logic::Same {
        decisions(&state, events, at)?;
    }
    let mut state = state;
    for (index, event) in events.iter().enumerate() {
        state = Run::evolve(state, event)
            .map_err(|_| Difference::Illegal { index, event: event.name() })?;
    }
    Ok(state)
}

/// A commit holds what one or more commands produced, one after the other.
fn decisions(state: &State, events: &[Event], at: Instant) -> Result<(), Difference> {
    let (mut state, mut index) = (state.clone(), 0);
    while let Some(rest) = events.get(index..).filter(|rest| !rest.is_empty()) {
        let tried: Vec<Vec<Event>> =
            decided(&state, rest, at).into_iter().filter(|one| !one.is_empty()).collect();
        let Some(same) =
            tried.iter().filter(|one| rest.starts_with(one)).max_by_key(|one| one.len())
        else {
            return Err(differs(rest, &tried, index));
        };
        state = super::fold(&state, same)
            .map_err(|_| Difference::Illegal { index, event: "decided" })?;
        index += same.len();
    }
    Ok(())
}

fn differs(recorded: &[Event], tried: &[Vec<Event>], start: usize) -> Difference {
    let same = |one: &Vec<Event>| one.iter().zip(recorded).take_while(|(a, b)| a == b).count();
    let nearest = tried.iter().max_by_key(|one| same(one));
    let at = nearest.map_or(0, same);
    let show = |event: Option<&Event>| {
        event.map_or_else(|| "nothing".to_owned(), |event| format!("{event:?}"))
    };
    Difference::Decision {
        index: start + at,
        recorded: show(recorded.get(at)),
        decided: show(nearest.and_then(|one| one.get(at))),
    }
}

/// What the rules say for each command that may have led to these events.
fn decided(state: &State, events: &[Event], at: Instant) -> Vec<Vec<Event>> {
    let mut all: Vec<Vec<Event>> = commands(state, events)
        .iter()
        .filter_map(|command| Run::decide(state, command, at).ok())
        .collect();
    all.push(Run::awake(state));
    all
}

fn commands(state: &State, events: &[Event]) -> Vec<Command> {
    let Some(first) = events.first() else { return vec![] };
    match first {
        Event::Queued(queued) => {
            let (spec, session) = (Arc::clone(&queued.spec), queued.session);
            vec![Command::Open { spec, session, grant: events.iter().find_map(grant) }]
        }
        Event::Started(_) => {
            let open = |spec| Command::Open { spec, session: state.session, grant: grant(first) };
            state.spec.clone().map(open).into_iter().collect()
        }
        Event::ModelAnswered(answered) => vec![Command::Model {
            call: answered.call,
            outcome: step::Settled::Answered(answer(answered)),
        }],
        Event::ModelFailed(failed) => vec![Command::Model {
            call: failed.call,
            outcome: step::Settled::Failed(failure(failed)),
        }],
        Event::ModelUnknown(unknown) => {
            let lost = Command::Model { call: unknown.call, outcome: step::Settled::Lost };
            vec![lost, Command::Stop { seen: Flight::Left(unknown.partial) }]
        }
        Event::ModelNotSent(unsent) => {
            let outcome = step::Settled::NotSent(unsent.why);
            let stop = Command::Stop { seen: Flight::Stayed(unsent.call) };
            vec![Command::Model { call: unsent.call, outcome }, stop]
        }
        Event::ToolNotSent(unsent) => {
            tool(state, unsent.call, &ledger::Settled::NotSent(unsent.why))
        }
        Event::ToolReceipt(receipt) => tool(state, receipt.call, &received(receipt, events)),
        Event::ToolUnknown(unknown) => {
            let outcome = ledger::Settled::Unknown(unknown.reason);
            [tool(state, unknown.call, &outcome), vec![Command::stop()]].concat()
        }
        Event::ToolAsked(_)
        | Event::ToolReconciled(_)
        | Event::Resumed(_)
        | Event::ApprovalResolved(_) => brokered(first),
        Event::ToolRetried(retried) => tool(state, retried.call, &ledger::Settled::Lost),
        Event::Withheld(_) => vec![Command::withhold()],
        Event::SliceGranted(_) | Event::SliceRefused(_) | Event::SliceReturned(_) => slice(first),
        Event::ClientAnswered(answered) => {
            vec![Command::ClientAnswer { results: answered.results.clone() }]
        }
        Event::ModelAsked(_)
        | Event::ModelDelayed(_)
        | Event::SliceAsked(_)
        | Event::ToolRefused(_)
        | Event::ToolsChosen(_)
        | Event::ToolRepeated(_)
        | Event::Paused(_)
        | Event::ApprovalAsked(_)
        | Event::ClientAsked(_)
        | Event::ClientGone(_)
        | Event::SpendCrossed(_)
        | Event::Finished(_) => vec![Command::Due, Command::ClientGone, Command::stop()],
    }
}

/// What came back with a receipt; a pause that was set with it says until when.
fn received(receipt: &ledger::ToolReceipt, events: &[Event]) -> ledger::Settled {
    let content = receipt.content.clone();
    match receipt.outcome {
        ToolOutcome::Rejected(class) if class.pauses() => {
            let paused = |event: &Event| {
                let Event::Paused(paused) = event else { return None };
                Some(paused.until)
            };
            let until = events.iter().find_map(paused).flatten();
            ledger::Settled::Refused(class, until, content)
        }
        ToolOutcome::Rejected(_) => ledger::Settled::Receipt(ToolOutcome::Failed, content),
        outcome @ (ToolOutcome::Succeeded | ToolOutcome::Failed) => {
            ledger::Settled::Receipt(outcome, content)
        }
    }
}

/// What people decide about calls, and what they call themselves.
fn brokered(event: &Event) -> Vec<Command> {
    let command = if let Event::ToolAsked(asked) = event {
        invoked(asked)
    } else if let Event::ToolReconciled(settled) = event {
        let (call, request) = (settled.call, settled.request.clone());
        actor(settled.by).map(|by| Command::Abandon { call, request, by })
    } else if let Event::Resumed(resumed) = event {
        actor(resumed.by).map(|by| Command::Resume { by })
    } else if let Event::ApprovalResolved(done) = event {
        let resolution = done.resolution.clone();
        let answer = |by| Box::new(Answer { subject: None, resolution, by });
        let approval = done.approval;
        done.by.map(|by| Command::Approval { approval, answer: answer(by) })
    } else {
        None
    };
    // Nobody in person: a time has come, or the run was stopped.
    command.map_or_else(|| vec![Command::Due, Command::stop()], |command| vec![command])
}

const fn actor(by: Decider) -> Option<Actor> {
    match by {
        Decider::Actor(by) => Some(by),
        Decider::Policy(_) | Decider::Time => None,
    }
}

fn invoked(asked: &ledger::ToolAsked) -> Option<Command> {
    let correlation = asked.admission.as_ref()?.correlation?;
    let (name, arguments) = (asked.name.clone(), asked.arguments.clone());
    let terms = asked.terms.clone();
    Some(Command::Invoke(Box::new(Invoke { correlation, name, arguments, terms })))
}

fn slice(event: &Event) -> Vec<Command> {
    if let Event::SliceGranted(granted) = event {
        return vec![Command::Slice { ask: granted.ask, outcome: draw::Settled::Granted }];
    }
    if let Event::SliceRefused(refused) = event {
        let said = refused.short.clone();
        let outcome = said.map_or(draw::Settled::Unreached, draw::Settled::Refused);
        return vec![Command::Slice { ask: refused.ask, outcome }];
    }
    let Event::SliceReturned(returned) = event else { return vec![] };
    vec![Command::Returned { scope: returned.scope }]
}

/// What the edge reported of an answer.
fn answer(answered: &step::ModelAnswered) -> step::Answer {
    step::Answer {
        body: answered.body.clone(),
        asks: answered.asks.clone(),
        stop: answered.stop,
        usage: answered.usage,
        served_model: answered.served_model.clone(),
        request_id: answered.request_id.clone(),
        profile: answered.profile.clone(),
    }
}

/// What the edge reported of a failure.
fn failure(failed: &step::ModelFailed) -> step::Failure {
    step::Failure {
        class: failed.class,
        status: failed.status,
        request_id: failed.request_id.clone(),
        hint: failed.hint,
        charge: failed.charge,
        handed_out: failed.handed_out,
        message: failed.message.clone(),
        profile: failed.profile.clone(),
        others: failed.others,
        renewed: failed.renewed,
        took: failed.took,
        partial: failed.partial,
    }
}

fn grant(event: &Event) -> Option<Grant> {
    let Event::Started(started) = event else { return None };
    let Started { fence, history, generated_by } = started.clone();
    fence.map(|fence| Grant { fence, history, generated_by })
}

fn tool(state: &State, call: ledger::ToolNo, outcome: &ledger::Settled) -> Vec<Command> {
    let attempt = ledger::under_way(state, call).map(|(attempt, _)| attempt);
    attempt
        .map(|attempt| Command::Tool { call, attempt, outcome: outcome.clone() })
        .into_iter()
        .collect()
}
