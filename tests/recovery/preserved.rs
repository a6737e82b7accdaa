//! After each class of failure the next turn holds all earlier ones: a failure costs the session nothing that was said.

use super::*;
use events::model_call::Class;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// How a provider says a class, and whether another model of the same family is asked then.
struct Case {
    class: Class,
    /// What the primary answers, once for each time that it is asked in the turn.
    replies: Vec<String>,
    then: Then,
}

#[derive(PartialEq, Eq)]
enum Then {
    Falls,
    Surfaces,
}

fn one(class: Class, status: &str, told: &str, then: Then) -> Case {
    Case { class, replies: vec![response(status, "application/json", told)], then }
}

const PLAIN: &str = r#"{"error":{"message":"no"}}"#;

/// Refusals before any work.
fn refusals() -> Vec<Case> {
    let expired = r#"{"detail":"Provided authentication token is expired."}"#;
    let quota =
        r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    let upstream = r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"provider_name":"Google","raw":"limited"}}}"#;
    let long = r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#;
    let model = r#"{"error":{"message":"m","code":"model_not_found"}}"#;
    let tools = r#"{"error":"Too many tools: at most 64"}"#;
    let invalid = r#"{"error":{"message":"temperature must be below 2"}}"#;
    let policy = r#"{"error":{"message":"filtered","code":"content_filter"}}"#;
    let replay = r#"{"error":{"message":"The reasoning_content in the thinking mode must be passed back to the API."}}"#;
    let replay = response("400 x", "application/json", replay);
    vec![
        one(Class::AuthExpired, "401 x", expired, Then::Falls),
        one(Class::AuthInvalid, "401 x", PLAIN, Then::Falls),
        one(Class::Billing, "402 x", PLAIN, Then::Falls),
        one(Class::RateLimited, "429 x", LIMITED, Then::Falls),
        one(Class::QuotaExhausted, "429 x", quota, Then::Falls),
        one(Class::UpstreamRateLimited, "429 x", upstream, Then::Falls),
        one(Class::ContextOverflow, "400 x", long, Then::Falls),
        one(Class::PayloadTooLarge, "413 x", PLAIN, Then::Falls),
        one(Class::ModelNotFound, "404 x", model, Then::Falls),
        one(Class::ToolsTooMany, "400 x", tools, Then::Falls),
        one(Class::InvalidRequest, "400 x", invalid, Then::Surfaces),
        one(Class::ContentPolicy, "400 x", policy, Then::Surfaces),
        // Once more without reasoning.
        Case { class: Class::ReplayRejected, replies: vec![replay; 2], then: Then::Falls },
    ]
}

/// What goes wrong at the provider or on the way.
fn troubles() -> Vec<Case> {
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 500\r\n\r\n{\"choices\":[";
    let nothing = response("200 OK", "application/json", r#"{"choices":[]}"#);
    vec![
        one(Class::Overloaded, "503 x", PLAIN, Then::Falls),
        one(Class::ServerError, "500 x", PLAIN, Then::Falls),
        one(Class::Timeout, "504 x", PLAIN, Then::Falls),
        one(Class::StreamError, "200 OK", r#"{"choices":[{"index":0,"#, Then::Falls),
        Case { class: Class::StreamTruncated, replies: vec![cut.to_owned()], then: Then::Falls },
        // The connection is closed without a word.
        Case { class: Class::Transport, replies: vec![String::new()], then: Then::Falls },
        // Once more.
        Case { class: Class::Unknown, replies: vec![nothing; 2], then: Then::Falls },
        // Nobody is asked: whoever answers there speaks no TLS.
        Case { class: Class::Tls, replies: vec![], then: Then::Surfaces },
    ]
}

/// An address that promises TLS, and where somebody says something else to whoever comes.
async fn no_tls() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    // It ends with the story, as all of its tasks do.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let plain = response("400 x", "text/plain", "this is HTTP");
            let _gone = stream.write_all(plain.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn whatever_a_provider_says_the_next_turn_holds_all_earlier_ones() {
    let all: Vec<Case> = refusals().into_iter().chain(troubles()).collect();
    let mut classes: Vec<Class> = all.iter().map(|case| case.class).collect();
    classes.sort_unstable();
    assert_eq!(classes, Class::ALL, "each class once");

    let script = all.iter().flat_map(|case| case.replies.clone()).chain([says("at last")]);
    let primary = Upstream::start(script.collect()).await;
    let backup =
        Upstream::start((0..all.len()).map(|nth| says(&format!("answer {nth}"))).collect()).await;
    let folder = tempfile::tempdir().unwrap();
    let no_tls = no_tls().await;
    let variables = [
        ("PITON_VLLM_BASE_URL", primary.url.as_str()),
        ("PITON_LMSTUDIO_BASE_URL", no_tls.as_str()),
        ("PITON_SGLANG_BASE_URL", backup.url.as_str()),
        ("PITON_FALLBACK_PROVIDERS", "sglang:m"),
        ("PITON_RETRY_API_MAX_RETRIES", "0"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    let mut talk = Talk::new("kept", "vllm:m");
    let texts = |all: &[Value]| all.iter().map(|one| one["content"].clone()).collect::<Vec<_>>();
    let (mut asked, mut fell) = (0, 0);
    for (nth, Case { class, replies, then }) in all.iter().enumerate() {
        let name = class.name();
        talk.model = if *class == Class::Tls { "lmstudio:m" } else { "vllm:m" };
        let question = json!({"role": "user", "content": format!("question {nth}")});
        let said = [&talk.messages[..], &[question]].concat();
        let (status, run, told) = talk.say(&node, &format!("question {nth}")).await;
        assert_eq!(status == 200, *then == Then::Falls, "{name}: {told}");
        let tried = attempts(&node, &run).await;
        assert_eq!(
            (tried.len(), &tried[0]["class"]),
            (replies.len().max(1), &json!(name)),
            "{tried:?}"
        );
        // What went out is everything that was said, in order, and the question.
        let sent = primary.asked();
        assert_eq!(sent.len(), asked + replies.len(), "{name}");
        for one in &sent[asked..] {
            assert_eq!(texts(one.json()["messages"].as_array().unwrap()), texts(&said), "{name}");
        }
        asked = sent.len();
        fell += usize::from(*then == Then::Falls);
        assert_eq!(backup.asked().len(), fell, "{name}");
        if *then == Then::Falls {
            let sent = backup.asked().last().unwrap().json()["messages"].clone();
            assert_eq!(texts(sent.as_array().unwrap()), texts(&said), "{name}");
        }
    }
    let said = talk.messages.len();
    assert_eq!(said, 2 * fell);
    talk.model = "vllm:m";
    let (status, _, told) = talk.say(&node, "and now?").await;
    assert_eq!(
        (status, &told["choices"][0]["message"]["content"]),
        (200, &json!("at last")),
        "{told}"
    );
    let sent = primary.asked().last().unwrap().json()["messages"].clone();
    assert_eq!(texts(sent.as_array().unwrap()), texts(&talk.messages[..=said]));
}
