//! Which model serves which role: a node whose providers are another node's front door.

use serde_json::json;
use tests::process::{ADMIN_KEY, Node, wait_for};

/// A node that serves the scripted model, and one in front of it that knows it as two providers, of which the first can
/// not be reached.
struct Pair {
    front: Node,
    _behind: Node,
    _folders: [tempfile::TempDir; 2],
}

impl Pair {
    async fn start(more: &[(&str, &str)]) -> Self {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let behind = Node::demo(folders[0].path()).await;
        let url = format!("{}/v1", behind.url);
        // Discard: nobody listens there.
        let variables = [
            ("PITON_VLLM_BASE_URL", "http://127.0.0.1:9/v1"),
            ("PITON_OPENAI_BASE_URL", url.as_str()),
            ("OPENAI_API_KEY", ADMIN_KEY),
            ("PITON_RETRY_API_MAX_RETRIES", "0"),
        ];
        let variables = [&variables, more].concat();
        let front = Node::start(folders[1].path(), &[], &variables).await;
        Self { front, _behind: behind, _folders: folders }
    }
}

#[tokio::test]
async fn a_role_is_served_by_its_route_and_counted_as_its_own() {
    let pair = Pair::start(&[("PITON_ROUTE_PLANNER", "openai:demo")]).await;
    let asked =
        json!({"input": "hello", "role": "planner", "phase": "concept", "enabled_tools": []});
    let run = pair.front.start_run(&asked).await;
    let ended = pair.front.ended(&run).await;
    let said = |name: &str| ended[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        ["outcome", "role", "phase", "route_source", "served_by"].map(said),
        ["completed", "planner", "concept", "env", "openai:demo"]
    );
    assert_eq!(ended["usage"]["by_role"][0]["name"], "planner");
    assert_eq!(ended["usage"]["by_phase"][0]["name"], "concept");
    assert_eq!(ended["usage"]["by_model"][0]["name"], "openai:demo");
    // The list is a projection and may come a moment later.
    wait_for("the role is counted", async || {
        let (_, summary) = pair.front.get("/v1/usage").await;
        (summary["by_role"][0]["name"] == "planner" && summary["by_phase"][0]["name"] == "concept")
            .then_some(())
    })
    .await;
    let (_, routing) = pair.front.get("/v1/harness/routing?role=planner").await;
    assert_eq!(routing["data"][0]["route"], "openai:demo", "{routing}");
    assert_eq!(routing["data"][0]["source"], "env");
    // A client that can only name a model names the role in its place.
    let chat = json!({"model": "role:planner", "messages": [{"role": "user", "content": "hi"}]});
    let (status, answered) = pair.front.post("/v1/chat/completions", &chat).await;
    assert_eq!(status, 200, "{answered}");
}

#[tokio::test]
async fn a_fallback_serves_when_the_primary_can_not_be_reached() {
    let more = [("PITON_FALLBACK_PROVIDERS", "openai:demo"), ("PITON_ROUTE_PLANNER", "vllm:any")];
    let pair = Pair::start(&more).await;
    let asked = json!({"input": "hello", "role": "planner", "enabled_tools": []});
    let run = pair.front.start_run(&asked).await;
    let ended = pair.front.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    assert_eq!((&ended["model"], &ended["served_by"]), (&json!("vllm:any"), &json!("openai:demo")));
}

#[tokio::test]
async fn an_artifact_says_which_model_made_it_and_which_was_meant_to() {
    let more = [("PITON_FALLBACK_PROVIDERS", "openai:demo"), ("PITON_ROUTE_PLANNER", "vllm:any")];
    let pair = Pair::start(&more).await;
    let asked = json!({"input": "tool artifact_write {\"name\": \"plan\", \"content\": \"one\"}",
        "role": "planner", "project_id": "lab", "enabled_tools": ["artifact_write"]});
    let run = pair.front.start_run(&asked).await;
    let ended = pair.front.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let (status, plan) = pair.front.get("/v1/artifacts/lab/plan").await;
    assert_eq!((status, &plan["content"], &plan["run_id"]), (200, &json!("one"), &json!(run)));
    let who = ["source", "role", "served_by", "generated_by"].map(|key| plan[key].clone());
    assert_eq!(who, ["run", "planner", "openai:demo", "openai:demo"], "{plan}");
    assert_eq!(plan["instead_of"]["model"], "vllm:any", "{plan}");
}

#[tokio::test]
async fn a_route_that_leads_nowhere_is_refused_by_name_and_shown() {
    let pair = Pair::start(&[("PITON_ROUTE_PLANNER", "deepseek:x")]).await;
    let asked = json!({"input": "hello", "role": "planner", "enabled_tools": []});
    let (status, refused) = pair.front.post("/v1/runs", &asked).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (503, &json!("route_unconfigured")),
        "{refused}"
    );
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("planner") && why.contains("DEEPSEEK_API_KEY"), "{why}");
    let (_, health) = pair.front.get("/health/detailed").await;
    assert_eq!(health["model_routing"]["status"], "degraded");
    assert!(health["model_routing"]["problems"][0].as_str().unwrap().contains("deepseek:x"));
    let (status, bad) =
        pair.front.post("/v1/runs", &json!({"input": "x", "role": "No Role"})).await;
    assert_eq!(status, 400, "{bad}");
}

#[tokio::test]
async fn a_fallback_is_an_alarm_that_is_counted_once() {
    let more = [
        ("PITON_FALLBACK_PROVIDERS", "openai:demo"),
        ("PITON_ROUTE_PLANNER", "vllm:any"),
        ("PITON_LOG_FORMAT", "json"),
    ];
    let pair = Pair::start(&more).await;
    let asked = json!({"input": "hello", "role": "planner", "enabled_tools": []});
    let run = pair.front.start_run(&asked).await;
    pair.front.ended(&run).await;
    let seen = wait_for("the fallback is in the read model", async || {
        let (_, seen) = pair.front.get("/v1/harness/providers").await;
        (seen["fallback_total"] == 1).then_some(seen)
    })
    .await;
    assert_eq!(seen["fallback_count"], 1);
    let last = &seen["last_fallback"];
    assert_eq!(
        ["role", "primary", "fallback", "reason"].map(|name| last[name].as_str().unwrap()),
        ["planner", "vllm:any", "openai:demo", "call_failed"]
    );
    assert_eq!(
        (&seen["fallbacks"][0]["count"], &seen["fallbacks"][0]["role"]),
        (&json!(1), &json!("planner"))
    );
    let metrics = pair.front.ask(reqwest::Method::GET, "/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let line = |name: &str| metrics.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    let fallback = line("piton_harness_provider_fallback_total{");
    for label in [
        r#"primary="vllm""#,
        r#"fallback="openai""#,
        r#"role="planner""#,
        r#"reason="call_failed""#,
    ] {
        assert!(fallback.contains(label), "{label} in {fallback}");
    }
    assert!(fallback.ends_with(" 1"), "{fallback}");
    assert!(
        metrics.contains("piton_llm_tokens_total{") && metrics.contains("piton_llm_calls_total{")
    );
    let log = pair.front.log();
    let alarm =
        log.lines().find(|line| line.contains("harness_provider_fallback")).unwrap_or_default();
    assert!(alarm.contains("WARN") && alarm.contains("transport"), "{alarm}");
}

#[tokio::test]
async fn each_reason_of_a_fallback_is_told_and_counted() {
    let more = [
        ("PITON_FALLBACK_PROVIDERS", "openai:demo"),
        ("ANTHROPIC_API_KEY", "sk-planted"),
        ("DEEPSEEK_API_KEY", "sk-planted"),
        ("PITON_LOG_FORMAT", "json"),
    ];
    let pair = Pair::start(&more).await;
    let image =
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let text = json!({"type": "text", "text": "hello"});
    for (model, content, reason) in [
        ("vllm:any", json!([text]), "call_failed"),
        ("anthropic:gpt-6", json!([text]), "model_mismatch"),
        ("deepseek:any", json!([text, image]), "capability_unsupported"),
    ] {
        let chat = json!({"model": model, "messages": [{"role": "user", "content": content}]});
        let asked = tests::process::json(
            pair.front.ask(reqwest::Method::POST, "/v1/chat/completions"),
            &chat,
        );
        let got = asked.send().await.unwrap();
        assert_eq!(
            (got.status().as_u16(), &got.headers()["x-piton-served-by"]),
            (200, &"openai:demo".parse().unwrap()),
            "{model}"
        );
        let seen = wait_for(reason, async || {
            let (_, seen) = pair.front.get("/v1/harness/providers").await;
            let all = seen["fallbacks"].as_array()?.clone();
            all.into_iter().find(|one| one["reason"] == reason)
        })
        .await;
        assert_eq!((&seen["primary"], &seen["count"]), (&json!(model), &json!(1)), "{seen}");
        let metrics = pair.front.ask(reqwest::Method::GET, "/metrics").send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        let counted = metrics.lines().find(|line| {
            line.starts_with("piton_harness_provider_fallback_total{")
                && line.contains(&format!("reason=\"{reason}\""))
        });
        assert!(counted.is_some_and(|line| line.ends_with(" 1")), "{reason}: {counted:?}");
        let level = if reason == "capability_unsupported" { "INFO" } else { "WARN" };
        let log = pair.front.log();
        let told = log
            .lines()
            .find(|line| line.contains("harness_provider_fallback") && line.contains(reason));
        assert!(told.is_some_and(|line| line.contains(level)), "{reason}: {told:?}");
    }
    // Nobody behind it: the image is refused by name, and nothing is sent.
    let alone = Pair::start(&[("DEEPSEEK_API_KEY", "sk-planted")]).await;
    let said = json!([{"role": "user", "content": [text, image]}]);
    let chat = json!({"model": "deepseek:any", "messages": said});
    let (status, refused) = alone.front.post("/v1/chat/completions", &chat).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid_request")), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("text only"), "{refused}");
}

/// A stream's head leaves before its answer is there, and the one that was meant to serve has failed by then.
#[tokio::test]
async fn the_head_of_a_stream_names_whoever_serves_it() {
    let pair = Pair::start(&[("PITON_FALLBACK_PROVIDERS", "openai:demo")]).await;
    let chat = json!({
        "model": "vllm:any", "stream": true, "messages": [{"role": "user", "content": "slow 20"}],
    });
    let asked =
        tests::process::json(pair.front.ask(reqwest::Method::POST, "/v1/chat/completions"), &chat);
    let got = asked.send().await.unwrap();
    let head = got.headers()["x-piton-served-by"].clone();
    assert_eq!((got.status().as_u16(), head.to_str().unwrap()), (200, "openai:demo"));
    assert!(got.text().await.unwrap().contains("[DONE]"));
}
