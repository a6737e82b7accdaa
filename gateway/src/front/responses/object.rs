//! The response object: what came of the request, beside what it was.
//!
//! What is not known is null, never zero: a client that adds up zeros believes its bill.

use super::items::{Items, Status};
use super::{Style, id};
use crate::front::door::{Ending, Failure};
use crate::front::finish::Finish;
use bytes::Bytes;
use events::id::RunId;
use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::{Map, Value, json};

/// Where a response stands.
#[derive(Debug, Clone, Copy)]
pub enum Standing<'a> {
    /// It is being worked on.
    Working,
    /// It is whole, or as whole as it gets.
    Ended(&'a Ending<'a>),
    /// It went wrong.
    Failed(&'a Failure<'a>),
    /// Somebody stopped it.
    Cancelled,
}

/// The whole answer.
#[must_use]
pub fn whole(run: RunId, end: &Ending<'_>, style: &Style) -> Bytes {
    // Strings, integers and what was read as JSON; serialising them can not fail.
    Bytes::from(serde_json::to_vec(&object(run, Standing::Ended(end), style)).unwrap_or_default())
}

/// What is said of a response that was deleted.
#[must_use]
pub fn deleted(run: RunId) -> Value {
    json!({"id": id(run), "object": "response", "deleted": true})
}

/// The object with the items of the answer.
#[must_use]
pub fn object(run: RunId, standing: Standing<'_>, style: &Style) -> Value {
    let output = match standing {
        Standing::Ended(end) => Items::of(run, end.message, style.thoughts(), last(end.finish)),
        Standing::Working | Standing::Failed(_) | Standing::Cancelled => vec![],
    };
    with(run, standing, style, output)
}

/// The object with items that were made already.
pub(super) fn with(run: RunId, standing: Standing<'_>, style: &Style, output: Vec<Value>) -> Value {
    let (status, reason) = match standing {
        Standing::Working => ("in_progress", None),
        Standing::Ended(end) => match end.finish {
            Finish::Stop | Finish::ToolCalls => ("completed", None),
            Finish::Length => ("incomplete", Some("max_output_tokens")),
            Finish::ContentFilter => ("incomplete", Some("content_filter")),
        },
        Standing::Failed(_) => ("failed", None),
        Standing::Cancelled => ("cancelled", None),
    };
    let (usage, error) = match standing {
        Standing::Ended(end) => (usage(end.usage), Value::Null),
        Standing::Failed(failure) => {
            (Value::Null, json!({"code": failure.code, "message": failure.message}))
        }
        Standing::Working | Standing::Cancelled => (Value::Null, Value::Null),
    };
    let mut fields: Map<String, Value> = style.echo();
    fields.insert("id".to_owned(), id(run).into());
    fields.insert("object".to_owned(), "response".into());
    fields.insert("created_at".to_owned(), style.mark.created_at().into());
    fields.insert("status".to_owned(), status.into());
    fields.insert("error".to_owned(), error);
    fields.insert(
        "incomplete_details".to_owned(),
        reason.map_or(Value::Null, |reason| json!({"reason": reason})),
    );
    fields.insert("output".to_owned(), output.into());
    fields.insert("usage".to_owned(), usage);
    Value::Object(fields)
}

/// How the last item stands when the answer ends so.
pub(super) const fn last(finish: Finish) -> Status {
    match finish {
        Finish::Stop | Finish::ToolCalls => Status::Completed,
        Finish::Length | Finish::ContentFilter => Status::Incomplete,
    }
}

/// Clients take null for the whole or for the details and for no number in them: Codex gives an answer up that has one.
fn usage(usage: &Usage) -> Value {
    let details = |name: &str, tokens: Option<Tokens>| {
        tokens.map_or(Value::Null, |tokens| json!({name: tokens.0}))
    };
    let (Some(input), Some(output)) = (usage.prompt, usage.completion) else { return Value::Null };
    json!({
        "input_tokens": input.0,
        "input_tokens_details": details("cached_tokens", usage.cached_input),
        "output_tokens": output.0,
        "output_tokens_details": details("reasoning_tokens", usage.reasoning),
        "total_tokens": input.0.saturating_add(output.0),
    })
}
