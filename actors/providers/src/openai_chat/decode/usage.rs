//! Usage as the family and its compatibles report it. A number that is not there stays unknown; a zero that is there
//! is a zero. Nothing is checked against anything: providers report more reasoning than output at times.

use crate::decimal::scaled;
use events::quantity::{MicroUsd, Tokens};
use events::usage::{CostSource, Usage};
use serde_json::Value;

/// Takes over what this report says; what it leaves out stays as it was. The last report wins, field by field.
pub(in crate::openai_chat) fn merge(usage: &mut Usage, report: &Value) {
    let tokens = |path: &[&str]| number(report, path, 0).map(Tokens);
    let take = |field: &mut Option<Tokens>, paths: &[&[&str]]| {
        if let Some(found) = paths.iter().find_map(|path| tokens(path)) {
            *field = Some(found);
        }
    };
    take(&mut usage.prompt, &[&["prompt_tokens"]]);
    take(&mut usage.completion, &[&["completion_tokens"]]);
    take(
        &mut usage.cached_input,
        &[
            &["prompt_tokens_details", "cached_tokens"],
            &["prompt_cache_hit_tokens"],
            &["cached_tokens"],
        ],
    );
    take(&mut usage.cache_write, &[&["prompt_tokens_details", "cache_write_tokens"]]);
    take(
        &mut usage.reasoning,
        &[&["completion_tokens_details", "reasoning_tokens"], &["reasoning_tokens"]],
    );
    // US dollars, as OpenRouter bills them.
    if let Some(cost) = number(report, &["cost"], 6) {
        usage.cost = Some(MicroUsd(cost));
        usage.cost_source = Some(CostSource::Reported);
    }
}

/// The number at a path, in units of 10^-`places`.
fn number(report: &Value, path: &[&str], places: i32) -> Option<u64> {
    let found = path.iter().try_fold(report, |value, name| value.get(name))?;
    scaled(&found.as_number()?.to_string(), places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(reports: &[Value]) -> Usage {
        let mut usage = Usage::default();
        for report in reports {
            merge(&mut usage, report);
        }
        usage
    }

    #[test]
    fn every_spelling_is_read() {
        let openai = of(&[json!({
            "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
            "prompt_tokens_details": { "cached_tokens": 900, "cache_write_tokens": 7 },
            "completion_tokens_details": { "reasoning_tokens": 25 },
        })]);
        assert_eq!(
            openai,
            Usage {
                prompt: Some(Tokens(1000)),
                completion: Some(Tokens(20)),
                cached_input: Some(Tokens(900)),
                cache_write: Some(Tokens(7)),
                reasoning: Some(Tokens(25)),
                ..Usage::default()
            }
        );
        let deepseek =
            of(&[json!({ "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 1 })]);
        assert_eq!(deepseek.cached_input, Some(Tokens(64)));
        assert_eq!(of(&[json!({ "cached_tokens": 3 })]).cached_input, Some(Tokens(3)));
    }

    #[test]
    fn a_cost_is_exact_and_reported() {
        let cost = |cost: Value| of(&[json!({ "cost": cost })]);
        assert_eq!(cost(json!(0.00123)).cost, Some(MicroUsd(1_230)));
        assert_eq!(cost(json!(1.5e-7)).cost, Some(MicroUsd(1)));
        assert_eq!(cost(json!(0)).cost, Some(MicroUsd(0)));
        assert_eq!(cost(json!(0)).cost_source, Some(CostSource::Reported));
        assert_eq!(cost(json!(null)), Usage::default());
        assert_eq!(cost(json!(-1)), Usage::default());
    }

    #[test]
    fn zero_is_known_and_absence_is_not() {
        let usage =
            of(&[json!({ "prompt_tokens": 0, "prompt_tokens_details": { "cached_tokens": 0 } })]);
        assert_eq!((usage.prompt, usage.cached_input), (Some(Tokens(0)), Some(Tokens(0))));
        assert_eq!((usage.completion, usage.reasoning, usage.cost), (None, None, None));
    }

    #[test]
    fn the_last_report_wins_and_erases_nothing() {
        let first = json!({ "prompt_tokens": 5, "completion_tokens": 1 });
        let last =
            json!({ "prompt_tokens": 5, "completion_tokens": 9, "prompt_tokens_details": null });
        let usage =
            of(&[first, last, Value::Null, json!("odd"), json!({ "completion_tokens": "many" })]);
        assert_eq!((usage.prompt, usage.completion), (Some(Tokens(5)), Some(Tokens(9))));
    }
}
