//! The gate before the store: while the store is out, commands are refused as busy and hosts wait.
//!
//! An outage is not a crash. Without the gate a full disk would end every host, count as falls, and park streams
//! that have nothing wrong with them.

use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::metric::{self, Full};
use crate::order::NoDecision;
use crate::task;
use events::quantity::{Instant, Millis};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use store::{Outage, Store, StoreError};
use tokio::sync::watch;

/// The wait before the second probe; the first one is sent at once, for often only an answer was lost.
const PROBE_FIRST: Duration = Duration::from_millis(50);
/// The longest wait between two probes: how long after its end an outage may go on for callers.
const PROBE_MAX: Duration = Duration::from_secs(5);
/// What a caller is told to wait while the store is out; about as long as two probes.
const RETRY_AFTER: Millis = Millis(2_000);
/// Reads that may fail in one place though the store answers its probes; then it is damage, not an outage.
const READ_TRIES: u32 = 5;

/// Whether appends land now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// They do.
    Open,
    /// They do not, or nobody can say.
    Closed {
        /// Since when.
        since: Instant,
        /// Why.
        reason: Outage,
    },
}

/// One gate for all streams of a node. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    store: Store,
    clock: Clock,
    entropy: Entropy,
    standing: watch::Sender<Standing>,
    /// Probes since somebody who met the outage was answered by the store again.
    probes: AtomicU32,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&*self.0.standing.borrow()).finish()
    }
}

impl Gate {
    /// An open gate.
    #[must_use]
    pub fn new(store: Store, clock: Clock, entropy: Entropy) -> Self {
        metric::gate_opened();
        let standing = watch::Sender::new(Standing::Open);
        Self(Arc::new(Inner { store, clock, entropy, standing, probes: AtomicU32::new(0) }))
    }

    /// Open or closed, and each change of it.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.0.standing.subscribe()
    }

    /// Lets a command in, or says when to ask again.
    ///
    /// # Errors
    ///
    /// [`NoDecision::Busy`] while the store is out.
    pub fn admit(&self) -> Result<(), NoDecision> {
        match *self.0.standing.borrow() {
            Standing::Open => Ok(()),
            Standing::Closed { .. } => {
                metric::busy(Full::Store);
                Err(NoDecision::Busy { retry_after: RETRY_AFTER })
            }
        }
    }

    /// Closes the gate because the store could not say; one prober opens it again.
    pub(crate) fn report(&self, reason: Outage) {
        let since = self.0.clock.now();
        let closed = self.0.standing.send_if_modified(|standing| {
            let open = *standing == Standing::Open;
            if open {
                tracing::warn!(%reason, "the store is out: commands are refused until it answers");
                *standing = Standing::Closed { since, reason };
            }
            open
        });
        if closed {
            metric::gate_closed();
            task::spawn(task::Kind::Probe, self.clone().probe());
        }
    }

    /// Returns once the gate is open.
    pub(crate) async fn pass(&self) {
        let mut standing = self.standing();
        // It can not fail: this gate holds the sender. What it gives is a read lock, so it is let go at once.
        drop(standing.wait_for(|standing| *standing == Standing::Open).await);
    }

    /// The store has answered one who met the outage: it is over, and the next one is probed at once again.
    pub(crate) fn settled(&self) {
        self.0.probes.store(0, Ordering::Relaxed);
    }

    /// Reads, waiting at the gate while the store is out.
    ///
    /// # Errors
    ///
    /// Damage, and what keeps failing though the store answers its probes.
    pub(crate) async fn read<T, F>(&self, mut read: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut tries = 0;
        loop {
            let reason = match read().await {
                Ok(found) => {
                    if tries > 0 {
                        self.settled();
                    }
                    return Ok(found);
                }
                Err(StoreError::Outage(outage)) => outage,
                Err(StoreError::Sqlite(error)) if tries < READ_TRIES => {
                    Outage::Unavailable(error.to_string())
                }
                Err(error) => return Err(error),
            };
            tries += 1;
            self.report(reason);
            self.pass().await;
        }
    }

    async fn probe(self) {
        let Inner { store, entropy, standing, probes, .. } = &*self.0;
        loop {
            let tries = probes.fetch_add(1, Ordering::Relaxed);
            if let Some(later) = tries.checked_sub(1) {
                tokio::time::sleep(entropy.backoff(PROBE_FIRST, PROBE_MAX, later)).await;
            }
            match store.probe().await {
                Ok(()) => break,
                Err(why) => standing.send_modify(|standing| {
                    if let Standing::Closed { reason, .. } = standing {
                        *reason = why;
                    }
                }),
            }
        }
        metric::gate_opened();
        tracing::info!("the store answers again");
        standing.send_replace(Standing::Open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hand;
    use events::record::{Boot, JournalId};
    use store::Faults;

    fn gate(faults: Faults) -> Gate {
        let store = Store::memory(Boot(1), JournalId(1), faults);
        Gate::new(store, Hand::at(Instant(9)).clock(), Entropy::seeded(1))
    }

    #[tokio::test]
    async fn an_outage_closes_the_gate_until_the_store_answers_a_probe() {
        let faults = Faults::counting();
        let gate = gate(faults.clone());
        assert_eq!(gate.admit(), Ok(()));
        faults.take_down(Outage::Full);
        gate.report(Outage::Lost);
        assert_eq!(gate.admit(), Err(NoDecision::Busy { retry_after: RETRY_AFTER }));
        let full = Standing::Closed { since: Instant(9), reason: Outage::Full };
        gate.standing().wait_for(|standing| *standing == full).await.unwrap();
        faults.bring_up();
        gate.pass().await;
        assert_eq!(gate.admit(), Ok(()));
    }

    #[tokio::test]
    async fn reads_wait_for_the_end_of_an_outage_and_report_damage_at_once() {
        let gate = gate(Faults::none());
        let mut answers = vec![Ok(7), Err(StoreError::Outage(Outage::Full))];
        let read = gate.read(|| std::future::ready(answers.pop().unwrap())).await;
        assert_eq!(read.unwrap(), 7);
        let closed = gate.read(|| std::future::ready(Err::<(), _>(StoreError::Closed))).await;
        assert!(matches!(closed, Err(StoreError::Closed)));
    }
}
