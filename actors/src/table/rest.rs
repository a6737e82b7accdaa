//! How hosts come to rest: one by one when nothing comes, all together when the node stops.

use super::{Life, Slot, Table};
use crate::host::Hosted;
use crate::order::NoDecision;
use events::quantity::Instant;
use futures_util::future::join_all;
use std::{collections::BTreeMap, sync::Weak, time::Duration};

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
            () = self.node.clock.sleep_until(deadline) => self.cut().await,
        };
        self.supervisor.stop(None);
        drained
    }

    fn stop_admitting(&self) {
        let mut inner = self.inner();
        inner.stopping = true;
        let resting = inner.slots.extract_if(.., |_, slot| slot.life == Life::Resting);
        let resting: Vec<_> = resting.collect();
        for slot in inner.slots.values() {
            slot.inbox.tick();
        }
        self.count(&inner);
        drop(inner);
        for (_, slot) in resting {
            slot.inbox.close(NoDecision::NobodyThere);
        }
    }

    /// Ends the hosts that are left, in the middle of whatever they await, and their effects with them.
    async fn cut(&self) -> Drained {
        let slots = self.forget_all();
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

    fn forget_all(&self) -> BTreeMap<A::Id, Slot<A>> {
        let mut inner = self.inner();
        let slots = std::mem::take(&mut inner.slots);
        // So that their deaths are not taken for falls.
        inner.by_actor.clear();
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
