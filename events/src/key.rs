//! An access key: issued once, perhaps revoked. Only the hash of its secret is ever stored.

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::id::KeyId;
use crate::quantity::Instant;
use crate::record::{Entry, Hash, StreamKey, StreamKind};
use serde::{Deserialize, Serialize};

crate::events! {
    /// What can have happened to a key.
    pub enum Event {
        /// It exists.
        Issued(Issued) = 300 / 1 "issued";
        /// It opens nothing any more.
        Revoked(Revoked) = 301 / 1 "revoked";
    }
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Reads.
    Reader,
    /// Reads, starts and stops runs.
    Runner,
    /// Reads and answers holds.
    Approver,
    /// Runs the node: all of the above, backups, settings.
    Operator,
    /// Everything, keys included.
    Admin,
}

/// A key exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// For people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the secret text.
    pub hash: Hash,
}

/// It opens nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Make it known.
    Issue(Issued),
    /// End it.
    Revoke,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The stream is empty.
    #[error("there is no such key")]
    NoSuchKey,
    /// The id is taken.
    #[error("the key was already issued")]
    Exists,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What was issued.
    pub issued: Option<Issued>,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// Marker: the rules of a key. It owes the world nothing.
#[derive(Debug)]
pub struct Key;

/// A key has no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

impl Aggregate for Key {
    type Id = KeyId;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Key;
    const FOLD: u32 = 1;

    fn stream(id: &KeyId) -> StreamKey {
        StreamKey::rooted(StreamKind::Key, id.place().partition, id)
    }

    fn id(stream: &StreamKey) -> Option<KeyId> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, _now: Instant) -> Result<Vec<Event>, Refusal> {
        match (command, &state.issued) {
            (Command::Issue(issued), None) => Ok(vec![Event::Issued(issued.clone())]),
            (Command::Issue(issued), Some(before)) if issued == before => Ok(vec![]),
            (Command::Issue(_), Some(_)) => Err(Refusal::Exists),
            (Command::Revoke, None) => Err(Refusal::NoSuchKey),
            (Command::Revoke, Some(_)) if state.revoked => Ok(vec![]),
            (Command::Revoke, Some(_)) => Ok(vec![Event::Revoked(Revoked {})]),
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        match (event, state.issued.is_some(), state.revoked) {
            (Event::Issued(issued), false, false) => state.issued = Some(issued.clone()),
            (Event::Revoked(_), true, false) => state.revoked = true,
            (Event::Issued(_) | Event::Revoked(_), _, _) => {
                return Err(IllegalEvent {
                    event: event.name().to_owned(),
                    before: format!("{state:?}"),
                });
            }
        }
        Ok(state)
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

    fn issued(name: &str) -> Issued {
        Issued { name: name.into(), role: Role::Runner, hash: Hash([3; 32]) }
    }

    #[test]
    fn whatever_decide_says_evolve_accepts() {
        let world = [Command::Issue(issued("a")), Command::Issue(issued("b")), Command::Revoke];
        let mut layer = vec![State::default()];
        for _ in 0..4 {
            let decided = layer.iter().flat_map(|state| {
                world.iter().filter_map(move |command| {
                    let events = Key::decide(state, command, Instant(0)).ok()?;
                    Some(events.iter().try_fold(state.clone(), Key::evolve).unwrap())
                })
            });
            layer = decided.collect();
        }
        assert!(layer.iter().any(|state| state.revoked));
    }

    #[test]
    fn a_revoked_key_stays_revoked() {
        let state = State { issued: Some(issued("a")), revoked: true };
        assert_eq!(Key::decide(&state, &Command::Issue(issued("a")), Instant(0)), Ok(vec![]));
        assert_eq!(
            Key::decide(&state, &Command::Issue(issued("b")), Instant(0)),
            Err(Refusal::Exists)
        );
    }

    #[test]
    fn the_bytes_of_an_event_do_not_change() {
        let all = [Event::Issued(issued("a")), Event::Revoked(Revoked {})];
        let samples: Vec<_> =
            all.iter().map(|event| (event.name(), Key::encode(event).unwrap())).collect();
        golden::check(
            "key.txt",
            include_str!("golden/key.txt"),
            Event::TABLE,
            &samples,
            |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
        );
    }
}
