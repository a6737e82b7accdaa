//! Providers, their profiles and what happens to them, as JSON. No secret is in any of it, for none is in the events.

use super::time::rfc3339;
use events::credential::{
    Cooled, Cooling, Death, Died, Event, Health, Kind, Profile, ProviderId, Recovered, Refresh,
    Scope, Standing,
};
use events::model_call::Class;
use events::quantity::Instant;
use events::usage::Total;
use projections::credentials::Row;
use serde_json::{Value, json};

/// The word for what a secret is.
#[must_use]
pub const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::ApiKey => "api_key",
        Kind::Environment => "environment",
        Kind::Login => "oauth",
        Kind::Followed => "oauth_followed",
    }
}

/// What a person has to do about a profile, if there is anything.
#[must_use]
pub fn mend(provider: ProviderId, name: &str, profile: &Profile, now: Instant) -> Option<String> {
    let ended = profile.expires.is_some_and(|expires| expires <= now);
    match (profile.health, profile.kind) {
        (Health::Dead { reason: Death::NeedsLogin(_), .. }, _) => {
            Some(format!("piton auth login {provider} {name}"))
        }
        (Health::Dead { reason: Death::ByHand, .. }, _) => None,
        (Health::Dead { .. }, Kind::Login) => Some(format!(
            "piton auth login {provider} {name}, or piton auth revive {provider} {name}"
        )),
        (Health::Dead { .. }, Kind::Followed) => Some(format!(
            "log in with the program that it follows, such as `codex login`, and then piton auth revive {provider} {name}"
        )),
        (Health::Alive, Kind::Followed) if ended => {
            Some("use the program that refreshes the file once, such as `codex`".to_owned())
        }
        (Health::Dead { .. } | Health::Alive, _) => None,
    }
}

fn scope(scope: &Scope) -> Value {
    match scope {
        Scope::Profile => json!({"scope": "profile", "model": null}),
        Scope::Model(model) => json!({"scope": "model", "model": model}),
    }
}

/// What happened to a profile so far, by the read model, and what its calls used and cost.
#[must_use]
pub fn history(row: &Row, used: Option<&Total>) -> Value {
    let history = row.history;
    let failed = |(class, at): (Class, Instant)| json!({"class": class.name(), "at": rfc3339(at)});
    json!({
        "added_at": rfc3339(history.added),
        "rotated": history.rotated,
        "cooled": history.cooled,
        "struck": history.struck,
        "died": history.died,
        "revived": history.revived,
        "refreshed": history.refreshed,
        "refresh_failed": history.refresh_failed,
        "failed": history.failed.map(failed),
        "position": row.last.to_string(),
        "usage": used.map(super::usage::total),
    })
}

/// What an event says.
#[must_use]
pub fn event(event: &Event) -> Value {
    match event {
        Event::Added(added) => json!({
            "profile": added.profile,
            "kind": kind(added.kind),
            "by": added.by.to_string(),
            "revision": added.revision,
            "expires": added.expires.map(rfc3339),
        }),
        Event::Rotated(rotated) => json!({
            "profile": rotated.profile,
            "revision": rotated.revision,
            "expires": rotated.expires.map(rfc3339),
        }),
        Event::Removed(removed) => json!({"profile": removed.profile}),
        Event::Cooled(Cooled { profile, scope: of, since, until, class }) => {
            let of = scope(of);
            json!({
                "profile": profile,
                "scope": of.get("scope"),
                "model": of.get("model"),
                "since": rfc3339(*since),
                "until": rfc3339(*until),
                "reason": class.name(),
            })
        }
        Event::Probed(probed) => json!({
            "profile": probed.profile,
            "model": probed.model,
            "until": rfc3339(probed.until),
        }),
        Event::Recovered(Recovered { profile, model }) => {
            json!({"profile": profile, "model": model})
        }
        Event::Struck(struck) => json!({
            "profile": struck.profile,
            "strikes": struck.strikes,
            "reason": struck.class.name(),
        }),
        Event::Died(Died { profile, reason, at }) => {
            json!({"profile": profile, "reason": reason.name(), "at": rfc3339(*at)})
        }
        Event::Revived(revived) => json!({"profile": revived.profile}),
        Event::Refreshing(begun) => json!({"profile": begun.profile, "attempt": begun.attempt}),
        Event::Refreshed(refreshed) => json!({
            "profile": refreshed.profile,
            "revision": refreshed.revision,
            "expires": refreshed.expires.map(rfc3339),
        }),
        Event::RefreshFailed(failed) => json!({
            "profile": failed.profile,
            "reason": failed.why.name(),
            "again": rfc3339(failed.again),
        }),
        Event::RefreshLost(lost) => json!({"profile": lost.profile, "attempt": lost.attempt}),
    }
}

/// One profile and how it fares. The state is the one for all models, unless something cools all of them.
#[must_use]
pub fn profile(provider: ProviderId, name: &str, profile: &Profile, now: Instant) -> Value {
    let whole = profile.cooling.get(&Scope::Profile);
    let (state, reason) = match (profile.health, profile.standing("", now)) {
        (Health::Dead { reason: reason @ Death::NeedsLogin(_), .. }, _) => {
            ("needs_login", Some(reason.name()))
        }
        (Health::Dead { reason, .. }, _) => ("dead", Some(reason.name())),
        (Health::Alive, Standing::Cooling { class, .. }) => ("cooling", Some(class.name())),
        (Health::Alive, Standing::HalfOpen) => {
            ("half_open", whole.map(|cooling| cooling.class.name()))
        }
        (Health::Alive, Standing::Ready | Standing::Dead(_)) => ("healthy", None),
    };
    let next_try =
        |cooling: &Cooling| rfc3339(cooling.probe.unwrap_or(cooling.until).max(cooling.until));
    let cooling: Vec<Value> = profile
        .cooling
        .iter()
        .map(|(of, cooling)| {
            let of = scope(of);
            json!({
                "scope": of.get("scope"),
                "model": of.get("model"),
                "reason": cooling.class.name(),
                "until": rfc3339(cooling.until),
                "next_try": next_try(cooling),
            })
        })
        .collect();
    let dead_since = match profile.health {
        Health::Dead { at, .. } => Some(rfc3339(at)),
        Health::Alive => None,
    };
    json!({
        "name": name,
        "kind": kind(profile.kind),
        "added_by": profile.by.to_string(),
        "state": state,
        "reason": reason,
        "next_try": whole.filter(|_| dead_since.is_none()).map(next_try),
        "dead_since": dead_since,
        "consecutive_401": profile.strikes,
        "expires": profile.expires.map(rfc3339),
        "refresh": refresh(profile.refresh),
        "mend": mend(provider, name, profile, now),
        "last_error": profile.last.map(Class::name),
        "revision": profile.revision,
        "cooling": cooling,
    })
}

/// How the refresh of its token stands; null where nothing is to be said.
fn refresh(refresh: Refresh) -> Value {
    match refresh {
        Refresh::Idle => Value::Null,
        Refresh::Running { lost } => json!({"state": "running", "lost": lost}),
        Refresh::Failed { again, why } => {
            json!({"state": "failed", "reason": why.name(), "again": rfc3339(again)})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::credential::LoginLost;
    use events::record::Actor;

    #[test]
    fn whoever_is_dead_by_himself_has_a_mend() {
        let (provider, now) = ("openai-codex".parse().unwrap(), Instant(9));
        let mends = |kind, reason| {
            let health = Health::Dead { reason, at: now };
            let dead = Profile { health, ..Profile::new(kind, Actor::Admin, 1) };
            mend(provider, "p", &dead, now)
        };
        let has = |kind, reason, what: &str| {
            let mend = mends(kind, reason).unwrap();
            assert!(mend.contains(what), "{mend}");
        };
        has(Kind::Login, Death::NeedsLogin(LoginLost::Reused), "piton auth login openai-codex p");
        for reason in [Death::Strikes, Death::Named] {
            has(Kind::Login, reason, "piton auth login openai-codex p");
            has(Kind::Followed, reason, "piton auth revive openai-codex p");
            has(Kind::Followed, reason, "`codex login`");
        }
        assert_eq!(mends(Kind::Login, Death::ByHand), None, "somebody wanted it so");
    }
}
