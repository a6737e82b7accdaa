//! What models used and cost, by everything that it can be asked by, and what is said where something is not known.

use crate::keyed::Upstream;
use crate::nodes::piton;
use crate::priced::{COST_USD, Priced};
use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::fleet::Cluster;
use tests::process::{answer, client, json as body, wait_for};

/// A run of the administrator's, to its end.
async fn ran(node: &Node, asked: &Value) -> Value {
    node.ended(&node.start_run(asked).await).await
}

/// The lines of one property, by name: calls and cost.
async fn by(node: &Node, property: &str) -> Vec<(String, u64, Option<f64>)> {
    let (status, totals) = node.get(&format!("/v1/usage?by={property}")).await;
    assert_eq!(status, 200, "{totals}");
    let line = |line: &Value| {
        let name = line["name"].as_str().unwrap().to_owned();
        (name, line["calls"].as_u64().unwrap(), line["cost_usd"].as_f64())
    };
    let mut lines: Vec<_> = totals["lines"].as_array().unwrap().iter().map(line).collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines
}

/// Waits until the read model has so many calls of the last hour.
async fn summed(node: &Node, calls: u64) -> Value {
    wait_for("the calls are counted", async || {
        let (_, summary) = node.get("/v1/runs/usage/summary?window_hours=1").await;
        (summary["calls"] == calls).then_some(summary)
    })
    .await
}

#[tokio::test]
async fn every_total_adds_up_by_whatever_it_is_asked_for() {
    let (priced, folder) = (Priced::free().await, tempfile::tempdir().unwrap());
    let node = Node::start(folder.path(), &[], &priced.variables()).await;
    let (_, key) = node.post("/v1/keys", &json!({"name": "ci", "role": "runner"})).await;
    let (id, secret) = (key["id"].as_str().unwrap(), key["key"].as_str().unwrap());
    let flow = json!({
        "input": "x", "role": "planner", "phase": "concept", "project_id": "lab", "enabled_tools": [],
    });
    let first = ran(&node, &flow).await;
    let run = first["run_id"].as_str().unwrap();
    assert_eq!(first["usage"]["cost_usd"], COST_USD, "{first}");
    let asked = client().post(format!("{}/v1/chat/completions", node.url)).bearer_auth(secret);
    let said = json!([{"role": "user", "content": "x"}]);
    let chat = json!({"model": "anthropic:claude-sonnet-5-5", "messages": said});
    assert_eq!(answer(body(asked, &chat)).await.0, 200);
    let whole = summed(&node, 2).await;
    let twice = 2.0 * COST_USD;
    assert_eq!((&whole["cost_usd"], &whole["lower_bound"]), (&json!(twice), &json!(false)));
    assert_eq!((&whole["billing"], &whole["window_hours"]), (&json!("metered"), &json!(1)));
    assert_eq!((&whole["prompt_tokens"], &whole["completion_tokens"]), (&json!(20), &json!(14)));

    let one = |name: &str| (name.to_owned(), 1, Some(COST_USD));
    let two = |name: &str| (name.to_owned(), 2, Some(twice));
    assert_eq!(by(&node, "role").await, [one("chat"), one("planner")]);
    assert_eq!(by(&node, "phase").await, [one(""), one("concept")]);
    assert_eq!(by(&node, "project").await, [one("default"), one("lab")]);
    assert_eq!(by(&node, "provider").await, [two("anthropic")]);
    assert_eq!(by(&node, "model").await, [two("anthropic:claude-sonnet-5-5")]);
    assert_eq!(by(&node, "profile").await, [two("anthropic:env")]);
    assert_eq!(by(&node, "caller").await, [one("admin"), one(id)]);
    assert_eq!(by(&node, "key").await, [one(id)], "the administrator's key is none of the issued");
    let days = by(&node, "day").await;
    assert_eq!(days.iter().map(|(_, calls, _)| calls).sum::<u64>(), 2, "{days:?}");
    let runs = by(&node, "run").await;
    assert!(runs.contains(&one(run)) && runs.len() == 2, "{runs:?}");
    assert_eq!(node.get("/v1/usage?by=nothing").await.0, 400);
    for of in ["by_role", "by_phase", "by_model"] {
        assert!(first["usage"][of].is_array() && whole[of].is_array(), "{of}");
    }
    // The counters agree with the read model, and none of their labels is an id.
    let metrics = node.ask(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    for (name, sum) in [
        ("piton_llm_cost_usd_total", twice),
        ("piton_llm_calls_total", 2.0),
        ("piton_llm_tokens_total", 34.0),
    ] {
        let found = counted(&node, name).await;
        assert!((found - sum).abs() < 1e-9, "{name}: {found}");
    }
    assert!(!metrics.contains(id) && !metrics.contains(run));
}

/// A model that is not in the table has no price: null and never zero, and a total over it is a lower bound.
#[tokio::test]
async fn a_cost_that_is_not_known_is_null_and_makes_every_total_a_bound() {
    let (priced, folder) = (Priced::free().await, tempfile::tempdir().unwrap());
    let node = Node::start(folder.path(), &[], &priced.variables()).await;
    let unpriced = json!({"input": "x", "model": "anthropic:nobodys", "enabled_tools": []});
    let usage = ran(&node, &unpriced).await["usage"].clone();
    assert_eq!((&usage["cost_usd"], &usage["calls_unpriced"]), (&Value::Null, &json!(1)));
    let none = summed(&node, 1).await;
    assert_eq!((&none["cost_usd"], &none["lower_bound"]), (&Value::Null, &json!(true)));
    ran(&node, &json!({"input": "x", "enabled_tools": []})).await;
    let whole = summed(&node, 2).await;
    assert_eq!((&whole["cost_usd"], &whole["lower_bound"]), (&json!(COST_USD), &json!(true)));
    assert_eq!(whole["calls_unpriced"], 1);
    let (code, told, _) = piton(folder.path(), &["usage", "--window-hours", "2"]).await;
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("calls_unpriced") && told.contains("lower_bound"), "{told}");
    let (_, health) = node.get("/health/detailed").await;
    assert_eq!(health["llm_usage_24h"]["calls"], 2, "{health}");
}

#[tokio::test]
async fn a_run_that_costs_much_says_so_once() {
    let (priced, folder) = (Priced::free().await, tempfile::tempdir().unwrap());
    let more = [("PITON_RUN_SPEND_ALERT_USD", "0.00005"), ("PITON_LOG_FORMAT", "json")];
    let told = [&priced.variables()[..], &more].concat();
    let node = Node::start(folder.path(), &[], &told).await;
    let run = ran(&node, &json!({"input": "x", "enabled_tools": []})).await;
    let run = run["run_id"].as_str().unwrap();
    let crossed = node.events(run).await.into_iter().filter(|name| name == "spend_crossed").count();
    assert_eq!(crossed, 1);
    let metrics = node.ask(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let counted =
        metrics.lines().find(|line| line.starts_with("piton_llm_run_spend_exceeded_total{"));
    assert!(counted.is_some_and(|line| line.ends_with(" 1")), "{counted:?}");
    let log = node.log();
    let alarm = log.lines().find(|line| line.contains("llm_run_spend_exceeded"));
    assert!(alarm.is_some_and(|line| line.contains(run) && line.contains("WARN")), "{alarm:?}");
}

/// The sum of a counter over its series of one node.
async fn counted(node: &Node, name: &str) -> f64 {
    let metrics = node.ask(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// Each node folds the whole log for itself; a counter moves where the fact was made, and nowhere else.
#[tokio::test]
async fn a_fallback_on_three_nodes_is_counted_once_and_read_by_each() {
    let upstream = Upstream::start().await;
    let told = vec![
        ("PITON_OPENAI_BASE_URL", upstream.url()),
        ("OPENAI_API_KEY", "sk-planted".to_owned()),
        // Discard: nobody listens there.
        ("PITON_VLLM_BASE_URL", "http://127.0.0.1:9/v1".to_owned()),
        ("PITON_FALLBACK_PROVIDERS", "openai:x".to_owned()),
        ("PITON_RETRY_API_MAX_RETRIES", "0".to_owned()),
    ];
    let mut cluster = Cluster::of_told(3, told).await;
    let run = json!({"input": "x", "model": "vllm:any", "enabled_tools": []});
    let ended = ran(&cluster.nodes[0], &run).await;
    assert_eq!(ended["served_by"], "openai:x", "{ended}");
    let read = async |node: &Node| {
        wait_for("a node reads the fallback", async || {
            let (_, seen) = node.get("/v1/harness/providers").await;
            let (_, usage) = node.get("/v1/usage").await;
            (seen["fallback_total"] == 1 && usage["calls"] == 2).then_some(seen)
        })
        .await
    };
    let (mut alarms, mut calls, mut seen) = (0.0, 0.0, 0);
    for node in &cluster.nodes {
        seen += read(node).await["fallback_count"].as_u64().unwrap();
        alarms += counted(node, "piton_harness_provider_fallback_total").await;
        calls += counted(node, "piton_llm_calls_total").await;
    }
    assert_eq!((alarms, calls, seen), (1.0, 2.0, 1));
    // One that builds its read models anew counts nothing, and reads the same.
    cluster.nodes[1].kill();
    for file in ["views.db", "views.db-wal", "views.db-shm"] {
        let _none = std::fs::remove_file(cluster.folders[1].path().join(file));
    }
    cluster.nodes[1] = cluster.start(1).await;
    let anew = read(&cluster.nodes[1]).await;
    assert_eq!(anew["fallback_count"], 0);
    let alarms = counted(&cluster.nodes[1], "piton_harness_provider_fallback_total").await;
    assert!(alarms.abs() < f64::EPSILON, "{alarms}");
}
