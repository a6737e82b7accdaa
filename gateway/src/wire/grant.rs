//! Standing grants and what happens to them, as JSON.

use super::time::rfc3339;
use events::grant::{Event, Granted, Pattern};
use events::json::Json;
use serde_json::{Map, Value, json};

fn constant(json: &Json) -> Value {
    serde_json::from_slice(json.as_bytes()).unwrap_or_default()
}

/// What each pointer must be.
#[must_use]
pub fn pattern(pattern: &Pattern) -> Value {
    let equal: Map<String, Value> =
        pattern.equal.iter().map(|(pointer, json)| (pointer.clone(), constant(json))).collect();
    json!({"equal": equal, "glob": pattern.glob})
}

/// One grant.
#[must_use]
pub fn object(project: &str, granted: &Granted) -> Value {
    json!({
        "object": "grant",
        "id": granted.id.to_string(),
        "project": project,
        "tool": granted.tool,
        "pattern": pattern(&granted.pattern),
        "by": granted.by.to_string(),
        "at": rfc3339(granted.at),
        "until": granted.until.map(rfc3339),
    })
}

/// What an event says.
#[must_use]
pub fn event(event: &Event) -> Value {
    match event {
        Event::Granted(granted) => json!({
            "id": granted.id.to_string(),
            "tool": granted.tool,
            "pattern": pattern(&granted.pattern),
            "by": granted.by.to_string(),
            "until": granted.until.map(rfc3339),
            "at": rfc3339(granted.at),
        }),
        Event::Revoked(revoked) => {
            json!({"id": revoked.id.to_string(), "by": revoked.by.to_string()})
        }
    }
}
