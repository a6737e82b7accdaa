//! What is played is what is decoded, in every split; a cut gives nothing; what is refused is classified as it was meant;
//! what is encoded is heard.

use super::*;
use crate::class::{Class, Reply, classify, classify_inside};
use crate::decode::shredder::{Reading, endpoint, read, shown_calls};
use crate::decode::{Fault, Progress};
use crate::delta::Stop;
use crate::family::Mode;
use bytes::Bytes;
use events::json::Json;
use events::message::{Message, Part as Said, Role, ToolCall};
use events::prompt::{Catalogue, Params, Request};
use events::quantity::{Instant, MicroUsd, Millis, Tokens};
use events::usage::{CostSource, Usage};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Answers of each family that are played.
const ANSWERS: u64 = 60;
/// Bytes of a stream that is split and cut at every byte; a longer one is at every some.
const SHORT: usize = 1_000;
/// 2026-11-30T18:00:00Z.
const NOW: Instant = Instant(1_796_061_600_000_000);

/// Chance that can be had again: xorshift.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    fn text(&mut self) -> String {
        let words = [
            "a ",
            "héllo ",
            "日本",
            "🦀 ",
            "line\nfeed ",
            "\"quoted\" ",
            "data: {} ",
            "[DONE]",
            "\\ ",
            "\r\n",
            "\u{2028}",
            "event: error\n\n",
            "\u{0}",
            "</s>",
        ];
        (0..=self.below(5)).map(|_| self.one_of(&words)).collect::<String>() + "x"
    }

    fn arguments(&mut self) -> String {
        let all = [
            "{}",
            r#"{"city":"Tōkyō"}"#,
            "{\"a\": 1.50,\n \"b\": [true, null]}",
            r#"{"text":"}{ \" [DONE]\n data: x","n":-0.10e3}"#,
            r#"{"deep":{"er":{"est":"🦀"}}}"#,
        ];
        self.one_of(&all).to_owned()
    }

    fn maybe(&mut self) -> Option<Tokens> {
        (self.below(4) > 0).then(|| Tokens(self.below(5_000)))
    }

    /// Usage that the family has words for.
    fn usage(&mut self, family: Family) -> Usage {
        if self.below(5) == 0 {
            return Usage::default();
        }
        let mut usage = Usage { prompt: Some(Tokens(10_000)), ..Usage::default() };
        usage.cached_input = self.maybe();
        usage.completion = self.maybe().map(|Tokens(n)| Tokens(n + 5_000));
        if family != Family::Gemini {
            usage.cache_write = self.maybe();
        }
        if family != Family::Bedrock && usage.completion.is_some() {
            usage.reasoning = self.maybe();
        }
        if family == Family::OpenaiChat && self.below(3) == 0 {
            usage.cost = Some(MicroUsd(self.below(3_000_000)));
            usage.cost_source = Some(CostSource::Reported);
        }
        usage
    }

    fn thought(&mut self, family: Family) -> Said {
        let seal = endpoint(family).seal("m");
        let text = self.text();
        let sealed = match (family, self.below(3)) {
            (Family::AnthropicMessages, 0) => {
                let sealed = Some(r#"{"type":"redacted_thinking","data":"Ab+/=="}"#.to_owned());
                return Said::Reasoning { text: String::new(), seal, sealed };
            }
            (Family::Bedrock, 0) => {
                let sealed = Some(r#"{"redactedContent":"QUJD"}"#.to_owned());
                return Said::Reasoning { text: String::new(), seal, sealed };
            }
            (Family::OpenaiResponses | Family::Bedrock | Family::Gemini, 1) => None,
            (_, _) => sealed(family, &text, "Sig+/=="),
        };
        Said::Reasoning { text, seal, sealed }
    }

    /// An answer that the family has a form for.
    fn answer(&mut self, family: Family) -> Answer {
        let mut parts = Vec::new();
        if family == Family::OpenaiChat {
            let seal = endpoint(family).seal("m");
            let thought = Said::Reasoning { text: self.text(), seal, sealed: None };
            parts.extend((self.below(2) == 0).then_some(thought));
            parts.extend((self.below(3) > 0).then(|| Said::Text { text: self.text() }));
            parts.extend((self.below(5) == 0).then(|| Said::Refusal { text: self.text() }));
        } else {
            for _ in 0..self.below(4) {
                let next = if self.below(2) == 0 {
                    self.thought(family)
                } else {
                    Said::Text { text: self.text() }
                };
                // What stands together unsigned is one part there.
                let same =
                    |last: &Said| std::mem::discriminant(last) == std::mem::discriminant(&next);
                if family != Family::Gemini || !parts.last().is_some_and(same) {
                    parts.push(next);
                }
            }
        }
        let calls = [0, 0, 1, 2, 3][usize::try_from(self.below(5)).unwrap()];
        for at in 0..calls {
            if family == Family::Gemini && self.below(2) == 0 {
                let seal = endpoint(family).seal("m");
                let sealed = sealed(family, "", "Sig/==");
                parts.push(Said::Reasoning { text: String::new(), seal, sealed });
            }
            let name = self.one_of(&["clock_now", "note_append"]).to_owned();
            let call = ToolCall { id: format!("call_{at}"), name, arguments: self.arguments() };
            parts.push(Said::ToolCall(call));
        }
        let stop = match self.below(5) {
            0 => Stop::Length,
            1 => Stop::ContentFilter,
            2 if calls == 0 && family != Family::OpenaiResponses => Stop::Other("odd_word".into()),
            _ if calls > 0 => Stop::ToolCalls,
            _ => Stop::End,
        };
        let named = |text: &str| (family != Family::Bedrock).then(|| text.to_owned());
        Answer {
            message: Message { role: Role::Assistant, name: None, parts },
            stop,
            usage: self.usage(family),
            served_model: named("m-1"),
            request_id: named("id_1"),
        }
    }

    fn pieces(&mut self) -> Pieces {
        match self.below(4) {
            0 => Pieces::Words,
            size => Pieces::Bytes(usize::try_from(size * size * size).unwrap()),
        }
    }
}

fn step(length: usize) -> usize {
    if length <= SHORT { 1 } else { length / 16 + 1 }
}

fn bytes(frames: &[Frame]) -> Vec<u8> {
    frames.iter().flat_map(|frame| frame.bytes.clone()).collect()
}

/// The texts and the arguments that somebody puts together who only sees the deltas.
fn shown(reading: &Reading, answer: &Answer) {
    let calls: Vec<_> = answer
        .message
        .calls()
        .map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()))
        .collect();
    assert_eq!(shown_calls(&reading.deltas), calls);
    let text = |parts: &[Said]| -> String {
        parts
            .iter()
            .filter_map(|part| match part {
                Said::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    };
    let said = reading.deltas.iter().filter_map(|delta| match delta {
        crate::Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(said.collect::<String>(), text(&answer.message.parts));
}

#[test]
fn what_is_played_is_what_is_decoded_however_it_is_split() {
    for family in Family::ALL {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        for round in 0..ANSWERS {
            let answer = chance.answer(family);
            let frames = stream(family, &answer, chance.pieces());
            let bytes = bytes(&frames);
            let whole = read(family, &[&bytes]);
            assert_eq!(whole.result.as_ref(), Ok(&answer), "{family:?} {round}");
            shown(&whole, &answer);
            let step = step(bytes.len());
            for at in (0..=bytes.len()).step_by(step) {
                let (head, tail) = bytes.split_at(at);
                assert_eq!(read(family, &[head, tail]), whole, "{family:?} {round}: at {at}");
            }
            for size in [1, 3, 64] {
                let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
                assert_eq!(read(family, &pieces), whole, "{family:?} {round}: {size} at a time");
            }
        }
    }
}

#[test]
fn what_is_cut_before_its_end_is_truncated_and_gives_no_call_and_what_is_cut_behind_it_is_whole() {
    for family in Family::ALL {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        for round in 0..ANSWERS {
            let answer = chance.answer(family);
            let frames = stream(family, &answer, chance.pieces());
            let before = frames.iter().take_while(|frame| frame.part != Part::Ends);
            let says: usize = before.map(|frame| frame.bytes.len()).sum();
            let ends = frames.iter().find(|frame| frame.part == Part::Ends).unwrap();
            let ended = says + ends.bytes.len();
            let bytes = bytes(&frames);
            for at in (0..says).step_by(step(bytes.len())) {
                let result = read(family, &[&bytes[..at]]).result;
                assert_eq!(result, Err(Fault::Truncated), "{family:?} {round}: cut at {at}");
            }
            if family == Family::AnthropicMessages {
                // It has a terminal event behind the one that says why it stopped.
                continue;
            }
            for at in (ended..=bytes.len()).step_by(7) {
                let result = read(family, &[&bytes[..at]]).result.unwrap();
                assert_eq!(result.message, answer.message, "{family:?} {round}: cut at {at}");
            }
        }
    }
}

#[test]
fn an_end_that_is_said_twice_changes_nothing() {
    for family in Family::ALL {
        let mut chance = Chance(7);
        for _ in 0..ANSWERS {
            let answer = chance.answer(family);
            let frames = stream(family, &answer, Pieces::Words);
            let again = frames.iter().filter(|frame| frame.part == Part::Ends);
            let twice: Vec<Frame> = frames.iter().chain(again).cloned().collect();
            assert_eq!(read(family, &[&bytes(&twice)]).result.as_ref(), Ok(&answer), "{family:?}");
        }
    }
}

#[test]
fn an_answer_that_is_played_whole_is_the_same() {
    for family in Family::ALL {
        let mut chance = Chance(0x5851_f42d_4c95_7f2d);
        for round in 0..ANSWERS {
            let answer = chance.answer(family);
            let mut decoder = family.decoder(Bytes::from_static(b"request"));
            decoder.body(whole(family, &answer).as_bytes()).unwrap();
            let seal = endpoint(family).seal("m");
            let result = decoder.finish(seal, None, &mut |_| ());
            assert_eq!(result.as_ref(), Ok(&answer), "{family:?} {round}");
        }
    }
}

/// The classes that a provider says, of a family's own refusals.
fn said() -> impl Iterator<Item = Class> {
    Class::ALL.into_iter().filter(|class| {
        !matches!(
            class,
            Class::Transport | Class::Tls | Class::StreamTruncated | Class::StreamError
        )
    })
}

fn read_back(refused: &Refused) -> crate::Failure {
    let pairs = refused.headers.iter().map(|(name, value)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    });
    let headers: HeaderMap = pairs.collect();
    let body = refused.body.as_bytes();
    classify(&Reply { status: refused.status, headers: &headers, body, now: Some(NOW) }, None)
}

#[test]
fn what_is_refused_is_read_as_the_class_that_was_meant_and_its_hint_wherever_it_hides() {
    for family in Family::ALL {
        for class in said() {
            let refused = refuse(family, &Complaint::of(class), NOW);
            let failure = read_back(&refused);
            assert_eq!((failure.class, failure.hint), (class, None), "{family:?} {refused:?}");
            for place in Place::ALL {
                let hint = Some((Millis(90_000), place));
                let complaint = Complaint { hint, words: "drill".into(), ..Complaint::of(class) };
                let refused = refuse(family, &complaint, NOW);
                let failure = read_back(&refused);
                let found = (failure.class, failure.hint);
                assert_eq!(
                    found,
                    (class, Some(Millis(90_000))),
                    "{family:?} {place:?} {refused:?}"
                );
                assert!(failure.message.starts_with("drill"), "{}", failure.message);
            }
        }
    }
    let prose = Some((Millis(1_250), Place::Prose));
    let complaint = Complaint { hint: prose, ..Complaint::of(Class::RateLimited) };
    let refused = refuse(Family::AnthropicMessages, &complaint, NOW);
    assert!(refused.body.contains("Please try again in 1.250s"), "{}", refused.body);
}

#[test]
fn an_error_inside_a_stream_is_read_as_an_error_and_never_as_an_answer() {
    let headers = HeaderMap::new();
    let reply = Reply { status: 200, headers: &headers, body: b"", now: None };
    for family in Family::ALL {
        let mut chance = Chance(3);
        for class in [Class::RateLimited, Class::Overloaded, Class::ServerError, Class::Timeout] {
            let answer = chance.answer(family);
            let mut frames = stream(family, &answer, Pieces::Words);
            frames.retain(|frame| frame.part != Part::Ends);
            frames.extend(break_off(family, &Complaint::of(class), NOW));
            let Err(Fault::Reported { error, began }) = read(family, &[&bytes(&frames)]).result
            else {
                panic!("{family:?} {class:?}")
            };
            let failure = classify_inside(&error, &reply, began, None);
            // Google's twins name the status and nothing else, and an error inside has none of its own.
            assert_eq!(failure.class, class, "{family:?} {error}");
        }
    }
}

/// A conversation with two calls that were answered.
fn conversation() -> [Message; 5] {
    let text = |role, text| Message::text(role, text);
    let call = |id: &str, name: &str, arguments: &str| {
        Said::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() })
    };
    let parts = vec![
        Said::Text { text: "so".into() },
        call("call_a", "clock_now", "{}"),
        call("call_b", "note_append", r#"{"text":"é"}"#),
    ];
    let result = |id: &str, content: &str| Message::tool_result(id, content.to_owned());
    [
        text(Role::System, "be brief"),
        text(Role::User, "both: é"),
        Message { role: Role::Assistant, name: None, parts },
        result("call_a", r#"{"now":"noon"}"#),
        result("call_b", "written"),
    ]
}

#[test]
fn what_is_encoded_is_heard() {
    let tools = r#"[{"name":"clock_now","parameters":{"type":"object"}},{"name":"note_append"}]"#;
    let request = Request {
        model: "m:1/x".into(),
        tools: Catalogue::new(Json::from_bytes(tools.as_bytes())),
        messages: conversation().iter().map(Message::body).collect(),
        params: Params { output_max: Some(Tokens(64)), extra: Json::default() },
    };
    for family in Family::ALL {
        for mode in [Mode::Stream, Mode::Whole] {
            let endpoint = endpoint(family);
            let body = family.encode(&endpoint, &request, mode).unwrap();
            let url = family.ask_url(&endpoint, &request.model, mode);
            assert_eq!(family_at(url.path()), Some(family), "{url}");
            let heard = hear(family, url.path(), &body).unwrap();
            assert_eq!((heard.model.as_str(), heard.mode), ("m:1/x", mode), "{family:?}");
            assert_eq!(heard.tools, ["clock_now", "note_append"], "{family:?}");
            assert_eq!(heard.output_max, Some(Tokens(64)), "{family:?}");
            assert!(heard.may_call && heard.may_call_many);
            assert!(heard.wants_usage || mode == Mode::Whole, "{family:?}");
            let said = heard.messages.iter().map(|message| (message.role, message.plain()));
            let plain: Vec<(Role, String)> = said.filter(|(_, text)| !text.is_empty()).collect();
            let then =
                [(Role::System, "be brief"), (Role::User, "both: é"), (Role::Assistant, "so")];
            assert_eq!(plain, then.map(|(role, text)| (role, text.to_owned())), "{family:?}");
            let results = heard.messages.iter().flat_map(Message::results);
            let results: Vec<&str> = results.map(|result| result.content.as_str()).collect();
            assert_eq!(results, [r#"{"now":"noon"}"#, "written"], "{family:?}");
            let calls = heard.messages.iter().flat_map(Message::calls);
            let calls: Vec<(&str, &str)> =
                calls.map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            let then = [("clock_now", "{}"), ("note_append", r#"{"text":"é"}"#)];
            assert_eq!(calls, then, "{family:?}");
        }
    }
}

#[test]
fn what_can_not_be_heard_names_its_field() {
    let field =
        |family, body: &str| hear(family, "/model/m/converse", body.as_bytes()).unwrap_err().field;
    assert_eq!(field(Family::OpenaiChat, "no"), "body");
    assert_eq!(field(Family::OpenaiChat, r#"{"messages":[]}"#), "model");
    assert_eq!(field(Family::AnthropicMessages, r#"{"model":"m"}"#), "messages");
    assert_eq!(field(Family::OpenaiResponses, r#"{"model":"m"}"#), "input");
    assert_eq!(field(Family::Gemini, "{}"), "contents");
    assert_eq!(field(Family::Bedrock, "{}"), "messages");
    assert_eq!(family_at("/v1/embeddings"), None);
}

#[test]
fn a_text_is_torn_without_loss_and_never_within_a_character() {
    for text in ["", "a", "héllo 日本🦀 x ", "{}"] {
        for pieces in [Pieces::Words, Pieces::Bytes(0), Pieces::Bytes(1), Pieces::Bytes(5)] {
            assert_eq!(pieces.of(text).concat(), text);
            assert_eq!(pieces.of_arguments(text).concat(), text);
            assert!(pieces.of(text).iter().all(|piece| !piece.is_empty()));
        }
    }
    assert_eq!(Pieces::Words.of_arguments("{\"a\":1}"), ["{\"a\"", ":1}"]);
    assert_eq!(event("x", "{\n}"), b"event: x\ndata: {\ndata: }\n\n");
    let progress = Family::OpenaiChat.decoder(Bytes::new()).feed(&event("", "[DONE]"), &mut |_| ());
    assert_eq!(progress, Ok(Progress::Done));
}
