//! An aggregate whose every weakness can be asked for, and a node to host it: a command that panics, an effect that
//! dies, waits or settles nothing, a state that can not wake, a time of its own.

use actors::clock::Hand;
use actors::cluster::mandate::Mandate;
use actors::departure::Dispatch;
use actors::entropy::Entropy;
use actors::host::Hosted;
use actors::node::Node;
use actors::order::{Answer, Lane, NoDecision, Observed, Order};
use actors::table::{Drained, Table};
use events::aggregate::{Aggregate, IllegalEvent, Wake};
use events::codec::CodecError;
use events::id::Partition;
use events::leave::NotSent;
use events::quantity::{Instant, Millis};
use events::record::{
    Actor, Boot, CommandId, Entry, JournalId, Recorded, StreamKey, StreamKind, Version,
};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Faults, Point, Store};
use tokio::sync::watch;

/// Longer than anything here takes on a busy machine; a wait that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long a waiting effect of a former owner can take after its window.
pub const LASTS: Millis = Millis(300);
/// Where the fixed clock starts.
pub const START: Instant = Instant(1_700_000_000_000_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub u32);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an effect does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Says at once that it is done.
    Quick,
    /// Waits until the world lets go.
    Wait,
    /// Panics.
    Panic,
    /// Says something that settles nothing.
    Stubborn,
    /// As `Wait`, and asked again under a new id when its host was lost.
    Again,
}

/// How an effect ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    Done,
    /// Its task died.
    Died,
    /// Its host died, so nobody knows.
    Unknown,
    /// Nobody wants it any more.
    Dropped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Add(u64),
    /// Adds one, this many times.
    Count(u32),
    /// Carries bytes along.
    Store(Vec<u8>),
    /// Keeps so many bytes in the state.
    Remember(u32),
    Forbidden,
    Panic,
    /// From now on no host can wake.
    Curse,
    Open(Work),
    Close(u32, How),
    RingAt(Instant),
    Due,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Forbidden,
    NotOpen(u32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Refusal {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub sum: u64,
    pub bytes: usize,
    pub kept: Vec<u8>,
    pub cursed: bool,
    pub open: BTreeMap<u32, Work>,
    pub closed: Vec<(u32, How)>,
    pub ring_at: Option<Instant>,
    pub rings: u32,
}

impl State {
    fn next(&self) -> u32 {
        u32::try_from(self.open.len() + self.closed.len()).unwrap()
    }
}

events::events! {
    /// What can have happened.
    pub enum Event {
        Added(u64) = 65_001 / 1 "added";
        Stored(Vec<u8>) = 65_002 / 1 "stored";
        Kept(u32) = 65_008 / 1 "kept";
        Cursed(()) = 65_003 / 1 "cursed";
        Opened((u32, Work)) = 65_004 / 1 "opened";
        Closed((u32, How)) = 65_005 / 1 "closed";
        Set(Instant) = 65_006 / 1 "set";
        Rang(()) = 65_007 / 1 "rang";
    }
}

actors::carried!(Command {
    Add(n) = 65_001 / 1;
    Count(n) = 65_002 / 1;
    Store(bytes) = 65_003 / 1;
    Forbidden = 65_004 / 1;
    Panic = 65_005 / 1;
    Curse = 65_006 / 1;
    Open(work) = 65_007 / 1;
    Close(effect, how) = 65_008 / 1;
    RingAt(at) = 65_009 / 1;
    Due = 65_010 / 1;
    Remember(bytes) = 65_011 / 1;
});

actors::carried!(Refusal {
    Forbidden = 65_051 / 1;
    NotOpen(effect) = 65_052 / 1;
});

thread_local! {
    /// Events that were read from the log by hosts of this thread; each test has a thread of its own.
    pub static DECODED: Cell<u64> = const { Cell::new(0) };
}

pub struct Probe;

impl Aggregate for Probe {
    type Id = Id;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Work;
    type EffectId = u32;

    const KIND: StreamKind = StreamKind::Probe;
    const FOLD: u32 = 1;

    fn stream(id: &Id) -> StreamKey {
        StreamKey::named(StreamKind::Probe, &id.to_string())
    }

    fn id(stream: &StreamKey) -> Option<Id> {
        stream.id().parse().ok().map(Id)
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        Ok(match command {
            Command::Add(n) => vec![Event::Added(*n)],
            Command::Count(n) => (0..*n).map(|_| Event::Added(1)).collect(),
            Command::Store(bytes) => vec![Event::Stored(bytes.clone())],
            Command::Remember(bytes) => vec![Event::Kept(*bytes)],
            Command::Forbidden => return Err(Refusal::Forbidden),
            Command::Panic => panic!("asked to"),
            Command::Curse => vec![Event::Cursed(())],
            Command::Open(work) => vec![Event::Opened((state.next(), *work))],
            Command::Close(effect, _) if !state.open.contains_key(effect) => {
                return Err(Refusal::NotOpen(*effect));
            }
            Command::Close(effect, how) => vec![Event::Closed((*effect, *how))],
            Command::RingAt(at) => vec![Event::Set(*at)],
            Command::Due if state.ring_at.is_some_and(|at| at <= now) => vec![Event::Rang(())],
            Command::Due => vec![],
        })
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        match event {
            Event::Added(n) => state.sum += n,
            Event::Stored(bytes) => state.bytes += bytes.len(),
            Event::Kept(bytes) => state.kept = vec![7; usize::try_from(*bytes).unwrap()],
            Event::Cursed(()) => state.cursed = true,
            Event::Opened((effect, work)) => {
                state.open.insert(*effect, *work);
            }
            Event::Closed((effect, how)) => {
                if state.open.remove(effect).is_none() {
                    return Err(IllegalEvent { event: "closed".into(), before: "closed".into() });
                }
                state.closed.push((*effect, *how));
            }
            Event::Set(at) => state.ring_at = Some(*at),
            Event::Rang(()) => {
                state.ring_at = None;
                state.rings += 1;
            }
        }
        Ok(state)
    }

    fn awake(state: &State) -> Vec<Event> {
        assert!(!state.cursed, "cursed");
        let closed = state.open.keys().map(|effect| Event::Closed((*effect, How::Unknown)));
        let again = state.open.values().filter(|work| **work == Work::Again);
        let opened = (state.next()..).zip(again).map(|(id, work)| Event::Opened((id, *work)));
        closed.chain(opened).collect()
    }

    fn pending(state: &State) -> Vec<(u32, Work)> {
        state.open.iter().map(|(effect, work)| (*effect, *work)).collect()
    }

    fn wake(state: &State) -> Wake {
        match (state.open.is_empty(), state.ring_at) {
            (false, _) => Wake::Now,
            (true, Some(at)) => Wake::At(at),
            (true, None) => Wake::OnCommand,
        }
    }

    fn due() -> Option<Command> {
        Some(Command::Due)
    }

    fn lost(effect: &u32) -> Command {
        Command::Close(*effect, How::Died)
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        DECODED.with(|decoded| decoded.set(decoded.get() + 1));
        Event::decode(kind, schema, payload)
    }
}

/// What effects touch.
#[derive(Debug, Default)]
pub struct World {
    /// Effects that wait go on once it is set.
    pub free: watch::Sender<bool>,
    /// Each start of an effect, in order.
    pub started: watch::Sender<Vec<(Id, u32)>>,
    /// What each was told when it asked for leave, in order.
    pub leave: Mutex<Vec<Result<(), NotSent>>>,
    /// Each effect whose future was dropped before it was done.
    pub aborted: Arc<Mutex<Vec<(Id, u32)>>>,
}

impl World {
    /// Returns once this many effects have been started.
    pub async fn has_started(&self, count: usize) -> Vec<(Id, u32)> {
        let mut started = self.started.subscribe();
        let found = patient(started.wait_for(|started| started.len() >= count)).await;
        found.unwrap().clone()
    }
}

struct Abort<'a>(&'a World, Option<(Id, u32)>);

impl Drop for Abort<'_> {
    fn drop(&mut self) {
        self.0.aborted.lock().unwrap().extend(self.1);
    }
}

impl Hosted for Probe {
    type World = World;
    const INBOX: usize = 64;
    const IDLE: Duration = Duration::from_millis(5);

    fn word(_effect: &u32) -> &'static str {
        "probe"
    }

    /// Only what waits can outlive its owner.
    fn lasts(_world: &World, what: &Work) -> Option<Millis> {
        matches!(what, Work::Wait).then_some(LASTS)
    }

    async fn perform(
        world: &Arc<World>,
        id: Id,
        effect: u32,
        what: Work,
        dispatch: Dispatch,
    ) -> Command {
        world.leave.lock().unwrap().push(dispatch.may_leave());
        world.started.send_modify(|started| started.push((id, effect)));
        let mut abort = Abort(world, Some((id, effect)));
        match what {
            Work::Quick => (),
            Work::Wait | Work::Again => {
                let mut free = world.free.subscribe();
                free.wait_for(|free| *free).await.unwrap();
            }
            Work::Panic => panic!("asked to"),
            Work::Stubborn => return Command::Forbidden,
        }
        abort.1 = None;
        Command::Close(effect, How::Done)
    }
}

/// Waits, but not for ever.
pub async fn patient<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it never came")
}

/// One life of a node with a table of probes.
pub struct Rig {
    pub hand: Hand,
    pub store: Store,
    pub node: Node,
    pub world: Arc<World>,
    pub table: Arc<Table<Probe>>,
    boots: u128,
    commands: AtomicU64,
}

impl Rig {
    pub async fn new() -> Self {
        Self::with(Faults::counting()).await
    }

    pub async fn with(faults: Faults) -> Self {
        Self::owning(faults, Mandate::alone()).await
    }

    /// A node that owns what its mandate says.
    pub async fn owning(faults: Faults, mandate: Mandate) -> Self {
        let store = Store::memory(Boot(1), JournalId(7), faults);
        Self::over(store, Hand::at(START), 1, mandate).await
    }

    async fn over(store: Store, hand: Hand, boots: u128, mandate: Mandate) -> Self {
        let mut node = Node::new(store.clone(), hand.clock(), Entropy::seeded(1));
        node.mandate = mandate;
        let world = Arc::new(World::default());
        let table = Table::open(node.clone(), world.clone()).await.unwrap();
        Self { hand, store, node, world, table, boots, commands: AtomicU64::new(0) }
    }

    /// Ends this node in the middle of whatever it does, and starts the next one over the same journal.
    pub async fn restart(self) -> Self {
        self.succeeded(Mandate::alone()).await
    }

    /// The same, but the next one owns what its mandate says.
    pub async fn succeeded(self, mandate: Mandate) -> Self {
        self.node.agenda.stop();
        let _cut: Drained = self.table.drain(self.hand.now()).await;
        let boots = self.boots + 1;
        let store = self.store.successor(Boot(boots), Faults::counting());
        // Another life draws other command ids.
        self.hand.advance(Millis(10));
        Self::over(store, self.hand, boots, mandate).await
    }

    /// An order with an id of its own.
    pub fn order(&self, command: Command) -> Order<Command> {
        let nth = self.commands.fetch_add(1, Ordering::Relaxed);
        Order {
            command,
            id: CommandId::new(self.hand.now(), nth.into()),
            correlation: 5,
            actor: Actor::Admin,
            deadline: self.hand.now().after(Millis(3_600_000)),
            lane: Lane::Data,
        }
    }

    pub async fn ask(&self, id: u32, command: Command) -> Answer<Probe> {
        patient(self.table.decide(Id(id), self.order(command))).await
    }

    /// Asks for what must be granted.
    pub async fn granted(&self, id: u32, command: Command) -> Observed<Probe> {
        self.ask(id, command).await.unwrap().unwrap()
    }

    pub async fn state(&self, id: u32) -> State {
        State::clone(&patient(self.table.observe(Id(id))).await.unwrap().state)
    }

    /// Returns once the stream's state is as wanted.
    pub async fn until(&self, id: u32, wanted: impl Fn(&State) -> bool) -> State {
        patient(async {
            loop {
                // A host that falls closes its watch; its successor is asked then.
                let Ok(mut seen) = self.table.watch(Id(id)).await else { continue };
                if let Ok(found) = seen.wait_for(|seen| wanted(&seen.state)).await {
                    return State::clone(&found.state);
                }
            }
        })
        .await
    }

    /// Returns once so many streams have a host.
    pub async fn live(&self, hosts: usize) {
        patient(self.table.live().wait_for(|live| *live == hosts)).await.unwrap();
    }

    /// Returns once a point of the store or of an effect has been visited.
    pub async fn visited(&self, point: Point) {
        patient(async {
            while self.store.faults().visits(point) == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    pub async fn log(&self, id: u32) -> Vec<Recorded> {
        self.store.read(&Probe::stream(&Id(id)), Version::EMPTY, 10_000).await.unwrap()
    }

    /// The fold of the log from its start, without any host.
    pub async fn folded(&self, id: u32) -> State {
        let mut state = State::default();
        for entry in self.log(id).await.iter().flat_map(|recorded| &recorded.commit.entries) {
            let payload = self.store.payload(entry).await.unwrap();
            let event = Event::decode(entry.kind, entry.schema, &payload).unwrap();
            state = Probe::evolve(state, &event).unwrap();
        }
        state
    }

    pub fn start_agenda(&self) {
        self.node.agenda.start(Partition::all());
    }
}

/// What was not decided.
pub fn undecided(answer: Answer<Probe>) -> NoDecision {
    answer.unwrap_err()
}
