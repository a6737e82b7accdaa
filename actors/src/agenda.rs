//! Who wakes work: streams that owe something when a partition is taken over, and streams whose time has come.
//!
//! It is the only timer of deadlines and waits, so they survive sleep, restart and hand-over. Nothing is decided on
//! it: it only says "look". Wakes are paced, or a restart would start every stream at once.

use crate::clock::Clock;
use crate::health::Gate;
use crate::metric;
use crate::order::NoDecision;
use crate::task;
use events::aggregate::Wake;
use events::id::Partition;
use events::quantity::{Instant, Millis};
use events::record::{StreamKey, StreamKind};
use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use store::{Due, Store, StoreError};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;

/// Streams woken within any second, over all partitions of a node: each one replays, and most then call a model.
pub const WAKES_PER_SECOND: usize = 50;
/// How long a wake keeps its place in the budget.
const SECOND: Millis = Millis(1_000);
/// Streams of one page of `due`.
const PAGE: usize = 256;
/// When a stream that could not be woken for lack of room is tried again.
const RETRY: Millis = Millis(1_000);
/// How often a partition is looked at though nothing is noted: a former owner's last commit may land after the first
/// look, and what it owes must not sleep.
const LOOK_AGAIN: Millis = Millis(30_000);
/// When a partition whose agenda could not be read is tried again; it is damaged, so it will hardly help.
const DAMAGED_RETRY: Millis = Millis(60_000);

/// What wakes the streams of one kind.
pub trait Rouse: Send + Sync + 'static {
    /// Whether it does what it owes already.
    fn is_awake(&self, stream: &StreamKey) -> bool;

    /// Starts its host, which does what it owes.
    ///
    /// # Errors
    ///
    /// When it could not be started now.
    fn rouse(&self, stream: &StreamKey) -> Result<(), NoDecision>;

    /// Tells it that a time of its own has come.
    ///
    /// # Errors
    ///
    /// When it could not be told now.
    fn remind(&self, stream: &StreamKey, due: Instant) -> Result<(), NoDecision>;
}

/// The agenda of all partitions that this node owns. Clones are the same agenda.
#[derive(Clone)]
pub struct Agenda(Arc<Inner>);

struct Inner {
    store: Store,
    clock: Clock,
    gate: Gate,
    // Std locks: held over no await.
    kinds: Mutex<BTreeMap<StreamKind, Arc<dyn Rouse>>>,
    tasks: Mutex<BTreeMap<Partition, AbortHandle>>,
    bells: BTreeMap<Partition, Bell>,
    pace: Arc<Semaphore>,
}

/// When a partition is looked at next.
struct Bell {
    next: Mutex<Instant>,
    moved: Notify,
}

impl fmt::Debug for Agenda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = locked(&self.0.kinds).keys().copied().collect();
        f.debug_struct("Agenda").field("kinds", &kinds).finish_non_exhaustive()
    }
}

impl Agenda {
    /// An agenda that looks at nothing yet.
    #[must_use]
    pub fn new(store: Store, clock: Clock, gate: Gate) -> Self {
        let bell = || Bell { next: Mutex::new(Instant::MAX), moved: Notify::new() };
        Self(Arc::new(Inner {
            store,
            clock,
            gate,
            kinds: Mutex::default(),
            tasks: Mutex::default(),
            bells: Partition::all().map(|partition| (partition, bell())).collect(),
            pace: Arc::new(Semaphore::new(WAKES_PER_SECOND)),
        }))
    }

    /// Says who wakes the streams of a kind; a table does so when it is opened.
    pub fn serve(&self, kind: StreamKind, rouse: Arc<dyn Rouse>) {
        locked(&self.0.kinds).insert(kind, rouse);
    }

    /// Looks at these partitions at once and from then on, once every kind is served.
    pub fn start(&self, partitions: impl IntoIterator<Item = Partition>) {
        for partition in partitions {
            let attend = self.clone().attend(partition);
            let task = task::spawn(task::Kind::Agenda, attend).abort_handle();
            if let Some(before) = locked(&self.0.tasks).insert(partition, task) {
                before.abort();
            }
        }
    }

    /// Wakes nothing of a partition any more.
    pub fn leave(&self, partition: Partition) {
        if let Some(task) = locked(&self.0.tasks).remove(&partition) {
            task.abort();
        }
    }

    /// Wakes nothing any more.
    pub fn stop(&self) {
        for task in std::mem::take(&mut *locked(&self.0.tasks)).into_values() {
            task.abort();
        }
    }

    /// Looks at every partition now.
    pub fn look(&self) {
        for bell in self.0.bells.values() {
            bell.ring(Instant(i64::MIN));
        }
    }

    /// A stream of the partition wants to be looked at then.
    pub fn note(&self, partition: Partition, at: Instant) {
        if let Some(bell) = self.0.bells.get(&partition) {
            bell.ring(at);
        }
    }

    async fn attend(self, partition: Partition) {
        loop {
            if let Err(error) = self.wake_due(partition).await {
                let (number, error) = (partition.number(), &error as &dyn Error);
                tracing::error!(
                    partition = number,
                    error,
                    "the agenda can not be read: verify the journal"
                );
                self.note_after(partition, DAMAGED_RETRY);
            }
            self.note_after(partition, LOOK_AGAIN);
            self.rung(partition).await;
        }
    }

    /// Wakes what is due now, and notes when the next one is.
    async fn wake_due(&self, partition: Partition) -> Result<(), StoreError> {
        let Inner { store, clock, gate, .. } = &*self.0;
        let now = clock.now();
        let mut after = None;
        loop {
            let page = gate.read(|| store.due(partition, now, PAGE, after.as_ref())).await?;
            for due in &page {
                self.wake(due).await;
            }
            after = page.last().cloned();
            if page.len() < PAGE {
                break;
            }
        }
        if let Some(at) = gate.read(|| store.next_wake(partition, now)).await? {
            self.note(partition, at);
        }
        Ok(())
    }

    async fn wake(&self, due: &Due) {
        let Due { stream, wake } = due;
        let kind = stream.kind();
        let found = locked(&self.0.kinds).get(&kind).cloned();
        let Some(rouse) = found else { return };
        if *wake == Wake::Now && rouse.is_awake(stream) {
            return;
        }
        self.0.gate.pass().await;
        self.turn().await;
        let woken = match *wake {
            Wake::At(at) => rouse.remind(stream, at),
            Wake::Now | Wake::OnCommand => rouse.rouse(stream),
        };
        match woken {
            Ok(()) => metric::woke(kind),
            Err(NoDecision::Parked { until }) => self.note(stream.partition(), until),
            // Its owner is another node, or this one is stopping.
            Err(NoDecision::NobodyThere) => (),
            Err(why) => {
                tracing::debug!(%stream, %why, "not woken yet");
                self.note_after(stream.partition(), RETRY);
            }
        }
    }

    /// Takes a place in the budget of wakes, which is free again a second later.
    async fn turn(&self) {
        // It can not fail: nobody closes it.
        let turn = Arc::clone(&self.0.pace).acquire_owned().await;
        let clock = self.0.clock.clone();
        task::spawn(task::Kind::Agenda, async move {
            clock.pause(SECOND).await;
            drop(turn);
        });
    }

    /// Returns when the partition is to be looked at, and forgets why.
    async fn rung(&self, partition: Partition) {
        let Some(bell) = self.0.bells.get(&partition) else { return std::future::pending().await };
        loop {
            let next = *locked(&bell.next);
            tokio::select! {
                () = self.0.clock.sleep_until(next) => break,
                () = bell.moved.notified() => (),
            }
        }
        // Before the look, so that what is noted during it is not slept through.
        *locked(&bell.next) = Instant::MAX;
    }

    fn note_after(&self, partition: Partition, wait: Millis) {
        self.note(partition, self.0.clock.now().after(wait));
    }
}

impl Bell {
    fn ring(&self, at: Instant) {
        let mut next = locked(&self.next);
        if at < *next {
            *next = at;
            self.moved.notify_one();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is under these locks is replaced as a whole, so a poisoned one holds nothing half-written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
