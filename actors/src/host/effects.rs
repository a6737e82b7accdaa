//! What the stream owes to the world, being done: each effect is one task, started once in a host's life.
//!
//! An effect whose task dies without a word would leave its intent open until the host falls; so its end is
//! reported whatever it is, and an outcome that settles nothing ends the host rather than letting work sleep.

use super::{Host, HostError, Hosted, Memory};
use crate::clock::Clock;
use crate::cluster::{Uptime, bucket::uptime};
use crate::departure::Dispatch;
use crate::inbox::{End, Inbox, Outcome};
use crate::task;
use events::aggregate::Aggregate;
use events::record::{CommandId, StreamKey};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Point, fault::Next};
use tokio::task::AbortHandle;

/// Effects that this incarnation has started and that are still owed.
pub(super) struct Effects<A: Aggregate>(BTreeMap<A::EffectId, Started>);

enum Started {
    Running(AbortHandle),
    /// A former owner may have started it, and it may yet take effect.
    Former,
    /// Its outcome was decided on; if it is owed still, nothing will ever settle it.
    Told,
}

impl<A: Aggregate> Effects<A> {
    pub(super) const fn none() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn any_running(&self) -> bool {
        self.0.values().any(|started| matches!(started, Started::Running(_)))
    }

    pub(super) fn is_running(&self, effect: &A::EffectId) -> bool {
        matches!(self.0.get(effect), Some(Started::Running(_)))
    }

    /// Whether this incarnation has it already.
    pub(super) fn knows(&self, effect: &A::EffectId) -> bool {
        self.0.contains_key(effect)
    }

    pub(super) fn told(&mut self, effect: &A::EffectId) {
        if let Some(started) = self.0.get_mut(effect) {
            *started = Started::Told;
        }
    }
}

impl<A: Aggregate> Drop for Effects<A> {
    /// A host that ends, however it does, leaves no effect behind: the next one could not know of it.
    fn drop(&mut self) {
        for started in self.0.values() {
            if let Started::Running(task) = started {
                task.abort();
            }
        }
    }
}

impl<A: Hosted> Host<A> {
    /// Starts what is owed and not started, and aborts what is started and not owed.
    pub(super) fn start_owed(&self, memory: &mut Memory<A>) -> Result<(), HostError> {
        let mut owed: BTreeMap<_, _> = A::pending(&memory.state).into_iter().collect();
        let started = &mut memory.effects.0;
        let mut unsettled = None;
        started.retain(|effect, started| match (owed.remove(effect), started) {
            (Some(_), Started::Running(_) | Started::Former) => true,
            (Some(_), Started::Told) => {
                unsettled = Some(format!("{effect:?}"));
                true
            }
            (None, Started::Running(task)) => {
                task.abort();
                false
            }
            (None, Started::Told | Started::Former) => false,
        });
        if let Some(effect) = unsettled {
            return Err(HostError::Unsettled { effect });
        }
        for (effect, what) in owed {
            let report = self.report(&effect, memory.correlation);
            let dispatch = Dispatch {
                mandate: self.node().mandate.clone(),
                faults: self.node().store.faults().clone(),
                stream: self.stream.clone(),
                what: A::word(&effect),
                intended: memory.intended,
            };
            let (world, told) = (Arc::clone(self.table.world()), dispatch.clone());
            let perform = perform::<A>(world, self.id, effect.clone(), what, told);
            let task = task::spawn(task::Kind::Effect, async move {
                // Boxed: a model call's future is large, and a task is moved when it is started.
                report.of(dispatch, Box::pin(perform)).await;
            });
            started.insert(effect, Started::Running(task.abort_handle()));
        }
        Ok(())
    }

    /// Until when what a former owner left open may yet take effect, if that is still to come.
    pub(super) fn settles(&self, memory: &Memory<A>) -> Option<Uptime> {
        let (world, partition) = (self.table.world(), self.stream.partition());
        let pending = A::pending(&memory.state);
        let lasts = pending.iter().filter_map(|(_, what)| A::lasts(world, what)).max()?;
        self.node().mandate.settles(partition, memory.tail.boot, lasts)
    }

    /// Lets what is open be a former owner's until then, and looks again.
    pub(super) fn leave_to_former(&self, memory: &mut Memory<A>, settles: Uptime) {
        let pending = A::pending(&memory.state).into_iter();
        memory.effects.0.extend(pending.map(|(effect, _)| (effect, Started::Former)));
        memory.settles = Some(settles);
        let (stream, left) = (&self.stream, settles.0.saturating_sub(uptime().0));
        tracing::info!(%stream, left_ms = left, "what a former owner began may yet take effect");
        let inbox = Arc::downgrade(&self.inbox);
        task::spawn(task::Kind::Startup, async move {
            while let left @ 1.. = settles.0.saturating_sub(uptime().0) {
                tokio::time::sleep(Duration::from_millis(left)).await;
            }
            if let Some(inbox) = inbox.upgrade() {
                inbox.look();
            }
        });
    }

    fn report(&self, effect: &A::EffectId, correlation: u128) -> Report<A> {
        Report {
            inbox: Arc::clone(&self.inbox),
            clock: self.node().clock.clone(),
            stream: self.stream.clone(),
            effect: effect.clone(),
            correlation,
            end: End::Died,
        }
    }
}

async fn perform<A: Hosted>(
    world: Arc<A::World>,
    id: A::Id,
    effect: A::EffectId,
    what: A::Effect,
    dispatch: Dispatch,
) -> A::Command {
    A::perform(&world, id, effect, what, dispatch).await
}

/// Tells the stream how an effect ended, when it is dropped: after its word, by a panic, or by an abort.
struct Report<A: Aggregate> {
    inbox: Arc<Inbox<A>>,
    clock: Clock,
    stream: StreamKey,
    effect: A::EffectId,
    correlation: u128,
    end: End<A::Command>,
}

impl<A: Aggregate> Report<A> {
    async fn of(mut self, dispatch: Dispatch, perform: impl Future<Output = A::Command>) {
        let before = dispatch.visit(Point::AfterIntent).await;
        if before == Next::Fail {
            return;
        }
        let command = perform.await;
        if (before, dispatch.visit(Point::AfterEffect).await) == (Next::GoOn, Next::GoOn) {
            self.end = End::Said(command);
        }
    }
}

impl<A: Aggregate> Drop for Report<A> {
    fn drop(&mut self) {
        let effect = format!("{:?}", self.effect);
        if matches!(self.end, End::Died) {
            tracing::debug!(stream = %self.stream, effect, "effect ended without a word");
        }
        let parts = [self.stream.as_str().as_bytes(), b"effect", effect.as_bytes()];
        self.inbox.tell(Outcome {
            effect: self.effect.clone(),
            id: CommandId::derived(self.clock.now(), &parts),
            correlation: self.correlation,
            end: std::mem::replace(&mut self.end, End::Died),
        });
    }
}
