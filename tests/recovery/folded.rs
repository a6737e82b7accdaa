//! A conversation that is too long: it is folded, never lost, and never asked for ever.

use super::*;
use crate::wires::{Behind, Wires};
use gateway::scripted::script::{Does, Line, Provider, Turn};
use providers::play::Complaint;
use providers::{Class, Family};

/// One turn's words: enough that a few turns are worth a fold.
fn long(text: &str) -> String {
    format!("{text} {}", "and so on ".repeat(150))
}

fn texts(request: &tests::upstream::Asked) -> Vec<String> {
    let all = request.json()["messages"].as_array().cloned().unwrap();
    all.iter().map(|one| one["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn overflows() -> String {
    let told = r#"{"error":{"message":"maximum context length","code":"context_length_exceeded"}}"#;
    response("400 x", "application/json", told)
}

/// A node in front of one provider that nobody knows the window of.
async fn node(primary: &Upstream, more: &[(&str, &str)]) -> (TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let url = [("PITON_VLLM_BASE_URL", primary.url.as_str())];
    let node = Node::start(folder.path(), &[], &[&url[..], more].concat()).await;
    (folder, node)
}

/// The journal has each byte as it was, and decides each request again by the same name.
async fn is_true(node: &Node, run: &str) {
    let (status, verified) = node.get(&format!("/v1/runs/{run}/verify")).await;
    assert_eq!((status, &verified["ok"]), (200, &json!(true)), "{verified}");
    let (status, replayed) = node.post(&format!("/v1/runs/{run}/replay"), &json!({})).await;
    assert_eq!((status, &replayed["ok"]), (200, &json!(true)), "{replayed}");
}

/// Each intent of a run with how it was folded.
async fn folds(node: &Node, run: &str) -> Vec<Value> {
    let commits = node.journal(run).await;
    let entries = commits.iter().flat_map(|commit| commit["entries"].as_array().unwrap());
    let asked = entries.filter(|entry| entry["name"] == "model_asked");
    asked.map(|entry| entry["data"]["folded"].clone()).collect()
}

#[tokio::test]
async fn an_overflow_is_folded_once_and_answered_and_the_session_keeps_every_word() {
    let mut script: Vec<String> = (0..6).map(|nth| says(&long(&format!("answer {nth}")))).collect();
    script.extend([overflows(), says("short again"), says("and on")]);
    let primary = Upstream::start(script).await;
    let (_folder, node) = node(&primary, &[]).await;
    let mut talk = Talk::new("folded", "vllm:m");
    for nth in 0..6 {
        assert_eq!(talk.say(&node, &long(&format!("question {nth}"))).await.0, 200);
    }
    let (status, run, told) = talk.say(&node, "what was the first question?").await;
    assert_eq!((status, &told["choices"][0]["message"]["content"]), (200, &json!("short again")));
    let sent = primary.asked();
    let (whole, folded) = (texts(&sent[6]), texts(&sent[7]));
    assert_eq!((sent.len(), whole.len()), (8, 13));
    // Asked once more for less: what is older in a note that quotes it, the question as it was.
    assert!(sent[7].body.len() * 10 <= sent[6].body.len() * 9, "{folded:?}");
    assert!(folded.len() < whole.len() && folded.last() == whole.last(), "{folded:?}");
    for said in ["question 0 and so on", "answer 0 and so on", "…[truncated "] {
        assert!(folded[0].contains(said), "{said}: {}", folded[0]);
    }
    let tried = attempts(&node, &run).await;
    assert_eq!((tried.len(), &tried[0]["class"]), (1, &json!("context_overflow")), "{tried:?}");
    let folds = folds(&node, &run).await;
    assert!(folds[0].is_null() && folds[1]["turns"]["to"].as_u64() > Some(0), "{folds:?}");
    let (_, object) = node.get(&format!("/v1/runs/{run}")).await;
    let context = &object["context"];
    assert_eq!((&context["phase"], &context["messages"]), (&json!("final"), &json!(14)));
    assert!(context["messages_folded"].as_u64() > Some(5), "{context}");
    is_true(&node, &run).await;
    // It was a view: the session has every word, and so has the next turn's request.
    let all = talk.messages.clone();
    let kept = wait_for("the session has the turn", async || {
        let id = object["session_id"].as_str().unwrap();
        let (_, got) = node.get(&format!("/v1/sessions/{id}/messages")).await;
        got["data"].as_array().filter(|kept| kept.len() == all.len()).cloned()
    })
    .await;
    assert!(format!("{kept:?}").matches("question 0 and so on").count() == 1, "{kept:?}");
    assert!(!format!("{kept:?}").contains("Piton folded"));
    assert_eq!(talk.say(&node, "go on").await.0, 200);
    assert_eq!(texts(primary.asked().last().unwrap()).len(), 15);
}

#[tokio::test]
async fn what_is_too_long_even_folded_goes_to_the_next_and_then_ends_as_unfit() {
    let conversation = |nth: usize| {
        let turn = |n: usize| {
            let said = long(&format!("{nth} {n}"));
            [
                json!({"role": "user", "content": said}),
                json!({"role": "assistant", "content": said}),
            ]
        };
        let mut messages: Vec<Value> = (0..6).flat_map(turn).collect();
        messages.push(json!({"role": "user", "content": "and now?"}));
        json!({"model": "vllm:m", "messages": messages})
    };
    let primary = Upstream::start(vec![overflows(); 5]).await;
    let backup = Upstream::start(vec![says("I read more"), overflows(), overflows()]).await;
    let (_folder, node) = pair(&primary, &backup, "0").await;
    let (status, run, told) = turn(&node, None, &conversation(0)).await;
    assert_eq!((status, &told["choices"][0]["message"]["content"]), (200, &json!("I read more")));
    assert_eq!((primary.asked().len(), backup.asked().len()), (2, 1));
    // The next one gets it whole.
    assert_eq!(texts(&backup.asked()[0]), texts(&primary.asked()[0]));
    is_true(&node, &run).await;

    let (status, run, told) = turn(&node, None, &conversation(1)).await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (400, &json!("context_length_exceeded")),
        "{told}"
    );
    assert_eq!(
        (primary.asked().len(), backup.asked().len()),
        (4, 3),
        "each whole, and once folded"
    );
    let run =
        if run.is_empty() { told["error"]["run_id"].as_str().unwrap().to_owned() } else { run };
    let (_, object) = node.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(
        (&object["reason"], &object["class"]),
        (&json!("context_unfit"), &json!("context_overflow")),
        "{object}"
    );
    assert!(object["detail"].as_str().unwrap().contains("folded once and is still too long"));
    is_true(&node, &run).await;

    // One long question: there is nothing to fold, so it is not asked twice.
    let alone = json!({"model": "vllm:m", "messages": [{"role": "user", "content": long("q")}]});
    let before = backup.asked().len();
    let backup_says = turn(&node, None, &alone).await.0;
    assert_eq!((primary.asked().len(), backup.asked().len()), (5, before + 1), "{backup_says}");
}

#[tokio::test]
async fn a_session_beyond_its_budget_of_history_is_sent_its_newest_turns_whole() {
    let script: Vec<String> = (0..8).map(|nth| says(&long(&format!("answer {nth}")))).collect();
    let primary = Upstream::start(script).await;
    // 4,000 bytes: a turn has about 3,200.
    let (_folder, node) = node(&primary, &[("PITON_HISTORY_TOKENS", "1000")]).await;
    let mut talk = Talk::new("budgeted", "vllm:m");
    let mut last = String::new();
    for nth in 0..8 {
        let (status, run, told) = talk.say(&node, &long(&format!("question {nth}"))).await;
        assert_eq!(status, 200, "{told}");
        last = run;
    }
    let sent = texts(primary.asked().last().unwrap());
    assert_eq!(sent.len(), 4, "a note, the newest turn, the question: {sent:?}");
    for nth in 0..6 {
        assert!(sent[0].contains(&format!("question {nth} ")), "{nth}: {}", sent[0]);
    }
    assert_eq!((&sent[1], &sent[2]), (&long("question 6"), &long("answer 6")));
    assert_eq!(sent[3], long("question 7"));
    assert!(folds(&node, &last).await[0]["turns"].is_object());
    is_true(&node, &last).await;
}

/// The scripted provider refuses on every wire as each family's providers do.
#[tokio::test]
async fn every_family_s_overflow_is_folded_once_on_its_own_wire() {
    let names = ["vllm", "anthropic", "gemini", "bedrock", "openai"];
    let families = [
        Family::OpenaiChat,
        Family::AnthropicMessages,
        Family::Gemini,
        Family::Bedrock,
        Family::OpenaiResponses,
    ];
    let plays = names.into_iter().zip(families).map(|(name, family)| {
        let long = Turn::once(Does::Refuse(Complaint::of(Class::ContextOverflow)));
        let says = Turn::once(Does::Say(Line::text("It fits.")));
        Provider::new(name, Some(family), vec![long, says])
    });
    let wires = Wires::start(plays.collect(), Behind::Nobody, &[]).await;
    let said =
        |role: &str, n: usize| json!({"role": role, "content": long(&format!("{role} {n}"))});
    let mut messages = vec![json!({"role": "system", "content": "be brief"})];
    messages.extend((0..6).flat_map(|n| [said("user", n), said("assistant", n)]));
    messages.push(json!({"role": "user", "content": "and now?"}));
    for name in names {
        let asked = json!({"model": format!("{name}:m"), "messages": messages});
        let (status, run, told) = turn(&wires.node, None, &asked).await;
        assert_eq!(
            (status, &told["choices"][0]["message"]["content"]),
            (200, &json!("It fits.")),
            "{name}: {told}"
        );
        let tried = attempts(&wires.node, &run).await;
        assert_eq!((tried.len(), &tried[0]["class"]), (1, &json!("context_overflow")), "{name}");
        let folds = folds(&wires.node, &run).await;
        assert!(folds.len() == 2 && folds[0].is_null() && folds[1].is_object(), "{folds:?}");
        is_true(&wires.node, &run).await;
    }
    let calls: Vec<u64> = wires.scripted.providers.iter().map(|one| one.calls()).collect();
    assert_eq!(calls[..5], [2; 5]);
}
