//! The broker's source document, sentence by sentence, on a real node. Sentences are numbered in its order and said
//! again in our own words; a test stands behind each number. `forge` in it is `piton` here.
//!
//! | no. | what is said | shown by |
//! |---|---|---|
//! | 1, 54 | knowledge, search and outside calls go through the broker of their run | `what_looks_outside_goes_through_the_broker_and_nothing_else_does`, `a_knowledge_look_up_is_an_invocation_too` |
//! | 2, 3, 9 | intent, reservation and journal entry are one commit, before anything is sent | `the_intent_and_its_reservation_are_one_commit_before_anything_is_sent` |
//! | 4 | an invocation keeps what it was asked under | `an_invocation_keeps_what_it_was_asked_under` |
//! | 5, 6 | a success carries its id, its citations and the provider's receipt | `a_success_carries_its_id_its_citations_and_the_receipt_of_its_provider` |
//! | 7, 48–50 | the activity is for whoever reads runs, settling for whoever executes, the policy for administrators | `each_route_is_for_whom_the_document_says` |
//! | 8–13 | events `tool_intent`, `tool_receipt`, `tool_unknown`, `tool_reconciled`; five states | `the_five_states_and_the_four_events_are_on_the_wire` |
//! | 14, 15 | a crash leaves an intent without a receipt, which proves nothing about the provider | `an_intent_without_a_receipt_is_unresolved_after_a_crash` |
//! | 16, 17 | the store refuses to change or delete what was admitted or settled; the chain has it all | `the_store_refuses_changes_and_the_chain_has_every_decision` |
//! | 18–20 | the policy is read and replaced by a file, its defaults, its ranges | `the_policy_is_read_and_replaced_whole_within_its_ranges` |
//! | 21 | search has its own stricter bounds | `search_keeps_its_own_stricter_bounds` |
//! | 22, 23 | the policy freezes when a run is queued | `a_run_keeps_the_policy_that_it_was_queued_with` |
//! | 24 | runs without one have version one | `a_run_without_a_policy_has_version_one` |
//! | 25 | a campaign names its policy's revision | `a_campaign_is_refused_under_another_revision` |
//! | 26, 29, 45 | every outcome draws on the budget, and nothing restores it | `every_outcome_draws_a_call_and_nothing_gives_it_back` |
//! | 27, 28, 46 | the same id with the same input finds what came of it; with another it is refused | `an_id_is_one_call_whatever_became_of_it` |
//! | 30 | it bounds calls and not money (budgets do, `tests/budgets.rs`) | no rule here |
//! | 31 | tests by an administrator are apart from any run | `what_an_administrator_tries_is_part_of_no_run` |
//! | 32, 34 | one invocation at a time in a run; other runs have their own | `one_invocation_of_a_run_is_under_way_and_other_runs_do_not_wait` |
//! | 33, 35, 36, 38–40, 47 | an unresolved one blocks calls and delivery; giving up; resuming | `a_cut_call_halts_its_run_until_somebody_gives_it_up_and_resumes` |
//! | 37, 39 | 32 lowercase hexadecimal digits name one decision | the same |
//! | 41, 43 | a typed rejection pauses the stage; nothing inside replays | `a_typed_rejection_pauses_the_stage_and_nothing_is_asked_again` |
//! | 42 | a lost or inadmissible answer moves the run to `needs_reconciliation` | `what_can_not_be_admitted_is_unknown_and_not_half_admitted` |
//! | 44, 45 | no giving up before the lease has ended; nothing is claimed, restored or sent | `an_invocation_is_not_given_up_before_its_lease_has_ended` |
//! | 51 | who decided is recorded | `each_route_is_for_whom_the_document_says` |
//! | 52, 53 | the Python client and the MCP server go through the same routes | open: neither is built yet |
//! | 55 | what works in the workspace has guards of its own | the first |
//! | 56 | outside MCP calls need the approved registry and a project's grant | open: the MCP client is not built yet |
//! | 57 | where else to read | no rule here |

mod outcomes;
mod policy;

use serde_json::{Value, json};
use tests::brokered::{Brokered, FETCH, id, named, names};
use tests::process::{answer, client, json as body, wait_for};

/// Every path of the broker is served under both.
const MIRRORS: [&str; 2] = ["/v1", "/api/v1"];

/// 1, 54, 55: knowledge, search and what else looks outside is mediated; what works on the node's own things is not.
#[tokio::test]
async fn what_looks_outside_goes_through_the_broker_and_nothing_else_does() {
    let broker = Brokered::start().await;
    let (_, list) = broker.node.get("/v1/tools").await;
    let rows = list["data"].as_array().unwrap();
    let of = |name: &str| {
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {list}"))
    };
    for (name, mediated) in
        [("web_search", true), (FETCH, true), ("clock_now", false), ("note_append", false)]
    {
        assert_eq!(of(name)["mediated"], mediated, "{name}");
    }
    // And so it is done: a run's own tools are intended without a draw.
    let run = broker.node.start_run(&json!({"input": "both: rope"})).await;
    broker.node.ended(&run).await;
    assert_eq!(broker.invocations(&run).await["count"], 0);
    let journal = broker.node.journal(&run).await;
    assert!(named(&journal, "tool_intent").iter().all(|one| one["invocation"].is_null()));
    // A call from outside is one of the broker's, or none.
    let run = broker.counting(40).await;
    let (status, told) = broker.invoke(&run, &id(1), "clock_now", &json!({})).await;
    assert_eq!((status, &told["error"]["code"]), (400, &json!("invalid_request")), "{told}");
}

/// 1: and so is what a run looks up in what its project knows.
#[tokio::test]
async fn a_knowledge_look_up_is_an_invocation_too() {
    let broker = Brokered::start().await;
    let asked = json!({"input": r#"tool knowledge_search {"query": "rope"}"#, "project_id": "lab"});
    let run = broker.node.start_run(&asked).await;
    broker.node.ended(&run).await;
    let one = broker.only(&run).await;
    assert_eq!(
        (&one["tool"], &one["state"]),
        (&json!("knowledge_search"), &json!("succeeded")),
        "{one}"
    );
}

/// 2, 3, 9: before a request is sent, one commit has the answer that asks for it, the intent and the draw.
#[tokio::test]
async fn the_intent_and_its_reservation_are_one_commit_before_anything_is_sent() {
    let broker = Brokered::start().await;
    broker.hold("before_first_byte");
    let run = broker.looking("ok").await;
    broker.reached("before_first_byte", &run).await;
    assert_eq!(broker.site.asked("/"), 0, "nothing has left");
    let journal = broker.node.journal(&run).await;
    let commit = journal.last().unwrap();
    assert_eq!(names(commit), ["model_answered", "tool_intent"], "in one commit");
    let list = broker.invocations(&run).await;
    assert_eq!((&list["data"][0]["state"], &list["calls_left"]), (&json!("pending"), &json!(29)));
    let intent = &commit["entries"][1]["data"];
    assert_eq!(intent["invocation_id"], list["data"][0]["invocation_id"], "{intent}");
    // It is a link of the chain: its commit names the one before, and the next will name it.
    assert_eq!(commit["prev"], journal[journal.len() - 2]["hash"]);
    broker.release("before_first_byte");
    broker.node.ended(&run).await;
    assert_eq!(
        (broker.site.asked("/ok"), &broker.only(&run).await["state"]),
        (1, &json!("succeeded"))
    );
    let after = broker.node.journal(&run).await;
    assert_eq!(after[journal.len()]["prev"], commit["hash"]);
    broker.is_true(&run).await;
}

/// 4: correlation, stage, repository and project, roles, commit and tree, revision, hosts, policy.
#[tokio::test]
async fn an_invocation_keeps_what_it_was_asked_under() {
    let broker = Brokered::start().await;
    let asked = json!({
        "input": format!("tool {FETCH} {}", broker.at("ok")),
        "project_id": "lab",
        "phase": "build",
        "source": {"repository": "ropes", "commit": "c0ffee", "tree": "7ree"},
    });
    let run = broker.node.start_run(&asked).await;
    broker.node.ended(&run).await;
    let one = broker.only(&run).await;
    let correlation = one["correlation_id"].as_str().unwrap();
    assert!(correlation.len() == 32 && correlation.bytes().all(|b| b.is_ascii_hexdigit()), "{one}");
    assert_eq!(one["admission"]["stage"], "build", "{one}");
    assert_eq!(one["admission"]["policy_revision"], 1, "{one}");
    assert_eq!(one["admission"]["input_hash"].as_str().unwrap().len(), 64, "{one}");
    let kept = &one["terms"]["mediated"];
    let source = json!({"repository": "ropes", "commit": "c0ffee", "tree": "7ree", "read": false});
    assert_eq!(kept["source"], source, "as its caller says, and marked so: {kept}");
    assert!(kept["revision"].as_str().is_some_and(|revision| !revision.is_empty()), "{kept}");
    assert!(kept["hostnames"].is_array(), "{kept}");
    assert_eq!(kept["roles"], json!(["admin"]), "what its caller was allowed: {kept}");
    assert_eq!(broker.node.get(&format!("/v1/runs/{run}")).await.1["project_id"], "lab");
    // The journal's intent says the same, so that nobody has to believe the list.
    let journal = broker.node.journal(&run).await;
    assert_eq!(named(&journal, "tool_intent")[0]["terms"], one["terms"]);
    assert_eq!(named(&journal, "tool_intent")[0]["invocation"], one["admission"]);
}

/// 5, 6: the result has the invocation's id; citations and the engine's receipt stay in it.
#[tokio::test]
async fn a_success_carries_its_id_its_citations_and_the_receipt_of_its_provider() {
    let broker = Brokered::start().await;
    let run = broker.counting(40).await;
    let (status, told) = broker.invoke(&run, &id(1), "web_search", &json!({"query": "rope"})).await;
    assert_eq!(status, 202, "{told}");
    let one = broker.settled(&run, &id(1)).await;
    let result: Value = serde_json::from_str(one["result"].as_str().unwrap()).unwrap();
    assert_eq!(result["invocation_id"], one["invocation_id"], "{result}");
    assert_eq!(result["results"][0]["url"], "https://example.org/rope", "{result}");
    assert_eq!(result["usage"]["unresponsive_engines"], json!(["slow"]), "{result}");
    // Either id names it, wherever one is taken.
    for named in [&one["invocation_id"], &one["correlation_id"]] {
        let (status, told) = broker.reconcile(&run, named.as_str().unwrap(), &id(9)).await;
        assert_eq!((status, &told["error"]["code"]), (409, &json!("reconcile_conflict")), "{told}");
    }
    assert_eq!(broker.reconcile(&run, "inv_of_nobody", &id(9)).await.0, 404);
}

/// A request with a key of this role.
async fn by(
    broker: &Brokered,
    role: &str,
) -> impl Fn(reqwest::Method, String, Value) -> reqwest::RequestBuilder {
    let (status, made) = broker.node.post("/v1/keys", &json!({"name": role, "role": role})).await;
    assert_eq!(status, 201, "{made}");
    let (key, url) = (made["key"].as_str().unwrap().to_owned(), broker.node.url.clone());
    move |method, path, asked| {
        body(client().request(method, format!("{url}{path}")).bearer_auth(&key), &asked)
    }
}

/// 7, 48–51: policy routes want an administrator, the activity a reader, settling whoever executes runs, under both
/// prefixes; who decided is recorded.
#[tokio::test]
async fn each_route_is_for_whom_the_document_says() {
    use reqwest::Method;
    let broker = Brokered::start().await;
    broker.policy(&json!({"timeout_seconds": 1})).await;
    let run = broker.looking("cut").await;
    let lost = broker.only(&run).await;
    let own = lost["correlation_id"].as_str().unwrap().to_owned();
    let (reader, runner, operator) =
        (by(&broker, "reader").await, by(&broker, "runner").await, by(&broker, "operator").await);
    for prefix in MIRRORS {
        let list = format!("{prefix}/runs/{run}/tool-invocations");
        let bare = client().get(format!("{}{list}", broker.node.url));
        assert_eq!(answer(bare).await.0, 401, "{list}");
        let (status, seen) = answer(reader(Method::GET, list.clone(), json!({}))).await;
        assert_eq!((status, &seen["count"]), (200, &json!(1)), "{seen}");
        let settle = format!("{list}/{own}/reconcile");
        let decision = json!({"request_id": id(7)});
        assert_eq!(answer(reader(Method::POST, settle.clone(), decision.clone())).await.0, 403);
        // Its lease has not ended, but the right to decide is there.
        let (status, told) = answer(runner(Method::POST, settle, decision)).await;
        assert!(status == 409 || status == 200, "{told}");
        let resume = format!("{prefix}/runs/{run}/resume");
        assert_eq!(answer(reader(Method::POST, resume, json!({}))).await.0, 403);
        let policy = format!("{prefix}/tools/policy");
        for (who, method) in
            [(&runner, Method::PUT), (&operator, Method::PUT), (&operator, Method::GET)]
        {
            let (status, told) =
                answer(who(method, policy.clone(), tests::brokered::policy())).await;
            assert_eq!(status, 403, "{told}");
        }
        assert_eq!(broker.node.get(&policy).await.0, 200);
    }
    let settle = format!("/v1/runs/{run}/tool-invocations/{own}/reconcile");
    let settled = wait_for("the lease has ended", || async {
        let asked = runner(Method::POST, settle.clone(), json!({"request_id": id(7)}));
        let (status, told) = answer(asked).await;
        (status == 200).then_some(told)
    })
    .await;
    let by = settled["reconciliation"]["by"].as_str().unwrap();
    assert!(by != "admin" && !by.is_empty(), "the key that decided: {settled}");
    let journal = broker.node.journal(&run).await;
    assert_eq!(named(&journal, "tool_reconciled")[0]["by"], by);
}

/// 8–13: what stands in the journal and on the streams of a run that has met everything.
#[tokio::test]
async fn the_five_states_and_the_four_events_are_on_the_wire() {
    let broker = Brokered::start().await;
    broker.policy(&json!({"timeout_seconds": 1})).await;
    let run = broker.counting(1_000).await;
    let (_, told) = broker.invoke(&run, &id(1), FETCH, &broker.at("held")).await;
    assert_eq!(told["state"], "pending", "{told}");
    assert_eq!(broker.settled(&run, &id(1)).await["state"], "unknown");
    broker.abandoned(&run, &id(1), &id(9)).await;
    assert_eq!(broker.resume(&run).await.0, 200);
    assert_eq!(broker.looked(&run, &id(2), "ok").await["state"], "succeeded");
    let rejected = broker.looked(&run, &id(3), "429").await;
    assert_eq!(
        (&rejected["state"], &rejected["class"]),
        (&json!("rejected"), &json!("rate_limit"))
    );
    let (status, _) = broker.node.post(&format!("/v1/runs/{run}/stop"), &json!({})).await;
    assert_eq!(status, 200);
    let journal = broker.node.journal(&run).await;
    let entries = tests::brokered::entries(&journal);
    let seen: Vec<(&str, &str)> = entries
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["event"].as_str().unwrap()))
        .filter(|(name, _)| name.starts_with("tool_") || ["paused", "resumed"].contains(name))
        .collect();
    let then = [
        ("tool_intent", "tool.started"),
        ("tool_unknown", "tool.unknown"),
        ("tool_reconciled", "tool.reconciled"),
        ("resumed", "run.resumed"),
        ("tool_intent", "tool.started"),
        ("tool_receipt", "tool.completed"),
        ("tool_intent", "tool.started"),
        ("tool_receipt", "tool.failed"),
        ("paused", "run.paused"),
    ];
    assert_eq!(seen, then);
    assert_eq!(named(&journal, "tool_receipt")[1]["rejection"], "rate_limit");
    let states = broker.invocations(&run).await;
    let states: Vec<&str> = states["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["abandoned", "succeeded", "rejected"]);
    broker.is_true(&run).await;
}

/// 14, 15: killed with the request on its way. The intent stands without a receipt, and the site was asked.
#[tokio::test]
async fn an_intent_without_a_receipt_is_unresolved_after_a_crash() {
    let mut broker = Brokered::start().await;
    let run = broker.looking("held").await;
    wait_for("the request has come", || async { (broker.site.asked("/held") == 1).then_some(()) })
        .await;
    let list = broker.invocations(&run).await;
    assert_eq!(list["data"][0]["state"], "pending", "{list}");
    let journal = broker.node.journal(&run).await;
    assert_eq!(names(journal.last().unwrap()), ["model_answered", "tool_intent"]);
    broker.kill();
    broker.rise().await;
    broker.shows(&run, "needs_reconciliation").await;
    let one = broker.only(&run).await;
    assert_eq!(
        (&one["state"], &one["reason"]),
        (&json!("unknown"), &json!("interrupted")),
        "{one}"
    );
    assert_eq!(broker.site.asked("/held"), 1, "and it is not asked again");
    broker.is_true(&run).await;
}

/// 16, 17: the file's own rules refuse it, whoever opens it; whoever takes the rules away is found by the chain.
#[tokio::test]
async fn the_store_refuses_changes_and_the_chain_has_every_decision() {
    let mut broker = Brokered::start().await;
    let run = broker.looking("ok").await;
    broker.node.ended(&run).await;
    assert!(broker.node.stop().await.success());
    let file = broker.folder.path().join("journal.db");
    let stream = format!("run/{run}");
    let open = || rusqlite::Connection::open(&file).unwrap();
    let change = "UPDATE commits SET frame = zeroblob(9) WHERE stream = ?1";
    for (statement, why) in
        [(change, "never changed"), ("DELETE FROM commits WHERE stream = ?1", "never deleted")]
    {
        let refused = open().execute(statement, [&stream]).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(tests::audit::audit(broker.folder.path()).is_ok());
    // A copy in which the rules were taken away for a moment, and the intent says something else.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(&file, copy.path().join("journal.db")).unwrap();
    assert!(tests::audit::audit(copy.path()).is_ok());
    let forged = rusqlite::Connection::open(copy.path().join("journal.db")).unwrap();
    let rule = "SELECT sql FROM sqlite_master WHERE name = 'commits_stay'";
    let rule: String = forged.query_row(rule, [], |row| row.get(0)).unwrap();
    forged.execute_batch("DROP TRIGGER commits_stay").unwrap();
    let change = "UPDATE commits SET frame = unhex(replace(hex(frame), hex('http_fetch'), hex('http_catch')))
        WHERE stream = ?1 AND instr(hex(frame), hex('http_fetch')) > 0";
    assert!(forged.execute(change, [&stream]).unwrap() > 0, "the intent says something else");
    forged.execute_batch(&rule).unwrap();
    drop(forged);
    let found = tests::audit::audit(copy.path()).unwrap_err();
    assert!(found.contains("hash"), "the change is found by its hash: {found}");
}
