//! A client of embeddings at the door: vectors pass through unchanged, once paid for, counted, bounded by budgets, and
//! never of another model.

use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{answer, json as body};
use tests::upstream::{Upstream, response};

const EMBEDDINGS: &str = "/v1/embeddings";

fn asked(model: &str, input: impl Into<Value>) -> Value {
    json!({"model": model, "input": input.into()})
}

#[tokio::test]
async fn the_demo_has_a_vector_for_each_text_and_the_same_one_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let sent =
        body(node.ask(Method::POST, EMBEDDINGS), &asked("demo", json!(["one two", "three"])));
    let got = sent.send().await.unwrap();
    assert_eq!(
        (got.status().as_u16(), &got.headers()["x-piton-served-by"]),
        (200, &"demo:demo".parse().unwrap())
    );
    let run = got.headers()["x-piton-run-id"].to_str().unwrap().to_owned();
    let got: Value = serde_json::from_str(&got.text().await.unwrap()).unwrap();
    assert_eq!((&got["object"], &got["model"]), (&json!("list"), &json!("demo")));
    assert_eq!(got["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
    let vector = |got: &Value, place: usize| got["data"][place]["embedding"].clone();
    assert_eq!(vector(&got, 0).as_array().unwrap().len(), 16);
    assert_ne!(vector(&got, 0), vector(&got, 1));
    let (_, alone) = node.post(EMBEDDINGS, &asked("demo", "three")).await;
    assert_eq!((vector(&alone, 0), &alone["data"][0]["index"]), (vector(&got, 1), &json!(0)));
    // What the client wants of it is passed on.
    let packed = json!({"model": "demo", "input": [[1, 2, 3]], "encoding_format": "base64", "dimensions": 3});
    let (_, packed) = node.post(EMBEDDINGS, &packed).await;
    assert_eq!(packed["data"][0]["embedding"].as_str().unwrap().len(), 16, "{packed}");
    assert_eq!(packed["usage"]["prompt_tokens"], 3);
    // It is a run of one call, and its use is in every sum.
    let names = node.events(&run).await;
    assert_eq!(names, ["queued", "started", "model_asked", "model_answered", "finished"]);
    let (_, shown) = node.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (&shown["role"], &shown["usage"]["prompt_tokens"]),
        (&json!("embedding"), &json!(3)),
        "{shown}"
    );
    assert_eq!(shown["usage"]["completion_tokens"], 0);
    let (_, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!(replayed["ok"], true, "{replayed}");
    for (request, status, part) in [
        (asked("demo", ""), 400, "input"),
        (json!({"model": "demo"}), 400, "input"),
        // Nobody stands in for the model that was asked for.
        (asked("text-embedding-3-small", "x"), 400, "vectors of two models"),
        (asked("openai:text-embedding-3-small", "x"), 503, "openai"),
    ] {
        let (told_status, told) = node.post(EMBEDDINGS, &request).await;
        assert_eq!(told_status, status, "{told}");
        assert!(told["error"]["message"].as_str().unwrap().contains(part), "{told}");
    }
    let in_session = node.ask(Method::POST, EMBEDDINGS).header("x-piton-session-id", "s");
    assert_eq!(answer(body(in_session, &asked("demo", "x"))).await.0, 400);
}

/// What a provider answers to one text: numbers that no parser of doubles prints again as they are.
const VECTOR: &str =
    r#"[{"object":"embedding","index":0,"embedding":[0.10,-1e-9,0.0123456789012345678]}]"#;

fn says() -> String {
    let body = format!(
        r#"{{"object":"list","data":{VECTOR},"model":"text-embedding-3-small","usage":{{"prompt_tokens":50000,"total_tokens":50000}}}}"#
    );
    response("200 OK", "application/json", &body)
}

#[tokio::test]
async fn vectors_pass_through_byte_for_byte_and_are_paid_for_once_by_the_table_within_the_budget() {
    let upstream = Upstream::start(vec![says()]).await;
    let folder = tempfile::tempdir().unwrap();
    let base = format!("{}/v1", upstream.url);
    let variables = [("OPENAI_API_KEY", "sk-x"), ("PITON_OPENAI_BASE_URL", base.as_str())];
    let mut node = Node::start(folder.path(), &[], &variables).await;
    let scope = json!({"usd": 0.001});
    let set = body(node.ask(Method::PUT, "/v1/budgets/all"), &scope);
    assert!(answer(set).await.0 < 300);
    tests::process::wait_for("the node knows the budget", || async {
        (node.get("/v1/budgets").await.1["count"] == 1).then_some(())
    })
    .await;
    let request = asked("openai:text-embedding-3-small", "a text");
    let send = async |node: &Node| {
        let sent = node.ask(Method::POST, EMBEDDINGS).header("idempotency-key", "k");
        body(sent, &request).send().await.unwrap()
    };
    let first = send(&node).await;
    assert_eq!(first.status(), 200);
    // 50,000 tokens at 0.02 USD a million.
    assert_eq!(first.headers()["x-piton-cost-usd"], "0.001");
    let first = first.text().await.unwrap();
    assert!(first.contains(VECTOR), "{first}");
    // The repeat is answered from the journal, also after a kill; the provider's script has one answer.
    node.kill();
    let node = Node::start(folder.path(), &[], &variables).await;
    let again = send(&node).await;
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(again.text().await.unwrap(), first);
    let sent = upstream.asked();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].head.starts_with("post /v1/embeddings "), "{}", sent[0].head);
    assert_eq!(sent[0].body, r#"{"input":["a text"],"model":"text-embedding-3-small"}"#);
    let (_, usage) = node.get("/v1/usage?window_hours=1").await;
    let role = usage["by_role"].as_array().unwrap().iter().find(|row| row["name"] == "embedding");
    assert_eq!(role.unwrap()["cost_usd"], 0.001, "{usage}");
    // What is spent is spent: the next one is not sent.
    tests::process::wait_for("the budget knows what was used", || async {
        (node.get("/v1/budgets/all").await.1["spent"]["usd"] == 0.001).then_some(())
    })
    .await;
    let (status, refused) = node.post(EMBEDDINGS, &request).await;
    assert_eq!((status, &refused["error"]["code"]), (402, &json!("budget_exceeded")), "{refused}");
    assert_eq!(upstream.asked().len(), 1);
}

#[tokio::test]
async fn nobody_stands_in_for_the_model_and_a_family_without_the_api_says_so() {
    let broken = || {
        response("500 Internal Server Error", "application/json", r#"{"error":{"message":"no"}}"#)
    };
    let upstream = Upstream::start((0..9).map(|_| broken()).collect()).await;
    let folder = tempfile::tempdir().unwrap();
    let base = format!("{}/v1", upstream.url);
    let variables = [
        ("OPENAI_API_KEY", "sk-x"),
        ("PITON_OPENAI_BASE_URL", base.as_str()),
        ("ANTHROPIC_API_KEY", "sk-ant-x"),
        ("PITON_ANTHROPIC_BASE_URL", upstream.url.as_str()),
        ("PITON_FALLBACK_PROVIDERS", "openai:gpt-x"),
    ];
    let node = Node::start(folder.path(), &[], &variables).await;
    let (status, told) = node.post(EMBEDDINGS, &asked("openai:text-embedding-3-small", "x")).await;
    assert_eq!((status, &told["error"]["code"]), (502, &json!("providers_exhausted")), "{told}");
    let sent = upstream.asked();
    assert!(sent.iter().all(|asked| asked.body.contains("text-embedding-3-small")), "{sent:?}");
    let (status, told) = node.post(EMBEDDINGS, &asked("anthropic:claude-x", "x")).await;
    assert_eq!(status, 400, "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("no embeddings"), "{told}");
    assert_eq!(upstream.asked().len(), sent.len(), "nothing left");
}
