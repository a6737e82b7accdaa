//! Sees that a node's process is gone, within a second or two, so that its partitions need not wait for its leases to end.
//!
//! Each node asks after its two neighbours in the order of names, and after every holder of what belongs to itself.
//! The only proof is the server's word that nobody listens at a life's own subject: three times, over 600 ms, on a
//! connection that stood all the while. An answer that does not come proves nothing: whoever hangs is left to the end
//! of its leases. Whoever hears nobody once tells all the others, and each proves it by itself, for a node takes only
//! what it has seen for itself; so there is no next in rank that could be dead as well.
//!
//! Being wrong costs work and no truth: a life that was thought over is fenced as any former owner. One that shows again
//! is never taken for dead here a second time.

use super::NodeName;
use super::keeper::{Holders, Keeper};
use super::member::{Life, Nodes, Words};
use crate::bus::life::{Reply, Request};
use crate::{metric, task};
use async_nats::client::{Request as Sent, RequestErrorKind};
use async_nats::{Client, connection::State};
use events::record::Boot;
use events::subject::{Namespace, Subject};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// Suspects that may wait to be looked after. More are named again.
pub const SUSPECTS_MAX: usize = 64;
/// Neighbours that each node asks after.
const NEIGHBOURS: usize = 2;
/// How often.
const EVERY: Duration = Duration::from_millis(500);
/// How often nobody must be heard.
const PROBES: usize = 3;
/// Between two probes: the three span 600 ms, and a client that lost its server is back in a tenth of that.
const BETWEEN: Duration = Duration::from_millis(300);
/// How long a probe waits. Longer proves nothing.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// How long this node's own connection must have stood: after all servers were restarted, the others come back within it.
const SETTLED: Duration = Duration::from_secs(3);
/// The least time between two looks at one life, whoever suspects it.
const PACE: Duration = Duration::from_millis(250);
/// Lives that are remembered as found over, and as wrongly found so.
const REMEMBERED: usize = 64;

/// What a guard sees and says.
#[derive(Debug, Clone)]
pub struct Sight {
    /// A connection.
    pub client: Client,
    /// Whose subjects.
    pub namespace: Namespace,
    /// This node.
    pub node: NodeName,
    /// Which life of it.
    pub boot: Boot,
    /// Who lives.
    pub nodes: watch::Receiver<Arc<Nodes>>,
    /// Who holds what.
    pub holders: watch::Receiver<Arc<Holders>>,
    /// Is told who is silent.
    pub keeper: Keeper,
    /// The nodes' words in the bucket.
    pub words: Words,
}

/// Runs until it is dropped.
#[derive(Debug)]
pub struct Guard(JoinHandle<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Guard {
    /// Looks after neighbours, awaited holders, and whoever comes over `suspects`.
    #[must_use]
    pub fn start(sight: Sight, suspects: mpsc::Receiver<Boot>) -> Self {
        let (report, verdicts) = mpsc::channel(SUSPECTS_MAX);
        let link = Link { since: None, ..Link::of(&sight.client) };
        let task = Task {
            sight,
            report,
            link,
            at_work: BTreeSet::new(),
            checked: BTreeMap::new(),
            found: Found::default(),
        };
        Self(task::spawn(task::Kind::Lease, task.run(suspects, verdicts)))
    }
}

/// What one probe heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// The life itself.
    Here,
    /// The server: nobody listens.
    Nobody,
    /// Nothing that says anything.
    Nothing,
}

/// What the probes of one life say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Its process is gone.
    Over,
    /// That is not proved.
    Open,
}

/// Which connection this node has, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    /// Which one in the client's count; `None` while there is none.
    number: Option<u64>,
    /// `None` for the one that the node started with: the servers stood already.
    since: Option<Instant>,
}

impl Link {
    fn of(client: &Client) -> Self {
        let is_up = client.connection_state() == State::Connected;
        let number = client.statistics().connects.load(Ordering::Relaxed);
        Self { number: is_up.then_some(number), since: Some(Instant::now()) }
    }

    fn is_settled(&self) -> bool {
        self.number.is_some() && self.since.is_none_or(|since| since.elapsed() >= SETTLED)
    }
}

/// Lives that were found over, and those of them that showed again.
#[derive(Debug, Default)]
struct Found {
    /// With whether the life has been out of sight since.
    over: VecDeque<(Boot, bool)>,
    wrongly: VecDeque<Boot>,
}

impl Found {
    fn over(&mut self, boot: Boot) {
        if !self.over.iter().any(|(one, _)| *one == boot) {
            self.over.push_back((boot, false));
        }
        if self.over.len() > REMEMBERED {
            self.over.pop_front();
        }
    }

    /// Takes in who lives.
    fn seen(&mut self, live: &Nodes) {
        let lives = |boot: &Boot| live.lives().any(|(_, life)| life.boot == *boot);
        for (boot, was_gone) in &mut self.over {
            if !lives(boot) {
                *was_gone = true;
            } else if *was_gone && !self.wrongly.contains(boot) {
                self.wrongly.push_back(*boot);
            }
        }
        while self.wrongly.len() > REMEMBERED {
            self.wrongly.pop_front();
        }
    }

    fn is_doubtful(&self, boot: Boot) -> bool {
        self.wrongly.contains(&boot)
    }
}

struct Task {
    sight: Sight,
    report: mpsc::Sender<(Boot, Verdict)>,
    link: Link,
    /// Lives that are probed now.
    at_work: BTreeSet<Boot>,
    /// When each was looked at last.
    checked: BTreeMap<Boot, Instant>,
    found: Found,
}

impl Task {
    async fn run(
        mut self,
        mut suspects: mpsc::Receiver<Boot>,
        mut verdicts: mpsc::Receiver<(Boot, Verdict)>,
    ) {
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut nodes = self.sight.nodes.clone();
        loop {
            tokio::select! {
                _now = every.tick() => self.look(),
                Some(boot) = suspects.recv() => self.suspect(boot),
                Some((boot, verdict)) = verdicts.recv() => self.judged(boot, verdict),
                changed = nodes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.found.seen(&nodes.borrow_and_update());
                    self.look();
                }
            }
        }
    }

    fn look(&mut self) {
        let link = Link::of(&self.sight.client);
        if link.number != self.link.number {
            self.link = link;
        }
        self.checked.retain(|_, at| at.elapsed() < PACE);
        let watched = {
            let (nodes, holders) = (self.sight.nodes.borrow(), self.sight.holders.borrow());
            watched((&self.sight.node, self.sight.boot), &nodes, &holders)
        };
        watched.into_iter().for_each(|boot| self.check(boot));
    }

    /// Somebody heard nobody: looked after only if it is a life that counts for something.
    fn suspect(&mut self, boot: Boot) {
        let is_known = self.sight.nodes.borrow().lives().any(|(_, life)| life.boot == boot)
            || self.sight.holders.borrow().values().any(|holder| holder.boot == boot);
        if is_known {
            self.check(boot);
        }
    }

    fn check(&mut self, boot: Boot) {
        let is_early = self.checked.get(&boot).is_some_and(|at| at.elapsed() < PACE);
        let stood = self.link.number;
        let skip = boot == self.sight.boot || is_early || stood.is_none();
        if skip || self.found.is_doubtful(boot) || !self.at_work.insert(boot) {
            return;
        }
        let (sight, report) = (self.sight.clone(), self.report.clone());
        task::spawn(task::Kind::Lease, async move {
            let verdict = match judge(&sight, boot).await {
                // Another connection may not have heard of the life yet.
                Verdict::Over if Link::of(&sight.client).number != stood => Verdict::Open,
                verdict => verdict,
            };
            let _ended = report.send((boot, verdict)).await;
        });
    }

    fn judged(&mut self, boot: Boot, verdict: Verdict) {
        self.at_work.remove(&boot);
        self.checked.insert(boot, Instant::now());
        if verdict == Verdict::Open || !self.link.is_settled() {
            return;
        }
        let found = |(name, life): (&NodeName, Life)| (life.boot == boot).then(|| name.clone());
        let name = self.sight.nodes.borrow().lives().find_map(found);
        let shown = name.as_ref().map(NodeName::as_str);
        tracing::warn!(node = shown, boot = %format_args!("{:032x}", boot.0), "node_silent: its process is gone");
        metric::node_silent();
        self.found.over(boot);
        let (keeper, words) = (self.sight.keeper.clone(), self.sight.words.clone());
        task::spawn(task::Kind::Lease, async move {
            // First, so that what then belongs to this node is taken at once.
            keeper.silent(boot).await;
            if let Some(name) = name {
                words.strike(&name, boot).await;
            }
        });
    }
}

/// The lives to ask after: the next neighbours by name, and those that hold what belongs to this node.
fn watched((node, boot): (&NodeName, Boot), nodes: &Nodes, holders: &Holders) -> BTreeSet<Boot> {
    let others = || nodes.lives().filter(|(name, _)| *name != node);
    let around = others().filter(|(name, _)| *name > node).chain(others());
    let mut watched: BTreeSet<Boot> = around.take(NEIGHBOURS).map(|(_, life)| life.boot).collect();
    let here = super::place::belonging(node, &nodes.takers());
    let awaited = holders.iter().filter(|(partition, _)| here.contains(partition));
    watched.extend(awaited.map(|(_, holder)| holder.boot));
    watched.remove(&boot);
    watched
}

/// Whether nobody listens at a life's subject, as often as it takes to believe it.
async fn judge(sight: &Sight, boot: Boot) -> Verdict {
    for nth in 0..PROBES {
        if nth > 0 {
            tokio::time::sleep(BETWEEN).await;
        }
        match probe(sight, boot).await {
            Heard::Nobody if nth == 0 => tell(sight, boot).await,
            Heard::Nobody => {}
            Heard::Here | Heard::Nothing => return Verdict::Open,
        }
    }
    Verdict::Over
}

async fn probe(sight: &Sight, boot: Boot) -> Heard {
    let subject = sight.namespace.spell(&Subject::Life(boot));
    let ping = Sent::new().payload(Request::Ping.bytes()).timeout(Some(PROBE_MAX));
    match sight.client.send_request(subject, ping).await {
        // Another build's words are an answer too.
        Ok(reply) => {
            tracing::trace!(known = Reply::of(&reply.payload).is_some(), "a life answers");
            Heard::Here
        }
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Heard::Nobody,
        Err(_) => Heard::Nothing,
    }
}

/// Each of the others looks for itself, at the same time.
async fn tell(sight: &Sight, boot: Boot) {
    let lives: Vec<Boot> = sight.nodes.borrow().lives().map(|(_, life)| life.boot).collect();
    for life in lives.into_iter().filter(|life| ![sight.boot, boot].contains(life)) {
        let subject = sight.namespace.spell(&Subject::Life(life));
        // Whoever does not hear it hears of it when the word is struck.
        let _sent = sight.client.publish(subject, Request::Suspect { boot }.bytes()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::lease::Holder;
    use events::id::Partition;
    use events::record::Epoch;

    fn named(names: &[(&str, u128)]) -> Nodes {
        Nodes::of(names.iter().map(|(name, boot)| (name.parse().unwrap(), Boot(*boot))))
    }

    fn check(of: &str, nodes: &[(&str, u128)], holders: &[(u8, u128)], then: &[u128]) {
        let nodes = named(nodes);
        let node: NodeName = of.parse().unwrap();
        let boot = nodes.life(&node).unwrap().boot;
        let holder = |(partition, life): &(u8, u128)| {
            let node = "x".parse().unwrap();
            let holder = Holder { node, boot: Boot(*life), epoch: Epoch(1) };
            (Partition::of(u64::from(*partition)), holder)
        };
        let holders = holders.iter().map(holder).collect();
        let then: BTreeSet<Boot> = then.iter().copied().map(Boot).collect();
        assert_eq!(watched((&node, boot), &nodes, &holders), then);
    }

    #[test]
    fn each_node_asks_after_its_two_neighbours_and_everybody_has_two_who_ask() {
        let four = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
        check("a", &four, &[], &[2, 3]);
        check("c", &four, &[], &[4, 1]);
        check("d", &four, &[], &[1, 2]);
        check("b", &four[..2], &[], &[1]);
        check("a", &four[..1], &[], &[]);
    }

    #[test]
    fn a_holder_of_what_belongs_here_is_asked_after_and_no_other() {
        // Alone, all belongs here: also what a life holds that is not listed any more. Its own is no question.
        check("a", &[("a", 1)], &[(3, 9), (4, 1)], &[9]);
        // Of the three, 0 belongs to a and 1 to b, as the golden placement says.
        let three = [("a", 1), ("b", 2), ("c", 3)];
        check("a", &three, &[(0, 9)], &[2, 3, 9]);
        check("a", &three, &[(1, 9)], &[2, 3]);
    }

    #[test]
    fn a_life_that_shows_again_is_left_to_the_end_of_its_leases() {
        let mut found = Found::default();
        found.over(Boot(2));
        found.seen(&named(&[("a", 1), ("b", 2)]));
        assert!(!found.is_doubtful(Boot(2)), "its word was not struck yet");
        found.seen(&named(&[("a", 1)]));
        found.seen(&named(&[("a", 1), ("b", 3)]));
        assert!(!found.is_doubtful(Boot(2)), "another life of the same name");
        found.seen(&named(&[("a", 1), ("b", 2)]));
        assert!(found.is_doubtful(Boot(2)));
        for boot in 0..200 {
            found.over(Boot(boot));
            found.seen(&Nodes::default());
            found.seen(&named(&[("c", boot)]));
        }
        assert!(found.over.len() <= REMEMBERED && found.wrongly.len() <= REMEMBERED);
    }
}
