//! What a journal says of itself: the stream `settings/journal`. So far, which build may read it.
//!
//! A build that met a fact of a newer one would stop single streams at it, long after it had joined; so it is refused
//! before it takes part. The minimum is raised by a person once no older build is wanted any more: there is no way back.

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::quantity::Instant;
use crate::record::{Entry, StreamKey, StreamKind};
use serde::{Deserialize, Serialize};
use std::fmt;

crate::events! {
    /// What can have happened to a journal's settings.
    pub enum Event {
        /// Builds that read less are not let in any more.
        ReaderRaised(ReaderRaised) = 900 / 1 "reader_raised";
    }
}

/// Counts what builds can read. Raised by the build that first writes a kind or a schema that the one before can not read;
/// `golden/reader.txt` says for each since which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reader(pub u16);

impl Reader {
    /// This build.
    pub const OURS: Self = Self(1);
    /// The first one.
    pub const FIRST: Self = Self(1);
}

impl Default for Reader {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Builds that read less are not let in any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaderRaised {
    /// The least that a build must read.
    pub to: Reader,
}

/// The one stream of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingsId {
    /// Of the journal.
    Journal,
}

impl SettingsId {
    const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
        }
    }
}

impl fmt::Display for SettingsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Let no build in that reads less.
    RaiseReader(Reader),
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is higher already.
    #[error("the minimum reader is {have} already, and there is no way back")]
    NoWayBack {
        /// The minimum.
        have: Reader,
    },
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The least that a build must read.
    pub reader: Reader,
}

/// Marker: the rules of a journal's settings. They owe the world nothing.
#[derive(Debug)]
pub struct Settings;

/// Settings have no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

impl Aggregate for Settings {
    type Id = SettingsId;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Settings;
    const FOLD: u32 = 1;

    fn stream(id: &SettingsId) -> StreamKey {
        StreamKey::named(StreamKind::Settings, id.name())
    }

    fn id(stream: &StreamKey) -> Option<SettingsId> {
        (stream.id() == SettingsId::Journal.name()).then_some(SettingsId::Journal)
    }

    fn decide(state: &State, command: &Command, _now: Instant) -> Result<Vec<Event>, Refusal> {
        let Command::RaiseReader(to) = *command;
        let have = state.reader;
        if to < have {
            return Err(Refusal::NoWayBack { have });
        }
        let raised = (to > have).then_some(Event::ReaderRaised(ReaderRaised { to }));
        Ok(raised.into_iter().collect())
    }

    fn evolve(state: State, event: &Event) -> Result<State, IllegalEvent> {
        let Event::ReaderRaised(ReaderRaised { to }) = *event;
        if to <= state.reader {
            let (event, before) = (event.name().to_owned(), format!("{state:?}"));
            return Err(IllegalEvent { event, before });
        }
        Ok(State { reader: to })
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
    use crate::{key, run, session};
    use std::collections::BTreeMap;

    #[test]
    fn whatever_decide_says_evolve_accepts_and_the_minimum_never_falls() {
        for have in 1..5 {
            let state = State { reader: Reader(have) };
            for to in 0..6 {
                let command = Command::RaiseReader(Reader(to));
                match Settings::decide(&state, &command, Instant(0)) {
                    Ok(events) => {
                        let after = events.iter().try_fold(state.clone(), Settings::evolve);
                        assert_eq!(after.unwrap().reader, Reader(to), "{have} to {to}");
                    }
                    Err(refusal) => {
                        assert!(to < have);
                        assert_eq!(refusal, Refusal::NoWayBack { have: Reader(have) });
                    }
                }
            }
            let again = Event::ReaderRaised(ReaderRaised { to: Reader(have) });
            assert!(Settings::evolve(state, &again).is_err());
        }
    }

    #[test]
    fn the_bytes_of_an_event_do_not_change() {
        let raised = Event::ReaderRaised(ReaderRaised { to: Reader(300) });
        let samples = [(raised.name(), Settings::encode(&raised).unwrap())];
        golden::check(
            "settings.txt",
            include_str!("golden/settings.txt"),
            Event::TABLE,
            &samples,
            |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
        );
    }

    /// A kind or a schema that is new is unknown to the builds before, so it has the number of the first that reads it.
    #[test]
    fn every_kind_and_schema_says_since_which_reader_it_is_known() {
        let lines = include_str!("golden/reader.txt").lines();
        let since: BTreeMap<(u16, u16), Reader> = lines
            .map(|line| {
                let numbers: Vec<u16> = line.split(' ').map(|word| word.parse().unwrap()).collect();
                let [reader, kind, schema] = numbers[..] else { panic!("{line}") };
                ((kind, schema), Reader(reader))
            })
            .collect();
        let credential = crate::credential::Event::TABLE;
        let budget = crate::budget::Event::TABLE;
        let ours = [session::Event::TABLE, run::Event::TABLE, key::Event::TABLE, Event::TABLE];
        let tables = [&ours[..], &[credential, budget]].concat();
        for (kind, schema, name) in tables.concat() {
            let known = since.get(&(kind, schema)).unwrap_or_else(|| {
                panic!("{kind} {schema} {name} is new: raise Reader::OURS and add a line to golden/reader.txt")
            });
            assert!(*known <= Reader::OURS, "{name} is known to a reader that is not ours yet");
        }
        assert_eq!(since.values().max(), Some(&Reader::OURS));
    }
}
