//! Every kind of actor across three nodes: something of it is made at B, driven through A and watched at C, whoever
//! owns it. A kind without its line does not compile.

use events::record::StreamKind;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::Node;
use tests::fleet::{Cluster, said};
use tests::process::{json as body, wait_for};
use tests::sse::Events;

/// Which node is asked. A thing that has no name of its own is owned where it was made.
#[derive(Debug, Clone, Copy)]
enum At {
    A,
    B,
    C,
}

/// One step of a line. `{word}` in a path or body stands for what an earlier step kept under that word.
enum Step {
    /// Asks; the answer must be a success. What it answers at the pointer, or in the header, is kept under the word.
    Ask(At, Method, &'static str, Value, Option<(&'static str, &'static str)>),
    /// Asks once, and finds it: nobody has to wait for what another node has acknowledged.
    Found(At, &'static str),
    /// Looks until it is so.
    Shows(At, &'static str, fn(&Value) -> bool),
    /// Opens a stream of events, of which the first is named so.
    Tail(At, &'static str, &'static str),
    /// The open stream ends with an event of this name.
    Ends(&'static str),
}

use At::{A, B, C};
use Step::{Ask, Ends, Found, Shows, Tail};

/// What shows that a kind works across nodes; none for the kind that only the store's own tests use.
fn line(kind: StreamKind) -> Vec<Step> {
    match kind {
        StreamKind::Run => vec![
            Ask(
                B,
                Method::POST,
                "/v1/runs",
                json!({"input": "slow 400"}),
                Some(("run", "/run_id")),
            ),
            Found(A, "/v1/runs/{run}"),
            Tail(C, "/v1/runs/{run}/events", "run.queued"),
            Ask(A, Method::POST, "/v1/runs/{run}/stop", json!({}), None),
            Ends("run.cancelled"),
            Shows(B, "/v1/runs/{run}", |run| run["outcome"] == "cancelled"),
        ],
        StreamKind::Session => session(),
        StreamKind::Key => vec![
            Ask(
                B,
                Method::POST,
                "/v1/keys",
                json!({"name": "ci", "role": "reader"}),
                Some(("key", "/id")),
            ),
            Found(A, "/v1/keys/{key}"),
            Ask(A, Method::DELETE, "/v1/keys/{key}", json!({}), None),
            Shows(C, "/v1/keys/{key}", |key| key["revoked"] == true),
        ],
        StreamKind::Credential => credential(),
        StreamKind::Budget => vec![
            Ask(B, Method::PUT, "/v1/budgets/project~a", json!({"calls": 7}), None),
            Found(A, "/v1/budgets/project~a"),
            Ask(A, Method::PUT, "/v1/budgets/project~a", json!({"calls": 9}), None),
            Shows(C, "/v1/budgets/project~a", |budget| budget["limit"]["calls"] == 9),
        ],
        StreamKind::Artifact => artifact(),
        StreamKind::Project => project(),
        StreamKind::Settings => vec![
            Ask(
                B,
                Method::POST,
                "/v1/nodes/upgrade-schema",
                json!({}),
                Some(("r", "/minimum_reader")),
            ),
            // What is so already is so for every node.
            Ask(
                A,
                Method::POST,
                "/v1/nodes/upgrade-schema",
                json!({}),
                Some(("r", "/minimum_reader")),
            ),
            Ask(
                C,
                Method::POST,
                "/v1/nodes/upgrade-schema",
                json!({}),
                Some(("r", "/minimum_reader")),
            ),
        ],
        StreamKind::Grant => grants(),
        StreamKind::Gates => gates(),
        StreamKind::Probe => vec![],
    }
}

fn grants() -> Vec<Step> {
    vec![
        Ask(
            B,
            Method::POST,
            "/v1/approvals/grants",
            json!({"tool": "note_append", "equal": {"/text": "hi"}}),
            Some(("grant", "/id")),
        ),
        Shows(A, "/v1/approvals/grants?project=default", |list| list["count"] == 1),
        Ask(A, Method::DELETE, "/v1/approvals/grants/default/{grant}", json!({}), None),
        Shows(C, "/v1/approvals/grants?project=default", |list| list["count"] == 0),
    ]
}

fn gates() -> Vec<Step> {
    let given = |verdict: &str| json!({"verdict": verdict, "text": "seen"});
    let (path, evidence) =
        ("/v1/gates/default/tests_pass", "/v1/gates/default/tests_pass/evidence");
    vec![
        Ask(B, Method::POST, evidence, given("failed"), Some(("version", "/version"))),
        Shows(A, path, |gate| gate["why"] == "its evidence says no: seen"),
        Ask(A, Method::POST, evidence, given("passed"), None),
        Shows(C, path, |gate| gate["state"] == "open" && gate["version"] == 3),
    ]
}

fn artifact() -> Vec<Step> {
    const PLAN: &str = "/v1/artifacts/lab/plan";
    let over = json!({"content": "two", "over_version": 1});
    vec![
        Ask(B, Method::PUT, PLAN, json!({"content": "one"}), None),
        Found(A, PLAN),
        Ask(A, Method::PUT, PLAN, over, None),
        Shows(C, PLAN, |plan| plan["version"] == 2 && plan["content"] == "two"),
    ]
}

fn project() -> Vec<Step> {
    const LAB: &str = "/v1/projects/lab";
    vec![
        Ask(B, Method::PUT, LAB, json!({"description": "ropes"}), None),
        Found(A, LAB),
        Ask(A, Method::PUT, LAB, json!({"description": "knots"}), None),
        Shows(C, LAB, |lab| lab["description"] == "knots"),
    ]
}

fn session() -> Vec<Step> {
    vec![
        Ask(
            B,
            Method::POST,
            "/v1/chat/completions",
            json!({"model": "demo", "messages": [said("user", "hello")]}),
            Some(("session", "x-piton-session-id")),
        ),
        Found(A, "/v1/sessions/{session}"),
        Ask(
            A,
            Method::POST,
            "/v1/runs",
            json!({"input": "slow 400", "session_id": "{session}"}),
            Some(("run", "/run_id")),
        ),
        Found(C, "/v1/runs/{run}"),
        Tail(C, "/v1/runs/{run}/events", "run.queued"),
        Ask(A, Method::POST, "/v1/runs/{run}/stop", json!({}), None),
        Ends("run.cancelled"),
        // What was stopped is no part of the conversation; what is said next is.
        Ask(
            C,
            Method::POST,
            "/v1/runs",
            json!({"input": "and now?", "session_id": "{session}"}),
            None,
        ),
        Shows(A, "/v1/sessions/{session}/messages", |list| said_third(list, "and now?")),
        Shows(B, "/v1/sessions/{session}/messages", |list| said_third(list, "and now?")),
    ]
}

fn credential() -> Vec<Step> {
    vec![
        Ask(
            B,
            Method::POST,
            "/v1/harness/credentials",
            json!({"provider": "openai", "profile": "work", "key": "sk-planted"}),
            None,
        ),
        Shows(A, "/v1/harness/providers", |list| work(list, "healthy")),
        Ask(
            A,
            Method::POST,
            "/v1/harness/credentials",
            json!({"action": "mark_dead", "provider": "openai", "profile": "work"}),
            None,
        ),
        Shows(C, "/v1/harness/providers", |list| work(list, "dead")),
        Shows(B, "/v1/harness/providers", |list| work(list, "dead")),
    ]
}

/// Whether the third message of a conversation says this.
fn said_third(list: &Value, text: &str) -> bool {
    list["data"][2]["parts"][0]["text"] == text
}

/// Whether the profile `work` of openai is in this state.
fn work(list: &Value, state: &str) -> bool {
    let providers = list["data"].as_array().into_iter().flatten();
    let mut profiles =
        providers.filter(|one| one["id"] == "openai").filter_map(|one| one["profiles"].as_array());
    profiles.any(|all| all.iter().any(|one| one["name"] == "work" && one["state"] == state))
}

/// What the steps of one line keep, and the stream that is open.
struct Walk<'a> {
    cluster: &'a Cluster,
    kept: BTreeMap<&'static str, String>,
    events: Option<Events>,
}

impl Walk<'_> {
    fn node(&self, at: At) -> &Node {
        &self.cluster.nodes[match at {
            A => 0,
            B => 1,
            C => 2,
        }]
    }

    fn filled(&self, text: &str) -> String {
        self.kept.iter().fold(text.to_owned(), |text, (word, value)| {
            text.replace(&format!("{{{word}}}"), value)
        })
    }

    async fn step(&mut self, step: Step) {
        match step {
            Ask(at, method, path, asked, keep) => {
                let asked = serde_json::from_str(&self.filled(&asked.to_string())).unwrap();
                let request = self.node(at).ask(method, &self.filled(path));
                let answer = body(request.header("x-piton-session-id", "talk"), &asked).send();
                let answer = answer.await.unwrap();
                let (status, headers) = (answer.status(), answer.headers().clone());
                let text = answer.text().await.unwrap();
                assert!(status.is_success(), "{at:?} {path}: {status} {text}");
                if let Some((word, place)) = keep {
                    let told: Value = serde_json::from_str(&text).unwrap();
                    let value = match headers.get(place) {
                        Some(header) => header.to_str().unwrap().to_owned(),
                        None => match told.pointer(place) {
                            Some(Value::String(text)) => text.clone(),
                            other => other.unwrap_or_else(|| panic!("{place}: {told}")).to_string(),
                        },
                    };
                    if let Some(before) = self.kept.insert(word, value.clone()) {
                        assert_eq!(before, value, "{at:?} {path}");
                    }
                }
            }
            Found(at, path) => {
                let (status, got) = self.node(at).get(&self.filled(path)).await;
                assert_eq!(status, 200, "{at:?} {path}: {got}");
            }
            Shows(at, path, so) => {
                let (node, path) = (self.node(at), self.filled(path));
                let look = async || so(&node.get(&path).await.1).then_some(());
                wait_for(&format!("{path} at {at:?} shows it"), look).await;
            }
            Tail(at, path, first) => {
                let request = self.node(at).ask(Method::GET, &self.filled(path));
                let mut events = Events::open(request).await;
                assert_eq!(events.next().await.unwrap().name, first, "{at:?} {path}");
                self.events = Some(events);
            }
            Ends(last) => {
                let rest = self.events.take().unwrap().rest().await;
                assert_eq!(rest.last().map(|event| event.name.as_str()), Some(last), "{rest:?}");
            }
        }
    }
}

#[tokio::test]
async fn every_kind_of_actor_is_made_driven_and_watched_through_three_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("piton.toml");
    std::fs::write(&config, "[gates.tests_pass]\n").unwrap();
    let told = vec![("PITON_CONFIG", config.display().to_string())];
    let cluster = Cluster::of_told(3, told).await;
    for kind in StreamKind::ALL {
        println!("{}", kind.name());
        let mut walk = Walk { cluster: &cluster, kept: BTreeMap::new(), events: None };
        for step in line(kind) {
            walk.step(step).await;
        }
        assert!(walk.events.is_none(), "a stream of {} was opened and not read", kind.name());
    }
}
