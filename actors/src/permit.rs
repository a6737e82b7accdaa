//! Admission: a command holds a permit of its stream and one of the node from the door until it is answered.
//!
//! ractor's mailboxes have no bound: two million casts at a stuck actor are accepted and kept. So the bound stands
//! in front of it, and full is an answer, not a wait.

use crate::metric;
use crate::order::Lane;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Commands on their way in the data lanes of all streams of a node. At a few kilobytes each this is tens of
/// megabytes; more would only wait longer for the one store.
pub const NODE_DATA_MAX: usize = 16_384;
/// Commands on their way in the control lanes of all streams of a node; apart, so that no flood keeps a stop out.
pub const NODE_CONTROL_MAX: usize = 2_048;
/// Commands that wait in one stream's control lane: a stop, a few answers, a timer. Its data lane is the kind's own.
pub const STREAM_CONTROL_MAX: usize = 16;

/// Room for commands; of a node or of one stream.
#[derive(Debug, Clone)]
pub struct Permits {
    data: Arc<Semaphore>,
    control: Arc<Semaphore>,
    data_max: usize,
    control_max: usize,
}

/// Proof of a place in a stream's inbox and in the node. Both are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    lane: Lane,
    _stream: OwnedSemaphorePermit,
    _node: OwnedSemaphorePermit,
}

impl Permits {
    /// Room for all commands of a node.
    #[must_use]
    pub fn of_node() -> Self {
        Self::new(NODE_DATA_MAX, NODE_CONTROL_MAX)
    }

    /// Room for the commands of one stream.
    pub(crate) fn of_stream(data_max: usize) -> Self {
        Self::new(data_max, STREAM_CONTROL_MAX)
    }

    fn new(data_max: usize, control_max: usize) -> Self {
        let room = |max| Arc::new(Semaphore::new(max));
        Self { data: room(data_max), control: room(control_max), data_max, control_max }
    }

    /// A place in this stream's lane and in the node's, or none when either is full.
    pub(crate) fn take(&self, node: &Self, lane: Lane) -> Option<Permit> {
        let stream = Arc::clone(self.room(lane)).try_acquire_owned().ok()?;
        let node = Arc::clone(node.room(lane)).try_acquire_owned().ok()?;
        metric::permit_taken(lane);
        Some(Permit { lane, _stream: stream, _node: node })
    }

    /// Whether nobody holds a permit.
    pub(crate) fn are_home(&self) -> bool {
        self.data.available_permits() == self.data_max
            && self.control.available_permits() == self.control_max
    }

    fn room(&self, lane: Lane) -> &Arc<Semaphore> {
        match lane {
            Lane::Data => &self.data,
            Lane::Control => &self.control,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        metric::permit_home(self.lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_data_lane_leaves_room_for_control() {
        let (node, stream) = (Permits::of_node(), Permits::of_stream(2));
        let data: Vec<_> = (0..3).filter_map(|_| stream.take(&node, Lane::Data)).collect();
        assert_eq!(data.len(), 2);
        assert!(stream.take(&node, Lane::Control).is_some());
        assert!(!stream.are_home());
        drop(data);
        assert!(stream.are_home() && node.are_home());
    }

    #[test]
    fn a_full_node_refuses_without_keeping_a_place_in_the_stream() {
        let (node, crowd, stream) =
            (Permits::new(1, 1), Permits::of_stream(8), Permits::of_stream(8));
        let held = crowd.take(&node, Lane::Data);
        assert!(held.is_some());
        assert!(stream.take(&node, Lane::Data).is_none());
        assert!(stream.are_home());
    }
}
