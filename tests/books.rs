//! The books of a story that kills: what was acknowledged, what happened outside, and what the journal says of both,
//! held against each other when the story is over.

use crate::audit;
use crate::fleet::Cluster;
use crate::process::answer;
use crate::work::{ASKS, Turn};
use events::aggregate::Aggregate;
use events::id::RunId;
use events::run::ledger::ToolOutcome;
use events::run::life::Outcome;
use events::run::{Event, Run};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// How a tool's answer says to the model that nobody knows what came of it, and that nothing was done.
const UNKNOWN: &str = "outcome_unknown";
const NOT_SENT: &str = "not_sent";

/// What the books say at the end.
#[derive(Debug, Default)]
pub struct Books {
    /// Turns that were acknowledged.
    pub turns: usize,
    /// Effects that happened.
    pub effects: usize,
    /// Effectful calls whose outcome was lost, and said to be.
    pub unknown: usize,
    /// Of those, the ones that happened.
    pub unknown_happened: usize,
    /// Calls whose intent took longer to be written than its window: certain not to have happened, and said to be.
    pub not_sent: usize,
    /// Model calls that were lost and asked again.
    pub asked_again: usize,
    /// The longest wait for an acknowledgement.
    pub longest: Duration,
    /// Commits of the journal, each checked.
    pub commits: u64,
}

/// How one call of a tool came out.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Closing {
    /// With a receipt that it did its work.
    Done,
    /// With one that it did not.
    Failed(String),
    /// Nobody knows.
    Unknown,
    /// Nothing of it left.
    NotSent,
}

/// What a run's events say.
#[derive(Debug, Default)]
struct Told {
    /// What it was asked.
    asked: String,
    /// Calls of tools that were begun.
    calls: usize,
    /// How they came out.
    closings: Vec<Closing>,
    /// Whether a tool was called again under the same intent.
    repeated: bool,
    /// Model calls that were lost.
    models_lost: usize,
    /// What the model said last: the scripted one repeats what the tool answered.
    answer: String,
    /// How it ended.
    ended: Option<Outcome>,
}

impl Told {
    fn of(events: &[Event]) -> Self {
        let mut told = Self::default();
        for event in events {
            match event {
                Event::Queued(queued) => {
                    let said = queued.spec.input.iter().filter_map(|body| body.message().ok());
                    told.asked = said.map(|message| message.plain()).collect();
                }
                Event::ToolAsked(_) => told.calls += 1,
                Event::ToolReceipt(receipt) => told.closings.push(match receipt.outcome {
                    ToolOutcome::Succeeded => Closing::Done,
                    ToolOutcome::Failed | ToolOutcome::Rejected(_) => {
                        Closing::Failed(receipt.content.clone())
                    }
                }),
                Event::ToolUnknown(_) => told.closings.push(Closing::Unknown),
                Event::ToolNotSent(_) => told.closings.push(Closing::NotSent),
                Event::ToolRetried(_) => told.repeated = true,
                Event::ModelUnknown(_) => told.models_lost += 1,
                Event::ModelAnswered(answered) => {
                    told.answer =
                        answered.body.message().map(|said| said.plain()).unwrap_or_default();
                }
                Event::Finished(finished) => told.ended = Some(finished.outcome),
                _ => {}
            }
        }
        told
    }
}

/// Lines of the nodes' notes by text: how often each effect happened, outside of every journal.
fn effects(cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut effects = BTreeMap::new();
    for folder in &cluster.folders {
        let notes = std::fs::read_to_string(folder.path().join("notes.txt")).unwrap_or_default();
        for line in notes.lines() {
            let (_, text) = line.split_once('\t').expect("a correlation and a text");
            *effects.entry(text.to_owned()).or_default() += 1;
        }
    }
    effects
}

/// Holds the journal against the ledger: each acknowledged turn once and ended, nothing that nobody was told of, each
/// effect at most once and never untold, each chain whole, nothing parked. The journal is read from the servers and not
/// through a node.
///
/// # Panics
///
/// With what is wrong.
pub async fn settle(cluster: &Cluster, turns: &[Turn]) -> Books {
    let effects = effects(cluster);
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "effects that happened twice: {twice:?}");
    let mut asked: BTreeMap<&str, &Turn> = BTreeMap::new();
    for turn in turns {
        assert!(asked.insert(&turn.text, turn).is_none(), "asked for twice: {turn:?}");
    }
    let stray = effects.keys().find(|text| !asked.contains_key(text.as_str()));
    assert_eq!(stray, None, "an effect of a turn that was not acknowledged");
    let servers = (cluster.nats.urls(), cluster.nats.monitors());
    let (mut runs, commits) =
        audit::audit_servers(servers, Told::of).await.unwrap_or_else(|why| panic!("{why}"));
    let mut books =
        Books { turns: turns.len(), effects: effects.len(), commits, ..Books::default() };
    for turn in turns {
        let run: RunId = turn.run.parse().expect("an id");
        let told = runs.remove(&Run::stream(&run).to_string());
        let told = told.unwrap_or_else(|| panic!("acknowledged, and not in the journal: {turn:?}"));
        book(&mut books, turn, &told, effects.contains_key(&turn.text));
    }
    for (run, told) in &runs {
        assert!(!told.asked.starts_with(ASKS), "{run} nobody was told of: {told:?}");
        assert!(told.ended.is_some(), "{run} did not end: {told:?}");
    }
    once(cluster, turns).await;
    for node in &cluster.nodes {
        let (_, health) = node.get("/health/detailed").await;
        assert_eq!(health["actors"]["parked"], json!([]), "{health}");
    }
    books
}

/// One turn against its run and its effect.
fn book(books: &mut Books, turn: &Turn, told: &Told, happened: bool) {
    assert_eq!(told.asked, format!("{ASKS}{}", turn.text), "{turn:?}");
    assert_eq!(told.ended, Some(Outcome::Completed), "{turn:?} {told:?}");
    assert!(!told.repeated, "an effectful call was made again: {turn:?} {told:?}");
    assert_eq!(told.calls, told.closings.len(), "a call without an end: {turn:?} {told:?}");
    let count = |what: &Closing| told.closings.iter().filter(|one| *one == what).count();
    let [done, unknown, not_sent] =
        [Closing::Done, Closing::Unknown, Closing::NotSent].map(|what| count(&what));
    assert_eq!((done + unknown + not_sent, told.calls), (1, 1), "{turn:?} {told:?}");
    assert!(done == 0 || happened, "a receipt without an effect: {turn:?} {told:?}");
    assert!(not_sent == 0 || !happened, "what was not sent has happened: {turn:?} {told:?}");
    let said = [UNKNOWN, NOT_SENT].map(|word| usize::from(told.answer.contains(word)));
    assert_eq!(said, [unknown, not_sent], "the model's word: {turn:?} {told:?}");
    books.not_sent += not_sent;
    books.unknown += unknown;
    books.unknown_happened += usize::from(unknown == 1 && happened);
    books.asked_again += told.models_lost;
    books.longest = books.longest.max(turn.took);
}

/// Each session has the turns that were acknowledged, once and in their order, as a node tells it.
async fn once(cluster: &Cluster, turns: &[Turn]) {
    let node = cluster.nodes.first().expect("a node");
    let mut sessions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for turn in turns {
        sessions.entry(&turn.session).or_default().push(format!("{ASKS}{}", turn.text));
    }
    for (session, acknowledged) in sessions {
        let path = format!("/v1/sessions/{session}/messages?limit=1000");
        let (status, got) = answer(node.ask(Method::GET, &path)).await;
        assert_eq!(status, 200, "{got}");
        let said = got["data"].as_array().expect("messages").iter();
        let said = said.filter(|message| message["role"] == "user");
        let said: Vec<String> = said
            .map(|message| message["parts"][0]["text"].as_str().expect("a text").to_owned())
            .collect();
        assert_eq!(said, acknowledged, "{session}");
    }
}
