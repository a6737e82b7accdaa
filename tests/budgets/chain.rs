//! The chain of a call that a budget counts, killed between every pair of its commits and effects, then started again
//! and sent nothing.

use super::{at_rest, set};
use crate::priced::Priced;
use serde_json::{Value, json};
use std::path::Path;
use tests::Node;
use tests::process::{client, json as body, wait_for};

/// More visits than any run of this story makes.
const VISITS_MAX: u32 = 40;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A folder in which a project has a budget.
async fn budgeted(provider: &Priced) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), &[], &provider.variables()).await;
    set(&node, "project~lab", &json!({ "usd": 40.0 })).await;
    set(&node, "all", &json!({ "usd": 50.0, "calls": 100 })).await;
    assert!(node.stop().await.success());
    std::fs::write(folder.path().join("FAULTS-ALLOWED"), "").unwrap();
    folder
}

async fn newest(node: &Node) -> Option<Value> {
    let answer = node.ask(reqwest::Method::GET, "/v1/runs").send().await.ok()?;
    let list: Value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
    list["data"].as_array()?.first().cloned()
}

/// Whether the run has ended and its slices are back.
async fn over(node: &Node) -> bool {
    let Some(run) = newest(node).await else { return false };
    let id = run["id"].as_str().unwrap_or_default();
    let Ok(sent) = node.ask(reqwest::Method::GET, &format!("/v1/runs/{id}/journal")).send().await
    else {
        return false;
    };
    let text = sent.text().await.unwrap_or_default();
    text.matches(r#""name":"slice_returned""#).count() == 2
}

/// What a run's journal says was spent: settled calls at their cost, lost ones at their reservation.
async fn spent(node: &Node, run: &str) -> (f64, u64, Vec<String>) {
    let commits = node.journal(run).await;
    let entries: Vec<&Value> =
        commits.iter().flat_map(|commit| commit["entries"].as_array().unwrap()).collect();
    let (mut usd, mut calls, mut open) = (0.0, 0, 0_i32);
    for entry in &entries {
        let data = &entry["data"];
        match entry["name"].as_str().unwrap() {
            "model_asked" => open += 1,
            "model_answered" => {
                (usd, calls, open) =
                    (usd + data["usage"]["cost_usd"].as_f64().unwrap(), calls + 1, open - 1);
            }
            "model_unknown" => {
                (usd, calls, open) =
                    (usd + data["reserved_usd"].as_f64().unwrap(), calls + 1, open - 1);
            }
            _ => {}
        }
    }
    assert_eq!(open, 0, "an intent is not settled");
    (usd, calls, entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect())
}

async fn cut(template: &Path, provider: &Priced, point: &str, nth: u32) -> bool {
    let folder = tempfile::tempdir().unwrap();
    copy(template, folder.path());
    let fault = format!("{point}:{nth}:kill");
    let mut node = Node::start(folder.path(), &["--faults", &fault], &provider.variables()).await;
    let asked = json!({ "input": "may I?", "project_id": "lab", "enabled_tools": [] });
    let sent = body(node.ask(reqwest::Method::POST, "/v1/runs"), &asked).send().await;
    let accepted = sent.is_ok_and(|answer| answer.status() == 202);
    let died = wait_for(&format!("{fault}: it dies, or all is over"), || {
        let (over, url) = (over(&node), node.url.clone());
        async move {
            match client().get(format!("{url}/health")).send().await {
                Err(_) => Some(true),
                Ok(_) => over.await.then_some(false),
            }
        }
    })
    .await;
    if !died {
        return false;
    }
    node.died().await;
    drop(node);
    let node = Node::start(folder.path(), &[], &provider.variables()).await;
    let run = wait_for(&format!("{fault}: what was accepted ends"), || async {
        let (_, health) = node.get("/health/detailed").await;
        let all = health["projections"].as_array()?;
        all.iter().all(|one| one["lag"] == 0).then_some(())?;
        match newest(&node).await {
            None if !accepted => Some(None),
            None => None,
            Some(run) => run["outcome"].is_string().then_some(Some(run)),
        }
    })
    .await;
    let (lab, all) = (at_rest(&node, "project~lab").await, at_rest(&node, "all").await);
    let Some(run) = run else {
        assert_eq!((&lab["spent"]["usd"], &all["spent"]["usd"]), (&json!(0.0), &json!(0.0)));
        return true;
    };
    assert_eq!(run["outcome"], "completed", "{fault}: {run}");
    let (usd, calls, events) = spent(&node, run["id"].as_str().unwrap()).await;
    for budget in [lab, all] {
        let said = budget["spent"]["usd"].as_f64().unwrap();
        assert!((said - usd).abs() < 1e-9, "{fault}: {usd} of {budget} after {events:?}");
        assert_eq!(budget["spent"]["calls"], calls, "{fault}: {budget} after {events:?}");
    }
    let path = format!("/v1/runs/{}/replay", run["id"].as_str().unwrap());
    let (_, replayed) = node.post(&path, &json!({})).await;
    assert_eq!(replayed["ok"], true, "{fault}: {replayed}");
    true
}

async fn cut_everywhere(point: &str) {
    let provider = Priced::free().await;
    let template = budgeted(&provider).await;
    for nth in 1..=VISITS_MAX {
        if !cut(template.path(), &provider, point, nth).await {
            // Two questions, the call, and two slices back, at least.
            assert!(nth > 5, "{point} was met {} times only", nth - 1);
            return;
        }
    }
    panic!("{point} was still met at visit {VISITS_MAX}");
}

#[tokio::test]
async fn crash_before_each_commit_of_a_call_that_budgets_count() {
    cut_everywhere("before_commit").await;
}

#[tokio::test]
async fn crash_after_each_commit_of_a_call_that_budgets_count() {
    cut_everywhere("before_reply").await;
}

#[tokio::test]
async fn crash_before_each_effect_of_a_call_that_budgets_count() {
    cut_everywhere("after_intent").await;
}

#[tokio::test]
async fn crash_after_each_effect_of_a_call_that_budgets_count() {
    cut_everywhere("after_effect").await;
}
