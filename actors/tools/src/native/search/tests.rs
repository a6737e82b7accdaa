//! Each engine's wire, played by a peer on loopback.

use super::*;
use crate::outbound::peer::{Names, Peer, both, led_to, reply};
use crate::outbound::{Place, Places};
use crate::tool::{NotSent, Rejection};
use serde_json::json;

const KEY: &str = "topsecret-key";
const TYPE: &str = "content-type: application/json\r\n";

fn search(backend: Backend, base: &str, key: Option<&str>) -> Search {
    let private = "127.0.0.1".parse::<Place>().unwrap();
    let places = Places { allow: Vec::new(), allow_private: vec![private] };
    let guard = Guard::new(places, Arc::new(Names::all("127.0.0.1"))).unwrap();
    let base_url = base.parse().unwrap();
    Search::new(&guard, Engine { backend, base_url, key: key.map(Key::new) }).unwrap()
}

fn call(arguments: &Value) -> Call {
    let arguments = Json::from(arguments.to_string());
    Call::new(1, arguments, Instant(0), Instant(0).after(Millis(10_000)))
}

async fn asked(backend: Backend, bytes: &str) -> (String, Result<Value, ToolError>) {
    let peer = Peer::new().await;
    let search = search(backend, &format!("{}base", peer.url("engine.test")), Some(KEY));
    let call = call(&json!({ "query": "rope length", "count": 7 }));
    let (asked, told) = both(peer.answer(bytes), search.call(call)).await;
    if let Err(error) = &told {
        assert!(!format!("{error} {error:?} {}", error.content()).contains(KEY), "{error}");
    }
    (asked, told.map(|text| serde_json::from_str(&text).unwrap()))
}

#[tokio::test]
async fn brave_is_asked_and_its_citations_and_limits_are_kept() {
    let headers = format!(
        "{TYPE}x-ratelimit-limit: 1, 15000\r\nx-ratelimit-remaining: 0, 1985\r\nx-ratelimit-reset: 1, 1419704\r\n"
    );
    let page = reply("200 OK", &headers, include_str!("recorded/brave.json"));
    let (asked, told) = asked(Backend::Brave, &page).await;
    assert_eq!(
        told.unwrap(),
        json!({"query":"rope length","backend":"brave","results":[
            {"title":"How long is a rope?","url":"https://climb.example/rope","snippet":"Most single ropes have 60 to 80 metres."},
            {"title":"Knots","url":"http://knots.example/","snippet":"A knot takes a metre."}],
            "usage":{"rate_limit":{"limit":"1, 15000","remaining":"0, 1985","reset":"1, 1419704"}}})
    );
    let line = "GET /base/res/v1/web/search?q=rope+length&count=7&result_filter=web&text_decorations=false HTTP/1.1";
    assert!(asked.starts_with(line), "{asked}");
    assert!(asked.contains(&format!("x-subscription-token: {KEY}")), "{asked}");
}

#[tokio::test]
async fn tavily_is_asked_and_its_credits_are_kept() {
    let page = reply("200 OK", TYPE, include_str!("recorded/tavily.json"));
    let (asked, told) = asked(Backend::Tavily, &page).await;
    let told = told.unwrap();
    assert_eq!(
        told["usage"],
        json!({"credits":1,"request_id":"00000000-0000-4000-8000-000000000001"})
    );
    assert_eq!(told["results"][1]["snippet"], "A knot takes a metre.");
    assert!(
        asked.starts_with("POST /base/search HTTP/1.1") && asked.contains(&format!("Bearer {KEY}"))
    );
    let (_, body) = asked.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["max_results"], &body["include_usage"]), (&json!(7), &json!(true)));
}

#[tokio::test]
async fn searxng_is_asked_without_a_key_and_says_who_was_silent() {
    let page = reply("200 OK", TYPE, include_str!("recorded/searxng.json"));
    let (asked, told) = asked(Backend::Searxng, &page).await;
    let told = told.unwrap();
    assert_eq!(told["results"].as_array().unwrap().len(), 2);
    assert!(told["results"][1]["snippet"].is_null());
    assert_eq!(told["usage"], json!({"unresponsive_engines":["brave"]}));
    assert!(asked.starts_with("GET /base/search?q=rope+length&format=json HTTP/1.1"), "{asked}");
    assert!(!asked.contains(KEY), "{asked}");
}

#[tokio::test]
async fn rejections_of_each_engine_have_their_class() {
    let limited = include_str!("recorded/brave_limited.json");
    let spent = limited.replace("\"quota_current\":15", "\"quota_current\":2000");
    let token =
        r#"{"error":{"code":"SUBSCRIPTION_TOKEN_INVALID","detail":"topsecret-key is invalid"}}"#;
    let month = "x-ratelimit-remaining: 0, 0\r\nx-ratelimit-reset: 1, 1419704\r\n";
    let second = "x-ratelimit-remaining: 0, 9\r\nx-ratelimit-reset: 1, 1419704\r\n";
    use Rejection::{Authentication, Quota, RateLimit};
    for (backend, status, headers, body, class, wait) in [
        (Backend::Brave, "429 Too Many", second, limited, RateLimit, Some(1_000)),
        (Backend::Brave, "429 Too Many", month, "{}", Quota, Some(1_419_704_000)),
        (Backend::Brave, "429 Too Many", "", spent.as_str(), Quota, None),
        (Backend::Brave, "402 Pay", "", "{}", Quota, None),
        (Backend::Brave, "422 Odd", "", token, Authentication, None),
        (Backend::Brave, "403 No", "", "", Authentication, None),
        (
            Backend::Tavily,
            "401 No",
            "",
            r#"{"detail":{"error":"bad topsecret-key"}}"#,
            Authentication,
            None,
        ),
        (Backend::Tavily, "429 Slow", "retry-after: 2\r\n", "", RateLimit, Some(2_000)),
        (Backend::Tavily, "432 Plan", "", "", Quota, None),
        (Backend::Tavily, "433 Purse", "", "", Quota, None),
        (Backend::Searxng, "429 Slow", "", "", RateLimit, None),
        (Backend::Searxng, "401 No", "", "", Authentication, None),
    ] {
        let (_, told) = asked(backend, &reply(status, headers, body)).await;
        let Err(ToolError::Rejected { class: found, retry_after, message }) = told else {
            panic!("{backend:?} {status}: {told:?}")
        };
        assert_eq!((found, retry_after.map(|wait| wait.0)), (class, wait), "{backend:?} {status}");
        assert!(message.contains("engine.test answered"), "{message}");
    }
}

#[tokio::test]
async fn what_is_no_result_is_told_as_what_it_is() {
    for (backend, page, is_known) in [
        (Backend::Searxng, reply("403 Forbidden", "", "no json"), true),
        (Backend::Brave, reply("500 Oops", "", "down"), true),
        (Backend::Brave, reply("422 Odd", TYPE, r#"{"error":{"code":"VALIDATION"}}"#), true),
        (Backend::Tavily, led_to("http://elsewhere.test/"), true),
        (Backend::Tavily, reply("200 OK", "", "<html>"), false),
        (Backend::Brave, reply("200 OK", TYPE, "{}"), false),
        (Backend::Searxng, String::new(), false),
    ] {
        let (_, told) = asked(backend, &page).await;
        let error = told.unwrap_err();
        let is_failed = matches!(error, ToolError::Failed(_));
        assert!(
            is_failed == is_known && (is_failed || matches!(error, ToolError::Unknown(_))),
            "{error:?}"
        );
    }
    let nothing = reply("200 OK", TYPE, r#"{"type":"search","query":{}}"#);
    assert_eq!(asked(Backend::Brave, &nothing).await.1.unwrap()["results"], json!([]));
}

#[tokio::test]
async fn its_own_limits_hold_whatever_an_engine_sends() {
    let one = |n: usize| json!({"url": format!("https://a.test/{n}"), "title": "t".repeat(900), "content": "\u{1}".repeat(2_500)});
    let many: Vec<Value> = (0..20).map(one).collect();
    let page = reply("200 OK", TYPE, &json!({ "results": many }).to_string());
    let told = asked(Backend::Searxng, &page).await.1.unwrap();
    let results = told["results"].as_array().unwrap();
    assert!(told.to_string().len() <= RESULT_BYTES_MAX && (4..=7).contains(&results.len()));
    assert_eq!(results[0]["title"].as_str().unwrap().len(), 300);
    let short: Vec<Value> =
        (0..30).map(|n| json!({"url": format!("https://a.test/{n}")})).collect();
    let page = reply("200 OK", TYPE, &json!({ "results": short }).to_string());
    let told = asked(Backend::Searxng, &page).await.1.unwrap();
    assert_eq!(told["results"].as_array().unwrap().len(), 7);
    let huge = reply("200 OK", TYPE, &" ".repeat(ANSWER_BYTES_MAX + 1));
    let told = asked(Backend::Searxng, &huge).await.1;
    assert_eq!(told, Err(ToolError::TooLarge { limit: ANSWER_BYTES_MAX }));
}

#[tokio::test]
async fn nothing_is_asked_without_a_key_without_leave_or_at_a_private_place_by_chance() {
    let peer = Peer::new().await;
    let told = search(Backend::Brave, &peer.url("engine.test"), None);
    let told = told.call(call(&json!({ "query": "x" }))).await;
    assert!(
        matches!(&told, Err(ToolError::Failed(words)) if words.contains("BRAVE_SEARCH_API_KEY"))
    );
    let guard = Guard::new(Places::default(), Arc::new(Names::all("127.0.0.1"))).unwrap();
    let base_url = peer.url("engine.test").parse().unwrap();
    let engine = Engine { backend: Backend::Searxng, base_url, key: None };
    let told = Search::new(&guard, engine).unwrap().call(call(&json!({ "query": "x" }))).await;
    assert!(matches!(&told, Err(ToolError::Failed(words)) if words.contains("allow_private")));
    let late =
        Call { leave: Leave::new(|| Err(NotSent::LeaseOver)), ..call(&json!({"query": "x"})) };
    let search = search(Backend::Searxng, &peer.url("engine.test"), None);
    let (seen, told) = both(peer.reads_all(), search.call(late)).await;
    assert_eq!((told, seen.as_slice()), (Err(ToolError::NotSent(NotSent::LeaseOver)), &b""[..]));
}

#[test]
fn a_key_prints_as_nothing() {
    let tool = search(Backend::Brave, "https://engine.test", Some(KEY));
    assert!(!format!("{tool:?}").contains(KEY));
    let header = Key::new(KEY).header("Bearer ").unwrap();
    assert!(header.is_sensitive() && !format!("{header:?}").contains(KEY));
}

#[test]
fn engines_are_found_by_their_word() {
    for backend in Backend::ALL {
        assert_eq!(Backend::named(backend.word()), Some(backend));
        assert!(backend.usual_url().is_none_or(|url| url.parse::<Url>().is_ok()));
    }
    assert_eq!(Backend::named("google"), None);
}
