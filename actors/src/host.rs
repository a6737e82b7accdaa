//! The one host of every kind of stream: known id, decide, fold a copy, append, believe, reply, start what is owed.
//!
//! An effect is started because the state says it is owed, never because a handler remembered to: the way after a
//! crash and the way without one are the same code. Memory is always a fold of the log, and nothing is believed
//! before the log has it.

mod draft;
mod effects;
mod known;
mod replay;

use crate::bus::Carried;
use crate::cluster::{Uptime, bucket::uptime};
use crate::departure::Dispatch;
use crate::inbox::{Inbox, Read, View};
use crate::node::Node;
use crate::order::Observed;
use crate::table::Table;
use effects::Effects;
use events::aggregate::{Aggregate, IllegalEvent, Wake};
use events::codec::CodecError;
use events::quantity::Millis;
use events::record::{Cause, Epoch, Position, StreamKey, Tail};
use known::Known;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::{fmt, future::Future, sync::Arc, time::Duration};
use store::{Malformed, StoreError};
use tokio::sync::watch;
use tracing::instrument;

/// Commands and outcomes that one look decides. More would keep the first ones waiting for the last.
const BATCH_MAX: usize = 64;

/// What this crate adds to an aggregate: how its effects are done, its bounds, and how it is spoken of between nodes.
pub trait Hosted: Aggregate<Command: Carried, Refusal: Carried> {
    /// What effects need of the world: clients, other tables, settings.
    type World: Send + Sync + 'static;
    /// Commands and reads that one stream lets wait in its data lane; more are refused as busy.
    const INBOX: usize;
    /// How long nothing must have come before a host is put to sleep; it may be up to twice as long.
    const IDLE: Duration;

    /// The word for a kind of effect, in logs, metrics and drills.
    fn word(effect: &Self::EffectId) -> &'static str;

    /// How long an effect can take from its first byte to its last mark on the world, if it matters: so long after its
    /// dispatch window a new owner waits before it calls a former one's effect lost. `None` when it need not wait.
    fn lasts(_world: &Self::World, _what: &Self::Effect) -> Option<Millis> {
        None
    }

    /// Told after each commit of its own, once the log has acknowledged it: what was believed before and what is now.
    /// For counters and alarms, which nobody else may count: a replay, another node's commit and a follower tell nothing.
    fn noted(_world: &Self::World, _id: &Self::Id, _before: &Self::State, _after: &Self::State) {}

    /// The command with what this node knows of work in flight and its sender can not, if that is anything: taken in place
    /// of what was sent, before it is decided.
    fn informed(
        _world: &Self::World,
        _id: &Self::Id,
        _command: &Self::Command,
    ) -> Option<Self::Command> {
        None
    }

    /// Does one effect and says what came of it; before its first byte leaves this node it asks its dispatch. It is
    /// aborted when the stream owes it no longer, and when its host ends; a panic is recorded as [`Aggregate::lost`].
    fn perform(
        world: &Arc<Self::World>,
        id: Self::Id,
        effect: Self::EffectId,
        what: Self::Effect,
        dispatch: Dispatch,
    ) -> impl Future<Output = Self::Command> + Send;
}

/// What a host is sent. What it is to do waits in its stream's inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// Something waits.
    Look,
    /// Sleep, if nothing came since the last one.
    Tick,
}

/// Configuration of one incarnation; it never changes.
pub(crate) struct Host<A: Hosted> {
    pub(crate) id: A::Id,
    pub(crate) stream: StreamKey,
    pub(crate) incarnation: u64,
    pub(crate) inbox: Arc<Inbox<A>>,
    /// Has the node and the world, so that not each of many sleepless hosts does.
    pub(crate) table: Arc<Table<A>>,
}

/// Memory: a fold of the stream, and what was started because of it.
pub(crate) struct Memory<A: Aggregate> {
    state: Arc<A::State>,
    tail: Tail,
    position: Position,
    known: Known,
    /// Of the newest command that changed something; what it set going belongs to the same piece of work.
    correlation: u128,
    effects: Effects<A>,
    /// When the newest commit was on its way to the log: what is owed because of it was intended then.
    intended: Uptime,
    /// Until when what a former owner left open may yet take effect: it is neither lost before then nor begun again.
    settles: Option<Uptime>,
    followers: Option<watch::Sender<Observed<A>>>,
    /// Entries folded since the newest snapshot.
    unsaved: usize,
    /// Something came since the last tick.
    busy: bool,
}

impl<A: Aggregate> Memory<A> {
    fn observed(&self) -> Observed<A> {
        let Self { state, tail, position, .. } = self;
        Observed { version: tail.version, position: *position, state: Arc::clone(state) }
    }

    fn is_followed(&self) -> bool {
        self.followers.as_ref().is_some_and(|followers| followers.receiver_count() > 0)
    }
}

/// Why a host must stop. But for [`HostError::Fenced`] its supervisor counts a fall, and the next one replays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error("the stream can not be read")]
    Store(#[from] StoreError),
    #[error("the stream does not decode")]
    Codec(#[from] CodecError),
    #[error("the log and the rules disagree")]
    Illegal(#[from] IllegalEvent),
    #[error("the rules made a commit that no store can keep")]
    Malformed(#[from] Malformed),
    #[error(
        "effect {effect} is over, but its outcome left it owed: decide must settle it or end it"
    )]
    Unsettled { effect: String },
    #[error("an owner of epoch {} has written to the stream", .0.0)]
    Fenced(Epoch),
}

impl<A: Hosted> Host<A> {
    fn node(&self) -> &Node {
        self.table.node()
    }

    /// Decides what waits, in as few commits as its size allows, then starts what is owed because of it.
    #[instrument(level = "debug", skip_all, fields(stream = %self.stream))]
    async fn look(&self, memory: &mut Memory<A>) -> Result<(), HostError> {
        memory.busy = true;
        if memory.settles.is_some_and(|settles| uptime() >= settles) {
            memory.settles = None;
            self.awake(memory).await?;
        }
        let mut batch = self.inbox.take(BATCH_MAX);
        loop {
            let mut draft = self.draft(memory);
            while !draft.is_full()
                && let Some(item) = batch.next()
            {
                // A panic in the rules loses this item only: it is in nobody's hands but ours.
                let verdict = self.judge(memory, &mut draft, &item)?;
                batch.judged(item, verdict);
            }
            let judged = batch.take_judged();
            if judged.is_empty() {
                break;
            }
            self.land(memory, draft, judged).await?;
        }
        self.start_owed(memory)?;
        for read in batch.take_reads() {
            Self::show(memory, read);
        }
        self.save(memory).await;
        Ok(())
    }

    fn show(memory: &mut Memory<A>, read: Read<A>) {
        let observed = memory.observed();
        // The reader may have gone.
        match read.view {
            View::Once(reply) => {
                let _gone = reply.send(observed);
            }
            View::Followed(reply) => {
                let followers =
                    memory.followers.get_or_insert_with(|| watch::Sender::new(observed));
                let _gone = reply.send(followers.subscribe());
            }
        }
        drop(read.permit);
    }

    /// Takes over what the log has, and tells who must know.
    fn believe(
        &self,
        memory: &mut Memory<A>,
        state: Arc<A::State>,
        (position, tail): (Position, Tail),
        causes: &[Cause],
    ) {
        let first = memory.tail.version.plus(1);
        let entries = tail.version.0.saturating_sub(memory.tail.version.0);
        memory.unsaved =
            memory.unsaved.saturating_add(usize::try_from(entries).unwrap_or(usize::MAX));
        memory.known.learn(first, causes);
        memory.correlation = causes.last().map_or(memory.correlation, |cause| cause.correlation);
        memory.tail = tail;
        memory.position = position;
        memory.state = state;
    }

    /// Tells who wakes and who watches what is believed now.
    fn publish_belief(&self, memory: &mut Memory<A>) {
        let wake = A::wake(&memory.state);
        self.inbox.set_wake(wake);
        if let Wake::At(at) = wake {
            self.node().agenda.note(self.stream.partition(), at);
        }
        let followed = memory.is_followed();
        memory.followers = memory.followers.take().filter(|_| followed);
        if let Some(followers) = &memory.followers {
            followers.send_replace(memory.observed());
        }
    }

    /// Whether this host has stopped being the stream's. Nothing that waits or comes is lost by it.
    async fn sleeps(&self, memory: &mut Memory<A>) -> bool {
        let stopping = self.table.rests(self.stream.partition());
        let busy = std::mem::take(&mut memory.busy) || memory.settles.is_some();
        let wanted = !stopping && (busy || memory.is_followed());
        if wanted || memory.effects.any_running() {
            return false;
        }
        self.save(memory).await;
        self.table.release(&self.id, self.incarnation)
    }
}

impl<A: Hosted> Actor for Host<A> {
    type Msg = Message;
    // Boxed: ractor's future of an actor has room for its state more than once.
    type State = Box<Memory<A>>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        (): (),
    ) -> Result<Box<Memory<A>>, ActorProcessingErr> {
        // Boxed: the futures that touch the store are large, and every sleeping host would carry their room.
        let started = Box::pin(async {
            let mut memory = self.replay().await?;
            match self.settles(&memory) {
                None => self.awake(&mut memory).await?,
                Some(settles) => self.leave_to_former(&mut memory, settles),
            }
            self.start_owed(&mut memory)?;
            Ok(Box::new(memory))
        });
        started.await.map_err(|error: HostError| {
            if let HostError::Fenced(epoch) = error {
                self.table.fenced(&self.id, self.incarnation, epoch);
            }
            error.into()
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        memory: &mut Box<Memory<A>>,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Look => match Box::pin(self.look(memory)).await {
                Ok(()) if !self.table.rests(self.stream.partition()) => return Ok(()),
                Ok(()) => (),
                Err(HostError::Fenced(epoch)) => {
                    self.table.fenced(&self.id, self.incarnation, epoch);
                    myself.stop(None);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            },
            Message::Tick => self.inbox.ticked(),
        }
        if Box::pin(self.sleeps(memory)).await {
            myself.stop(None);
        }
        Ok(())
    }
}

impl<A: Hosted> fmt::Debug for Host<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, incarnation, .. } = self;
        write!(f, "host {incarnation} of {stream}")
    }
}
