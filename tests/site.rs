//! A web site that a story plays for the tools of a run: what it does with a request stands in the request's path, so
//! that a repeat would be treated alike and counted.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The site; gone when it is dropped.
#[derive(Debug)]
pub struct Site {
    /// Where it answers.
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Site {
    /// On a port that the system gives.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(vec![]));
        let shared = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { url, asked, task }
    }

    /// How often a path was asked for, whatever stands behind it.
    pub fn asked(&self, path: &str) -> usize {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|one| one.starts_with(path)).count()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, asked: Arc<Mutex<Vec<String>>>) {
    let Some(path) = path(&mut stream).await else { return };
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
    let word = path.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default();
    let answer = match word {
        // The request has come, and nothing goes back.
        "cut" => return,
        "half" => {
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 99\r\n\r\nhalf of"
                .into()
        }
        "held" => {
            while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
            return;
        }
        "401" | "402" | "403" => page(word, "", "no"),
        "429" => page(word, "", "later"),
        // The same with the time when to come back.
        "soon" => page("429", "retry-after: 1\r\n", "later"),
        "wide" => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; more={}\r\ncontent-length: 2\r\n\r\nno",
            "x".repeat(700)
        ),
        "search" => page("200", "", &results(&path)),
        word => page("200", "", &format!("this is {word}")),
    };
    let _gone = stream.write_all(answer.as_bytes()).await;
}

/// What a SearXNG says: one result, or what is none for the question `broken`.
fn results(path: &str) -> String {
    if path.contains("broken") {
        return "the engine is being mended".to_owned();
    }
    r#"{"results":[{"title":"Rope","url":"https://example.org/rope","content":"Sixty metres."}],"unresponsive_engines":[["slow","timeout"]]}"#.to_owned()
}

fn page(status: &str, more: &str, body: &str) -> String {
    let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Said\r\n{more}content-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The path of a request whose head has come.
async fn path(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4_096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if text.contains("\r\n\r\n") {
            return Some(text.split(' ').nth(1)?.to_owned());
        }
    }
}
