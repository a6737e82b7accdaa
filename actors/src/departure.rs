//! An effect on its way out: from its intent to its first byte.
//!
//! Leave is asked for immediately before that byte, for between the intent and it a node may have been stopped, and
//! another one may own the stream by then. What does not leave is said, also when its host ends first: an effect that
//! was ready and never left is what a person looks for after a fail-over.

use crate::cluster::bucket::uptime;
use crate::cluster::dispatch::{NotSent, may_leave};
use crate::cluster::{Uptime, mandate::Mandate};
use crate::metric;
use events::leave::Leave;
use events::quantity::Millis;
use events::record::StreamKey;
use std::future::Future;
use std::sync::Arc;
use store::fault::{Next, Visitor};
use store::{Faults, Point};
use tokio::sync::watch;

/// What one effect knows of its intent.
#[derive(Debug, Clone)]
pub struct Dispatch {
    pub(crate) mandate: Mandate,
    pub(crate) faults: Faults,
    pub(crate) stream: StreamKey,
    /// What kind of effect it is.
    pub(crate) what: &'static str,
    /// When its intent was on its way to the log.
    pub(crate) intended: Uptime,
}

impl Dispatch {
    /// The same, with a wait that was known and recorded when it was intended: its window begins after that.
    #[must_use]
    pub fn after(&self, wait: Millis) -> Self {
        Self { intended: self.intended.after(wait), ..self.clone() }
    }

    /// Whether it may leave now.
    ///
    /// # Errors
    ///
    /// [`NotSent`]: report it as the outcome.
    pub fn may_leave(&self) -> Result<(), NotSent> {
        may_leave(uptime(), self.intended, self.mandate.horizon(self.stream.partition()))
    }

    /// Gives an effect leave to begin, if it may still, and does it. `under_way` bounds what lies between the beginning
    /// and the first byte, such as a connection that is made: the effect is given a [`Leave`] to ask for immediately
    /// before that byte, which is refused after the lease, or once so much more time has gone by.
    ///
    /// # Errors
    ///
    /// [`NotSent`] when it may not begin.
    pub async fn begin<T, F: Future<Output = T>>(
        &self,
        under_way: Millis,
        effect: impl FnOnce(Leave) -> F,
    ) -> Result<T, NotSent> {
        let departure = Departure::of(self.clone());
        // A fault here is like one before the effect: it goes on, or is killed.
        let _: Next = self.visit(Point::BeforeFirstByte).await;
        self.may_leave().inspect_err(|why| departure.refused(*why))?;
        let (asked, stage) = (self.after(under_way), Arc::clone(&departure.stage));
        let leave = Leave::new(move || {
            let answer = asked.may_leave();
            stage.send_replace(answer.map_or_else(Stage::Refused, |()| Stage::Left));
            answer
        });
        let effect = effect(leave);
        if !self.faults.armed() {
            let outcome = effect.await;
            departure.over();
            return Ok(outcome);
        }
        let mut stage = departure.stage.subscribe();
        let effect = async {
            let outcome = effect.await;
            departure.over();
            outcome
        };
        let drill = async {
            let reached = stage.wait_for(|stage| !matches!(stage, Stage::Here)).await;
            let has_left =
                reached.is_ok_and(|stage| !matches!(*stage, Stage::Refused(_) | Stage::Stayed));
            if has_left {
                let _: Next = self.visit(Point::AfterFirstByte).await;
            }
        };
        Ok(tokio::join!(effect, drill).0)
    }

    pub(crate) async fn visit(&self, point: Point) -> Next {
        self.faults.visited(point, Visitor { what: self.what, name: &self.stream }).await
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has left.
    Here,
    /// Its first byte was given leave.
    Left,
    /// It was refused.
    Refused(NotSent),
    /// It is over, and had left.
    Over,
    /// It is over, and had no need to leave.
    Stayed,
}

/// Says what did not leave, when it is dropped: after its word, or with its host.
struct Departure {
    dispatch: Dispatch,
    stage: Arc<watch::Sender<Stage>>,
}

impl Departure {
    fn of(dispatch: Dispatch) -> Self {
        Self { dispatch, stage: Arc::new(watch::Sender::new(Stage::Here)) }
    }

    fn refused(&self, why: NotSent) {
        self.stage.send_replace(Stage::Refused(why));
    }

    fn over(&self) {
        self.stage.send_if_modified(|stage| {
            let next = match *stage {
                Stage::Here => Stage::Stayed,
                Stage::Left => Stage::Over,
                same @ (Stage::Refused(_) | Stage::Over | Stage::Stayed) => same,
            };
            std::mem::replace(stage, next) != next
        });
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        let cause = match *self.stage.borrow() {
            Stage::Refused(why) => why.word(),
            Stage::Here => "host_ended",
            Stage::Left | Stage::Over | Stage::Stayed => return,
        };
        metric::not_sent(cause);
        let Dispatch { stream, what, .. } = &self.dispatch;
        tracing::warn!(%stream, effect = what, cause, "effect_not_sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::{Place, RunId};
    use events::record::StreamKind;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn dispatch(mandate: Mandate) -> Dispatch {
        let run = RunId::new(Place::default(), 1);
        let stream = StreamKey::rooted(StreamKind::Run, Place::default().partition, &run);
        let faults = Faults::counting();
        Dispatch { mandate, faults, stream, what: "tool", intended: uptime() }
    }

    #[tokio::test]
    async fn an_effect_begins_and_leaves_while_it_may() {
        let dispatch = dispatch(Mandate::alone());
        let done = dispatch.begin(Millis(0), |leave| async move { leave.ask() }).await;
        assert_eq!(done, Ok(Ok(())));
        assert_eq!(dispatch.faults.visits(Point::BeforeFirstByte), 1);
    }

    #[tokio::test]
    async fn an_effect_without_a_lease_is_not_begun() {
        let begun = AtomicBool::new(false);
        let effect = |_leave| async { begun.store(true, Ordering::Relaxed) };
        let done = dispatch(Mandate::leased()).begin(Millis(0), effect).await;
        assert_eq!((done, begun.load(Ordering::Relaxed)), (Err(NotSent::LeaseOver), false));
    }
}
