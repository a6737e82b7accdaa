//! An evaluator is not served by whom it judges: by what really served the generator of its session, and not by what was
//! meant to.

use crate::keyed::Upstream;
use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::fleet::said;
use tests::process::{json as body, wait_for};

/// A node that knows the upstream as two providers, of which vllm has no key. The evaluator's route is another provider
/// than the generator's; behind both stand the two of them.
struct Two {
    upstream: Upstream,
    node: Node,
    _folder: tempfile::TempDir,
}

/// An answer's head and body.
struct Got {
    status: u16,
    run: String,
    served_by: String,
    warning: String,
    body: Value,
}

impl Two {
    async fn start(more: &[(&str, &str)]) -> Self {
        let (upstream, folder) = (Upstream::start().await, tempfile::tempdir().unwrap());
        let url = upstream.url();
        let told = [
            ("PITON_VLLM_BASE_URL", url.as_str()),
            ("PITON_OPENAI_BASE_URL", url.as_str()),
            ("OPENAI_API_KEY", "sk-planted"),
            ("PITON_ROUTE_GENERATOR", "vllm:g"),
            ("PITON_ROUTE_EVALUATOR", "openai:e"),
            ("PITON_FALLBACK_PROVIDERS", "vllm:both,openai:both"),
            ("PITON_RETRY_API_MAX_RETRIES", "0"),
            ("PITON_LOG_FORMAT", "json"),
        ];
        let node = Node::start(folder.path(), &[], &[&told, more].concat()).await;
        Self { upstream, node, _folder: folder }
    }

    /// One turn of a session in a role, over what was said before.
    async fn turn(&self, session: &str, role: &str, messages: &Value) -> Got {
        let request = self.node.ask(Method::POST, "/v1/chat/completions");
        let request = request.header("x-piton-session-id", session);
        let asked = json!({"model": format!("role:{role}"), "messages": messages});
        let got = body(request, &asked).send().await.unwrap();
        let head = |name: &str| {
            got.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let (run, served_by) = (head("x-piton-run-id"), head("x-piton-served-by"));
        let (status, warning) = (got.status().as_u16(), head("x-piton-warning"));
        let body = serde_json::from_str(&got.text().await.unwrap()).unwrap();
        Got { status, run, served_by, warning, body }
    }

    /// The generator's turn, which openai serves in the place of vllm, and what is to be judged with it.
    async fn generated(&self, session: &str) -> Value {
        self.upstream.answer("", 500, &[], r#"{"error":{"message":"down"}}"#);
        let asked = json!([said("user", "make it")]);
        let got = self.turn(session, "generator", &asked).await;
        assert_eq!((got.status, got.served_by.as_str()), (200, "openai:both"), "{}", got.body);
        json!([said("user", "make it"), said("assistant", "hello"), said("user", "judge it")])
    }
}

#[tokio::test]
async fn an_evaluator_is_served_by_another_than_whoever_really_served_the_generator() {
    let two = Two::start(&[]).await;
    let judged = two.generated("a").await;
    // Nobody but whom it would judge is there: an error that says how to mend it, and nothing else is asked.
    let refused = two.turn("a", "evaluator", &judged).await;
    assert_eq!(refused.status, 502, "{}", refused.body);
    let why = refused.body["error"]["message"].as_str().unwrap();
    assert!(why.contains("another provider than openai") && why.contains("evaluator"), "{why}");
    // Its own route is passed over, and so is the fallback of the same provider.
    two.upstream.answer("", 200, &[], crate::keyed::SAYS);
    let got = two.turn("a", "evaluator", &judged).await;
    assert_eq!((got.status, got.served_by.as_str(), got.warning.as_str()), (200, "vllm:both", ""));
    // The event says it, and so do the counts.
    let told = two.node.journal(&got.run).await;
    let entries = told.iter().flat_map(|commit| commit["entries"].as_array().unwrap());
    let entries: Vec<&Value> = entries.collect();
    let of =
        |name: &str| entries.iter().find(|entry| entry["name"] == name).unwrap()["data"].clone();
    assert_eq!(of("started")["generated_by"], "openai");
    let answered = of("model_answered");
    assert_eq!(answered["served_by"], "vllm:both", "{answered}");
    let meant = json!({"model": "openai:e", "reason": "not_independent"});
    assert_eq!((&answered["instead_of"], &answered["warning"]), (&meant, &Value::Null));
    wait_for("the passing over is counted", async || {
        let (_, seen) = two.node.get("/v1/harness/providers").await;
        let all = seen["fallbacks"].as_array()?.clone();
        all.into_iter().find(|one| one["reason"] == "not_independent" && one["count"] == 1)
    })
    .await;
    // A session in which nobody made anything has nobody to be kept apart from.
    let alone = two.turn("b", "evaluator", &json!([said("user", "judge")])).await;
    assert_eq!((alone.status, alone.served_by.as_str()), (200, "openai:e"));
}

#[tokio::test]
async fn where_it_is_only_warned_of_the_answer_says_that_it_judges_itself() {
    let two = Two::start(&[("PITON_EVALUATOR_INDEPENDENCE", "warn")]).await;
    let judged = two.generated("a").await;
    let got = two.turn("a", "evaluator", &judged).await;
    assert_eq!((got.status, got.served_by.as_str()), (200, "openai:e"), "{}", got.body);
    assert!(got.warning.contains("served by openai"), "{}", got.warning);
    let (_, run) = two.node.get(&format!("/v1/runs/{}", got.run)).await;
    assert_eq!(run["served_by"], "openai:e");
    assert!(run["warning"].as_str().unwrap().contains("evaluator_independence"), "{run}");
    assert!(two.node.log().contains("harness_evaluator_not_independent"));
    let off = Two::start(&[("PITON_EVALUATOR_INDEPENDENCE", "off")]).await;
    let judged = off.generated("a").await;
    let got = off.turn("a", "evaluator", &judged).await;
    assert_eq!((got.served_by.as_str(), got.warning.as_str()), ("openai:e", ""));
}
