//! What must hold before a tool call, as an administrator, an approver and a build machine meet it: the policy of
//! mediated calls and the runs that keep it, standing grants, and gates with their evidence and waivers.

use reqwest::Method;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{answer, client, json as body};

const POLICY: &str = "/v1/tools/policy";
const GRANTS: &str = "/v1/approvals/grants";

/// A key of a role.
async fn key(node: &Node, role: &str) -> String {
    let (status, made) = node.post("/v1/keys", &json!({"name": role, "role": role})).await;
    assert_eq!(status, 201, "{made}");
    made["key"].as_str().unwrap().to_owned()
}

async fn by(node: &Node, key: &str, method: Method, path: &str, sent: &Value) -> (u16, Value) {
    let request = client().request(method, format!("{}{path}", node.url)).bearer_auth(key);
    answer(body(request, sent)).await
}

fn policy(calls_limit: u32) -> Value {
    json!({
        "calls_limit": calls_limit,
        "per_tool_limit": 5,
        "timeout_seconds": 20,
        "max_result_bytes": 2048,
        "on_unknown": {"read_only": "abandon"},
    })
}

async fn put(node: &Node, policy: &Value) -> (u16, Value) {
    answer(body(node.ask(Method::PUT, POLICY), policy)).await
}

/// The policy that a run was queued with.
async fn frozen(node: &Node, run: &str) -> Value {
    let commits = node.journal(run).await;
    commits[0]["entries"][0]["data"]["spec"]["tool_policy"].clone()
}

async fn run_of(node: &Node, campaign: Option<u32>) -> (u16, Value) {
    let campaign = campaign.map(|revision| json!({"id": "c", "policy_revision": revision}));
    let mut asked = json!({"input": "hello", "enabled_tools": []});
    if let Some(campaign) = campaign {
        asked["campaign"] = campaign;
    }
    node.post("/v1/runs", &asked).await
}

fn id(made: &Value) -> &str {
    made["run_id"].as_str().unwrap_or_else(|| panic!("{made}"))
}

#[tokio::test]
async fn a_tool_policy_is_replaced_as_a_whole_and_a_run_keeps_the_one_it_was_queued_with() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    let (status, first) = node.get(POLICY).await;
    let shown =
        ["calls_limit", "per_tool_limit", "timeout_seconds", "max_result_bytes", "revision"];
    let values = |policy: &Value| shown.map(|name| policy[name].as_u64());
    let seed = [Some(30), Some(10), Some(30), Some(256_000), Some(1)];
    assert_eq!((status, values(&first)), (200, seed));
    let before = node.start_run(&json!({"input": "hello", "enabled_tools": []})).await;
    let (status, replaced) = put(&node, &policy(7)).await;
    let given = [Some(7), Some(5), Some(20), Some(2_048), Some(2)];
    assert_eq!((status, values(&replaced)), (200, given), "{replaced}");
    assert_eq!(replaced["replaced_by"], "admin");
    // The same again is no replacement; half a policy is none.
    assert_eq!(put(&node, &policy(7)).await.1["revision"], 2);
    assert_eq!(put(&node, &json!({"calls_limit": 9})).await.0, 400);
    let (_, after) = run_of(&node, None).await;
    assert_eq!(values(&frozen(&node, &before).await), seed);
    assert_eq!(values(&frozen(&node, id(&after)).await), given);
    // A kill and a restart later, both are what they were.
    node.kill();
    let node = Node::demo(folder.path()).await;
    assert_eq!(values(&node.get(&format!("/api{POLICY}")).await.1), given);
    assert_eq!(values(&frozen(&node, &before).await), seed);
    let (_, later) = run_of(&node, None).await;
    assert_eq!(values(&frozen(&node, id(&later)).await), given);
}

#[tokio::test]
async fn a_bound_outside_its_range_is_named_with_its_range_and_only_an_administrator_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let ranges = [
        ("calls_limit", 1, 100),
        ("per_tool_limit", 1, 30),
        ("timeout_seconds", 1, 60),
        ("max_result_bytes", 1_024, 750_000),
    ];
    for (name, least, most) in ranges {
        let over = json!(most + 1);
        for value in [json!(least - 1), over, json!(-1), json!(2.5), json!("7"), json!(1_u64 << 40)]
        {
            let mut asked = policy(7);
            asked[name] = value.clone();
            let (status, refused) = put(&node, &asked).await;
            let said = refused["error"]["message"].as_str().unwrap_or_default();
            let expected = format!("{name} is {value}: give {least} to {most}");
            assert_eq!((status, said), (400, expected.as_str()), "{refused}");
        }
        for value in [least, most] {
            let mut asked = policy(7);
            asked[name] = json!(value);
            assert_eq!(put(&node, &asked).await.0, 200, "{name} {value}");
        }
    }
    let (reader, operator) = (key(&node, "reader").await, key(&node, "operator").await);
    for key in [&reader, &operator] {
        assert_eq!(by(&node, key, Method::GET, POLICY, &Value::Null).await.0, 403);
        let (status, _) = by(&node, key, Method::PUT, POLICY, &policy(9)).await;
        assert_eq!(status, 403);
    }
    let admin = key(&node, "admin").await;
    let (status, replaced) = by(&node, &admin, Method::PUT, POLICY, &policy(9)).await;
    assert_eq!(status, 200);
    assert!(replaced["replaced_by"].as_str().unwrap().starts_with("key_"), "{replaced}");
}

#[tokio::test]
async fn a_campaigns_run_is_refused_under_another_policy_than_it_was_planned_under() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let (status, first) = run_of(&node, Some(1)).await;
    assert_eq!(status, 202, "{first}");
    let asked = json!({"input": "hello", "enabled_tools": [], "campaign": {"id": "c", "policy_revision": 1}});
    let repeat = async || {
        let request = node.ask(Method::POST, "/v1/runs").header("idempotency-key", "k");
        answer(body(request, &asked)).await
    };
    let (_, kept) = repeat().await;
    put(&node, &policy(7)).await;
    let (status, refused) = run_of(&node, Some(1)).await;
    let error = &refused["error"];
    assert_eq!((status, &error["code"]), (409, &json!("policy_revision_mismatch")), "{refused}");
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("revision 1") && said.contains("and 2 is in force"), "{said}");
    // What was started under the old one is found again, not refused.
    let (status, again) = repeat().await;
    assert_eq!((status, id(&again)), (202, id(&kept)));
    let (status, next) = run_of(&node, Some(2)).await;
    assert_eq!(status, 202, "{next}");
    assert_eq!(frozen(&node, id(&next)).await["revision"], 2);
}

#[tokio::test]
async fn a_grant_is_made_and_taken_back_by_whoever_may_answer_holds_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    let (runner, approver) = (key(&node, "runner").await, key(&node, "approver").await);
    let asked = json!({
        "project": "lab",
        "tool": "note.append",
        "equal": {"/mode": "append"},
        "glob": {"/path": "notes/*.md"},
        "expires_in_seconds": 3_600,
    });
    assert_eq!(by(&node, &runner, Method::POST, GRANTS, &asked).await.0, 403);
    let (status, made) = by(&node, &approver, Method::POST, GRANTS, &asked).await;
    assert_eq!((status, &made["tool"]), (201, &json!("note_append")), "{made}");
    assert_eq!(
        made["pattern"],
        json!({"equal": {"/mode": "append"}, "glob": {"/path": "notes/*.md"}})
    );
    assert!(made["by"].as_str().unwrap().starts_with("key_"), "{made}");
    for (change, says) in [
        (json!({"equal": {}, "glob": {}}), "names no argument"),
        (json!({"equal": {"mode": 1}}), "no JSON pointer"),
        (json!({"expires_in_seconds": 0}), "expires_in_seconds is 0"),
        (json!({"tool": "a b"}), "tool's name"),
    ] {
        let mut bad = asked.clone();
        bad.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (status, refused) = by(&node, &approver, Method::POST, GRANTS, &bad).await;
        let said = refused["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(status == 400 && said.contains(says), "{status} {said}");
    }
    node.kill();
    let node = Node::demo(folder.path()).await;
    let listed = async |path: &str| node.get(path).await.1["data"].as_array().unwrap().clone();
    let of_lab = format!("/api{GRANTS}?project=lab");
    assert_eq!(listed(&of_lab).await, std::slice::from_ref(&made));
    assert_eq!(listed(&format!("{GRANTS}?project=default")).await, [] as [Value; 0]);
    tests::process::wait_for("the read model has it", || async {
        (listed(GRANTS).await == std::slice::from_ref(&made)).then_some(())
    })
    .await;
    let one = format!("{GRANTS}/lab/{}", made["id"].as_str().unwrap());
    assert_eq!(by(&node, &runner, Method::DELETE, &one, &Value::Null).await.0, 403);
    for _ in 0..2 {
        assert_eq!(by(&node, &approver, Method::DELETE, &one, &Value::Null).await.0, 204);
    }
    let other = format!("{GRANTS}/lab/gra_{:032x}", 7);
    assert_eq!(by(&node, &approver, Method::DELETE, &other, &Value::Null).await.0, 404);
    assert_eq!(listed(&of_lab).await, [] as [Value; 0]);
}

/// A node whose configuration declares a soft and a hard gate of evidence.
async fn gated(folder: &std::path::Path) -> Node {
    let toml = "[gates.tests_pass]\nhardness = \"soft\"\n[gates.signed_off]\n";
    std::fs::write(folder.join("piton.toml"), toml).unwrap();
    Node::start(folder, &["--demo"], &[("PITON_CHAT_TWIN_WRITES", "0")]).await
}

#[tokio::test]
async fn a_gate_follows_its_evidence_and_a_soft_one_is_waived_for_one_run_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = gated(folder.path()).await;
    let (runner, approver) = (key(&node, "runner").await, key(&node, "approver").await);
    let gate = async |node: &Node, name: &str| node.get(&format!("/v1/gates/default/{name}")).await;
    for (name, state, why) in [
        ("tests_pass", "closed", "no evidence"),
        ("artifact_write", "open", ""),
        ("twin_write", "closed", "PITON_CHAT_TWIN_WRITES=0"),
    ] {
        let (status, one) = gate(&node, name).await;
        assert_eq!((status, &one["state"]), (200, &json!(state)), "{one}");
        assert!(one["why"].as_str().unwrap_or_default().contains(why), "{one}");
    }
    assert_eq!(gate(&node, "nobodys").await.0, 404);
    let evidence = "/v1/gates/default/tests_pass/evidence";
    let red = json!({"verdict": "failed", "text": "3 red", "reference": "build 7"});
    assert_eq!(by(&node, &runner, Method::POST, evidence, &red).await.0, 403);
    let (status, found) = by(&node, &approver, Method::POST, evidence, &red).await;
    assert_eq!((status, &found["state"], &found["version"]), (200, &json!("closed"), &json!(2)));
    assert!(found["why"].as_str().unwrap().contains("3 red"), "{found}");
    let run = node.start_run(&json!({"input": "slow 4000", "enabled_tools": []})).await;
    let waive = |name: &str| format!("/api/v1/runs/{run}/gates/{name}/waive");
    let reason = json!({"reason": "known flake"});
    let (status, _) = by(&node, &runner, Method::POST, &waive("tests_pass"), &reason).await;
    assert_eq!(status, 403);
    let empty = json!({"reason": ""});
    assert_eq!(by(&node, &approver, Method::POST, &waive("tests_pass"), &empty).await.0, 400);
    for (name, says) in
        [("signed_off", "hard"), ("twin_write", "read-only"), ("artifact_write", "hard")]
    {
        let (status, refused) = by(&node, &approver, Method::POST, &waive(name), &reason).await;
        let error = &refused["error"];
        assert_eq!((status, &error["code"]), (409, &json!("gate_refused")), "{refused}");
        assert!(error["message"].as_str().unwrap().contains(says), "{refused}");
    }
    for _ in 0..2 {
        let (status, met) = by(&node, &approver, Method::POST, &waive("tests_pass"), &reason).await;
        assert_eq!((status, &met["state"], &met["version"]), (200, &json!("open"), &json!(3)));
        let waivers = met["waivers"].as_array().unwrap();
        assert_eq!((waivers.len(), &waivers[0]["run"]), (1, &json!(run)), "{met}");
        assert_eq!(waivers[0]["reason"], "known flake");
    }
    // For everybody else it is closed, after a kill too, and green evidence ends the waiver.
    node.kill();
    let node = gated(folder.path()).await;
    let (_, after) = gate(&node, "tests_pass").await;
    assert_eq!((&after["state"], &after["version"]), (&json!("closed"), &json!(3)), "{after}");
    let green = json!({"verdict": "passed", "text": "all green"});
    let (_, open) = by(&node, &approver, Method::POST, evidence, &green).await;
    assert_eq!((&open["state"], &open["waivers"]), (&json!("open"), &json!([])), "{open}");
    let (_, listed) = node.get("/v1/gates?project=default").await;
    let names: Vec<&str> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["signed_off", "tests_pass", "twin_write"]);
    tests::process::wait_for("the read model has it", || async {
        let (_, all) = node.get("/v1/gates").await;
        (all["data"][0]["version"] == 4 && all["count"] == 1).then_some(())
    })
    .await;
}
