//! Killed at every fault point of a turn, started again and sent nothing: every run ends, nothing effectful happens
//! twice, and what nobody knows is said.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tests::Node;

/// More visits than any turn of these stories makes.
const VISITS_MAX: u32 = 40;

/// Lines of the note by correlation: how often each effect happened.
fn effects(data: &Path) -> BTreeMap<String, u32> {
    let mut effects = BTreeMap::new();
    for line in std::fs::read_to_string(data.join("notes.txt")).unwrap_or_default().lines() {
        let (correlation, _) = line.split_once('\t').expect("a correlation and a text");
        *effects.entry(correlation.to_owned()).or_default() += 1;
    }
    effects
}

async fn crash(point: &str, nth: u32, asked_for: &Value) -> bool {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("FAULTS-ALLOWED"), "").unwrap();
    let fault = format!("{point}:{nth}:kill");
    let mut node = Node::start(folder.path(), &["--demo", "--faults", &fault], &[]).await;
    // The run's id is known before the answer is, so that it is found even if the answer was lost.
    let asked = node.ask(reqwest::Method::POST, "/v1/runs").header("idempotency-key", "story");
    let sent = tests::process::json(asked, asked_for).send().await;
    let accepted = sent.is_ok_and(|answer| answer.status() == 202);
    let died = tests::process::wait_for("it dies, or the run ends", || {
        let fault_never_came = async { ended(&node).await };
        let url = node.url.clone();
        async move {
            match tests::process::client().get(format!("{url}/health")).send().await {
                Err(_) => Some(true),
                Ok(_) => fault_never_came.await.then_some(false),
            }
        }
    })
    .await;
    if !died {
        return false;
    }
    node.died().await;
    check(folder.path(), accepted, &fault).await;
    true
}

async fn ended(node: &Node) -> bool {
    let request = node.ask(reqwest::Method::GET, "/v1/runs");
    let Ok(answer) = request.send().await else { return false };
    let Ok(text) = answer.text().await else { return false };
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    list["data"].as_array().is_some_and(|runs| runs.iter().any(|run| run["outcome"].is_string()))
}

/// Started again without the fault, and without a command.
async fn check(data: &Path, accepted: bool, fault: &str) {
    let node = Node::demo(data).await;
    let found = tests::process::wait_for(
        &format!("{fault}: what was accepted is listed and ends"),
        || async {
            let (_, list) = node.get("/v1/runs").await;
            let runs = list["data"].as_array()?.clone();
            match runs.first() {
                None if !accepted && caught_up(&node).await => Some(None),
                None => None,
                Some(run) => {
                    let id = run["id"].as_str()?.to_owned();
                    let (_, found) = node.get(&format!("/v1/runs/{id}")).await;
                    found["outcome"].is_string().then_some(Some(found))
                }
            }
        },
    )
    .await;
    let effects = effects(data);
    assert!(
        effects.values().all(|times| *times == 1),
        "{fault}: an effect happened twice: {effects:?}"
    );
    let Some(run) = found else { return };
    let id = run["id"].as_str().unwrap();
    assert_eq!(run["outcome"], "completed", "{fault}: {run}");
    truth(&node, id, &effects, fault).await;
    if let Some(session) = run["session_id"].as_str() {
        handed_over(&node, session, id, fault).await;
    }
}

/// The session has taken the run's end, once, and is free.
async fn handed_over(node: &Node, session: &str, run: &str, fault: &str) {
    tests::process::wait_for(&format!("{fault}: the session is free"), || async {
        let (_, found) = node.get(&format!("/v1/sessions/{session}")).await;
        (found["running"].is_null() && found["waiting"] == json!([])).then_some(())
    })
    .await;
    let (_, said) = node.get(&format!("/v1/sessions/{session}/messages")).await;
    let (_, ended) = node.get(&format!("/v1/runs/{run}")).await;
    let said = said["data"].as_array().unwrap();
    // The question, the calls, two results, the answer.
    assert_eq!(said.len(), 5, "{fault}: {said:?}");
    let last = said.last().unwrap()["parts"][0]["text"].as_str().unwrap();
    assert_eq!(ended["output"], last, "{fault}");
}

async fn caught_up(node: &Node) -> bool {
    let (_, health) = node.get("/health/detailed").await;
    health["projections"].as_array().is_some_and(|all| all.iter().all(|one| one["lag"] == 0))
}

/// The journal says what happened: lost calls are unknown and bounded, intents all end, decisions replay.
async fn truth(node: &Node, id: &str, effects: &BTreeMap<String, u32>, fault: &str) {
    let events = node.events(id).await;
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    let settled = count("model_answered") + count("model_failed") + count("model_unknown");
    assert_eq!(count("model_asked"), settled, "{fault}: {events:?}");
    assert_eq!(
        count("tool_intent"),
        count("tool_receipt") + count("tool_unknown"),
        "{fault}: {events:?}"
    );
    // What happened is told as a receipt or as unknown, never as neither.
    assert!(effects.len() <= count("tool_intent"), "{fault}: {effects:?} {events:?}");
    let (_, run) = node.get(&format!("/v1/runs/{id}")).await;
    let unknown = u64::try_from(count("model_unknown")).unwrap();
    assert_eq!(run["usage"]["calls_unknown"], unknown, "{fault}: {run}");
    assert_eq!(
        run["usage"]["lower_bound"], true,
        "{fault}: the demo has no price, so its sum is a lower bound"
    );
    for path in ["verify", "replay"] {
        let path = format!("/v1/runs/{id}/{path}");
        let (status, report) = if path.ends_with("replay") {
            node.post(&path, &json!({})).await
        } else {
            node.get(&path).await
        };
        assert_eq!((status, &report["ok"]), (200, &json!(true)), "{fault}: {report}");
    }
}

async fn crash_everywhere(point: &str, asked: &Value) {
    for nth in 1..=VISITS_MAX {
        if !crash(point, nth, asked).await {
            assert!(nth > 2, "{point} was never met");
            return;
        }
    }
    panic!("{point} was still met at visit {VISITS_MAX}");
}

/// A turn with two tools, one of them effectful.
fn alone() -> Value {
    json!({"input": "both: hello"})
}

/// The same in a session: its commits lead and follow the run's.
fn in_a_session() -> Value {
    json!({"input": "both: hello", "session_id": "ses_050000000000000000000000000007"})
}

#[tokio::test]
async fn crash_before_each_commit_of_a_turn_with_tools() {
    crash_everywhere("before_commit", &alone()).await;
}

#[tokio::test]
async fn crash_after_each_commit_of_a_turn_with_tools() {
    crash_everywhere("before_reply", &alone()).await;
}

#[tokio::test]
async fn crash_before_each_effect_of_a_turn_with_tools() {
    crash_everywhere("after_intent", &alone()).await;
}

#[tokio::test]
async fn crash_after_each_effect_of_a_turn_with_tools() {
    crash_everywhere("after_effect", &alone()).await;
}

/// Between each pair of adjacent events a commit lies, before it or after it; these lie around intents and outcomes.
#[tokio::test]
async fn crash_around_each_intent_first_byte_and_outcome_of_a_turn_with_tools() {
    let around = [
        "before_intent",
        "before_first_byte",
        "after_first_byte",
        "before_outcome",
        "after_outcome",
    ];
    for point in around {
        crash_everywhere(point, &alone()).await;
    }
}

#[tokio::test]
async fn crash_before_each_commit_of_a_hand_over() {
    crash_everywhere("before_commit", &in_a_session()).await;
}

#[tokio::test]
async fn crash_after_each_commit_of_a_hand_over() {
    crash_everywhere("before_reply", &in_a_session()).await;
}
