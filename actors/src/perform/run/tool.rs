//! The tool calls of a run that were intended: what comes of each.

use super::World;
use crate::departure::Dispatch;
use crate::metric::tools as metric;
use events::id::RunId;
use events::quantity::{Instant, Millis};
use events::run::RunTool;
use events::run::ledger::{self, Settled, ToolOutcome, UnknownReason};
use events::run::mediated::invocation_id;
use events::run::owed::Through;
use events::run::terms::Terms;
use serde_json::{Value, json};
use std::time::Duration;
use tools::{Call, ToolError};

/// Runs a call that was intended, if it may still leave, and counts what came of it.
pub(super) async fn run(world: &World, run: RunId, tool: RunTool, dispatch: &Dispatch) -> Settled {
    let (name, began) = (tool.name.clone(), world.clock.now());
    let settled = call(world, run, tool, dispatch).await;
    let micros = world.clock.now().0.saturating_sub(began.0).max(0).unsigned_abs();
    metric::called(&name, word(&settled), Duration::from_micros(micros));
    settled
}

const fn word(settled: &Settled) -> &'static str {
    match settled {
        Settled::Receipt(outcome, _) => outcome.word(),
        Settled::Refused(..) => "rejected",
        Settled::Lost | Settled::Unknown(_) => "unknown",
        Settled::NotSent(_) => "not_sent",
    }
}

async fn call(world: &World, run: RunId, tool: RunTool, dispatch: &Dispatch) -> Settled {
    let now = world.clock.now();
    let own = ledger::correlation(run.unique(), tool.call);
    let correlation = tool.mediated.as_ref().and_then(|one| one.correlation).unwrap_or(own);
    let Some(entry) = world.tools.get(&tool.name) else {
        // A build without the tool: it was intended by another one, and was not run by this one.
        let message = format!("this node has no tool {:?}", tool.name);
        return Settled::Receipt(ToolOutcome::Failed, ToolError::Failed(message).content());
    };
    if let Err(told) = world.judge.again((run, &tool.project), &tool.terms).await {
        return Settled::Receipt(ToolOutcome::Failed, told);
    }
    let timeout = tool.timeout;
    let bytes = |one: &Through| usize::try_from(one.result_max).unwrap_or(usize::MAX);
    let admitted = tool.mediated.as_ref().map(bytes);
    let call = |leave| {
        let deadline = now.after(timeout);
        let mut call = Call::new(correlation, tool.arguments, now, deadline);
        call.leave = leave;
        call.result_max = admitted.unwrap_or(call.result_max);
        call.hostnames = hostnames(&tool.terms).into();
        (call.project, call.run) = (tool.project, run.to_string());
        tokio::time::timeout(Duration::from_millis(timeout.0), entry.call(call))
    };
    let called = match dispatch.begin(Millis(0), call).await {
        Ok(called) => called,
        Err(why) => return Settled::NotSent(why),
    };
    match called {
        Ok(Ok(content)) => {
            let named = || receipt(&invocation_id(run.unique(), correlation), &content);
            let content = admitted.map_or_else(|| content.clone(), |_| named());
            Settled::Receipt(ToolOutcome::Succeeded, content)
        }
        Ok(Err(error)) => failed(error, world.clock.now()),
        Err(_late) => Settled::Unknown(UnknownReason::Unanswered),
    }
}

fn hostnames(terms: &Terms) -> Vec<String> {
    terms.mediated.as_ref().map(|one| one.hostnames.clone()).unwrap_or_default()
}

/// A result with the id of its invocation: in it, where it is a JSON object, and beside it otherwise.
fn receipt(invocation: &str, content: &str) -> String {
    match serde_json::from_str(content) {
        Ok(Value::Object(mut result)) => {
            result.insert("invocation_id".to_owned(), json!(invocation));
            Value::Object(result).to_string()
        }
        Ok(_) | Err(_) => json!({ "invocation_id": invocation, "result": content }).to_string(),
    }
}

fn failed(error: ToolError, now: Instant) -> Settled {
    let content = error.content();
    match error {
        ToolError::NotSent(why) => Settled::NotSent(why),
        // It may yet take effect: nobody knows, and that is what is recorded.
        ToolError::Unknown(_) => Settled::Unknown(UnknownReason::Unanswered),
        ToolError::TooLarge { .. } => Settled::Unknown(UnknownReason::TooLarge),
        ToolError::Rejected { class, retry_after, .. } => {
            Settled::Refused(class, retry_after.map(|wait| now.after(wait)), content)
        }
        ToolError::Invalid(_) | ToolError::Failed(_) | ToolError::DeadlinePassed => {
            Settled::Receipt(ToolOutcome::Failed, content)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_carries_the_id_of_its_invocation() {
        assert_eq!(receipt("inv_1", r#"{"a":1}"#), r#"{"a":1,"invocation_id":"inv_1"}"#);
        assert_eq!(receipt("inv_1", "plain"), r#"{"invocation_id":"inv_1","result":"plain"}"#);
        assert_eq!(receipt("inv_1", "[1]"), r#"{"invocation_id":"inv_1","result":"[1]"}"#);
    }
}
