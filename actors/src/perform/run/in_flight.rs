//! What is known of this node's model calls: which wait and can be called off, and what was reported so far of the usage of
//! those that left. A run that is ended keeps what was seen, and pays nothing for what never left.

use events::id::RunId;
use events::run::step::CallNo;
use events::run::unsent::Flight;
use providers::Seen;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The calls that wait or are in flight: one for each run that is at work here.
#[derive(Debug, Default)]
pub struct InFlight(
    // Held over no await.
    Mutex<BTreeMap<(RunId, CallNo), Stage>>,
);

#[derive(Debug)]
enum Stage {
    /// It waits, and nothing of it has left.
    Waits,
    /// It waits, and will not leave.
    CalledOff,
    /// It may have left.
    Flies(Seen),
}

/// One that waits; it is known until this is dropped, also when it is aborted.
pub(super) struct Waiting<'a>(Known<'a>);

/// One that may leave; it is known until this is dropped, also when it is aborted.
pub(super) struct InTheAir<'a> {
    _known: Known<'a>,
    pub(super) seen: Seen,
}

struct Known<'a> {
    all: &'a InFlight,
    place: (RunId, CallNo),
}

impl InFlight {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(RunId, CallNo), Stage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that is not to leave yet.
    pub(super) fn wait(&self, run: RunId, call: CallNo) -> Waiting<'_> {
        let place = (run, call);
        self.all().insert(place, Stage::Waits);
        Waiting(Known { all: self, place })
    }

    /// What is known of the newest call of a run that is about to be ended. One that waits is called off by this: it does
    /// not leave, whatever becomes of the end.
    pub(super) fn call_off(&self, run: RunId) -> Flight {
        let mut all = self.all();
        let mut of_run = all.range_mut((run, CallNo(0))..=(run, CallNo(u32::MAX)));
        match of_run.next_back() {
            Some(((_, call), stage @ (Stage::Waits | Stage::CalledOff))) => {
                *stage = Stage::CalledOff;
                Flight::Stayed(*call)
            }
            Some((_, Stage::Flies(seen))) => Flight::Left(seen.usage()),
            None => Flight::default(),
        }
    }
}

impl<'a> Waiting<'a> {
    /// It may leave from now on; none when it was called off.
    pub(super) fn over(self) -> Option<InTheAir<'a>> {
        let Self(known) = self;
        let seen = Seen::default();
        {
            let mut all = known.all.all();
            let stage = all.get_mut(&known.place)?;
            match stage {
                Stage::CalledOff => return None,
                Stage::Waits | Stage::Flies(_) => *stage = Stage::Flies(seen.clone()),
            }
        }
        Some(InTheAir { _known: known, seen })
    }
}

impl Drop for Known<'_> {
    fn drop(&mut self) {
        self.all.all().remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::Place;

    #[test]
    fn what_waits_is_called_off_and_never_leaves_and_what_left_is_told_as_seen() {
        let (all, run) = (InFlight::default(), RunId::new(Place::default(), 1));
        let other = RunId::new(Place::default(), 2);
        assert_eq!(all.call_off(run), Flight::default(), "nothing is known");
        let waits = all.wait(run, CallNo(3));
        assert_eq!(all.call_off(other), Flight::default());
        assert_eq!(all.call_off(run), Flight::Stayed(CallNo(3)));
        assert_eq!(all.call_off(run), Flight::Stayed(CallNo(3)));
        assert!(waits.over().is_none());
        assert!(all.all().is_empty());
        let left = all.wait(run, CallNo(4)).over().unwrap();
        assert_eq!(all.call_off(run), Flight::Left(left.seen.usage()), "too late to call it off");
        drop(left);
        drop(all.wait(run, CallNo(5)));
        assert!(all.all().is_empty(), "an aborted one is forgotten");
    }
}
