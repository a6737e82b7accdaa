//! Usage as Converse counts it: what was read from a cache and written to one is beside the input, not in it. A
//! number that is left out stays unknown.

use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::Value;

/// Takes over what this report says.
pub(super) fn merge(usage: &mut Usage, report: &Value) {
    let said = |name: &str| report.get(name).and_then(Value::as_u64);
    let (read, written) = (said("cacheReadInputTokens"), said("cacheWriteInputTokens"));
    if let Some(input) = said("inputTokens") {
        let cached = read.unwrap_or_default().saturating_add(written.unwrap_or_default());
        usage.prompt = Some(Tokens(input.saturating_add(cached)));
    }
    for (field, count) in [
        (&mut usage.completion, said("outputTokens")),
        (&mut usage.cached_input, read),
        (&mut usage.cache_write, written),
    ] {
        *field = count.map(Tokens).or(*field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(report: &Value) -> Usage {
        let mut usage = Usage::default();
        merge(&mut usage, report);
        usage
    }

    #[test]
    fn the_input_is_all_of_it() {
        let usage = of(&json!({
            "inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 7, "totalTokens": 122,
        }));
        let then = Usage {
            prompt: Some(Tokens(117)),
            completion: Some(Tokens(5)),
            cached_input: Some(Tokens(100)),
            cache_write: Some(Tokens(7)),
            ..Usage::default()
        };
        assert_eq!(usage, then);
    }

    #[test]
    fn zero_is_known_and_absence_is_not() {
        let usage =
            of(&json!({ "inputTokens": 3, "cacheReadInputTokens": 0, "outputTokens": null }));
        assert_eq!((usage.prompt, usage.cached_input), (Some(Tokens(3)), Some(Tokens(0))));
        assert_eq!((usage.completion, usage.cache_write, usage.reasoning), (None, None, None));
    }
}
