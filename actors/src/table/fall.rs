//! What happens to a stream whose host fell, or is fenced off: started again after a wait, parked, or left.

use super::{Inner, Life, Table};
use crate::host::Hosted;
use crate::metric;
use crate::order::NoDecision;
use crate::supervisor;
use crate::task;
use events::aggregate::Wake;
use events::quantity::Instant;
use events::record::Epoch;
use ractor::ActorId;
use std::{
    error::Error,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

impl<A: Hosted> Table<A> {
    /// The streams that are left alone because their host fell too often, and until when.
    #[must_use]
    pub fn parked(&self) -> Vec<(A::Id, Instant)> {
        let now = self.node.clock.now();
        let inner = self.inner();
        let parked = inner.falls.iter().filter_map(|(id, falls)| Some((*id, falls.parked(now)?)));
        parked.collect()
    }

    /// Another owner has written: the stream is not ours, and that is no fall.
    pub(crate) fn fenced(&self, id: &A::Id, incarnation: u64, epoch: Epoch) {
        let stream = A::stream(id);
        tracing::warn!(%stream, epoch = epoch.0, "fenced by a later owner");
        self.node.fences.met(stream.partition(), epoch);
        let inner = self.inner();
        if inner.is_up(id, incarnation) {
            self.leave(inner, id, NoDecision::NobodyThere);
        }
    }

    /// Counts a fall, and has the host started again after a wait or the stream parked.
    pub(crate) fn fell(self: &Arc<Self>, actor: ActorId, why: &(dyn Error + 'static)) {
        let now = self.node.clock.now();
        let mut inner = self.inner();
        let Some(id) = inner.by_actor.remove(&actor) else { return };
        let stream = A::stream(&id);
        tracing::error!(%stream, error = why, "a host fell");
        metric::fell(A::KIND);
        if inner.rests(stream.partition()) {
            return self.leave(inner, &id, NoDecision::NobodyThere);
        }
        let falls = inner.falls.entry(id).or_default();
        falls.count(now);
        let (earlier, parked) = (falls.earlier(), falls.parked(now));
        // A timer that it had taken and not decided is sent again, when the stream is not parked any more.
        self.node.agenda.note(stream.partition(), now);
        let Some(until) = parked else {
            if let Some(slot) = inner.slots.get_mut(&id) {
                slot.life = Life::Resting;
            }
            let (first, most) = (supervisor::BACKOFF_FIRST, supervisor::BACKOFF_MAX);
            let wait = self.node.entropy.backoff(first, most, earlier);
            task::spawn(task::Kind::Restart, restart(Arc::downgrade(self), id, wait));
            return;
        };
        tracing::error!(%stream, until = until.0, "parked: its host fell too often");
        self.leave(inner, &id, NoDecision::Parked { until });
    }

    /// Forgets a stream, and says so to whoever waits for it.
    fn leave(&self, mut inner: MutexGuard<'_, Inner<A>>, id: &A::Id, why: NoDecision) {
        let slot = inner.remove(id);
        self.count(&inner);
        drop(inner);
        if let Some(slot) = slot {
            slot.inbox.close(why);
        }
    }

    fn restart(self: &Arc<Self>, id: A::Id) {
        let now = self.node.clock.now();
        let mut inner = self.inner();
        let resting = inner.slots.get(&id).filter(|slot| slot.life == Life::Resting);
        let Some(inbox) = resting.map(|slot| Arc::clone(&slot.inbox)) else { return };
        let owes = match inbox.wake() {
            Wake::Now => true,
            Wake::At(at) => at <= now,
            Wake::OnCommand => false,
        };
        if !owes && inbox.is_quiet() {
            inner.remove(&id);
        } else if self.start(&mut inner, id, inbox).is_ok() {
            metric::restarted(A::KIND);
        }
        self.count(&inner);
    }
}

async fn restart<A: Hosted>(table: Weak<Table<A>>, id: A::Id, wait: Duration) {
    tokio::time::sleep(wait).await;
    if let Some(table) = table.upgrade() {
        table.restart(id);
    }
}
