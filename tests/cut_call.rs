//! A look outside whose answer never comes back. Nobody knows what came of it: the run stands still, nothing builds on it,
//! nothing is sent again, until a person has given it up, once, after its lease, and has said that the run goes on.

use crate::nodes::piton;
use serde_json::{Value, json};
use tests::brokered::{Brokered, entries, id, named};
use tests::process::wait_for;

const DECISION: &str = "00112233445566778899aabbccddeeff";
const ANOTHER: &str = "ffeeddccbbaa99887766554433221100";

/// A second for each look, and so six of lease: as long as a story can wait.
async fn quick() -> Brokered {
    let broker = Brokered::start().await;
    broker.policy(&json!({"timeout_seconds": 1})).await;
    broker
}

fn code(told: &Value) -> &str {
    told["error"]["code"].as_str().unwrap_or_else(|| panic!("no error: {told}"))
}

/// What the model was told of its calls.
fn told(journal: &[Value]) -> String {
    named(journal, "model_asked").last().expect("a question").to_string()
}

#[tokio::test]
async fn a_cut_call_halts_its_run_until_somebody_gives_it_up_and_resumes() {
    let broker = quick().await;
    let folder = broker.folder.path();
    let run = broker.counting(60).await;
    let (fine, cut) = (id(1), id(2));
    assert_eq!(broker.looked(&run, &fine, "ok").await["state"], "succeeded");
    let lost = broker.looked(&run, &cut, "cut").await;
    assert_eq!(
        (&lost["state"], &lost["reason"]),
        (&json!("unknown"), &json!("unanswered")),
        "{lost}"
    );
    let halted = broker.shows(&run, "needs_reconciliation").await;
    assert_eq!(halted["unresolved"]["correlation_id"], cut, "{halted}");

    // Nothing more is sent, and nothing is delivered, though the model says its last word.
    let (status, refused) = broker.invoke(&run, &id(3), "http_fetch", &broker.at("ok")).await;
    assert_eq!((status, code(&refused)), (409, "unresolved_invocation"), "{refused}");
    wait_for("the model has said its last word", || async {
        broker.node.events(&run).await.contains(&"model_answered".to_owned()).then_some(())
    })
    .await;
    let halted = broker.shows(&run, "needs_reconciliation").await;
    assert_eq!(
        (&halted["outcome"], &halted["finished_at"]),
        (&Value::Null, &Value::Null),
        "{halted}"
    );
    let (status, refused) = broker.resume(&run).await;
    assert_eq!((status, code(&refused)), (409, "unresolved_invocation"), "{refused}");

    // As a person does it: too early, then settled, twice, and for another one.
    let abandon = async |which: &str, decision: &str| {
        piton(folder, &["tools", "abandon", &run, which, "--request-id", decision]).await
    };
    for wrong in ["00112233", "00112233445566778899AABBCCDDEEFF"] {
        let (status, refused) = broker.reconcile(&run, &cut, wrong).await;
        assert_eq!((status, code(&refused)), (400, "invalid_request"), "{refused}");
    }
    let settled = broker.abandoned(&run, &cut, DECISION).await;
    assert_eq!(settled["state"], "abandoned", "{settled}");
    let (code_of, out, err) = abandon(&cut, DECISION).await;
    assert_eq!(code_of, 0, "the same decision again is harmless: {out}{err}");
    let (code_of, _, err) = abandon(&fine, DECISION).await;
    assert!(code_of != 0 && err.contains("request id was used"), "{err}");
    let (code_of, _, err) = abandon(&cut, ANOTHER).await;
    assert!(code_of != 0 && err.contains("settled"), "{err}");
    assert_eq!(broker.shows(&run, "needs_reconciliation").await["unresolved"], Value::Null);

    let (code_of, _, err) = piton(folder, &["run", "resume", &run]).await;
    assert_eq!(code_of, 0, "{err}");
    assert_eq!(broker.node.ended(&run).await["outcome"], "completed");
    assert_eq!(
        (broker.site.asked("/cut"), broker.site.asked("/ok")),
        (1, 1),
        "nothing was sent again"
    );
    all_agree(&broker, &run, &cut).await;
}

/// What the invocations, the journal and its checks say of a run in which one look succeeded and one was given up.
async fn all_agree(broker: &Brokered, run: &str, cut: &str) {
    let folder = broker.folder.path();
    let (code_of, out, err) = piton(folder, &["tools", "invocations", run, "--json"]).await;
    assert_eq!(code_of, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    let list = broker.invocations(run).await;
    assert_eq!(shown["data"], list["data"], "the verb shows what the route says");
    let states: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["succeeded", "abandoned"]);
    assert_eq!(
        (&list["calls_limit"], &list["calls_left"]),
        (&json!(30), &json!(28)),
        "no budget came back"
    );
    let journal = broker.node.journal(run).await;
    assert_eq!(named(&journal, "tool_intent").len(), 2);
    assert_eq!(
        (named(&journal, "tool_receipt").len(), named(&journal, "tool_unknown").len()),
        (1, 1)
    );
    let settled = named(&journal, "tool_reconciled");
    assert_eq!(
        (settled.len(), &settled[0]["request_id"], &settled[0]["by"]),
        (1, &json!(DECISION), &json!("admin"))
    );
    let names: Vec<&str> =
        entries(&journal).iter().map(|one| one["name"].as_str().unwrap()).collect();
    let at = |name: &str| names.iter().position(|one| *one == name).unwrap();
    assert!(at("tool_unknown") < at("tool_reconciled"), "{names:?}");
    assert!(at("tool_reconciled") < at("resumed") && at("resumed") < at("finished"), "{names:?}");
    assert!(list.to_string().contains(cut));
    broker.is_true(run).await;
    let (code_of, out, err) = piton(folder, &["run", "replay", run, "--check"]).await;
    assert_eq!(code_of, 0, "{out}{err}");
}

#[tokio::test]
async fn an_invocation_is_not_given_up_before_its_lease_has_ended() {
    let broker = quick().await;
    let run = broker.looking("cut").await;
    let lost = broker.only(&run).await;
    let own = lost["invocation_id"].as_str().unwrap();
    let (status, refused) = broker.reconcile(&run, own, DECISION).await;
    assert_eq!((status, code(&refused)), (409, "reconcile_conflict"), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("lease"), "{refused}");
    // Its lease is a second for the look and five more, from its intent on.
    let journal = broker.node.journal(&run).await;
    let (asked, until) = (
        journal.iter().find(|one| one["entries"].to_string().contains("tool_intent")).unwrap(),
        lost["admission"]["lease_until"].as_str().unwrap(),
    );
    let second = |time: &str| time[17..19].parse::<i64>().unwrap();
    let whole = (second(until) - second(asked["at"].as_str().unwrap())).rem_euclid(60);
    assert!((6..=7).contains(&whole), "{until} {asked}");
    broker.abandoned(&run, own, DECISION).await;
    // The model is told what it is: no success, and no reason to repeat.
    assert_eq!(broker.resume(&run).await.0, 200);
    let ended = broker.node.ended(&run).await;
    assert!(ended["output"].as_str().unwrap().contains("outcome_unknown"), "{ended}");
    assert_eq!(broker.site.asked("/cut"), 1);
    assert!(!told(&broker.node.journal(&run).await).is_empty());
    broker.is_true(&run).await;
}

#[tokio::test]
async fn a_run_with_the_opt_in_gives_up_what_only_reads_by_itself() {
    let broker = Brokered::start().await;
    broker.policy(&json!({"timeout_seconds": 1, "on_unknown": {"read_only": "abandon"}})).await;
    let run = broker.looking("half").await;
    assert_eq!(broker.only(&run).await["state"], "unknown", "a torn answer is none");
    let ended = broker.node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let settled = broker.only(&run).await;
    assert_eq!(settled["reconciliation"]["by"], "policy:2", "{settled}");
    assert_eq!(broker.site.asked("/half"), 1);
    broker.is_true(&run).await;
}
