//! What a tool is, and what can come of calling one.
//!
//! Three outcomes and no more: it answered, it says that it did nothing, or nobody knows. The third must not be
//! dressed up as the second, or a model repeats what has already happened.

use events::json::Json;
pub use events::leave::{Leave, NotSent};
use events::quantity::{Instant, Millis};
use events::run::ledger::NOT_SENT_RESULT;
pub use events::run::rejection::Rejection;
pub use events::run::spec::ReplayClass;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

/// What the model is told of arguments that were not admitted.
const NOT_EXECUTED: &str = "the arguments do not fit the tool's schema, so the call was NOT executed; mend them and call again";

/// The longest a call takes of a tool that says nothing else.
pub const TIMEOUT: Millis = Millis(60_000);

/// Bytes of a result, of a call that nobody bounded: the most that any policy admits.
pub const RESULT_BYTES_MAX: usize = 750_000;

/// A name that is checked before a tool runs.
pub type Gate = String;

/// Where a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// It came with the node.
    Native,
    /// A server of this name has it.
    Server(String),
}

/// Whose consent a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Nobody's.
    Free,
    /// A person's, for each call that no standing grant covers.
    Approval,
}

impl Origin {
    /// The word for people: `native`, or the server's name.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Native => "native",
            Self::Server(name) => name,
        }
    }
}

impl Tier {
    /// The word in configuration and on wires.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Approval => "approval",
        }
    }
}

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

    /// Whether its calls go through the broker: admitted against a policy, one at a time, and never repeated.
    fn mediated(&self) -> bool {
        false
    }

    /// Whose consent a call needs.
    fn tier(&self) -> Tier {
        Tier::Free
    }

    /// What must stand open before it runs. A gate that nobody evaluates is shut.
    fn gates(&self) -> &[Gate] {
        &[]
    }

    /// Where it comes from.
    fn origin(&self) -> Origin {
        Origin::Native
    }

    /// The most bytes of its result, where that is less than what the policy admits.
    fn result_max(&self) -> Option<usize> {
        None
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
    /// The most bytes of a result. A tool that reads from the world stops reading there, with [`ToolError::TooLarge`].
    pub result_max: usize,
    /// The hosts that it may speak to; empty for those that the node allows.
    pub hostnames: Arc<[String]>,
    /// The project of its run; empty outside any.
    pub project: String,
    /// Its run; empty outside any.
    pub run: String,
}

impl Call {
    /// A call outside any run, with leave to begin and no bounds of its own; a run sets the rest.
    #[must_use]
    pub fn new(correlation: u128, arguments: Json, now: Instant, deadline: Instant) -> Self {
        Self {
            correlation,
            idempotency_key: format!("{correlation:032x}"),
            arguments,
            deadline,
            now,
            leave: Leave::free(),
            result_max: RESULT_BYTES_MAX,
            hostnames: Arc::default(),
            project: String::new(),
            run: String::new(),
        }
    }
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
    /// Its provider refused it for what the account may, and not for what was asked: nothing happened.
    #[error("the tool's provider refused it ({}): {message}", class.word())]
    Rejected {
        /// What it ran into.
        class: Rejection,
        /// When to come back, where the provider said so.
        retry_after: Option<Millis>,
        /// The provider's words, redacted.
        message: String,
    },
    /// The time was over before it began: nothing happened.
    #[error("the deadline had passed before the tool began")]
    DeadlinePassed,
    /// It came too late to be sent: nothing happened.
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// Nobody can say whether it happened.
    #[error("nobody can say whether the tool did it: {0}")]
    Unknown(String),
    /// It answered with more than is admitted, and reading ended there: what it did can not be told.
    #[error("the result has more than the {limit} bytes that are admitted")]
    TooLarge {
        /// The most bytes.
        limit: usize,
    },
}

/// What the model is told, in the order in which its words stand.
#[derive(Default, Serialize)]
struct Envelope<'a> {
    status: &'static str,
    error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_errors: Option<&'a [Violation]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

impl Envelope<'_> {
    fn text(&self) -> String {
        // Text, numbers and parsed JSON only: serialising it can not fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a server said as JSON is handed on as it is, its own status, message and hint with it.
fn failed(said: &str) -> String {
    let told = Envelope { status: "error", error: "tool_failed", ..Envelope::default() };
    match serde_json::from_str(said) {
        Ok(Value::Object(details)) => Envelope { details: Some(details), ..told }.text(),
        Ok(_) | Err(_) => Envelope { message: Some(said), ..told }.text(),
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
            hint: Some(NOT_EXECUTED),
            ..Envelope::default()
        }
        .text()
    }
}

impl ToolError {
    /// What the model is told: JSON as text.
    #[must_use]
    pub fn content(&self) -> String {
        match self {
            Self::Invalid(invalid) => invalid.content(),
            Self::Failed(said) => failed(said),
            Self::Rejected { class, retry_after, message } => Envelope {
                status: "rejected",
                error: class.word(),
                message: Some(message),
                retry_after_ms: retry_after.map(|wait| wait.0),
                hint: Some("the provider refused the call, which was NOT executed"),
                ..Envelope::default()
            }
            .text(),
            Self::DeadlinePassed => Envelope {
                status: "error",
                error: "deadline_passed",
                hint: Some("the call was NOT executed"),
                ..Envelope::default()
            }
            .text(),
            Self::NotSent(_) => NOT_SENT_RESULT.to_owned(),
            Self::Unknown(message) => Envelope {
                status: "unknown",
                error: "outcome_unknown",
                message: Some(message),
                hint: Some("outcome unknown, verify first"),
                ..Envelope::default()
            }
            .text(),
            Self::TooLarge { limit } => Envelope {
                status: "unknown",
                error: "result_too_large",
                details: json!({ "limit_bytes": limit }).as_object().cloned(),
                hint: Some("outcome unknown, verify first; ask for less"),
                ..Envelope::default()
            }
            .text(),
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

    #[test]
    fn what_a_server_said_as_json_stands_under_details() {
        let said = r#"{"code":409,"hint":"unlock it first","message":"part 7 is locked","status":"conflict"}"#;
        assert_eq!(
            ToolError::Failed(said.to_owned()).content(),
            format!(r#"{{"status":"error","error":"tool_failed","details":{said}}}"#)
        );
        for words in ["[1]", "3", "\"text\"", "{broken"] {
            let told: Value =
                serde_json::from_str(&ToolError::Failed(words.to_owned()).content()).unwrap();
            assert_eq!(told, json!({"status": "error", "error": "tool_failed", "message": words}));
        }
    }

    #[test]
    fn a_rejection_and_a_result_that_is_too_large_say_what_they_are() {
        let rejected = ToolError::Rejected {
            class: Rejection::RateLimit,
            retry_after: Some(Millis(1_500)),
            message: "slow down".into(),
        };
        assert_eq!(
            rejected.content(),
            r#"{"status":"rejected","error":"rate_limit","message":"slow down","retry_after_ms":1500,"hint":"the provider refused the call, which was NOT executed"}"#
        );
        assert_eq!(
            ToolError::TooLarge { limit: 10 }.content(),
            r#"{"status":"unknown","error":"result_too_large","details":{"limit_bytes":10},"hint":"outcome unknown, verify first; ask for less"}"#
        );
    }

    #[test]
    fn a_call_names_itself_to_the_world_by_its_correlation() {
        let call = Call::new(255, Json::from_bytes(b"{}"), Instant(1), Instant(2));
        assert_eq!(call.idempotency_key, format!("{:0>32}", "ff"));
        assert_eq!((call.result_max, call.hostnames.len()), (RESULT_BYTES_MAX, 0));
    }
}
