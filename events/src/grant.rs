//! Standing grants of a project: calls of a tool that need not be asked for again, because an approver said so.
//!
//! Invariant: a grant is made by a command of a person who may approve, never by a model; it ends when its time is over
//! or somebody takes it back, and what it does not name it does not cover.

mod pattern;

pub use pattern::{BYTES_MAX, BadPattern, GLOB_BYTES_MAX, POINTERS_MAX, Pattern, TEXT_BYTES_MAX};

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::json::Json;
use crate::project::Project;
use crate::quantity::Instant;
use crate::record::{Actor, Entry, StreamKey, StreamKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

/// Grants that stand in one project at a time (256): all of them are looked at for every call that needs approval.
pub const GRANTS_MAX: usize = 256;
/// Grants taken back that a project remembers (64), so that a repeat is known as one.
const REMEMBERED: usize = 64;
/// Bytes of the longest tool name.
pub const TOOL_BYTES_MAX: usize = 64;

crate::events! {
    /// What can have happened to the grants of a project.
    pub enum Event {
        /// Calls like these need not be asked for.
        Granted(Granted) = 600 / 1 "granted";
        /// They must be again.
        Revoked(Revoked) = 601 / 1 "grant_revoked";
    }
}

/// Names a grant within its project: `gra_` and 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GrantId(pub u128);

/// The text names no grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a grant's id: give gra_ and 32 hexadecimal digits")]
pub struct NotAGrant(pub String);

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gra_{:032x}", self.0)
    }
}

impl FromStr for GrantId {
    type Err = NotAGrant;

    fn from_str(text: &str) -> Result<Self, NotAGrant> {
        let allowed = |c: u8| matches!(c, b'a'..=b'f' | b'0'..=b'9');
        let hex =
            text.strip_prefix("gra_").filter(|hex| hex.len() == 32 && hex.bytes().all(allowed));
        let number = hex.and_then(|hex| u128::from_str_radix(hex, 16).ok());
        number.map(Self).ok_or_else(|| NotAGrant(text.chars().take(80).collect()))
    }
}

/// Calls like these need not be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Which grant.
    pub id: GrantId,
    /// The tool, by its model-facing name.
    pub tool: String,
    /// Which arguments.
    pub pattern: Pattern,
    /// Who granted it.
    pub by: Actor,
    /// When it ends; none for one that stands until it is taken back.
    pub until: Option<Instant>,
    /// When it was granted.
    pub at: Instant,
}

impl Granted {
    fn stands(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// They must be asked for again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// Which grant.
    pub id: GrantId,
    /// Who took it back.
    pub by: Actor,
}

/// What an approver grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Drawn by the edge.
    pub id: GrantId,
    /// The tool, by its model-facing name.
    pub tool: String,
    /// Which arguments.
    pub pattern: Pattern,
    /// Who grants it.
    pub by: Actor,
    /// When it ends.
    pub until: Option<Instant>,
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Let calls like these through.
    Grant(Wanted),
    /// Take it back.
    Revoke(Revoked),
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The id is another grant's.
    #[error("there is another grant of this id")]
    Exists,
    /// There is none of this id.
    #[error("there is no such grant in this project")]
    NoSuchGrant,
    /// It would have ended.
    #[error("a grant ends in the future: give a later time, or none")]
    Past,
    /// There are too many.
    #[error("{GRANTS_MAX} grants stand in this project: take one back first")]
    Full,
    /// The tool's name is none.
    #[error("a tool's name has 1 to {TOOL_BYTES_MAX} characters of a-z A-Z 0-9 _ -")]
    BadTool,
    /// The pattern can not be granted.
    #[error("{0}")]
    BadPattern(BadPattern),
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What was granted and not taken back; some of it may have ended.
    pub grants: BTreeMap<GrantId, Granted>,
    /// What was taken back, the newest last.
    pub revoked: VecDeque<GrantId>,
}

impl State {
    /// The grant that covers a call, if one does.
    #[must_use]
    pub fn covers(&self, tool: &str, arguments: &Json, now: Instant) -> Option<GrantId> {
        self.standing(now)
            .find(|one| one.tool == tool && one.pattern.matches(arguments))
            .map(|one| one.id)
    }

    /// Those that have not ended.
    pub fn standing(&self, now: Instant) -> impl Iterator<Item = &Granted> {
        self.grants.values().filter(move |one| one.stands(now))
    }
}

/// Marker: the rules of a project's grants. They owe the world nothing.
#[derive(Debug)]
pub struct Grant;

/// Grants have no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

fn grant(state: &State, wanted: &Wanted, at: Instant) -> Result<Vec<Event>, Refusal> {
    let Wanted { id, tool, pattern, by, until } = wanted.clone();
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    if !(1..=TOOL_BYTES_MAX).contains(&tool.len()) || !tool.bytes().all(allowed) {
        return Err(Refusal::BadTool);
    }
    pattern.validate().map_err(Refusal::BadPattern)?;
    if state.revoked.contains(&id) {
        return Err(Refusal::Exists);
    }
    if let Some(stands) = state.grants.get(&id) {
        let granted = Granted { id, tool, pattern, by, until, at: stands.at };
        return if *stands == granted { Ok(vec![]) } else { Err(Refusal::Exists) };
    }
    if until.is_some_and(|until| until <= at) {
        return Err(Refusal::Past);
    }
    if state.standing(at).count() >= GRANTS_MAX {
        return Err(Refusal::Full);
    }
    Ok(vec![Event::Granted(Granted { id, tool, pattern, by, until, at })])
}

impl Aggregate for Grant {
    type Id = Project;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Grant;
    const FOLD: u32 = 1;

    fn stream(id: &Project) -> StreamKey {
        StreamKey::named(StreamKind::Grant, id.as_str())
    }

    fn id(stream: &StreamKey) -> Option<Project> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        match command {
            Command::Grant(wanted) => grant(state, wanted, now),
            Command::Revoke(revoked) if state.grants.contains_key(&revoked.id) => {
                Ok(vec![Event::Revoked(revoked.clone())])
            }
            Command::Revoke(revoked) if state.revoked.contains(&revoked.id) => Ok(vec![]),
            Command::Revoke(_) => Err(Refusal::NoSuchGrant),
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        let legal = match event {
            Event::Granted(granted) => {
                // What has ended makes room; it is told by the time of the fact, so every fold does the same.
                state.grants.retain(|_, one| one.stands(granted.at));
                state.grants.insert(granted.id, granted.clone()).is_none()
            }
            Event::Revoked(revoked) => {
                if state.revoked.len() == REMEMBERED {
                    state.revoked.pop_front();
                }
                state.revoked.push_back(revoked.id);
                state.grants.remove(&revoked.id).is_some()
            }
        };
        if legal {
            return Ok(state);
        }
        let before = format!("{} grants", state.grants.len());
        Err(IllegalEvent { event: event.name().to_owned(), before })
    }

    fn awake(_state: &State) -> Vec<Event> {
        vec![]
    }

    fn pending(_state: &State) -> Vec<(Never, Never)> {
        vec![]
    }

    /// What has ended covers nothing, whether anybody looks or not.
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
mod tests;
