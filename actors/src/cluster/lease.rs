//! What one node believes of one partition's lease, as a pure state machine: it is told what was seen in the bucket and
//! what became of its writes, and says what to write, when to stop, and under which epoch to go on.
//!
//! A belief may be wrong: a paused node, a lost answer, a bucket that was deleted and made again. So a lease never lets
//! anybody append by itself; it only keeps two owners from wanting to, and gives each owner an epoch above the ones
//! before it. A late write of a former life is harmless, because every write names the revision it replaces.
//!
//! The caller owes each [`Action::Put`], [`Action::Delete`] and [`Action::Look`] exactly one outcome, and acts on
//! [`Action::Stop`] before it does anything else.

mod belief;

use super::{NodeName, Uptime, dispatch::Horizon};
use events::quantity::Millis;
use events::record::{Boot, Epoch};

/// How long a value lives in the bucket. An election of NATS takes up to 8 s; a shorter life would drop every lease.
pub const TTL: Millis = Millis(15_000);
/// How often an owner writes its value again.
pub const HEARTBEAT: Millis = Millis(3_000);
/// How long after the *send* of its last good heartbeat an owner stops by itself. The server counts [`TTL`] from when
/// the value arrived, which is later, so the difference is left for clocks that run unevenly.
pub const FENCE: Millis = Millis(12_000);
/// How long a value may stand unchanged before it is taken over although no expiry was seen: a marker may be lost, and
/// a bucket that was restored may hold values that never expire. Its owner stopped long before.
pub const STALE: Millis = Millis(20_000);
/// The least time between two looks.
pub const LOOK_PACE: Millis = Millis(500);
/// Fenced lives that are remembered. What one of an older fence holds ends by its time.
pub const FENCED_MAX: usize = 64;

/// Who holds a partition: the value in the bucket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// Which node.
    pub node: NodeName,
    /// Which life of it.
    pub boot: Boot,
    /// What its commits carry.
    pub epoch: Epoch,
}

/// What stands under the partition's key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seen {
    /// Nothing, at revision 0, or the marker of a value that was deleted or expired.
    Free {
        /// What the next write must name.
        revision: u64,
    },
    /// Somebody's value.
    Held {
        /// What the next write must name.
        revision: u64,
        /// Whose; `None` when this build can not read it.
        holder: Option<Holder>,
    },
}

impl Seen {
    /// What the next write must name.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        match self {
            Self::Free { revision } | Self::Held { revision, .. } => *revision,
        }
    }
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It stands.
    Stored {
        /// Its revision.
        revision: u64,
    },
    /// It does not and never will: another revision stood there (code 10071).
    Refused,
    /// Nobody can say, and it may still arrive: a time-out, another write in flight (10164), no leader.
    Unknown,
}

/// Where the placement wants the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Belongs {
    /// On this node.
    Here,
    /// On another one.
    Elsewhere,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// Time went by.
    Tick,
    /// The placement changed.
    Placed(Belongs),
    /// The watch told; late or repeated news is harmless.
    Watched(Seen),
    /// The watch was opened anew, perhaps over another bucket, so revisions that were seen before mean nothing.
    Reopened,
    /// A look's answer, read from the leader.
    Looked {
        /// What stands in the bucket.
        seen: Seen,
        /// The highest epoch of the partition's commits, as far as the store can tell.
        highest: Epoch,
    },
    /// A look had no answer.
    LookFailed,
    /// What became of the write that is under way.
    Wrote(Outcome),
    /// An append was fenced by this epoch.
    Met(Epoch),
    /// Nobody answers at that life of an owner: it was probed and is silent.
    Silent(Boot),
    /// An operator says that that life of a node must not act any more, however alive it looks.
    Fenced(Boot),
    /// What [`Action::Drain`] asked for is done.
    Drained,
}

/// Why an owner stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// No heartbeat was good for [`FENCE`].
    HeartbeatsFailed,
    /// Another holder stands in the bucket.
    Taken,
    /// It was asked to.
    HandedOver,
    /// An operator ended this life.
    Fenced,
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Write this value with [`TTL`], if the key's revision is the expected one.
    Put {
        /// The value.
        holder: Holder,
        /// The revision it replaces.
        expected: u64,
    },
    /// Delete the value, if the key's revision is the expected one: the next owner sees it at once.
    Delete {
        /// The revision it replaces.
        expected: u64,
    },
    /// Read the key from the leader, and the partition's highest epoch from the store.
    Look,
    /// The partition is this node's, under this epoch; also when the epoch rose.
    Own(Epoch),
    /// Finish what is under way and take nothing new, then say [`Input::Drained`].
    Drain,
    /// The partition is not this node's any more: no append, no effect.
    Stop(Why),
}

/// A write whose outcome is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Flight {
    /// Becoming the owner.
    Take {
        epoch: Epoch,
        sent: Uptime,
    },
    /// Staying the owner, perhaps under a higher epoch.
    Keep {
        epoch: Epoch,
        sent: Uptime,
    },
    Delete,
}

/// One stretch of ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Tenure {
    epoch: Epoch,
    /// The revision of the last write that is known to stand.
    revision: u64,
    /// When it was sent, or earlier.
    good: Uptime,
    /// When a write was last sent.
    beat: Uptime,
    /// What this tenure's epoch must rise above.
    met: Epoch,
    draining: Draining,
}

/// Where the newest news came from. A node only takes what it has just read from the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Leader,
    Other,
}

impl Source {
    const fn of(input: &Input) -> Self {
        if matches!(input, Input::Looked { .. }) { Self::Leader } else { Self::Other }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Draining {
    No,
    Asked,
    Done,
}

/// What one node believes of one partition's lease.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    node: NodeName,
    boot: Boot,
    belongs: Belongs,
    /// The newest thing seen, and since when it has stood unchanged.
    seen: Option<(Seen, Uptime)>,
    /// The highest epoch seen anywhere.
    highest: Epoch,
    tenure: Option<Tenure>,
    flight: Option<Flight>,
    looking: bool,
    look_from: Uptime,
    /// The first send of those writes of which nobody can say whether they stand.
    doubt: Option<Uptime>,
    /// A life that was probed and is silent.
    silent: Option<Boot>,
    /// The lives that an operator ended, the newest of them.
    fenced: Vec<Boot>,
}

impl Lease {
    /// The belief of a node that has seen nothing.
    #[must_use]
    pub const fn new(node: NodeName, boot: Boot) -> Self {
        Self {
            node,
            boot,
            belongs: Belongs::Elsewhere,
            seen: None,
            highest: Epoch(0),
            tenure: None,
            flight: None,
            looking: false,
            look_from: Uptime(0),
            doubt: None,
            silent: None,
            fenced: Vec::new(),
        }
    }

    /// Under which epoch this node may act now, if it may.
    #[must_use]
    pub fn epoch(&self, now: Uptime) -> Option<Epoch> {
        self.tenure.filter(|tenure| now < tenure.horizon()).map(|tenure| tenure.epoch)
    }

    /// Until when this node may act for the partition.
    #[must_use]
    pub fn horizon(&self) -> Horizon {
        self.tenure.map_or(Horizon::Over, |tenure| Horizon::Until(tenure.horizon()))
    }

    /// Who holds the partition, as far as this node has seen.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        match &self.seen {
            Some((Seen::Held { holder, .. }, _)) => holder.as_ref(),
            Some((Seen::Free { .. }, _)) | None => None,
        }
    }

    /// When [`Input::Tick`] is due; `None` while only news can change anything.
    #[must_use]
    pub fn next(&self) -> Option<Uptime> {
        let horizon = self.tenure.map(|tenure| tenure.horizon());
        let idle = self.flight.is_none() && !self.looking;
        let may_write = idle && self.seen.is_some();
        let beat = self.tenure.filter(|_| may_write).map(|tenure| tenure.beat.after(HEARTBEAT));
        let look = self.wants_look_at().filter(|_| idle);
        [horizon, beat, look].into_iter().flatten().min()
    }

    /// What follows from an input. Total: any input in any state.
    pub fn step(&mut self, now: Uptime, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.tenure.is_some_and(|tenure| now >= tenure.horizon()) {
            self.stop(Why::HeartbeatsFailed, &mut actions);
        }
        let source = Source::of(&input);
        self.learn(now, input, &mut actions);
        if self.flight.is_none() && !self.looking {
            self.act(now, source, &mut actions);
        }
        actions
    }

    fn learn(&mut self, now: Uptime, input: Input, actions: &mut Vec<Action>) {
        match input {
            Input::Tick => {}
            Input::Placed(_) if self.fenced.contains(&self.boot) => {}
            Input::Placed(belongs) => self.belongs = belongs,
            Input::Watched(seen) => {
                // An owner in doubt believes only a look: old news of its own would prolong its lease.
                let is_news = match &self.seen {
                    Some((old, _)) => seen.revision() > old.revision(),
                    None => self.tenure.is_none(),
                };
                if is_news {
                    self.note(now, seen, actions);
                }
            }
            Input::Reopened => self.seen = None,
            Input::Looked { seen, highest } => {
                self.looking = false;
                self.highest = self.highest.max(highest);
                let is_newer = |(known, _): &(Seen, Uptime)| known.revision() > seen.revision();
                if self.seen.as_ref().is_some_and(is_newer) {
                    // Read before what the watch has told since, or of a bucket that was made again: the next look
                    // tells which. Believing it would wait for the end of a value that has ended.
                    self.seen = None;
                } else {
                    self.note(now, seen, actions);
                }
            }
            Input::LookFailed => self.looking = false,
            Input::Wrote(outcome) => self.wrote(now, outcome, actions),
            Input::Met(epoch) => {
                self.highest = self.highest.max(epoch);
                if let Some(tenure) = &mut self.tenure {
                    tenure.met = tenure.met.max(epoch);
                }
            }
            // Two may die together: the one that holds nothing here must not hide the other.
            Input::Silent(boot) => {
                if self.holder().is_none_or(|holder| holder.boot == boot) {
                    self.silent = Some(boot);
                }
            }
            Input::Fenced(boot) => self.fence(boot, actions),
            Input::Drained => {
                if let Some(tenure) = &mut self.tenure
                    && tenure.draining == Draining::Asked
                {
                    tenure.draining = Draining::Done;
                }
            }
        }
    }

    /// Starts at most one write or look.
    fn act(&mut self, now: Uptime, source: Source, actions: &mut Vec<Action>) {
        if let Some(tenure) = &mut self.tenure
            && self.belongs == Belongs::Elsewhere
            && tenure.draining == Draining::No
        {
            tenure.draining = Draining::Asked;
            actions.push(Action::Drain);
        }
        let Some((seen, since)) = self.seen.clone() else { return self.look(now, actions) };
        let expected = seen.revision();
        match self.tenure {
            Some(tenure) if tenure.draining == Draining::Done => {
                // Before the value is gone: whoever sees that may begin at once.
                self.stop(Why::HandedOver, actions);
                self.delete(expected, actions);
            }
            Some(tenure) if tenure.must_raise() || now >= tenure.beat.after(HEARTBEAT) => {
                let epoch = if tenure.must_raise() { self.next_epoch() } else { tenure.epoch };
                self.tenure = Some(Tenure { beat: now, ..tenure });
                self.flight = Some(Flight::Keep { epoch, sent: now });
                self.put(epoch, expected, actions);
            }
            Some(_) => {}
            None if self.belongs == Belongs::Elsewhere => {
                // A take that came too late, or a value that outlived its tenure: nobody else may wait for its end.
                if self.is_mine(&seen) {
                    self.delete(expected, actions);
                }
            }
            None if !self.may_take(now, &seen, since) => {}
            None if source == Source::Leader => {
                let epoch = self.next_epoch();
                self.flight = Some(Flight::Take { epoch, sent: now });
                self.put(epoch, expected, actions);
            }
            None => self.look(now, actions),
        }
    }

    fn put(&mut self, epoch: Epoch, expected: u64, actions: &mut Vec<Action>) {
        self.highest = self.highest.max(epoch);
        let holder = Holder { node: self.node.clone(), boot: self.boot, epoch };
        actions.push(Action::Put { holder, expected });
    }

    fn delete(&mut self, expected: u64, actions: &mut Vec<Action>) {
        self.flight = Some(Flight::Delete);
        actions.push(Action::Delete { expected });
    }

    fn look(&mut self, now: Uptime, actions: &mut Vec<Action>) {
        let wanted = self.tenure.is_some() || self.belongs == Belongs::Here;
        if wanted && now >= self.look_from {
            self.looking = true;
            self.look_from = now.after(LOOK_PACE);
            actions.push(Action::Look);
        }
    }

    fn stop(&mut self, why: Why, actions: &mut Vec<Action>) {
        self.tenure = None;
        actions.push(Action::Stop(why));
    }

    /// Above every epoch that was seen anywhere, so that it never goes backwards, whatever became of the bucket.
    fn next_epoch(&self) -> Epoch {
        store::next_epoch(self.highest, self.highest)
    }

    fn is_mine(&self, seen: &Seen) -> bool {
        match seen {
            Seen::Held { holder: Some(holder), .. } => {
                (&holder.node, holder.boot) == (&self.node, self.boot)
            }
            Seen::Held { holder: None, .. } | Seen::Free { .. } => false,
        }
    }

    /// Whether a node that does not own the partition may write its own name there.
    fn may_take(&self, now: Uptime, seen: &Seen, since: Uptime) -> bool {
        let silent = |holder: &Holder| {
            self.silent == Some(holder.boot) || self.fenced.contains(&holder.boot)
        };
        match seen {
            Seen::Free { .. } => true,
            Seen::Held { holder, .. } => {
                now >= since.after(STALE)
                    || self.is_mine(seen)
                    || holder.as_ref().is_some_and(silent)
            }
        }
    }

    /// When a look may change something, if ever.
    fn wants_look_at(&self) -> Option<Uptime> {
        match (&self.seen, self.tenure, self.belongs) {
            (_, None, Belongs::Elsewhere) | (Some(_), Some(_), _) => None,
            (None, Some(_), _) | (None, None, Belongs::Here) => Some(self.look_from),
            (Some((seen, since)), None, Belongs::Here) => {
                let stale = since.after(STALE);
                let from = if self.may_take(Uptime(0), seen, *since) { Uptime(0) } else { stale };
                Some(from.max(self.look_from))
            }
        }
    }
}

impl Tenure {
    const fn horizon(&self) -> Uptime {
        Uptime(self.good.0.saturating_add(FENCE.0))
    }

    fn must_raise(&self) -> bool {
        // An equal one is another life's, which took a bucket that was made again.
        self.met >= self.epoch
    }
}

#[cfg(test)]
mod tests;
