//! One for one: a fallen host is started again after a wait, and a stream whose host falls too often is parked.
//!
//! ractor has no restart strategy, and by default a parent dies with its first child. A naive restart of a child
//! that panics on its first message was measured at 25,000 falls a second.

use crate::host::Hosted;
use crate::table::Table;
use events::quantity::{Instant, Millis};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::{
    collections::VecDeque,
    error::Error,
    marker::PhantomData,
    sync::{Arc, Weak},
    time::Duration,
};

/// Falls within the window that park a stream.
pub const FALLS_MAX: usize = 5;
/// How long a fall counts, and how long a parking lasts. A stream that was healthy for so long starts afresh.
pub const WINDOW: Millis = Millis(60_000);
/// The wait after the first fall; it doubles with each one more.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// The longest wait before a fallen host is started again.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// When one stream's host fell, within the window.
#[derive(Debug, Default)]
pub(crate) struct Falls(VecDeque<Instant>);

impl Falls {
    pub(crate) fn count(&mut self, now: Instant) {
        self.forget(now);
        self.0.push_back(now);
    }

    /// Forgets what lies outside the window, and says whether nothing is left.
    pub(crate) fn forget(&mut self, now: Instant) -> bool {
        self.0.retain(|fall| now < fall.after(WINDOW));
        self.0.is_empty()
    }

    /// How many of them count before the next one.
    pub(crate) fn earlier(&self) -> u32 {
        u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Until when the stream is left alone, if it is.
    pub(crate) fn parked(&self, now: Instant) -> Option<Instant> {
        let until = self.0.back()?.after(WINDOW);
        (self.0.len() >= FALLS_MAX && now < until).then_some(until)
    }
}

/// What a supervisor is told, once, by its table.
#[derive(Debug)]
pub(crate) enum Message<A: Hosted> {
    Adopt(Weak<Table<A>>),
}

/// Parent of all hosts of one table. It decides nothing itself: the table's lock orders falls and look-ups.
#[derive(Debug)]
pub(crate) struct Supervisor<A>(PhantomData<fn() -> A>);

impl<A> Supervisor<A> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<A: Hosted> Actor for Supervisor<A> {
    type Msg = Message<A>;
    type State = Weak<Table<A>>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ActorRef<Message<A>>,
        (): (),
    ) -> Result<Weak<Table<A>>, ActorProcessingErr> {
        Ok(Weak::new())
    }

    async fn handle(
        &self,
        _: ActorRef<Message<A>>,
        Message::Adopt(mine): Message<A>,
        table: &mut Weak<Table<A>>,
    ) -> Result<(), ActorProcessingErr> {
        *table = mine;
        Ok(())
    }

    // The default ends the parent with any child, even one that has gone to sleep.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Message<A>>,
        event: SupervisionEvent,
        table: &mut Weak<Table<A>>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(table) = table.upgrade() else { return Ok(()) };
        match event {
            SupervisionEvent::ActorFailed(host, error) => table.fell(host.get_id(), &*error),
            // Killed or cancelled is not a wish to stop.
            SupervisionEvent::ActorTerminated(host, _, Some(reason)) => {
                table.fell(host.get_id(), &*Box::<dyn Error + Send + Sync>::from(reason));
            }
            SupervisionEvent::ActorTerminated(_, _, None)
            | SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ProcessGroupChanged(_) => (),
        }
        Ok(())
    }
}

pub(crate) fn adopt<A: Hosted>(supervisor: &ActorRef<Message<A>>, table: &Arc<Table<A>>) {
    // A supervisor that has gone takes its hosts with it: every command is answered as lost.
    let _gone = supervisor.cast(Message::Adopt(Arc::downgrade(table)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn falls(at: &[i64]) -> Falls {
        let mut falls = Falls::default();
        for seconds in at {
            falls.count(Instant(seconds * 1_000_000));
        }
        falls
    }

    /// After falls at these seconds, at a second, it is parked until then.
    #[track_caller]
    fn check(given: &[i64], now: i64, then: Option<i64>) {
        let until = falls(given).parked(Instant(now * 1_000_000));
        assert_eq!(until, then.map(|seconds| Instant(seconds * 1_000_000)));
    }

    #[test]
    fn five_falls_within_a_minute_park_for_a_minute() {
        check(&[0, 1, 2, 3], 3, None);
        check(&[0, 1, 2, 3, 59], 59, Some(119));
        check(&[0, 1, 2, 3, 59], 118, Some(119));
        check(&[0, 1, 2, 3, 59], 119, None);
    }

    #[test]
    fn a_fall_a_minute_old_counts_no_more() {
        check(&[0, 1, 2, 3, 60], 60, None);
        check(&[0, 15, 30, 45, 60, 75, 90], 90, None);
        let mut once = falls(&[0]);
        assert!(!once.forget(Instant(59_999_999)) && once.forget(Instant(60_000_000)));
    }

    #[test]
    fn waits_grow_with_the_falls_that_count() {
        assert_eq!(falls(&[0]).earlier(), 0);
        assert_eq!(falls(&[0, 1, 2]).earlier(), 2);
        assert_eq!(falls(&[0, 1, 2, 90]).earlier(), 0);
    }
}
