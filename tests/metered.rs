//! What models use, as it is reported, unknown or lost on the way: the reports of other gateways' users, played here.

use crate::wires::{BOTH, Behind, Told, Wires, one_of_two};
use events::quantity::Tokens;
use events::usage::Usage;
use futures_util::future::join_all;
use gateway::scripted::script::{Does, Line, Provider, Turn};
use gateway::scripted::{Fault, Script};
use providers::{Family, Mode};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tests::Node;
use tests::process::{answer, client, json as body, wait_for};
use tests::sse::Events;

/// A model with a price, and one without.
const PRICED: &str = "claude-sonnet-5-5";
const UNPRICED: &str = "claude-nobody";

fn usage(prompt: u64, cached: Option<u64>, written: Option<u64>, completion: u64) -> Usage {
    Usage {
        prompt: Some(Tokens(prompt)),
        completion: Some(Tokens(completion)),
        cached_input: cached.map(Tokens),
        cache_write: written.map(Tokens),
        ..Usage::default()
    }
}

fn says(usage: Usage) -> Turn {
    Turn::once(Does::Say(Line { usage: Some(usage), ..Line::text("one two three four five") }))
}

fn anthropic(turns: Vec<Turn>) -> Provider {
    Provider::new("anthropic", Some(Family::AnthropicMessages), turns)
}

async fn asked(wires: &Wires, model: &str, mode: Mode) -> Told {
    let told = wires.ask_of(&format!("anthropic:{model}"), "hello", mode).await;
    assert_eq!((told.status, told.is_whole), (200, true), "{told:?}");
    told
}

#[tokio::test]
async fn the_same_answer_costs_the_same_streamed_and_whole_and_no_price_is_not_free() {
    let provider = anthropic(vec![says(usage(1_010, Some(900), Some(100), 5))]);
    let wires = Wires::start(vec![provider], Behind::Nobody, &[]).await;
    let mut costs = vec![];
    for mode in BOTH {
        let told = asked(&wires, PRICED, mode).await;
        // The wire says 10 fresh, 900 read and 100 written; a client of OpenAI's API adds up what it is told.
        let said = &told.usage;
        assert_eq!(
            ["prompt_tokens", "completion_tokens", "total_tokens"].map(|name| said[name].as_u64()),
            [Some(1_010), Some(5), Some(1_015)],
            "{told:?}"
        );
        assert_eq!(said["prompt_tokens_details"]["cached_tokens"], 900, "{told:?}");
        let total = &told.object["usage"];
        assert_eq!((&total["calls"], &total["calls_unpriced"]), (&json!(1), &json!(0)), "{total}");
        costs.push(total["cost_usd"].as_f64().unwrap());
    }
    assert!(costs[0] > 0.0 && costs[0] == costs[1], "{costs:?}");
    for mode in BOTH {
        let told = asked(&wires, UNPRICED, mode).await;
        let total = &told.object["usage"];
        assert_eq!((&total["cost_usd"], &total["calls_unpriced"]), (&Value::Null, &json!(1)));
        assert_eq!((&total["prompt_tokens"], &total["lower_bound"]), (&json!(1_010), &json!(true)));
    }
}

#[tokio::test]
async fn a_zero_that_is_reported_is_a_zero_and_nothing_reported_is_unknown() {
    let zero = says(usage(0, None, None, 0));
    let silent = Turn::wrong(Line::text("one two three"), Fault::NoUsage);
    for mode in BOTH {
        let provider = anthropic(vec![zero.clone(), silent.clone()]);
        let wires = Wires::start(vec![provider], Behind::Nobody, &[]).await;
        let told = asked(&wires, PRICED, mode).await;
        assert_eq!(
            (&told.usage["prompt_tokens"], &told.usage["total_tokens"]),
            (&json!(0), &json!(0))
        );
        let total = &told.object["usage"];
        assert_eq!((&total["cost_usd"], &total["calls_without_usage"]), (&json!(0.0), &json!(0)));
        assert_eq!(total["lower_bound"], false, "{total}");
        let told = asked(&wires, PRICED, mode).await;
        assert!(told.usage.is_null(), "nothing is made up: {told:?}");
        let total = &told.object["usage"];
        assert_eq!((&total["cost_usd"], &total["calls_without_usage"]), (&Value::Null, &json!(1)));
        assert_eq!(total["lower_bound"], true, "{total}");
        assert!(
            total["cost_unknown_at_most_usd"].as_f64().is_some_and(|most| most > 0.0),
            "{total}"
        );
    }
}

/// A stream that says twenty words, a twentieth of a second apart.
fn slowly() -> Turn {
    let text: String = (1..=20).map(|word| format!("word{word} ")).collect();
    let line = Line { usage: Some(usage(100, None, None, 20)), ..Line::text(&text) };
    let mut turn = Turn::once(Does::Say(line));
    turn.how.pace = Duration::from_millis(50);
    turn
}

/// Opens the stream and reads three deltas of it.
async fn three_deltas(wires: &Wires) -> (Events, String) {
    let request = json!({"model": format!("anthropic:{PRICED}"), "stream": true,
        "messages": [{"role": "user", "content": "hello"}]});
    let mut events =
        Events::open(body(wires.node.ask(Method::POST, "/v1/chat/completions"), &request)).await;
    let mut deltas = 0;
    while deltas < 3 {
        let event = events.next().await.expect("the stream goes on");
        deltas += usize::from(
            event.data["choices"][0]["delta"]["content"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
        );
    }
    let (_, runs) = wires.node.get("/v1/runs").await;
    (events, runs["data"][0]["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_client_that_hangs_up_is_metered_once_and_in_full_and_a_stop_ends_the_call() {
    let wires = Wires::start(vec![anthropic(vec![slowly()])], Behind::Nobody, &[]).await;
    let provider = &wires.scripted.providers[0];
    let (events, run) = three_deltas(&wires).await;
    drop(events);
    // The provider bills it to the end, so it is read to the end.
    let ended = wires.node.ended(&run).await;
    assert_eq!(ended["outcome"], "completed", "{ended}");
    let total = &ended["usage"];
    assert_eq!(
        ["calls", "prompt_tokens", "completion_tokens"].map(|name| total[name].as_u64()),
        [Some(1), Some(100), Some(20)],
        "{total}"
    );
    assert_eq!((provider.calls(), provider.answering()), (1, 0));

    // Who wants it to end stops the run: the call ends with it, and what it may have cost is told.
    let (_events, run) = three_deltas(&wires).await;
    assert_eq!(wires.node.post(&format!("/v1/runs/{run}/stop"), &json!({})).await.0, 200);
    let gone = async || (provider.answering() == 0).then_some(());
    wait_for("the provider's socket is closed", gone).await;
    let ended = wires.node.ended(&run).await;
    assert_eq!(
        (&ended["outcome"], &ended["usage"]["calls"]),
        (&json!("cancelled"), &json!(1)),
        "{ended}"
    );
    let total = &ended["usage"];
    let known = total["completion_tokens"].as_u64().unwrap();
    assert!(known >= 3 || total["calls_unknown"] == 1, "{total}");
    assert_eq!(total["lower_bound"], true, "{total}");
    assert_eq!(provider.calls(), 2);
}

#[tokio::test]
async fn twenty_calls_that_never_connect_leave_nothing_reserved() {
    let refuses = Script::read("[[provider]]\nname = \"anthropic\"\nrefuse = true\n").unwrap();
    let wires = Wires::start(refuses.providers, Behind::Nobody, &[]).await;
    let node = &wires.node;
    let set = body(node.ask(Method::PUT, "/v1/budgets/all"), &json!({"usd": 100, "per": "day"}));
    assert_eq!(answer(set).await.0, 200);
    let listed = async || (node.get("/v1/budgets").await.1["count"] == 1).then_some(());
    wait_for("the node knows the budget", listed).await;
    let all = join_all((0..20).map(async |nth| {
        wires.ask_of(&format!("anthropic:{PRICED}"), &format!("hello {nth}"), one_of_two(nth)).await
    }))
    .await;
    assert!(all.iter().all(|told| told.attempts == ["transport"]), "{all:?}");
    let rest = wait_for("nothing is held", async || {
        let (_, budget) = node.get("/v1/budgets/all").await;
        (budget["slices"] == 0 && budget["reserved"]["usd"] == 0.0).then_some(budget)
    })
    .await;
    assert_eq!(
        (&rest["spent"]["usd"], &rest["reserved"]["calls"]),
        (&json!(0.0), &json!(0)),
        "{rest}"
    );
}

#[tokio::test]
async fn forty_writers_on_one_key_are_summed_to_the_token() {
    const WRITERS: u64 = 40;
    let provider = anthropic(vec![says(usage(1_000, Some(10), None, 100))]);
    let wires = Wires::start(vec![provider], Behind::Nobody, &[]).await;
    let node: &Node = &wires.node;
    let (_, key) = node.post("/v1/keys", &json!({"name": "ci", "role": "runner"})).await;
    let scope = format!("key~{}", key["id"].as_str().unwrap());
    let path = format!("/v1/budgets/{scope}");
    assert_eq!(answer(body(node.ask(Method::PUT, &path), &json!({"calls": 1_000}))).await.0, 200);
    let listed = async || (node.get("/v1/budgets").await.1["count"] == 1).then_some(());
    wait_for("the node knows the budget", listed).await;
    let asked = json!({"model": format!("anthropic:{PRICED}"), "messages": [{"role": "user", "content": "hi"}]});
    let all = join_all((0..WRITERS).map(async |_| {
        let request = client().post(format!("{}/v1/chat/completions", node.url));
        answer(body(request.bearer_auth(key["key"].as_str().unwrap()), &asked)).await.0
    }))
    .await;
    assert!(all.iter().all(|status| *status == 200), "{all:?}");
    let total = wait_for("all are counted", async || {
        let (_, total) = node.get("/v1/usage").await;
        (total["calls"] == WRITERS).then_some(total)
    })
    .await;
    assert_eq!(
        ["prompt_tokens", "completion_tokens", "cached_input_tokens"]
            .map(|name| total[name].as_u64()),
        [Some(1_000 * WRITERS), Some(100 * WRITERS), Some(10 * WRITERS)],
        "{total}"
    );
    let spent = wait_for("every slice is back", async || {
        let (_, budget) = node.get(&path).await;
        (budget["slices"] == 0).then_some(budget)
    })
    .await;
    assert_eq!(spent["spent"]["calls"], WRITERS, "{spent}");
}
