//! Keeps one node's leases: gives the rules what happens, does what they say, and shows what this node owns.
//!
//! One task owns all beliefs; what waits for a server runs beside it and reports back, one write or look for each
//! partition at a time. What is owned is shown as a state and not as a queue of changes, so nobody who is slow can hold
//! a stop up.

use super::NodeName;
use super::bucket::{Bucket, BucketError, uptime};
use super::dispatch::Horizon;
use super::lease::{Action, Belongs, Holder, Input, Lease, Why};
use super::tally::Tally;
use crate::metric::{self, From};
use crate::task;
use events::id::Partition;
use events::record::{Boot, Epoch};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Words to the keeper that may wait. It awaits nothing, so more than a few are never there.
const WORDS_MAX: usize = 256;
/// Reports that may wait: a write or a look of each partition, and the opening of the bucket.
const REPORTS_MAX: usize = 2 * events::id::PARTITIONS as usize + 8;
/// The longest sleep, so that a machine that slept is noticed soon.
const NAP_MAX: Duration = Duration::from_secs(1);
/// The wait before the bucket is tried again.
const REOPEN: Duration = Duration::from_millis(500);

/// One partition that this node owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// What its commits carry.
    pub epoch: Epoch,
    /// Until when this node may act for it.
    pub horizon: Horizon,
    /// It is to be let go: finish what is under way, then say [`Keeper::drained`].
    pub draining: bool,
}

/// What this node owns now.
pub type Owns = BTreeMap<Partition, Owned>;

/// Who holds each partition, as far as this node has seen; those that nobody holds are left out.
pub type Holders = BTreeMap<Partition, Holder>;

enum Word {
    Placed(BTreeSet<Partition>),
    Met(Partition, Epoch),
    Silent(Boot),
    Fenced(Boot),
    Drained(Partition),
}

type Watch = BoxStream<'static, Option<(Partition, super::lease::Seen)>>;

enum Report {
    Lease(Partition, Input),
    Opened(Watch),
    Gone,
}

/// A handle on the task that keeps the leases. Dropping the last one ends it, and the leases with their time.
#[derive(Debug, Clone)]
pub struct Keeper {
    words: mpsc::Sender<Word>,
    owns: watch::Receiver<Arc<Owns>>,
    holders: watch::Receiver<Arc<Holders>>,
    task: Arc<Abort>,
}

#[derive(Debug)]
struct Abort(JoinHandle<()>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Keeper {
    /// Starts keeping leases for one life of a node, of nothing at first. `store` says which epochs a partition has
    /// seen.
    #[must_use]
    pub fn start(bucket: Bucket, store: Store, node: &NodeName, boot: Boot) -> Self {
        let (words, told) = mpsc::channel(WORDS_MAX);
        let (report, reports) = mpsc::channel(REPORTS_MAX);
        let (shows, owns) = watch::channel(Arc::default());
        let (holds, holders) = watch::channel(Arc::default());
        let leases =
            Partition::all().map(|partition| (partition, Lease::new(node.clone(), boot))).collect();
        let (draining, tally) = (BTreeSet::new(), Tally::default());
        let task = Task { bucket, store, leases, draining, tally, report, shows, holds };
        let task = task::spawn(task::Kind::Lease, task.run(told, reports));
        Self { words, owns, holders, task: Arc::new(Abort(task)) }
    }

    /// Says which partitions belong to this node now.
    pub async fn place(&self, here: BTreeSet<Partition>) {
        self.say(Word::Placed(here)).await;
    }

    /// Says that an append was fenced by an epoch.
    pub async fn met(&self, partition: Partition, epoch: Epoch) {
        self.say(Word::Met(partition, epoch)).await;
    }

    /// Says that nobody answers at a life of a node.
    pub async fn silent(&self, boot: Boot) {
        self.say(Word::Silent(boot)).await;
    }

    /// Says that a life of a node must not act any more: another one's partitions are taken, one's own are lost at once.
    pub async fn fenced(&self, boot: Boot) {
        self.say(Word::Fenced(boot)).await;
    }

    /// Says that a partition that was to be let go is at rest.
    pub async fn drained(&self, partition: Partition) {
        self.say(Word::Drained(partition)).await;
    }

    /// What this node owns, now and as it changes.
    #[must_use]
    pub fn owns(&self) -> watch::Receiver<Arc<Owns>> {
        self.owns.clone()
    }

    /// Who holds each partition, now and as it changes.
    #[must_use]
    pub fn holders(&self) -> watch::Receiver<Arc<Holders>> {
        self.holders.clone()
    }

    /// Until when this node may act for a partition.
    #[must_use]
    pub fn horizon(&self, partition: Partition) -> Horizon {
        self.owns.borrow().get(&partition).map_or(Horizon::Over, |owned| owned.horizon)
    }

    /// Whether its task still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.task.0.is_finished()
    }

    async fn say(&self, word: Word) {
        // A keeper that has ended shows that it owns nothing for long.
        let _ended = self.words.send(word).await;
    }
}

struct Task {
    bucket: Bucket,
    store: Store,
    leases: BTreeMap<Partition, Lease>,
    draining: BTreeSet<Partition>,
    tally: Tally,
    report: mpsc::Sender<Report>,
    shows: watch::Sender<Arc<Owns>>,
    holds: watch::Sender<Arc<Holders>>,
}

impl Task {
    async fn run(mut self, mut told: mpsc::Receiver<Word>, mut reports: mpsc::Receiver<Report>) {
        let mut watch: Option<Watch> = None;
        let mut opening = true;
        self.open(Duration::ZERO);
        loop {
            let news = async {
                match &mut watch {
                    Some(watch) => watch.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                word = told.recv() => match word {
                    Some(word) => self.told(word),
                    None => return,
                },
                report = reports.recv() => match report {
                    Some(Report::Lease(partition, input)) => self.step(partition, input),
                    Some(Report::Opened(opened)) => {
                        watch = Some(opened);
                        opening = false;
                        self.all(&Input::Reopened);
                    }
                    Some(Report::Gone) => {
                        watch = None;
                        if !std::mem::replace(&mut opening, true) {
                            self.open(REOPEN);
                        }
                    }
                    None => return,
                },
                news = news => match news {
                    Some(Some((partition, seen))) => self.step(partition, Input::Watched(seen)),
                    // It goes on by itself after an error.
                    Some(None) => {}
                    None => {
                        watch = None;
                        if !std::mem::replace(&mut opening, true) {
                            self.open(REOPEN);
                        }
                    }
                },
                () = tokio::time::sleep(self.nap()) => self.tick(),
            }
            self.show();
        }
    }

    fn nap(&self) -> Duration {
        let next = self.leases.values().filter_map(Lease::next).min();
        let left = next.map_or(u64::MAX, |at| at.0.saturating_sub(uptime().0));
        Duration::from_millis(left).min(NAP_MAX)
    }

    fn told(&mut self, word: Word) {
        match word {
            Word::Placed(here) => {
                let now = uptime();
                for partition in Partition::all() {
                    let is_here = here.contains(&partition);
                    let belongs = if is_here { Belongs::Here } else { Belongs::Elsewhere };
                    let owned = self.leases.get(&partition).and_then(|lease| lease.epoch(now));
                    self.tally.placed((partition, belongs), owned, now);
                    self.step(partition, Input::Placed(belongs));
                }
            }
            Word::Met(partition, epoch) => self.step(partition, Input::Met(epoch)),
            Word::Silent(boot) => self.all(&Input::Silent(boot)),
            Word::Fenced(boot) => self.all(&Input::Fenced(boot)),
            Word::Drained(partition) => self.step(partition, Input::Drained),
        }
    }

    fn tick(&mut self) {
        let now = uptime();
        let is_due = |lease: &Lease| lease.next().is_some_and(|at| at <= now);
        let due: Vec<Partition> = self
            .leases
            .iter()
            .filter_map(|(partition, lease)| is_due(lease).then_some(*partition))
            .collect();
        due.into_iter().for_each(|partition| self.step(partition, Input::Tick));
    }

    fn all(&mut self, input: &Input) {
        Partition::all().for_each(|partition| self.step(partition, input.clone()));
    }

    fn step(&mut self, partition: Partition, input: Input) {
        let Some(lease) = self.leases.get_mut(&partition) else { return };
        for action in lease.step(uptime(), input) {
            self.act(partition, action);
        }
    }

    fn act(&mut self, partition: Partition, action: Action) {
        let (bucket, store, report) =
            (self.bucket.clone(), self.store.clone(), self.report.clone());
        match action {
            Action::Own(epoch) => {
                self.tally.owns(partition, uptime());
                tracing::debug!(partition = partition.number(), epoch = epoch.0, "owned");
            }
            Action::Drain => {
                self.draining.insert(partition);
            }
            Action::Stop(why) => {
                self.draining.remove(&partition);
                self.tally.loses(partition, why, uptime());
                match why {
                    Why::HandedOver => {
                        tracing::debug!(partition = partition.number(), "handed over");
                    }
                    Why::HeartbeatsFailed | Why::Taken | Why::Fenced => {
                        tracing::warn!(partition = partition.number(), ?why, "not owned any more");
                    }
                }
                // Before anything else is done.
                self.show();
            }
            Action::Put { holder, expected } => {
                let stood = self.leases.get(&partition).and_then(Lease::holder);
                let from = if stood.is_some() { From::Replaced } else { From::Free };
                self.tally.tries(partition, from);
                task::spawn(task::Kind::Lease, async move {
                    let outcome = bucket.put(partition, &holder, expected).await;
                    let _ended = report.send(Report::Lease(partition, Input::Wrote(outcome))).await;
                });
            }
            Action::Delete { expected } => {
                task::spawn(task::Kind::Lease, async move {
                    let outcome = bucket.delete(partition, expected).await;
                    let _ended = report.send(Report::Lease(partition, Input::Wrote(outcome))).await;
                });
            }
            Action::Look => {
                task::spawn(task::Kind::Lease, async move {
                    let input = look(&bucket, &store, partition, &report).await;
                    let _ended = report.send(Report::Lease(partition, input)).await;
                });
            }
        }
    }

    fn open(&self, after: Duration) {
        let (bucket, report) = (self.bucket.clone(), self.report.clone());
        task::spawn(task::Kind::Lease, async move {
            tokio::time::sleep(after).await;
            let opened = loop {
                match bucket.open().await {
                    Ok(opened) => break opened,
                    Err(error) if report.is_closed() => {
                        tracing::debug!(%error, "nobody waits for the bucket");
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no lease bucket, so no ownership");
                        tokio::time::sleep(REOPEN).await;
                    }
                }
            };
            let _ended = report.send(Report::Opened(opened.boxed())).await;
        });
    }

    fn show(&self) {
        let now = uptime();
        let owned = |(partition, lease): (&Partition, &Lease)| {
            let (epoch, horizon) = (lease.epoch(now)?, lease.horizon());
            let draining = self.draining.contains(partition);
            Some((*partition, Owned { epoch, horizon, draining }))
        };
        let owns: Owns = self.leases.iter().filter_map(owned).collect();
        let held =
            |(partition, lease): (&Partition, &Lease)| Some((*partition, lease.holder()?.clone()));
        let holders: Holders = self.leases.iter().filter_map(held).collect();
        metric::leases(owns.len(), self.leases.len().saturating_sub(holders.len()));
        show(&self.shows, owns);
        show(&self.holds, holders);
    }
}

/// Shows a state, if it is another one.
fn show<T: PartialEq>(shows: &watch::Sender<Arc<T>>, now: T) {
    shows.send_if_modified(|shown| {
        let changed = **shown != now;
        if changed {
            *shown = Arc::new(now);
        }
        changed
    });
}

async fn look(
    bucket: &Bucket,
    store: &Store,
    partition: Partition,
    report: &mpsc::Sender<Report>,
) -> Input {
    match bucket.look(partition).await {
        Ok(seen) => match store.epoch_seen(partition).await {
            Ok(highest) => Input::Looked { seen, highest },
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "the epochs of a partition are not known");
                Input::LookFailed
            }
        },
        Err(error) => {
            if let BucketError::Gone = error {
                let _ended = report.send(Report::Gone).await;
            }
            Input::LookFailed
        }
    }
}
