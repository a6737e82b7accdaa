//! Budgets, their events and their refusals as JSON.

use super::{time::rfc3339, usage::dollars};
use events::budget::{Amount, Event, Scope, Short, State, Terms, Unpriced};
use events::run;
use serde_json::{Map, Value, json};

/// The word of a policy.
#[must_use]
pub const fn unpriced(policy: Unpriced) -> &'static str {
    match policy {
        Unpriced::Refuse => "refuse",
        Unpriced::Allow => "allow",
    }
}

fn terms(terms: &Terms) -> Value {
    json!({
        "usd": dollars(terms.usd),
        "calls": terms.calls,
        "per": terms.renews.name(),
        "warn_at": terms.warn_at,
        "unpriced": unpriced(terms.unpriced),
    })
}

fn amount(amount: Amount) -> Value {
    json!({"usd": dollars(Some(amount.usd)), "calls": amount.calls})
}

/// What is left to grant; `null` where nothing is limited.
fn remaining(terms: &Terms, taken: Amount) -> Value {
    let most =
        Amount { usd: terms.usd.unwrap_or_default(), calls: terms.calls.unwrap_or_default() };
    let left = most.less(taken);
    json!({
        "usd": dollars(terms.usd.map(|_limited| left.usd)),
        "calls": terms.calls.map(|_limited| left.calls),
    })
}

/// One budget; none where nothing is limited.
#[must_use]
pub fn object(scope: Scope, state: &State) -> Option<Value> {
    let limits = state.terms.as_ref()?;
    Some(json!({
        "object": "budget",
        "scope": scope.as_str(),
        "limit": terms(limits),
        "spent": amount(state.spent),
        "reserved": amount(state.held),
        "remaining": remaining(limits, state.taken()),
        "slices": state.slices.len(),
        "crossed": Some(state.warned).filter(|mark| *mark > 0),
        "renews_at": state.until.map(rfc3339),
    }))
}

/// Why something did not fit.
#[must_use]
pub fn short(short: &Short) -> Value {
    json!({
        "scope": short.scope.as_str(),
        "limit": {"usd": dollars(short.usd), "calls": short.calls},
        "spent": amount(short.spent),
        "reserved": amount(short.reserved),
        "wanted_usd": dollars(short.wanted),
        "renews_at": short.renews_at.map(rfc3339),
        "raise": short.raise(),
    })
}

/// What an event of a budget says.
#[must_use]
pub fn event(event: &Event) -> Value {
    match event {
        Event::Set(set) => json!({"limit": terms(&set.terms), "renews_at": set.until.map(rfc3339)}),
        Event::Removed(_) => json!({}),
        Event::Granted(granted) => json!({
            "run": granted.run.to_string(),
            "ask": granted.ask,
            "amount": amount(granted.amount),
        }),
        Event::Returned(returned) => {
            json!({"run": returned.run.to_string(), "used": amount(returned.used)})
        }
        Event::Crossed(crossed) => json!({"percent": crossed.percent}),
        Event::Renewed(renewed) => json!({"renews_at": renewed.until.map(rfc3339)}),
        Event::Listed(listed) | Event::Unlisted(listed) => json!({"scope": listed.scope.as_str()}),
    }
}

/// What an event of a run says of its slices; empty for the others.
#[must_use]
pub fn of_run(event: &run::Event) -> Value {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| map.insert(name.to_owned(), value);
    if let run::Event::SliceAsked(asked) = event {
        put("ask", json!(asked.ask.0));
        put("scope", json!(asked.scope.as_str()));
        put("usd", dollars(asked.usd));
        put("calls", json!(asked.calls));
        put("candidate", json!(asked.candidate));
        put("not_before", json!(rfc3339(asked.not_before)));
    } else if let run::Event::SliceGranted(granted) = event {
        put("ask", json!(granted.ask.0));
    } else if let run::Event::SliceRefused(refused) = event {
        put("ask", json!(refused.ask.0));
        put("budget", refused.short.as_deref().map_or(Value::Null, short));
    } else if let run::Event::SliceReturned(returned) = event {
        put("scope", json!(returned.scope.as_str()));
    }
    Value::Object(map)
}
