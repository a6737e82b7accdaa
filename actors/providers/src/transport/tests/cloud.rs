//! The families whose requests and streams look like no other's, each against a peer over a real socket.

use super::super::Client;
use super::peer::{Outcome, Peer, both, failed, request};
use crate::bedrock::frames::written::{event, exception};
use crate::class::{Charge, Class};
use crate::delta::{Delta, Stop};
use crate::endpoint::{Endpoint, Quirks};
use crate::family::{Family, Mode};
use crate::secret::Secret;
use events::leave::Leave;
use events::prompt::Request;
use events::quantity::{Instant, Millis, Tokens};
use tokio::io::AsyncWriteExt;

/// 2026-11-30T12:00:00Z.
const NOW: Instant = Instant(1_796_040_000_000_000);
const MODEL: &str = "us.anthropic.claude-v1:0";

async fn peer(family: Family, key: &str) -> (Peer, Endpoint) {
    let (peer, endpoint) = Peer::new().await;
    let key = Some(Secret::new(key.to_owned()));
    let told = Endpoint::new("test", family, endpoint.base_url, key, Quirks::STANDARD);
    (peer, Endpoint { region: Some("eu-west-1".to_owned()), ..told })
}

async fn call(client: Client, endpoint: &Endpoint, model: &str, mode: Mode) -> Outcome {
    let mut deltas = Vec::new();
    let request = Request { model: model.into(), ..request() };
    let mut sink = |delta| deltas.push(delta);
    let outcome = client.call(endpoint, &request, mode, &Leave::free(), &mut sink).await;
    (outcome.map_err(failed), deltas)
}

fn client() -> Client {
    Client::new().unwrap().with_clock(|| NOW)
}

/// Answers with these bytes, whatever they are.
async fn answer(peer: &Peer, head: &str, body: &[u8]) -> String {
    let (mut stream, request) = peer.accept().await;
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    request
}

#[track_caller]
fn has(request: &str, lines: &[&str]) {
    let head = request.split_once("\r\n\r\n").unwrap().0.to_lowercase();
    for line in lines {
        assert!(head.lines().any(|found| found == *line), "{line}: {head}");
    }
}

#[tokio::test]
async fn gemini_is_asked_and_read_as_it_speaks() {
    let (peer, endpoint) = peer(Family::Gemini, "topsecret").await;
    let text = concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"hel\"}]}}],\"usageMetadata\":{\"promptTokenCount\":3},\"modelVersion\":\"g-1\"}\r\n\r\n",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"lo\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":2}}\r\n\r\n",
    );
    let serve = answer(&peer, "200 OK\r\ncontent-type: text/event-stream", text.as_bytes());
    let (asked, (outcome, deltas)) =
        both(serve, call(client(), &endpoint, "gemini-3-pro", Mode::Stream)).await;
    let then = [
        "post /v1/models/gemini-3-pro:streamgeneratecontent?alt=sse http/1.1",
        "x-goog-api-key: topsecret",
        "accept: text/event-stream",
        "content-type: application/json",
    ];
    has(&asked, &then);
    assert!(!asked.to_lowercase().contains("authorization"), "{asked}");
    assert!(asked.ends_with(r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":9}}"#), "{asked}");
    let answer = outcome.unwrap();
    assert_eq!((answer.message.plain().as_str(), &answer.stop), ("hello", &Stop::End));
    assert_eq!((answer.usage.prompt, answer.usage.completion), (Some(Tokens(3)), Some(Tokens(2))));
    assert_eq!(deltas, [Delta::Text("hel".into()), Delta::Text("lo".into())]);
}

#[tokio::test]
async fn gemini_says_no_in_its_own_way() {
    for (status, body, class, hint) in [
        (
            "400 Bad Request",
            r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            Class::AuthInvalid,
            None,
        ),
        (
            "429 Too Many Requests",
            r#"[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"RequestsPerMinute"}]},{"retryDelay":"34s"}]}}]"#,
            Class::RateLimited,
            Some(Millis(34_000)),
        ),
    ] {
        let (peer, endpoint) = peer(Family::Gemini, "topsecret").await;
        let head = format!("{status}\r\ncontent-type: application/json");
        let serve = answer(&peer, &head, body.as_bytes());
        let (_, (outcome, _)) = both(serve, call(client(), &endpoint, "g", Mode::Stream)).await;
        let failure = outcome.unwrap_err();
        assert_eq!(
            (failure.class, failure.hint, failure.charge),
            (class, hint, Charge::NotCharged)
        );
    }
}

#[tokio::test]
async fn gemini_lists_what_answers() {
    let (peer, endpoint) = peer(Family::Gemini, "topsecret").await;
    let list = r#"{"models":[{"name":"models/gemini-3-pro","supportedGenerationMethods":["generateContent"]},{"name":"models/embed","supportedGenerationMethods":["embedContent"]}]}"#;
    let serve = answer(&peer, "200 OK\r\ncontent-type: application/json", list.as_bytes());
    let client = client();
    let (asked, models) = both(serve, Box::pin(client.models(&endpoint))).await;
    has(&asked, &["get /v1/models?pagesize=1000 http/1.1", "x-goog-api-key: topsecret"]);
    assert_eq!(models.unwrap(), ["gemini-3-pro"]);
}

fn frames() -> Vec<u8> {
    [
        event("messageStart", r#"{"role":"assistant"}"#),
        event("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"hello"}}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        event("messageStop", r#"{"stopReason":"end_turn"}"#),
        event("metadata", r#"{"usage":{"inputTokens":3,"outputTokens":2}}"#),
    ]
    .concat()
}

const FRAMES: &str =
    "200 OK\r\nx-amzn-requestid: aws-1\r\ncontent-type: application/vnd.amazon.eventstream";

#[tokio::test]
async fn bedrock_is_asked_signed_and_read_frame_by_frame() {
    let (peer, endpoint) = peer(Family::Bedrock, "AKIDEXAMPLE:topsecret:sessiontoken").await;
    let body = frames();
    let serve = answer(&peer, FRAMES, &body);
    let (asked, (outcome, deltas)) =
        both(serve, call(client(), &endpoint, MODEL, Mode::Stream)).await;
    let then = [
        "post /v1/model/us.anthropic.claude-v1%3a0/converse-stream http/1.1",
        "accept: application/vnd.amazon.eventstream",
        "content-type: application/json",
        "x-amz-date: 20261130t120000z",
        "x-amz-security-token: sessiontoken",
    ];
    has(&asked, &then);
    let signed = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/eu-west-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
    assert!(asked.contains(signed) && !asked.contains("topsecret"), "{asked}");
    let answer = outcome.unwrap();
    assert_eq!((answer.message.plain().as_str(), &answer.stop), ("hello", &Stop::End));
    assert_eq!(
        (answer.usage.prompt, answer.request_id.as_deref()),
        (Some(Tokens(3)), Some("aws-1"))
    );
    assert_eq!(deltas, [Delta::Text("hello".into())]);
}

#[tokio::test]
async fn bedrock_takes_a_bearer_token_and_answers_whole() {
    let (peer, endpoint) = peer(Family::Bedrock, "bedrock-api-key-x").await;
    let body = br#"{"output":{"message":{"role":"assistant","content":[{"text":"all"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1}}"#;
    let serve = answer(&peer, "200 OK\r\ncontent-type: application/json", body);
    let ask = call(Client::new().unwrap(), &endpoint, MODEL, Mode::Whole);
    let (asked, (outcome, _)) = both(serve, ask).await;
    let then = [
        "post /v1/model/us.anthropic.claude-v1%3a0/converse http/1.1",
        "authorization: bearer bedrock-api-key-x",
        "accept: application/json",
    ];
    has(&asked, &then);
    assert!(!asked.contains("x-amz-date"), "{asked}");
    assert_eq!(outcome.unwrap().message.plain(), "all");
}

#[tokio::test]
async fn bedrock_says_no_before_and_inside_its_stream() {
    let named =
        |name: &str| format!("400 Bad Request\r\nx-amzn-errortype: {name}:http://internal/");
    let inside = |name: &str| {
        let words = br#"{"message":"Too many tokens, please wait"}"#;
        [frames()[..0].to_vec(), exception(name, std::str::from_utf8(words).unwrap())].concat()
    };
    let words =
        br#"{"message":"The security token included in the request is expired TOPSECRETKEY"}"#
            .to_vec();
    let cut = frames()[..150].to_vec();
    let mut damaged = frames();
    damaged[40] ^= 1;
    for (head, body, class) in [
        (named("ExpiredTokenException"), words.clone(), Class::AuthExpired),
        (named("UnrecognizedClientException"), words, Class::AuthInvalid),
        (named("ThrottlingException").replace("400", "429"), b"{}".to_vec(), Class::RateLimited),
        (FRAMES.to_owned(), inside("throttlingException"), Class::RateLimited),
        (FRAMES.to_owned(), inside("modelStreamErrorException"), Class::StreamError),
        (FRAMES.to_owned(), inside("internalServerException"), Class::ServerError),
        (FRAMES.to_owned(), inside("serviceUnavailableException"), Class::Overloaded),
        (FRAMES.to_owned(), cut, Class::StreamTruncated),
        (FRAMES.to_owned(), damaged, Class::StreamError),
    ] {
        let (peer, endpoint) = peer(Family::Bedrock, "AKIDEXAMPLE:TOPSECRETKEY").await;
        let serve = answer(&peer, &head, &body);
        let (_, (outcome, _)) = both(serve, call(client(), &endpoint, MODEL, Mode::Stream)).await;
        let failure = outcome.unwrap_err();
        assert_eq!(failure.class, class, "{head}: {failure:?}");
        assert!(!failure.message.contains("TOPSECRETKEY"), "{}", failure.message);
    }
}

#[tokio::test]
async fn what_can_not_be_signed_does_not_leave() {
    let (_peer, endpoint) = peer(Family::Bedrock, "A:topsecret").await;
    let nowhere = Endpoint { region: None, ..endpoint.clone() };
    for (client, endpoint, about) in
        [(Client::new().unwrap(), &endpoint, "no clock"), (client(), &nowhere, "set AWS_REGION")]
    {
        let failure = call(client, endpoint, MODEL, Mode::Stream).await.0.unwrap_err();
        assert_eq!((failure.class, failure.charge), (Class::InvalidRequest, Charge::NotCharged));
        assert!(failure.message.contains(about), "{}", failure.message);
    }
    let failure = client().models(&endpoint).await.unwrap_err();
    assert!(failure.message.contains("does not list its models"), "{}", failure.message);
}
