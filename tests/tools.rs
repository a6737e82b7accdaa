//! The tools of a node from outside: listed, shown, called by an administrator, scoped by a run's body, and named alike
//! after a restart.

use crate::nodes::piton;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{answer, client, json as body};

fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn tools_are_listed_shown_and_called_by_an_administrator_only() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("piton.toml"),
        "[tools.\"note.append\"]\napproval = \"required\"\ngates = [\"note_write\"]\n",
    )
    .unwrap();
    let node = Node::demo(folder.path()).await;
    let (status, list) = node.get("/v1/tools").await;
    assert_eq!(status, 200, "{list}");
    for name in ["clock_now", "note_append", "search_tools"] {
        assert!(names(&list).contains(&name), "{name} in {list}");
    }
    let rows = list["data"].as_array().unwrap();
    let note = rows.iter().find(|row| row["name"] == "note_append").unwrap();
    let then = json!({"tier": "approval", "gates": ["note_write"], "class": "effectful", "state": "ready", "origin": "native"});
    for (field, value) in then.as_object().unwrap() {
        assert_eq!(&note[field], value, "{field} of {note}");
    }

    // By its own name and by the one that models know.
    for name in ["note.append", "note_append"] {
        let (status, one) = node.get(&format!("/v1/tools/{name}")).await;
        assert_eq!((status, &one["parameters"]["required"]), (200, &json!(["text"])), "{one}");
    }
    let (status, none) = node.get("/api/v1/tools/nope").await;
    assert_eq!((status, &none["error"]["code"]), (404, &json!("not_found")));

    let (status, told) = node.post("/v1/tools/clock.now/test", &json!({})).await;
    assert_eq!((status, &told["outcome"]), (200, &json!("succeeded")), "{told}");
    assert!(told["content"].as_str().unwrap().starts_with(r#"{"now":""#), "{told}");
    let noted = json!({"arguments": {"text": "by hand"}});
    let (_, told) = node.post("/v1/tools/note_append/test", &noted).await;
    let written = std::fs::read_to_string(folder.path().join("notes.txt")).unwrap();
    let correlation = told["correlation_id"].as_str().unwrap();
    assert_eq!(written, format!("{correlation}\tby hand\n"));
    // What its schema does not admit is not called.
    let (status, refused) =
        node.post("/v1/tools/note_append/test", &json!({"arguments": {"text": 3}})).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("invalid_request")), "{refused}");
    assert_eq!(std::fs::read_to_string(folder.path().join("notes.txt")).unwrap(), written);
    let log = node.log();
    let (sent, ended) = (log.find("tool_test_sent"), log.find("tool_test_ended"));
    assert!(sent.is_some() && sent < ended && log.contains(correlation), "{log}");
    assert!(!log.contains("by hand"), "arguments are not in the log");

    // An operator may look and may not call.
    let (_, key) = node.post("/v1/keys", &json!({"name": "o", "role": "operator"})).await;
    let weak = |path: &str| {
        let ask = client().post(format!("{}{path}", node.url));
        body(ask.bearer_auth(key["key"].as_str().unwrap()), &json!({}))
    };
    assert_eq!(answer(weak("/v1/tools/clock.now/test")).await.0, 403);
    let (_, out, _) = piton(folder.path(), &["tools", "ls"]).await;
    assert!(out.contains("note_append") && out.contains("note_write"), "{out}");
    let (code, out, told) = piton(folder.path(), &["tools", "test", "clock.now", "--json"]).await;
    assert!(code == 0 && out.contains("\"succeeded\""), "{out}{told}");
    let (code, _, told) =
        piton(folder.path(), &["tools", "test", "note.append", "--arguments", "{"]).await;
    assert!(code == 2 && told.contains("give a JSON object"), "{told}");
}

/// The tools that a run was offered, by its journal.
async fn offered(node: &Node, asked: &Value) -> Value {
    let run = node.start_run(asked).await;
    node.ended(&run).await;
    let journal = node.journal(&run).await;
    let spec = journal.iter().find_map(|event| within(event, "server_tools"));
    spec.unwrap_or_else(|| panic!("no spec in {journal:?}")).clone()
}

/// The first field of this name, wherever it stands.
fn within<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            fields.get(name).or_else(|| fields.values().find_map(|value| within(value, name)))
        }
        Value::Array(items) => items.iter().find_map(|item| within(item, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[tokio::test]
async fn a_run_is_offered_what_its_body_says_and_a_name_means_the_same_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("piton.toml"), "[domains.d]\nservers = [\"cad\"]\n").unwrap();
    let mut node = Node::demo(folder.path()).await;
    let all = offered(&node, &json!({"input": "hello"})).await;
    let native = [
        "artifact_list",
        "artifact_read",
        "artifact_write",
        "chat_set_project_scope",
        "clock_now",
        "knowledge_search",
        "note_append",
        "project_set_description",
        "project_show",
    ];
    assert_eq!(all, json!(native), "the search only where something is left out");
    let one = offered(&node, &json!({"input": "hello", "enabled_tools": ["clock.now"]})).await;
    assert_eq!(one, json!(["clock_now"]));
    let scoped = offered(&node, &json!({"input": "hello", "domains": ["d"]})).await;
    assert_eq!(scoped, all, "native tools belong to every domain");
    for (asked, part) in [
        (json!({"input": "x", "enabled_tools": ["nope"]}), "enabled_tools: no tool is called"),
        (json!({"input": "x", "domains": ["nope"]}), "domains: no domain is called"),
        (json!({"input": "x", "domains": ["d"], "enabled_tools": []}), "give one of the two"),
    ] {
        let (status, refused) = node.post("/v1/runs", &asked).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(part), "{refused}");
    }
    assert!(node.stop().await.success());
    drop(node);
    // As an older build would have named it.
    let path = folder.path().join("tool-names.json");
    let names = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, names.replace("\"clock_now\"", "\"what_time\"")).unwrap();
    let node = Node::demo(folder.path()).await;
    let all = offered(&node, &json!({"input": "hello"})).await;
    let mut renamed = native.map(|name| if name == "clock_now" { "what_time" } else { name });
    renamed.sort_unstable();
    assert_eq!(all, json!(renamed));
}
