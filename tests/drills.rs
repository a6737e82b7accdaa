//! Drills as a user runs them: three providers of which one is limited and one cuts its streams, and a script in a process of
//! its own.

use crate::wires::{Behind, DEADLINE, Wires, one_of_two};
use gateway::scripted::script::{Does, Line, Provider, Turn};
use gateway::scripted::{Fault, Script};
use providers::Family;
use serde_json::{Value, json};
use tests::Node;
use tests::process::{json as body, wait_for};
use tokio::io::AsyncBufReadExt;

/// The journal has every attempt, in order: what it was, and whether it is paid.
async fn journal_is_true(node: &Node, runs: &[String]) {
    for run in runs {
        let commits = node.journal(run).await;
        let entries =
            commits.iter().flat_map(|commit| commit["entries"].as_array().unwrap().clone());
        let told = |entry: &Value| {
            let of = |name: &str| entry["data"][name].as_str().unwrap_or_default().to_owned();
            let name = entry["name"].as_str().unwrap();
            let told = format!("{name} {} {}", of("class"), of("charged"));
            name.starts_with("model_").then(|| told.trim_end().to_owned())
        };
        let calls: Vec<String> = entries.filter_map(|entry| told(&entry)).collect();
        let then = [
            "model_asked",
            "model_failed rate_limited nothing",
            "model_asked",
            "model_failed stream_truncated at_most_reserved",
            "model_asked",
            "model_answered",
        ];
        assert_eq!(calls, then);
    }
}

/// What the third reported counts once a call; what the second may have cost is unknown and not nothing.
async fn usage_is_true(node: &Node) {
    let usage = wait_for("all are counted", async || {
        let (_, usage) = node.get("/v1/usage").await;
        (usage["calls"] == 18).then_some(usage)
    })
    .await;
    let line = |name: &str| {
        let lines = usage["by_model"].as_array().unwrap();
        lines.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{usage}")).clone()
    };
    let served = line("gemini:gemini-3.8-flash");
    assert_eq!(
        (&served["prompt_tokens"], &served["completion_tokens"], &served["lower_bound"]),
        (&json!(6_000), &json!(600), &json!(false)),
        "{usage}"
    );
    let lost = line("anthropic:claude-sonnet-5-5");
    assert_eq!(
        (&lost["calls_unknown"], &lost["lower_bound"]),
        (&json!(6), &json!(true)),
        "{usage}"
    );
    assert!(lost["cost_unknown_at_most_usd"].as_f64().is_some_and(|most| most > 0.0), "{usage}");
    assert_eq!(line("vllm:m")["calls_unknown"], 0, "what was refused is known to be free: {usage}");
}

#[tokio::test]
async fn a_client_of_three_providers_sees_no_error_while_one_is_limited_and_one_cuts_its_streams() {
    let limited = Script::read(
        "[[provider]]\nname = \"vllm\"\nfamily = \"openai_chat\"\n[[provider.turn]]\nfail = \"rate_limited\"\nhint_ms = 60000\nhint_in = \"prose\"\n",
    );
    let limited = limited.unwrap().providers.remove(0);
    let mut cut = Turn::wrong(Line::text("This is never the whole of it."), Fault::Cut);
    cut.how.after = Some(0);
    let cuts = Provider::new("anthropic", Some(Family::AnthropicMessages), vec![cut]);
    let text = "The third of three answers.";
    let usage = events::usage::Usage {
        prompt: Some(events::quantity::Tokens(1_000)),
        completion: Some(events::quantity::Tokens(100)),
        ..events::usage::Usage::default()
    };
    let line = Line { usage: Some(usage), ..Line::text(text) };
    let serves = Provider::new("gemini", Some(Family::Gemini), vec![Turn::once(Does::Say(line))]);
    let chain = "anthropic:claude-sonnet-5-5,gemini:gemini-3.8-flash";
    let more = [("PITON_FALLBACK_PROVIDERS", chain)];
    let wires = Wires::start(vec![limited, cuts, serves], Behind::Nobody, &more).await;
    let mut runs = vec![];
    for nth in 0..6 {
        let told = wires.ask("vllm", "hello", one_of_two(nth)).await;
        assert_eq!((told.status, told.said.as_str(), told.is_whole), (200, text, true), "{told:?}");
        assert!(told.error.is_null(), "{told:?}");
        assert_eq!(told.usage["prompt_tokens"], 1_000, "{told:?}");
        assert_eq!(told.attempts, ["rate_limited", "stream_truncated"], "{told:?}");
        assert_eq!(told.object["served_by"], "gemini:gemini-3.8-flash", "{told:?}");
        runs.push(told.run.clone());
    }
    journal_is_true(&wires.node, &runs).await;
    usage_is_true(&wires.node).await;
    let seen = wait_for("every fallback is counted", async || {
        let (_, seen) = wires.node.get("/v1/harness/providers").await;
        (seen["fallback_total"] == 6).then_some(seen)
    })
    .await;
    assert_eq!(seen["fallback_count"], 6, "{seen}");
    let last = &seen["last_fallback"];
    assert_eq!(
        ["primary", "fallback", "reason"].map(|name| last[name].as_str().unwrap()),
        ["vllm:m", "gemini:gemini-3.8-flash", "call_failed"]
    );
    let calls: Vec<u64> = wires.scripted.providers.iter().map(|one| one.calls()).collect();
    assert_eq!(calls[..3], [6, 6, 6]);
}

#[tokio::test]
async fn a_script_is_played_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drill.toml");
    let text = "[[provider]]\nname = \"p\"\nfamily = \"anthropic_messages\"\n[[provider.turn]]\nfail = \"overloaded\"\n[[provider.turn]]\nsay = \"So.\"\n";
    std::fs::write(&file, text).unwrap();
    let mut command = tokio::process::Command::new(tests::process::binary());
    command.args(["scripted", "--json", "--script"]).arg(&file);
    let mut child =
        command.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = String::new();
    // One document, however many lines it has.
    let told: Value = loop {
        let line =
            tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
        said.push_str(&line);
        if let Ok(told) = serde_json::from_str(&said) {
            break told;
        }
    };
    let url = told["providers"][0]["base_urls"]["anthropic_messages"].as_str().unwrap().to_owned();
    let ask = async || {
        let asked =
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        tests::process::answer(body(
            tests::process::client().post(format!("{url}/v1/messages")),
            &asked,
        ))
        .await
    };
    let (status, refused) = ask().await;
    assert_eq!((status, &refused["error"]["type"]), (529, &json!("overloaded_error")), "{refused}");
    let (status, answered) = ask().await;
    assert_eq!((status, &answered["content"][0]["text"]), (200, &json!("So.")), "{answered}");
    let calls = tests::process::client().get(format!("{url}/scripted"));
    let calls = tests::process::answer(calls).await.1;
    assert_eq!((&calls["calls"], &calls["answering"]), (&json!(2), &json!(0)), "{calls}");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = tokio::time::timeout(DEADLINE, child.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");
}
