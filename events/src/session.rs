//! A session: a conversation with one writer at a time.
//!
//! The session leads. A run's input is committed here first and waits in order; the lock is a number (the
//! [`Fence`]) that is checked when the run's end comes back, never a timed file. Whoever holds the lock is owed to
//! the world: the session drives its run until it has ended, also after a restart.

mod scope;

pub use scope::ScopeSet;

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::id::{RunId, SessionId};
use crate::message::Body;
use crate::quantity::Instant;
use crate::record::{Actor, Entry, StreamKey, StreamKind};
use crate::run::life::{Fence, MessageRef, Outcome};
use crate::run::spec::Spec;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs that may wait in one session.
pub const INBOX_MAX: usize = 16;
/// Ended runs that a session remembers, so that a repeated submission or end changes nothing.
const REMEMBERED: usize = 64;
/// Messages of one session; folding older turns is not built yet, so a longer one is refused with a way out.
pub const MESSAGES_MAX: usize = 10_000;
/// Bytes of one session's messages, all held in memory while it is awake (16 MiB).
pub const MESSAGE_BYTES_MAX: u64 = 16 << 20;

crate::events! {
    /// What can have happened to a session.
    pub enum Event {
        /// It exists.
        Opened(Opened) = 100 / 1 "opened";
        /// It was forked: it begins with another one's messages.
        Forked(Forked) = 101 / 1 "forked";
        /// A run waits with its input.
        Queued(Queued) = 102 / 1 "message_queued";
        /// A run holds the lock.
        Granted(Granted) = 103 / 1 "lock_granted";
        /// A run's messages joined the conversation.
        Committed(Committed) = 104 / 1 "message_committed";
        /// The lock is free.
        Released(Released) = 105 / 1 "lock_released";
        /// Nothing more will be said.
        Closed(Closed) = 106 / 1 "closed";
        /// It is about another project.
        ScopeSet(ScopeSet) = 107 / 1 "scope_set";
    }
}

/// It exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Which project it belongs to.
    pub project: String,
    /// Who opened it.
    pub by: Actor,
    /// The key its texts are sealed under; 0 means none.
    pub key_slot: u32,
}

/// It begins with messages of another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// Which session.
    pub parent: SessionId,
    /// How many of its messages, from the first.
    pub at: u32,
    /// Those messages.
    pub messages: Vec<Body>,
}

/// A run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Which run.
    pub run: RunId,
    /// What it was asked.
    pub spec: Arc<Spec>,
}

/// A run holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Which run.
    pub run: RunId,
    /// Which lock.
    pub fence: Fence,
}

/// A run's messages joined the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Whose.
    pub run: RunId,
    /// Its input, the model's answers and the tools' results.
    pub messages: Vec<Body>,
}

/// The lock is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// Who held it.
    pub run: RunId,
    /// Which lock.
    pub fence: Fence,
    /// How the run ended.
    pub outcome: Outcome,
    /// The provider that served it, of a generator that has its answer.
    pub generated_by: Option<String>,
}

/// Nothing more will be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {}

/// What a busy session does with one more run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnBusy {
    /// Let it wait its turn.
    Queue,
    /// Say that it is busy.
    Reject,
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Take a run in.
    Submit {
        /// Which run.
        run: RunId,
        /// What it was asked.
        spec: Arc<Spec>,
        /// If another one is at work.
        on_busy: OnBusy,
        /// How many messages the caller saw when it wrote its input; `None` where it does not matter.
        seen: Option<u32>,
    },
    /// Begin with another session's messages.
    Fork {
        /// Which session.
        parent: SessionId,
        /// How many of its messages.
        at: u32,
        /// Those messages.
        messages: Vec<Body>,
        /// Which project.
        project: String,
        /// Who asks.
        by: Actor,
    },
    /// The run under the lock has ended.
    RunEnded {
        /// Which run.
        run: RunId,
        /// Which lock.
        fence: Fence,
        /// How.
        outcome: Outcome,
        /// What joins the conversation; empty for a run without an answer.
        messages: Vec<Body>,
        /// The provider that served it, of a generator that has its answer.
        generated_by: Option<String>,
    },
    /// The task that drove the run died without a word; drive it again.
    Again,
    /// Let it be about this project from now on.
    SetScope {
        /// Its name.
        project: String,
        /// Who says so.
        by: Actor,
    },
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another run is at work.
    #[error("another run of this session is at work")]
    Busy,
    /// Too many wait.
    #[error("{INBOX_MAX} runs already wait in this session")]
    InboxFull,
    /// The conversation went on since the caller looked.
    #[error("the session has {have} messages, the request was written against {seen}")]
    HistoryMoved {
        /// How many there are.
        have: u32,
        /// How many the caller saw.
        seen: u32,
    },
    /// It can not grow further.
    #[error("the session is full: fork it, or start another one")]
    Full,
    /// The end of a run that does not hold the lock.
    #[error("run {0} does not hold the session's lock")]
    NotHolder(RunId),
    /// A fork of a session that already exists.
    #[error("the session already exists")]
    Exists,
    /// It was closed.
    #[error("the session is closed")]
    IsClosed,
    /// There is no such session, or the name is none.
    #[error("there is no such session, or the name of the project has not 1 to 256 bytes")]
    NoScope,
}

/// A run that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Which run.
    pub run: RunId,
    /// What it was asked.
    pub spec: Arc<Spec>,
}

/// The run at work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Which run.
    pub run: RunId,
    /// Which lock.
    pub fence: Fence,
    /// What it was asked.
    pub spec: Arc<Spec>,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Project and opener; `None` while the stream is empty.
    pub opened: Option<Opened>,
    /// The session and how many of its messages this one began with.
    pub parent: Option<(SessionId, u32)>,
    /// The conversation.
    pub messages: Vec<Body>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Who waits, in order.
    pub inbox: VecDeque<Waiting>,
    /// Who is at work.
    pub lock: Option<Lock>,
    /// The newest lock's number.
    pub fence: Fence,
    /// The newest ended runs.
    pub ended: VecDeque<RunId>,
    /// Whether it was closed.
    pub closed: bool,
    /// The provider that last served a generator of this session: an evaluator is served by another one.
    pub generated_by: Option<String>,
    /// The project that it is about, where somebody said so.
    pub scope: Option<String>,
}

impl State {
    fn knows(&self, run: RunId) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.run == run)
            || self.inbox.iter().any(|waiting| waiting.run == run)
            || self.ended.contains(&run)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
    }
}

/// What is owed to the world: a run is driven to its end. Harmless to repeat: opening a run that is open changes
/// nothing, and its end is taken once.
#[derive(Debug, Clone)]
pub struct Drive {
    /// Which run.
    pub run: RunId,
    /// Under which lock.
    pub fence: Fence,
    /// What it was asked.
    pub spec: Arc<Spec>,
    /// What was said before.
    pub messages: Vec<Body>,
    /// The provider that last served its generator.
    pub generated_by: Option<String>,
}

/// Marker: the rules of a session.
#[derive(Debug)]
pub struct Session;

fn submit(
    state: &State,
    run: RunId,
    spec: &Arc<Spec>,
    on_busy: OnBusy,
    seen: Option<u32>,
) -> Result<Vec<Event>, Refusal> {
    if state.knows(run) {
        return Ok(vec![]);
    }
    let have = state.count();
    if let Some(seen) = seen.filter(|seen| *seen != have) {
        return Err(Refusal::HistoryMoved { have, seen });
    }
    if state.closed {
        return Err(Refusal::IsClosed);
    }
    if state.messages.len() >= MESSAGES_MAX || state.bytes >= MESSAGE_BYTES_MAX {
        return Err(Refusal::Full);
    }
    match (&state.lock, on_busy) {
        (Some(_), OnBusy::Reject) => return Err(Refusal::Busy),
        (Some(_), OnBusy::Queue) if state.inbox.len() >= INBOX_MAX => {
            return Err(Refusal::InboxFull);
        }
        (Some(_), OnBusy::Queue) | (None, OnBusy::Queue | OnBusy::Reject) => (),
    }
    let mut events = vec![];
    if state.opened.is_none() {
        let (project, by) = (spec.project.clone(), spec.caller);
        events.push(Event::Opened(Opened { project, by, key_slot: 0 }));
    }
    events.push(Event::Queued(Queued { run, spec: Arc::clone(spec) }));
    if state.lock.is_none() {
        events.push(grant(state, run));
    }
    Ok(events)
}

fn grant(state: &State, run: RunId) -> Event {
    Event::Granted(Granted { run, fence: Fence(state.fence.0 + 1) })
}

fn ended(
    state: &State,
    run: RunId,
    fence: Fence,
    outcome: Outcome,
    (messages, generated_by): (&[Body], Option<&String>),
) -> Result<Vec<Event>, Refusal> {
    match &state.lock {
        Some(lock) if lock.run == run && lock.fence == fence => (),
        Some(_) | None if state.ended.contains(&run) => return Ok(vec![]),
        Some(_) | None => return Err(Refusal::NotHolder(run)),
    }
    let mut events = vec![];
    if !messages.is_empty() {
        events.push(Event::Committed(Committed { run, messages: messages.to_vec() }));
    }
    let generated_by = generated_by.cloned();
    events.push(Event::Released(Released { run, fence, outcome, generated_by }));
    if let Some(next) = state.inbox.front() {
        events.push(grant(state, next.run));
    }
    Ok(events)
}

impl Aggregate for Session {
    type Id = SessionId;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Drive;
    type EffectId = Fence;

    const KIND: StreamKind = StreamKind::Session;
    const FOLD: u32 = 3;

    fn stream(id: &SessionId) -> StreamKey {
        StreamKey::rooted(StreamKind::Session, id.place().partition, id)
    }

    fn id(stream: &StreamKey) -> Option<SessionId> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, _now: Instant) -> Result<Vec<Event>, Refusal> {
        match command {
            Command::Submit { run, spec, on_busy, seen } => {
                submit(state, *run, spec, *on_busy, *seen)
            }
            Command::Fork { parent, at, messages, project, by } => match &state.opened {
                Some(_) if state.parent == Some((*parent, *at)) => Ok(vec![]),
                Some(_) => Err(Refusal::Exists),
                None => Ok(vec![
                    Event::Opened(Opened { project: project.clone(), by: *by, key_slot: 0 }),
                    Event::Forked(Forked { parent: *parent, at: *at, messages: messages.clone() }),
                ]),
            },
            Command::RunEnded { run, fence, outcome, messages, generated_by } => {
                ended(state, *run, *fence, *outcome, (messages, generated_by.as_ref()))
            }
            Command::Again => Ok(vec![]),
            Command::SetScope { project, by } => scope::set(state, project, *by),
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        let legal = apply(&mut state, event);
        let before =
            || format!("a session with lock {:?} and {} waiting", state.fence, state.inbox.len());
        match legal {
            Some(()) => Ok(state),
            None => Err(IllegalEvent { event: event.name().to_owned(), before: before() }),
        }
    }

    fn awake(_state: &State) -> Vec<Event> {
        // Driving a run is not an intent that can be lost: it is begun again and finds what is already so.
        vec![]
    }

    fn pending(state: &State) -> Vec<(Fence, Drive)> {
        let drive = |lock: &Lock| Drive {
            run: lock.run,
            fence: lock.fence,
            spec: Arc::clone(&lock.spec),
            messages: state.messages.clone(),
            generated_by: state.generated_by.clone(),
        };
        state.lock.iter().map(|lock| (lock.fence, drive(lock))).collect()
    }

    fn wake(state: &State) -> Wake {
        if state.lock.is_some() { Wake::Now } else { Wake::OnCommand }
    }

    fn due() -> Option<Command> {
        None
    }

    fn lost(_effect: &Fence) -> Command {
        Command::Again
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        Event::decode(kind, schema, payload)
    }
}

fn apply(state: &mut State, event: &Event) -> Option<()> {
    match event {
        Event::Opened(opened) => {
            state.opened.is_none().then_some(())?;
            state.opened = Some(opened.clone());
        }
        Event::Forked(forked) => {
            (state.opened.is_some() && state.messages.is_empty() && state.parent.is_none())
                .then_some(())?;
            state.parent = Some((forked.parent, forked.at));
            say(state, &forked.messages);
        }
        Event::Queued(queued) => {
            (state.opened.is_some() && !state.knows(queued.run) && !state.closed).then_some(())?;
            state.inbox.push_back(Waiting { run: queued.run, spec: Arc::clone(&queued.spec) });
        }
        Event::Granted(granted) => {
            let next = Fence(state.fence.0.checked_add(1)?);
            (state.lock.is_none() && granted.fence == next).then_some(())?;
            let waiting = state.inbox.pop_front().filter(|waiting| waiting.run == granted.run)?;
            state.fence = next;
            state.lock = Some(Lock { run: waiting.run, fence: next, spec: waiting.spec });
        }
        Event::Committed(committed) => {
            state.lock.as_ref().filter(|lock| lock.run == committed.run)?;
            say(state, &committed.messages);
        }
        Event::Released(released) => {
            state.lock.take_if(|lock| lock.run == released.run && lock.fence == released.fence)?;
            if state.ended.len() == REMEMBERED {
                state.ended.pop_front();
            }
            state.ended.push_back(released.run);
            if released.generated_by.is_some() {
                state.generated_by.clone_from(&released.generated_by);
            }
        }
        Event::Closed(_) => {
            (state.opened.is_some() && state.lock.is_none() && !state.closed).then_some(())?;
            state.closed = true;
        }
        Event::ScopeSet(set) => state.scope = Some(set.project.clone()),
    }
    Some(())
}

fn say(state: &mut State, messages: &[Body]) {
    for body in messages {
        state.bytes = state.bytes.saturating_add(MessageRef::from(body).bytes);
        state.messages.push(body.clone());
    }
}

#[cfg(test)]
mod tests;
