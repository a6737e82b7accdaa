//! A run's events for its readers: one named event for each fact, deltas between them, and what an attempt that died
//! had handed out discarded in so many words.

use super::{call, fact, run as object, usage};
use actors::live::Delta;
use events::catalogue::Fact;
use events::id::RunId;
use events::run::Event;
use events::run::ledger::ToolOutcome;
use events::run::life::Outcome;
use events::run::step::CallNo;
use providers::Delta as Piece;
use serde_json::{Value, json};

/// The public name of a fact.
#[must_use]
pub const fn name(event: &Event) -> &'static str {
    match event {
        Event::Queued(_) => "run.queued",
        Event::Started(_) => "run.started",
        Event::ModelAsked(_) => "model.asked",
        Event::ModelAnswered(_) => "message.completed",
        Event::ModelFailed(_) => "model.failed",
        Event::ModelUnknown(_) => "model.unknown",
        Event::ModelDelayed(_) => "model.delayed",
        Event::ModelNotSent(_) => "model.not_sent",
        Event::SliceAsked(_) => "budget.asked",
        Event::SliceGranted(_) => "budget.granted",
        Event::SliceRefused(_) => "budget.refused",
        Event::SliceReturned(_) => "budget.returned",
        Event::ToolAsked(_) => "tool.started",
        Event::ToolRefused(_) => "tool.refused",
        Event::ToolReceipt(receipt) => match receipt.outcome {
            ToolOutcome::Succeeded => "tool.completed",
            ToolOutcome::Failed | ToolOutcome::Rejected(_) => "tool.failed",
        },
        Event::ToolUnknown(_) => "tool.unknown",
        Event::ToolRetried(_) => "tool.retried",
        Event::ToolNotSent(_) => "tool.not_sent",
        Event::ToolReconciled(_) => "tool.reconciled",
        Event::ToolsChosen(_) => "tools.chosen",
        Event::ToolRepeated(_) => "tool.repeated",
        Event::Paused(_) => "run.paused",
        Event::Resumed(_) => "run.resumed",
        Event::ApprovalAsked(_) => "tool.approval_requested",
        Event::ApprovalResolved(_) => "tool.approval_resolved",
        Event::ClientAsked(_) => "client_tools.asked",
        Event::ClientAnswered(_) => "client_tools.answered",
        Event::ClientGone(_) => "client_tools.gone",
        Event::SpendCrossed(_) => "run.spend_crossed",
        Event::Finished(end) => match end.outcome {
            Outcome::Completed => "run.completed",
            Outcome::Exhausted | Outcome::Errored => "run.failed",
            Outcome::Cancelled => "run.cancelled",
        },
        Event::Withheld(_) => "run.withheld",
    }
}

/// What its readers must forget, if an attempt that handed out text has died. `chars` is `null` when nobody knows.
#[must_use]
pub fn discarded(event: &Event, step: u32) -> Option<Value> {
    let forget =
        |call: CallNo, chars: Option<u64>| json!({"step": step, "attempt": call.0, "chars": chars});
    if let Event::ModelFailed(failed) = event {
        return (failed.handed_out > 0).then(|| forget(failed.call, Some(failed.handed_out)));
    }
    if let Event::ModelUnknown(unknown) = event {
        return Some(forget(unknown.call, None));
    }
    None
}

/// The data of a fact of a run, with the ids that follow from whose it is.
#[must_use]
pub fn data(run: RunId, event: &Event) -> Value {
    let mut data = fact::fact(&Fact::Run(Box::new(event.clone())));
    call::name(run, event, &mut data);
    data
}

/// The name and data of a delta.
#[must_use]
pub fn delta(delta: &Delta) -> (&'static str, Value) {
    let attempt = delta.call.0;
    match &delta.piece {
        Piece::Text(text) => ("message.delta", json!({"attempt": attempt, "text": text})),
        Piece::Refusal(text) => ("message.delta", json!({"attempt": attempt, "refusal": text})),
        Piece::Reasoning(text) => ("message.delta", json!({"attempt": attempt, "reasoning": text})),
        Piece::ToolCallStarted { index, id, name } => {
            ("tool_call.delta", json!({"attempt": attempt, "index": index, "id": id, "name": name}))
        }
        Piece::ToolCallArguments { index, fragment } => {
            ("tool_call.delta", json!({"attempt": attempt, "index": index, "arguments": fragment}))
        }
    }
}

/// The last event's summary: the end with the output and what it cost.
#[must_use]
pub fn end(data: &Value, state: &events::run::State) -> Value {
    let mut data = data.clone();
    if let Some(map) = data.as_object_mut() {
        map.insert("output".to_owned(), object::output(state).map_or(Value::Null, Value::from));
        map.insert("usage".to_owned(), usage::total(&state.total));
        map.insert("context".to_owned(), object::context(state).unwrap_or_default());
    }
    data
}
