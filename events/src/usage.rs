//! What a model call used and cost. What was not reported is `None`, never zero, and a sum over unknowns says that
//! it is a lower bound.

use crate::quantity::{MicroUsd, Tokens};
use serde::{Deserialize, Serialize};

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CostSource {
    /// The provider said it.
    Reported,
    /// Tokens times the price table frozen into the run.
    Table,
}

/// How calls of a provider are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Billing {
    /// By what they use.
    #[default]
    Metered,
    /// By a subscription: a call has no price of its own, and is not free either.
    Subscription,
}

/// Usage of one model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The full input, cached part included.
    pub prompt: Option<Tokens>,
    /// The full output, reasoning included.
    pub completion: Option<Tokens>,
    /// The part of the input that was read from a cache.
    pub cached_input: Option<Tokens>,
    /// The part of the input that was written to a cache.
    pub cache_write: Option<Tokens>,
    /// The part of the output that was reasoning. Providers report more than `completion` at times: never assert.
    pub reasoning: Option<Tokens>,
    /// What it cost.
    pub cost: Option<MicroUsd>,
    /// Who says so; present exactly when `cost` is.
    pub cost_source: Option<CostSource>,
}

/// Prices of one model, frozen into a run when it is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Of calls with an input of usual length.
    pub usual: Rates,
    /// Of calls with a longer one, where that costs more.
    pub long: Option<LongInput>,
}

/// What all tokens of a call cost, output too, once its input is longer than a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongInput {
    /// The longest input that still costs the usual rates.
    pub above: Tokens,
    /// The rates beyond it.
    pub rates: Rates,
}

/// Micro-USD per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// Of uncached input.
    pub input: MicroUsd,
    /// Of output.
    pub output: MicroUsd,
    /// Of input read from a cache; the input price where the table has none.
    pub cached_input: Option<MicroUsd>,
    /// Of input written to a cache; the input price where the table has none.
    pub cache_write: Option<MicroUsd>,
}

fn part(tokens: Tokens, per_million: MicroUsd) -> u128 {
    u128::from(tokens.0) * u128::from(per_million.0)
}

fn settle(micro_parts: u128) -> MicroUsd {
    // Rounded up: a cost is never shown smaller than it is.
    MicroUsd(u64::try_from(micro_parts.div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

impl Rates {
    fn cost(&self, usage: &Usage, prompt: Tokens, completion: Tokens) -> MicroUsd {
        let cached = usage.cached_input.unwrap_or_default().min(prompt);
        let written = usage.cache_write.unwrap_or_default().min(Tokens(prompt.0 - cached.0));
        let fresh = Tokens(prompt.0 - cached.0 - written.0);
        let sum = part(fresh, self.input)
            + part(cached, self.cached_input.unwrap_or(self.input))
            + part(written, self.cache_write.unwrap_or(self.input))
            + part(completion, self.output);
        settle(sum)
    }

    fn worst(&self, input: Tokens, output_max: Tokens) -> MicroUsd {
        let input_price = self.cache_write.unwrap_or(self.input).max(self.input);
        settle(part(input, input_price) + part(output_max, self.output))
    }
}

impl Price {
    /// The rates that hold for an input of this length.
    fn at(&self, input: Tokens) -> &Rates {
        match &self.long {
            Some(long) if input > long.above => &long.rates,
            Some(_) | None => &self.usual,
        }
    }

    /// The cost of known tokens; `None` when prompt or completion is unknown.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<MicroUsd> {
        let (prompt, completion) = (usage.prompt?, usage.completion?);
        Some(self.at(prompt).cost(usage, prompt, completion))
    }

    /// The most that a call with at most this input can cost: all of it at the dearest input price, all output used.
    #[must_use]
    pub fn worst(&self, input: Tokens, output_max: Tokens) -> MicroUsd {
        let usual = self.usual.worst(input, output_max);
        usual.max(self.at(input).worst(input, output_max))
    }
}

impl Usage {
    /// With its cost filled in from the table, unless the provider reported one.
    #[must_use]
    pub fn priced(mut self, price: Option<&Price>) -> Self {
        if self.cost.is_none()
            && let Some(cost) = price.and_then(|price| price.cost(&self))
        {
            self.cost = Some(cost);
            self.cost_source = Some(CostSource::Table);
        }
        self
    }
}

/// A sum over calls. `cost` is `None` when nothing in it was priced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Total {
    /// Calls that were asked, whatever came of them.
    pub calls: u64,
    /// Calls whose tokens nobody reported: the token sums are lower bounds when this is not zero.
    pub calls_without_usage: u64,
    /// Metered calls without a price: the cost is a lower bound when this is not zero.
    pub calls_unpriced: u64,
    /// Calls that a subscription pays for; no cost counts them.
    pub calls_subscription: u64,
    /// Calls of which nobody said all; what is left of their reservation is in `cost_upper`.
    pub calls_unknown: u64,
    /// Sum of known input.
    pub prompt: Tokens,
    /// Sum of known output.
    pub completion: Tokens,
    /// Sum of known cached input.
    pub cached_input: Tokens,
    /// Sum of known cache writes.
    pub cache_write: Tokens,
    /// Sum of known reasoning.
    pub reasoning: Tokens,
    /// Sum of known costs.
    pub cost: Option<MicroUsd>,
    /// The reservations of calls whose cost nobody can tell, on top of `cost`: what it can have cost at most.
    pub cost_upper: Option<MicroUsd>,
}

fn add(sum: Option<MicroUsd>, more: Option<MicroUsd>) -> Option<MicroUsd> {
    match (sum, more) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(one),
        (Some(one), Some(other)) => Some(one.plus(other)),
    }
}

impl Total {
    /// Counts a call that was answered. One whose cost nobody can tell counts as at most what was reserved for it.
    pub fn answered(&mut self, usage: &Usage, reserved: Option<MicroUsd>, billing: Billing) {
        self.calls += 1;
        if usage.prompt.is_none() || usage.completion.is_none() {
            self.calls_without_usage += 1;
        }
        match billing {
            Billing::Subscription => self.calls_subscription += 1,
            Billing::Metered => self.calls_unpriced += u64::from(usage.cost.is_none()),
        }
        self.used(usage);
        if usage.cost.is_none() {
            self.cost_upper = add(self.cost_upper, reserved);
        }
    }

    fn used(&mut self, usage: &Usage) {
        self.prompt = self.prompt.plus(usage.prompt.unwrap_or_default());
        self.completion = self.completion.plus(usage.completion.unwrap_or_default());
        self.cached_input = self.cached_input.plus(usage.cached_input.unwrap_or_default());
        self.cache_write = self.cache_write.plus(usage.cache_write.unwrap_or_default());
        self.reasoning = self.reasoning.plus(usage.reasoning.unwrap_or_default());
        self.cost = add(self.cost, usage.cost);
    }

    /// Counts a call of which nobody said all: at least what was seen of it before it was cut, at most `reserved`.
    pub fn unknown(&mut self, seen: &Usage, reserved: Option<MicroUsd>, billing: Billing) {
        self.calls += 1;
        self.calls_unknown += 1;
        self.calls_without_usage += 1;
        match billing {
            Billing::Subscription => self.calls_subscription += 1,
            Billing::Metered => self.calls_unpriced += u64::from(reserved.is_none()),
        }
        self.used(seen);
        let rest = reserved.map(|reserved| reserved.less(seen.cost.unwrap_or_default()));
        self.cost_upper = add(self.cost_upper, rest);
    }

    /// Counts a call that the provider refused before it worked on it.
    pub fn refused(&mut self) {
        self.calls += 1;
    }

    /// How the calls in it are paid: `metered`, `subscription` or `mixed`. A sum of no calls is metered.
    #[must_use]
    pub const fn billing(&self) -> &'static str {
        match (self.calls_subscription, self.calls) {
            (0, _) => "metered",
            (subscribed, all) if subscribed == all => "subscription",
            (_, _) => "mixed",
        }
    }

    /// Whether the sums are lower bounds.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.calls_without_usage > 0 || self.calls_unpriced > 0 || self.calls_unknown > 0
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.calls_without_usage += other.calls_without_usage;
        self.calls_unpriced += other.calls_unpriced;
        self.calls_subscription += other.calls_subscription;
        self.calls_unknown += other.calls_unknown;
        self.prompt = self.prompt.plus(other.prompt);
        self.completion = self.completion.plus(other.completion);
        self.cached_input = self.cached_input.plus(other.cached_input);
        self.cache_write = self.cache_write.plus(other.cache_write);
        self.reasoning = self.reasoning.plus(other.reasoning);
        self.cost = add(self.cost, other.cost);
        self.cost_upper = add(self.cost_upper, other.cost_upper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        input: MicroUsd(2_500_000),
        output: MicroUsd(10_000_000),
        cached_input: Some(MicroUsd(1_250_000)),
        cache_write: None,
    };
    const PRICE: Price = Price { usual: RATES, long: None };

    fn usage(prompt: u64, completion: u64, cached: u64) -> Usage {
        Usage {
            prompt: Some(Tokens(prompt)),
            completion: Some(Tokens(completion)),
            cached_input: Some(Tokens(cached)),
            ..Usage::default()
        }
    }

    #[test]
    fn cached_input_is_cheaper_and_parts_of_a_millionth_round_up() {
        assert_eq!(PRICE.cost(&usage(1_000, 20, 900)), Some(MicroUsd(250 + 1_125 + 200)));
        assert_eq!(PRICE.cost(&usage(1, 0, 0)), Some(MicroUsd(3)));
    }

    #[test]
    fn one_token_beyond_the_bound_changes_the_rate_of_all_and_the_reservation_knows_it() {
        let rates = Rates { input: MicroUsd(5_000_000), output: MicroUsd(15_000_000), ..RATES };
        let long = Some(LongInput { above: Tokens(1_000), rates });
        let price = Price { long, ..PRICE };
        assert_eq!(price.cost(&usage(1_000, 20, 0)), Some(MicroUsd(2_500 + 200)));
        assert_eq!(price.cost(&usage(1_001, 20, 0)), Some(MicroUsd(5_005 + 300)));
        assert_eq!(price.worst(Tokens(1_000), Tokens(20)), MicroUsd(2_500 + 200));
        assert_eq!(price.worst(Tokens(1_001), Tokens(20)), MicroUsd(5_005 + 300));
    }

    #[test]
    fn unknown_tokens_have_no_cost_and_a_known_zero_has() {
        assert_eq!(PRICE.cost(&Usage::default()), None);
        assert_eq!(PRICE.cost(&usage(0, 0, 0)), Some(MicroUsd(0)));
    }

    #[test]
    fn a_total_of_nothing_priced_has_no_cost_and_unknowns_make_a_lower_bound() {
        let mut total = Total::default();
        total.answered(&usage(10, 5, 0), None, Billing::Metered);
        assert_eq!((total.cost, total.calls_unpriced), (None, 1));
        total.answered(
            &usage(10, 5, 0).priced(Some(&PRICE)),
            Some(MicroUsd(900)),
            Billing::Metered,
        );
        assert_eq!(total.cost, Some(MicroUsd(75)));
        total.unknown(&Usage::default(), Some(MicroUsd(500)), Billing::Metered);
        assert_eq!((total.cost, total.cost_upper), (Some(MicroUsd(75)), Some(MicroUsd(500))));
        assert!(total.is_lower_bound());
    }

    #[test]
    fn what_was_seen_of_a_call_that_was_cut_is_a_lower_bound_within_its_reservation() {
        let mut total = Total::default();
        let seen = usage(10, 5, 0).priced(Some(&PRICE));
        total.unknown(&seen, Some(MicroUsd(500)), Billing::Metered);
        assert_eq!((total.prompt, total.completion), (Tokens(10), Tokens(5)));
        assert_eq!((total.cost, total.cost_upper), (Some(MicroUsd(75)), Some(MicroUsd(425))));
        assert_eq!((total.calls_without_usage, total.is_lower_bound()), (1, true));
        // More than was reserved can not be: then nothing is left of the reservation, and nothing is less than nothing.
        total.unknown(&seen, Some(MicroUsd(50)), Billing::Metered);
        assert_eq!(total.cost_upper, Some(MicroUsd(425)));
    }

    #[test]
    fn an_answer_without_usage_counts_as_what_was_reserved_for_it() {
        let mut total = Total::default();
        total.answered(&Usage::default(), Some(MicroUsd(900)), Billing::Metered);
        assert_eq!((total.cost, total.cost_upper), (None, Some(MicroUsd(900))));
    }

    #[test]
    fn a_reported_cost_is_not_replaced() {
        let reported = Usage {
            cost: Some(MicroUsd(1)),
            cost_source: Some(CostSource::Reported),
            ..usage(9, 9, 0)
        };
        assert_eq!(reported.priced(Some(&PRICE)), reported);
    }
}
