//! Hard budgets: fifty callers at once and room for two, on one node and over three whose budget's owner is killed; a
//! chain that is cut between every pair of its commits, and sums that hold whatever was cut.

mod chain;

use crate::priced::{COST_USD, Priced};
use actors::cluster::{NodeName, place};
use events::aggregate::Aggregate;
use events::budget::{Budget, Scope};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::Node;
use tests::fleet::Cluster;
use tests::process::{answer, client, json as body, wait_for};

/// Callers at once.
const CALLERS: usize = 50;

/// Sets a budget, and waits until the node counts by it.
async fn set(node: &Node, scope: &str, terms: &Value) {
    let path = format!("/v1/budgets/{scope}");
    let (status, budget) = answer(body(node.ask(Method::PUT, &path), terms)).await;
    assert_eq!(status, 200, "{budget}");
    known(node, scope, &budget["limit"]).await;
}

async fn known(node: &Node, scope: &str, limit: &Value) {
    wait_for("the node knows the budget", || async {
        let (_, list) = node.get("/v1/budgets").await;
        let all = list["data"].as_array()?.clone();
        all.iter().any(|one| one["scope"] == scope && one["limit"] == *limit).then_some(())
    })
    .await;
}

async fn budget(node: &Node, scope: &str) -> Value {
    node.get(&format!("/v1/budgets/{scope}")).await.1
}

/// Waits until nobody holds a slice.
async fn at_rest(node: &Node, scope: &str) -> Value {
    wait_for(&format!("every slice of {scope} is back"), || async {
        let found = budget(node, scope).await;
        (found["slices"] == 0 && found["reserved"]["usd"] == 0.0).then_some(found)
    })
    .await
}

fn asks(url: &str, model: &str) -> reqwest::RequestBuilder {
    let request = client().post(format!("{url}/v1/chat/completions"));
    let asked = json!({ "model": model, "max_tokens": 32, "messages": [{ "role": "user", "content": "may I?" }] });
    body(request.bearer_auth(tests::ADMIN_KEY), &asked)
}

/// The most that one such chat can cost: what its intent reserves.
async fn worst(node: &Node) -> f64 {
    let (status, answered) = answer(asks(&node.url, "anthropic:claude-sonnet-5-5")).await;
    assert_eq!(status, 200, "{answered}");
    let (_, runs) = node.get("/v1/runs").await;
    let commits = node.journal(runs["data"][0]["id"].as_str().unwrap()).await;
    let entries = commits.iter().flat_map(|commit| commit["entries"].as_array().unwrap());
    let asked = entries.clone().find(|entry| entry["name"] == "model_asked").unwrap();
    asked["data"]["reserved_usd"].as_f64().unwrap()
}

fn admitted(answers: &[(u16, Value)]) -> usize {
    answers.iter().filter(|(status, _)| *status == 200).count()
}

#[tokio::test]
async fn of_fifty_callers_at_once_two_fit_a_budget_for_two() {
    let provider = Priced::free().await;
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[], &provider.variables()).await;
    // Without a budget nothing is asked of one.
    let one = worst(&node).await;
    provider.gate(false);
    set(&node, "project~default", &json!({ "usd": one * 2.5, "per": "day", "warn_at": [50] }))
        .await;
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| tokio::spawn(answer(asks(&node.url, "anthropic:claude-sonnet-5-5"))))
        .collect();
    wait_for("all but two are refused", || async {
        (callers.iter().filter(|caller| caller.is_finished()).count() == CALLERS - 2).then_some(())
    })
    .await;
    // Both are on the wire, and nobody else ever was.
    wait_for("two reached the provider", || async { (provider.asked() == 3).then_some(()) }).await;
    let held = budget(&node, "project~default").await;
    assert_eq!((&held["slices"], &held["crossed"]), (&json!(2), &json!(50)), "{held}");
    assert_eq!(held["reserved"]["calls"], 2, "{held}");
    provider.gate(true);
    let mut answers = vec![];
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    assert_eq!((admitted(&answers), provider.asked()), (2, 3));
    let (status, refused) = answers.iter().find(|(status, _)| *status != 200).unwrap();
    let error = &refused["error"];
    assert_eq!((*status, &error["code"]), (402, &json!("budget_exceeded")), "{refused}");
    let said = &error["budget"];
    assert_eq!((&said["scope"], &said["spent"]["usd"]), (&json!("project~default"), &json!(0.0)));
    assert_eq!(said["limit"]["usd"], held["limit"]["usd"], "{refused}");
    assert_eq!((&said["reserved"], &said["renews_at"]), (&held["reserved"], &held["renews_at"]));
    assert!(said["raise"].as_str().unwrap().starts_with("piton budget set project~default"));
    // What was reserved and not used came back; what was spent is what was paid.
    let rest = at_rest(&node, "project~default").await;
    let spent = rest["spent"]["usd"].as_f64().unwrap();
    assert!((spent - 2.0 * COST_USD).abs() < 1e-9, "{rest}");
    let (status, again) = answer(asks(&node.url, "anthropic:claude-sonnet-5-5")).await;
    assert_eq!(status, 200, "{again}");
    let (_, metrics) = node.get("/metrics").await;
    assert!(
        metrics.as_str().unwrap().contains(r#"piton_budget_refusals_total{scope="project"} 48"#)
    );
}

#[tokio::test]
async fn narrow_and_wide_budgets_each_have_their_say_and_removing_one_frees() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let (_, key) = node.post("/v1/keys", &json!({ "name": "ci", "role": "runner" })).await;
    let scope = format!("key~{}", key["id"].as_str().unwrap());
    set(&node, "all", &json!({ "calls": 2 })).await;
    set(&node, &scope, &json!({ "calls": 1 })).await;
    let asked = json!({ "model": "demo", "messages": [{ "role": "user", "content": "hi" }] });
    let by_key = || {
        let request = client().post(format!("{}/v1/chat/completions", node.url));
        answer(body(request.bearer_auth(key["key"].as_str().unwrap()), &asked))
    };
    assert_eq!(by_key().await.0, 200);
    let (status, refused) = by_key().await;
    assert_eq!((status, &refused["error"]["budget"]["scope"]), (402, &json!(scope)), "{refused}");
    // Another caller has the rest of the wide one.
    assert_eq!(node.post("/v1/chat/completions", &asked).await.0, 200);
    let (status, refused) = node.post("/v1/chat/completions", &asked).await;
    assert_eq!((status, &refused["error"]["budget"]["scope"]), (402, &json!("all")), "{refused}");
    // A run says it in its state and by its end.
    let run = node.start_run(&json!({ "input": "hi" })).await;
    let ended = node.ended(&run).await;
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("exhausted"), &json!("budget")));
    assert_eq!(ended["budget_refusal"]["limit"]["calls"], 2, "{ended}");
    let (_, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!(replayed["ok"], true, "{replayed}");
    // What is refused takes nothing of a narrower one.
    assert_eq!(at_rest(&node, &scope).await["spent"]["calls"], 1);
    let gone = answer(node.ask(Method::DELETE, "/v1/budgets/all")).await;
    assert_eq!((gone.0, node.get("/v1/budgets/all").await.0), (204, 404));
    wait_for("the node forgets it", || async {
        (node.get("/v1/budgets").await.1["count"] == 1).then_some(())
    })
    .await;
    assert_eq!(node.post("/v1/chat/completions", &asked).await.0, 200);
}

#[tokio::test]
async fn a_model_without_a_price_fits_no_money_budget_unless_it_says_so_and_a_restart_forgets_no_budget()
 {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    set(&node, "project~default", &json!({ "usd": 100.0 })).await;
    node.kill();
    let node = Node::demo(folder.path()).await;
    let (status, refused) = answer(asks(&node.url, "demo")).await;
    assert_eq!(
        (status, &refused["error"]["budget"]["wanted_usd"]),
        (402, &Value::Null),
        "{refused}"
    );
    set(&node, "project~default", &json!({ "usd": 100.0, "unpriced": "allow" })).await;
    assert_eq!(answer(asks(&node.url, "demo")).await.0, 200);
    for bad in [json!({}), json!({ "usd": 1.0, "warn_at": [80, 50] }), json!({ "euro": 1 })] {
        let (status, said) = answer(body(node.ask(Method::PUT, "/v1/budgets/all"), &bad)).await;
        assert_eq!(status, 400, "{said}");
    }
    let path = "/v1/budgets/everything";
    assert_eq!(answer(body(node.ask(Method::PUT, path), &json!({ "calls": 1 }))).await.0, 400);
}

/// The node that owns a budget.
fn owner(cluster: &Cluster, scope: Scope) -> usize {
    let names: BTreeSet<NodeName> =
        (0..cluster.nodes.len()).map(|nth| format!("n{nth}").parse().unwrap()).collect();
    let owner = place::owners(&names)[&Budget::stream(&scope).partition()].clone();
    owner.as_str().trim_start_matches('n').parse().unwrap()
}

#[tokio::test]
async fn of_fifty_callers_over_three_nodes_two_are_admitted_though_the_owner_of_the_budget_is_killed()
 {
    let mut cluster = Cluster::of(3).await;
    set(&cluster.nodes[0], "all", &json!({ "calls": 2 })).await;
    let limit = budget(&cluster.nodes[0], "all").await["limit"].clone();
    for node in &cluster.nodes {
        known(node, "all", &limit).await;
    }
    let mut owner = cluster.nodes.remove(owner(&cluster, Scope::ALL));
    let ask = |count: usize| -> Vec<_> {
        (0..count)
            .map(|nth| tokio::spawn(answer(asks(&cluster.nodes[nth % 2].url, "demo"))))
            .collect()
    };
    // Half while it lives; it dies as soon as anybody holds a slice; the rest while nobody owns the budget.
    let mut callers = ask(CALLERS / 2);
    wait_for("somebody holds a slice", || async {
        let (_, list) = cluster.nodes[0].get("/v1/budgets").await;
        let one = &list["data"][0];
        let taken = one["reserved"]["calls"].as_u64()? + one["spent"]["calls"].as_u64()?;
        (taken > 0).then_some(())
    })
    .await;
    owner.kill();
    callers.extend(ask(CALLERS - CALLERS / 2));
    let mut answers = vec![];
    for caller in callers {
        answers.push(caller.await.unwrap());
    }
    assert_eq!(admitted(&answers), 2, "{answers:?}");
    for (status, said) in answers.iter().filter(|(status, _)| *status != 200) {
        assert_eq!((*status, &said["error"]["code"]), (402, &json!("budget_exceeded")), "{said}");
    }
    for node in &cluster.nodes {
        let rest = at_rest(node, "all").await;
        assert_eq!(rest["spent"]["calls"], 2, "{rest}");
    }
}
