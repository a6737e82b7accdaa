//! Deadlines and bounds: silence, noise without end, and callers that go away.

use super::peer::{HEAD, PATIENCE, Peer, body, both, call, content, piece, request, until_gone};
use crate::class::{Charge, Class};
use crate::endpoint::Endpoint;
use crate::family::Mode;
use crate::transport::Client;
use events::leave::Leave;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

#[tokio::test]
async fn silence_past_the_idle_deadline_is_a_time_out() {
    for head in ["", HEAD, &format!("{HEAD}{}", content("x"))] {
        let (peer, endpoint) = Peer::new().await;
        let endpoint = Endpoint { idle: Duration::from_millis(100), ..endpoint };
        let serve = async {
            let (mut stream, _) = peer.accept().await;
            stream.write_all(head.as_bytes()).await.unwrap();
            until_gone(&mut stream).await;
        };
        let ((), (outcome, _)) = both(serve, call(&endpoint, Mode::Stream)).await;
        let failure = outcome.unwrap_err();
        assert_eq!(
            (failure.class, failure.charge),
            (Class::Timeout, Charge::Unknown),
            "{}",
            failure.message
        );
        assert!(failure.message.contains("100 ms"), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_peer_that_only_keeps_alive_meets_the_total_deadline() {
    let (peer, endpoint) = Peer::new().await;
    let endpoint = Endpoint { total: Duration::from_millis(200), ..endpoint };
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        let comment = piece(": still here\n\n");
        while stream.write_all(comment.as_bytes()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let ((), (outcome, deltas)) = both(serve, call(&endpoint, Mode::Stream)).await;
    let failure = outcome.unwrap_err();
    assert_eq!((failure.class, failure.charge, deltas), (Class::Timeout, Charge::Unknown, vec![]));
    assert!(failure.message.contains("200 ms"), "{}", failure.message);
}

#[tokio::test]
async fn a_whole_answer_may_be_silent_for_longer_than_a_stream() {
    let (peer, endpoint) = Peer::new().await;
    let endpoint = Endpoint { idle: Duration::ZERO, total: PATIENCE, ..endpoint };
    let text = body("application/json", "200 OK", r#"{"choices":[{"message":{"content":"x"}}]}"#);
    let (_, (outcome, _)) = both(peer.answer(&text), call(&endpoint, Mode::Whole)).await;
    // Past the head the idle deadline holds again, and zero lets nothing through.
    assert_ne!(outcome.map_err(|failure| failure.status), Err(None), "the head was waited for");
}

#[tokio::test]
async fn an_endless_line_is_refused_before_it_is_read() {
    let (peer, endpoint) = Peer::new().await;
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
            .await
            .unwrap();
        let piece = vec![b'x'; 1 << 20];
        let mut written = 0;
        while written < 256 && stream.write_all(&piece).await.is_ok() {
            written += 1;
        }
        written
    };
    let (written, (outcome, _)) = both(serve, call(&endpoint, Mode::Stream)).await;
    let failure = outcome.unwrap_err();
    assert_eq!(failure.class, Class::StreamError);
    assert!(failure.message.contains("line of the stream is longer"), "{}", failure.message);
    assert!(written < 256, "the client went on reading");
}

#[tokio::test]
async fn an_endless_body_is_refused_before_it_is_read() {
    let (peer, endpoint) = Peer::new().await;
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
            .await
            .unwrap();
        let piece = vec![b' '; 1 << 20];
        let mut written = 0;
        while written < 256 && stream.write_all(&piece).await.is_ok() {
            written += 1;
        }
        written
    };
    let (written, (outcome, _)) = both(serve, call(&endpoint, Mode::Whole)).await;
    assert_eq!(outcome.unwrap_err().class, Class::StreamError);
    assert!(written < 256, "the client went on reading");
}

#[tokio::test]
async fn a_dropped_call_drops_its_connection() {
    let (peer, endpoint) = Peer::new().await;
    let seen = Notify::new();
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        stream.write_all(format!("{HEAD}{}", content("x")).as_bytes()).await.unwrap();
        until_gone(&mut stream).await;
    };
    let ask = async {
        let client = Client::new().unwrap();
        let (asked, leave) = (request(), Leave::free());
        let mut sink = |_| seen.notify_one();
        tokio::select! {
            outcome = client.call(&endpoint, &asked, Mode::Stream, &leave, &mut sink) => panic!("{outcome:?}"),
            () = seen.notified() => {}
        }
    };
    both(serve, ask).await;
}
