//! What is left out of a request that a provider refused, so that it is asked once more for less.
//!
//! The neutral request that an intent names stays whole: this is taken out of a copy on its way to the wire, and stands
//! in the record of the attempt that made it necessary. A context that is folded is another request: its intent names it.

use super::{Failed, Mend};
use crate::json::Json;
use crate::message::{Body, Part};
use crate::prompt::{Catalogue, Request};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What is left out of the request to one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Without {
    /// Whether reasoning is replayed.
    pub reasoning: Reasoning,
    /// The most tools that are offered; all of them when `None`.
    pub tools_max: Option<u32>,
    /// The bytes of tools and messages beyond which the conversation is folded, learnt of a refusal.
    pub bytes_max: Option<u64>,
    /// Whether it was folded for a refusal in this step: it is not twice.
    pub folded: bool,
}

/// Whether reasoning is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Reasoning {
    /// As it came.
    #[default]
    Replayed,
    /// Left out.
    Dropped,
}

impl Without {
    /// What a step begins with after another one that asked the same candidate: what was learnt of that one holds on.
    pub(super) fn learnt(self) -> Self {
        Self { tools_max: self.tools_max, bytes_max: self.bytes_max, ..Self::default() }
    }

    /// This, and what a mend leaves out; `None` when that is left out already or can not be.
    pub(super) fn and(self, mend: Mend, failed: &Failed) -> Option<Self> {
        match mend {
            Mend::WithoutReasoning if self.reasoning == Reasoning::Replayed => {
                Some(Self { reasoning: Reasoning::Dropped, ..self })
            }
            Mend::FewerTools if self.tools_max.is_none() => {
                failed.tools_max.map(|max| Self { tools_max: Some(max), ..self })
            }
            Mend::FoldedContext if !self.folded => {
                failed.bytes_max.map(|max| Self { bytes_max: Some(max), folded: true, ..self })
            }
            Mend::WithoutReasoning | Mend::FewerTools | Mend::FoldedContext => None,
        }
    }

    /// The request without it.
    #[must_use]
    pub fn of(self, mut request: Request) -> Request {
        if self.reasoning == Reasoning::Dropped {
            request.messages = request.messages.into_iter().filter_map(unreasoned).collect();
        }
        if let Some(max) = self.tools_max {
            request.tools = first(request.tools, usize::try_from(max).unwrap_or(usize::MAX));
        }
        request
    }
}

/// A message without its reasoning; none when it was nothing else. One that can not be read stays as it is: the encoder
/// says what is wrong with it.
fn unreasoned(body: Body) -> Option<Body> {
    let Ok(mut message) = body.message() else { return Some(body) };
    let before = message.parts.len();
    message.parts.retain(|part| !matches!(part, Part::Reasoning { .. }));
    if message.parts.len() == before {
        return Some(body);
    }
    (!message.parts.is_empty()).then(|| message.body())
}

fn first(tools: Catalogue, max: usize) -> Catalogue {
    let all: Vec<&RawValue> = match serde_json::from_slice(tools.json().as_bytes()) {
        Ok(all) => all,
        Err(_) => return tools,
    };
    let kept: Vec<&str> = all.iter().take(max).map(|tool| tool.get()).collect();
    Catalogue::new(Json::from_bytes(format!("[{}]", kept.join(",")).as_bytes()))
}

/// The most tools that a provider takes, by its own words: the largest number in them that is smaller than `offered`.
#[must_use]
pub fn tools_max(words: &str, offered: usize) -> Option<u32> {
    let numbers =
        words.split(|sign: char| !sign.is_ascii_digit()).filter_map(|text| text.parse().ok());
    let smaller =
        |number: &u32| *number > 0 && usize::try_from(*number).is_ok_and(|one| one < offered);
    numbers.filter(smaller).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, Role, Seal};
    use crate::prompt::Params;

    fn request() -> Request {
        let seal = Seal {
            family: "f".into(),
            endpoint: "e".into(),
            profile: String::new(),
            model: "m".into(),
        };
        let thought = Part::Reasoning { text: "hm".into(), seal, sealed: Some("{}".into()) };
        let said = Part::Text { text: "yes".into() };
        let of = |parts| Message { role: Role::Assistant, name: None, parts }.body();
        Request {
            model: "m".into(),
            tools: Catalogue::new(Json::from_bytes(br#"[{"name":"a"},{"name":"b"},{"name":"c"}]"#)),
            messages: vec![
                Message::text(Role::User, "hi").body(),
                of(vec![thought.clone(), said.clone()]),
                of(vec![thought]),
            ],
            params: Params::default(),
        }
    }

    #[test]
    fn only_what_was_refused_is_left_out() {
        assert_eq!(Without::default().of(request()), request());
        let without = Without { reasoning: Reasoning::Dropped, ..Without::default() }.of(request());
        let said = [Message::text(Role::User, "hi"), Message::text(Role::Assistant, "yes")];
        assert_eq!(without.messages, said.map(|message| message.body()));
        assert_eq!(without.tools, request().tools);
        let fewer = Without { tools_max: Some(2), ..Without::default() }.of(request());
        assert_eq!(fewer.tools.json().as_bytes(), br#"[{"name":"a"},{"name":"b"}]"#);
        assert_eq!(fewer.messages, request().messages);
    }

    #[test]
    fn a_cap_is_learned_from_the_providers_words() {
        let openai = "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200 instead.";
        assert_eq!(tools_max(openai, 200), Some(128));
        assert_eq!(tools_max("Too many tools: at most 64", 70), Some(64));
        assert_eq!(tools_max("Too many tools: at most 64", 64), None, "it would be asked the same");
        assert_eq!(tools_max("too many tools", 70), None);
        assert_eq!(tools_max("99999999999999999999 is too many, 0 too few", 70), None);
    }
}
