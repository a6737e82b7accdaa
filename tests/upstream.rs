//! A provider that a story plays: it answers each request with the next bytes of its script and keeps what it was
//! asked.

use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The request line and the headers, in lower case.
    pub head: String,
    /// The body, byte for byte.
    pub body: String,
}

impl Asked {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a body of JSON")
    }
}

#[derive(Debug, Default)]
struct Kept {
    script: VecDeque<Vec<u8>>,
    asked: Vec<Asked>,
}

/// The provider; gone when it is dropped.
#[derive(Debug)]
pub struct Upstream {
    /// Where it answers.
    pub url: String,
    kept: Arc<Mutex<Kept>>,
    task: tokio::task::JoinHandle<()>,
}

impl Upstream {
    /// A provider that answers POST with these in turn, and GET with no models.
    pub async fn start<R: Into<Vec<u8>>>(script: Vec<R>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let kept = Arc::new(Mutex::new(Kept {
            script: script.into_iter().map(Into::into).collect(),
            asked: vec![],
        }));
        let shared = Arc::clone(&kept);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&shared)));
            }
        });
        Self { url, kept, task }
    }

    /// The POST requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A provider that begins to answer, and then keeps its peace until the other side goes.
#[derive(Debug)]
pub struct Held {
    /// Where it answers.
    pub url: String,
    left: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Held {
    /// It answers each POST with these events and no end.
    pub async fn start(begin: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let left = Arc::new(AtomicUsize::new(0));
        let (shared, begin) = (Arc::clone(&left), endless(begin));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (left, begin) = (Arc::clone(&shared), begin.clone());
                tokio::spawn(async move {
                    let asked =
                        read(&mut stream).await.is_some_and(|one| one.head.starts_with("post "));
                    if !asked || stream.write_all(begin.as_bytes()).await.is_err() {
                        return;
                    }
                    while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
                    left.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        Self { url, left, task }
    }

    /// Connections that the other side has closed in the middle of an answer.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, kept: Arc<Mutex<Kept>>) {
    let Some(asked) = read(&mut stream).await else { return };
    let bytes = if asked.head.starts_with("get ") {
        response("200 OK", "application/json", r#"{"data":[]}"#).into_bytes()
    } else {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.asked.push(asked);
        let over = || {
            response("500 Internal Server Error", "text/plain", "the script is over").into_bytes()
        };
        kept.script.pop_front().unwrap_or_else(over)
    };
    let _gone = stream.write_all(&bytes).await;
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4_096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap_or(0)) {
                return Some(Asked { head, body: body.to_owned() });
            }
        }
    }
}

/// A response that closes its connection.
pub fn response(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Server-sent events, each named by its `type`.
pub fn events(events: &[Value]) -> String {
    response("200 OK", "text/event-stream", &text(events))
}

fn text(events: &[Value]) -> String {
    let event = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(event).collect()
}

/// The same without an end.
fn endless(events: &[Value]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}{}", text(events))
}

/// A binary event stream of AWS: name and payload of each event.
pub fn frames(events: &[(&str, Value)]) -> Vec<u8> {
    let body: Vec<u8> =
        events.iter().flat_map(|(name, value)| frame(name, value.to_string().as_bytes())).collect();
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend(body);
    bytes
}

/// One frame of it, with its two sums.
pub fn frame(event: &str, payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in [(":event-type", event), (":message-type", "event")] {
        head.push(u8::try_from(name.len()).expect("a short name"));
        head.extend_from_slice(name.as_bytes());
        head.push(7);
        head.extend_from_slice(&u16::try_from(value.len()).expect("a short value").to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    let length = |bytes: usize| u32::try_from(bytes).expect("a short frame").to_be_bytes();
    let mut frame = length(16 + head.len() + payload.len()).to_vec();
    frame.extend_from_slice(&length(head.len()));
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32(&frame).to_be_bytes());
    frame
}

/// Bit by bit, unlike the product's.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| bit(sum)))
}
