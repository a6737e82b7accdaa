//! Each family's errors as its providers write them (`table.txt`): class, wait and charge; and those that come inside a
//! success. The recordings themselves are read beside the repository, in `recorded`.

use super::*;
use crate::decode::{Fault, shredder};
use crate::family::Family;
use reqwest::header::{HeaderName, HeaderValue};

const TABLE: &str = include_str!("table.txt");
const DATE: &str = "Mon, 30 Nov 2026 18:00:00 GMT";

/// Checks every line of a family; there must be so many.
#[track_caller]
fn family(name: &str, lines: usize) {
    let mut sections = TABLE.split("\n## ").skip(1);
    let section = sections.find_map(|section| section.strip_prefix(name)).unwrap();
    let rows: Vec<&str> =
        section.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(rows.len(), lines, "{name}");
    rows.into_iter().for_each(row);
}

fn row(line: &str) {
    let mut parts = line.splitn(3, '|').map(str::trim);
    let mut next = || parts.next().unwrap_or_else(|| panic!("{line}"));
    let (then, head, body) = (next(), next(), next());
    let mut headers =
        HeaderMap::from_iter([(HeaderName::from_static("date"), HeaderValue::from_static(DATE))]);
    for (name, value) in head.split("; ").filter_map(|one| one.split_once(": ")) {
        headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    let words: Vec<&str> = then.split(' ').collect();
    let &[status, class, hint] = words.as_slice() else { panic!("{line}") };
    let status: u16 = status.parse().unwrap();
    let now = server_now(&headers);
    let found = classify(&Reply { status, headers: &headers, body: body.as_bytes(), now }, None);
    assert_eq!(found.class.name(), class, "{line}");
    let wait = found.hint.map_or("-".to_owned(), |hint| hint.0.to_string());
    assert_eq!(wait, hint, "{line}");
    // What was refused before any work is free, and nothing else is.
    let free = status < 500 && status != 408 && found.class != Class::ContentPolicy;
    let charge = if free { Charge::NotCharged } else { Charge::Unknown };
    assert_eq!(found.charge, charge, "{line}");
}

#[test]
fn openai_says_its_errors() {
    family("openai\n", 19);
}

#[test]
fn those_that_speak_chat_each_in_its_own_words() {
    family("those that speak chat\n", 28);
}

#[test]
fn anthropic_says_its_errors() {
    family("anthropic\n", 18);
}

#[test]
fn gemini_says_its_errors() {
    family("gemini\n", 12);
}

#[test]
fn bedrock_says_its_errors() {
    family("bedrock\n", 14);
}

#[test]
fn responses_and_the_subscription_say_their_errors() {
    family("responses\n", 11);
}

/// The class of an error that comes inside a success.
#[track_caller]
fn inside(family: Family, stream: &[u8], class: Class) {
    let Err(Fault::Reported { error, began }) = shredder::read(family, &[stream]).result else {
        panic!("{family:?}: no error: {}", String::from_utf8_lossy(stream))
    };
    let headers = HeaderMap::new();
    let reply = Reply { status: 200, headers: &headers, body: b"", now: None };
    let found = classify_inside(&error, &reply, began, None);
    assert_eq!(found.class, class, "{family:?}: {error}");
    assert_eq!(found.charge, Charge::Unknown, "work had begun");
}

#[test]
fn an_error_inside_a_200_has_its_class_in_each_of_its_four_shapes() {
    // An event of its own.
    for (kind, class) in [
        ("overloaded_error", Class::Overloaded),
        ("api_error", Class::ServerError),
        ("rate_limit_error", Class::RateLimited),
        ("invalid_request_error", Class::InvalidRequest),
    ] {
        let event = format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"m\"}}}}\n\n"
        );
        inside(Family::AnthropicMessages, event.as_bytes(), class);
    }
    // An event whose error is nested or flat, and `response.failed` alone.
    for (event, class) in [
        (
            r#"{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"m"}}"#,
            Class::QuotaExhausted,
        ),
        (
            r#"{"type":"error","code":"rate_limit_exceeded","message":"m","param":null}"#,
            Class::RateLimited,
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"m"}}}"#,
            Class::ServerError,
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"m"}}}"#,
            Class::ContextOverflow,
        ),
    ] {
        inside(Family::OpenaiResponses, format!("data: {event}\n\n").as_bytes(), class);
    }
    // A chunk that has choices and an error; a chunk that is nothing but an error.
    let begun = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
    for (chunk, class) in [
        (
            r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"m"}}"#,
            Class::RateLimited,
        ),
        (r#"{"choices":[],"error":{"code":502,"message":"Upstream error"}}"#, Class::ServerError),
        (
            r#"{"choices":[],"error":{"code":400,"message":"Token limit reached"}}"#,
            Class::StreamError,
        ),
        (r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#, Class::RateLimited),
        (r#"{"error":"odd"}"#, Class::StreamError),
    ] {
        inside(
            Family::OpenaiChat,
            format!("{begun}data: {chunk}\n\ndata: [DONE]\n\n").as_bytes(),
            class,
        );
    }
    // A frame that is an exception.
    for (name, class) in [
        ("throttlingException", Class::RateLimited),
        ("modelStreamErrorException", Class::StreamError),
        ("serviceUnavailableException", Class::Overloaded),
        ("internalServerException", Class::ServerError),
        ("validationException", Class::InvalidRequest),
    ] {
        inside(
            Family::Bedrock,
            &crate::bedrock::frames::written::exception(name, r#"{"message":"m"}"#),
            class,
        );
    }
    // Gemini writes the same error as without a stream, in an array or alone.
    for event in [
        r#"{"error":{"code":503,"status":"UNAVAILABLE","message":"overloaded"}}"#,
        r#"[{"error":{"code":503,"status":"UNAVAILABLE","message":"overloaded"}}]"#,
    ] {
        inside(Family::Gemini, format!("data: {event}\n\n").as_bytes(), Class::Overloaded);
    }
}
