//! What a run's own commit said about models, told to metrics and to the log: calls, tokens, cost, who served instead of
//! whom, and a cost beyond its mark.
//!
//! It compares the state before a commit with the state after it, so each fact is told once, by the node whose append
//! made it: a host that replays, a follower and a rebuild tell nothing.

use crate::metric::llm;
use events::id::RunId;
use events::model_call::Class;
use events::quantity::{Instant, MicroUsd};
use events::run::State;
use events::run::served::{InsteadOf, ServedBy, Why};
use events::run::spec::{Candidate, Spec};
use events::usage::Total;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The newest time that a role was served by another model than its primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallen {
    /// What it was asked for.
    pub role: String,
    /// `provider:model` that was meant to serve.
    pub primary: String,
    /// `provider:model` that served.
    pub fallback: String,
    /// `call_failed`, `model_mismatch`, `capability_unsupported` or `not_independent`.
    pub reason: &'static str,
    /// When.
    pub at: Instant,
}

/// What this node has seen of fallbacks since it started.
#[derive(Debug, Default)]
pub struct Fallbacks {
    count: AtomicU64,
    // Held over no await.
    last: Mutex<Option<Fallen>>,
}

impl Fallbacks {
    /// How many since this node started.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The newest.
    #[must_use]
    pub fn last(&self) -> Option<Fallen> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, fallen: Fallen) {
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(fallen);
    }
}

/// Tells what one commit of a run said.
pub(super) fn tell(
    fallbacks: &Fallbacks,
    run: RunId,
    (before, after): (&State, &State),
    now: Instant,
) {
    let Some(spec) = after.spec.as_deref() else { return };
    for (place, total) in &after.by_candidate {
        let known = before.by_candidate.get(place).copied().unwrap_or_default();
        let who = usize::try_from(*place).ok().and_then(|place| spec.route.get(place));
        if let Some(who) = who.filter(|_| known != *total) {
            used(spec, who, &known, total);
        }
    }
    if after.answered > before.answered
        && let Some(by) = &after.served_by
    {
        served(fallbacks, run, spec, (before, by), now);
    }
    if after.spend_crossed && !before.spend_crossed {
        llm::spend_exceeded(spec.role.as_str());
        let spent = after.total.cost.unwrap_or_default();
        let alert = spec.limits.spend_alert.unwrap_or_default();
        tracing::warn!(%run, role = spec.role.as_str(), spent_usd = %spent, alert_usd = %alert, "llm_run_spend_exceeded");
    }
}

/// Tells of an answer by another than was meant, and of a judge who is no other.
fn served(
    fallbacks: &Fallbacks,
    run: RunId,
    spec: &Spec,
    (before, by): (&State, &ServedBy),
    now: Instant,
) {
    let (role, fallback, fallback_model) = (spec.role.as_str(), &*by.provider, &*by.model);
    if by.judges_itself {
        tracing::warn!(%run, role, provider = fallback, model = fallback_model, "harness_evaluator_not_independent");
    }
    let Some(InsteadOf { provider: primary, model: primary_model, why }) = &by.instead_of else {
        return;
    };
    let reason = why.name();
    llm::fell_back([primary, fallback, role, reason]);
    // One that was dropped or passed over was never asked.
    let failed = before.primary_failed.filter(|_| *why == Why::CallFailed);
    let primary_error = failed.map_or("", Class::name);
    if *why == Why::CapabilityUnsupported {
        tracing::info!(%run, role, primary, primary_model, fallback, fallback_model, reason, "harness_provider_fallback");
    } else {
        tracing::warn!(%run, role, primary, primary_model, fallback, fallback_model, reason, primary_error,
            "harness_provider_fallback");
    }
    fallbacks.note(Fallen {
        role: role.to_owned(),
        primary: format!("{primary}:{primary_model}"),
        fallback: format!("{fallback}:{fallback_model}"),
        reason,
        at: now,
    });
}

fn used(spec: &Spec, who: &Candidate, before: &Total, after: &Total) {
    let labels = [spec.role.as_str(), who.provider.as_str(), who.model.as_str()];
    let without = after.calls_without_usage > before.calls_without_usage;
    let counted = after.prompt > before.prompt || after.completion > before.completion;
    let known = if counted && !without { llm::Tokens::Known } else { llm::Tokens::Unknown };
    llm::called(labels, after.calls.saturating_sub(before.calls), known);
    let tokens = [
        ("prompt", after.prompt.0.saturating_sub(before.prompt.0)),
        ("completion", after.completion.0.saturating_sub(before.completion.0)),
        ("cached_input", after.cached_input.0.saturating_sub(before.cached_input.0)),
        ("cache_write", after.cache_write.0.saturating_sub(before.cache_write.0)),
        ("reasoning", after.reasoning.0.saturating_sub(before.reasoning.0)),
    ];
    tokens.into_iter().for_each(|(kind, count)| llm::tokens(labels, kind, count));
    let cost = |total: &Total| total.cost.unwrap_or_default();
    llm::cost(labels, MicroUsd(cost(after).0.saturating_sub(cost(before).0)));
}
