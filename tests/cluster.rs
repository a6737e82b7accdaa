//! Several nodes over one journal: whoever is asked, the owner decides; whoever dies, another one goes on.

use reqwest::Method;
use serde_json::json;
use tests::fleet::{Cluster, chat, said};
use tests::process::{answer, wait_for};
use tests::sse::Events;

#[tokio::test]
async fn a_run_is_found_tailed_and_stopped_through_any_node() {
    let cluster = Cluster::of(3).await;
    let [first, second, third] = &cluster.nodes[..] else { panic!() };
    let run = cluster.run_of_first("slow 400").await;
    let path = format!("/v1/runs/{run}");
    assert_eq!(second.get(&path).await.0, 200, "right after the 202");
    let mut events = Events::open(third.ask(Method::GET, &format!("{path}/events"))).await;
    assert_eq!(events.next().await.unwrap().name, "run.queued");
    let (status, stopped) = third.post(&format!("{path}/stop"), &json!({})).await;
    assert!(status < 300, "{stopped}");
    let ended = second.ended(&run).await;
    assert_eq!(ended["outcome"], "cancelled");
    let names: Vec<String> = events.rest().await.into_iter().map(|event| event.name).collect();
    assert_eq!(names.last().map(String::as_str), Some("run.cancelled"), "{names:?}");
    // The journal is the same wherever it is read.
    assert_eq!(first.events(&run).await, third.events(&run).await);
}

#[tokio::test]
async fn a_session_goes_on_through_another_node() {
    let cluster = Cluster::of(2).await;
    let [first, second] = &cluster.nodes[..] else { panic!() };
    let (status, answered) = chat(first, "talk", &json!([said("user", "hello")])).await;
    assert_eq!(status, 200, "{answered}");
    let told = answered["choices"][0]["message"]["content"].as_str().unwrap();
    let whole = json!([said("user", "hello"), said("assistant", told), said("user", "and now?")]);
    let (status, again) = chat(second, "talk", &whole).await;
    assert_eq!(status, 200, "{again}");
    let (status, other) = chat(first, "talk", &json!([said("user", "something else")])).await;
    assert_eq!((status, &other["error"]["code"]), (409, &json!("history_mismatch")));
}

#[tokio::test]
async fn what_a_killed_node_left_open_is_ended_by_another_without_a_command() {
    let mut cluster = Cluster::of(2).await;
    let run = cluster.run_of_first("slow 200").await;
    let path = format!("/v1/runs/{run}/events");
    let mut events = Events::open(cluster.nodes[1].ask(Method::GET, &path)).await;
    while events.next().await.unwrap().name != "model.asked" {}
    cluster.nodes[0].kill();
    // Nobody asks for anything: the reader only listens.
    let names: Vec<String> = events.rest().await.into_iter().map(|event| event.name).collect();
    for name in ["model.unknown", "message.discarded", "run.completed"] {
        assert!(names.iter().any(|one| one == name), "{name} in {names:?}");
    }
    let ended = cluster.nodes[1].ended(&run).await;
    assert_eq!((&ended["outcome"], &ended["model_calls"]), (&json!("completed"), &json!(2)));
}

#[tokio::test]
async fn a_node_that_stops_hands_over_and_no_request_fails() {
    let mut cluster = Cluster::of(2).await;
    for turn in 0..4 {
        let asked = json!([said("user", &format!("turn {turn}"))]);
        let name = format!("s{turn}");
        assert_eq!(chat(&cluster.nodes[1], &name, &asked).await.0, 200);
    }
    let mut leaving = cluster.nodes.remove(0);
    let staying = &cluster.nodes[0];
    let asks = async {
        let mut answered = 0;
        loop {
            let name = format!("new-{answered}");
            let (status, got) = chat(staying, &name, &json!([said("user", "hello")])).await;
            assert_eq!(status, 200, "{got}");
            answered += 1;
            let (_, list) = staying.get("/v1/nodes").await;
            if list["count"] == 1 && staying.get("/health/ready").await.0 == 200 {
                return answered;
            }
        }
    };
    let (status, answered) = tokio::join!(leaving.stop(), asks);
    assert!(status.success(), "{}", leaving.log());
    assert!(answered > 0);
    // What the other node owned is served here, with its past.
    wait_for("it serves all", || async {
        let (_, list) = staying.get("/v1/nodes").await;
        (list["data"][0]["serves"] == 64).then_some(())
    })
    .await;
    let (status, other) = chat(staying, "s0", &json!([said("user", "another past")])).await;
    assert_eq!((status, &other["error"]["code"]), (409, &json!("history_mismatch")));
}

#[tokio::test]
async fn a_key_is_known_and_forgotten_at_every_node() {
    let cluster = Cluster::of(2).await;
    let [first, second] = &cluster.nodes[..] else { panic!() };
    let (status, issued) = first.post("/v1/keys", &json!({"name": "ci", "role": "reader"})).await;
    assert_eq!(status, 201, "{issued}");
    let (id, key) = (issued["id"].as_str().unwrap(), issued["key"].as_str().unwrap());
    let seen = async || {
        let request = tests::process::client().get(format!("{}/v1/runs", second.url));
        answer(request.bearer_auth(key)).await.0
    };
    wait_for("the other node knows the key", async || (seen().await == 200).then_some(())).await;
    let gone = first.ask(Method::DELETE, &format!("/v1/keys/{id}"));
    assert!(answer(gone).await.0 < 300);
    wait_for("the other node forgets it", async || (seen().await == 401).then_some(())).await;
}

#[tokio::test]
async fn an_approval_is_answered_through_another_node_and_the_write_happens_once() {
    let rules = tempfile::tempdir().unwrap();
    let file = rules.path().join("piton.toml");
    std::fs::write(&file, "[tools.\"note.append\"]\napproval = \"required\"\n").unwrap();
    let told = vec![("PITON_CONFIG", file.display().to_string())];
    let mut cluster = Cluster::of_told(2, told).await;
    let run = cluster.run_of_first("note: rope").await;
    let held = async |node: &tests::Node| {
        let (_, found) = node.get(&format!("/v1/runs/{run}")).await;
        found["approvals"][0]["approval_id"].as_str().map(str::to_owned)
    };
    let approval = wait_for("the other node shows the hold", || held(&cluster.nodes[1])).await;
    let answers = format!("/v1/approvals/{approval}");
    let (status, shown) = cluster.nodes[1].get(&answers).await;
    assert_eq!((status, &shown["status"]), (200, &json!("waiting")), "{shown}");
    let mut events =
        Events::open(cluster.nodes[0].ask(Method::GET, &format!("/v1/runs/{run}/events"))).await;
    let (status, told) =
        cluster.nodes[1].post(&format!("{answers}/approve"), &json!({"reach": "call"})).await;
    assert_eq!((status, &told["status"]), (200, &json!("approved")), "{told}");
    let mut names = vec![];
    while let Some(event) = events.next().await {
        names.push(event.name);
    }
    for name in ["tool.approval_requested", "tool.approval_resolved", "tool.completed"] {
        assert!(names.iter().any(|one| one == name), "{name} in {names:?}");
    }
    assert_eq!(cluster.nodes[1].ended(&run).await["outcome"], "completed");
    let (status, late) = cluster.nodes[0].post(&format!("{answers}/deny"), &json!({})).await;
    assert_eq!((status, &late["error"]["code"]), (409, &json!("approval_conflict")), "{late}");
    let notes = |nth: usize| {
        let path: std::path::PathBuf = cluster.folders[nth].path().join("notes.txt");
        std::fs::read_to_string(path).unwrap_or_default().lines().count()
    };
    assert_eq!(notes(0) + notes(1), 1, "once, at whichever node owns the run");

    // Held when its owner dies: another node owns it, and takes the answer.
    let run = cluster.run_of_first("note: more rope").await;
    let held = async |node: &tests::Node| {
        let (_, found) = node.get(&format!("/v1/runs/{run}")).await;
        found["approvals"][0]["approval_id"].as_str().map(str::to_owned)
    };
    let approval = wait_for("the other node shows the hold", || held(&cluster.nodes[1])).await;
    cluster.nodes[0].kill();
    let approve = format!("/v1/approvals/{approval}/approve");
    wait_for("another node takes the answer", async || {
        let (status, _) = cluster.nodes[1].post(&approve, &json!({})).await;
        (status == 200).then_some(())
    })
    .await;
    assert_eq!(cluster.nodes[1].ended(&run).await["outcome"], "completed");
    assert_eq!(notes(1), 1 + usize::from(notes(0) == 0));
}
