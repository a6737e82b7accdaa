//! Calls over real sockets.

mod cloud;
mod families;
mod limits;
mod peer;

use super::incoming::BODY_BYTES_MAX;
use super::{Client, Unanswered};
use crate::class::{Charge, Class};
use crate::delta::{Delta, Stop};
use crate::endpoint::Endpoint;
use crate::family::Mode;
use crate::secret::Secret;
use events::leave::{Leave, NotSent};
use events::quantity::{Millis, Tokens};
use events::usage::Usage;
use peer::{
    HEAD, Peer, body, both, call, content, event, failed, finished, piece, read_request, replied,
    request, until_gone,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

#[tokio::test]
async fn a_request_says_what_it_wants_and_nothing_else() {
    let (peer, endpoint) = Peer::new().await;
    let endpoint = Endpoint { headers: vec![("x-title".into(), "piton".into())], ..endpoint };
    let bytes = format!("{HEAD}{}{}0\r\n\r\n", finished(), piece("data: [DONE]\n\n"));
    let (asked, _) = both(peer.answer(&bytes), call(&endpoint, Mode::Stream)).await;
    let (head, sent) = asked.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    for line in [
        "post /v1/chat/completions http/1.1",
        "authorization: bearer topsecret",
        "accept: text/event-stream",
        "content-type: application/json",
        "x-title: piton",
    ] {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
    assert!(head.contains("user-agent: piton/"), "{head}");
    assert!(!head.contains("accept-encoding"), "a compressed answer could not be bounded: {head}");
    assert_eq!(
        sent,
        String::from_utf8(endpoint.family.encode(&endpoint, &request(), Mode::Stream).unwrap())
            .unwrap()
    );
}

#[tokio::test]
async fn deltas_are_handed_out_before_the_next_byte_comes() {
    let (peer, endpoint) = Peer::new().await;
    let seen = Notify::new();
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        stream.write_all(format!("{HEAD}{}", content("one ")).as_bytes()).await.unwrap();
        // Sends no more until the client has shown the first piece.
        seen.notified().await;
        // Half an event, in the middle of a character, and its rest.
        let two = content("zwölf");
        let (first, rest) = two.as_bytes().split_at(two.find('ö').unwrap() + 1);
        stream.write_all(first).await.unwrap();
        stream.flush().await.unwrap();
        stream.write_all(rest).await.unwrap();
        let usage = piece(
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
        );
        let end = format!("{}{usage}{}0\r\n\r\n", finished(), piece("data: [DONE]\n\n"));
        stream.write_all(end.as_bytes()).await.unwrap();
    };
    let ask = async {
        let mut deltas = Vec::new();
        let mut sink = |delta| {
            deltas.push(delta);
            seen.notify_one();
        };
        let answer = Client::new()
            .unwrap()
            .call(&endpoint, &request(), Mode::Stream, &Leave::free(), &mut sink)
            .await
            .unwrap();
        (answer, deltas)
    };
    let ((), (answer, deltas)) = both(serve, ask).await;
    assert_eq!(deltas, [Delta::Text("one ".into()), Delta::Text("zwölf".into())]);
    assert_eq!((answer.message.plain().as_str(), &answer.stop), ("one zwölf", &Stop::End));
    assert_eq!((answer.usage.prompt, answer.usage.completion), (Some(Tokens(3)), Some(Tokens(2))));
    assert_eq!(
        (answer.served_model.as_deref(), answer.request_id.as_deref()),
        (Some("m-1"), Some("req_1"))
    );
}

/// As long as what was asked for: the next answer would be too, so nobody asks again.
#[tokio::test]
async fn vectors_beyond_the_bound_are_told_as_too_many_and_a_longer_answer_of_a_model_as_broken() {
    let long = body("application/json", "200 OK", &"7".repeat(BODY_BYTES_MAX + 1));
    let (peer, endpoint) = Peer::new().await;
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        // The client goes once it has read too much.
        let _gone = stream.write_all(long.as_bytes()).await;
    };
    let ask = async { Client::new().unwrap().embed(&endpoint, &request(), &Leave::free()).await };
    let ((), vectors) = both(serve, ask).await;
    let vectors = failed(vectors.unwrap_err());
    assert_eq!((vectors.class, vectors.charge), (Class::PayloadTooLarge, Charge::Unknown));
    assert!(vectors.message.contains("ask for fewer inputs at once"), "{vectors}");
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        let _gone = stream.write_all(long.as_bytes()).await;
    };
    let ((), (answer, _)) = both(serve, call(&endpoint, Mode::Whole)).await;
    assert_eq!(answer.unwrap_err().class, Class::StreamError);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (peer, endpoint) = Peer::new().await;
    let client = Client::new().unwrap();
    let serve = async {
        let (mut stream, _) = peer.accept().await;
        let answer = format!("{HEAD}{}{}{}", content("x"), finished(), piece("data: [DONE]\n\n"));
        stream.write_all(answer.as_bytes()).await.unwrap();
        // Lets the client read `[DONE]` before the end of the body comes, as a peer's own flush would.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        // The second request must come over the same connection: no other is accepted.
        read_request(&mut stream).await;
        stream.write_all(format!("{answer}0\r\n\r\n").as_bytes()).await.unwrap();
    };
    let ask = async {
        let (asks, leave) = (request(), Leave::free());
        for _ in 0..2 {
            let asked = client.call(&endpoint, &asks, Mode::Stream, &leave, &mut |_| ()).await;
            let answer = asked.unwrap();
            assert_eq!(answer.message.plain(), "x");
        }
    };
    both(serve, ask).await;
}

#[tokio::test]
async fn what_may_not_leave_is_asked_when_the_connection_stands_and_sends_no_byte() {
    let (peer, endpoint) = Peer::new().await;
    let client = Client::new().unwrap();
    let serve = async {
        // First over a new connection, then over one that has served before.
        let (mut stream, _) = peer.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), "");
        let (mut stream, _) = peer.accept().await;
        let answer = format!("{HEAD}{}{}{}", content("x"), finished(), piece("data: [DONE]\n\n"));
        stream.write_all(format!("{answer}0\r\n\r\n").as_bytes()).await.unwrap();
        bytes.clear();
        stream.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), "");
    };
    let late = NotSent::TooLate { waited: Millis(2_000) };
    let ask = async {
        let (asks, free, refusing) = (request(), Leave::free(), Leave::new(move || Err(late)));
        for (leave, then) in [(&refusing, Some(late)), (&free, None), (&refusing, Some(late))] {
            let asked = client.call(&endpoint, &asks, Mode::Stream, leave, &mut |_| ()).await;
            assert_eq!(asked.err(), then.map(Unanswered::NotSent));
        }
    };
    both(serve, ask).await;
    // Nobody listens: there is nothing to ask leave for, and the failure is what it was.
    drop(peer);
    let leave = Leave::new(|| panic!("no connection stands"));
    let asked = client.call(&endpoint, &request(), Mode::Stream, &leave, &mut |_| ()).await;
    let Err(Unanswered::Failed(failure)) = asked else { panic!("{asked:?}") };
    assert_eq!((failure.class, failure.charge), (Class::Transport, Charge::NotCharged));
}

#[tokio::test]
async fn a_whole_answer_is_read() {
    let (peer, endpoint) = Peer::new().await;
    let text = r#"{"model":"m-1","choices":[{"message":{"content":"all"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let bytes = body("application/json", "200 OK", text);
    let (asked, (answer, deltas)) = both(peer.answer(&bytes), call(&endpoint, Mode::Whole)).await;
    assert!(asked.contains("\"stream\":false") && !asked.contains("stream_options"), "{asked}");
    assert_eq!((answer.unwrap().message.plain().as_str(), deltas), ("all", vec![]));
}

#[tokio::test]
async fn an_answer_in_the_other_form_is_read_all_the_same() {
    let text = "{\"choices\":[{\"message\":{\"content\":\"all\"},\"finish_reason\":\"stop\"}]}";
    let json = body("application/json", "200 OK", text);
    let (answer, deltas) = replied(&json).await;
    assert_eq!(
        (answer.unwrap().message.plain().as_str(), deltas),
        ("all", vec![Delta::Text("all".into())])
    );
    let untyped = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    assert_eq!(replied(&untyped).await.0.unwrap().message.plain(), "all");
    let (peer, endpoint) = Peer::new().await;
    let stream =
        format!("{HEAD}{}{}{}0\r\n\r\n", content("x"), finished(), piece("data: [DONE]\n\n"));
    let untyped = stream.replace("content-type: text/event-stream\r\n", "");
    let (_, (answer, _)) = both(peer.answer(&untyped), call(&endpoint, Mode::Whole)).await;
    assert_eq!(answer.unwrap().message.plain(), "x");
}

#[tokio::test]
async fn a_stream_that_ends_early_is_truncated_and_its_calls_are_lost() {
    let half = r#"{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}"#;
    let clean = format!("{HEAD}{}{}0\r\n\r\n", content("x"), event(half));
    let cut = format!("{HEAD}{}{}", content("x"), event(half));
    for bytes in [&clean, &cut] {
        let (outcome, deltas) = replied(bytes).await;
        let failure = outcome.unwrap_err();
        assert_eq!(
            (failure.class, failure.charge, failure.status),
            (Class::StreamTruncated, Charge::Unknown, Some(200))
        );
        assert_eq!(failure.request_id.as_deref(), Some("req_1"));
        assert_eq!(deltas[0], Delta::Text("x".into()));
    }
    let silent = replied(HEAD).await.0.unwrap_err();
    assert_eq!((silent.class, silent.charge), (Class::StreamTruncated, Charge::Unknown));
}

#[tokio::test]
async fn what_breaks_off_after_the_finish_reason_costs_nothing() {
    let answer = replied(&format!("{HEAD}{}{}", content("x"), finished())).await.0.unwrap();
    assert_eq!((answer.message.plain().as_str(), answer.usage), ("x", Usage::default()));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_head_is_a_lost_call() {
    let failure = replied("").await.0.unwrap_err();
    assert_eq!(
        (failure.class, failure.charge, failure.status),
        (Class::Transport, Charge::Unknown, None)
    );
}

#[tokio::test]
async fn a_call_that_never_left_is_free() {
    let (peer, endpoint) = Peer::new().await;
    drop(peer);
    let failure = call(&endpoint, Mode::Stream).await.0.unwrap_err();
    assert_eq!((failure.class, failure.charge), (Class::Transport, Charge::NotCharged));
    assert!(failure.message.to_lowercase().contains("refused"), "{}", failure.message);
}

#[tokio::test]
async fn a_peer_that_speaks_no_tls_is_not_trusted() {
    let (peer, endpoint) = Peer::new().await;
    let base_url = endpoint.base_url.as_str().replace("http:", "https:").parse().unwrap();
    let endpoint = Endpoint { base_url, ..endpoint };
    let serve = async {
        let (mut stream, _) = peer.listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        until_gone(&mut stream).await;
    };
    let ((), (outcome, _)) = both(serve, call(&endpoint, Mode::Stream)).await;
    let failure = outcome.unwrap_err();
    assert_eq!(
        (failure.class, failure.charge),
        (Class::Tls, Charge::NotCharged),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn a_refusal_is_classified_with_its_hint() {
    let text = r#"{"error":{"message":"Rate limit for topsecret. Try again in 9s","code":"rate_limit_exceeded"}}"#;
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: Mon, 30 Nov 2026 18:00:30 GMT\r\ndate: Mon, 30 Nov 2026 18:00:00 GMT\r\nx-request-id: req_9\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    );
    let failure = replied(&head).await.0.unwrap_err();
    assert_eq!(
        (failure.class, failure.status, failure.charge),
        (Class::RateLimited, Some(429), Charge::NotCharged)
    );
    assert_eq!(failure.hint, Some(Millis(30_000)), "by the provider's own clock");
    assert_eq!(failure.request_id.as_deref(), Some("req_9"));
    assert_eq!(failure.message, "Rate limit for [redacted]. Try again in 9s");
}

#[tokio::test]
async fn a_success_can_be_an_error() {
    let refused = |text: &str| body("application/json", "200 OK", text);
    let limited =
        replied(&refused(r#"{"error":{"message":"slow down","code":429}}"#)).await.0.unwrap_err();
    assert_eq!(
        (limited.class, limited.charge, limited.status),
        (Class::RateLimited, Charge::Unknown, Some(200))
    );
    let nothing = replied(&refused(r#"{"choices":[]}"#)).await.0.unwrap_err();
    assert_eq!((nothing.class, nothing.charge), (Class::Unknown, Charge::Unknown));
    let error = piece(
        "data: {\"error\":{\"message\":\"Rate limit reached mid stream\",\"code\":429},\"usage\":{\"prompt_tokens\":7},\"choices\":[]}\n\n",
    );
    let failure = replied(&format!("{HEAD}{}{error}0\r\n\r\n", content("x"))).await.0.unwrap_err();
    assert_eq!((failure.class, failure.charge), (Class::RateLimited, Charge::Unknown));
    assert_eq!(failure.partial.prompt, Some(Tokens(7)));
}

#[tokio::test]
async fn pages_and_redirects_are_no_answers() {
    let page =
        replied(&body("text/html; charset=utf-8", "200 OK", "<html></html>")).await.0.unwrap_err();
    assert_eq!(page.class, Class::Unknown);
    assert!(page.message.contains("web page"), "{}", page.message);
    let away = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let failure = replied(away).await.0.unwrap_err();
    assert_eq!(
        (failure.class, failure.status, failure.charge),
        (Class::InvalidRequest, Some(307), Charge::NotCharged)
    );
}

#[tokio::test]
async fn a_header_that_http_refuses_is_named_without_its_value() {
    let (_peer, endpoint) = Peer::new().await;
    let key = Some(Secret::new("top\nsecret".to_owned()));
    let failure = call(&Endpoint { key, ..endpoint.clone() }, Mode::Stream).await.0.unwrap_err();
    assert_eq!((failure.class, failure.charge), (Class::AuthInvalid, Charge::NotCharged));
    let headers = vec![("x-token".to_owned(), "hush\n".to_owned())];
    let failure = call(&Endpoint { headers, ..endpoint }, Mode::Stream).await.0.unwrap_err();
    assert_eq!((failure.class, failure.charge), (Class::InvalidRequest, Charge::NotCharged));
    assert!(
        failure.message.contains("x-token") && !failure.message.contains("hush"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn models_are_listed_in_every_shape() {
    for text in [
        r#"{"data":[{"id":"a"},{"id":"b"},{}]}"#,
        r#"{"models":[{"name":"a"},{"name":"b"}]}"#,
        r#"["a","b"]"#,
    ] {
        let (peer, endpoint) = Peer::new().await;
        let bytes = body("application/json", "200 OK", text);
        let client = Client::new().unwrap();
        let (asked, models) = both(peer.answer(&bytes), client.models(&endpoint)).await;
        assert!(asked.starts_with("GET /v1/models HTTP/1.1"), "{asked}");
        assert_eq!(models.unwrap(), ["a", "b"]);
    }
    let (peer, endpoint) = Peer::new().await;
    let bytes = body("application/json", "401 Unauthorized", "{}");
    let client = Client::new().unwrap();
    let (_, models) = both(peer.answer(&bytes), client.models(&endpoint)).await;
    assert_eq!(models.unwrap_err().class, Class::AuthInvalid);
}
