//! Names of what model calls of runs used and cost. Labels are a role, a provider, a model and a word; never an id, a
//! run or a key.
//!
//! Roles and models are words of whoever asks, so only so many of them get a series of their own.

use events::quantity::MicroUsd;
use metrics::{Unit, counter, describe_counter, gauge};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Counter, tokens by `role`, `provider`, `model` and `kind`: `prompt` (all of the input), `completion`,
/// `cached_input`, `cache_write` and `reasoning`, which are parts of the two.
pub const TOKENS: &str = "piton_llm_tokens_total";
/// Counter (a gauge to the recorder, for it has fractions), priced cost in US dollars by `role`, `provider`, `model`.
pub const COST: &str = "piton_llm_cost_usd_total";
/// Counter, model calls that were settled, by `role`, `provider`, `model` and whether their tokens are known.
pub const CALLS: &str = "piton_llm_calls_total";
/// Counter, runs whose priced cost went over the mark, by `role`.
pub const SPEND_EXCEEDED: &str = "piton_llm_run_spend_exceeded_total";
/// Counter, answers by another model than the one that was meant to serve, by `primary`, `fallback` (providers),
/// `role` and `reason`.
pub const FALLBACKS: &str = "piton_harness_provider_fallback_total";

const ROLE: &str = "role";
const PROVIDER: &str = "provider";
const MODEL: &str = "model";
const KIND: &str = "kind";
const REPORTED: &str = "usage_reported";
const PRIMARY: &str = "primary";
const FALLBACK: &str = "fallback";
const REASON: &str = "reason";

/// Roles that get a series of their own: those of the product, and some with disciplines.
const ROLES_MAX: usize = 64;
/// Models that do: more than any route names.
const MODELS_MAX: usize = 512;
/// The label of all others.
const OTHER: &str = "other";

/// Words that have a series. Of the process, as the recorder is.
pub(super) struct Series(Mutex<BTreeSet<String>>);

static ROLES: Series = Series::new();
static MODELS: Series = Series::new();

impl Series {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// The word, if it has a series or there is room for one more; else that of all others.
    pub(super) fn label(&self, word: &str, max: usize) -> String {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(word) && known.len() >= max {
            return OTHER.to_owned();
        }
        known.insert(word.to_owned());
        word.to_owned()
    }
}

fn role_label(role: &str) -> String {
    ROLES.label(role, ROLES_MAX)
}

fn model_label(model: &str) -> String {
    MODELS.label(model, MODELS_MAX)
}

/// Whether the tokens of a settled call are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    Known,
    Unknown,
}

pub(crate) fn called([role, provider, model]: [&str; 3], calls: u64, tokens: Tokens) {
    let reported = match tokens {
        Tokens::Known => "true",
        Tokens::Unknown => "false",
    };
    let (role, provider, model) = (role_label(role), provider.to_owned(), model_label(model));
    counter!(CALLS, ROLE => role, PROVIDER => provider, MODEL => model, REPORTED => reported)
        .increment(calls);
}

pub(crate) fn tokens([role, provider, model]: [&str; 3], kind: &'static str, count: u64) {
    if count == 0 {
        return;
    }
    let (role, provider, model) = (role_label(role), provider.to_owned(), model_label(model));
    counter!(TOKENS, ROLE => role, PROVIDER => provider, MODEL => model, KIND => kind)
        .increment(count);
}

pub(crate) fn cost([role, provider, model]: [&str; 3], cost: MicroUsd) {
    // The text of a decimal with six places: money never goes through binary fractions on its way here.
    let Ok(dollars) = cost.to_string().parse::<f64>() else { return };
    if cost.0 == 0 {
        return;
    }
    let (role, provider, model) = (role_label(role), provider.to_owned(), model_label(model));
    gauge!(COST, ROLE => role, PROVIDER => provider, MODEL => model).increment(dollars);
}

pub(crate) fn spend_exceeded(role: &str) {
    counter!(SPEND_EXCEEDED, ROLE => role_label(role)).increment(1);
}

pub(crate) fn fell_back([primary, fallback, role, reason]: [&str; 4]) {
    let (primary, fallback) = (primary.to_owned(), fallback.to_owned());
    let (role, reason) = (role_label(role), reason.to_owned());
    counter!(FALLBACKS, PRIMARY => primary, FALLBACK => fallback, ROLE => role, REASON => reason)
        .increment(1);
}

/// Tells the recorder what the names mean.
pub(super) fn describe() {
    describe_counter!(
        TOKENS,
        Unit::Count,
        "tokens of model calls, by role, provider, model and kind"
    );
    describe_counter!(CALLS, Unit::Count, "model calls settled, by role, provider, model");
    metrics::describe_gauge!(COST, "priced cost of model calls in US dollars; it only grows");
    describe_counter!(SPEND_EXCEEDED, Unit::Count, "runs whose cost went over the mark, by role");
    describe_counter!(FALLBACKS, Unit::Count, "answers by another model than was meant to serve");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_callers_make_only_so_many_series() {
        let series = Series::new();
        let labels: Vec<String> =
            ["a", "b", "a", "c", "b"].map(|word| series.label(word, 2)).into();
        assert_eq!(labels, ["a", "b", "a", OTHER, "b"]);
    }
}
