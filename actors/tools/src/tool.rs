//! What a tool is, and what can come of calling one.
//!
//! Three outcomes and no more: it answered, it says that it did nothing, or nobody knows. The third must not be
//! dressed up as the second, or a model repeats what has already happened.

use events::json::Json;
pub use events::leave::{Leave, NotSent};
use events::quantity::{Instant, Millis};
use events::run::ledger::NOT_SENT_RESULT;
pub use events::run::spec::ReplayClass;
use serde::Serialize;
use std::fmt::Debug;
use std::pin::Pin;

/// What the model is told of arguments that were not admitted.
const NOT_EXECUTED: &str = "the arguments do not fit the tool's schema, so the call was NOT executed; mend them and call again";

/// The longest a call takes of a tool that says nothing else.
pub const TIMEOUT: Millis = Millis(60_000);

/// A tool, native or behind a server.
pub trait Tool: Debug + Send + Sync {
    /// Its own name, such as `note.append`; the registry makes the model-facing one.
    fn name(&self) -> &str;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// The JSON Schema of its arguments; `null` for none, and then they are not checked.
    fn parameters(&self) -> &Json;

    /// What a restart may do with a call whose outcome was lost.
    fn class(&self) -> ReplayClass;

    /// How long one call may take. After that nobody waits for it, and whoever takes its run over counts it as lost only
    /// then: the same on every node, so it is a constant of the tool.
    fn timeout(&self) -> Millis {
        TIMEOUT
    }

    /// Does it. The arguments have been checked. Dropping the future stops waiting, not necessarily the work.
    fn call(&self, call: Call) -> Working;
}

/// A call that is being worked on. Its answer is text, or JSON as text.
pub type Working = Pin<Box<dyn Future<Output = Result<String, ToolError>> + Send>>;

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Names the call to the world: the same for every try.
    pub correlation: u128,
    /// What an idempotent tool hands on, so that a repeat is seen as one.
    pub idempotency_key: String,
    /// Canonical arguments.
    pub arguments: Json,
    /// After this nobody waits any more.
    pub deadline: Instant,
    /// Now, for tools that say what time it is.
    pub now: Instant,
    /// Asked once before the tool is called. A tool that waits before it speaks to the world (for a connection, a queue,
    /// a lock) asks again immediately before its own first byte.
    pub leave: Leave,
}

/// One thing that is wrong with arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// JSON pointer to the value; empty for the whole.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

/// The arguments are not what the tool takes. Nothing was executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the arguments do not fit the tool's schema")]
pub struct Invalid {
    /// What is wrong, the first few.
    pub violations: Vec<Violation>,
}

/// What comes of a call that gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The arguments were not admitted: nothing happened.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It did not do it, and says why: nothing happened.
    #[error("the tool did not do it: {0}")]
    Failed(String),
    /// The time was over before it began: nothing happened.
    #[error("the deadline had passed before the tool began")]
    DeadlinePassed,
    /// It came too late to be sent: nothing happened.
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// Nobody can say whether it happened.
    #[error("nobody can say whether the tool did it: {0}")]
    Unknown(String),
}

#[derive(Serialize)]
struct Envelope<'a> {
    status: &'static str,
    error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_errors: Option<&'a [Violation]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

impl Envelope<'_> {
    fn text(&self) -> String {
        // Text and lists of text only: serialising it can not fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Invalid {
    /// One violation of the whole.
    pub(crate) fn whole(message: &str) -> Self {
        Self { violations: vec![Violation { path: String::new(), message: message.to_owned() }] }
    }

    /// What the model is told: JSON as text.
    #[must_use]
    pub fn content(&self) -> String {
        Envelope {
            status: "error",
            error: "invalid_arguments",
            validation_errors: Some(&self.violations),
            message: None,
            hint: Some(NOT_EXECUTED),
        }
        .text()
    }
}

impl ToolError {
    /// What the model is told: JSON as text.
    #[must_use]
    pub fn content(&self) -> String {
        let told = |status, error, message, hint| {
            Envelope { status, error, validation_errors: None, message, hint }.text()
        };
        match self {
            Self::Invalid(invalid) => invalid.content(),
            Self::Failed(message) => told("error", "tool_failed", Some(message.as_str()), None),
            Self::DeadlinePassed => {
                told("error", "deadline_passed", None, Some("the call was NOT executed"))
            }
            Self::NotSent(_) => NOT_SENT_RESULT.to_owned(),
            Self::Unknown(message) => told(
                "unknown",
                "outcome_unknown",
                Some(message.as_str()),
                Some("outcome unknown, verify first"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_told_that_nothing_was_executed() {
        let violation =
            Violation { path: "/text".into(), message: "3 is not of type \"string\"".into() };
        let told = ToolError::from(Invalid { violations: vec![violation] }).content();
        assert_eq!(
            told,
            r#"{"status":"error","error":"invalid_arguments","validation_errors":[{"path":"/text","message":"3 is not of type \"string\""}],"hint":"the arguments do not fit the tool's schema, so the call was NOT executed; mend them and call again"}"#
        );
    }

    #[test]
    fn a_failure_and_an_unknown_outcome_are_told_apart() {
        assert_eq!(
            ToolError::Failed("disk full".into()).content(),
            r#"{"status":"error","error":"tool_failed","message":"disk full"}"#
        );
        let unknown = ToolError::Unknown("cut".into()).content();
        assert!(
            unknown.starts_with(r#"{"status":"unknown""#) && unknown.contains("verify first"),
            "{unknown}"
        );
        assert!(ToolError::DeadlinePassed.content().contains("NOT executed"));
    }
}
