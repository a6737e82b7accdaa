//! Turns with an outside effect, asked for again and again under their keys until they are acknowledged; what was
//! acknowledged is kept outside of everything that is killed, for the books.

use crate::fleet::Cluster;
use crate::process::{ADMIN_KEY, client, json as body, patience};
use events::id::{Generation, Partition, Place, SessionId};
use reqwest::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Between two tries of one turn, and between two looks at a run, unless the story says another pace.
const PAUSE: Duration = Duration::from_millis(150);
/// How long one request may take: longer than a node lets a command wait.
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// What a turn says before its text.
pub const ASKS: &str = "note: ";
/// Turns of one session; then the worker begins another.
const TURNS_MAX: usize = 100;
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
    /// Tries that had another answer: how long after the first one was made, and which.
    pub tries: Vec<(Duration, String)>,
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
    let mut done = Done::default();
    let mut tries = worker;
    while !*stop.borrow() {
        let session = session(worker, done.turns.len());
        let text = format!("w{worker}-{}", done.turns.len());
        let asked = json!({"input": format!("{ASKS}{text}"), "session_id": session});
        let (since, mut vain) = (Instant::now(), vec![]);
        let run = loop {
            tries += 1;
            match start(&asks, &gateways, tries, (&text, &asked)).await {
                Ok(run) => break run,
                Err(why) => {
                    vain.push((since.elapsed(), why.clone()));
                    *done.refused.entry(why).or_default() += 1;
                }
            }
            assert!(since.elapsed() < 3 * patience(), "{text}: {vain:?}");
            tokio::time::sleep(pace).await;
        };
        let took = since.elapsed();
        done.turns.push(Turn { text, run: run.clone(), session, took, tries: vain });
        while !ended(&asks, &gateways, tries, &run).await {
            tries += 1;
            assert!(since.elapsed() < 5 * patience(), "{run} does not end");
            tokio::time::sleep(pace).await;
        }
    }
    done
}

/// The session of a worker's nth turn, in a partition of the worker's own choice.
fn session(worker: usize, turn: usize) -> String {
    let worker = u64::try_from(worker).expect("few");
    let nth = u64::try_from(turn / TURNS_MAX).expect("few");
    let place = Place { partition: Partition::of(worker), generation: Generation::FIRST };
    SessionId::new(place, u128::from(nth) << 64 | u128::from(worker + 1)).to_string()
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
