//! Usage as the family reports it: the input without what a cache gave or took, so the full input is a sum. Reports
//! are cumulative and repeat only some fields; the last one wins, field by field.

use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::Value;

/// What was reported so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl Counts {
    /// Takes over what this report says; what it leaves out stays as it was.
    pub(super) fn merge(&mut self, report: Option<&Value>) {
        let Some(report) = report else { return };
        let take = |field: &mut Option<u64>, value: Option<&Value>| {
            if let Some(found) = value.and_then(Value::as_u64) {
                *field = Some(found);
            }
        };
        take(&mut self.input, report.get("input_tokens"));
        take(&mut self.cache_read, report.get("cache_read_input_tokens"));
        take(&mut self.cache_write, report.get("cache_creation_input_tokens"));
        take(&mut self.output, report.get("output_tokens"));
        let details = report.get("output_tokens_details");
        take(&mut self.thinking, details.and_then(|details| details.get("thinking_tokens")));
    }

    pub(super) fn usage(&self) -> Usage {
        let cached = [self.cache_read, self.cache_write].into_iter().flatten();
        let prompt = self.input.map(|input| cached.fold(input, u64::saturating_add));
        Usage {
            prompt: prompt.map(Tokens),
            completion: self.output.map(Tokens),
            cached_input: self.cache_read.map(Tokens),
            cache_write: self.cache_write.map(Tokens),
            reasoning: self.thinking.map(Tokens),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(reports: &[Value]) -> Usage {
        let mut counts = Counts::default();
        reports.iter().for_each(|report| counts.merge(Some(report)));
        counts.usage()
    }

    #[test]
    fn the_prompt_is_the_full_input_and_the_last_report_wins() {
        let start = json!({ "input_tokens": 9, "cache_creation_input_tokens": 4202,
            "cache_read_input_tokens": 100, "output_tokens": 1 });
        let last = json!({ "output_tokens": 5, "cache_read_input_tokens": null,
            "output_tokens_details": { "thinking_tokens": 3 } });
        let usage = of(&[start, last]);
        assert_eq!(usage.prompt, Some(Tokens(4_311)));
        assert_eq!(
            (usage.cached_input, usage.cache_write),
            (Some(Tokens(100)), Some(Tokens(4_202)))
        );
        assert_eq!((usage.completion, usage.reasoning), (Some(Tokens(5)), Some(Tokens(3))));
    }

    #[test]
    fn zero_is_known_and_absence_is_not() {
        assert_eq!(of(&[json!({}), json!(null), json!("odd")]), Usage::default());
        let some = of(&[json!({ "input_tokens": 0, "cache_read_input_tokens": 0 })]);
        assert_eq!((some.prompt, some.cached_input), (Some(Tokens(0)), Some(Tokens(0))));
        assert_eq!((some.completion, some.cache_write), (None, None));
        assert_eq!(of(&[json!({ "output_tokens": 4 })]).prompt, None, "half of a sum is no sum");
        let most = json!({ "input_tokens": u64::MAX, "cache_read_input_tokens": 1 });
        assert_eq!(of(&[most]).prompt, Some(Tokens(u64::MAX)));
    }
}
