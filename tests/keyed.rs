//! A provider for the stories: answers chat completions, and to a key that was told so with what was told. Knows which
//! keys it was asked with.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What it says.
pub const SAYS: &str = r#"{"id":"c1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#;

#[derive(Default)]
struct Told {
    keys: Vec<String>,
    answers: BTreeMap<String, String>,
}

/// It answers until it is dropped.
pub struct Upstream {
    url: String,
    told: Arc<Mutex<Told>>,
    task: tokio::task::JoinHandle<()>,
}

impl Upstream {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let told = Arc::new(Mutex::new(Told::default()));
        let shared = Arc::clone(&told);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&shared)));
            }
        });
        Self { url, told, task }
    }

    /// Its base address.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// From now on a key is answered with this.
    pub fn answer(&self, key: &str, status: u16, headers: &[(&str, &str)], body: &str) {
        let text = response(status, headers, body);
        self.told.lock().unwrap().answers.insert(key.to_owned(), text);
    }

    /// The key of the newest request for a model's answer.
    pub fn last_key(&self) -> String {
        self.told.lock().unwrap().keys.last().cloned().unwrap_or_default()
    }

    /// From now on a key is answered like any other again.
    pub fn heal(&self, key: &str) {
        self.told.lock().unwrap().answers.remove(key);
    }

    /// The keys that were used, in order.
    pub fn all_keys(&self) -> Vec<String> {
        self.told.lock().unwrap().keys.clone()
    }

    /// The keys that were used, each once.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.told.lock().unwrap().keys.clone();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Forgets which keys were used.
    pub fn forget(&self) {
        self.told.lock().unwrap().keys.clear();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn response(status: u16, headers: &[(&str, &str)], body: &str) -> String {
    let mut text =
        format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\nconnection: close\r\n");
    for (name, value) in headers {
        let _written = write!(text, "{name}: {value}\r\n");
    }
    let _written = write!(text, "content-length: {}\r\n\r\n{body}", body.len());
    text
}

async fn serve(mut socket: TcpStream, told: Arc<Mutex<Told>>) {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break String::from_utf8_lossy(&bytes[..end]).into_owned();
        }
        match socket.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    };
    let field = |name: &str| {
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let length: usize = field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while bytes.len() < head.len() + 4 + length {
        match socket.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let key = field("authorization").unwrap_or_default();
    let key = key.trim_start_matches("Bearer ").to_owned();
    let asks = head.starts_with("POST");
    let answer = {
        let mut told = told.lock().unwrap();
        let answer = told.answers.get(&key).cloned();
        if asks {
            told.keys.push(key);
        }
        let models = r#"{"object":"list","data":[{"id":"gpt-x"}]}"#;
        answer.unwrap_or_else(|| response(200, &[], if asks { SAYS } else { models }))
    };
    let _gone = socket.write_all(answer.as_bytes()).await;
    let _closed = socket.shutdown().await;
}
