//! The artifacts of a project: texts with a name, each write a version that stays.
//!
//! Invariant: a version is never changed and never taken back; the newest is what the name means. A write says which
//! version it was written over, where it knows one, so that two who write at once do not lose each other's words. The
//! texts stand in the log and not in the fold, which remembers where.

use crate::aggregate::{Aggregate, IllegalEvent, Wake};
use crate::codec::CodecError;
use crate::id::RunId;
use crate::journal;
use crate::project::Project;
use crate::quantity::Instant;
use crate::record::{Actor, Entry, Hash, StreamKey, StreamKind, Version};
use crate::role::Role;
use crate::run::served::ServedBy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Artifacts of one project (1,000): a list of them is read whole.
pub const ARTIFACTS_MAX: usize = 1_000;
/// Versions of one artifact (1,000).
pub const VERSIONS_MAX: usize = 1_000;
/// Bytes of one version (512 KiB): a long report, not a data set.
pub const CONTENT_BYTES_MAX: usize = 512 << 10;
/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 64;

crate::events! {
    /// What can have happened to the artifacts of a project.
    pub enum Event {
        /// A version was written.
        Written(Written) = 1000 / 1 "written";
    }
}

/// An artifact's name: 1 to 64 characters of `a-z 0-9 . _ -`, begun by a letter or a digit, without two dots in a row. It
/// is a file's name too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// The text names no artifact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no artifact's name: give 1 to {NAME_BYTES_MAX} characters of a-z 0-9 . _ -, begun by a letter or a digit, without two dots in a row"
)]
pub struct NotAName(pub String);

impl Name {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let allowed = |c: u8| word(c) || matches!(c, b'.' | b'_' | b'-');
        let good = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().next().is_some_and(word)
            && text.bytes().all(allowed)
            && !text.contains("..");
        let bad = || NotAName(text.chars().take(100).collect());
        good.then(|| Self(text.to_owned())).ok_or_else(bad)
    }
}

impl TryFrom<String> for Name {
    type Error = NotAName;

    fn try_from(text: String) -> Result<Self, NotAName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who made a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// A run's tool call.
    Run(Box<Made>),
    /// A caller of the node.
    Caller,
    /// A person, who changed the file.
    Hand,
}

/// What made a version in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Which run.
    pub run: RunId,
    /// What its model was asked as.
    pub role: Role,
    /// Who answered with the call that wrote it, and instead of whom.
    pub served_by: Option<ServedBy>,
}

/// A version was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Of which artifact.
    pub name: Name,
    /// Which one, from 1.
    pub version: u32,
    /// The text.
    pub content: Arc<str>,
    /// Its SHA-256.
    pub hash: Hash,
    /// Who made it.
    pub source: Source,
    /// Who asked for it.
    pub by: Actor,
    /// When.
    pub at: Instant,
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Write a version.
    Write(Write),
}

/// A version to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Of which artifact; a new one is begun.
    pub name: Name,
    /// The text.
    pub content: Arc<str>,
    /// The version that it was written over; 0 for a new artifact, none where it does not matter.
    pub over: Option<u32>,
    /// Who made it.
    pub source: Source,
    /// Who asks.
    pub by: Actor,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Somebody else wrote since.
    #[error("{name} has version {have}, the text was written over version {over}: read it again")]
    Moved {
        /// The artifact.
        name: String,
        /// Its newest version.
        have: u32,
        /// What it was written over.
        over: u32,
    },
    /// Too much text.
    #[error("the text has {bytes} bytes, an artifact takes {CONTENT_BYTES_MAX}")]
    TooLong {
        /// How much.
        bytes: u64,
    },
    /// No more versions.
    #[error("{name} has {VERSIONS_MAX} versions: go on under another name")]
    ManyVersions {
        /// The artifact.
        name: String,
    },
    /// No more artifacts.
    #[error("the project has {ARTIFACTS_MAX} artifacts: go on in another one")]
    Full,
}

/// One version, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Which one, from 1.
    pub version: u32,
    /// The SHA-256 of its text.
    pub hash: Hash,
    /// Bytes of its text.
    pub bytes: u64,
    /// Who made it.
    pub source: Source,
    /// Who asked for it.
    pub by: Actor,
    /// When.
    pub at: Instant,
    /// The event that holds its text, by its version in the stream.
    pub event: Version,
}

/// A fold of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The versions of each artifact, oldest first; never empty.
    pub artifacts: BTreeMap<Name, Arc<Vec<Kept>>>,
    /// Events so far.
    pub events: Version,
}

impl State {
    /// A version of an artifact, the newest where none is named.
    #[must_use]
    pub fn version(&self, name: &Name, version: Option<u32>) -> Option<&Kept> {
        let versions = self.artifacts.get(name)?;
        match version {
            None => versions.last(),
            Some(number) => versions.iter().find(|kept| kept.version == number),
        }
    }
}

/// Marker: the rules of a project's artifacts. They owe the world nothing: files are a view of them.
#[derive(Debug)]
pub struct Artifacts;

/// Artifacts have no effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Never {}

fn write(state: &State, write: &Write, at: Instant) -> Result<Vec<Event>, Refusal> {
    let Write { name, content, over, source, by } = write;
    if content.len() > CONTENT_BYTES_MAX {
        return Err(Refusal::TooLong { bytes: u64::try_from(content.len()).unwrap_or(u64::MAX) });
    }
    let newest = state.version(name, None);
    let hash = journal::hash(content.as_bytes());
    if newest.is_some_and(|kept| kept.hash == hash) {
        return Ok(vec![]);
    }
    let have = newest.map_or(0, |kept| kept.version);
    if let Some(over) = over.filter(|over| *over != have) {
        return Err(Refusal::Moved { name: name.to_string(), have, over });
    }
    if newest.is_none() && state.artifacts.len() >= ARTIFACTS_MAX {
        return Err(Refusal::Full);
    }
    if state.artifacts.get(name).is_some_and(|versions| versions.len() >= VERSIONS_MAX) {
        return Err(Refusal::ManyVersions { name: name.to_string() });
    }
    let (name, version, source) = (name.clone(), have.saturating_add(1), source.clone());
    let content = Arc::clone(content);
    Ok(vec![Event::Written(Written { name, version, content, hash, source, by: *by, at })])
}

impl Aggregate for Artifacts {
    type Id = Project;
    type State = State;
    type Command = Command;
    type Event = Event;
    type Refusal = Refusal;
    type Effect = Never;
    type EffectId = Never;

    const KIND: StreamKind = StreamKind::Artifact;
    const FOLD: u32 = 1;

    fn stream(id: &Project) -> StreamKey {
        StreamKey::named(StreamKind::Artifact, id.as_str())
    }

    fn id(stream: &StreamKey) -> Option<Project> {
        stream.id().parse().ok()
    }

    fn decide(state: &State, command: &Command, now: Instant) -> Result<Vec<Event>, Refusal> {
        match command {
            Command::Write(asked) => write(state, asked, now),
        }
    }

    fn evolve(mut state: State, event: &Event) -> Result<State, IllegalEvent> {
        let Event::Written(written) = event;
        let have = state.version(&written.name, None).map_or(0, |kept| kept.version);
        if written.version != have.saturating_add(1) {
            let before = format!("version {have} of {}", written.name);
            return Err(IllegalEvent { event: event.name().to_owned(), before });
        }
        state.events = Version(state.events.0.saturating_add(1));
        let Written { name, version, content, hash, source, by, at } = written.clone();
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let kept = Kept { version, hash, bytes, source, by, at, event: state.events };
        Arc::make_mut(state.artifacts.entry(name).or_default()).push(kept);
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
mod tests;
