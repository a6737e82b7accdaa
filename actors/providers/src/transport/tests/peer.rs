//! A peer that does exactly what a test says and nothing more, and the client's side of a call.

use super::super::{Client, Unanswered};
use crate::class::Failure;
use crate::delta::{Answer, Delta};
use crate::endpoint::{Endpoint, Quirks};
use crate::family::{Family, Mode};
use crate::secret::Secret;
use events::json::Json;
use events::leave::Leave;
use events::message::{Message, Role};
use events::prompt::{Catalogue, Params, Request};
use events::quantity::Tokens;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

pub(super) const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req_1\r\ntransfer-encoding: chunked\r\n\r\n";
/// Far above what any of these tests takes; it only keeps a hang from hiding.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Peer {
    pub(super) listener: TcpListener,
}

impl Peer {
    pub(super) async fn new() -> (Self, Endpoint) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
        let key = Some(Secret::new("topsecret".to_owned()));
        let endpoint = Endpoint::new("test", Family::OpenaiChat, base, key, Quirks::STANDARD);
        (Self { listener }, endpoint)
    }

    /// Takes a connection and reads one request.
    pub(super) async fn accept(&self) -> (TcpStream, String) {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        (stream, request)
    }

    /// Answers one request with these bytes and closes.
    pub(super) async fn answer(&self, bytes: &str) -> String {
        let (mut stream, request) = self.accept().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        request
    }
}

/// One request: its head, and as many bytes more as it says.
pub(super) async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4_096];
        let count = stream.read(&mut piece).await.unwrap();
        assert_ne!(count, 0, "the client closed before its request was whole");
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
    }
}

/// Reads until the client is gone.
pub(super) async fn until_gone(stream: &mut TcpStream) {
    let mut piece = [0; 4_096];
    while stream.read(&mut piece).await.is_ok_and(|count| count > 0) {}
}

/// A piece of a chunked body.
pub(super) fn piece(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(super) fn event(choice: &str) -> String {
    piece(&format!("data: {{\"model\":\"m-1\",\"choices\":[{choice}]}}\n\n"))
}

pub(super) fn content(text: &str) -> String {
    event(&format!("{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}"))
}

pub(super) fn finished() -> String {
    event("{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}")
}

pub(super) fn body(kind: &str, status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(super) fn request() -> Request {
    Request {
        model: "m".into(),
        tools: Catalogue::default(),
        messages: vec![Message::text(Role::User, "hi").body()],
        params: Params { output_max: Some(Tokens(9)), extra: Json::default() },
    }
}

pub(super) type Outcome = (Result<Answer, Failure>, Vec<Delta>);

pub(super) async fn call(endpoint: &Endpoint, mode: Mode) -> Outcome {
    let mut deltas = Vec::new();
    let outcome = Client::new()
        .unwrap()
        .call(endpoint, &request(), mode, &Leave::free(), &mut |delta| deltas.push(delta))
        .await;
    (outcome.map_err(failed), deltas)
}

/// How a call failed that may always leave.
pub(super) fn failed(unanswered: Unanswered) -> Failure {
    match unanswered {
        Unanswered::Failed(failure) => failure,
        Unanswered::NotSent(why) => panic!("it may always leave: {why}"),
    }
}

/// Runs the peer and the client side by side.
pub(super) async fn both<A, B>(
    peer: impl Future<Output = A>,
    client: impl Future<Output = B>,
) -> (A, B) {
    let both = async { tokio::join!(peer, client) };
    timeout(PATIENCE, both).await.expect("the test hangs")
}

/// What a stream request gets for these bytes.
pub(super) async fn replied(bytes: &str) -> Outcome {
    let (peer, endpoint) = Peer::new().await;
    both(peer.answer(bytes), call(&endpoint, Mode::Stream)).await.1
}
