//! Turns with an outside effect, asked for again and again under their keys until they are acknowledged, and the books
//! of what was acknowledged and what happened, kept outside of everything that is killed.

use crate::Node;
use crate::fleet::Cluster;
use crate::process::{ADMIN_KEY, PATIENCE, client, json as body};
use events::id::{Generation, Partition, Place, SessionId};
use futures_util::{StreamExt, stream};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two tries of one turn, and between two looks at a run, unless the story says another pace.
const PAUSE: Duration = Duration::from_millis(150);
/// How long one request may take: longer than a node lets a command wait.
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// Runs that are checked at a time.
const CHECKS: usize = 8;
/// What a caller may be told, to ask again under the same key. Parked is not among them.
const AGAIN: [&str; 6] =
    ["busy", "store_unavailable", "lost", "timed_out", "session_busy", "too_many_runs"];

/// One turn that was acknowledged.
#[derive(Debug, Clone)]
pub struct Turn {
    /// What was asked for: unique.
    pub text: String,
    /// The run that it became.
    pub run: String,
    /// In which session.
    pub session: String,
    /// From the first try to the acknowledgement.
    pub took: Duration,
}

/// What one worker did.
#[derive(Debug, Default)]
pub struct Done {
    /// In order.
    pub turns: Vec<Turn>,
    /// Tries that had another answer, by what it was.
    pub refused: BTreeMap<String, usize>,
}

/// A way to the nodes that live, as the story moves them.
pub type Gateways = watch::Receiver<Vec<String>>;

/// Works in one session through whichever node, until told to stop; then the last turn is finished.
///
/// # Panics
///
/// When an answer is none that a caller may be given, or a turn takes longer than any outage of the story.
pub async fn work(
    gateways: Gateways,
    (worker, pace): (usize, Duration),
    stop: watch::Receiver<bool>,
) -> Done {
    let asks = Client::builder().no_proxy().timeout(REQUEST_MAX).build().expect("a client");
    let unique = u128::try_from(worker).expect("few") + 1;
    let partition = Partition::of(u64::try_from(worker).expect("few"));
    let place = Place { partition, generation: Generation::FIRST };
    let session = SessionId::new(place, unique).to_string();
    let mut done = Done::default();
    let mut tries = worker;
    while !*stop.borrow() {
        let text = format!("w{worker}-{}", done.turns.len());
        let asked = json!({"input": format!("note: {text}"), "session_id": session});
        let since = Instant::now();
        let run = loop {
            tries += 1;
            match start(&asks, &gateways, tries, (&text, &asked)).await {
                Ok(run) => break run,
                Err(why) => *done.refused.entry(why).or_default() += 1,
            }
            assert!(since.elapsed() < 3 * PATIENCE, "{text}: {:?}", done.refused);
            tokio::time::sleep(pace).await;
        };
        let took = since.elapsed();
        done.turns.push(Turn { text, run: run.clone(), session: session.clone(), took });
        while !ended(&asks, &gateways, tries, &run).await {
            tries += 1;
            assert!(since.elapsed() < 5 * PATIENCE, "{run} does not end");
            tokio::time::sleep(pace).await;
        }
    }
    done
}

fn at(gateways: &Gateways, nth: usize) -> String {
    let urls = gateways.borrow();
    urls[nth % urls.len()].clone()
}

async fn start(
    asks: &Client,
    gateways: &Gateways,
    nth: usize,
    (key, asked): (&str, &Value),
) -> Result<String, String> {
    let request = asks.post(format!("{}/v1/runs", at(gateways, nth))).bearer_auth(ADMIN_KEY);
    let sent = body(request.header("idempotency-key", key), asked).send().await;
    let answer = sent.map_err(|_gone| "no answer".to_owned())?;
    let status = answer.status().as_u16();
    let text = answer.text().await.map_err(|_cut| "an answer that was cut".to_owned())?;
    let got: Value = serde_json::from_str(&text).unwrap_or_default();
    if status == 202 {
        return Ok(got["run_id"].as_str().expect("an id").to_owned());
    }
    let code = got["error"]["code"].as_str().unwrap_or_default();
    assert!(AGAIN.contains(&code), "{status} {text}");
    Err(code.to_owned())
}

async fn ended(asks: &Client, gateways: &Gateways, nth: usize, run: &str) -> bool {
    let request = asks.get(format!("{}/v1/runs/{run}", at(gateways, nth))).bearer_auth(ADMIN_KEY);
    let Ok(answer) = request.send().await else { return false };
    let status = answer.status().as_u16();
    assert_ne!(status, 404, "{run} was acknowledged");
    let got: Value =
        serde_json::from_str(&answer.text().await.unwrap_or_default()).unwrap_or_default();
    got["outcome"].is_string()
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

/// What the books say at the end.
#[derive(Debug, Default)]
pub struct Books {
    /// Turns that were acknowledged.
    pub turns: usize,
    /// Effects that happened.
    pub effects: usize,
    /// Effectful calls whose outcome was lost, and said to be.
    pub unknown: usize,
    /// The longest wait for an acknowledgement.
    pub longest: Duration,
}

/// Holds the journal against the ledger: each acknowledged turn once, each effect at most once and never untold, each
/// chain whole, nothing parked.
///
/// # Panics
///
/// With what is wrong.
pub async fn settle(cluster: &Cluster, turns: &[Turn]) -> Books {
    let node = cluster.nodes.first().expect("a node");
    let effects = effects(cluster);
    let twice: Vec<_> = effects.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "effects that happened twice: {twice:?}");
    let mut books = Books { turns: turns.len(), effects: effects.len(), ..Books::default() };
    let mut checks = stream::iter(turns.iter().map(|turn| {
        let happened = effects.contains_key(&turn.text);
        async move { (check(node, turn, happened).await, turn.took) }
    }))
    .buffer_unordered(CHECKS);
    while let Some((unknown, took)) = checks.next().await {
        books.unknown += usize::from(unknown);
        books.longest = books.longest.max(took);
    }
    once(cluster, turns).await;
    for node in &cluster.nodes {
        let (_, health) = node.get("/health/detailed").await;
        assert_eq!(health["actors"]["parked"], json!([]), "{health}");
    }
    books
}

/// One turn's run; whether its effect's outcome was lost.
async fn check(node: &Node, turn: &Turn, happened: bool) -> bool {
    let run = node.ended(&turn.run).await;
    let events = node.events(&turn.run).await;
    assert_eq!(run["outcome"], "completed", "{turn:?} {events:?}");
    let at = |name: &str| events.iter().position(|event| event == name);
    let (told, unsent) = (at("tool_unknown"), at("tool_not_sent"));
    if let Some(told) = told.or(unsent) {
        let after = events.iter().skip(told).any(|event| event == "model_answered");
        assert!(after, "the model was not told: {turn:?} {events:?}");
    }
    // An intent that took longer to be written than its window is not sent: certain, and told as such.
    assert!(!happened || unsent.is_none(), "what was not sent has happened: {turn:?} {events:?}");
    assert!(
        happened || told.or(unsent).is_some(),
        "a receipt without an effect: {turn:?} {events:?}"
    );
    let (status, verified) = node.get(&format!("/v1/runs/{}/verify", turn.run)).await;
    assert_eq!((status, &verified["ok"]), (200, &json!(true)), "{turn:?} {verified}");
    told.is_some()
}

/// Each session has the turns that were acknowledged, once and in their order.
async fn once(cluster: &Cluster, turns: &[Turn]) {
    let node = cluster.nodes.first().expect("a node");
    let mut sessions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for turn in turns {
        sessions.entry(&turn.session).or_default().push(format!("note: {}", turn.text));
    }
    for (session, acknowledged) in sessions {
        let path = format!("/v1/sessions/{session}/messages?limit=1000");
        let (status, got) = crate::process::answer(node.ask(Method::GET, &path)).await;
        assert_eq!(status, 200, "{got}");
        let said = got["data"].as_array().expect("messages").iter();
        let said = said.filter(|message| message["role"] == "user");
        let said: Vec<String> = said
            .map(|message| message["parts"][0]["text"].as_str().expect("a text").to_owned())
            .collect();
        assert_eq!(said, acknowledged, "{session}");
    }
}

/// So many workers at work; the story goes on meanwhile.
pub struct Crew {
    gateways: watch::Sender<Vec<String>>,
    stop: watch::Sender<bool>,
    workers: Vec<tokio::task::JoinHandle<Done>>,
}

impl Crew {
    /// Sets them to work through all of the nodes.
    pub fn start(cluster: &Cluster, workers: usize) -> Self {
        Self::paced(cluster, workers, PAUSE)
    }

    /// The same at another pace.
    pub fn paced(cluster: &Cluster, workers: usize, pace: Duration) -> Self {
        let _ready = client();
        let (gateways, ways) = watch::channel(urls(cluster));
        let (stop, stops) = watch::channel(false);
        let workers = (0..workers)
            .map(|worker| tokio::spawn(work(ways.clone(), (worker, pace), stops.clone())))
            .collect();
        Self { gateways, stop, workers }
    }

    /// Says through which nodes to ask from now on.
    pub fn go_through(&self, urls: Vec<String>) {
        self.gateways.send_replace(urls);
    }

    /// Ends the work, each turn of it, and says what was done.
    pub async fn finish(self) -> Done {
        self.stop.send_replace(true);
        let mut all = Done::default();
        for worker in self.workers {
            let done = worker.await.expect("a worker that did its work");
            all.turns.extend(done.turns);
            for (why, times) in done.refused {
                *all.refused.entry(why).or_default() += times;
            }
        }
        all
    }
}

/// Where the nodes answer.
pub fn urls(cluster: &Cluster) -> Vec<String> {
    cluster.nodes.iter().map(|node| node.url.clone()).collect()
}
