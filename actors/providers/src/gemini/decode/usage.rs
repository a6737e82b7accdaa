//! Usage as Gemini counts it: the thoughts are beside the output, the tools' own prompts beside the input. A number
//! that is left out stays unknown, and the last report wins, number by number.

use events::quantity::Tokens;
use events::usage::Usage;
use serde_json::Value;

#[derive(Debug, Default)]
pub(super) struct Counts {
    prompt: Option<u64>,
    tools: Option<u64>,
    cached: Option<u64>,
    output: Option<u64>,
    thoughts: Option<u64>,
}

impl Counts {
    pub(super) fn merge(&mut self, report: &Value) {
        for (count, name) in [
            (&mut self.prompt, "promptTokenCount"),
            (&mut self.tools, "toolUsePromptTokenCount"),
            (&mut self.cached, "cachedContentTokenCount"),
            (&mut self.output, "candidatesTokenCount"),
            (&mut self.thoughts, "thoughtsTokenCount"),
        ] {
            if let Some(said) = report.get(name).and_then(Value::as_u64) {
                *count = Some(said);
            }
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let both = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            (one, other) => {
                Some(Tokens(one.unwrap_or_default().saturating_add(other.unwrap_or_default())))
            }
        };
        Usage {
            // Without the prompt's own count the input is not known.
            prompt: self.prompt.and_then(|prompt| both(Some(prompt), self.tools)),
            completion: both(self.output, self.thoughts),
            cached_input: self.cached.map(Tokens),
            reasoning: self.thoughts.map(Tokens),
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
        reports.iter().for_each(|report| counts.merge(report));
        counts.usage()
    }

    #[test]
    fn thoughts_are_output_and_the_prompts_of_tools_are_input() {
        let usage = of(&[json!({
            "promptTokenCount": 100, "toolUsePromptTokenCount": 7, "cachedContentTokenCount": 64,
            "candidatesTokenCount": 20, "thoughtsTokenCount": 30, "totalTokenCount": 157,
        })]);
        let then = Usage {
            prompt: Some(Tokens(107)),
            completion: Some(Tokens(50)),
            cached_input: Some(Tokens(64)),
            reasoning: Some(Tokens(30)),
            ..Usage::default()
        };
        assert_eq!(usage, then);
    }

    #[test]
    fn zero_is_known_absence_is_not_and_the_last_report_wins() {
        assert_eq!(of(&[json!({ "totalTokenCount": 5 })]), Usage::default());
        let zero = of(&[
            json!({ "promptTokenCount": 3, "candidatesTokenCount": 0, "cachedContentTokenCount": 0 }),
        ]);
        assert_eq!((zero.completion, zero.cached_input), (Some(Tokens(0)), Some(Tokens(0))));
        assert_eq!(zero.reasoning, None);
        let first = json!({ "promptTokenCount": 55, "candidatesTokenCount": 4 });
        let last = json!({ "promptTokenCount": 257, "thoughtsTokenCount": 2, "candidatesTokenCount": "many" });
        let usage = of(&[first, last, Value::Null]);
        assert_eq!((usage.prompt, usage.completion), (Some(Tokens(257)), Some(Tokens(6))));
    }
}
