//! A tool as it is shown.

use serde_json::{Value, json};
use tools::tool::ReplayClass;
use tools::{Entry, Quarantined};

/// The word for a replay class.
#[must_use]
pub const fn class(class: ReplayClass) -> &'static str {
    match class {
        ReplayClass::ReadOnly => "read_only",
        ReplayClass::Idempotent => "idempotent",
        ReplayClass::Effectful => "effectful",
    }
}

/// A tool in a list.
#[must_use]
pub fn row(entry: &Entry) -> Value {
    json!({
        "name": entry.name(),
        "object": "tool",
        "raw_name": entry.raw_name(),
        "origin": entry.origin().word(),
        "state": "ready",
        "reason": Value::Null,
        "class": class(entry.class()),
        "tier": entry.tier().word(),
        "mediated": entry.mediated(),
        "gates": entry.gates(),
        "timeout_ms": entry.timeout().0,
        "result_bytes_max": entry.result_max(),
        "pinned": entry.pinned(),
        "quarantined_for": quarantined_for(entry),
    })
}

/// A tool with what a model is offered of it.
#[must_use]
pub fn object(entry: &Entry) -> Value {
    let mut shown = row(entry);
    if let Some(fields) = shown.as_object_mut() {
        let of = |name: &str| entry.offer().get(name).cloned().unwrap_or_default();
        fields.insert("description".to_owned(), of("description"));
        fields.insert("parameters".to_owned(), of("parameters"));
    }
    shown
}

/// The families whose providers are not offered it, each with the reason.
fn quarantined_for(entry: &Entry) -> Value {
    let parameters = entry.offer().get("parameters").cloned().unwrap_or_default();
    let families = providers::Family::ALL.into_iter();
    families
        .filter_map(|family| {
            let why = providers::unfit(family, &parameters)?;
            Some((family.name().to_owned(), Value::from(why)))
        })
        .collect()
}

/// A tool that can not be used, in a list.
#[must_use]
pub fn aside(one: &Quarantined) -> Value {
    json!({
        "name": one.name,
        "object": "tool",
        "raw_name": one.tool.raw,
        "origin": one.tool.origin.word(),
        "state": "quarantined",
        "reason": one.why,
    })
}
