//! Profiles that cool: what a caller is told, who is asked in their place, and how they come back.

use super::*;

const POOR: &str = r#"{"error":{"message":"Insufficient Balance"}}"#;

/// A node that waits for nobody, in front of one provider with so many profiles.
async fn impatient(upstream: &keyed::Upstream, profiles: usize) -> (TempDir, Node) {
    let (folder, url) = (tempfile::tempdir().unwrap(), upstream.url());
    let variables = [
        ("PITON_OPENAI_BASE_URL", url.as_str()),
        ("PITON_RETRY_RETRY_WAIT_MAX_SECONDS", "0"),
        ("PITON_RETRY_API_MAX_RETRIES", "1"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    for nth in 0..profiles {
        let (profile, key) = (format!("p{nth}"), format!("sk-planted-{nth}"));
        let asked = json!({"provider": "openai", "profile": profile, "key": key});
        assert_eq!(node.post("/v1/harness/credentials", &asked).await.0, 201);
        wait_for("the profile is known", async || self::profile(&node, &profile).await).await;
    }
    (folder, node)
}

/// Status, `retry-after` in seconds, and whether a repeat is worth it.
async fn refused(node: &Node, stream: bool) -> (u16, u64, bool) {
    let request = json!({"model": "openai:gpt-x", "stream": stream, "messages": [{"role": "user", "content": "hello"}]});
    let got = body(node.ask(Method::POST, CHAT), &request).send().await.unwrap();
    let header =
        |name: &str| got.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let seconds: u64 = header("retry-after").expect("retry-after").parse().unwrap();
    let millis: u64 = header("retry-after-ms").expect("retry-after-ms").parse().unwrap();
    assert_eq!(millis.div_ceil(1_000), seconds);
    (got.status().as_u16(), seconds, header("x-should-retry").as_deref() == Some("true"))
}

async fn cools(node: &Node, name: &str) -> Value {
    wait_for("it cools", async || {
        let one = profile(node, name).await?;
        one["cooling"].as_array()?.first().cloned()
    })
    .await
}

#[tokio::test]
async fn when_every_key_cools_the_caller_is_told_when_the_first_is_ready() {
    let upstream = keyed::Upstream::start().await;
    let (_folder, node) = impatient(&upstream, 2).await;
    upstream.answer("sk-planted-0", 429, &[("retry-after", "60")], LIMITED);
    upstream.answer("sk-planted-1", 429, &[("retry-after", "300")], LIMITED);
    let (status, seconds, again) = refused(&node, false).await;
    assert!(status == 429 && (55..=60).contains(&seconds) && again, "{status} {seconds}");
    assert_eq!(upstream.keys(), ["sk-planted-0", "sk-planted-1"]);
    for name in ["p0", "p1"] {
        let cooling = cools(&node, name).await;
        assert_eq!(
            (&cooling["reason"], &cooling["scope"]),
            (&json!("rate_limited"), &json!("model"))
        );
        assert!(cooling["next_try"].is_string(), "{cooling}");
    }
    // Nobody is asked any more, and the time is the same one.
    upstream.forget();
    for stream in [false, true] {
        let (status, seconds, again) = refused(&node, stream).await;
        assert!(status == 429 && (50..=60).contains(&seconds) && again, "{status} {seconds}");
    }
    assert!(upstream.keys().is_empty());
}

#[tokio::test]
async fn ten_keys_of_which_nine_are_limited_are_one_answer_and_none_is_asked_twice() {
    let upstream = keyed::Upstream::start().await;
    let (_folder, node) = impatient(&upstream, 10).await;
    for nth in 0..9 {
        upstream.answer(&format!("sk-planted-{nth}"), 429, &[("retry-after", "600")], LIMITED);
    }
    for nth in 0..4 {
        let (status, _, told) =
            Talk::new(&format!("s{nth}"), "openai:gpt-x").say(&node, "hello").await;
        assert_eq!((status, upstream.last_key().as_str()), (200, "sk-planted-9"), "{told}");
        // What this one saw is known before the next one asks.
        for key in upstream.keys().iter().filter(|key| *key != "sk-planted-9") {
            cools(&node, &key.replace("sk-planted-", "p")).await;
        }
    }
    let asked = upstream.all_keys();
    for key in upstream.keys().iter().filter(|key| *key != "sk-planted-9") {
        assert_eq!(asked.iter().filter(|one| *one == key).count(), 1, "{key}: {asked:?}");
    }
}

#[tokio::test]
async fn a_request_that_is_at_fault_changes_nothing_of_a_key() {
    let upstream = keyed::Upstream::start().await;
    let (_folder, node) = impatient(&upstream, 1).await;
    // What was used of it is counted, and no matter of how it fares.
    let fares = async || {
        let mut shown = profile(&node, "p0").await.unwrap();
        shown["history"]["usage"].take();
        shown
    };
    let before = fares().await;
    let orphan = r#"{"error":{"message":"messages with role 'tool' must be a response to a preceeding message with 'tool_calls'","type":"invalid_request_error"}}"#;
    upstream.answer("sk-planted-0", 400, &[], orphan);
    let mut talk = Talk::new("s", "openai:gpt-x");
    let (status, run, _) = talk.say(&node, "hello").await;
    assert_eq!(
        (status, attempts(&node, &run).await[0]["class"].clone()),
        (400, json!("invalid_request"))
    );
    upstream.heal("sk-planted-0");
    assert_eq!(talk.say(&node, "hello").await.0, 200);
    assert_eq!(fares().await, before);
}

#[tokio::test]
async fn a_key_that_was_topped_up_is_tried_once_its_time_has_come_and_a_success_clears_it() {
    let upstream = keyed::Upstream::start().await;
    let (_folder, node) = impatient(&upstream, 2).await;
    upstream.answer("sk-planted-0", 402, &[("retry-after", "1")], POOR);
    upstream.answer("sk-planted-1", 402, &[("retry-after", "600")], POOR);
    let (status, run, _) = Talk::new("s", "openai:gpt-x").say(&node, "hello").await;
    assert_eq!((status, attempts(&node, &run).await.len()), (502, 2));
    assert_eq!(cools(&node, "p0").await["scope"], "profile");
    upstream.heal("sk-planted-0");
    wait_for("it may be tried", async || {
        profile(&node, "p0").await.filter(|one| one["state"] == "half_open")
    })
    .await;
    let (status, _, told) = Talk::new("s", "openai:gpt-x").say(&node, "hello").await;
    assert_eq!((status, upstream.last_key().as_str()), (200, "sk-planted-0"), "{told}");
    let healthy = |one: &Value| one["state"] == "healthy" && one["cooling"] == json!([]);
    wait_for("it is cleared", async || profile(&node, "p0").await.filter(healthy)).await;
    assert_eq!(profile(&node, "p1").await.unwrap()["state"], "cooling");
}
