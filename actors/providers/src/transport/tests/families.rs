//! Each family over a real socket: its path, its head, its body, and its answer whole and piece by piece.

use super::peer::{Peer, body, both, call, failed, request};
use crate::class::Class;
use crate::delta::{Delta, Stop};
use crate::endpoint::{Auth, Dialect, Endpoint, Quirks};
use crate::family::{Family, Mode};
use crate::transport::Client;
use events::leave::Leave;
use events::quantity::Tokens;
use serde_json::{Value, json};

async fn peer(family: Family) -> (Peer, Endpoint) {
    let (peer, endpoint) = Peer::new().await;
    (peer, Endpoint { family, ..endpoint })
}

fn events(text: &str) -> String {
    body("text/event-stream; charset=utf-8\r\nrequest-id: req_9", "200 OK", text)
}

/// The head, in lower case, and the body of what was asked.
fn split(asked: &str) -> (String, Value) {
    let (head, sent) = asked.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), serde_json::from_str(sent).unwrap_or_default())
}

const MESSAGES: &str = include_str!("../../anthropic/decode/text.sse");

#[tokio::test]
async fn messages_are_asked_and_streamed() {
    let (peer, endpoint) = peer(Family::AnthropicMessages).await;
    let endpoint = Endpoint { headers: vec![("anthropic-beta".into(), "b-1".into())], ..endpoint };
    let (asked, (answer, deltas)) =
        both(peer.answer(&events(MESSAGES)), call(&endpoint, Mode::Stream)).await;
    let (head, sent) = split(&asked);
    for line in [
        "post /v1/messages http/1.1",
        "x-api-key: topsecret",
        "anthropic-version: 2023-06-01",
        "anthropic-beta: b-1",
        "accept: text/event-stream",
    ] {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
    assert!(!head.contains("authorization"), "{head}");
    assert_eq!((&sent["stream"], &sent["max_tokens"]), (&json!(true), &json!(9)));
    let answer = answer.unwrap();
    assert_eq!((answer.message.plain().as_str(), answer.stop), ("héllo 日本🦀", Stop::ToolCalls));
    assert_eq!(answer.request_id.as_deref(), Some("req_9"));
    assert_eq!(deltas[0], Delta::Reasoning("Hm, ".into()));
}

#[tokio::test]
async fn messages_are_answered_whole_and_by_twins() {
    let (peer, endpoint) = peer(Family::AnthropicMessages).await;
    let base_url = endpoint.base_url.join("/anthropic").unwrap();
    let quirks = Quirks { auth: Auth::Bearer, ..Quirks::STANDARD };
    let headers = vec![("anthropic-version".into(), "2026-10-21".into())];
    let endpoint = Endpoint { base_url, quirks, headers, ..endpoint };
    let text = r#"{"type":"message","id":"msg_1","model":"m-1","content":[{"type":"text","text":"all"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let bytes = body("application/json", "200 OK", text);
    let (asked, (answer, _)) = both(peer.answer(&bytes), call(&endpoint, Mode::Whole)).await;
    let (head, sent) = split(&asked);
    assert!(head.starts_with("post /anthropic/v1/messages http/1.1"), "{head}");
    assert!(
        head.contains("authorization: bearer topsecret") && !head.contains("x-api-key"),
        "{head}"
    );
    assert!(
        head.contains("anthropic-version: 2026-10-21") && !head.contains("2023-06-01"),
        "{head}"
    );
    assert_eq!(sent["stream"], json!(false));
    let answer = answer.unwrap();
    assert_eq!((answer.message.plain().as_str(), answer.usage.prompt), ("all", Some(Tokens(1))));
}

#[tokio::test]
async fn messages_that_fail_have_their_class() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_b"}"#;
    let poor = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#;
    let signature = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#;
    let long = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#;
    let model =
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-nope"}}"#;
    for (status, text, class) in [
        ("529 Overloaded", overloaded, Class::Overloaded),
        ("400 Bad Request", poor, Class::Billing),
        ("400 Bad Request", signature, Class::ReplayRejected),
        ("400 Bad Request", long, Class::ContextOverflow),
        ("404 Not Found", model, Class::ModelNotFound),
        ("200 OK", overloaded, Class::Overloaded),
    ] {
        let (peer, endpoint) = peer(Family::AnthropicMessages).await;
        let bytes = body("application/json", status, text);
        let (_, (answer, _)) = both(peer.answer(&bytes), call(&endpoint, Mode::Stream)).await;
        assert_eq!(answer.unwrap_err().class, class, "{status} {text}");
    }
    for (end, class) in [
        ("", Class::StreamTruncated),
        (
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"m\"}}\n\n",
            Class::ServerError,
        ),
    ] {
        let (peer, endpoint) = peer(Family::AnthropicMessages).await;
        let cut = MESSAGES.split_once("event: message_delta").unwrap().0;
        let bytes = events(&format!("{cut}{end}"));
        let (_, (answer, _)) = both(peer.answer(&bytes), call(&endpoint, Mode::Stream)).await;
        let failure = answer.unwrap_err();
        assert_eq!((failure.class, failure.partial.prompt), (class, Some(Tokens(30))));
    }
}

#[tokio::test]
async fn models_of_the_messages_family_are_listed_on_one_page() {
    let (peer, endpoint) = peer(Family::AnthropicMessages).await;
    let text = r#"{"data":[{"type":"model","id":"a"},{"type":"model","id":"b"}],"has_more":false}"#;
    let client = Client::new().unwrap();
    let bytes = body("application/json", "200 OK", text);
    let (asked, models) = both(peer.answer(&bytes), client.models(&endpoint)).await;
    assert!(asked.starts_with("GET /v1/models?limit=1000 HTTP/1.1"), "{asked}");
    assert_eq!(models.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn a_request_that_a_family_refuses_never_leaves() {
    let (_peer, endpoint) = peer(Family::AnthropicMessages).await;
    let mut given = request();
    given.messages.clear();
    let client = Client::new().unwrap();
    let leave = Leave::new(|| panic!("nothing is to leave"));
    let asked = client.call(&endpoint, &given, Mode::Stream, &leave, &mut |_| ()).await;
    let failure = failed(asked.unwrap_err());
    assert_eq!((failure.class, failure.status), (Class::InvalidRequest, None));
}

const RESPONSES: &str = include_str!("../../openai_responses/decode/text.sse");

#[tokio::test]
async fn responses_are_asked_and_streamed() {
    let (peer, endpoint) = peer(Family::OpenaiResponses).await;
    let mut given = request();
    given.params.output_max = None;
    let client = Client::new().unwrap();
    let mut deltas = Vec::new();
    let mut sink = |delta| deltas.push(delta);
    let leave = Leave::free();
    let ask = client.call(&endpoint, &given, Mode::Stream, &leave, &mut sink);
    let (asked, answer) = both(peer.answer(&events(RESPONSES)), ask).await;
    let (head, sent) = split(&asked);
    assert!(head.starts_with("post /v1/responses http/1.1"), "{head}");
    assert!(
        head.contains("authorization: bearer topsecret") && !head.contains("originator"),
        "{head}"
    );
    assert_eq!((&sent["store"], &sent["stream"]), (&json!(false), &json!(true)));
    let answer = answer.unwrap();
    assert_eq!((answer.message.plain().as_str(), answer.stop), ("héllo 日本🦀", Stop::ToolCalls));
    assert_eq!(deltas[0], Delta::Reasoning("Hm, über…".into()));
}

#[tokio::test]
async fn a_subscription_is_asked_in_pieces_under_our_own_name_and_answers_without_a_type() {
    let (peer, endpoint) = peer(Family::OpenaiResponses).await;
    let quirks = Quirks { dialect: Dialect::Codex, ..Quirks::STANDARD };
    let endpoint = Endpoint { quirks, account: Some("acc-7".to_owned()), ..endpoint };
    let given = request();
    let bytes =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{RESPONSES}", RESPONSES.len());
    let client = Client::new().unwrap();
    let mut sink = |_| ();
    let leave = Leave::free();
    let ask = client.call(&endpoint, &given, Mode::Whole, &leave, &mut sink);
    let (asked, answer) = both(peer.answer(&bytes), ask).await;
    let (head, sent) = split(&asked);
    assert!(
        head.contains("originator: piton") && head.contains("accept: text/event-stream"),
        "{head}"
    );
    assert!(head.contains("chatgpt-account-id: acc-7") && head.contains("bearer "), "{head}");
    let listed = client.models(&endpoint).await.unwrap_err();
    assert!(listed.message.contains("does not list its models"), "{listed}");
    assert_eq!((&sent["stream"], &sent["instructions"]), (&json!(true), &json!("")));
    assert_eq!(answer.unwrap().message.plain(), "héllo 日本🦀");
}

#[tokio::test]
async fn responses_that_fail_have_their_class() {
    let quota = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"insufficient_quota","message":"m"},"usage":{"input_tokens":7}}}"#;
    let slow = r#"{"type":"error","error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"Please try again in 1.25s"}}"#;
    let replay = r#"{"type":"error","code":"invalid_encrypted_content","message":"m"}"#;
    for (text, class) in [
        (quota, Class::QuotaExhausted),
        (slow, Class::RateLimited),
        (replay, Class::ReplayRejected),
        (r#"{"type":"response.in_progress","response":{}}"#, Class::StreamTruncated),
    ] {
        let (peer, endpoint) = peer(Family::OpenaiResponses).await;
        let mut given = request();
        given.params.output_max = None;
        let bytes = events(&format!("data: {text}\n\n"));
        let client = Client::new().unwrap();
        let mut sink = |_| ();
        let leave = Leave::free();
        let ask = client.call(&endpoint, &given, Mode::Stream, &leave, &mut sink);
        let (_, answer) = both(peer.answer(&bytes), ask).await;
        assert_eq!(failed(answer.unwrap_err()).class, class, "{text}");
    }
}
