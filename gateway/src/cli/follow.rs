//! Follows a run to its end over any number of cuts: the stream says where it was, and the next one goes on from there.

use super::client::{Ask, Client, Events};
use super::failure::CliError;
use super::print::field;
use super::sse;
use crate::error::{Code, Exit};
use serde_json::Value;
use std::time::Duration;

/// Streams in a row that may bring no event, or not open at all (60): with the pause half a minute, in which a node has
/// restarted or nobody restarts it.
const EMPTY_MAX: u32 = 60;
/// The pause before the stream is opened again (500 ms): a node that restarts needs about a second.
const PAUSE: Duration = Duration::from_millis(500);

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// More of the answer's text.
    Text(String),
    /// The text so far belongs to an attempt that died.
    Discarded,
    /// Some of the text was not received.
    Gap,
    /// Any other event.
    Event(sse::Event),
}

/// A reader of one run.
pub(super) struct Follow<'a> {
    client: &'a Client,
    run: &'a str,
    last: Option<String>,
    open: Option<Events>,
    empty: u32,
    has_answered: bool,
    is_over: bool,
}

impl<'a> Follow<'a> {
    /// Begins after a place, or at the start.
    pub(super) fn new(client: &'a Client, run: &'a str, from: Option<String>) -> Self {
        Self { client, run, last: from, open: None, empty: 0, has_answered: false, is_over: false }
    }

    /// What comes next; none when the run is over.
    pub(super) async fn next(&mut self) -> Result<Option<Seen>, CliError> {
        Ok(self.next_event().await?.map(seen))
    }

    /// The next event as it was sent; none when the run is over.
    pub(super) async fn next_event(&mut self) -> Result<Option<sse::Event>, CliError> {
        while !self.is_over {
            match self.read().await {
                Ok(Some(event)) => {
                    self.empty = 0;
                    if !event.id.is_empty() {
                        self.last = Some(event.id.clone());
                    }
                    let name = event.name.as_str();
                    self.is_over = matches!(name, "run.completed" | "run.failed" | "run.cancelled");
                    return Ok(Some(event));
                }
                Ok(None) | Err(CliError::Cut(_)) => self.pause().await?,
                // It answered before, so it may be restarting.
                Err(CliError::NoNode { .. }) if self.has_answered => self.pause().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn read(&mut self) -> Result<Option<sse::Event>, CliError> {
        let mut events = match self.open.take() {
            Some(events) => events,
            None => self.client.events(self.ask()).await?,
        };
        self.has_answered = true;
        let event = events.next().await?;
        if event.is_some() {
            self.open = Some(events);
        }
        Ok(event)
    }

    async fn pause(&mut self) -> Result<(), CliError> {
        self.empty += 1;
        if self.empty > EMPTY_MAX {
            let why = format!("nothing more comes from {}; it goes on: ask again", self.run);
            return Err(CliError::Node(why));
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    fn ask(&self) -> Ask<'a> {
        let stream = Ask::stream(&["v1", "runs", self.run, "events"]);
        Ask { last_event_id: self.last.clone(), ..stream }
    }
}

fn seen(event: sse::Event) -> Seen {
    match event.name.as_str() {
        "message.delta" => {
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            let text = data.get("text").or_else(|| data.get("refusal")).and_then(Value::as_str);
            text.map_or_else(|| Seen::Event(event.clone()), |text| Seen::Text(text.to_owned()))
        }
        "message.discarded" => Seen::Discarded,
        "message.gap" => Seen::Gap,
        _ => Seen::Event(event),
    }
}

/// How the command line ends for a run that has ended.
pub(super) fn exit_of(run: &Value) -> Exit {
    let (outcome, reason) = (field(run, "outcome"), field(run, "reason"));
    match (outcome.as_str(), reason.as_str()) {
        ("completed" | "passed", _) => Exit::Ok,
        (_, "budget") => Exit::Budget,
        (_, "model_failed") => Exit::ProvidersExhausted,
        (_, "client_tool_gone") => Exit::TimedOut,
        _ if field(run, "status") == "needs_reconciliation" => Exit::NeedsReconciliation,
        _ => Code::named(&reason).map_or(Exit::Failure, Code::exit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_ends_the_command_line_as_it_ended_itself() {
        let of = |outcome: &str, reason: &str| {
            exit_of(&json!({"outcome": outcome, "reason": reason, "status": "failed"}))
        };
        assert_eq!(of("completed", "answered"), Exit::Ok);
        assert_eq!(of("exhausted", "budget"), Exit::Budget);
        assert_eq!(of("exhausted", "step_limit"), Exit::Failure);
        assert_eq!(of("errored", "model_failed"), Exit::ProvidersExhausted);
        assert_eq!(of("cancelled", "stopped"), Exit::Failure);
        assert_eq!(exit_of(&json!({"status": "needs_reconciliation"})), Exit::NeedsReconciliation);
        assert_eq!(exit_of(&Value::Null), Exit::Failure);
    }

    #[test]
    fn deltas_are_text_and_what_died_is_said() {
        let event = |name: &str, data: &str| sse::Event {
            id: String::new(),
            name: name.to_owned(),
            data: data.to_owned(),
        };
        assert_eq!(
            seen(event("message.delta", r#"{"attempt":0,"text":"hi"}"#)),
            Seen::Text("hi".to_owned())
        );
        let reasoning = event("message.delta", r#"{"attempt":0,"reasoning":"hm"}"#);
        assert_eq!(seen(reasoning.clone()), Seen::Event(reasoning));
        assert_eq!(seen(event("message.discarded", "{}")), Seen::Discarded);
        assert_eq!(seen(event("message.gap", "{}")), Seen::Gap);
    }
}
