//! A peer on loopback that does what a test says, and names that lead where a test says.

use crate::outbound::{Resolve, Resolving};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Far above what any of these tests takes; it only keeps a hang from hiding.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Peer(TcpListener);

impl Peer {
    pub(crate) async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.port())
    }

    /// Reads one request, writes these bytes and closes.
    pub(crate) async fn answer(&self, bytes: &str) -> String {
        let (mut stream, _) = self.0.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        // Whoever has read enough is gone before the end.
        let _gone = stream.write_all(bytes.as_bytes()).await;
        request
    }

    /// Reads until the client is gone, and says nothing.
    pub(crate) async fn reads_all(&self) -> Vec<u8> {
        let (mut stream, _) = self.0.accept().await.unwrap();
        let mut seen = Vec::new();
        let _reset = stream.read_to_end(&mut seen).await;
        seen
    }

    /// Writes a body without an end until the client is gone; gives the bytes that could be written.
    pub(crate) async fn pours(&self) -> usize {
        let (mut stream, _) = self.0.accept().await.unwrap();
        read_request(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let (piece, mut written) = (vec![b'x'; 64 << 10], 0);
        while stream.write_all(&piece).await.is_ok() {
            written += piece.len();
        }
        written
    }

    /// Nobody has connected: what connects now is the first in the queue.
    pub(crate) async fn was_not_asked(&self) {
        let own = TcpStream::connect(self.0.local_addr().unwrap()).await.unwrap();
        let (_, from) = self.0.accept().await.unwrap();
        assert_eq!(from, own.local_addr().unwrap());
    }

    /// Stops listening; the address that nobody answers at.
    pub(crate) fn leave_the_port(self) -> String {
        self.url("a.test")
    }
}

/// One request: its head, and as many bytes more as it says.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut piece = vec![0; 4_096];
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

pub(crate) fn ok(body: &str) -> String {
    reply("200 OK", "content-type: text/plain\r\n", body)
}

pub(crate) fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn led_to(location: &str) -> String {
    reply("302 Found", &format!("location: {location}\r\n"), "")
}

/// Runs the peer and the client side by side.
pub(crate) async fn both<A, B>(
    peer: impl Future<Output = A>,
    client: impl Future<Output = B>,
) -> (A, B) {
    let both = async { tokio::join!(peer, client) };
    timeout(PATIENCE, both).await.expect("the test hangs")
}

/// Names that lead where a test says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    own: BTreeMap<String, Vec<IpAddr>>,
    /// For every other name: one answer after the other, the last for ever.
    turning: Vec<IpAddr>,
    asked: Arc<AtomicUsize>,
}

impl Names {
    pub(crate) fn none() -> Self {
        Self::default()
    }

    pub(crate) fn all(address: &str) -> Self {
        Self::turning(&[address])
    }

    pub(crate) fn turning(addresses: &[&str]) -> Self {
        Self { turning: parsed(addresses), ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &str, addresses: &[&str]) -> Self {
        self.own.insert(name.to_owned(), parsed(addresses));
        self
    }

    pub(crate) fn asked(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.asked)
    }
}

fn parsed(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

impl Resolve for Names {
    fn resolve(&self, name: &str) -> Resolving {
        let turn = self.asked.fetch_add(1, Ordering::Relaxed);
        let turned = self.turning.get(turn).or(self.turning.last());
        let found = self.own.get(name).cloned().or_else(|| turned.map(|address| vec![*address]));
        let none = || io::Error::new(io::ErrorKind::NotFound, "no such name");
        Box::pin(std::future::ready(found.ok_or_else(none)))
    }
}
