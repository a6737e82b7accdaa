//! How hosts come to rest: one by one when nothing comes, all together when the node stops.

use super::{Inner, Life, Slot, Table};
use crate::host::Hosted;
use crate::order::NoDecision;
use events::id::Partition;
use events::quantity::Instant;
use futures_util::future::join_all;
use std::{
    collections::BTreeMap,
    sync::{MutexGuard, Weak},
    time::Duration,
};

/// How long a stopping table waits for its killed hosts to be gone.
const KILL_MAX: Duration = Duration::from_secs(5);

/// How a table came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Every host had nothing left to do.
    Quiet,
    /// The deadline came first: so many hosts were ended, and their effects aborted.
    Cut {
        /// How many.
        hosts: usize,
    },
}

impl<A: Hosted> Table<A> {
    /// Comes to rest: nothing new is let in, what is in flight goes on until the deadline, and a host that has
    /// nothing in flight stops. What is cut off then is found open when the stream is woken again.
    pub async fn drain(&self, deadline: Instant) -> Drained {
        self.stop_admitting();
        let mut live = self.live.subscribe();
        let drained = tokio::select! {
            biased;
            _ = live.wait_for(|hosts| *hosts == 0) => Drained::Quiet,
            () = self.node.clock.sleep_until(deadline) => Self::cut(self.forget(|_| true)).await,
        };
        self.supervisor.stop(None);
        drained
    }

    /// Lets the streams of a partition in: this node has become its owner.
    pub fn serve(&self, partition: Partition) {
        let mut inner = self.inner();
        inner.served = inner.served.with(partition);
    }

    /// Comes to rest in one partition, as [`Self::drain`] does in all, so that its next owner finds nothing open.
    pub async fn hand_over(&self, partition: Partition, deadline: Instant) -> Drained {
        self.rest_in(partition);
        let mut live = self.live.subscribe();
        let quiet = async {
            let _gone = live.wait_for(|_| self.none_in(partition)).await.is_err();
        };
        tokio::select! {
            biased;
            () = quiet => Drained::Quiet,
            () = self.node.clock.sleep_until(deadline) => self.lose(partition).await,
        }
    }

    /// Ends the hosts of a partition that is this node's no more, and their effects with them.
    pub async fn lose(&self, partition: Partition) -> Drained {
        self.rest_in(partition);
        let slots = self.forget(|slot| slot.partition == partition);
        if slots.is_empty() { Drained::Quiet } else { Self::cut(slots).await }
    }

    fn rest_in(&self, partition: Partition) {
        let mut inner = self.inner();
        inner.served = inner.served.without(partition);
        self.come_to_rest(inner, |slot| slot.partition == partition);
    }

    fn none_in(&self, partition: Partition) -> bool {
        self.inner().slots.values().all(|slot| slot.partition != partition)
    }

    fn stop_admitting(&self) {
        let mut inner = self.inner();
        inner.stopping = true;
        self.come_to_rest(inner, |_| true);
    }

    /// Streams without a host are forgotten; a host that idles is told to stop.
    fn come_to_rest(&self, mut inner: MutexGuard<'_, Inner<A>>, those: impl Fn(&Slot<A>) -> bool) {
        let resting =
            inner.slots.extract_if(.., |_, slot| slot.life == Life::Resting && those(slot));
        let resting: Vec<_> = resting.collect();
        for slot in inner.slots.values().filter(|slot| those(slot)) {
            slot.inbox.tick();
        }
        self.count(&inner);
        drop(inner);
        for (_, slot) in resting {
            slot.inbox.close(NoDecision::NobodyThere);
        }
    }

    /// Ends the hosts that are left, in the middle of whatever they await, and their effects with them.
    async fn cut(slots: BTreeMap<A::Id, Slot<A>>) -> Drained {
        let ends = slots.values().map(|slot| {
            slot.inbox.close(NoDecision::NobodyThere);
            let host = slot.inbox.host();
            async move {
                let Some(host) = host else { return };
                if let Err(error) = host.kill_and_wait(Some(KILL_MAX)).await {
                    tracing::warn!(kind = A::KIND.name(), %error, "a host did not end in time");
                }
            }
        });
        join_all(ends).await;
        Drained::Cut { hosts: slots.len() }
    }

    fn forget(&self, those: impl Fn(&Slot<A>) -> bool) -> BTreeMap<A::Id, Slot<A>> {
        let mut inner = self.inner();
        let slots: BTreeMap<_, _> = inner.slots.extract_if(.., |_, slot| those(slot)).collect();
        // So that their deaths are not taken for falls.
        for slot in slots.values() {
            if let Life::Up { actor, .. } = slot.life {
                inner.by_actor.remove(&actor);
            }
        }
        self.count(&inner);
        slots
    }

    fn sweep(&self) {
        let now = self.node.clock.now();
        let mut inner = self.inner();
        inner.falls.retain(|_, falls| !falls.forget(now));
        let quiet = |slot: &&Slot<A>| slot.inbox.is_quiet();
        for slot in inner.slots.values().filter(quiet) {
            slot.inbox.tick();
        }
        self.count(&inner);
    }
}

/// One sweeper per table: a timer per host would cost each sleeping stream half a kilobyte.
pub(super) async fn sweep<A: Hosted>(table: Weak<Table<A>>) {
    loop {
        tokio::time::sleep(A::IDLE).await;
        let Some(table) = table.upgrade() else { return };
        table.sweep();
    }
}
