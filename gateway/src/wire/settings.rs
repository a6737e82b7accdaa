//! Durable settings and what happens to them, as JSON.

use super::time::rfc3339;
use actors::routing::{Routing, Target};
use events::settings::{Event, Selected, State, ToolPolicyReplaced};
use events::tool_policy::{Frozen, ToolPolicy};
use serde_json::{Value, json};

/// What an event says.
#[must_use]
pub fn event(event: &Event) -> Value {
    match event {
        Event::ReaderRaised(raised) => json!({"to": raised.to.0}),
        Event::Selected(Selected { provider, model, by, at }) => json!({
            "provider": provider, "model": model, "by": by.to_string(), "at": rfc3339(*at),
        }),
        Event::Unselected(unselected) => json!({"by": unselected.by.to_string()}),
        Event::ToolPolicyReplaced(replaced) => {
            let ToolPolicyReplaced { policy, revision, by, at } = replaced;
            json!({
                "policy": tool_policy(policy),
                "revision": revision,
                "by": by.to_string(),
                "at": rfc3339(*at),
            })
        }
    }
}

/// The bounds of mediated calls, as they are given and shown.
#[must_use]
pub fn tool_policy(policy: &ToolPolicy) -> Value {
    json!({
        "calls_limit": policy.calls_limit,
        "per_tool_limit": policy.per_tool_limit,
        "timeout_seconds": policy.timeout_seconds(),
        "max_result_bytes": policy.max_result_bytes,
        "on_unknown": {"read_only": policy.on_unknown_read_only.name()},
    })
}

/// The same with its revision, as a run keeps it.
#[must_use]
pub fn frozen(frozen: &Frozen) -> Value {
    let mut shown = tool_policy(&frozen.policy);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("revision".to_owned(), json!(frozen.revision));
    }
    shown
}

/// The policy in force with who set it, as its owner knows it.
#[must_use]
pub fn policy(state: &State) -> Value {
    let mut shown = frozen(&state.tool_policy());
    if let Some(fields) = shown.as_object_mut() {
        let set = state.replaced.as_ref();
        fields.insert("object".to_owned(), json!("tool_policy"));
        fields.insert("replaced_by".to_owned(), json!(set.map(|one| one.by.to_string())));
        fields.insert("replaced_at".to_owned(), json!(set.map(|one| rfc3339(one.at))));
    }
    shown
}

/// What is selected, as its owner knows it, and what becomes of it on this node.
#[must_use]
pub fn selection(selected: Option<&Selected>, plain: &Routing) -> Value {
    let target = selected.map(|one| Target::new(&one.provider, &one.model));
    let routing = plain.clone().selected(target);
    let provider = selected.map(|one| one.provider.as_str());
    let effective = routing.standing().map(|(provider, model, source)| {
        json!({"provider": provider, "model": model, "source": source.name()})
    });
    json!({
        "object": "selection",
        "provider": provider,
        "model": selected.map(|one| one.model.as_str()),
        "selected_by": selected.map(|one| one.by.to_string()),
        "selected_at": selected.map(|one| rfc3339(one.at)),
        "configured": provider.map(|provider| routing.is_configured(provider)),
        "in_force": routing.selection().is_some(),
        "problem": routing.selection_problem().map(|problem| problem.to_string()),
        "effective": effective,
    })
}
