//! What a fallback costs: a primary that is limited and says `Retry-After: 2` beside a backup that answers at once.
//!
//! Both are played in this process and answer over kept connections; nothing cools, for they have no keys, so each call
//! asks the primary first.

mod figure;
mod load;

use figure::{ROUNDS, folder, median, rounded, tell};
use load::Target;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tests::{ADMIN_KEY, Node};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long each measurement is counted.
const TIME: Duration = Duration::from_millis(1_500);
/// Requests in flight.
const IN_FLIGHT: [usize; 2] = [1, 16];

/// A provider that answers every POST with the same bytes.
async fn provider(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer: Arc<[u8]> = answer.into_bytes().into();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&answer)));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, answer: Arc<[u8]>) {
    let _set = stream.set_nodelay(true);
    let mut bytes: Vec<u8> = Vec::with_capacity(8_192);
    while let Ok(1..) = stream.read_buf(&mut bytes).await {
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.map_or(0, |length| length.parse().expect("a length")) {
            continue;
        }
        bytes.clear();
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn limited() -> String {
    let body = r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#;
    format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 2\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn healthy() -> String {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let tokens: String =
        (0..40).map(|nth| chunk(&format!("{{\"content\":\"tok{nth} \"}}"), "null")).collect();
    let body = format!("{tokens}{}data: [DONE]\n\n", chunk("{}", "\"stop\""));
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn target(address: SocketAddr, model: &str) -> Arc<Target> {
    let body =
        json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "hello"}]});
    Target::post(address, ADMIN_KEY, &body.to_string(), b"tok0")
}

#[tokio::main]
async fn main() {
    let (primary, backup) = (provider(limited()).await, provider(healthy()).await);
    let place = tempfile::tempdir_in(folder()).expect("a folder");
    let (primary, url) = (format!("http://{primary}"), format!("http://{backup}"));
    let variables = [
        ("PITON_VLLM_BASE_URL", primary.as_str()),
        ("PITON_SGLANG_BASE_URL", url.as_str()),
        ("PITON_FALLBACK_PROVIDERS", "sglang:m"),
    ];
    let node = Node::start(place.path(), &[], &variables).await;
    let address = node.url.trim_start_matches("http://").parse().expect("an address");
    for in_flight in IN_FLIGHT {
        let (mut direct, mut healthy, mut fallen) = (vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            direct.push(load::run(&target(backup, "m"), in_flight, TIME, || ()).await);
            healthy.push(load::run(&target(address, "sglang:m"), in_flight, TIME, || ()).await);
            fallen.push(load::run(&target(address, "vllm:m"), in_flight, TIME, || ()).await);
        }
        let first = |all: &[load::Seen]| {
            median(all.iter().map(|seen| median(seen.first.clone())).collect())
        };
        let whole = median(fallen.iter().map(|seen| median(seen.whole.clone())).collect());
        tell(
            "fallback",
            &json!({
                "in_flight": in_flight, "p50_ms": rounded(whole, 3), "goal_p50_ms_max": 100,
                "first_token_p50_ms": rounded(first(&fallen), 3),
                "requests_per_s": median(fallen.iter().map(load::Seen::per_second).collect()).round(),
                "without_fallback_p50_ms": rounded(first(&healthy), 3),
                "direct_p50_ms": rounded(first(&direct), 3),
                "added_first_token_p50_ms": rounded(first(&fallen) - first(&direct), 3),
                "goal_added_first_token_ms_max": 50,
            }),
        );
    }
}
