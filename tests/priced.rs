//! A provider with a price that answers when the story says so, and counts what reached it: the Messages API, whose
//! default model stands in the price table.

use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::upstream::{events, response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What an answer costs at the table's prices: 10 tokens in at 2.00 and 7 out at 10.00 USD a million.
pub const COST_USD: f64 = 0.000_09;

/// The provider; gone when it is dropped.
pub struct Priced {
    url: String,
    asked: Arc<AtomicUsize>,
    free: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Priced {
    /// One that answers at once.
    pub async fn free() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, free) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(true));
        let (count, gate) = (Arc::clone(&asked), free.subscribe());
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&count), gate.clone()));
            }
        });
        Self { url, asked, free, task }
    }

    /// What a node needs to know of it.
    pub fn variables(&self) -> [(&'static str, &str); 2] {
        [("ANTHROPIC_API_KEY", "sk-ant-planted"), ("PITON_ANTHROPIC_BASE_URL", &self.url)]
    }

    /// Lets answers out, or holds them from now on.
    pub fn gate(&self, open: bool) {
        self.free.send_replace(open);
    }

    /// Calls that reached it.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Priced {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn says() -> String {
    events(&[
        json!({ "type": "message_start", "message": { "id": "msg_1", "model": "claude-sonnet-5-5", "content": [],
            "usage": { "input_tokens": 10, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Yes." } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 7 } }),
        json!({ "type": "message_stop" }),
    ])
}

/// The same when the whole answer is asked for.
fn says_whole() -> String {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
        "content": [{ "type": "text", "text": "Yes." }], "stop_reason": "end_turn",
        "usage": { "input_tokens": 10, "output_tokens": 7 } });
    response("200 OK", "application/json", &message.to_string())
}

async fn serve(mut socket: TcpStream, asked: Arc<AtomicUsize>, mut free: watch::Receiver<bool>) {
    let mut bytes = Vec::new();
    let text = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                break text;
            }
        }
        match socket.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    };
    let answer = if text.starts_with("POST") {
        asked.fetch_add(1, Ordering::SeqCst);
        // The story may be over.
        if free.wait_for(|free| *free).await.is_err() {
            return;
        }
        if text.contains(r#""stream":true"#) { says() } else { says_whole() }
    } else {
        response("200 OK", "application/json", r#"{"data":[]}"#)
    };
    let _gone = socket.write_all(answer.as_bytes()).await;
}
