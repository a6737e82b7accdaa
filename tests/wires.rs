//! Every family's wire with every fault that providers have, through a real node: what class it is, what ends, what a
//! client is told, whether a backup serves, and that nothing is glued, run or held.

use futures_util::future::join_all;
use gateway::scripted::script::{Does, Line, Provider, Turn};
use gateway::scripted::{Fault, Script, Scripted, start};
use providers::{Family, Mode};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;
use tests::Node;
use tests::process::json as body;

const CHAT: &str = "/v1/chat/completions";
/// No call of these stories takes longer, whatever happens on its wire.
pub(crate) const DEADLINE: Duration = Duration::from_secs(25);
/// What stands behind everybody says.
const BACKUP: &str = "The backup answers in full.";

/// Streamed, and whole.
pub(crate) const BOTH: [Mode; 2] = [Mode::Stream, Mode::Whole];

/// Each in its turn.
pub(crate) fn one_of_two(nth: usize) -> Mode {
    BOTH[nth % 2]
}

/// Each family under the id of a provider without a key: nothing cools, so every call asks it first.
const WIRES: [(Family, &str, &str); 5] = [
    (Family::OpenaiChat, "vllm", "VLLM"),
    (Family::AnthropicMessages, "anthropic", "ANTHROPIC"),
    (Family::Gemini, "gemini", "GEMINI"),
    (Family::Bedrock, "bedrock", "BEDROCK"),
    (Family::OpenaiResponses, "openai", "OPENAI"),
];

/// A node in front of one provider that speaks every family, with somebody behind it or not.
pub(crate) struct Wires {
    pub(crate) node: Node,
    pub(crate) scripted: Scripted,
    _folder: TempDir,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    Nobody,
    Backup,
}

impl Wires {
    pub(crate) async fn start(
        providers: Vec<Provider>,
        behind: Behind,
        more: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let backup = Provider::new("backup", None, vec![Turn::once(Does::Say(Line::text(BACKUP)))]);
        let providers = providers.into_iter().chain([backup]).collect();
        let scripted = start(&Script { seed: 0, providers }).await.unwrap();
        let mut variables: Vec<(String, String)> = vec![
            ("PITON_OPENAI_FAMILY".into(), "openai_responses".into()),
            ("PITON_RETRY_API_MAX_RETRIES".into(), "0".into()),
            // Whoever says when to come back is not waited for.
            ("PITON_RETRY_RETRY_WAIT_MAX_SECONDS".into(), "0".into()),
        ];
        // Each family at a provider of its own name, else at the first.
        for (family, id, variable) in WIRES {
            let own = scripted.providers.iter().find(|one| one.name == id);
            let playing = own.unwrap_or(&scripted.providers[0]);
            variables.push((format!("PITON_{variable}_BASE_URL"), playing.base_url(family)));
        }
        let last = scripted.providers.last().unwrap().base_url(Family::OpenaiChat);
        variables.push(("PITON_SGLANG_BASE_URL".into(), last));
        if behind == Behind::Backup {
            variables.push(("PITON_FALLBACK_PROVIDERS".into(), "sglang:backup".into()));
        }
        variables.extend(more.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let pairs: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let node = Node::start(folder.path(), &[], &pairs).await;
        Self { node, scripted, _folder: folder }
    }

    async fn talking(behind: Behind, more: &[(&str, &str)]) -> Self {
        let talks = Provider::new("talks", None, vec![Turn::once(Does::Talk)]);
        Self::start(vec![talks], behind, more).await
    }

    /// One chat with a provider, to its end.
    pub(crate) async fn ask(&self, provider: &str, text: &str, mode: Mode) -> Told {
        self.ask_of(&format!("{provider}:m"), text, mode).await
    }

    /// One chat with a model, to its end.
    pub(crate) async fn ask_of(&self, model: &str, text: &str, mode: Mode) -> Told {
        let asked = json!({"model": model, "stream": mode == Mode::Stream,
            "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": text}]});
        let told = async {
            let got = body(self.node.ask(Method::POST, CHAT), &asked).send().await.unwrap();
            let run = got.headers().get("x-piton-run-id").map(|id| id.to_str().unwrap().to_owned());
            let status = got.status().as_u16();
            (status, run.unwrap_or_default(), got.text().await.unwrap())
        };
        let late = |_| panic!("{model}, {text}: no end within {DEADLINE:?}");
        let (status, run, text) = tokio::time::timeout(DEADLINE, told).await.unwrap_or_else(late);
        let told = Told::read(status, run, &text);
        let run = if told.run.is_empty() {
            told.error["run_id"].as_str().unwrap_or_default()
        } else {
            &told.run
        };
        let (_, object) = self.node.get(&format!("/v1/runs/{run}")).await;
        let class = |one: &Value| one["class"].as_str().unwrap_or_default().to_owned();
        let attempts = object["attempts"].as_array().cloned().unwrap_or_default();
        Told { attempts: attempts.iter().map(class).collect(), object, ..told }
    }
}

/// What a client was told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) run: String,
    pub(crate) said: String,
    /// Whether it was told that this is the whole answer.
    pub(crate) is_whole: bool,
    pub(crate) error: Value,
    pub(crate) usage: Value,
    /// The classes of what failed.
    pub(crate) attempts: Vec<String>,
    pub(crate) object: Value,
}

impl Told {
    fn read(status: u16, run: String, text: &str) -> Self {
        let mut told = Self { status, run, ..Self::default() };
        if let Ok(whole) = serde_json::from_str::<Value>(text) {
            told.error = whole["error"].clone();
            let choice = &whole["choices"][0];
            told.said = choice["message"]["content"].as_str().unwrap_or_default().to_owned();
            told.is_whole = choice["finish_reason"] == "stop";
            told.usage = whole["usage"].clone();
            return told;
        }
        for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let chunk: Value = serde_json::from_str(data).unwrap_or_default();
            told.said += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
            told.is_whole |= data == "[DONE]" || chunk["choices"][0]["finish_reason"] == "stop";
            for (name, to) in [("error", &mut told.error), ("usage", &mut told.usage)] {
                if !chunk[name].is_null() {
                    *to = chunk[name].clone();
                }
            }
        }
        told
    }
}

/// Words that a provider refuses with, and the class that each is.
const REFUSALS: [(&str, &str); 18] = [
    ("429", "rate_limited"),
    ("529", "overloaded"),
    ("503", "overloaded"),
    ("500", "server_error"),
    ("504", "timeout"),
    ("401", "auth_invalid"),
    ("402", "billing"),
    ("400", "invalid_request"),
    ("404", "model_not_found"),
    ("413", "payload_too_large"),
    ("auth_expired", "auth_expired"),
    ("quota_exhausted", "quota_exhausted"),
    ("upstream_rate_limited", "upstream_rate_limited"),
    ("context_overflow", "context_overflow"),
    ("tools_too_many", "tools_too_many"),
    ("replay_rejected", "replay_rejected"),
    ("content_policy", "content_policy"),
    ("unknown", "unknown"),
];

/// Whether another candidate is asked after this class, when that one speaks OpenAI's chat.
fn falls(class: &str, family: Family) -> bool {
    match class {
        "content_policy" => false,
        // A route knows a provider by the family that it was set to.
        "invalid_request" => family != Family::OpenaiChat,
        _ => true,
    }
}

#[tokio::test]
async fn every_refusal_of_every_family_is_its_class_and_a_backup_hides_it() {
    let alone = Wires::talking(Behind::Nobody, &[]).await;
    let backed = Wires::talking(Behind::Backup, &[]).await;
    let (alone, backed) = (&alone, &backed);
    join_all(WIRES.map(async |(family, id, _)| {
        for (nth, (word, class)) in REFUSALS.into_iter().enumerate() {
            let mode = one_of_two(nth);
            let text = format!("always {word}");
            let told = alone.ask(id, &text, mode).await;
            let about = format!("{family:?} {word}: {told:?}");
            assert!(!told.is_whole && told.said.is_empty() && !told.error.is_null(), "{about}");
            assert!(told.status >= 400, "nothing had begun: {about}");
            assert!(told.attempts.iter().all(|one| one == class), "{about}");
            assert!(!told.attempts.is_empty(), "{about}");
            let told = backed.ask(id, &text, mode).await;
            let about = format!("{family:?} {word} with a backup: {told:?}");
            if falls(class, family) {
                assert_eq!(
                    (told.status, told.said.as_str(), told.is_whole),
                    (200, BACKUP, true),
                    "{about}"
                );
                assert_eq!(told.object["served_by"], "sglang:backup", "{about}");
            } else {
                assert!(told.status >= 400 && told.said.is_empty(), "{about}");
            }
            assert!(told.attempts.iter().all(|one| one == class), "{about}");
        }
    }))
    .await;
}

/// What a fault makes of an answer that is streamed, and of one that comes whole: a class, or nothing. Slow ones, silent ones
/// and addresses where nobody listens have stories of their own.
const FAULTS: [(Fault, Option<&str>, Option<&str>); 10] = [
    (Fault::HangUp, Some("transport"), Some("transport")),
    (Fault::CutHead, Some("stream_truncated"), Some("stream_truncated")),
    (Fault::Cut, Some("stream_truncated"), Some("stream_truncated")),
    (Fault::CutInFrame, Some("stream_truncated"), Some("stream_truncated")),
    (Fault::NoEnd, Some("stream_truncated"), Some("stream_error")),
    (Fault::Error, Some("overloaded"), Some("overloaded")),
    (Fault::Gzip, Some("stream_error"), Some("stream_error")),
    (Fault::LongLine, Some("stream_error"), None),
    (Fault::Twice, None, None),
    (Fault::NoUsage, None, None),
];

/// Whether something of a streamed answer has come when the fault strikes.
fn begins(fault: Fault) -> bool {
    match fault {
        Fault::Cut
        | Fault::CutInFrame
        | Fault::NoEnd
        | Fault::Error
        | Fault::LongLine
        | Fault::Stall => true,
        Fault::HangUp | Fault::StallHead | Fault::CutHead | Fault::Gzip => false,
        Fault::Twice | Fault::Slow | Fault::NoUsage => true,
    }
}

/// Holds a fault of a stream or of a whole answer to what it must look like.
fn holds(told: &Told, fault: Fault, class: Option<&str>, mode: Mode, behind: Behind) {
    let about = format!("{}, {mode:?}, {told:?}", fault.name());
    let Some(class) = class else {
        assert_eq!((told.status, told.is_whole), (200, true), "{about}");
        // What is said of the end of an answer is of one that is streamed.
        let end = if fault == Fault::LongLine { "never read this." } else { "all the same." };
        assert!(told.said.ends_with(end), "{about}");
        assert!(told.attempts.is_empty() && told.error.is_null(), "{about}");
        let is_unknown = told.usage["prompt_tokens"].is_null();
        assert_eq!(is_unknown, fault == Fault::NoUsage, "{about}");
        return;
    };
    let shown = mode == Mode::Stream && begins(fault);
    if behind == Behind::Backup && !shown {
        assert_eq!(
            (told.status, told.said.as_str(), told.is_whole),
            (200, BACKUP, true),
            "{about}"
        );
    } else {
        // What was shown is the beginning of the answer, and nobody is told that it is all of it.
        assert_eq!((told.said.is_empty(), told.is_whole), (!shown, false), "{about}");
        assert!(!told.error.is_null() && (told.status == 200) == shown, "{about}");
        assert!(!told.said.contains("never read this"), "{about}");
    }
    assert!(!told.attempts.is_empty() && told.attempts.iter().all(|one| one == class), "{about}");
}

#[tokio::test]
async fn every_fault_of_every_wire_ends_as_what_it_is() {
    let alone = Wires::talking(Behind::Nobody, &[]).await;
    let backed = Wires::talking(Behind::Backup, &[]).await;
    for (wires, behind) in [(&alone, Behind::Nobody), (&backed, Behind::Backup)] {
        join_all(WIRES.map(async |(family, id, _)| {
            for (fault, streamed, whole) in FAULTS {
                // AWS names an error in a header, and one inside a success has none.
                let nameless = fault == Fault::Error && family == Family::Bedrock;
                let whole = if nameless { Some("unknown") } else { whole };
                let text = format!("always {}", fault.name());
                holds(
                    &wires.ask(id, &text, Mode::Stream).await,
                    fault,
                    streamed,
                    Mode::Stream,
                    behind,
                );
                holds(&wires.ask(id, &text, Mode::Whole).await, fault, whole, Mode::Whole, behind);
            }
        }))
        .await;
    }
    // 10 MB in a line, ten times and more at once, and the node has held none of them.
    let before = peak_kb(&alone.node);
    join_all((0..12).map(async |nth| {
        let (_, id, _) = WIRES[nth % WIRES.len()];
        let told = alone.ask(id, "always long_line", Mode::Stream).await;
        assert_eq!(told.attempts, ["stream_error"], "{told:?}");
    }))
    .await;
    // The kernel's figure is of counters that are summed now and then.
    let grown = peak_kb(&alone.node).saturating_sub(before);
    assert!(
        grown < 100_000,
        "{grown} kB more for twelve lines of which none may be held beyond 4 MiB"
    );
    assert!(alone.scripted.providers[0].calls() > 100, "all of them were asked");
}

/// The most memory that the node has had, in kB.
fn peak_kb(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_wire_that_falls_silent_is_given_up_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("silent.toml");
    let tables = WIRES.map(|(_, id, _)| format!("[providers.{id}]\ntimeout_seconds = 2\n"));
    std::fs::write(&file, tables.concat()).unwrap();
    let file = file.display().to_string();
    let more = [("PITON_CONFIG", file.as_str())];
    let alone = Wires::talking(Behind::Nobody, &more).await;
    let backed = Wires::talking(Behind::Backup, &more).await;
    let all = WIRES.iter().flat_map(|(_, id, _)| {
        [Fault::Stall, Fault::StallHead]
            .into_iter()
            .flat_map(move |fault| BOTH.into_iter().map(move |mode| (*id, fault, mode)))
    });
    join_all(all.map(async |(id, fault, mode)| {
        let text = format!("always {}", fault.name());
        for (wires, behind) in [(&alone, Behind::Nobody), (&backed, Behind::Backup)] {
            let told = wires.ask(id, &text, mode).await;
            holds(&told, fault, Some("timeout"), mode, behind);
        }
    }))
    .await;
}

/// What a wire that is lost before its end must not bring about.
const LOST: [Fault; 6] =
    [Fault::Cut, Fault::CutInFrame, Fault::NoEnd, Fault::Error, Fault::Gzip, Fault::LongLine];

#[tokio::test]
async fn no_tool_runs_that_was_read_from_an_answer_without_its_end() {
    // Two calls whose arguments have all come when the wire is lost, and then the next run's text.
    let calls = vec![
        ("note_append".to_owned(), r#"{"text":"must not be"}"#.to_owned()),
        ("clock_now".to_owned(), "{}".to_owned()),
    ];
    let turns = || {
        LOST.into_iter().flat_map(|fault| {
            let line = Line { calls: calls.clone(), ..Line::text("Let me see.") };
            let mut lost = Turn::wrong(line, fault);
            lost.how.after = Some(usize::MAX);
            [lost, Turn::once(Does::Say(Line::text("No matter.")))]
        })
    };
    let providers = WIRES.map(|(family, id, _)| Provider::new(id, Some(family), turns().collect()));
    let more = [("PITON_RETRY_API_MAX_RETRIES", "1"), ("PITON_RETRY_RETRY_BASE_MS", "1")];
    let wires = Wires::start(providers.into(), Behind::Nobody, &more).await;
    let wires = &wires;
    join_all(WIRES.map(async |(family, id, _)| {
        for fault in LOST {
            let asked = json!({"input": "what time is it?", "model": format!("{id}:m")});
            let run = wires.node.start_run(&asked).await;
            let ended = wires.node.ended(&run).await;
            let about = format!("{family:?} {}: {ended}", fault.name());
            assert_eq!(
                (&ended["outcome"], &ended["output"]),
                (&json!("completed"), &json!("No matter.")),
                "{about}"
            );
            let events = wires.node.events(&run).await;
            assert!(!events.iter().any(|name| name.starts_with("tool")), "{about}: {events:?}");
            assert_eq!(ended["usage"]["calls"], 2, "{about}");
        }
    }))
    .await;
    let notes = wires.node.data.join(gateway::boot::NOTES);
    assert!(!notes.exists(), "a tool ran: {:?}", std::fs::read_to_string(&notes));
}

#[tokio::test]
async fn calls_that_come_interleaved_run_with_their_own_arguments_on_every_wire() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::demo(folder.path()).await;
    let wires = ["demo", "demo-anthropic", "demo-gemini", "demo-bedrock", "demo-responses"];
    for (nth, wire) in wires.into_iter().enumerate() {
        let asked = json!({"input": format!("both: rope {nth}"), "model": format!("{wire}:demo")});
        let run = node.start_run(&asked).await;
        let ended = node.ended(&run).await;
        let output = ended["output"].as_str().unwrap_or_default();
        assert_eq!(ended["outcome"], "completed", "{wire}: {ended}");
        assert!(
            output.contains("clock_now answers") && output.contains("note_append answers"),
            "{wire}: {output}"
        );
        assert_eq!(ended["usage"]["calls_without_usage"], 0, "{wire}: {ended}");
    }
    let notes = std::fs::read_to_string(folder.path().join(gateway::boot::NOTES)).unwrap();
    for nth in 0..wires.len() {
        assert_eq!(notes.matches(&format!("rope {nth}")).count(), 1, "{notes}");
    }
    let (_, models) = node.get("/v1/models").await;
    let listed = |id: &str| models["data"].as_array().unwrap().iter().any(|one| one["id"] == id);
    assert!(wires.iter().all(|wire| listed(&format!("{wire}:demo-2"))), "{models}");
}

#[tokio::test]
async fn words_of_every_script_come_whole_though_each_byte_comes_alone() {
    let text = "日本語 🦀 हिन्दी Ελληνικά e\u{301} \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}";
    let slow = Turn::wrong(Line::text(text), Fault::Slow);
    let providers =
        WIRES.map(|(family, id, _)| Provider::new(id, Some(family), vec![slow.clone()]));
    let wires = Wires::start(providers.into(), Behind::Nobody, &[]).await;
    join_all(WIRES.iter().flat_map(|(_, id, _)| BOTH.map(|mode| (*id, mode))).map(
        async |(id, mode)| {
            let told = wires.ask(id, "hello", mode).await;
            assert_eq!((told.said.as_str(), told.is_whole), (text, true), "{id}: {told:?}");
        },
    ))
    .await;
}
