//! The one shape that every aggregate has, so that one host can serve them all.
//!
//! Laws, tested over every aggregate's small world: whatever `decide` and `awake` say, `evolve` accepts; nothing
//! that is open before `awake` is open after it; what has ended owes nothing; a stream that owes something wakes.

use crate::codec::CodecError;
use crate::quantity::Instant;
use crate::record::{Entry, StreamKey, StreamKind};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::{Debug, Display};

/// When a stream must be looked at though nobody sends it a command. Never decided on: it only says "look".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// It owes the world something: look now.
    Now,
    /// A deadline of its own falls due then.
    At(Instant),
    /// Only a command can change it.
    OnCommand,
}

/// The log and the rules disagree; the owner stops and replays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event} may not follow {before}")]
pub struct IllegalEvent {
    /// What was found.
    pub event: String,
    /// What it was found after.
    pub before: String,
}

/// Rules with one stream per id.
pub trait Aggregate: Send + Sync + Sized + 'static {
    /// What a stream is keyed by.
    type Id: Copy + Ord + Debug + Display + Send + Sync + 'static;
    /// A fold of the stream. Cloned once a commit: large bodies stand behind `Arc`.
    type State: Clone + Default + Debug + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What may be asked.
    type Command: Clone + Debug + Send + Sync + 'static;
    /// What can have happened.
    type Event: Clone + Debug + PartialEq + Send + Sync + 'static;
    /// Why not.
    type Refusal: std::error::Error + Clone + PartialEq + Send + Sync + 'static;
    /// What is owed to the world.
    type Effect: Clone + Debug + Send + Sync + 'static;
    /// Which one; a new try has a new id, so that it is started once in each life of a host.
    type EffectId: Clone + Ord + Debug + Send + Sync + 'static;

    /// Which rules these are.
    const KIND: StreamKind;
    /// Counts the shapes of `State`; a snapshot of another shape is thrown away.
    const FOLD: u32;

    /// The stream of an id.
    fn stream(id: &Self::Id) -> StreamKey;

    /// The id of a stream of this kind.
    fn id(stream: &StreamKey) -> Option<Self::Id>;

    /// Says what must happen, or why it may not. Empty means that it already has.
    ///
    /// # Errors
    ///
    /// A refusal when the rules forbid the command in this state.
    fn decide(
        state: &Self::State,
        command: &Self::Command,
        now: Instant,
    ) -> Result<Vec<Self::Event>, Self::Refusal>;

    /// Folds one fact in. Knows no rules, only what may follow what.
    ///
    /// # Errors
    ///
    /// [`IllegalEvent`] when the log is corrupt; the caller stops, it does not skip.
    fn evolve(state: Self::State, event: &Self::Event) -> Result<Self::State, IllegalEvent>;

    /// What a new host records first: it has started nothing, so every open intent it replayed is lost and is
    /// closed here: unknown, asked again under a new id, or ended.
    fn awake(state: &Self::State) -> Vec<Self::Event>;

    /// What is owed to the world now; of the state only, so the same after a crash as before it.
    fn pending(state: &Self::State) -> Vec<(Self::EffectId, Self::Effect)>;

    /// When to look again.
    fn wake(state: &Self::State) -> Wake;

    /// What the agenda asks when a wake falls due.
    fn due() -> Option<Self::Command>;

    /// What is recorded of an effect whose task died without a word.
    fn lost(effect: &Self::EffectId) -> Self::Command;

    /// The stored form.
    ///
    /// # Errors
    ///
    /// When the fact can not be written.
    fn encode(event: &Self::Event) -> Result<Entry, CodecError>;

    /// The current form of a stored fact.
    ///
    /// # Errors
    ///
    /// When this build does not know its kind and schema, or its bytes do not decode.
    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Self::Event, CodecError>;
}
