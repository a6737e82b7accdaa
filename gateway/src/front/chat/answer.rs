//! The whole answer as one `chat.completion` object.
//!
//! What is not known is left out or null, never zero: a client that adds up zeros believes its bill.

use crate::front::finish::Finish;
use bytes::Bytes;
use events::id::RunId;
use events::message::{Message, Part};
use events::quantity::{Instant, Tokens};
use events::usage::Usage;
use serde::Serialize;

/// What every object and chunk of one answer says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// `chatcmpl-` and what names the answer.
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    /// The model that was asked for, or the one that served.
    pub model: String,
}

impl Head {
    /// The head of a run's answer.
    #[must_use]
    pub fn of(run: RunId, created: Instant, model: &str) -> Self {
        let id = format!("chatcmpl-{run}");
        Self { id, created: created.millis() / 1_000, model: model.to_owned() }
    }
}

/// The word of this API for how an answer ended.
pub(super) const fn word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
    }
}

/// The whole answer. Parts that this API has no place for (reasoning, images, opaque parts) are left out.
#[must_use]
pub fn whole(head: &Head, message: &Message, finish: Finish, usage: &Usage) -> Bytes {
    let answer = Answer {
        id: &head.id,
        object: "chat.completion",
        created: head.created,
        model: &head.model,
        choices: [Choice {
            index: 0,
            message: Said::of(message),
            logprobs: (),
            finish_reason: word(finish),
        }],
        usage: UsageWire::of(usage),
    };
    // Strings and integers only; serialising them can not fail.
    Bytes::from(serde_json::to_vec(&answer).unwrap_or_default())
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    usage: Option<UsageWire>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Said<'a>,
    logprobs: (),
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

impl<'a> Said<'a> {
    fn of(message: &'a Message) -> Self {
        let (mut content, mut refusal, mut tool_calls) =
            (None::<String>, None::<String>, Vec::new());
        for part in &message.parts {
            match part {
                Part::Text { text } => content.get_or_insert_default().push_str(text),
                Part::Refusal { text } => refusal.get_or_insert_default().push_str(text),
                Part::ToolCall(call) => tool_calls.push(Call {
                    id: &call.id,
                    kind: "function",
                    function: Function { name: &call.name, arguments: &call.arguments },
                }),
                Part::Image { .. }
                | Part::ToolResult(_)
                | Part::Reasoning { .. }
                | Part::Opaque(_) => (),
            }
        }
        if content.is_none() && refusal.is_none() && tool_calls.is_empty() {
            // Nothing said is an empty text; null would mean that there is something else to look at.
            content = Some(String::new());
        }
        Self { role: "assistant", content, refusal, tool_calls }
    }
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The usage object; there is one only when both sides of the sum are known.
#[derive(Serialize)]
pub(super) struct UsageWire {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Serialize)]
struct PromptDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl UsageWire {
    pub(super) fn of(usage: &Usage) -> Option<Self> {
        let (prompt, completion) = (usage.prompt?, usage.completion?);
        let cached_tokens = usage.cached_input.map(|Tokens(count)| count);
        let cache_write_tokens = usage.cache_write.map(|Tokens(count)| count);
        let prompt_details = PromptDetails { cached_tokens, cache_write_tokens };
        let is_known = cached_tokens.is_some() || cache_write_tokens.is_some();
        Some(Self {
            prompt_tokens: prompt.0,
            completion_tokens: completion.0,
            total_tokens: prompt.plus(completion).0,
            prompt_tokens_details: is_known.then_some(prompt_details),
            completion_tokens_details: usage
                .reasoning
                .map(|Tokens(reasoning_tokens)| CompletionDetails { reasoning_tokens }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::message::{Role, Seal, ToolCall};
    use serde_json::{Value, json};

    fn head() -> Head {
        let run: RunId = "run_050000000000000000000000000007".parse().unwrap();
        Head::of(run, Instant(1_764_528_000_999_999), "openai:gpt-5.1")
    }

    fn parts(parts: Vec<Part>) -> Message {
        Message { role: Role::Assistant, name: None, parts }
    }

    fn said(message: &Message) -> Value {
        let bytes = whole(&head(), message, Finish::Stop, &Usage::default());
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        answer["choices"][0]["message"].clone()
    }

    #[test]
    fn a_whole_answer_matches_its_golden_bytes() {
        let usage = Usage {
            prompt: Some(Tokens(20)),
            completion: Some(Tokens(7)),
            cached_input: Some(Tokens(16)),
            reasoning: Some(Tokens(4)),
            ..Usage::default()
        };
        let message = Message::text(Role::Assistant, "Line one.\n\"Line two\" é \u{1f9d7}");
        let bytes = whole(&head(), &message, Finish::Stop, &usage);
        assert_eq!(
            std::str::from_utf8(&bytes).unwrap(),
            include_str!("golden/whole.txt").trim_end()
        );
    }

    #[test]
    fn a_whole_answer_with_calls_matches_its_golden_bytes() {
        let call = |id: &str, name: &str, arguments: &str| {
            Part::ToolCall(ToolCall {
                id: id.into(),
                name: name.into(),
                arguments: arguments.into(),
            })
        };
        let calls =
            [call("call_1", "clock_now", "{}"), call("call_2", "note_append", "{\"text\":\"a\"}")];
        let message = parts(calls.into());
        let bytes = whole(&head(), &message, Finish::ToolCalls, &Usage::default());
        let golden = include_str!("golden/whole_calls.txt").trim_end();
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), golden);
    }

    #[test]
    fn text_parts_join_and_what_has_no_place_is_left_out() {
        let text = |text: &str| Part::Text { text: text.into() };
        let seal = || Seal {
            family: "f".into(),
            endpoint: "e".into(),
            profile: "p".into(),
            model: "m".into(),
        };
        let hidden = Part::Reasoning { text: "secret".into(), seal: seal(), sealed: None };
        let message = parts(vec![text("a"), hidden, text("b"), Part::Opaque(json!({"type": "x"}))]);
        assert_eq!(said(&message), json!({"role": "assistant", "content": "ab", "refusal": null}));
    }

    #[test]
    fn nothing_said_is_empty_text_and_a_refusal_has_no_content() {
        assert_eq!(said(&parts(vec![]))["content"], json!(""));
        let refusal = said(&parts(vec![Part::Refusal { text: "no".into() }]));
        assert_eq!((&refusal["content"], &refusal["refusal"]), (&Value::Null, &json!("no")));
    }

    #[test]
    fn usage_is_null_unless_both_sides_are_known_and_a_known_zero_is_one() {
        let usage = |usage: &Usage| serde_json::to_value(UsageWire::of(usage)).unwrap();
        assert_eq!(usage(&Usage::default()), Value::Null);
        let half = Usage { prompt: Some(Tokens(3)), ..Usage::default() };
        assert_eq!(usage(&half), Value::Null);
        let both = Usage { completion: Some(Tokens(0)), cached_input: Some(Tokens(0)), ..half };
        let expected = json!({"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 0}});
        assert_eq!(usage(&both), expected);
    }
}
