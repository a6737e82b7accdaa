//! Pages from a peer on loopback.

use super::*;
use crate::outbound::peer::{Names, Peer, both, led_to, reply};
use crate::outbound::{Place, Places};
use crate::tool::{NotSent, Rejection};
use events::leave::Leave;
use events::quantity::Instant;
use serde_json::{Value, json};
use std::sync::Arc;

fn fetch() -> Fetch {
    let place = |text: &str| text.parse::<Place>().unwrap();
    let places = Places {
        allow: vec![place("a.test"), place("b.test")],
        allow_private: vec![place("127.0.0.1")],
    };
    Fetch::new(Guard::new(places, Arc::new(Names::all("127.0.0.1"))).unwrap())
}

fn call(arguments: &Value) -> Call {
    let arguments = Json::from(arguments.to_string());
    Call::new(1, arguments, Instant(0), Instant(0).after(Millis(10_000)))
}

async fn fetched(peer: &Peer, bytes: &str, call: Call) -> (String, Result<Value, ToolError>) {
    let fetch = fetch();
    let (asked, told) = both(peer.answer(bytes), fetch.call(call)).await;
    (asked, told.map(|text| serde_json::from_str(&text).unwrap()))
}

#[tokio::test]
async fn a_page_is_told_with_its_status_its_type_and_its_text() {
    let peer = Peer::new().await;
    let url = peer.url("a.test");
    let page = reply("404 Not Found", "content-type: text/html; charset=utf-8\r\n", "<p>grüße</p>");
    let (asked, told) = fetched(&peer, &page, call(&json!({ "url": url }))).await;
    assert_eq!(
        told.unwrap(),
        json!({"status":404,"url":url,"content_type":"text/html; charset=utf-8","content_length":14,
            "text":"<p>grüße</p>","truncated":false})
    );
    assert!(asked.starts_with("GET / HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("accept-encoding: identity") && asked.contains("piton/"), "{asked}");
}

#[tokio::test]
async fn a_head_and_what_is_no_text_have_none() {
    let peer = Peer::new().await;
    let url = peer.url("a.test");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9000\r\n\r\n";
    let (asked, told) = fetched(&peer, head, call(&json!({"url": url, "method": "HEAD"}))).await;
    let told = told.unwrap();
    assert!(
        asked.starts_with("HEAD /") && told["text"].is_null() && told["content_length"] == 9_000
    );
    for headers in
        ["content-type: image/png\r\n", "content-type: text/plain\r\ncontent-encoding: gzip\r\n"]
    {
        let page = reply("200 OK", headers, "\u{1}x");
        let (_, told) = fetched(&peer, &page, call(&json!({ "url": url }))).await;
        assert!(told.unwrap()["text"].is_null(), "{headers}");
    }
}

#[tokio::test]
async fn a_long_text_is_cut_and_the_cut_is_said() {
    let peer = Peer::new().await;
    let url = peer.url("a.test");
    let page = reply("200 OK", "content-type: text/plain\r\n", &"é\n".repeat(20_000));
    let (_, told) = fetched(&peer, &page, call(&json!({ "url": url }))).await;
    let told = told.unwrap();
    assert_eq!(told["text"].as_str().unwrap().chars().count(), 16_000);
    assert_eq!(told["truncated"], true);
    let (_, told) = fetched(&peer, &page, call(&json!({"url": url, "max_chars": 3}))).await;
    assert_eq!(told.unwrap()["text"], "é\né");

    // The bound of a result holds for what is written down, quotes and all.
    let page = reply("200 OK", "content-type: text/plain\r\n", &"\"\u{1}".repeat(30_000));
    let narrow = Call { result_max: 8_192, ..call(&json!({"url": url, "max_chars": 700_000})) };
    let fetch = fetch();
    let (_, told) = both(peer.answer(&page), fetch.call(narrow)).await;
    let told = told.unwrap();
    assert!((6_000..=8_192).contains(&told.len()), "{}", told.len());
}

#[tokio::test]
async fn rejections_have_their_class_and_their_wait() {
    let peer = Peer::new().await;
    let url = peer.url("a.test");
    for (status, headers, class, wait) in [
        ("401 Unauthorized", "", Rejection::Authentication, None),
        ("403 Forbidden", "", Rejection::Authentication, None),
        ("402 Payment Required", "", Rejection::Quota, None),
        ("429 Too Many Requests", "retry-after: 7\r\n", Rejection::RateLimit, Some(Millis(7_000))),
    ] {
        let (_, told) =
            fetched(&peer, &reply(status, headers, "no"), call(&json!({ "url": url }))).await;
        let Err(ToolError::Rejected { class: found, retry_after, message }) = told else {
            panic!("{status}: {told:?}")
        };
        assert_eq!((found, retry_after), (class, wait), "{status}");
        assert!(message.contains("a.test"), "{message}");
    }
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_a_forbidden_address_is_a_failure() {
    let peer = Peer::new().await;
    let url = peer.url("a.test");
    let (_, told) = fetched(&peer, "", call(&json!({ "url": url }))).await;
    assert!(matches!(told, Err(ToolError::Unknown(_))), "{told:?}");
    let (_, told) =
        fetched(&peer, &led_to(&peer.url("c.test")), call(&json!({ "url": url }))).await;
    assert!(matches!(&told, Err(ToolError::Failed(words)) if words.contains("c.test")), "{told:?}");
    for url in ["http://c.test/", "ftp://a.test/", "nonsense", "http://u@a.test/"] {
        let told = fetch().call(call(&json!({ "url": url }))).await;
        assert!(matches!(told, Err(ToolError::Failed(_))), "{url}: {told:?}");
    }
    let run = Call { hostnames: Arc::from(["b.test".to_owned()]), ..call(&json!({ "url": url })) };
    let told = fetch().call(run).await;
    assert!(
        matches!(&told, Err(ToolError::Failed(words)) if words.contains("of this run")),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_fetch_that_may_not_leave_asks_nobody() {
    let peer = Peer::new().await;
    let late = Call {
        leave: Leave::new(|| Err(NotSent::LeaseOver)),
        ..call(&json!({ "url": peer.url("a.test") }))
    };
    let fetch = fetch();
    let (seen, told) = both(peer.reads_all(), fetch.call(late)).await;
    assert_eq!(told, Err(ToolError::NotSent(NotSent::LeaseOver)));
    assert_eq!(seen, b"");
}

#[test]
fn texts_are_decoded_by_their_type() {
    assert_eq!(decoded(b"\xef\xbb\xbfa\xff", None), "a\u{fffd}");
    assert_eq!(decoded(b"gr\xfc\xdfe", Some("text/plain; charset=ISO-8859-1")), "grüße");
    assert!(is_text(None, b"plain") && !is_text(None, b"a\0b"));
    assert!(is_text(Some("application/ld+json; x=1"), b"") && !is_text(Some("image/png"), b"x"));
    assert_eq!(fitting("aé\"b", 9, 5), "aé\"");
    assert_eq!(fitting("aé\"b", 2, 50), "aé");
    assert_eq!(fitting("", 0, 0), "");
}
