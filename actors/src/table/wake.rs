//! How the agenda wakes a stream of this table: by starting its host, or by telling it that its time has come.

use super::{Slot, Table};
use crate::agenda::Rouse;
use crate::host::Hosted;
use crate::inbox::{Asked, Origin};
use crate::order::{Lane, NoDecision, Order};
use events::aggregate::Wake;
use events::quantity::Instant;
use events::record::{Actor, CommandId, StreamKey};
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;

impl<A: Hosted> Table<A> {
    pub(super) fn wake(self: &Arc<Self>, id: A::Id) -> Result<(), NoDecision> {
        let mut inner = self.inner();
        let up = inner.slots.get(&id).is_some_and(Slot::is_up);
        let inbox = self.find(&mut inner, id)?;
        if !up {
            // So that it is started again if it falls before it can say what it owes.
            inbox.set_wake(Wake::Now);
        }
        Ok(())
    }

    /// The same firing has the same id, so that firing twice is harmless.
    fn remind(self: &Arc<Self>, id: A::Id, due: Instant) -> Result<(), NoDecision> {
        let Some(command) = A::due() else { return self.wake(id) };
        let stream = A::stream(&id);
        let firing = CommandId::derived(due, &[stream.as_str().as_bytes(), b"due"]);
        let (inbox, permit) = self.admit(id, Lane::Control, super::For::Decision)?;
        let order = Order {
            command,
            id: firing,
            correlation: firing.0,
            actor: Actor::Node,
            // It waits for its host however long that takes; the agenda would only send it again.
            deadline: Instant::MAX,
            lane: Lane::Control,
        };
        // Nobody waits for the answer: the stream's next wake says what came of it.
        let (reply, _nobody) = oneshot::channel();
        inbox.ask(Asked { order, origin: Origin::Node, reply, permit });
        Ok(())
    }

    fn is_up(&self, id: &A::Id) -> bool {
        self.inner().slots.get(id).is_some_and(Slot::is_up)
    }
}

impl<A: Hosted> Rouse for Weak<Table<A>> {
    fn is_awake(&self, stream: &StreamKey) -> bool {
        let found = self.upgrade().zip(A::id(stream));
        found.is_some_and(|(table, id)| table.is_up(&id))
    }

    fn rouse(&self, stream: &StreamKey) -> Result<(), NoDecision> {
        let (table, id) = self.upgrade().zip(A::id(stream)).ok_or(NoDecision::NobodyThere)?;
        table.wake(id)
    }

    fn remind(&self, stream: &StreamKey, due: Instant) -> Result<(), NoDecision> {
        let (table, id) = self.upgrade().zip(A::id(stream)).ok_or(NoDecision::NobodyThere)?;
        table.remind(id, due)
    }
}
