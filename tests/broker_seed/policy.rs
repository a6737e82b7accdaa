//! The bounds of a run's invocations: read, replaced, frozen, and drawn upon.

use crate::nodes::piton;
use serde_json::{Value, json};
use tests::brokered::{Brokered, FETCH, id, policy};

/// 18–20: shown with its defaults, replaced as a whole from a file, each bound within its range.
#[tokio::test]
async fn the_policy_is_read_and_replaced_whole_within_its_ranges() {
    let broker = Brokered::start().await;
    let folder = broker.folder.path();
    let (code, out, err) = piton(folder, &["tools", "policy", "--json"]).await;
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    for (name, value) in policy().as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name} of {shown}");
    }
    assert_eq!(shown["revision"], 1, "{shown}");
    let file = folder.join("tool-policy.json");
    let mut revision = 1;
    for (field, least, most) in [
        ("calls_limit", 1, 100),
        ("per_tool_limit", 1, 30),
        ("timeout_seconds", 1, 60),
        ("max_result_bytes", 1_024, 750_000),
    ] {
        for (value, is_in) in [(least - 1, false), (least, true), (most, true), (most + 1, false)] {
            let mut changed = policy();
            changed[field] = json!(value);
            std::fs::write(&file, changed.to_string()).unwrap();
            let path = file.to_str().unwrap();
            let (code, _, err) =
                piton(folder, &["tools", "configure-policy", "--file", path]).await;
            assert_eq!(code == 0, is_in, "{field} = {value}: {err}");
            if !is_in {
                let range = format!("{least} to {most}");
                assert!(err.contains(field) && err.contains(&range), "{err}");
            }
            revision += u32::from(is_in);
            assert_eq!(broker.node.get("/api/v1/tools/policy").await.1["revision"], revision);
        }
    }
    // As a whole: what leaves a bound out, or adds one, replaces nothing.
    for (field, value) in [("timeout_seconds", Value::Null), ("colour", json!(1))] {
        let mut changed = policy();
        changed[field] = value;
        let (status, told) = broker.put("/v1/tools/policy", &changed).await;
        assert_eq!(status, 400, "{told}");
    }
    assert_eq!(broker.node.get("/v1/tools/policy").await.1["revision"], revision);
}

/// 22, 23: a queued run keeps its bounds; a new one has the new ones. Across a restart too.
#[tokio::test]
async fn a_run_keeps_the_policy_that_it_was_queued_with() {
    let mut broker = Brokered::start().await;
    let old = broker.counting(600).await;
    broker.policy(&json!({"calls_limit": 7, "timeout_seconds": 3})).await;
    let new = broker.counting(600).await;
    for (run, revision, limit) in [(&old, 1, 30), (&new, 2, 7)] {
        let list = broker.invocations(run).await;
        assert_eq!(
            (&list["policy_revision"], &list["calls_limit"]),
            (&json!(revision), &json!(limit))
        );
        let one = broker.looked(run, &id(1), "ok").await;
        assert_eq!(one["admission"]["policy_revision"], revision, "{one}");
    }
    broker.kill();
    broker.rise().await;
    assert_eq!(broker.invocations(&old).await["calls_limit"], 30);
    assert_eq!(broker.invocations(&new).await["calls_limit"], 7);
    assert_eq!(broker.node.get("/v1/tools/policy").await.1["revision"], 2, "it is kept");
}

/// 24: what has no policy of its own has version one, whatever is set by now.
#[tokio::test]
async fn a_run_without_a_policy_has_version_one() {
    use events::run::{State, mediated};
    use events::tool_policy::{Frozen, ToolPolicy};
    assert_eq!(mediated::policy(&State::default()), Frozen { policy: ToolPolicy::V1, revision: 1 });
    let broker = Brokered::start().await;
    let run = broker.counting(20).await;
    let list = broker.invocations(&run).await;
    assert_eq!((&list["policy_revision"], &list["calls_limit"]), (&json!(1), &json!(30)));
}

/// 25: the parts of a campaign can not have other bounds than it was planned with.
#[tokio::test]
async fn a_campaign_is_refused_under_another_revision() {
    let broker = Brokered::start().await;
    let part = |revision: u32| json!({"input": "hello", "campaign": {"id": "c1", "policy_revision": revision}});
    let first = broker.node.start_run(&part(1)).await;
    assert_eq!(broker.invocations(&first).await["policy_revision"], 1);
    broker.policy(&json!({"calls_limit": 7})).await;
    let (status, told) = broker.node.post("/v1/runs", &part(1)).await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (409, &json!("policy_revision_mismatch")),
        "{told}"
    );
    let second = broker.node.start_run(&part(2)).await;
    assert_eq!(broker.invocations(&second).await["calls_limit"], 7);
}

/// 26, 29, 45: a success, a rejection and an unknown outcome that was given up are three calls.
#[tokio::test]
async fn every_outcome_draws_a_call_and_nothing_gives_it_back() {
    let broker = Brokered::start().await;
    broker.policy(&json!({"calls_limit": 3, "timeout_seconds": 1})).await;
    let run = broker.counting(1_200).await;
    let left = async || broker.invocations(&run).await["calls_left"].clone();
    assert_eq!(broker.looked(&run, &id(1), "ok").await["state"], "succeeded");
    assert_eq!(left().await, 2);
    // A host that nobody allowed: refused by the guard, and a call all the same.
    let elsewhere = json!({"url": "http://10.1.2.3/"});
    assert_eq!(broker.invoke(&run, &id(2), FETCH, &elsewhere).await.0, 202);
    let rejected = broker.settled(&run, &id(2)).await;
    assert_eq!(
        (&rejected["state"], &rejected["class"]),
        (&json!("rejected"), &json!("other")),
        "{rejected}"
    );
    assert_eq!(left().await, 1);
    assert_eq!(broker.looked(&run, &id(3), "cut").await["state"], "unknown");
    assert_eq!(left().await, 0);
    broker.abandoned(&run, &id(3), &id(9)).await;
    assert_eq!(broker.resume(&run).await.0, 200);
    assert_eq!(left().await, 0, "nothing came back");
    let (status, told) = broker.invoke(&run, &id(4), FETCH, &broker.at("ok")).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("tool_budget_exhausted")), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("calls_limit of 3"), "{told}");
    // Each tool has a bound of its own, and a model is told of it.
    broker.policy(&json!({"per_tool_limit": 1})).await;
    let run = broker.counting(100).await;
    broker.looked(&run, &id(1), "ok").await;
    let (status, told) = broker.invoke(&run, &id(2), FETCH, &broker.at("ok")).await;
    assert_eq!(status, 409, "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("per_tool_limit of 1"), "{told}");
    let search = json!({"query": "rope"});
    assert_eq!(
        broker.invoke(&run, &id(3), "web_search", &search).await.0,
        202,
        "another tool fits"
    );
}

/// 31: what an administrator tries stands in the log, in no run, and in no run's budget.
#[tokio::test]
async fn what_an_administrator_tries_is_part_of_no_run() {
    let broker = Brokered::start().await;
    let run = broker.counting(60).await;
    let tried = json!({"arguments": broker.at("ok")});
    let (status, told) = broker.node.post("/v1/tools/http.fetch/test", &tried).await;
    assert_eq!((status, broker.site.asked("/ok")), (200, 1), "{told}");
    let list = broker.invocations(&run).await;
    assert_eq!((&list["count"], &list["calls_left"]), (&json!(0), &json!(30)), "{list}");
}
