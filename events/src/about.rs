//! What a project says of itself: a description that people and models read, and that a scope is inferred from.

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::project::Project;
use crate::quantity::Instant;
use crate::record::{Actor, Entry, StreamKey, StreamKind};
use serde::{Deserialize, Serialize};

/// Bytes of the longest description (8 KiB): a page.
pub const DESCRIPTION_BYTES_MAX: usize = 8 << 10;
/// Bytes of the longest name that is remembered.
const NAME_BYTES_MAX: usize = 256;

crate::events! {
    /// What can have happened to a project.
    pub enum Event {
        /// It was described.
        Described(Described) = 1100 / 1 "described";
    }
}

/// It was described; what it said before is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name as people write it, which may be none that a stream can have.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Who says so.
    pub by: Actor,
    /// When.
    pub at: Instant,
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Describe it.
    Describe {
        /// Its name.
        name: String,
        /// What it is about.
        description: String,
        /// Who says so.
        by: Actor,
    },
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too much text.
    #[error(
        "a project has a name of 1 to {NAME_BYTES_MAX} bytes and a description of at most {DESCRIPTION_BYTES_MAX}"
    )]
    TooLong,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What it says of itself.
    pub described: Option<Described>,
}

/// Marker: the rules of what a project says of itself. It owes the world nothing.
#[derive(Debug)]
pub struct About;

/// It has no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

impl Aggregate for About {
    type Id = Project;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Project;
    const FOLD: u32 = 1;

    fn stream(id: &Project) -> StreamKey {
        StreamKey::named(StreamKind::Project, id.as_str())
    }

    fn id(stream: &StreamKey) -> Option<Project> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        let Command::Describe { name, description, by } = command;
        let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
        if !fits || description.len() > DESCRIPTION_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let same = state.described.as_ref().is_some_and(|said| said.description == *description);
        if same {
            return Ok(vec![]);
        }
        let (name, description) = (name.clone(), description.clone());
        Ok(vec![Event::Described(Described { name, description, by: *by, at: now })])
    }

    fn evolve(_state: State, event: &Event) -> Result<State, IllegalEvent> {
        let Event::Described(described) = event;
        Ok(State { described: Some(described.clone()) })
    }

    fn awake(_state: &State) -> Vec<Event> {
        vec![]
    }

    fn pending(_state: &State) -> Vec<(Never, Never)> {
        vec![]
    }

    fn wake(_state: &State) -> Wake {
        Wake::OnCommand
    }

    fn due() -> Option<Command> {
        None
    }

    fn lost(effect: &Never) -> Command {
        match *effect {}
    }

    fn encode(event: &Event) -> Result<Entry, CodecError> {
        event.encode()
    }

    fn decode(kind: u16, schema: u16, payload: &[u8]) -> Result<Event, CodecError> {
        Event::decode(kind, schema, payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::golden;

    fn says(description: &str) -> Command {
        Command::Describe { name: "lab".into(), description: description.into(), by: Actor::Admin }
    }

    #[test]
    fn whatever_decide_says_evolve_accepts_and_the_same_is_said_once() {
        let mut state = State::default();
        for (text, count) in [("a", 1), ("a", 0), ("b", 1), ("", 1), ("", 0)] {
            let events = About::decide(&state, &says(text), Instant(7)).unwrap();
            assert_eq!(events.len(), count, "{text:?}");
            state = events.iter().try_fold(state, About::evolve).unwrap();
            assert_eq!(state.described.as_ref().unwrap().description, text);
        }
        let long = "x".repeat(DESCRIPTION_BYTES_MAX + 1);
        assert_eq!(About::decide(&state, &says(&long), Instant(7)), Err(Refusal::TooLong));
    }

    #[test]
    fn the_bytes_of_an_event_do_not_change() {
        let events = About::decide(&State::default(), &says("ropes"), Instant(300)).unwrap();
        let samples: Vec<_> =
            events.iter().map(|event| (event.name(), About::encode(event).unwrap())).collect();
        golden::check(
            "about.txt",
            include_str!("golden/about.txt"),
            Event::TABLE,
            &samples,
            |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
        );
    }
}
