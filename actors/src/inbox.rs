//! What waits for one stream's host. It belongs to the stream and not to the host: an actor's mailbox dies with
//! the actor, so a panic would lose every command behind it. Here the next incarnation answers them.
//!
//! The host's own mailbox carries no data, only "look" and "tick", at most one of each at a time.

use crate::host::Message;
use crate::order::{Answer, Lane, NoDecision, Observed, Order};
use crate::permit::{Permit, Permits};
use events::aggregate::{Aggregate, Wake};
use events::record::CommandId;
use ractor::ActorRef;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{oneshot, watch};

/// Who sends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Somebody who may send it again, so its id must be one that the stream still remembers.
    Caller,
    /// This node: an effect is started once, and a timer that fires twice is harmless.
    Node,
}

/// A command that waits for its decision. Its permit goes home after the answer.
pub(crate) struct Asked<A: Aggregate> {
    pub(crate) order: Order<A::Command>,
    pub(crate) origin: Origin,
    pub(crate) reply: oneshot::Sender<Answer<A>>,
    pub(crate) permit: Permit,
}

impl<A: Aggregate> Asked<A> {
    pub(crate) fn answer(self, answer: Answer<A>) {
        // The asker may have gone; what was recorded counts all the same.
        let _gone = self.reply.send(answer);
        drop(self.permit);
    }
}

/// How an effect's task ended.
#[derive(Debug)]
pub(crate) enum End<C> {
    /// With what is to be recorded.
    Said(C),
    /// By a panic, an abort or a fault on purpose.
    Died,
}

/// What came of an effect. It needs no permit: a state has few effects open at a time.
pub(crate) struct Outcome<A: Aggregate> {
    pub(crate) effect: A::EffectId,
    pub(crate) id: CommandId,
    pub(crate) correlation: u128,
    pub(crate) end: End<A::Command>,
}

/// Somebody who wants to see the state.
pub(crate) struct Read<A: Aggregate> {
    pub(crate) view: View<A>,
    pub(crate) permit: Permit,
}

/// How long.
pub(crate) enum View<A: Aggregate> {
    Once(oneshot::Sender<Observed<A>>),
    Followed(oneshot::Sender<watch::Receiver<Observed<A>>>),
}

/// What a host decides on.
pub(crate) enum Item<A: Aggregate> {
    Asked(Asked<A>),
    Outcome(Outcome<A>),
}

struct Lanes<A: Aggregate> {
    /// The newest incarnation; it may be dead.
    host: Option<ActorRef<Message>>,
    /// A "look" is on its way, so another one would only fill the mailbox.
    looking: bool,
    /// A "tick" is on its way.
    ticking: bool,
    /// Nobody will look again: what still comes is answered at once.
    closed: Option<NoDecision>,
    /// What the stream owes, as far as its hosts have said.
    wake: Wake,
    control: VecDeque<Asked<A>>,
    outcomes: VecDeque<Outcome<A>>,
    data: VecDeque<Asked<A>>,
    reads: VecDeque<Read<A>>,
}

impl<A: Aggregate> Lanes<A> {
    fn is_empty(&self) -> bool {
        self.control.is_empty()
            && self.outcomes.is_empty()
            && self.data.is_empty()
            && self.reads.is_empty()
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Asked<A>> {
        match lane {
            Lane::Data => &mut self.data,
            Lane::Control => &mut self.control,
        }
    }

    fn notice(&mut self) {
        if let Some(host) = &self.host
            && !mem::replace(&mut self.looking, true)
        {
            // A dead host can not be told; the next one looks when it is attached.
            let _dead = host.cast(Message::Look);
        }
    }

    /// An idle stream keeps no room for commands: it may be one of a hundred thousand.
    fn give_room_back(&mut self) {
        let Self { control, outcomes, data, .. } = self;
        for lane in [control, data] {
            if lane.is_empty() {
                *lane = VecDeque::new();
            }
        }
        if outcomes.is_empty() {
            *outcomes = VecDeque::new();
        }
    }

    fn next(&mut self) -> Option<Item<A>> {
        let control = self.control.pop_front().map(Item::Asked);
        let outcome = || self.outcomes.pop_front().map(Item::Outcome);
        control.or_else(outcome).or_else(|| self.data.pop_front().map(Item::Asked))
    }
}

/// Bounded: by permits for commands and reads, by the state's open effects for outcomes.
pub(crate) struct Inbox<A: Aggregate> {
    pub(crate) permits: Permits,
    // A std lock: it is held over no await.
    lanes: Mutex<Lanes<A>>,
}

impl<A: Aggregate> Inbox<A> {
    pub(crate) fn new(data_max: usize) -> Self {
        let lanes = Lanes {
            host: None,
            looking: false,
            ticking: false,
            closed: None,
            wake: Wake::OnCommand,
            control: VecDeque::new(),
            outcomes: VecDeque::new(),
            data: VecDeque::new(),
            reads: VecDeque::new(),
        };
        Self { permits: Permits::of_stream(data_max), lanes: Mutex::new(lanes) }
    }

    /// Hands the inbox to a new incarnation, which looks as soon as it has replayed.
    pub(crate) fn attach(&self, host: ActorRef<Message>) {
        let mut lanes = self.lanes();
        lanes.host = Some(host);
        lanes.looking = false;
        lanes.ticking = false;
        lanes.notice();
    }

    /// The newest incarnation, which may have ended.
    pub(crate) fn host(&self) -> Option<ActorRef<Message>> {
        self.lanes().host.clone()
    }

    /// A command that already waits under the same id for the node's own sake is not kept twice.
    pub(crate) fn ask(&self, asked: Asked<A>) {
        let mut lanes = self.lanes();
        if let Some(why) = lanes.closed {
            return asked.answer(Err(why));
        }
        let lane = lanes.lane(asked.order.lane);
        let waits = |other: &Asked<A>| other.order.id == asked.order.id;
        if asked.origin == Origin::Node && lane.iter().any(waits) {
            return;
        }
        lane.push_back(asked);
        lanes.notice();
    }

    pub(crate) fn tell(&self, outcome: Outcome<A>) {
        let mut lanes = self.lanes();
        if lanes.closed.is_none() {
            lanes.outcomes.push_back(outcome);
            lanes.notice();
        }
    }

    pub(crate) fn read(&self, read: Read<A>) {
        let mut lanes = self.lanes();
        // A dropped reader is told that the host went away.
        if lanes.closed.is_none() {
            lanes.reads.push_back(read);
            lanes.notice();
        }
    }

    /// Asks the host to look, though nothing came.
    pub(crate) fn look(&self) {
        self.lanes().notice();
    }

    /// Asks the host whether it is idle.
    pub(crate) fn tick(&self) {
        let mut lanes = self.lanes();
        if let Some(host) = &lanes.host
            && !lanes.ticking
        {
            // A dead host can not sleep.
            let _dead = host.cast(Message::Tick);
            lanes.ticking = true;
        }
    }

    pub(crate) fn ticked(&self) {
        self.lanes().ticking = false;
    }

    /// What waits now, at most `items_max` to decide: control first, then outcomes, then data.
    pub(crate) fn take(self: &Arc<Self>, items_max: usize) -> Batch<A> {
        let mut lanes = self.lanes();
        lanes.looking = false;
        let waiting = std::iter::from_fn(|| lanes.next()).take(items_max).collect();
        let reads = mem::take(&mut lanes.reads);
        lanes.give_room_back();
        if !lanes.is_empty() {
            lanes.notice();
        }
        Batch { inbox: Arc::clone(self), waiting, judged: vec![], reads }
    }

    /// Puts outcomes back where they were, for nobody else would tell them again.
    pub(crate) fn give_back(&self, items: impl DoubleEndedIterator<Item = Item<A>>) {
        let mut lanes = self.lanes();
        for item in items.rev() {
            match (item, lanes.closed) {
                (Item::Asked(asked), Some(why)) => asked.answer(Err(why)),
                (Item::Asked(asked), None) => lanes.lane(asked.order.lane).push_front(asked),
                (Item::Outcome(_), Some(_)) => (),
                (Item::Outcome(outcome), None) => lanes.outcomes.push_front(outcome),
            }
        }
        if !lanes.is_empty() {
            lanes.notice();
        }
    }

    /// Answers everything that waits, and everything that still comes.
    pub(crate) fn close(&self, why: NoDecision) {
        let mut lanes = self.lanes();
        lanes.closed = Some(why);
        lanes.outcomes.clear();
        lanes.reads.clear();
        let waiting: Vec<_> = std::iter::from_fn(|| lanes.next()).collect();
        drop(lanes);
        for item in waiting {
            if let Item::Asked(asked) = item {
                asked.answer(Err(why));
            }
        }
    }

    /// Remembers what the stream owes, for whoever asks after the host has died.
    pub(crate) fn set_wake(&self, wake: Wake) {
        self.lanes().wake = wake;
    }

    pub(crate) fn wake(&self) -> Wake {
        self.lanes().wake
    }

    /// Whether nothing waits and nobody is on the way here.
    pub(crate) fn is_quiet(&self) -> bool {
        self.permits.are_home() && self.lanes().is_empty()
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<A>> {
        // No code of an aggregate runs under it, so a poisoned lock holds whole lanes.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was decided about an item, before it is known whether the commit lands.
pub(crate) enum Verdict<A: Aggregate> {
    /// It holds, once what was decided on it stands.
    Stands,
    /// The rules say no, in a state that may still have to land.
    Refused(A::Refusal),
    /// It was not put to the rules at all.
    Unheard(NoDecision),
}

/// What a host took to decide together. If the host dies of one item, the others go back and the next incarnation
/// decides them: only the one that was under judgement is lost.
pub(crate) struct Batch<A: Aggregate> {
    inbox: Arc<Inbox<A>>,
    waiting: VecDeque<Item<A>>,
    judged: Vec<(Item<A>, Verdict<A>)>,
    reads: VecDeque<Read<A>>,
}

impl<A: Aggregate> Batch<A> {
    pub(crate) fn next(&mut self) -> Option<Item<A>> {
        self.waiting.pop_front()
    }

    pub(crate) fn judged(&mut self, item: Item<A>, verdict: Verdict<A>) {
        self.judged.push((item, verdict));
    }

    /// Hands over what was judged so far. From here on it is answered or lost, never decided again.
    pub(crate) fn take_judged(&mut self) -> Vec<(Item<A>, Verdict<A>)> {
        mem::take(&mut self.judged)
    }

    pub(crate) fn take_reads(&mut self) -> VecDeque<Read<A>> {
        mem::take(&mut self.reads)
    }
}

impl<A: Aggregate> Drop for Batch<A> {
    fn drop(&mut self) {
        let judged = self.judged.drain(..).map(|(item, _)| item);
        let items: Vec<_> = judged.chain(self.waiting.drain(..)).collect();
        if !items.is_empty() {
            self.inbox.give_back(items.into_iter());
        }
    }
}
