//! What a script that talks says to a conversation: a pure function of the request, so that a repeat gives the same
//! answer.

use super::HELP;
use super::fault::Wrong;
use super::schedule::STRIKES;
use events::message::{Message, Part, Role};
use providers::play::Heard;
use serde_json::json;

/// How every answer begins. First, so that an answer that is cut short says it too.
pub(super) const SIGN: &str = "[scripted demo]";
/// Characters of the caller's text that an answer repeats: 2,000, a screenful.
const ECHO_CHARS_MAX: usize = 2_000;
/// Words of `slow`: 2,400, two minutes of them.
const SLOW_WORDS_MAX: usize = 2_400;

const CLOCK: &str = "clock_now";
const NOTE: &str = "note_append";

/// What it does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spoken {
    /// Says a text.
    Say(String),
    /// Says a text with a pause after each word.
    SaySlowly(String),
    /// Makes calls, in this order.
    Call(Vec<Call>),
    /// Fails, unless this text has failed often enough.
    Fail {
        /// As it was asked for.
        word: String,
        wrong: Wrong,
        often: Often,
    },
}

/// How often a text fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Often {
    /// Until it has failed often enough.
    Strikes,
    /// Every time.
    Always,
}

/// A call that the script makes; its id comes from the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// The next turn of a conversation.
pub(super) fn turn(heard: &Heard) -> Spoken {
    let Some(at) = heard.messages.iter().rposition(|message| message.role == Role::User) else {
        return Spoken::Say(format!("{SIGN} There is no user message to answer."));
    };
    let (_, since) = heard.messages.split_at_checked(at).unwrap_or_default();
    let text = since.first().map(Message::plain).unwrap_or_default();
    match Wish::read(text.trim()) {
        Wish::Say(text) => Spoken::Say(format!("{SIGN} {text}")),
        Wish::Slow(words) => Spoken::SaySlowly(count(words)),
        Wish::Fail(word, wrong, often) => Spoken::Fail { word, wrong, often },
        Wish::Call(calls) => call(heard, calls, since),
    }
}

/// The text of the last user message; the fault schedule counts by it.
pub(super) fn last_text(heard: &Heard) -> String {
    let last = heard.messages.iter().rev().find(|message| message.role == Role::User);
    last.map(Message::plain).unwrap_or_default()
}

/// What it says when a fault has struck often enough.
pub(super) fn recovered(word: &str) -> String {
    format!("{SIGN} After {STRIKES} calls that failed ({word}), this one succeeds.")
}

/// What it says when a fault is asked of the model that never fails.
pub(super) fn spared(model: &str) -> String {
    format!("{SIGN} {model} never fails; ask demo for that.")
}

/// What a user message asks for.
enum Wish {
    Say(String),
    Slow(usize),
    Fail(String, Wrong, Often),
    Call(Vec<Call>),
}

impl Wish {
    fn read(text: &str) -> Self {
        let lower = text.to_lowercase();
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        if lower == "help" {
            return Self::Say(HELP.trim_end().to_owned());
        }
        if lower.trim_end_matches(['?', '!', '.']) == "clock" || lower.contains("what time") {
            return Self::Call(vec![clock()]);
        }
        if let Some(noted) = after(text, "note:") {
            return Self::Call(vec![note(noted)]);
        }
        if let Some(noted) = after(text, "both:") {
            return Self::Call(vec![clock(), note(noted)]);
        }
        match first.to_lowercase().as_str() {
            "tool" if !rest.is_empty() => Self::tool(rest),
            "slow" => rest.parse().map_or_else(|_| Self::echo(text), Self::Slow),
            how @ ("fail" | "always") => {
                let word = rest.split_whitespace().next().unwrap_or_default();
                let often = if how == "always" { Often::Always } else { Often::Strikes };
                let fail = |wrong| Self::Fail(word.to_owned(), wrong, often);
                Wrong::named(word).map_or_else(|| Self::echo(text), fail)
            }
            _ => Self::echo(text),
        }
    }

    fn tool(rest: &str) -> Self {
        let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let arguments = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
        Self::Call(vec![Call { name: name.to_owned(), arguments: arguments.to_owned() }])
    }

    fn echo(text: &str) -> Self {
        if text.is_empty() {
            return Self::Say(
                "Your message has no text, and text is all that I can read.".to_owned(),
            );
        }
        Self::Say(format!(
            "You said: {}\n\nI am a script, not a model, and only repeat what I do not know. Say help to see what I know.",
            short(text)
        ))
    }
}

fn clock() -> Call {
    Call { name: CLOCK.to_owned(), arguments: "{}".to_owned() }
}

fn note(text: &str) -> Call {
    Call { name: NOTE.to_owned(), arguments: json!({"text": text}).to_string() }
}

/// What follows a prefix of any case.
fn after<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, tail) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(tail.trim())
}

fn short(text: &str) -> String {
    match text.char_indices().nth(ECHO_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn count(words: usize) -> String {
    let words = words.clamp(1, SLOW_WORDS_MAX);
    let numbers: Vec<String> = (1..=words).map(|number| number.to_string()).collect();
    format!("{SIGN} {}", numbers.join(" "))
}

/// Calls what is still to be called, or answers with what came of it.
fn call(heard: &Heard, calls: Vec<Call>, since: &[Message]) -> Spoken {
    let results: Vec<&str> =
        since.iter().flat_map(Message::results).map(|result| result.content.as_str()).collect();
    if results.len() >= calls.len() {
        let answers = calls.iter().zip(results);
        let answers: Vec<String> = answers
            .map(|(call, result)| format!("The tool {} answers: {}", call.name, short(result)))
            .collect();
        return Spoken::Say(format!("{SIGN} {}", answers.join("\n")));
    }
    if !heard.may_call {
        return Spoken::Say(format!(
            "{SIGN} This request forbids calls (tool_choice is none), so I make none."
        ));
    }
    let is_offered = |call: &Call| heard.tools.contains(&call.name);
    if let Some(missing) = calls.iter().find(|call| !is_offered(call)) {
        return Spoken::Say(missing_text(&missing.name, &heard.tools));
    }
    let most = if heard.may_call_many { calls.len() } else { 1 };
    Spoken::Call(calls.into_iter().skip(results.len()).take(most).collect())
}

fn missing_text(name: &str, offered: &[String]) -> String {
    let offer = match offered {
        [] => "no tool at all".to_owned(),
        names => names.join(", "),
    };
    let name = short(name);
    format!("{SIGN} That takes a tool named {name}, and this request offers {}.", short(&offer))
}

/// Words of a conversation, which are the demo's tokens.
pub(super) fn words_in(heard: &Heard) -> u64 {
    let words = heard.messages.iter().flat_map(|message| &message.parts).map(|part| match part {
        Part::Text { text } | Part::Refusal { text } => words(text),
        Part::ToolCall(call) => words(&call.arguments),
        Part::ToolResult(result) => words(&result.content),
        Part::Image { .. } | Part::Reasoning { .. } | Part::Opaque(_) => 0,
    });
    words.sum()
}

/// Words of a text.
pub(super) fn words(text: &str) -> u64 {
    u64::try_from(text.split_whitespace().count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use providers::{Family, play};
    use serde_json::Value;

    fn tools(names: &[&str]) -> Value {
        names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect()
    }

    fn ask(fields: Value, messages: &[Value]) -> Spoken {
        let mut body = json!({"model": "demo", "messages": messages});
        for (key, value) in fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        turn(&play::hear(Family::OpenaiChat, "", body.to_string().as_bytes()).unwrap())
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    #[track_caller]
    fn says(text: &str, then: &str) {
        let all = tools(&[CLOCK, NOTE]);
        match ask(json!({"tools": all}), &[user(text)]) {
            Spoken::Say(said) => assert!(said.starts_with(SIGN) && said.contains(then), "{said}"),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn calls(text: &str, then: &[(&str, &str)]) {
        let all = tools(&[CLOCK, NOTE, "client_tool"]);
        let calls = then.iter().map(|(name, arguments)| Call {
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        });
        assert_eq!(ask(json!({"tools": all}), &[user(text)]), Spoken::Call(calls.collect()));
    }

    #[test]
    fn any_text_is_said_back() {
        says("hello  you", "hello  you");
        says("", "no text");
        says("help", "fail stall");
        says("slow down", "slow down");
        says("fail me not", "fail me not");
        says("tool", "tool");
        says("notes: x", "notes: x");
        says(&"é".repeat(3_000), &format!("{}…", "é".repeat(2_000)));
    }

    #[test]
    fn wishes_for_tools_become_calls() {
        calls("clock", &[(CLOCK, "{}")]);
        calls("  Clock? ", &[(CLOCK, "{}")]);
        calls("So, what time is it?", &[(CLOCK, "{}")]);
        calls("note: buy \"rope\"", &[(NOTE, r#"{"text":"buy \"rope\""}"#)]);
        calls("BOTH: x", &[(CLOCK, "{}"), (NOTE, r#"{"text":"x"}"#)]);
        calls("tool client_tool", &[("client_tool", "{}")]);
        calls("tool client_tool {\"a\": 1", &[("client_tool", "{\"a\": 1")]);
    }

    #[test]
    fn a_tool_that_is_not_offered_is_not_called() {
        says("tool gone {}", "a tool named gone, and this request offers clock_now, note_append");
        let none = ask(json!({}), &[user("clock")]);
        assert!(matches!(none, Spoken::Say(text) if text.contains("offers no tool at all")));
        let forbidden = json!({"tools": tools(&[CLOCK]), "tool_choice": "none"});
        assert!(
            matches!(ask(forbidden, &[user("clock")]), Spoken::Say(text) if text.contains("forbids"))
        );
    }

    #[test]
    fn results_since_the_last_user_message_are_answered() {
        let call = |id: &str| json!({"id": id, "function": {"name": CLOCK, "arguments": "{}"}});
        let called =
            json!({"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]});
        let result =
            |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
        let history = [user("both: x"), called, result("a", "noon"), result("b", "written")];
        let offered = json!({"tools": tools(&[CLOCK, NOTE])});
        let expected = "[scripted demo] The tool clock_now answers: noon\nThe tool note_append answers: written";
        assert_eq!(ask(offered.clone(), &history), Spoken::Say(expected.into()));
        // A new user message begins again; those results are of an earlier one.
        let next = [&history[..], &[user("clock")]].concat();
        assert!(matches!(ask(offered, &next), Spoken::Call(calls) if calls.len() == 1));
    }

    #[test]
    fn calls_come_one_at_a_time_where_parallel_ones_are_forbidden() {
        let fields = json!({"tools": tools(&[CLOCK, NOTE]), "parallel_tool_calls": false});
        let call = json!({"id": "a", "function": {"name": CLOCK, "arguments": "{}"}});
        let called = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let result = json!({"role": "tool", "tool_call_id": "a", "content": "noon"});
        let history = [user("both: x"), called, result];
        let names = |turn: Spoken| match turn {
            Spoken::Call(calls) => calls.into_iter().map(|call| call.name).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(names(ask(fields.clone(), &history[..1])), [CLOCK]);
        assert_eq!(names(ask(fields, &history)), [NOTE]);
    }

    #[test]
    fn slow_counts_and_is_bounded() {
        let slow = |text: &str| match ask(json!({}), &[user(text)]) {
            Spoken::SaySlowly(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(slow("slow 3"), "[scripted demo] 1 2 3");
        assert!(slow("slow 999999999").ends_with(" 2400"));
    }

    #[test]
    fn every_fault_of_the_help_is_known() {
        let named = HELP.lines().filter_map(|line| line.trim().strip_prefix("fail "));
        let names: Vec<&str> = named.filter_map(|rest| rest.split_whitespace().next()).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            let turn = ask(json!({}), &[user(&format!("fail {name} again"))]);
            let is_it =
                matches!(&turn, Spoken::Fail { word, often: Often::Strikes, .. } if word == name);
            assert!(is_it, "{name}: {turn:?}");
            let turn = ask(json!({}), &[user(&format!("always {name}"))]);
            assert!(matches!(turn, Spoken::Fail { often: Often::Always, .. }), "{name}: {turn:?}");
        }
        for fault in crate::scripted::fault::Fault::ALL {
            let listed = format!("fail {} ", fault.name());
            assert!(HELP.contains(&listed), "{listed}");
        }
    }
}
