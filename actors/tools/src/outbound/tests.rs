//! Real sockets on loopback: what is let through, where it ends, and what was written to whom.

use super::*;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use peer::{Names, Peer, both, ok};

fn places(allow: &[&str], allow_private: &[&str]) -> Places {
    let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Places { allow: parse(allow), allow_private: parse(allow_private) }
}

fn guard(allow: &[&str], allow_private: &[&str], names: Names) -> Guard {
    Guard::new(places(allow, allow_private), Arc::new(names)).unwrap()
}

async fn get(guard: &Guard, url: &str) -> Result<Reply, Broken> {
    guard.send(Ask::read(Method::GET, parse(url)?, &Leave::free())).await
}

fn forbidden(outcome: Result<Reply, Broken>) -> Forbidden {
    match outcome.unwrap_err() {
        Broken::Forbidden(why) => why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn nobody_is_asked_who_stands_on_no_list() {
    let nobody = guard(&[], &["127.0.0.0/8"], Names::none());
    assert!(!nobody.is_open());
    let told = forbidden(get(&nobody, "http://example.org/").await);
    assert_eq!(told, Forbidden::NotAllowed("example.org".into()));
    let some = guard(&["*.example.org"], &[], Names::none());
    for url in ["http://example.org/", "http://example.org.evil.test/", "http://1.1.1.1/"] {
        assert!(matches!(forbidden(get(&some, url).await), Forbidden::NotAllowed(_)), "{url}");
    }
    let any = guard(&["*"], &[], Names::none());
    for url in ["ftp://a.test/", "file:///etc/passwd", "gopher://a.test/", "unix:/run/x"] {
        assert!(matches!(parse(url), Err(Forbidden::Scheme(_))), "{url}");
    }
    for url in ["http://user@a.test/", "http://user:word@a.test/", "http://:word@a.test/"] {
        assert_eq!(forbidden(get(&any, url).await), Forbidden::UserInfo, "{url}");
    }
    assert!(matches!(parse("no address"), Err(Forbidden::NotAUrl(_))));
    assert_eq!(parse(&format!("http://a.test/{}", "x".repeat(5_000))), Err(Forbidden::TooLong));
}

#[tokio::test]
async fn a_run_narrows_the_list_and_never_widens_it() {
    let peer = Peer::new().await;
    let guard = guard(&["a.test", "b.test"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let ask = async |host: &str, hostnames: &[&str]| {
        let hostnames: Vec<String> = hostnames.iter().map(|&name| name.to_owned()).collect();
        let (url, leave) = (peer.url(host), Leave::free());
        let ask = Ask::read(Method::GET, parse(&url).unwrap(), &leave);
        guard.send(Ask { hostnames: &hostnames, ..ask }).await
    };
    let (_, reply) = both(peer.answer(&ok("hi")), ask("a.test", &["a.test"])).await;
    assert_eq!(reply.unwrap().body, b"hi");
    let told = forbidden(ask("b.test", &["a.test"]).await);
    assert_eq!(told, Forbidden::NotOfTheRun("b.test".into()));
    let told = forbidden(ask("c.test", &["c.test"]).await);
    assert_eq!(told, Forbidden::NotAllowed("c.test".into()));
    // A list with nothing that can be read in it is still a list.
    assert!(matches!(forbidden(ask("a.test", &["http://"]).await), Forbidden::NotOfTheRun(_)));
}

#[tokio::test]
async fn no_spelling_leads_into_somebodys_own_network() {
    let peer = Peer::new().await;
    let port = peer.port();
    let names = Names::all("127.0.0.1")
        .with("half.test", &["93.184.216.34", "10.0.0.1"])
        .with("mapped.test", &["::ffff:127.0.0.1"])
        .with("nat.test", &["64:ff9b::a9fe:a9fe"]);
    let guard = guard(&["*"], &[], names);
    for host in [
        "127.0.0.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f000001",
        "127.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "half.test",
        "mapped.test",
        "nat.test",
        "127.0.0.1.nip.test",
    ] {
        let told = forbidden(get(&guard, &format!("http://{host}:{port}/")).await);
        assert!(matches!(told, Forbidden::Private { .. }), "{host}: {told}");
    }
    peer.was_not_asked().await;
}

#[tokio::test]
async fn a_private_place_is_let_through_by_its_address_its_network_or_its_name() {
    let peer = Peer::new().await;
    let port = peer.port();
    let exact = format!("127.0.0.1:{port}");
    for entry in ["127.0.0.1", "127.0.0.0/8", &exact, "inner.test"] {
        let guard = guard(&["inner.test"], &[entry], Names::all("127.0.0.1"));
        let url = peer.url("inner.test");
        let (asked, reply) = both(peer.answer(&ok("in")), get(&guard, &url)).await;
        assert_eq!(reply.unwrap().body, b"in", "{entry}");
        assert!(asked.contains(&format!("host: inner.test:{port}")), "{asked}");
    }
    for entry in ["127.0.0.2", "10.0.0.0/8", "127.0.0.1:1", "other.test", "*"] {
        let guard = guard(&["inner.test"], &[entry], Names::all("127.0.0.1"));
        let told = forbidden(get(&guard, &peer.url("inner.test")).await);
        assert!(matches!(told, Forbidden::Private { .. }), "{entry}");
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_what_was_checked_is_connected_to() {
    let peer = Peer::new().await;
    // The second answer is one that may not be asked, as a name server does that waits for the check to be over.
    let names = Names::turning(&["127.0.0.1", "127.0.0.2", "127.0.0.2"]);
    let asked = names.asked();
    let guard = guard(&["turning.test"], &["127.0.0.1"], names);
    let url = peer.url("turning.test");
    let (_, reply) = both(peer.answer(&ok("first")), get(&guard, &url)).await;
    assert_eq!(reply.unwrap().body, b"first");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let told = forbidden(get(&guard, &url).await);
    assert!(
        matches!(told, Forbidden::Private { address, .. } if address.to_string() == "127.0.0.2")
    );
}

#[tokio::test]
async fn each_redirect_is_checked_like_the_first_address() {
    let (front, inner) = (Peer::new().await, Peer::new().await);
    let allow_private = [format!("127.0.0.1:{}", front.port())];
    let allow_private: Vec<&str> = allow_private.iter().map(String::as_str).collect();
    let guard = guard(&["*"], &allow_private, Names::all("127.0.0.1"));
    for to in [
        inner.url("127.0.0.1"),
        inner.url("localhost"),
        inner.url("[::ffff:127.0.0.1]"),
        inner.url("2130706433"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        format!("//localhost:{}/", inner.port()),
    ] {
        let (_, told) =
            both(front.answer(&peer::led_to(&to)), get(&guard, &front.url("a.test"))).await;
        assert!(matches!(forbidden(told), Forbidden::Private { .. }), "{to}");
    }
    for (to, what) in [("file:///etc/passwd", "only http"), ("http://u:p@a.test/", "user name")] {
        let (_, told) =
            both(front.answer(&peer::led_to(to)), get(&guard, &front.url("a.test"))).await;
        assert!(forbidden(told).to_string().contains(what), "{to}");
    }
    inner.was_not_asked().await;
}

#[tokio::test]
async fn a_redirect_is_followed_without_the_credentials_of_another_host() {
    let (front, back) = (Peer::new().await, Peer::new().await);
    let guard = guard(&["a.test", "b.test"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let leave = Leave::free();
    let mut ask = Ask::read(Method::GET, parse(&front.url("a.test")).unwrap(), &leave);
    ask.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer topsecret"));
    ask.headers.insert(ACCEPT, HeaderValue::from_static("text/plain"));
    let peers = async {
        let first = front.answer(&peer::led_to("/again?x=1#part")).await;
        let second = front.answer(&peer::led_to(&back.url("b.test"))).await;
        (first, second, back.answer(&ok("there")).await)
    };
    let ((first, second, third), reply) = both(peers, guard.send(ask)).await;
    let reply = reply.unwrap();
    assert_eq!((reply.body.as_slice(), reply.url.host_str()), (&b"there"[..], Some("b.test")));
    assert!(first.contains("topsecret") && second.starts_with("GET /again?x=1 "), "{second}");
    assert!(second.contains("topsecret"), "{second}");
    assert!(!third.contains("topsecret") && third.contains("accept: text/plain"), "{third}");
}

#[tokio::test]
async fn redirects_are_counted_and_a_post_is_not_led_on() {
    let peer = Peer::new().await;
    let guard = guard(&["*"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let url = peer.url("a.test");
    let around = async {
        for _ in 0..=REDIRECTS_MAX {
            peer.answer(&peer::led_to(&url)).await;
        }
    };
    let (_, told) = both(around, get(&guard, &url)).await;
    assert_eq!(forbidden(told), Forbidden::Redirects(REDIRECTS_MAX));
    let leave = Leave::free();
    let ask = Ask::post(parse(&url).unwrap(), Bytes::from_static(b"{}"), &leave);
    let (asked, told) = both(peer.answer(&peer::led_to("/x")), guard.send(ask)).await;
    assert!(asked.starts_with("POST /") && asked.ends_with("{}"), "{asked}");
    assert_eq!(forbidden(told), Forbidden::Redirects(0));
}

#[test]
fn a_redirect_never_goes_from_a_closed_letter_to_a_postcard() {
    let from: Url = "https://a.test/x/y".parse().unwrap();
    assert!(matches!(next_hop(&from, "http://a.test/"), Err(Forbidden::Downgrade(_))));
    assert_eq!(next_hop(&from, "z#f").unwrap().as_str(), "https://a.test/x/z");
    assert_eq!(next_hop(&from, "//b.test/").unwrap().as_str(), "https://b.test/");
    let plain: Url = "http://a.test/".parse().unwrap();
    assert_eq!(next_hop(&plain, "https://a.test/").unwrap().as_str(), "https://a.test/");
    assert_eq!(next_hop(&plain, &"x".repeat(5_000)), Err(Forbidden::TooLong));
}

#[tokio::test]
async fn an_endless_body_is_cut_at_its_bound() {
    let peer = Peer::new().await;
    let guard = guard(&["a.test"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let (leave, url) = (Leave::free(), parse(&peer.url("a.test")).unwrap());
    let ask = Ask { body_max: 10_000, ..Ask::read(Method::GET, url.clone(), &leave) };
    let (written, reply) = both(peer.pours(), guard.send(ask)).await;
    let reply = reply.unwrap();
    assert!(reply.is_cut && reply.body.len() == 10_000, "{}", reply.body.len());
    // What the two systems' buffers took, and no more: it was not read to its end.
    assert!(written < 64 << 20, "{written}");
    for (text, is_cut) in [("x".repeat(100), false), ("x".repeat(101), true)] {
        let ask = Ask { body_max: 100, ..Ask::read(Method::GET, url.clone(), &leave) };
        let (_, reply) = both(peer.answer(&ok(&text)), guard.send(ask)).await;
        let reply = reply.unwrap();
        assert_eq!((reply.body.len(), reply.is_cut), (100, is_cut));
    }
}

#[tokio::test]
async fn what_may_not_leave_any_more_writes_nothing() {
    let peer = Peer::new().await;
    let guard = guard(&["a.test"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let leave = Leave::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Err(NotSent::LeaseOver)
    });
    let ask = Ask::read(Method::GET, parse(&peer.url("a.test")).unwrap(), &leave);
    let (seen, told) = both(peer.reads_all(), guard.send(ask)).await;
    assert_eq!(told.unwrap_err(), Broken::NotSent(NotSent::LeaseOver));
    assert_eq!((seen.as_slice(), asked.load(Ordering::Relaxed)), (&b""[..], 1));
}

#[tokio::test]
async fn a_lease_that_ends_between_two_hops_is_not_told_as_nothing_sent() {
    let peer = Peer::new().await;
    let guard = guard(&["a.test"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let answers = Mutex::new(VecDeque::from([Ok(()), Err(NotSent::LeaseOver)]));
    let leave = Leave::new(move || answers.lock().unwrap().pop_front().unwrap());
    let ask = Ask::read(Method::GET, parse(&peer.url("a.test")).unwrap(), &leave);
    let peers = async {
        peer.answer(&peer::led_to("/next")).await;
        peer.reads_all().await
    };
    let (seen, told) = both(peers, guard.send(ask)).await;
    assert!(matches!(told.unwrap_err(), Broken::Lost { .. }));
    assert_eq!(seen, b"");
}

#[tokio::test]
async fn a_connection_that_breaks_is_unknown_from_the_first_byte_on() {
    let peer = Peer::new().await;
    let guard = guard(&["a.test"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let url = peer.url("a.test");
    let lost = |told: Result<Reply, Broken>| {
        let broken = told.unwrap_err();
        assert!(matches!(broken, Broken::Lost { .. }), "{broken}");
        assert!(matches!(ToolError::from(broken), ToolError::Unknown(_)));
    };
    lost(both(peer.answer(""), get(&guard, &url)).await.1);
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    lost(both(peer.answer(half), get(&guard, &url)).await.1);
    let leave = Leave::free();
    let ask = Ask::read(Method::GET, parse(&url).unwrap(), &leave);
    let ask = Ask { within: Duration::from_millis(200), ..ask };
    lost(both(peer.reads_all(), guard.send(ask)).await.1);

    let gone = peer.leave_the_port();
    let broken = get(&guard, &gone).await.unwrap_err();
    assert!(matches!(broken, Broken::Unreached { .. }), "{broken}");
    assert!(matches!(ToolError::from(broken), ToolError::Failed(_)));
    let nobody = Guard::new(places(&["*"], &[]), Arc::new(Names::none())).unwrap();
    assert!(matches!(get(&nobody, "http://no.test/").await, Err(Broken::Unreached { .. })));
}

#[tokio::test]
async fn an_error_names_the_host_and_not_what_stands_behind_it() {
    let peer = Peer::new().await;
    let guard = guard(&["a.test"], &["127.0.0.1"], Names::all("127.0.0.1"));
    let url = format!("{}?key=topsecret", peer.url("a.test"));
    let (_, told) = both(peer.answer(""), get(&guard, &url)).await;
    let told = format!("{:?}", told.unwrap_err());
    assert!(told.contains("a.test") && !told.contains("topsecret"), "{told}");
}
