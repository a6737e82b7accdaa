//! After a fallback the client reads what the backup says, as the backup says it.

use super::*;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A provider that says its first words at once, and the others when it is let.
struct Paced {
    url: String,
    let_on: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Paced {
    async fn start(first: &str, rest: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let (first, rest) = (format!("{head}{first}"), rest.to_owned());
        let let_on = Arc::new(Semaphore::new(0));
        let gate = Arc::clone(&let_on);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (gate, first, rest) = (Arc::clone(&gate), first.clone(), rest.clone());
                tokio::spawn(async move {
                    let mut bytes = vec![0; 64 << 10];
                    let count = stream.read(&mut bytes).await.unwrap_or_default();
                    if !bytes[..count].starts_with(b"POST") {
                        return;
                    }
                    let _gone = stream.write_all(first.as_bytes()).await;
                    gate.acquire().await.expect("it is never closed").forget();
                    let _gone = stream.write_all(rest.as_bytes()).await;
                });
            }
        });
        Self { url, let_on, task }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The bytes without what names the answer: its run, its second and the model that was asked for.
fn bare(text: &str) -> String {
    let mut lines = vec![];
    for line in text.split('\n') {
        let Some(mut data) =
            line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok())
        else {
            lines.push(line.to_owned());
            continue;
        };
        let mut line = line.to_owned();
        for name in ["id", "created", "model"] {
            let value = data[name].take().to_string();
            line = line.replacen(&format!("\"{name}\":{value}"), &format!("\"{name}\":_"), 1);
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[tokio::test]
async fn the_first_token_of_a_backup_comes_while_it_still_speaks_and_all_bytes_are_its_own() {
    let first = [begin(), piece("Hel")].concat();
    let rest = [&[piece("lo, "), piece("you.")][..], &end()].concat().concat();
    let backup = Paced::start(&first, &rest).await;
    let folder = tempfile::tempdir().unwrap();
    let primary = Upstream::start(vec![response("503 x", "application/json", LIMITED)]).await;
    let variables = [
        ("PITON_VLLM_BASE_URL", primary.url.as_str()),
        ("PITON_SGLANG_BASE_URL", backup.url.as_str()),
        ("PITON_FALLBACK_PROVIDERS", "sglang:m"),
        ("PITON_RETRY_API_MAX_RETRIES", "0"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    let open = async |model: &str| {
        let request = json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "hello"}]});
        let got = body(node.ask(Method::POST, CHAT), &request).send().await.unwrap();
        assert_eq!(got.status(), 200);
        got
    };
    backup.let_on.add_permits(1);
    let healthy = open("sglang:m").await.text().await.unwrap();
    assert!(healthy.ends_with("data: [DONE]\n\n"), "{healthy}");

    let mut got = open("vllm:m").await;
    let mut text = String::new();
    while !text.contains("Hel") {
        // The backup is not let on before this has come.
        let piece = tokio::time::timeout(tests::process::patience(), got.chunk()).await;
        let piece = piece.expect("the first token comes").unwrap().expect("more");
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert!(!text.contains("lo, "), "{text}");
    backup.let_on.add_permits(1);
    while let Some(piece) = got.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    assert_eq!(bare(&text), bare(&healthy));
    assert_eq!(primary.asked().len(), 1);
}
