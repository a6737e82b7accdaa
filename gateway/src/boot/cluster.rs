//! A node's part in a cluster: it says that it lives, keeps the leases of what belongs to it, and serves exactly what it
//! has leases of.
//!
//! A partition is taken in this order: its epoch in the store, its tables, its subject on the bus, its agenda; and let
//! go in the reverse. Each has a task of its own, so that one that waits holds no other up.

mod questions;

use super::journal::Clustered;
use super::{BootError, Directory};
use actors::agenda::Agenda;
use actors::bus::Bus;
use actors::bus::Nats;
use actors::bus::life::Door;
use actors::bus::node::Peers;
use actors::clock::Clock;
use actors::cluster::bucket::{Bucket, uptime};
use actors::cluster::guard::{Guard, SUSPECTS_MAX, Sight};
use actors::cluster::keeper::{Holders, Keeper, Owned, Owns};
use actors::cluster::mandate::Mandate;
use actors::cluster::member::{Heard, Members, Nodes};
use actors::cluster::owners::Owners;
use actors::cluster::{NodeName, Uptime, place};
use actors::node::Node;
use actors::served::{Fences, Served};
use actors::task;
use events::id::Partition;
use events::quantity::{Instant, Millis};
use events::record::{Boot, Epoch};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The wait before a partition that could not be taken is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a partition that was handed over is still listened for: its next owner listens by then, and until somebody
/// does, whoever asks is told to ask again instead of hearing nothing.
const LINGER: Duration = Duration::from_secs(2);
/// How often at most it is said how many leases are held.
const TELL_EVERY: Millis = Millis(1_000);
/// How long a stopping node waits for the last lease to be given back, beyond the drain.
const LEAVE_MAX: Duration = Duration::from_secs(5);

/// What the rest of the node sees of the cluster.
#[derive(Debug, Clone)]
pub struct View {
    /// This node.
    pub node: NodeName,
    /// Which life of it this is.
    pub boot: Boot,
    /// Since when it runs.
    pub since: Instant,
    /// Who lives.
    pub nodes: watch::Receiver<Arc<Nodes>>,
    /// When each was heard of last.
    pub heard: watch::Receiver<Heard>,
    /// What this node has leases of.
    pub owns: watch::Receiver<Arc<Owns>>,
    /// Who holds each partition, as this node sees it.
    pub holders: watch::Receiver<Arc<Holders>>,
    /// The way to ask another node.
    pub peers: Peers,
    /// Where leases stand, to fence a node.
    pub bucket: Bucket,
}

impl View {
    /// Whether this life was fenced: it must not act any more.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.nodes.borrow().fenced().get(&self.node) == Some(&self.boot)
    }

    /// Waits until this life is fenced.
    pub async fn fenced(&self) {
        let mut nodes = self.nodes.clone();
        let ours = |nodes: &Arc<Nodes>| nodes.fenced().get(&self.node) == Some(&self.boot);
        if nodes.wait_for(ours).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What takes and lets go.
struct Estate {
    store: Store,
    clock: Clock,
    agenda: Agenda,
    directory: Arc<Directory>,
    bus: Nats<Directory>,
    keeper: Keeper,
    mandate: Mandate,
    /// What a hand-over gives to the steps in flight.
    drain: Millis,
    served: watch::Sender<Served>,
}

/// A node's part in a cluster, running.
#[derive(Debug)]
pub(super) struct Cluster {
    members: Members,
    keeper: Keeper,
    leaving: watch::Sender<bool>,
    drain: Millis,
    tasks: Vec<JoinHandle<()>>,
    _door: Door,
    _guard: Guard,
    _lock: File,
}

/// A node's part in its cluster, what it sees of it, and what it serves: all of it where the journal is its own.
pub(super) async fn part(
    clustered: Option<Clustered>,
    boot: Boot,
    node: &Node,
    (directory, bus): (&Arc<Directory>, &Bus<Directory>),
    drain: Millis,
) -> Result<(Option<Cluster>, Option<View>, watch::Receiver<Served>), BootError> {
    match (clustered, bus) {
        (Some(clustered), Bus::Nats(bus)) => {
            let ends = (Arc::clone(directory), bus.clone());
            let (part, view, served) = Cluster::join(clustered, boot, node, ends, drain).await?;
            Ok((Some(part), Some(view), served))
        }
        (Some(_) | None, _) => Ok((None, None, watch::channel(Served::ALL).1)),
    }
}

impl Cluster {
    /// Joins: from now on partitions are taken as the placement says.
    async fn join(
        clustered: Clustered,
        boot: Boot,
        node: &Node,
        (directory, bus): (Arc<Directory>, Nats<Directory>),
        drain: Millis,
    ) -> Result<(Self, View, watch::Receiver<Served>), BootError> {
        let Clustered { node: name, nats, servers, lock, former } = clustered;
        let client = store::jetstream::client(&servers).await?;
        let peers = Peers::new(client.clone(), nats.namespace.clone());
        let bucket = Bucket::new(client.clone(), nats.namespace.clone(), nats.replicas);
        let keeper = Keeper::start(bucket.clone(), node.store.clone(), &name, boot);
        succeed(node, &keeper, former).await;
        let (suspects, suspected) = mpsc::channel(SUSPECTS_MAX);
        bus.heed(Owners::new(keeper.holders(), suspects.clone()));
        // Before it says that it lives: who is listed and does not answer is taken for dead.
        let ways = [bus.client(), client.clone()];
        let door = Door::open(&ways, &nats.namespace, boot, suspects).await?;
        let members = Members::start(bucket.clone(), name.clone(), boot);
        let sight = Sight {
            client,
            namespace: nats.namespace,
            node: name.clone(),
            boot,
            nodes: members.nodes(),
            holders: keeper.holders(),
            keeper: keeper.clone(),
            words: members.words(),
        };
        let guard = Guard::start(sight, suspected);
        let (served, serves) = watch::channel(Served::NONE);
        let (leaving, leaves) = watch::channel(false);
        let view = View {
            node: name.clone(),
            boot,
            since: node.clock.now(),
            nodes: members.nodes(),
            heard: members.heard(),
            owns: keeper.owns(),
            holders: keeper.holders(),
            peers: peers.clone(),
            bucket,
        };
        let estate = Arc::new(Estate {
            store: node.store.clone(),
            clock: node.clock.clone(),
            agenda: node.agenda.clone(),
            directory,
            bus,
            keeper: keeper.clone(),
            mandate: node.mandate.clone(),
            drain,
            served,
        });
        let tasks = vec![
            task::spawn(
                task::Kind::Lease,
                place_all(name, members.nodes(), leaves, keeper.clone()),
            ),
            task::spawn(task::Kind::Lease, hand_out(Arc::clone(&estate))),
            task::spawn(task::Kind::Lease, tell_fences(node.fences.clone(), keeper.clone())),
            peers.answer(&view.node, questions::answering(&view, members.wish(), serves.clone())),
        ];
        let cluster = Self {
            members,
            keeper,
            leaving,
            drain,
            tasks,
            _door: door,
            _guard: guard,
            _lock: lock,
        };
        Ok((cluster, view, serves))
    }

    /// Lets everything go, in peace, and says so: the next owners begin at once.
    pub(super) async fn leave(self) {
        let Self { members, keeper, leaving, drain, tasks, _door, _guard, _lock } = self;
        leaving.send_replace(true);
        let mut owns = keeper.owns();
        let bound = Duration::from_millis(drain.0) + LEAVE_MAX;
        let empty = owns.wait_for(|owns| owns.is_empty());
        if tokio::time::timeout(bound, empty).await.is_err() {
            tracing::warn!("some leases are not given back; they end by themselves");
        }
        // What still comes is answered until the next owners listen.
        tokio::time::sleep(LINGER).await;
        members.leave().await;
        tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A life that is over for sure leaves nothing to wait for: neither its leases nor its effects.
async fn succeed(node: &Node, keeper: &Keeper, former: Option<Boot>) {
    node.mandate.joined(keeper.owns(), former);
    if let Some(former) = former {
        keeper.silent(former).await;
    }
}

/// Says what belongs here whenever the set of live nodes changes; nothing, once this node leaves.
async fn place_all(
    node: NodeName,
    mut nodes: watch::Receiver<Arc<Nodes>>,
    mut leaving: watch::Receiver<bool>,
    keeper: Keeper,
) {
    loop {
        let seen = Arc::clone(&nodes.borrow_and_update());
        for boot in seen.fenced().values() {
            keeper.fenced(*boot).await;
        }
        let leaves = *leaving.borrow_and_update();
        let here = if leaves { BTreeSet::new() } else { place::belonging(&node, &seen.takers()) };
        keeper.place(here).await;
        let lives = tokio::select! {
            changed = nodes.changed() => changed.is_ok(),
            changed = leaving.changed() => changed.is_ok(),
        };
        if !lives {
            return;
        }
    }
}

/// Tells the keeper of each other owner that an append met: a good lease then rises above it.
async fn tell_fences(fences: Fences, keeper: Keeper) {
    let mut met = fences.watch();
    let mut told: BTreeMap<Partition, Epoch> = BTreeMap::new();
    while met.changed().await.is_ok() {
        let now = met.borrow_and_update().clone();
        for (partition, epoch) in now {
            if told.insert(partition, epoch) != Some(epoch) {
                keeper.met(partition, epoch).await;
            }
        }
    }
}

/// What one partition's task is told; the horizon, which moves with each heartbeat, is no news to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Duty {
    Nothing,
    Serve(Epoch),
    Drain(Epoch),
}

impl Duty {
    fn of(owned: Option<&Owned>) -> Self {
        match owned {
            None => Self::Nothing,
            Some(Owned { epoch, draining: true, .. }) => Self::Drain(*epoch),
            Some(Owned { epoch, draining: false, .. }) => Self::Serve(*epoch),
        }
    }
}

async fn hand_out(estate: Arc<Estate>) {
    let mut owns = estate.keeper.owns();
    let mut duties: BTreeMap<Partition, watch::Sender<Duty>> = BTreeMap::new();
    for partition in Partition::all() {
        let (duty, told) = watch::channel(Duty::Nothing);
        duties.insert(partition, duty);
        task::spawn(task::Kind::Lease, Arc::clone(&estate).attend(partition, told));
    }
    let (mut told, mut tell_from) = (0, Uptime::default());
    loop {
        let now = Arc::clone(&owns.borrow_and_update());
        // A heartbeat is a change, so the last word comes soon; each step of a move by itself is no news.
        if now.len() != told && uptime() >= tell_from {
            told = now.len();
            tell_from = uptime().after(TELL_EVERY);
            tracing::info!(leases = told, "leases_held");
        }
        for (partition, duty) in &duties {
            let wanted = Duty::of(now.get(partition));
            duty.send_if_modified(|before| std::mem::replace(before, wanted) != wanted);
        }
        if owns.changed().await.is_err() {
            return;
        }
    }
}

fn not_taken(partition: Partition, error: &(dyn Error + 'static)) {
    tracing::warn!(partition = partition.number(), error, "not taken yet");
}

async fn changed_from_drain(told: &mut watch::Receiver<Duty>) {
    let _gone = told.wait_for(|duty| !matches!(duty, Duty::Drain(_))).await.is_err();
}

impl Estate {
    async fn attend(self: Arc<Self>, partition: Partition, mut told: watch::Receiver<Duty>) {
        let mut held: Option<Epoch> = None;
        let mut lingers = false;
        loop {
            let duty = *told.borrow_and_update();
            let mut again = None;
            match (duty, held) {
                (Duty::Nothing, None) => {}
                (Duty::Nothing, Some(_)) => {
                    self.lose(partition).await;
                    held = None;
                }
                (Duty::Serve(epoch), before) if before.is_none_or(|before| before < epoch) => {
                    match self.take(partition, epoch).await {
                        Ok(()) => (held, lingers) = (Some(epoch), false),
                        Err(error) => {
                            not_taken(partition, &*error);
                            // What was taken of it, or it would be served under a lease that may end meanwhile.
                            self.lose(partition).await;
                            (held, lingers) = (None, false);
                            again = Some(AGAIN);
                        }
                    }
                }
                (Duty::Serve(_), _) => {}
                (Duty::Drain(_), None) => self.keeper.drained(partition).await,
                (Duty::Drain(_), Some(_)) => {
                    tokio::select! {
                        () = self.hand_over(partition) => {
                            (held, lingers) = (None, true);
                            self.keeper.drained(partition).await;
                        }
                        // The lease is over, or the placement took it back: look again.
                        () = changed_from_drain(&mut told) => continue,
                    }
                }
            }
            if lingers {
                again = Some(LINGER);
            }
            let wait = async {
                match again {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = told.changed() => if changed.is_err() {
                    return;
                },
                () = wait => if std::mem::take(&mut lingers) {
                    self.bus.leave(partition).await;
                },
            }
        }
    }

    async fn take(
        &self,
        partition: Partition,
        lease: Epoch,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        // The lease's epoch is the new one already; the store counts up by one itself.
        let owned = self.store.own(partition, Epoch(lease.0.saturating_sub(1))).await?;
        if owned > lease {
            self.keeper.met(partition, Epoch(owned.0.saturating_sub(1))).await;
        }
        self.mandate.took(partition);
        self.directory.serve(partition);
        self.bus.serve(partition).await?;
        self.agenda.start([partition]);
        self.served.send_modify(|served| *served = served.with(partition));
        Ok(())
    }

    /// At once: another node may own it already.
    async fn lose(&self, partition: Partition) {
        self.served.send_modify(|served| *served = served.without(partition));
        self.store.release(partition);
        self.agenda.leave(partition);
        self.bus.resign(partition);
        self.directory.lose(partition).await;
        self.bus.leave(partition).await;
    }

    /// In peace: what is in flight gets its time, and nothing new comes in.
    async fn hand_over(&self, partition: Partition) {
        self.served.send_modify(|served| *served = served.without(partition));
        self.agenda.leave(partition);
        self.bus.resign(partition);
        let deadline = self.clock.now().after(self.drain);
        self.directory.hand_over(partition, &self.clock, deadline).await;
        self.store.release(partition);
    }
}
