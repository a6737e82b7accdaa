//! The table `[retry]`: how often, and how long apart, a provider is asked again.

use super::merge::Reader;
use super::rule;
use events::model_call::{self, OnPolicy};
use events::quantity::Millis;

/// Bounds of asking a provider again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Extra tries of the same provider (2).
    pub api_max_retries: u32,
    /// First pause (500 ms).
    pub retry_base: Millis,
    /// Longest pause without a hint (8 s).
    pub retry_cap: Millis,
    /// Longest wait that a provider may ask for (900 s).
    pub retry_wait_max: Millis,
    /// What is done about content that was refused and connections that can not be trusted.
    pub on_policy: OnPolicy,
}

impl Retry {
    /// The bounds that are frozen into a run.
    #[must_use]
    pub fn limits(&self) -> model_call::Limits {
        model_call::Limits {
            api_max_retries: self.api_max_retries,
            retry_base: self.retry_base,
            retry_cap: self.retry_cap,
            wait_max: self.retry_wait_max,
            on_policy: self.on_policy,
            ..model_call::Limits::default()
        }
    }
}

/// Asks for every key about it. None when one of them is wrong.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Retry> {
    let api_max_retries = reader.take_or("retry.api_max_retries", "2", rule::times(10));
    let retry_base = reader.take_or("retry.retry_base_ms", "500", rule::millis(1, 60_000));
    let retry_cap = reader.take_or("retry.retry_cap_ms", "8000", rule::millis(1, 600_000));
    let retry_wait_max =
        reader.take_or("retry.retry_wait_max_seconds", "900", rule::seconds(0, 86_400));
    let on_policy = reader.take_or("retry.fallback_on_policy", "false", rule::switch);
    let on_policy = on_policy.map(|fall| if fall { OnPolicy::Fall } else { OnPolicy::Surface });
    Some(Retry {
        api_max_retries: api_max_retries?,
        retry_base: retry_base?,
        retry_cap: retry_cap?,
        retry_wait_max: retry_wait_max?,
        on_policy: on_policy?,
    })
}
