//! One node as its operator meets it: keys and roles, a second process, a drill, a drain.

use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{answer, client, json as body};

async fn key(node: &Node, role: &str) -> (String, String) {
    let (status, made) = node.post("/v1/keys", &json!({"name": role, "role": role})).await;
    assert_eq!(status, 201, "{made}");
    (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

async fn with(node: &Node, key: &str, method: Method, path: &str, sent: &Value) -> (u16, Value) {
    let request = client().request(method, format!("{}{path}", node.url)).bearer_auth(key);
    answer(body(request, sent)).await
}

#[tokio::test]
async fn each_role_may_what_the_table_says_and_a_revoked_key_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    let run = json!({"input": "hello"});
    let (id, reader) = key(&node, "reader").await;
    let (_, runner) = key(&node, "runner").await;
    for (key, method, path, status) in [
        (&reader, Method::GET, "/v1/runs", 200),
        (&reader, Method::POST, "/v1/runs", 403),
        (&runner, Method::POST, "/v1/runs", 202),
        (&runner, Method::GET, "/v1/keys", 403),
        (&"nonsense".to_owned(), Method::GET, "/v1/runs", 401),
    ] {
        let (got, told) = with(&node, key, method, path, &run).await;
        assert_eq!(got, status, "{path}: {told}");
    }
    // A key outlives its node's restart; a revoked one does not come back.
    assert_eq!(answer(node.ask(Method::DELETE, &format!("/v1/keys/{id}"))).await.0, 204);
    assert_eq!(with(&node, &reader, Method::GET, "/v1/runs", &Value::Null).await.0, 401);
    node.kill();
    let node = Node::demo(folder.path()).await;
    assert_eq!(with(&node, &runner, Method::GET, "/v1/runs", &Value::Null).await.0, 200);
    assert_eq!(with(&node, &reader, Method::GET, "/v1/runs", &Value::Null).await.0, 401);
    // No secret stands anywhere in the folder.
    let journal = std::fs::read(folder.path().join("journal.db")).unwrap();
    let wal = std::fs::read(folder.path().join("journal.db-wal")).unwrap_or_default();
    for bytes in [journal, wal, node.log().into_bytes()] {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(&runner) && !text.contains(tests::ADMIN_KEY));
    }
}

#[tokio::test]
async fn without_a_key_only_health_answers() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    for (path, status) in [
        ("/health", 200),
        ("/health/ready", 200),
        ("/v1/models", 401),
        ("/metrics", 401),
        ("/nowhere", 404),
    ] {
        let got = client().get(format!("{}{path}", node.url)).send().await.unwrap();
        assert_eq!(got.status().as_u16(), status, "{path}");
        assert!(got.headers().contains_key("x-request-id"), "{path}");
    }
    let metrics = node.ask(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("piton_http_requests_total"), "{metrics}");
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_refused_with_the_first_ones_pid() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let (status, told) = Node::refused(folder.path(), &["--demo"]).await;
    assert!(!status.success());
    assert!(told.contains(&node.pid().to_string()), "{told}");
}

#[tokio::test]
async fn a_drill_needs_its_marker_file() {
    let folder = tempfile::tempdir().unwrap();
    let (status, told) =
        Node::refused(folder.path(), &["--demo", "--faults", "before_reply:1:kill"]).await;
    assert_eq!(status.code(), Some(3), "{told}");
    assert!(told.contains("FAULTS-ALLOWED"), "{told}");
}

#[tokio::test]
async fn a_drain_lets_what_is_in_flight_finish() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    let request = json!({"model": "demo", "messages": [{"role": "user", "content": "slow 20"}]});
    let asked = body(node.ask(Method::POST, "/v1/chat/completions"), &request);
    let answer = tokio::spawn(async move { answer(asked).await });
    tests::process::wait_for("the run is at work", || async {
        let (_, health) = node.get("/health/detailed").await;
        (health["actors"]["runs_live"].as_u64()? > 0).then_some(())
    })
    .await;
    let status = node.stop().await;
    assert!(status.success(), "{}", node.log());
    assert_eq!(answer.await.unwrap().0, 200, "no request fails in a drain");
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let node =
        Node::start(folder.path(), &["--demo"], &[("PITON_LIMITS_MAX_CONNECTIONS", "4")]).await;
    let address = node.url.strip_prefix("http://").unwrap().to_owned();
    let held = std::cell::RefCell::new(vec![]);
    let refused = tests::process::wait_for("somebody is refused", || async {
        // One more each time: a connection of the start may still have been counted.
        held.borrow_mut().push(std::net::TcpStream::connect(&address).unwrap());
        let got = client().get(format!("{}/health", node.url)).send().await.ok()?;
        (got.status() == 429).then_some(got)
    })
    .await;
    assert_eq!(refused.headers()["retry-after"], "1");
    drop(held);
}

#[tokio::test]
async fn one_run_too_many_is_told_when_to_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let node =
        Node::start(folder.path(), &["--demo"], &[("PITON_LIMITS_MAX_CONCURRENT_RUNS", "1")]).await;
    let request = |text: &str| json!({"model": "demo", "stream": true, "messages": [{"role": "user", "content": text}]});
    let mut first = tests::sse::Events::open(body(
        node.ask(Method::POST, "/v1/chat/completions"),
        &request("slow 40"),
    ))
    .await;
    assert!(first.next().await.is_some());
    let second = body(node.ask(Method::POST, "/v1/chat/completions"), &request("hello"))
        .send()
        .await
        .unwrap();
    assert_eq!(second.status(), 429);
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(second.headers()["x-should-retry"], "true");
    let (status, told) = node.post("/v1/runs", &json!({"input": "hello"})).await;
    assert_eq!((status, &told["error"]["code"]), (429, &json!("too_many_runs")), "{told}");
    assert!(
        first.rest().await.iter().any(|event| event.data == "[DONE]"),
        "accepted work finishes"
    );
}

/// Every row of the table is served, and every route that the sources declare has a row.
#[tokio::test]
async fn the_table_of_rights_and_the_router_name_the_same_routes() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    for row in gateway::auth::ROUTES {
        let path = row
            .path
            .replace("{id}", "run_050000000000000000000000000007")
            .replace("{*model}", "demo")
            .replace("{name}", "alone");
        let got = client()
            .request(row.method.clone(), format!("{}{path}", node.url))
            .send()
            .await
            .unwrap();
        let wanted = if row.need == gateway::auth::Need::Nothing { 200 } else { 401 };
        assert_eq!(got.status().as_u16(), wanted, "{} {path} without a key", row.method);
        let asked = answer(node.ask(row.method.clone(), &path)).await;
        assert!(
            !asked.1.to_string().contains("is not served here"),
            "{} {path}: {}",
            row.method,
            asked.1
        );
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway/src/routes");
    let mut files = vec![std::path::PathBuf::from(root)];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().split(".route(\"").skip(1) {
            let declared = line.split('"').next().unwrap();
            let known = gateway::auth::ROUTES.iter().any(|row| row.path == declared);
            assert!(known, "{declared} in {} has no row in the table", path.display());
        }
    }
}
