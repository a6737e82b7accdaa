//! A server, two shells and runs at once: the command line as a client of the node.

use serde_json::Value;
use std::path::Path;
use std::process::Output;
use tests::Node;
use tests::process::{command, wait_for};

/// One command of a shell, to its end.
async fn shell(data: &Path, words: &[&str]) -> Output {
    let mut command = command(data);
    command.args(words);
    tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("it ends")
}

async fn says(data: &Path, words: &[&str]) -> String {
    let output = shell(data, words).await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn two_shells_work_beside_a_server_and_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let node = Node::demo(data).await;
    let one = async {
        let started = json(&says(data, &["run", "start", "--json", "slow 40"]).await);
        let run = started["run_id"].as_str().unwrap().to_owned();
        let tailed = says(data, &["run", "tail", &run]).await;
        (run, tailed)
    };
    let other = async {
        let answer = says(data, &["chat", "--once", "hello from a shell"]).await;
        let listed = says(data, &["run", "ls", "--json"]).await;
        (answer, json(&listed))
    };
    let third = async {
        for _ in 0..5 {
            node.start_run(&serde_json::json!({"input": "both: rope"})).await;
        }
    };
    let ((run, tailed), (answer, listed), ()) = tokio::join!(one, other, third);
    assert!(tailed.contains("run.completed"), "{tailed}");
    // What was told while it happened and what is stored have the same names.
    let stored = says(data, &["run", "events", &run, "--output", "jsonl"]).await;
    let stored: Vec<String> =
        stored.lines().map(|line| json(line)["event"].as_str().unwrap().to_owned()).collect();
    assert_eq!(stored.first().map(String::as_str), Some("run.queued"));
    for event in stored {
        assert!(tailed.contains(&event), "{event} in {tailed}");
    }
    assert!(answer.contains("hello from a shell"), "{answer}");
    assert!(listed["data"].is_array(), "{listed}");
    let report = json(&says(data, &["run", "replay", &run, "--check", "--json"]).await);
    assert_eq!(report["ok"], true);
    assert!(says(data, &["run", "show", &run]).await.contains("completed"));
    assert!(says(data, &["run", "export", &run]).await.contains("\"finished\""));
    assert!(says(data, &["usage"]).await.contains("lower_bound"));
    assert_eq!(json(&says(data, &["journal", "stats", "--json"]).await)["restores"], 0);
    // Beside a running owner.
    assert_eq!(json(&says(data, &["journal", "verify", "--json"]).await)["ok"], true);
}

#[tokio::test]
async fn what_goes_wrong_has_its_exit_code_and_says_how_to_mend_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let code = async |words: &[&str]| {
        let output = shell(data, words).await;
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (nobody, told) = code(&["run", "ls"]).await;
    // A chat that finds no node starts one of its own and says so; without a model it says what to set.
    let (alone, said) = code(&["chat", "--once", "hello"]).await;
    assert_eq!(alone, Some(3), "{said}");
    assert!(said.contains("starts one of its own") && said.contains("OPENAI_API_KEY"), "{said}");
    assert_eq!(nobody, Some(1));
    assert!(told.contains("piton serve"), "{told}");
    assert_eq!(code(&["run", "sow"]).await.0, Some(2));
    let _node = Node::demo(data).await;
    assert_eq!(code(&["run", "show", "run_050000000000000000000000000007"]).await.0, Some(5));
    assert_eq!(code(&["run", "show", "nonsense"]).await.0, Some(2));
    assert_eq!(code(&["run", "start", "--model", "openai:gpt-x", "hi"]).await.0, Some(3));
}

#[tokio::test]
async fn a_backup_is_verified_and_restores_into_another_folder() {
    let (folder, fresh, copies) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let node = Node::demo(folder.path()).await;
    let run = node.start_run(&serde_json::json!({"input": "both: rope"})).await;
    node.ended(&run).await;
    let copy = copies.path().join("copy.db");
    let copy = copy.to_str().unwrap();
    says(folder.path(), &["journal", "backup", copy]).await;
    drop(node);
    says(fresh.path(), &["journal", "restore", copy]).await;
    let node = Node::demo(fresh.path()).await;
    assert_eq!(node.get("/v1/journal/stats").await.1["restores"], 1);
    let (status, found) = node.get(&format!("/v1/runs/{run}")).await;
    assert_eq!((status, &found["outcome"]), (200, &Value::from("completed")));
    wait_for("the read models are built again", || async {
        let (_, list) = node.get("/v1/runs").await;
        (list["count"] == 1).then_some(())
    })
    .await;
}
