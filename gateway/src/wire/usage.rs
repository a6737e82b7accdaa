//! Usage and cost on the wire. What is unknown is `null`, never zero, and a sum over unknowns is marked a lower bound.

use events::quantity::{MicroUsd, Tokens};
use events::usage::{CostSource, Total, Usage};
use serde_json::{Value, json};

/// Dollars as a JSON number with at most six decimals.
#[must_use]
pub fn dollars(amount: Option<MicroUsd>) -> Value {
    // The text of a decimal with six places parses to the nearest double and prints back the same.
    amount.map_or(Value::Null, |amount| {
        amount.to_string().parse::<f64>().map_or(Value::Null, Value::from)
    })
}

fn tokens(count: Option<Tokens>) -> Value {
    count.map_or(Value::Null, |count| Value::from(count.0))
}

/// One call.
#[must_use]
pub fn call(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": tokens(usage.prompt),
        "completion_tokens": tokens(usage.completion),
        "cached_input_tokens": tokens(usage.cached_input),
        "cache_write_tokens": tokens(usage.cache_write),
        "reasoning_tokens": tokens(usage.reasoning),
        "cost_usd": dollars(usage.cost),
        "cost_source": usage.cost_source.map(|source| match source {
            CostSource::Reported => "reported",
            CostSource::Table => "table",
        }),
    })
}

/// What was seen of a call that did not come to its end: at least this much. `null` where nothing was.
#[must_use]
pub fn partial(usage: &Usage) -> Value {
    if *usage == Usage::default() { Value::Null } else { call(usage) }
}

/// A sum.
#[must_use]
pub fn total(total: &Total) -> Value {
    json!({
        "calls": total.calls,
        "calls_without_usage": total.calls_without_usage,
        "calls_unpriced": total.calls_unpriced,
        "calls_subscription": total.calls_subscription,
        "billing": total.billing(),
        "calls_unknown": total.calls_unknown,
        "prompt_tokens": total.prompt.0,
        "completion_tokens": total.completion.0,
        "cached_input_tokens": total.cached_input.0,
        "cache_write_tokens": total.cache_write.0,
        "reasoning_tokens": total.reasoning.0,
        "cost_usd": dollars(total.cost),
        "cost_unknown_at_most_usd": dollars(total.cost_upper),
        "lower_bound": total.is_lower_bound(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_null_and_zero_is_zero() {
        assert_eq!(dollars(None), Value::Null);
        assert_eq!(dollars(Some(MicroUsd(0))), json!(0.0));
        assert_eq!(dollars(Some(MicroUsd(1_234_567))).to_string(), "1.234567");
        assert_eq!(call(&Usage::default())["prompt_tokens"], Value::Null);
        assert_eq!(partial(&Usage::default()), Value::Null);
        let seen = Usage { prompt: Some(Tokens(7)), ..Usage::default() };
        assert_eq!(partial(&seen)["prompt_tokens"], 7);
    }
}
