//! The hosts of one kind of stream, by id. A caller never keeps an address.
//!
//! Finding the host, starting it and taking a place in its inbox happen under one lock, and a host may only go to
//! sleep, under the same lock, when no place is taken: a command can not fall between the two.

mod fall;
mod rest;
mod wake;

use crate::host::{Host, Hosted};
use crate::inbox::{Asked, Inbox, Origin, Read, View};
use crate::metric::{self, Full};
use crate::node::Node;
use crate::order::{Answer, Lane, NoDecision, Observed, Order};
use crate::permit::Permit;
use crate::served::Served;
use crate::supervisor::{self, Falls, Supervisor};
use crate::task;
use events::id::Partition;
use events::quantity::Millis;
use events::record::StreamKind;
use ractor::{ActorId, ActorRef, ActorRuntime, SpawnErr};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

pub use rest::Drained;

/// Streams of one kind that have a host at a time, about 10 kB each without their state; 1.3 GB in all.
pub const HOSTS_MAX: usize = 131_072;
/// How long a read of a state may wait for its host, which may have to replay first.
const OBSERVE_MAX: Duration = Duration::from_secs(5);
/// What a caller is told to wait when there is no room: a few of the store's commits later there is.
const RETRY_AFTER: Millis = Millis(250);

/// The supervisor of a table did not start, so no host could.
#[derive(Debug, thiserror::Error)]
#[error("the supervisor of {} hosts did not start", .kind.name())]
pub struct NotStarted {
    kind: StreamKind,
    source: SpawnErr,
}

struct Slot<A: Hosted> {
    inbox: Arc<Inbox<A>>,
    partition: Partition,
    life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It has a host, which may still be replaying.
    Up { actor: ActorId, incarnation: u64 },
    /// Its host fell; the next one is started after a wait.
    Resting,
}

struct Inner<A: Hosted> {
    slots: BTreeMap<A::Id, Slot<A>>,
    by_actor: BTreeMap<ActorId, A::Id>,
    falls: BTreeMap<A::Id, Falls>,
    incarnations: u64,
    served: Served,
    stopping: bool,
}

/// What a place in an inbox is taken for.
#[derive(Clone, Copy)]
enum For {
    Decision,
    View,
}

/// The live hosts of one kind.
pub struct Table<A: Hosted> {
    // A std lock: it is held over no await.
    inner: Mutex<Inner<A>>,
    node: Node,
    world: Arc<A::World>,
    supervisor: ActorRef<supervisor::Message<A>>,
    live: watch::Sender<usize>,
}

impl<A: Hosted> Table<A> {
    /// An empty table of a node that owns every partition; the node's agenda may wake streams in it.
    ///
    /// # Errors
    ///
    /// When its supervisor can not be started.
    pub async fn open(node: Node, world: Arc<A::World>) -> Result<Arc<Self>, NotStarted> {
        Self::open_for(node, world, Served::ALL).await
    }

    /// An empty table for the streams of some partitions, see [`Self::serve`].
    ///
    /// # Errors
    ///
    /// When its supervisor can not be started.
    pub async fn open_for(
        node: Node,
        world: Arc<A::World>,
        served: Served,
    ) -> Result<Arc<Self>, NotStarted> {
        let spawned = ractor::Actor::spawn(None, Supervisor::<A>::new(), ()).await;
        let (supervisor, _join) = spawned.map_err(|source| NotStarted { kind: A::KIND, source })?;
        let inner = Inner {
            slots: BTreeMap::new(),
            by_actor: BTreeMap::new(),
            falls: BTreeMap::new(),
            incarnations: 0,
            served,
            stopping: false,
        };
        let live = watch::Sender::new(0);
        let table = Arc::new(Self { inner: Mutex::new(inner), node, world, supervisor, live });
        supervisor::adopt(&table.supervisor, &table);
        table.node.agenda.serve(A::KIND, Arc::new(Arc::downgrade(&table)));
        task::spawn(task::Kind::Sweep, rest::sweep(Arc::downgrade(&table)));
        Ok(table)
    }

    /// Asks for a decision, waking the host if it sleeps. Whoever stops waiting does not take the command back.
    ///
    /// # Errors
    ///
    /// The outer one when nobody decided, see [`NoDecision`]; the inner one when the rules say no.
    pub async fn decide(self: &Arc<Self>, id: A::Id, order: Order<A::Command>) -> Answer<A> {
        let deadline = order.deadline;
        if self.node.clock.now() >= deadline {
            return Err(NoDecision::DeadlinePassed);
        }
        self.node.gate.admit()?;
        let (inbox, permit) = self.admit(id, order.lane, For::Decision)?;
        let (reply, answer) = oneshot::channel();
        inbox.ask(Asked { order, origin: Origin::Caller, reply, permit });
        tokio::select! {
            biased;
            answer = answer => answer.unwrap_or(Err(NoDecision::Lost)),
            () = self.node.clock.sleep_until(deadline) => Err(NoDecision::TimedOut),
        }
    }

    /// What the stream's owner believes, waking it if it sleeps.
    ///
    /// # Errors
    ///
    /// When nobody could be asked, or nobody answered in time.
    pub async fn observe(self: &Arc<Self>, id: A::Id) -> Result<Observed<A>, NoDecision> {
        self.see(id, View::Once).await
    }

    /// What the owner believes now, and then each belief that follows; those in between may be left out. Closed
    /// when the host goes; it does not go to sleep while it is watched.
    ///
    /// # Errors
    ///
    /// As [`Self::observe`].
    pub async fn watch(
        self: &Arc<Self>,
        id: A::Id,
    ) -> Result<watch::Receiver<Observed<A>>, NoDecision> {
        self.see(id, View::Followed).await
    }

    /// Wakes a stream's host, which does what it owes.
    pub fn rouse(self: &Arc<Self>, id: A::Id) {
        if let Err(why) = self.wake(id) {
            tracing::debug!(stream = %A::stream(&id), %why, "not roused");
        }
    }

    /// How many streams have a host, now and as it changes.
    #[must_use]
    pub fn live(&self) -> watch::Receiver<usize> {
        self.live.subscribe()
    }

    async fn see<T>(
        self: &Arc<Self>,
        id: A::Id,
        view: impl FnOnce(oneshot::Sender<T>) -> View<A>,
    ) -> Result<T, NoDecision> {
        let (inbox, permit) = self.admit(id, Lane::Data, For::View)?;
        let (reply, seen) = oneshot::channel();
        inbox.read(Read { view: view(reply), permit });
        match tokio::time::timeout(OBSERVE_MAX, seen).await {
            Ok(seen) => seen.map_err(|_gone| NoDecision::Lost),
            Err(_elapsed) => Err(NoDecision::TimedOut),
        }
    }

    /// Finds or starts the host and takes a place in its inbox, under one lock.
    fn admit(
        self: &Arc<Self>,
        id: A::Id,
        lane: Lane,
        what: For,
    ) -> Result<(Arc<Inbox<A>>, Permit), NoDecision> {
        let mut inner = self.inner();
        let inbox = match (what, inner.slots.get(&id)) {
            // Whoever waits for a stream that is coming to rest may still look at it.
            (For::View, Some(slot)) if inner.rests(slot.partition) => Arc::clone(&slot.inbox),
            (For::View | For::Decision, _) => self.find(&mut inner, id)?,
        };
        let busy = || {
            metric::busy(Full::Lane);
            NoDecision::Busy { retry_after: RETRY_AFTER }
        };
        let permit = inbox.permits.take(&self.node.permits, lane).ok_or_else(busy)?;
        Ok((inbox, permit))
    }

    fn find(
        self: &Arc<Self>,
        inner: &mut Inner<A>,
        id: A::Id,
    ) -> Result<Arc<Inbox<A>>, NoDecision> {
        if inner.stopping {
            return Err(NoDecision::NobodyThere);
        }
        let now = self.node.clock.now();
        if let Some(until) = inner.falls.get(&id).and_then(|falls| falls.parked(now)) {
            return Err(NoDecision::Parked { until });
        }
        if let Some(slot) = inner.slots.get(&id) {
            if inner.rests(slot.partition) {
                return Err(NoDecision::NobodyThere);
            }
            return Ok(Arc::clone(&slot.inbox));
        }
        if inner.rests(A::stream(&id).partition()) {
            return Err(NoDecision::NobodyThere);
        }
        if inner.slots.len() >= HOSTS_MAX {
            metric::busy(Full::Hosts);
            return Err(NoDecision::Busy { retry_after: RETRY_AFTER });
        }
        let inbox = Arc::new(Inbox::new(A::INBOX));
        self.start(inner, id, Arc::clone(&inbox))?;
        self.count(inner);
        Ok(inbox)
    }

    /// The address is there before the host has replayed, so that no lock is held while it does.
    fn start(
        self: &Arc<Self>,
        inner: &mut Inner<A>,
        id: A::Id,
        inbox: Arc<Inbox<A>>,
    ) -> Result<(), NoDecision> {
        inner.incarnations += 1;
        let incarnation = inner.incarnations;
        let stream = A::stream(&id);
        let partition = stream.partition();
        let host =
            Host { id, stream, incarnation, inbox: Arc::clone(&inbox), table: Arc::clone(self) };
        let supervisor = self.supervisor.get_cell();
        let spawned = ActorRuntime::spawn_linked_instant(None, host, (), supervisor);
        let (host, starting) = spawned.map_err(|_unnamed| NoDecision::Lost)?;
        let actor = host.get_id();
        inbox.attach(host);
        inner.by_actor.insert(actor, id);
        let life = Life::Up { actor, incarnation };
        inner.slots.insert(id, Slot { inbox, partition, life });
        // A host that fails to start sends its supervisor nothing.
        let table = Arc::clone(self);
        task::spawn(task::Kind::Startup, async move {
            match starting.await {
                Ok(Ok(_running)) => (),
                Ok(Err(error)) => table.fell(actor, &error),
                Err(error) => table.fell(actor, &error),
            }
        });
        Ok(())
    }

    /// Lets a host sleep if nobody is on the way to it.
    pub(crate) fn release(&self, id: &A::Id, incarnation: u64) -> bool {
        let mut inner = self.inner();
        let quiet = |slot: &Slot<A>| slot.inbox.is_quiet();
        if !inner.is_up(id, incarnation) {
            return true;
        }
        if !inner.slots.get(id).is_some_and(quiet) {
            return false;
        }
        inner.remove(id);
        self.count(&inner);
        true
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn world(&self) -> &Arc<A::World> {
        &self.world
    }

    /// Whether the streams of a partition come to rest here.
    pub(crate) fn rests(&self, partition: Partition) -> bool {
        self.inner().rests(partition)
    }

    fn count(&self, inner: &Inner<A>) {
        let now = self.node.clock.now();
        let parked = inner.falls.values().filter(|falls| falls.parked(now).is_some()).count();
        metric::parked(A::KIND, parked);
        metric::live(A::KIND, inner.slots.len());
        self.live.send_replace(inner.slots.len());
    }

    fn inner(&self) -> MutexGuard<'_, Inner<A>> {
        // No code of an aggregate runs under it but `stream`, which only names.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Hosted> Slot<A> {
    fn is_up(&self) -> bool {
        matches!(self.life, Life::Up { .. })
    }
}

impl<A: Hosted> Inner<A> {
    fn rests(&self, partition: Partition) -> bool {
        self.stopping || !self.served.contains(partition)
    }

    fn is_up(&self, id: &A::Id, incarnation: u64) -> bool {
        let life = self.slots.get(id).map(|slot| slot.life);
        matches!(life, Some(Life::Up { incarnation: newest, .. }) if newest == incarnation)
    }

    fn remove(&mut self, id: &A::Id) -> Option<Slot<A>> {
        let slot = self.slots.remove(id)?;
        if let Life::Up { actor, .. } = slot.life {
            self.by_actor.remove(&actor);
        }
        Some(slot)
    }
}

impl<A: Hosted> fmt::Debug for Table<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table of {} {} hosts", *self.live.borrow(), A::KIND.name())
    }
}

impl<A: Hosted> Drop for Table<A> {
    /// No host is left, for each holds its table; the supervisor would stay for ever.
    fn drop(&mut self) {
        self.supervisor.stop(None);
    }
}
