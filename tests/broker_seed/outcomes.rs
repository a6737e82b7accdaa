//! What comes of invocations: found again by their ids, one at a time, refused, and not admitted.

use serde_json::json;
use tests::brokered::{Brokered, FETCH, id};
use tests::process::wait_for;

/// 21: ten results, whatever the policy would let through.
#[tokio::test]
async fn search_keeps_its_own_stricter_bounds() {
    let broker = Brokered::start().await;
    let run = broker.counting(40).await;
    let search = |count: u32| json!({"query": "rope", "count": count});
    let (status, told) = broker.invoke(&run, &id(1), "web_search", &search(11)).await;
    assert_eq!((status, &told["error"]["code"]), (400, &json!("invalid_request")), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("NOT executed"), "{told}");
    assert_eq!(
        (broker.site.asked("/search"), &broker.invocations(&run).await["count"]),
        (0, &json!(0))
    );
    assert_eq!(broker.invoke(&run, &id(1), "web_search", &search(10)).await.0, 202);
    assert_eq!(broker.settled(&run, &id(1)).await["state"], "succeeded");
}

/// 27, 28, 46: one id is one call: found again in whatever state, refused for another input.
#[tokio::test]
async fn an_id_is_one_call_whatever_became_of_it() {
    let broker = Brokered::start().await;
    broker.policy(&json!({"timeout_seconds": 1})).await;
    let run = broker.counting(1_000).await;
    let first = broker.looked(&run, &id(1), "ok").await;
    assert_eq!(broker.looked(&run, &id(1), "ok").await, first, "what it was");
    assert_eq!(broker.site.asked("/ok"), 1, "and not asked again");
    for (tool, arguments) in [(FETCH, broker.at("other")), ("web_search", json!({"query": "rope"}))]
    {
        let (status, told) = broker.invoke(&run, &id(1), tool, &arguments).await;
        assert_eq!(
            (status, &told["error"]["code"]),
            (409, &json!("idempotency_key_conflict")),
            "{told}"
        );
    }
    for wrong in ["1", "0000000000000000000000000000000G", "0x000000000000000000000000000001"] {
        assert_eq!(broker.invoke(&run, wrong, FETCH, &broker.at("ok")).await.0, 400, "{wrong}");
    }
    // Unknown, and then given up: the id finds that, and sends nothing. A later request needs another id.
    assert_eq!(broker.looked(&run, &id(2), "cut").await["state"], "unknown");
    assert_eq!(broker.looked(&run, &id(2), "cut").await["state"], "unknown");
    broker.abandoned(&run, &id(2), &id(9)).await;
    assert_eq!(broker.resume(&run).await.0, 200);
    assert_eq!(broker.looked(&run, &id(2), "cut").await["state"], "abandoned");
    assert_eq!(broker.site.asked("/cut"), 1);
    assert_eq!(broker.looked(&run, &id(3), "cut").await["state"], "unknown");
    assert_eq!(broker.site.asked("/cut"), 2);
    // A call of the model has an id too, and is found by it.
    let run = broker.looking("ok").await;
    let own = broker.only(&run).await;
    let own_id = own["correlation_id"].as_str().unwrap();
    let (status, again) = broker.invoke(&run, own_id, FETCH, &broker.at("ok")).await;
    assert_eq!((status, &again["invocation_id"]), (200, &own["invocation_id"]), "{again}");
    assert_eq!(broker.site.asked("/ok"), 2);
}

/// 32, 34: a second one waits for nobody's answer but is refused; another run has its own.
#[tokio::test]
async fn one_invocation_of_a_run_is_under_way_and_other_runs_do_not_wait() {
    let broker = Brokered::start().await;
    let (run, other) = (broker.counting(100).await, broker.counting(100).await);
    let (status, told) = broker.invoke(&run, &id(1), FETCH, &broker.at("held")).await;
    assert_eq!((status, &told["state"]), (202, &json!("pending")), "{told}");
    let (status, told) = broker.invoke(&run, &id(2), FETCH, &broker.at("ok")).await;
    assert_eq!(status, 409, "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("one at a time"), "{told}");
    assert_eq!(broker.looked(&other, &id(2), "ok").await["state"], "succeeded");
    let [own, theirs] = [&run, &other].map(|run| broker.invocations(run));
    assert_eq!((&own.await["calls_left"], &theirs.await["calls_left"]), (&json!(29), &json!(29)));
    let (own, theirs) = (broker.node.journal(&run).await, broker.node.journal(&other).await);
    assert_ne!(own[0]["stream"], theirs[0]["stream"], "each has a journal of its own");
}

/// 41, 43: the class is kept and shown; the stage waits for the provider's time, or for a person; the site is asked once.
#[tokio::test]
async fn a_typed_rejection_pauses_the_stage_and_nothing_is_asked_again() {
    let broker = Brokered::start().await;
    for (path, class) in [
        ("401", "authentication"),
        ("403", "authentication"),
        ("402", "quota"),
        ("429", "rate_limit"),
    ] {
        let run = broker.looking(path).await;
        let paused = broker.shows(&run, "paused").await;
        assert_eq!(paused["paused"], json!({"class": class, "until": null}), "{paused}");
        assert_eq!(broker.only(&run).await["class"], class);
        assert_eq!(paused["model_calls"], 1, "the model is not asked meanwhile");
        let (status, told) = broker.resume(&run).await;
        assert_eq!(status, 200, "{told}");
        let ended = broker.node.ended(&run).await;
        assert_eq!(
            (&ended["outcome"], broker.site.asked(&format!("/{path}"))),
            (&json!("completed"), 1)
        );
        let (status, told) = broker.resume(&run).await;
        assert_eq!(status, 409, "it has ended: {told}");
        broker.is_true(&run).await;
    }
    // With a time it goes on by itself.
    let run = broker.looking("soon").await;
    let ended = broker.node.ended(&run).await;
    assert_eq!(
        (&ended["outcome"], broker.site.asked("/soon")),
        (&json!("completed"), 1),
        "{ended}"
    );
    let journal = broker.node.journal(&run).await;
    assert_eq!(tests::brokered::named(&journal, "resumed")[0]["by"], "time");
}

/// 42: torn, too large, or not what it should be: none of it is kept as a result.
#[tokio::test]
async fn what_can_not_be_admitted_is_unknown_and_not_half_admitted() {
    let broker = Brokered::start().await;
    broker.policy(&json!({"max_result_bytes": 1_024})).await;
    // Its text is cut to what fits; its address and its type alone are more than that.
    let wide = format!("wide/{}", "x".repeat(700));
    for (tool, arguments, reason) in [
        (FETCH, broker.at("half"), "unanswered"),
        ("web_search", json!({"query": "broken"}), "unanswered"),
        (FETCH, broker.at(&wide), "too_large"),
    ] {
        let run =
            broker.node.start_run(&json!({"input": format!("tool {tool} {arguments}")})).await;
        let halted = broker.shows(&run, "needs_reconciliation").await;
        assert_eq!(halted["unresolved"]["reason"], reason, "{tool}: {halted}");
        let one = broker.only(&run).await;
        assert!(one["result"].is_null(), "{tool}: {one}");
        assert_eq!(halted["model_calls"], 1, "{tool}: the model is not asked over it");
        wait_for("nothing is delivered", || async {
            broker.node.get(&format!("/v1/runs/{run}")).await.1["outcome"].is_null().then_some(())
        })
        .await;
        broker.is_true(&run).await;
    }
}
