//! A write that somebody has to agree to. It waits as long as it may, whatever becomes of the node; it is answered once,
//! by whoever comes; it happens once, or nobody knows whether it did, and then it never happens again.

use crate::nodes::piton;
use gateway::scripted::script::{Does, Line, Provider, Turn};
use gateway::scripted::{Script, Scripted};
use providers::Family;
use serde_json::{Value, json};
use std::time::Duration;
use tests::brokered::{Brokered, named, names};
use tests::process::{answer, client, json as json_body, wait_for};

/// Each note waits for somebody.
const HELD: &str = "[tools.\"note.append\"]\napproval = \"required\"\n";

async fn asking() -> Brokered {
    Brokered::ruled(HELD, &[]).await
}

/// With holds that are denied after so many seconds.
async fn impatient(seconds: &str) -> Brokered {
    Brokered::ruled(HELD, &[("PITON_APPROVAL_TIMEOUT_SECONDS", seconds)]).await
}

/// Waits until a run holds a call, and returns the hold's id.
async fn held(broker: &Brokered, run: &str) -> String {
    let waiting = broker.shows(run, "waiting_for_approval").await;
    waiting["approvals"][0]["approval_id"].as_str().expect("an id").to_owned()
}

async fn noting(broker: &Brokered, input: &str) -> (String, String) {
    let run = broker.node.start_run(&json!({ "input": input })).await;
    let approval = held(broker, &run).await;
    (run, approval)
}

fn count(events: &[String], name: &str) -> usize {
    events.iter().filter(|one| *one == name).count()
}

/// A model in the story's own process, so that it outlives the node: two reads, a write, the last word.
async fn model() -> Scripted {
    let calls = |calls: &[(&str, &str)]| {
        let calls =
            calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned()));
        Turn::once(Does::Say(Line { calls: calls.collect(), ..Line::default() }))
    };
    let turns = vec![
        calls(&[("clock_now", "{}"), ("artifact_list", "{}")]),
        calls(&[("note_append", r#"{"text":"rope"}"#)]),
        Turn::once(Does::Say(Line::text("It is noted."))),
    ];
    let provider = Provider::new("vllm", Some(Family::OpenaiChat), turns);
    gateway::scripted::start(&Script { seed: 0, providers: vec![provider] }).await.unwrap()
}

#[tokio::test]
async fn reads_run_together_and_a_held_write_survives_its_node_and_happens_once() {
    let model = model().await;
    let url = model.providers[0].base_url(Family::OpenaiChat);
    let mut broker = Brokered::ruled(HELD, &[("PITON_VLLM_BASE_URL", &url)]).await;
    let run = broker.node.start_run(&json!({"input": "note the rope", "model": "vllm:m"})).await;
    let approval = held(&broker, &run).await;
    // Both reads were intended together, before either had answered.
    let journal = broker.node.journal(&run).await;
    let together = ["model_answered", "tool_intent", "tool_intent"];
    assert!(journal.iter().any(|commit| names(commit) == together), "{journal:?}");
    let before = broker.node.events(&run).await;
    assert_eq!((count(&before, "tool_intent"), count(&before, "tool_receipt")), (2, 2));
    assert_eq!(broker.notes(), Vec::<String>::new(), "nobody agreed yet");

    broker.kill();
    broker.rise().await;
    assert_eq!(broker.node.events(&run).await, before, "a restart changes nothing");
    let folder = broker.folder.path();
    let (code, out, err) = piton(folder, &["approvals", "show", &approval]).await;
    assert!(code == 0 && out.contains("rope") && out.contains("waiting"), "{out}{err}");
    let (code, _, err) = piton(folder, &["approvals", "approve", &approval]).await;
    assert_eq!(code, 0, "{err}");
    let ended = broker.node.ended(&run).await;
    assert_eq!(
        (&ended["outcome"], &ended["output"]),
        (&json!("completed"), &json!("It is noted.")),
        "{ended}"
    );
    assert_eq!(broker.notes().len(), 1);
    assert!(broker.notes()[0].ends_with("\trope"));
    assert_eq!(model.providers[0].calls(), 3, "the model was asked nothing twice");
    // Agreed to and intended in one commit; the first answer wins, and the same again is harmless.
    let journal = broker.node.journal(&run).await;
    assert!(journal.iter().any(|commit| names(commit) == ["approval_resolved", "tool_intent"]));
    assert_eq!(named(&journal, "approval_resolved")[0]["by"], "admin");
    let (code, _, err) = piton(folder, &["approvals", "approve", &approval]).await;
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = piton(folder, &["approvals", "deny", &approval]).await;
    assert!(code != 0 && err.contains("answered before"), "{err}");
    assert_eq!(broker.notes().len(), 1);
    broker.is_true(&run).await;
}

#[tokio::test]
async fn a_kill_between_the_agreed_intent_and_its_outcome_is_unknown_and_never_repeated() {
    for (point, happened) in
        [("after_intent", 0), ("before_first_byte", 0), ("after_effect", 1), ("before_outcome", 1)]
    {
        let mut broker = asking().await;
        let (run, approval) = noting(&broker, "note: rope").await;
        broker.hold(point);
        let (status, told) =
            broker.node.post(&format!("/v1/approvals/{approval}/approve"), &json!({})).await;
        assert_eq!((status, &told["status"]), (200, &json!("approved")), "{point}: {told}");
        broker.reached(point, &run).await;
        broker.kill();
        broker.rise().await;
        let ended = broker.node.ended(&run).await;
        let output = ended["output"].as_str().unwrap();
        assert!(
            output.contains("outcome unknown") && output.contains("verify first"),
            "{point}: {ended}"
        );
        assert_eq!(broker.notes().len(), happened, "{point}");
        let events = broker.node.events(&run).await;
        assert_eq!(
            (count(&events, "tool_intent"), count(&events, "tool_unknown")),
            (1, 1),
            "{point}"
        );
        // Who agreed agreed once: nothing is left to agree to.
        let again =
            broker.node.post(&format!("/v1/approvals/{approval}/approve"), &json!({})).await;
        assert_eq!((again.0, broker.notes().len()), (200, happened), "{point}: {}", again.1);
        broker.is_true(&run).await;
    }
}

#[tokio::test]
async fn nobody_s_answer_is_a_no_also_while_the_run_is_at_rest() {
    let mut broker = impatient("3").await;
    let (run, approval) = noting(&broker, "note: rope").await;
    broker.kill();
    broker.rise().await;
    // The list is read from a table: nobody wakes the run by asking.
    let status = async || {
        let (_, list) = broker.node.get("/v1/runs").await;
        list["data"][0]["outcome"].as_str().map(str::to_owned)
    };
    let live = async || broker.node.get("/health/detailed").await.1["actors"]["runs_live"].clone();
    if status().await.is_none() {
        assert_eq!(live().await, 0, "nobody hosts a run that only waits");
    }
    wait_for("the hold is denied by itself", || async { status().await }).await;
    expired(&broker, &run, &approval).await;
}

#[tokio::test]
async fn nobody_s_answer_is_a_no_also_while_the_node_is_dead() {
    let mut broker = impatient("1").await;
    let (run, approval) = noting(&broker, "note: rope").await;
    broker.kill();
    // Its deadline passes with nobody there.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    broker.rise().await;
    wait_for("the hold is denied by itself", || async {
        let (_, list) = broker.node.get("/v1/runs").await;
        list["data"][0]["outcome"].as_str().map(str::to_owned)
    })
    .await;
    expired(&broker, &run, &approval).await;
}

/// What is said of a hold that nobody answered.
async fn expired(broker: &Brokered, run: &str, approval: &str) {
    let ended = broker.node.ended(run).await;
    let output = ended["output"].as_str().unwrap();
    assert!(output.contains("approval_expired") && output.contains("NOT executed"), "{ended}");
    let (_, shown) = broker.node.get(&format!("/v1/approvals/{approval}")).await;
    assert_eq!((&shown["status"], &shown["by"]), (&json!("expired"), &Value::Null), "{shown}");
    let (status, late) =
        broker.node.post(&format!("/v1/approvals/{approval}/approve"), &json!({})).await;
    assert_eq!((status, &late["error"]["code"]), (409, &json!("approval_conflict")), "{late}");
    assert_eq!(broker.notes(), Vec::<String>::new());
    broker.is_true(run).await;
}

#[tokio::test]
async fn a_batch_with_a_held_call_runs_in_order_and_keeps_what_is_finished() {
    let mut broker = asking().await;
    let (run, approval) = noting(&broker, "both: rope").await;
    // The clock was read before anybody was asked about the note; it is not read again.
    let journal = broker.node.journal(&run).await;
    let read = named(&journal, "tool_receipt")[0]["content"].as_str().unwrap().to_owned();
    assert!(journal.iter().any(|commit| names(commit) == ["tool_receipt", "approval_asked"]));
    broker.kill();
    broker.rise().await;
    let (code, _, err) = piton(broker.folder.path(), &["approvals", "approve", &approval]).await;
    assert_eq!(code, 0, "{err}");
    let ended = broker.node.ended(&run).await;
    assert!(ended["output"].as_str().unwrap().contains(&read), "{read} in {ended}");
    let events = broker.node.events(&run).await;
    assert_eq!(
        (count(&events, "tool_intent"), count(&events, "tool_receipt")),
        (2, 2),
        "{events:?}"
    );
    assert_eq!(broker.notes().len(), 1);
    broker.is_true(&run).await;
}

#[tokio::test]
async fn a_stopped_run_voids_its_holds_and_takes_no_answer() {
    let broker = asking().await;
    let (run, approval) = noting(&broker, "note: rope").await;
    let (status, _) = broker.node.post(&format!("/v1/runs/{run}/stop"), &json!({})).await;
    assert_eq!(status, 200);
    let journal = broker.node.journal(&run).await;
    assert_eq!(names(journal.last().unwrap()), ["approval_resolved", "finished"], "in one commit");
    assert_eq!(named(&journal, "approval_resolved")[0]["resolution"], "voided");
    let (code, _, err) = piton(broker.folder.path(), &["approvals", "approve", &approval]).await;
    assert!(code != 0 && err.contains("run_not_waiting"), "{code} {err}");
    assert_eq!(broker.notes(), Vec::<String>::new());
    broker.is_true(&run).await;
}

#[tokio::test]
async fn an_approver_sees_what_it_agrees_to_and_may_change_it_within_the_schema() {
    let broker = asking().await;
    let (run, approval) = noting(&broker, "note: rope").await;
    let folder = broker.folder.path();
    let other = "0".repeat(64);
    let (code, _, err) =
        piton(folder, &["approvals", "approve", &approval, "--subject", &other]).await;
    assert!(code != 0 && err.contains("another call"), "{err}");
    let edit = async |arguments: &str| {
        piton(folder, &["approvals", "edit", &approval, "--arguments", arguments]).await
    };
    for wrong in [r#"{"text":7}"#, r#"{"txt":"string"}"#] {
        let (code, _, err) = edit(wrong).await;
        assert!(code != 0 && err.contains("invalid_arguments"), "{wrong}: {err}");
    }
    assert_eq!(broker.notes(), Vec::<String>::new());
    let (code, _, err) = edit(r#"{"text":"string"}"#).await;
    assert_eq!(code, 0, "{err}");
    broker.node.ended(&run).await;
    assert!(
        broker.notes().len() == 1 && broker.notes()[0].ends_with("\tstring"),
        "{:?}",
        broker.notes()
    );
    broker.is_true(&run).await;

    // A no is told to the model with its reason. Whoever starts runs does not answer for them.
    let (run, approval) = noting(&broker, "note: rope").await;
    let (_, key) = broker.node.post("/v1/keys", &json!({"name": "r", "role": "runner"})).await;
    let runner = tests::process::client()
        .post(format!("{}/v1/approvals/{approval}/approve", broker.node.url))
        .bearer_auth(key["key"].as_str().unwrap());
    assert_eq!(tests::process::answer(tests::process::json(runner, &json!({}))).await.0, 403);
    let (code, _, err) =
        piton(folder, &["approvals", "deny", &approval, "--reason", "not today"]).await;
    assert_eq!(code, 0, "{err}");
    let ended = broker.node.ended(&run).await;
    let output = ended["output"].as_str().unwrap();
    assert!(output.contains("approval_denied") && output.contains("not today"), "{ended}");
    assert_eq!(broker.notes().len(), 1);
}

#[tokio::test]
async fn nobody_is_asked_in_a_run_that_nobody_attends_and_not_everybody_may_start_one() {
    let broker = asking().await;
    let key = json!({"name": "starter", "role": "runner"});
    let (_, made) = broker.node.post("/v1/keys", &key).await;
    let asked = json!({"input": "note: rope", "approval_mode": "forward"});
    let by = made["key"].as_str().unwrap();
    let request = client().post(format!("{}/v1/runs", broker.node.url)).bearer_auth(by);
    let (status, told) = answer(json_body(request, &asked)).await;
    assert_eq!((status, &told["error"]["code"]), (403, &json!("forbidden")), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("operator"), "{told}");
    let run = broker.node.start_run(&asked).await;
    let ended = broker.node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let journal = broker.node.journal(&run).await;
    let refused = named(&journal, "tool_refused");
    let said = refused[0]["content"].as_str().unwrap();
    assert!(
        said.contains("approval_required_unattended") && said.contains("NOT executed"),
        "{said}"
    );
    assert_eq!((broker.notes(), named(&journal, "approval_asked").len()), (vec![], 0));
}
