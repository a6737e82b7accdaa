//! Recovery of one model call over profiles and candidates, on a real node with providers that fail.

use crate::keyed;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;
use tests::Node;
use tests::process::{json as body, wait_for};
use tests::sse::{Event, Events};
use tests::upstream::{Upstream, response};

mod cooled;
mod first_token;
mod folded;
mod policy;
mod preserved;

const CHAT: &str = "/v1/chat/completions";
const LIMITED: &str =
    r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#;

/// A whole answer of the chat family.
fn says(text: &str) -> String {
    let answer = json!({
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    });
    response("200 OK", "application/json", &answer.to_string())
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// A stream that ends where its pieces end; whole only with the terminal event among them.
fn streams(pieces: &[String]) -> String {
    response("200 OK", "text/event-stream", &pieces.concat())
}

fn begin() -> String {
    chunk(&json!({"role": "assistant", "content": ""}), None)
}

fn piece(text: &str) -> String {
    chunk(&json!({ "content": text }), None)
}

fn end() -> [String; 2] {
    [chunk(&json!({}), Some("stop")), "data: [DONE]\n\n".to_owned()]
}

fn limited(seconds: u64) -> String {
    format!(
        "HTTP/1.1 429 x\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: {seconds}\r\ncontent-length: {}\r\n\r\n{LIMITED}",
        LIMITED.len()
    )
}

/// A node with a primary and a backup, neither of which has a key: nothing cools, so each call asks the primary first.
async fn pair(primary: &Upstream, backup: &Upstream, retries: &str) -> (TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("PITON_VLLM_BASE_URL", primary.url.as_str()),
        ("PITON_SGLANG_BASE_URL", backup.url.as_str()),
        ("PITON_FALLBACK_PROVIDERS", "sglang:m"),
        ("PITON_RETRY_API_MAX_RETRIES", retries),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    (folder, node)
}

fn asked(stream: bool) -> Value {
    json!({"model": "vllm:m", "stream": stream, "messages": [{"role": "user", "content": "hello"}]})
}

/// One request: its status, its run and the body.
async fn turn(node: &Node, session: Option<&str>, request: &Value) -> (u16, String, Value) {
    let mut sent = node.ask(Method::POST, CHAT);
    if let Some(session) = session {
        sent = sent.header("x-piton-session-id", session);
    }
    let got = body(sent, request).send().await.unwrap();
    let run = got.headers().get("x-piton-run-id").map(|id| id.to_str().unwrap().to_owned());
    let status = got.status().as_u16();
    let text = got.text().await.unwrap();
    (status, run.unwrap_or_default(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// A conversation in a session, as a client keeps it.
struct Talk {
    session: String,
    model: &'static str,
    messages: Vec<Value>,
}

impl Talk {
    fn new(session: &str, model: &'static str) -> Self {
        Self { session: session.to_owned(), model, messages: vec![] }
    }

    /// The next turn. A question that got no answer is taken back.
    async fn say(&mut self, node: &Node, text: &str) -> (u16, String, Value) {
        self.messages.push(json!({"role": "user", "content": text}));
        let request = json!({"model": self.model, "messages": self.messages});
        let (status, run, told) = turn(node, Some(&self.session), &request).await;
        if status == 200 {
            self.messages.push(told["choices"][0]["message"].clone());
        } else {
            self.messages.pop();
        }
        (status, run, told)
    }
}

/// What failed in a run, as its owner remembers it.
async fn attempts(node: &Node, run: &str) -> Vec<Value> {
    let (_, object) = node.get(&format!("/v1/runs/{run}")).await;
    object["attempts"].as_array().cloned().unwrap_or_else(|| panic!("{object}"))
}

/// A node in front of one provider with two profiles.
async fn keyed(upstream: &keyed::Upstream, folder: &TempDir) -> Node {
    let url = upstream.url();
    Node::start(folder.path(), &[], &[("PITON_OPENAI_BASE_URL", url.as_str())]).await
}

async fn two_profiles(node: &Node) {
    for profile in ["one", "two"] {
        let key = format!("sk-planted-{profile}");
        let asked = json!({"provider": "openai", "profile": profile, "key": key});
        assert_eq!(node.post("/v1/harness/credentials", &asked).await.0, 201);
        wait_for("the profile is known", async || {
            self::profile(node, profile).await.filter(|one| one["state"] == "healthy")
        })
        .await;
    }
}

async fn profile(node: &Node, name: &str) -> Option<Value> {
    let (_, list) = node.get("/v1/harness/providers").await;
    let openai = list["data"].as_array()?.iter().find(|one| one["id"] == "openai")?.clone();
    openai["profiles"].as_array()?.iter().find(|one| one["name"] == name).cloned()
}

/// A conversation whose turns begin with the profile `one`.
async fn pinned_to_one(node: &Node, upstream: &keyed::Upstream) -> Talk {
    for nth in 0..64 {
        let mut talk = Talk::new(&format!("s{nth}"), "openai:gpt-x");
        assert_eq!(talk.say(node, "hello").await.0, 200);
        if upstream.last_key() == "sk-planted-one" {
            return talk;
        }
    }
    panic!("no session is pinned to the first profile");
}

#[tokio::test]
async fn a_limited_profile_gives_way_to_the_next_one_and_cools_over_a_restart() {
    let (upstream, folder) = (keyed::Upstream::start().await, tempfile::tempdir().unwrap());
    let mut node = keyed(&upstream, &folder).await;
    two_profiles(&node).await;
    let mut talk = pinned_to_one(&node, &upstream).await;
    upstream.answer("sk-planted-one", 429, &[("retry-after", "600")], LIMITED);
    // Ten minutes are not waited: the second profile answers at once.
    let (status, run, _) = talk.say(&node, "and then?").await;
    assert_eq!((status, upstream.last_key().as_str()), (200, "sk-planted-two"));
    let tried = attempts(&node, &run).await;
    assert_eq!(tried.len(), 1, "{tried:?}");
    assert_eq!((&tried[0]["profile"], &tried[0]["class"]), (&json!("one"), &json!("rate_limited")));
    assert_eq!((&tried[0]["status"], &tried[0]["wait_ms"]), (&json!(429), &Value::Null));
    let facts = node.journal(&run).await;
    let of = |name: &str| {
        let all = facts.iter().flat_map(|commit| commit["entries"].as_array().unwrap());
        all.filter(|event| event["name"] == name).cloned().collect::<Vec<Value>>()
    };
    let profile_of = |event: &Value| event["data"]["profile"].clone();
    assert_eq!(of("model_failed").iter().map(profile_of).collect::<Vec<_>>(), ["one"]);
    assert_eq!(of("model_answered").iter().map(profile_of).collect::<Vec<_>>(), ["two"]);

    // What was seen is a fact of the credential, so another life of the node does not ask with it either.
    let cools = async || {
        let one = profile(&node, "one").await?;
        one["cooling"].as_array().filter(|all| !all.is_empty()).map(|_| ())
    };
    wait_for("it cools", cools).await;
    assert!(node.stop().await.success());
    drop(node);
    let node = keyed(&upstream, &folder).await;
    wait_for("it is known again", async || profile(&node, "one").await).await;
    upstream.forget();
    for _ in 0..6 {
        let (status, run, _) = talk.say(&node, "and then?").await;
        assert_eq!(status, 200);
        assert!(attempts(&node, &run).await.is_empty(), "nobody is asked who cools");
    }
    assert_eq!(upstream.keys(), ["sk-planted-two"]);
    let cooling = profile(&node, "one").await.unwrap()["cooling"][0].clone();
    assert_eq!(cooling["reason"], "rate_limited");
}

#[tokio::test]
async fn a_key_that_is_refused_three_times_is_dead_and_no_turn_fails_for_it() {
    let (upstream, folder) = (keyed::Upstream::start().await, tempfile::tempdir().unwrap());
    let node = keyed(&upstream, &folder).await;
    two_profiles(&node).await;
    let mut talk = pinned_to_one(&node, &upstream).await;
    // A refusal that does not say why, and to come back at once: so the strikes need no minutes.
    upstream.answer(
        "sk-planted-one",
        401,
        &[("retry-after", "0")],
        r#"{"error":{"message":"no"}}"#,
    );
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let dead = loop {
        let (status, run, told) = talk.say(&node, "and then?").await;
        assert_eq!(status, 200, "{told}");
        assert!(attempts(&node, &run).await.len() < 2);
        match profile(&node, "one").await.filter(|one| one["state"] == "dead") {
            Some(dead) => break dead,
            None => assert!(std::time::Instant::now() < deadline, "it does not die"),
        }
    };
    assert_eq!(dead["reason"], "consecutive_401");
    upstream.forget();
    for _ in 0..3 {
        assert_eq!(talk.say(&node, "and then?").await.0, 200);
    }
    assert_eq!(upstream.keys(), ["sk-planted-two"]);
}

#[tokio::test]
async fn five_keys_of_which_four_can_not_pay_are_one_answer() {
    let (upstream, folder) = (keyed::Upstream::start().await, tempfile::tempdir().unwrap());
    let url = upstream.url();
    let told = [("PITON_OPENAI_BASE_URL", url.as_str()), ("PITON_RETRY_API_MAX_RETRIES", "1")];
    let node = Node::start(folder.path(), &[], &told).await;
    for nth in 0..5 {
        let (profile, key) = (format!("p{nth}"), format!("sk-planted-{nth}"));
        let asked = json!({"provider": "openai", "profile": profile, "key": key});
        assert_eq!(node.post("/v1/harness/credentials", &asked).await.0, 201);
        wait_for("the profile is known", async || self::profile(&node, &profile).await).await;
        if nth < 4 {
            upstream.answer(&key, 402, &[], r#"{"error":{"message":"Insufficient Balance"}}"#);
        }
    }
    // Every session is answered by the one that can pay, however many others come first in its order.
    for nth in 0..8 {
        let (status, _, told) =
            Talk::new(&format!("s{nth}"), "openai:gpt-x").say(&node, "hello").await;
        assert_eq!((status, upstream.last_key().as_str()), (200, "sk-planted-4"), "{told}");
    }
}

#[tokio::test]
async fn a_primary_that_says_come_back_later_costs_no_sleep_beside_a_backup() {
    let primary = Upstream::start(vec![limited(600), limited(2)]).await;
    let backup = Upstream::start(vec![says("one"), says("two")]).await;
    let (_folder, node) = pair(&primary, &backup, "2").await;
    for text in ["one", "two"] {
        let (status, run, told) = turn(&node, None, &asked(false)).await;
        assert_eq!(status, 200, "{told}");
        assert_eq!(told["choices"][0]["message"]["content"], text);
        let tried = attempts(&node, &run).await;
        assert_eq!(tried.len(), 1, "{tried:?}");
        assert_eq!((&tried[0]["provider"], &tried[0]["wait_ms"]), (&json!("vllm"), &Value::Null));
    }
    assert_eq!((primary.asked().len(), backup.asked().len()), (2, 2));
}

/// What a client reads, but for what names the answer and not what it says.
fn read(events: &[Event]) -> Vec<Value> {
    let bare = |event: &Event| {
        let mut data = event.data.clone();
        if let Some(map) = data.as_object_mut() {
            for name in ["id", "created", "model"] {
                map.remove(name);
            }
        }
        data
    };
    events.iter().map(bare).collect()
}

#[tokio::test]
async fn a_stream_that_is_cut_before_its_first_delta_is_the_backups_byte_for_byte() {
    // Headers only; a first chunk without text; a broken line; an error in a 200; nothing at all.
    let cuts = vec![
        streams(&[]),
        streams(&[begin()]),
        streams(&[begin(), "data: {\"id\": \"c1\", \"cho".to_owned()]),
        streams(&[format!("data: {LIMITED}\n\n")]),
        String::new(),
    ];
    let whole =
        streams(&[&[begin(), piece("Hel"), piece("lo, "), piece("you.")][..], &end()].concat());
    let primary = Upstream::start(cuts.clone()).await;
    let backup = Upstream::start(vec![whole; cuts.len() + 1]).await;
    let (_folder, node) = pair(&primary, &backup, "0").await;
    let stream = async |model: &str| {
        let request = json!({"model": model, "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "hello"}]});
        Events::open(body(node.ask(Method::POST, CHAT), &request)).await.rest().await
    };
    let healthy = read(&stream("sglang:m").await);
    assert_eq!(healthy.last(), Some(&json!("[DONE]")));
    for nth in 0..cuts.len() {
        assert_eq!(read(&stream("vllm:m").await), healthy, "cut {nth}");
        assert_eq!((primary.asked().len(), backup.asked().len()), (nth + 1, nth + 2));
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_after_its_first_delta_says_so_and_nobody_else_is_asked() {
    let primary = Upstream::start(vec![streams(&[begin(), piece("Hel")])]).await;
    let backup = Upstream::start(vec![says("never")]).await;
    let (_folder, node) = pair(&primary, &backup, "2").await;
    let events = Events::open(body(node.ask(Method::POST, CHAT), &asked(true))).await.rest().await;
    let all: String = events.iter().map(|event| event.data.to_string()).collect();
    assert!(all.contains("Hel") && all.contains("stream_truncated"), "{all}");
    assert!(!all.contains("\"finish_reason\":\"stop\""), "{all}");
    assert_eq!((primary.asked().len(), backup.asked().len()), (1, 0));
}

#[tokio::test]
async fn when_all_have_failed_the_caller_and_the_run_name_every_attempt() {
    let broken = || response("500 x", "application/json", r#"{"error":{"message":"boom"}}"#);
    let primary = Upstream::start(vec![broken(), broken()]).await;
    let refuses =
        response("402 x", "application/json", r#"{"error":{"message":"Insufficient Balance"}}"#);
    let backup = Upstream::start(vec![refuses]).await;
    let (_folder, node) = pair(&primary, &backup, "1").await;
    let (status, run, told) = turn(&node, None, &asked(false)).await;
    assert_eq!(status, 502, "{told}");
    let message = told["error"]["message"].as_str().unwrap();
    assert!(
        message.contains(
            "tried vllm:m server_error 500, vllm:m server_error 500, sglang:m billing 402"
        ),
        "{message}"
    );
    let run = if run.is_empty() {
        told["error"]["run_id"].as_str().unwrap_or_default().to_owned()
    } else {
        run
    };
    let tried = attempts(&node, &run).await;
    let said = |one: &Value| {
        format!("{}:{} {} {}", one["provider"], one["model"], one["class"], one["status"])
    };
    let expected = ["\"vllm\":\"m\" \"server_error\" 500"; 2].to_vec();
    let expected = [expected, vec!["\"sglang\":\"m\" \"billing\" 402"]].concat();
    assert_eq!(tried.iter().map(said).collect::<Vec<_>>(), expected);
    assert!(tried.iter().all(|one| one["duration_ms"].is_u64()), "{tried:?}");
    assert_eq!(told["error"]["attempts"].as_array().unwrap().len(), 3);
    assert_eq!((primary.asked().len(), backup.asked().len()), (2, 1));
}

#[tokio::test]
async fn with_nobody_ready_whoever_is_ready_first_is_waited_for_by_its_newest_hint() {
    let primary = Upstream::start(vec![limited(1), limited(2), says("after the wait")]).await;
    let backup = Upstream::start(vec![limited(600), limited(600)]).await;
    let (_folder, node) = pair(&primary, &backup, "0").await;
    let began = std::time::Instant::now();
    let (status, run, told) = turn(&node, None, &asked(false)).await;
    assert_eq!(status, 200, "{told}");
    assert!(began.elapsed() >= Duration::from_millis(2_900), "each hint is a floor");
    assert_eq!(told["choices"][0]["message"]["content"], "after the wait");
    let tried = attempts(&node, &run).await;
    let waits: Vec<Option<u64>> = tried.iter().map(|one| one["wait_ms"].as_u64()).collect();
    assert_eq!((waits.len(), waits[0], waits[2]), (4, None, None), "{waits:?}");
    let (first, second) = (waits[1].unwrap(), waits[3].unwrap());
    assert!(first <= 1_000 && (1_001..=2_000).contains(&second), "{waits:?}");
}

#[tokio::test]
async fn tools_beyond_a_cap_are_left_out_once_it_is_known() {
    let refuses = response("400 x", "application/json", r#"{"error":"Too many tools: at most 2"}"#);
    let primary = Upstream::start(vec![refuses, says("done")]).await;
    let backup = Upstream::start(vec![says("never")]).await;
    let (_folder, node) = pair(&primary, &backup, "0").await;
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    let mut request = asked(false);
    request["tools"] = json!([tool("a"), tool("b"), tool("c")]);
    let (status, _, told) = turn(&node, None, &request).await;
    assert_eq!(status, 200, "{told}");
    let counts: Vec<usize> =
        primary.asked().iter().map(|one| one.json()["tools"].as_array().unwrap().len()).collect();
    assert_eq!((counts, backup.asked().len()), (vec![3, 2], 0));
}
