//! What stands between a model's call and its intent, on a real node: hooks, gates and standing grants, in one place that
//! every call crosses.

use serde_json::{Value, json};
use tests::brokered::{Brokered, named};

const HELD: &str = "[tools.\"note.append\"]\napproval = \"required\"\n";

async fn ended(broker: &Brokered, asked: &Value) -> (String, Vec<Value>) {
    let run = broker.node.start_run(asked).await;
    let over = broker.node.ended(&run).await;
    assert_eq!(over["outcome"], "completed", "{over}");
    broker.is_true(&run).await;
    let journal = broker.node.journal(&run).await;
    (run, journal)
}

fn refusal(journal: &[Value]) -> String {
    let refused = named(journal, "tool_refused");
    refused[0]["content"].as_str().expect("what the model is told").to_owned()
}

/// A hook that takes its time and says no: nothing runs, whether somebody attends the run or not.
#[tokio::test]
async fn a_hook_that_says_no_keeps_a_call_from_being_intended_in_every_mode() {
    let rules = "[[hooks.pre_tool_use]]\nmatcher = \"note_append\"\ncommand = \"sleep 1; echo not here >&2; exit 2\"\n";
    let broker = Brokered::ruled(rules, &[]).await;
    for mode in ["hold", "forward"] {
        let asked = json!({"input": "note: rope", "approval_mode": mode});
        let (_, journal) = ended(&broker, &asked).await;
        let said = refusal(&journal);
        assert!(said.contains("blocked_by_hook") && said.contains("not here"), "{said}");
        assert!(named(&journal, "tool_intent").is_empty(), "{mode}: {journal:?}");
    }
    assert_eq!(broker.notes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_gate_without_an_evaluator_stops_a_tool_for_good_and_one_with_evidence_lets_it_through() {
    let rules = "[tools.\"note.append\"]\ngates = [\"nobody_looks\"]\n";
    let broker = Brokered::ruled(rules, &[]).await;
    let (_, journal) = ended(&broker, &json!({"input": "note: rope"})).await;
    assert!(refusal(&journal).contains("nobody_looks"), "{}", refusal(&journal));
    assert_eq!(broker.notes(), Vec::<String>::new());

    let rules = "[tools.\"note.append\"]\ngates = [\"tests_pass\"]\n[gates.tests_pass]\nevaluator = \"evidence\"\n";
    let broker = Brokered::ruled(rules, &[]).await;
    let (_, journal) = ended(&broker, &json!({"input": "note: rope"})).await;
    assert!(refusal(&journal).contains("tests_pass"), "{}", refusal(&journal));
    let seen = json!({"verdict": "passed", "text": "412 passed"});
    let (status, told) = broker.node.post("/v1/gates/default/tests_pass/evidence", &seen).await;
    assert!((200..300).contains(&status), "{told}");
    let (_, journal) = ended(&broker, &json!({"input": "note: rope"})).await;
    let intent = named(&journal, "tool_intent")[0].clone();
    let gate = &intent["terms"]["gates"][0];
    assert_eq!(gate["name"], "tests_pass", "{intent}");
    assert!(gate["version"].as_u64() > Some(0), "{intent}");
    assert_eq!(broker.notes().len(), 1);
}

#[tokio::test]
async fn a_standing_grant_covers_its_call_and_no_other() {
    let broker = Brokered::ruled(HELD, &[]).await;
    let grant = json!({"tool": "note_append", "equal": {"/text": "rope"}});
    let (status, made) = broker.node.post("/v1/approvals/grants", &grant).await;
    assert!((200..300).contains(&status), "{made}");
    let (_, journal) = ended(&broker, &json!({"input": "note: rope"})).await;
    let intent = named(&journal, "tool_intent")[0].clone();
    assert_eq!(intent["terms"]["consent"]["grant"], made["id"], "{intent}");
    assert_eq!(broker.notes().len(), 1);
    let run = broker.node.start_run(&json!({"input": "note: harness"})).await;
    let waiting = broker.shows(&run, "waiting_for_approval").await;
    assert_eq!(waiting["approvals"][0]["tool"], "note_append", "{waiting}");
    assert_eq!(broker.notes().len(), 1);
}
