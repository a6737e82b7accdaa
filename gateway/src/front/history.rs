//! Whether the messages that a client sends begin with those of the session it names.
//!
//! Clients resend whole histories and spell them in their own way; only what is said counts. Taken too loosely, an
//! edited past would be lost; taken too strictly, no client could go on.

use events::message::{Message, Part, Role};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// Characters of either side that a difference shows: 40, from a little before the first that differs.
const EXCERPT_CHARS_MAX: usize = 40;
/// Characters shown before the first that differs: 10, enough to find the place.
const EXCERPT_BEFORE: usize = 10;

/// How the sent messages stand to the session's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    /// They begin with the session's own.
    Continues {
        /// Index of the first sent message that the session does not have; their number when there is none.
        tail_from: usize,
    },
    /// They do not.
    Differs {
        /// Index of the first message that differs.
        at: usize,
        /// In what.
        why: Difference,
    },
}

/// In what two messages differ. The text of both sides is an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The sent messages end before the session's.
    Ends {
        /// Messages of the session.
        session: usize,
    },
    /// Another speaker.
    Role {
        /// The session's.
        session: Role,
        /// The client's.
        sent: Role,
    },
    /// Another name of the speaker.
    Name {
        /// The session's.
        session: String,
        /// The client's.
        sent: String,
    },
    /// Another part at the same place: text, a call, a result, an image.
    Part {
        /// The session's.
        session: String,
        /// The client's.
        sent: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends { session } => {
                write!(f, "is missing: the session has {session} messages, send all of them first")
            }
            Self::Role { session, sent } => {
                write!(f, "has the role {}, the session's has {}", word(*sent), word(*session))
            }
            Self::Name { session, sent } => {
                write!(f, "has the name {sent}, the session's has {session}")
            }
            Self::Part { session, sent } => write!(f, "says {sent}, the session's says {session}"),
        }
    }
}

const fn word(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Compares message by message. What counts: role, text as one piece however it was cut into parts, calls and results
/// with their ids and arguments, images, a name where both sides give one. What does not: empty text, reasoning,
/// which clients are never given back, and whether words came as text or as a refusal.
#[must_use]
pub fn compare(session: &[Message], sent: &[Message]) -> History {
    let mut others = sent.iter();
    for (at, mine) in session.iter().enumerate() {
        let Some(theirs) = others.next() else {
            return History::Differs { at, why: Difference::Ends { session: session.len() } };
        };
        if let Some(why) = difference(mine, theirs) {
            return History::Differs { at, why };
        }
    }
    History::Continues { tail_from: session.len() }
}

/// What was said after all that is sent; none if that was not said so.
#[must_use]
pub fn after<'a>(sent: &[Message], said: &'a [Message]) -> Option<&'a [Message]> {
    match compare(sent, said) {
        History::Continues { tail_from } => said.get(tail_from..),
        History::Differs { .. } => None,
    }
}

fn difference(session: &Message, sent: &Message) -> Option<Difference> {
    if session.role != sent.role {
        return Some(Difference::Role { session: session.role, sent: sent.role });
    }
    if let (Some(mine), Some(theirs)) = (&session.name, &sent.name)
        && mine != theirs
    {
        let (session, sent) = excerpts(mine, theirs);
        return Some(Difference::Name { session, sent });
    }
    if session.parts == sent.parts {
        return None;
    }
    let (mine, theirs) = (Said::all(session), Said::all(sent));
    let longest = mine.len().max(theirs.len());
    (0..longest).find_map(|at| {
        let (mine, theirs) = (mine.get(at), theirs.get(at));
        if mine == theirs {
            return None;
        }
        let show = |said: Option<&Said<'_>>| said.map_or_else(|| "nothing".to_owned(), Said::show);
        let (session, sent) = match (mine, theirs) {
            (Some(Said::Text(mine)), Some(Said::Text(theirs))) => excerpts(mine, theirs),
            _ => (show(mine), show(theirs)),
        };
        Some(Difference::Part { session, sent })
    })
}

/// What a message says, free of how it was cut.
#[derive(Debug, PartialEq, Eq)]
enum Said<'a> {
    Text(String),
    Image { url: &'a str, detail: &'a str },
    Call { id: &'a str, name: &'a str, arguments: Cow<'a, str> },
    Result { call: &'a str, content: &'a str },
    Opaque(&'a Value),
}

impl<'a> Said<'a> {
    fn all(message: &'a Message) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for part in &message.parts {
            match part {
                Part::Reasoning { .. } => (),
                Part::Text { text } | Part::Refusal { text } => {
                    Self::text(&mut all, message.role, text);
                }
                Part::Image { url, detail } => {
                    all.push(Self::Image { url, detail: detail.as_deref().unwrap_or("auto") });
                }
                Part::ToolCall(call) => all.push(Self::Call {
                    id: &call.id,
                    name: &call.name,
                    arguments: arguments(&call.arguments),
                }),
                Part::ToolResult(result) => {
                    all.push(Self::Result { call: &result.call, content: &result.content });
                }
                Part::Opaque(value) => all.push(Self::Opaque(value)),
            }
        }
        all
    }

    /// A model may speak between its calls, but this wire has one text before all of them. Of other speakers the
    /// order of text and images is their own and counts.
    fn text(all: &mut Vec<Self>, role: Role, text: &str) {
        if text.is_empty() {
            return;
        }
        let before = if role == Role::Assistant { all.first_mut() } else { all.last_mut() };
        if let Some(Self::Text(before)) = before {
            before.push_str(text);
            return;
        }
        let place = if role == Role::Assistant { 0 } else { all.len() };
        all.insert(place, Self::Text(text.to_owned()));
    }

    fn show(&self) -> String {
        match self {
            Self::Text(text) => excerpt(text, 0),
            Self::Image { url, .. } => format!("an image at {}", excerpt(url, 0)),
            Self::Call { id, name, arguments } => {
                format!(
                    "a call {} of {} with {}",
                    excerpt(id, 0),
                    excerpt(name, 0),
                    excerpt(arguments, 0)
                )
            }
            Self::Result { call, content } => {
                format!("{} as the result of {}", excerpt(content, 0), excerpt(call, 0))
            }
            Self::Opaque(value) => excerpt(&value.to_string(), 0),
        }
    }
}

/// The arguments in one spelling: a client that parsed them sends back another one, and has edited nothing.
fn arguments(text: &str) -> Cow<'_, str> {
    if text.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    let value: Option<Value> = serde_json::from_str(text).ok();
    let canonical = value.and_then(|value| serde_json_canonicalizer::to_vec(&value).ok());
    canonical
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Both texts from a little before the first character that differs.
fn excerpts(session: &str, sent: &str) -> (String, String) {
    let same =
        session.chars().zip(sent.chars()).take_while(|(mine, theirs)| mine == theirs).count();
    let from = same.saturating_sub(EXCERPT_BEFORE);
    (excerpt(session, from), excerpt(sent, from))
}

fn excerpt(text: &str, from: usize) -> String {
    let shown: String = text.chars().skip(from).take(EXCERPT_CHARS_MAX).collect();
    let before = if from > 0 { "…" } else { "" };
    let after = if text.chars().count() > from + EXCERPT_CHARS_MAX { "…" } else { "" };
    format!("{before}{shown:?}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::message::{Seal, ToolCall};

    fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    fn words(text: &str) -> Part {
        Part::Text { text: text.into() }
    }

    fn call(arguments: &str) -> Part {
        Part::ToolCall(ToolCall { id: "c".into(), name: "f".into(), arguments: arguments.into() })
    }

    fn assistant(parts: Vec<Part>) -> Message {
        Message { role: Role::Assistant, name: None, parts }
    }

    fn image(detail: Option<&str>) -> Part {
        Part::Image { url: "https://a/b.png".into(), detail: detail.map(str::to_owned) }
    }

    #[track_caller]
    fn same(session: Message, sent: Message) {
        assert_eq!(compare(&[session], &[sent]), History::Continues { tail_from: 1 });
    }

    #[track_caller]
    fn differs(session: Message, sent: Message, then: &str) {
        match compare(&[session], &[sent]) {
            History::Differs { at: 0, why } => assert_eq!(why.to_string(), then),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_begins_with_the_session_continues_it() {
        let session = [Message::text(Role::System, "s"), user("a"), assistant(vec![words("b")])];
        let mut sent = session.to_vec();
        assert_eq!(compare(&session, &sent), History::Continues { tail_from: 3 });
        sent.extend([user("c"), user("d")]);
        assert_eq!(compare(&session, &sent), History::Continues { tail_from: 3 });
        assert_eq!(compare(&[], &sent), History::Continues { tail_from: 0 });
    }

    #[test]
    fn what_was_said_after_what_is_sent_is_found_and_another_past_has_no_after() {
        let said = [user("a"), assistant(vec![words("b")]), user("c")];
        assert_eq!(after(&said[..1], &said), Some(&said[1..]));
        assert_eq!(after(&said, &said), Some(&[][..]));
        assert_eq!(after(&[user("A")], &said), None);
        assert_eq!(after(&said, &said[..2]), None);
    }

    #[test]
    fn the_first_difference_is_named() {
        let session = [Message::text(Role::System, "s"), user("a"), user("b")];
        let why = Difference::Ends { session: 3 };
        assert_eq!(compare(&session, &session[..2]), History::Differs { at: 2, why });
        let why = Difference::Role { session: Role::System, sent: Role::User };
        assert_eq!(compare(&session, &session[1..]), History::Differs { at: 0, why });
        let sent = [session[0].clone(), user("A"), user("B")];
        let why = Difference::Part { session: "\"a\"".into(), sent: "\"A\"".into() };
        assert_eq!(compare(&session, &sent), History::Differs { at: 1, why });
    }

    #[test]
    fn it_counts_what_is_said_and_not_how_it_was_cut() {
        same(user("ab"), Message { parts: vec![words("a"), words(""), words("b")], ..user("") });
        same(assistant(vec![]), assistant(vec![words("")]));
        same(
            assistant(vec![words("a"), call("{}"), words("b")]),
            assistant(vec![words("ab"), call("{}")]),
        );
        same(assistant(vec![call("{}"), words("b")]), assistant(vec![words("b"), call("{}")]));
        same(
            assistant(vec![call("{\"a\": 1.0, \"b\": []}")]),
            assistant(vec![call("{\"b\":[],\"a\":1}")]),
        );
        same(assistant(vec![call("")]), assistant(vec![call("{}")]));
        same(assistant(vec![call("not {json")]), assistant(vec![call("not {json")]));
        let seal = Seal {
            family: "f".into(),
            endpoint: "e".into(),
            profile: "p".into(),
            model: "m".into(),
        };
        let thought = Part::Reasoning { text: "t".into(), seal, sealed: None };
        same(assistant(vec![thought, words("a")]), assistant(vec![words("a")]));
        same(assistant(vec![Part::Refusal { text: "no".into() }]), assistant(vec![words("no")]));
        same(Message { name: Some("ann".into()), ..user("a") }, user("a"));
        same(
            Message { parts: vec![image(None)], ..user("") },
            Message { parts: vec![image(Some("auto"))], ..user("") },
        );
    }

    #[test]
    fn an_edit_of_the_past_is_seen() {
        let named = |name: &str| Message { name: Some(name.into()), ..user("a") };
        differs(named("ann"), named("bob"), "has the name \"bob\", the session's has \"ann\"");
        differs(
            assistant(vec![call("{\"a\":1}")]),
            assistant(vec![call("{\"a\": 2}")]),
            "says a call \"c\" of \"f\" with \"{\\\"a\\\":2}\", the session's says a call \"c\" of \"f\" with \"{\\\"a\\\":1}\"",
        );
        differs(
            Message::tool_result("c", "1".into()),
            Message::tool_result("c", "2".into()),
            "says \"2\" as the result of \"c\", the session's says \"1\" as the result of \"c\"",
        );
        differs(user("a"), user("a b"), "says \"a b\", the session's says \"a\"");
        differs(
            assistant(vec![words("a"), call("{}")]),
            assistant(vec![words("a")]),
            "says nothing, the session's says a call \"c\" of \"f\" with \"{}\"",
        );
        let mixed = |parts: Vec<Part>| Message { parts, ..user("") };
        differs(
            mixed(vec![words("a"), image(None)]),
            mixed(vec![image(None), words("a")]),
            "says an image at \"https://a/b.png\", the session's says \"a\"",
        );
    }

    #[test]
    fn a_difference_far_into_a_text_is_shown_where_it_is() {
        let (mine, theirs) = ("x".repeat(500) + "1", "x".repeat(500) + "2");
        differs(
            user(&mine),
            user(&theirs),
            "says …\"xxxxxxxxxx2\", the session's says …\"xxxxxxxxxx1\"",
        );
    }
}
