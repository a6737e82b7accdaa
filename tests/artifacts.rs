//! Artifacts of a project: written by people and runs, every version kept, shown as files that a person may change, and
//! found by their words.

use reqwest::Method;
use serde_json::{Value, json};
use std::path::PathBuf;
use tests::Node;
use tests::process::{answer, json as body, wait_for};

async fn node() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    (folder, node)
}

async fn put(node: &Node, path: &str, put: Value) -> (u16, Value) {
    answer(body(node.ask(Method::PUT, path), &put)).await
}

/// What a tool of a run of this project answered.
async fn tool(node: &Node, project: &str, name: &str, arguments: &Value) -> Value {
    tool_in(node, json!({ "project_id": project }), name, arguments).await
}

/// What a tool of a run answered that is started with these fields.
async fn tool_in(node: &Node, mut asked: Value, name: &str, arguments: &Value) -> Value {
    asked["input"] = json!(format!("tool {name} {arguments}"));
    asked["enabled_tools"] = json!([name]);
    let run = node.start_run(&asked).await;
    let ended = node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let journal = node.journal(&run).await;
    let entries = journal.iter().flat_map(|commit| commit["entries"].as_array().unwrap());
    let receipt = entries.rev().find(|entry| entry["name"] == "tool_receipt");
    let content = receipt.expect("a receipt")["data"]["content"].as_str().unwrap().to_owned();
    serde_json::from_str(&content).unwrap()
}

/// Waits for a file that says this below its head.
async fn shows(path: PathBuf, content: &str) -> String {
    let end = format!("\n---\n{content}");
    wait_for("the file shows the version", || async {
        std::fs::read_to_string(&path).ok().filter(|page| page.ends_with(&end))
    })
    .await
}

#[tokio::test]
async fn each_write_is_a_version_that_stays_and_says_who_made_it() {
    let (_folder, node) = node().await;
    let plan = "/v1/artifacts/lab/plan";
    let (status, first) = put(&node, plan, json!({"content": "one"})).await;
    assert_eq!((status, &first["version"], &first["source"]), (200, &json!(1), &json!("caller")));
    let again = put(&node, plan, json!({"content": "one"})).await.1;
    assert_eq!(again["version"], 1, "the same text is no version");
    assert_eq!(put(&node, plan, json!({"content": "two", "over_version": 1})).await.0, 200);
    let (status, told) = put(&node, plan, json!({"content": "mine", "over_version": 1})).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("artifact_moved")), "{told}");

    let newest = node.get(plan).await.1;
    assert_eq!((&newest["content"], &newest["version"]), (&json!("two"), &json!(2)));
    assert_eq!(newest["versions"].as_array().unwrap().len(), 2);
    let old = node.get("/v1/artifacts/lab/plan?version=1").await.1;
    assert_eq!((&old["content"], &old["hash"]), (&json!("one"), &first["hash"]));
    let list = node.get("/v1/artifacts?project=lab").await.1;
    assert_eq!((&list["count"], &list["data"][0]["version"]), (&json!(1), &json!(2)));
    for (path, status) in [
        ("/v1/artifacts/lab/none", 404),
        ("/v1/artifacts/lab/plan?version=9", 404),
        ("/v1/artifacts/other/plan", 404),
        ("/v1/artifacts/lab/..%2Fplan", 400),
    ] {
        assert_eq!(node.get(path).await.0, status, "{path}");
    }
    let (status, lab) = put(&node, "/v1/projects/lab", json!({"description": "ropes"})).await;
    assert_eq!((status, &lab["description"], &lab["artifacts"]), (200, &json!("ropes"), &json!(1)));
}

#[tokio::test]
async fn runs_read_and_find_what_their_project_has_and_no_other() {
    let (_folder, node) = node().await;
    put(&node, "/v1/artifacts/lab/plan", json!({"content": "Sixty metres of rope."})).await;
    put(&node, "/v1/artifacts/other/plan", json!({"content": "Another rope."})).await;
    let read = tool(&node, "lab", "artifact_read", &json!({"name": "plan"})).await;
    assert_eq!((&read["content"], &read["chars"]), (&json!("Sixty metres of rope."), &json!(21)));
    let list = tool(&node, "lab", "artifact_list", &json!({})).await;
    assert_eq!((&list["count"], &list["artifacts"][0]["name"]), (&json!(1), &json!("plan")));
    let missing = tool(&node, "lab", "artifact_read", &json!({"name": "gone"})).await;
    assert!(missing["message"].as_str().unwrap().contains("it has plan"), "{missing}");
    let shown = tool(&node, "lab", "project_show", &json!({})).await;
    assert_eq!((&shown["id"], &shown["artifacts"]), (&json!("lab"), &json!(1)));

    let found = wait_for("the artifacts are found", || async {
        let found = node.get("/v1/search?q=rope").await.1;
        (found["count"] == 2).then_some(found)
    })
    .await;
    assert!(found["position"].is_string(), "{found}");
    let found = node.get("/v1/search?q=rope&project=lab&kind=artifact").await.1;
    assert_eq!(
        (&found["count"], &found["data"][0]["artifact"], &found["data"][0]["snippet"]),
        (&json!(1), &json!("plan"), &json!("plan\nSixty metres of **rope**."))
    );
    let searched = tool(&node, "lab", "knowledge_search", &json!({"query": "rope"})).await;
    assert_eq!(searched["results"].as_array().unwrap().len(), 1, "{searched}");
    assert_eq!(searched["results"][0]["project"], "lab");
    for bad in ["/v1/search?q=%20", "/v1/search?q=a&kind=x", "/v1/search"] {
        assert_eq!(node.get(bad).await.0, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_conversation_is_about_the_project_that_it_says_from_the_next_run_on() {
    let (_folder, node) = node().await;
    put(&node, "/v1/artifacts/lab/plan", json!({"content": "A rope."})).await;
    let asked = json!({"model": "demo", "messages": [{"role": "user", "content": "hello"}]});
    let chat = body(node.ask(Method::POST, "/v1/chat/completions"), &asked);
    let said = chat.header("x-piton-session-id", "talk").send().await.unwrap();
    let session = said.headers()["x-piton-session-id"].to_str().unwrap().to_owned();
    let within = || json!({ "session_id": session });
    let before = tool_in(&node, within(), "artifact_read", &json!({"name": "plan"})).await;
    assert!(before["message"].as_str().unwrap().contains("none yet"), "{before}");
    let scope = json!({"project": "lab"});
    let set = tool_in(&node, within(), "chat_set_project_scope", &scope).await;
    assert_eq!((&set["status"], &set["project"]), (&json!("ok"), &json!("lab")));
    assert_eq!(node.get(&format!("/v1/sessions/{session}")).await.1["project_scope"], "lab");
    let after = tool_in(&node, within(), "artifact_read", &json!({"name": "plan"})).await;
    assert_eq!(after["content"], "A rope.", "{after}");
    let alone = tool_in(&node, json!({}), "chat_set_project_scope", &scope).await;
    assert!(alone["message"].as_str().unwrap().contains("no conversation"), "{alone}");
}

#[tokio::test]
async fn what_a_run_found_is_read_again_and_not_searched_again() {
    let (_folder, node) = node().await;
    put(&node, "/v1/artifacts/lab/plan", json!({"content": "A rope."})).await;
    wait_for("the artifact is found", || async {
        (node.get("/v1/search?q=rope&project=lab").await.1["count"] == 1).then_some(())
    })
    .await;
    let asked = json!({"input": "tool knowledge_search {\"query\": \"rope\"}", "project_id": "lab",
        "enabled_tools": ["knowledge_search"]});
    let run = node.start_run(&asked).await;
    node.ended(&run).await;
    put(&node, "/v1/artifacts/lab/plan", json!({"content": "Nothing of the kind."})).await;
    let (status, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!((status, &replayed["ok"]), (200, &json!(true)), "{replayed}");
}

#[tokio::test]
async fn a_file_that_a_person_changes_becomes_a_version_and_is_never_written_over() {
    let (folder, mut node) = node().await;
    let file = folder.path().join("artifacts/lab/plan.md");
    put(&node, "/v1/artifacts/lab/plan", json!({"content": "one\n"})).await;
    let page = shows(file.clone(), "one\n").await;
    assert!(
        page.starts_with("---\nproject: \"lab\"\n") && page.contains("source: \"caller\""),
        "{page}"
    );

    std::fs::write(&file, page.replace("one", "mine")).unwrap();
    let taken = wait_for("the change is a version", || async {
        let newest = node.get("/v1/artifacts/lab/plan").await.1;
        (newest["version"] == 2).then_some(newest)
    })
    .await;
    assert_eq!((&taken["content"], &taken["source"]), (&json!("mine\n"), &json!("hand")));
    let page = shows(file.clone(), "mine\n").await;
    wait_for("the head says so", || async {
        let page = std::fs::read_to_string(&file).unwrap();
        (page.contains("version: \"2\"") && page.contains("source: \"hand\"")).then_some(())
    })
    .await;

    // Somebody writes while the person's words are not in the journal yet: both stay, and the file is the person's.
    std::fs::write(&file, page.replace("mine", "mine again")).unwrap();
    put(&node, "/v1/artifacts/lab/plan", json!({"content": "theirs\n"})).await;
    wait_for("both are versions", || async {
        let all = node.get("/v1/artifacts/lab/plan").await.1;
        let said = |number: u64| format!("/v1/artifacts/lab/plan?version={number}");
        let mut texts = vec![];
        for number in 3..=all["version"].as_u64().unwrap_or_default() {
            texts.push(node.get(&said(number)).await.1["content"].clone());
        }
        (texts.contains(&json!("theirs\n")) && texts.contains(&json!("mine again\n"))).then_some(())
    })
    .await;

    // A new file is a new artifact; and all of it holds over a restart.
    std::fs::write(folder.path().join("artifacts/lab/notes.md"), "by hand").unwrap();
    wait_for("the new file is an artifact", || async {
        (node.get("/v1/artifacts/lab/notes").await.1["content"] == "by hand").then_some(())
    })
    .await;
    node.stop().await;
    let node = Node::demo(folder.path()).await;
    put(&node, "/v1/artifacts/lab/notes", json!({"content": "after"})).await;
    shows(folder.path().join("artifacts/lab/notes.md"), "after").await;
}
