//! The durable selection, and the providers an operator looks at: who serves what has no route, on one node and on
//! several, and whether a provider answers.

use crate::keyed::Upstream;
use crate::nodes::piton;
use crate::probe::{by, landed};
use events::aggregate::{Aggregate, Wake};
use events::quantity::Instant;
use events::record::{Actor, Boot, Epoch, JournalId};
use events::settings::{Event, Selected, Settings, SettingsId};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant as Watch};
use store::{Faults, Open, Store};
use tests::Node;
use tests::fleet::Cluster;
use tests::process::{ADMIN_KEY, answer, json as body, wait_for};

const SELECTION: &str = "/v1/harness/selection";

async fn select(node: &Node, provider: &str, model: &str) -> (u16, Value) {
    let asked = json!({"provider": provider, "model": model});
    answer(body(node.ask(Method::PUT, SELECTION), &asked)).await
}

/// Who serves a run of a role, and who said so.
async fn served(node: &Node, role: &str) -> [String; 2] {
    let asked = json!({"input": "hello", "role": role, "enabled_tools": []});
    let ended = node.ended(&node.start_run(&asked).await).await;
    ["served_by", "route_source"].map(|name| ended[name].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_selection_serves_what_has_no_route_and_survives_a_restart() {
    let (upstream, folder) = (Upstream::start().await, tempfile::tempdir().unwrap());
    let url = upstream.url();
    let told = [
        ("PITON_OPENAI_BASE_URL", url.as_str()),
        ("OPENAI_API_KEY", "sk-planted"),
        ("PITON_DEFAULT_MODEL", "openai:a"),
        ("PITON_ROUTE_PLANNER", "openai:c"),
    ];
    let mut node = Node::start(folder.path(), &[], &told).await;
    assert_eq!(served(&node, "chat").await, ["openai:a", "default"]);
    let (status, set) = select(&node, "openai", "b").await;
    assert_eq!((status, &set["in_force"], &set["problem"]), (200, &json!(true), &Value::Null));
    assert_eq!(set["selected_by"], "admin");
    // The very next request goes by it; a role with a route does not.
    assert_eq!(served(&node, "chat").await, ["openai:b", "selection"]);
    assert_eq!(served(&node, "planner").await, ["openai:c", "env"]);
    let (_, routing) = node.get("/v1/harness/routing?role=planner").await;
    assert_eq!(
        (&routing["default_model"], &routing["default_source"]),
        (&json!("b"), &json!("selection"))
    );
    let places = routing["data"][0]["places"].as_array().unwrap();
    assert_eq!(places.last(), Some(&json!({"source": "selection", "route": "openai:b"})));

    // What can not work is refused and changes nothing.
    for (provider, model, part) in [
        ("anthropic", "gpt-6", "OpenAI"),
        ("openai-codex", "openai/gpt-6", "slash"),
        ("antropic", "claude-x", "anthropic"),
        ("vertex", "gemini-x", "not supported yet"),
        ("openai", "", "selection is"),
    ] {
        let (status, refused) = select(&node, provider, model).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!("config_error")), "{refused}");
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains(part), "{part} in {why}");
    }
    let asked = json!({"name": "r", "role": "runner"});
    let (_, key) = node.post("/v1/keys", &asked).await;
    let weak = tests::process::client().put(format!("{}{SELECTION}", node.url));
    let weak = weak.bearer_auth(key["key"].as_str().unwrap());
    let asked = json!({"provider": "openai", "model": "a"});
    assert_eq!(answer(body(weak, &asked)).await.0, 403);

    assert!(node.stop().await.success());
    drop(node);
    let node = Node::start(folder.path(), &[], &told).await;
    assert_eq!(served(&node, "chat").await, ["openai:b", "selection"]);
    let (code, shown, told) = piton(folder.path(), &["selection", "show", "--json"]).await;
    assert_eq!(code, 0, "{told}");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["provider"], &shown["model"]), (&json!("openai"), &json!("b")));
    let (code, _, told) = piton(folder.path(), &["selection", "set", "deepseek:x"]).await;
    assert!(code == 0 && told.contains("DEEPSEEK_API_KEY"), "{told}");
    // One without a key is refused at the call, by name, and never skipped.
    let (status, refused) = node.post("/v1/runs", &json!({"input": "x"})).await;
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("route_unconfigured")));
    let (_, health) = node.get("/health/detailed").await;
    assert_eq!(health["model_routing"]["status"], "degraded", "{health}");
    assert_eq!(piton(folder.path(), &["selection", "clear"]).await.0, 0);
    assert_eq!(served(&node, "chat").await, ["openai:a", "default"]);
    assert_eq!(piton(folder.path(), &["selection", "set", "nonsense"]).await.0, 2);
}

#[tokio::test]
async fn a_selection_is_followed_by_every_node_within_a_second() {
    let cluster = Cluster::of(2).await;
    let [first, second] = &cluster.nodes[..] else { panic!() };
    for (node, other, model) in [(first, second, "demo-2"), (second, first, "demo")] {
        let (status, set) = select(node, "demo", model).await;
        assert_eq!(status, 200, "{set}");
        let begun = Watch::now();
        wait_for("the other node goes by it", || async {
            let (_, routing) = other.get("/v1/harness/routing").await;
            let goes =
                routing["default_model"] == model && routing["default_source"] == "selection";
            goes.then_some(())
        })
        .await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let expected = [format!("demo:{model}"), "selection".to_owned()];
        assert_eq!(served(other, "chat").await, expected);
        let (_, shown) = other.get(SELECTION).await;
        assert_eq!((&shown["model"], &shown["in_force"]), (&json!(model), &json!(true)));
    }
}

/// As an older build, or a stranger, might have stored it.
#[tokio::test]
async fn a_stored_selection_that_fails_the_family_check_is_ignored_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::demo(folder.path()).await;
    assert!(node.stop().await.success());
    drop(node);
    let path = folder.path().join("journal.db");
    let (boot, fresh, faults) = (Boot(1), JournalId(1), Faults::none());
    let store = Store::open(Open { path, boot, fresh, faults }).unwrap();
    let stream = Settings::stream(&SettingsId::Harness);
    let epoch = store.own(stream.partition(), Epoch::default()).await.unwrap();
    let tail = store.tail(&stream).await.unwrap();
    let mut append = by((epoch, store.boot()), &store, &stream, tail, &[&b""[..]]);
    let (provider, model) = ("anthropic".to_owned(), "gpt-6".to_owned());
    let (by, at) = (Actor::Admin, Instant(1_700_000_000_000_000));
    let selected = Event::Selected(Selected { provider, model, by, at });
    append.commit.entries = vec![Settings::encode(&selected).unwrap()];
    append.wake = Wake::OnCommand;
    landed(&store.append(append).await);
    store.close().await;

    let node = Node::demo(folder.path()).await;
    assert_eq!(served(&node, "chat").await, ["demo:demo", "default"]);
    let (_, shown) = node.get(SELECTION).await;
    assert_eq!((&shown["model"], &shown["in_force"]), (&json!("gpt-6"), &json!(false)));
    assert!(shown["problem"].as_str().unwrap().contains("ignored"), "{shown}");
    assert_eq!(shown["effective"]["source"], "default");
    let (_, providers) = node.get("/v1/harness/providers").await;
    assert!(providers["problems"][0].as_str().unwrap().contains("ignored"), "{providers}");
}

/// A node with a provider of two profiles, of which one is refused, one that nobody listens for, and one that is never
/// asked.
struct Looked {
    upstream: Upstream,
    node: Node,
    folder: tempfile::TempDir,
}

impl Looked {
    async fn start() -> Self {
        let (upstream, folder) = (Upstream::start().await, tempfile::tempdir().unwrap());
        let url = upstream.url();
        // Discard: nobody listens there.
        let told = [
            ("PITON_OPENAI_BASE_URL", url.as_str()),
            ("PITON_VLLM_BASE_URL", "http://127.0.0.1:9/v1"),
            ("ANTHROPIC_API_KEY", "sk-planted-claude"),
        ];
        let node = Node::start(folder.path(), &[], &told).await;
        for (name, key) in [("good", "sk-planted-good"), ("bad", "sk-planted-bad")] {
            let asked = json!({"provider": "openai", "profile": name, "key": key});
            assert_eq!(node.post("/v1/harness/credentials", &asked).await.0, 201);
        }
        let refusal =
            r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#;
        upstream.answer("sk-planted-bad", 401, &[], refusal);
        wait_for("both profiles are known", || async {
            let (_, list) = node.get("/v1/harness/providers").await;
            (row(&list, "id", "openai")["profiles"].as_array()?.len() == 2).then_some(())
        })
        .await;
        Self { upstream, node, folder }
    }

    /// A verb of `piton providers`: how it ended, and what it answered, without a secret.
    async fn verb(&self, words: &[&str]) -> (i32, Value) {
        let words = [&["providers"], words, &["--json"]].concat();
        let (code, out, told) = piton(self.folder.path(), &words).await;
        assert!(!out.contains("planted") && !told.contains("planted"), "{out}{told}");
        (code, serde_json::from_str(&out).unwrap_or(Value::String(told)))
    }
}

#[track_caller]
fn row(list: &Value, name: &str, is: &str) -> Value {
    let rows = list["data"].as_array().unwrap();
    rows.iter().find(|row| row[name] == is).unwrap_or_else(|| panic!("{is} in {list}")).clone()
}

#[tokio::test]
async fn an_operator_sees_who_can_be_asked_with_what_and_whether_he_answers() {
    let looked = Looked::start().await;
    let (code, list) = looked.verb(&["ls"]).await;
    assert_eq!(code, 0, "{list}");
    let openai = row(&list, "id", "openai");
    assert_eq!((&openai["configured"], &openai["default"]), (&json!(true), &json!(true)));
    assert_eq!(openai["capabilities"]["family"], "openai_chat");
    assert_eq!(row(&list, "id", "anthropic")["capabilities"]["prompt_cache"], "breakpoints");

    // A look costs nothing, asks no model, and changes nothing of what is known.
    let (code, told) = looked.verb(&["test", "openai"]).await;
    assert_eq!(code, 9, "{told}");
    let (good, bad) = (row(&told, "profile", "good"), row(&told, "profile", "bad"));
    assert_eq!((&good["ok"], &good["models"]), (&json!(true), &json!(1)));
    assert!(good["latency_ms"].is_u64(), "{good}");
    let seen = ["ok", "class", "status"].map(|name| bad[name].clone());
    assert_eq!(seen, [json!(false), json!("auth_invalid"), json!(401)]);
    assert_eq!(looked.upstream.keys(), [] as [String; 0], "no model was asked");
    assert_eq!(looked.verb(&["test", "openai", "--profile", "good"]).await.0, 0);
    assert_eq!(looked.verb(&["test", "openai", "--profile", "none"]).await.0, 5);
    let (code, down) = looked.verb(&["test", "vllm"]).await;
    assert_eq!((code, &down["data"][0]["class"]), (9, &json!("transport")), "{down}");

    // A real call is a run, and stands in the journal.
    let (code, called) = looked.verb(&["test", "openai", "--call", "gpt-x"]).await;
    let run = called["run_id"].as_str().unwrap();
    let (_, run) = looked.node.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(run["model"], "openai:gpt-x", "{run}");
    assert_eq!(code == 0, called["served_by"] == "openai:gpt-x", "{called}");
}

#[tokio::test]
async fn models_are_shown_with_their_price_and_day_and_profiles_with_their_health() {
    let looked = Looked::start().await;
    let (code, models) = looked.verb(&["models", "anthropic"]).await;
    assert_eq!(code, 0, "{models}");
    let claude = row(&models, "id", "anthropic:claude-sonnet-5-5");
    for name in ["context_tokens_max", "output_tokens_max", "input_usd_per_million", "as_of"] {
        assert!(!claude[name].is_null(), "{name} in {claude}");
    }
    assert!(models["data"].as_array().unwrap().iter().all(|row| row["provider"] == "anthropic"));
    let own = row(&looked.verb(&["models"]).await.1, "id", "openai:gpt-x");
    assert_eq!((&own["priced"], &own["input_usd_per_million"]), (&json!(false), &Value::Null));
    assert_eq!(looked.verb(&["models", "nobody"]).await.0, 2);

    let asked = json!({"action": "mark_dead", "provider": "openai", "profile": "bad"});
    assert_eq!(looked.node.post("/v1/harness/credentials", &asked).await.0, 200);
    wait_for("it is dead", || async {
        let (_, health) = looked.verb(&["health"]).await;
        let bad = row(&health, "profile", "bad");
        (bad["state"] == "dead" && !bad["reason"].is_null()).then_some(())
    })
    .await;
    let (_, health) = looked.verb(&["health"]).await;
    assert_eq!(row(&health, "provider", "vllm")["state"], "keyless");
    assert_eq!(row(&health, "profile", "good")["state"], "healthy");
    let plain = looked.node.ask(Method::GET, "/v1/harness/providers").bearer_auth(ADMIN_KEY);
    assert!(!answer(plain).await.1.to_string().contains("planted"));
}
