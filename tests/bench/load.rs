//! A closed loop of one HTTP/1.1 request over kept connections: what a client waits for, and nothing else.
//!
//! It shares the machine with what it measures, so it writes prepared bytes and looks for marks in what comes back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Before anything is counted: connections are opened, code and pages get warm.
pub const WARM_UP: Duration = Duration::from_millis(300);
/// Bytes that one read may bring.
const READ: usize = 16_384;

/// What is asked of whom.
pub struct Target {
    pub address: SocketAddr,
    /// The request, exactly as it is written.
    pub request: Vec<u8>,
    /// What the first token looks like; found in every whole answer.
    pub mark: &'static [u8],
}

impl Target {
    /// A POST of JSON.
    pub fn post(address: SocketAddr, key: &str, body: &str, mark: &'static [u8]) -> Arc<Self> {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Arc::new(Self { address, request: [head.as_bytes(), body.as_bytes()].concat(), mark })
    }
}

/// What the loop saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Milliseconds from the first byte written to the mark.
    pub first: Vec<f64>,
    /// Milliseconds to the last byte.
    pub whole: Vec<f64>,
    /// How long it was counted.
    pub wall: Duration,
}

impl Seen {
    pub fn per_second(&self) -> f64 {
        self.whole.len() as f64 / self.wall.as_secs_f64()
    }
}

/// Asks with so many in flight, for so long after the warm-up; `begins` is called when counting begins.
pub async fn run(
    target: &Arc<Target>,
    in_flight: usize,
    time: Duration,
    begins: impl FnOnce(),
) -> Seen {
    let from = Instant::now() + WARM_UP;
    let until = from + time;
    let lanes: Vec<_> =
        (0..in_flight).map(|_| tokio::spawn(lane(Arc::clone(target), from, until))).collect();
    tokio::time::sleep_until(from.into()).await;
    begins();
    let mut seen = Seen { wall: time, ..Seen::default() };
    for lane in lanes {
        let (first, whole) = lane.await.expect("a lane");
        seen.first.extend(first);
        seen.whole.extend(whole);
    }
    seen
}

async fn lane(target: Arc<Target>, from: Instant, until: Instant) -> (Vec<f64>, Vec<f64>) {
    let mut stream = TcpStream::connect(target.address).await.expect("a connection");
    stream.set_nodelay(true).expect("nodelay");
    let (mut first, mut whole, mut buffer) = (vec![], vec![], Vec::with_capacity(READ));
    loop {
        let started = Instant::now();
        if started >= until {
            return (first, whole);
        }
        let marked = once(&mut stream, &target, &mut buffer).await;
        let ended = Instant::now();
        if started >= from && ended <= until {
            first.push((marked - started).as_secs_f64() * 1e3);
            whole.push((ended - started).as_secs_f64() * 1e3);
        }
    }
}

/// One request and its whole answer; says when the mark came.
async fn once(stream: &mut TcpStream, target: &Target, buffer: &mut Vec<u8>) -> Instant {
    stream.write_all(&target.request).await.expect("it is sent");
    buffer.clear();
    let (mut marked, mut end) = (None, None);
    loop {
        let before = buffer.len();
        let read = stream.read_buf(buffer).await.expect("an answer");
        assert!(read > 0, "cut short: {}", String::from_utf8_lossy(buffer));
        if marked.is_none()
            && find(&buffer[before.saturating_sub(target.mark.len())..], target.mark).is_some()
        {
            marked = Some(Instant::now());
        }
        end = end.or_else(|| End::of(buffer));
        if end.is_some_and(|end| end.reached(buffer)) {
            assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(buffer));
            return marked.expect("the answer has a first token");
        }
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// After so many bytes.
    At(usize),
    /// With the empty chunk. Events hold no carriage return, so nothing else looks like it.
    Chunk,
}

impl End {
    /// Said by the head, once all of it is there.
    fn of(answer: &[u8]) -> Option<Self> {
        let head = find(answer, b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
        Some(length.map_or(Self::Chunk, |length| {
            Self::At(head + length.trim().parse::<usize>().expect("a length"))
        }))
    }

    fn reached(self, answer: &[u8]) -> bool {
        match self {
            Self::At(bytes) => answer.len() >= bytes,
            Self::Chunk => answer.ends_with(b"\r\n0\r\n\r\n"),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
