//! What is stored: commits of entries, each hashed over its stored bytes and linked to the one before.

use crate::id::{KeyId, PARTITIONS, Partition, digest};
use crate::quantity::Instant;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Hash(pub [u8; 32]);

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names a journal: drawn once when it is made, and part of every hash, so that a commit of another journal shows.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct JournalId(pub u128);

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Names an append; repeated on every retry of the same bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct CommitId(pub u128);

/// Names a command; ordered by the time it was made (UUIDv7 layout: 48 bits of milliseconds first).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct CommandId(pub u128);

impl CommandId {
    /// A command made at `at`, told from others of that millisecond by `random` (its low 80 bits are used).
    #[must_use]
    pub fn new(at: Instant, random: u128) -> Self {
        let millis = u128::from(at.millis()) & ((1 << 48) - 1);
        Self((millis << 80) | (random & ((1 << 80) - 1)))
    }

    /// The id that the same act at the same time always gets.
    #[must_use]
    pub fn derived(at: Instant, parts: &[&[u8]]) -> Self {
        Self::new(at, digest(parts))
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One life of a process.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Boot(pub u128);

/// Counts the owners of a partition.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Epoch(pub u64);

/// How many entries a stream has; the first entry is version 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Version(pub u64);

impl Version {
    /// The version of a stream without entries.
    pub const EMPTY: Self = Self(0);

    /// The version after `count` more entries.
    #[must_use]
    pub fn plus(self, count: usize) -> Self {
        Self(self.0.saturating_add(u64::try_from(count).unwrap_or(u64::MAX)))
    }
}

/// One `SQLite` file or one `JetStream` stream.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Shard(pub u16);

/// Place in the order of one shard; the first commit has sequence 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Position {
    /// Which order.
    pub shard: Shard,
    /// Which place in it.
    pub sequence: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.shard.0, self.sequence)
    }
}

/// Which rules a stream follows. Their names stand in stream keys: never rename one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StreamKind {
    /// A conversation.
    Session,
    /// One unit of agent work.
    Run,
    /// An access key.
    Key,
    /// What the journal says of itself.
    Settings,
    /// A stream of the store's own tests.
    Probe,
    /// A provider's credentials.
    Credential,
    /// What may be spent.
    Budget,
    /// Calls of a project that need not be asked for again.
    Grant,
    /// The preconditions of a project's tools.
    Gates,
    /// The artifacts of a project.
    Artifact,
    /// What a project says of itself.
    Project,
}

impl StreamKind {
    /// Every kind, for tests that must leave none out.
    pub const ALL: [Self; 11] = [
        Self::Session,
        Self::Run,
        Self::Key,
        Self::Settings,
        Self::Probe,
        Self::Credential,
        Self::Budget,
        Self::Grant,
        Self::Gates,
        Self::Artifact,
        Self::Project,
    ];

    /// The word in a stream key.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Run => "run",
            Self::Key => "key",
            Self::Settings => "settings",
            Self::Probe => "probe",
            Self::Credential => "credential",
            Self::Budget => "budget",
            Self::Grant => "grant",
            Self::Gates => "gates",
            Self::Artifact => "artifact",
            Self::Project => "project",
        }
    }
}

/// Names a stream: `kind/id`. Knows its partition, so that nobody has to ask.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    kind: StreamKind,
    partition: Partition,
    text: Arc<str>,
}

/// The text does not name a stream of this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a stream key: give kind/id with kind one of session, run, key, settings, credential, budget, grant, gates, artifact, project"
)]
pub struct NotAStream(pub String);

/// Bytes of the longest stream key.
const STREAM_KEY_MAX: usize = 128;

impl StreamKey {
    /// The stream of an id that carries its partition.
    #[must_use]
    pub fn rooted(kind: StreamKind, partition: Partition, id: &dyn fmt::Display) -> Self {
        Self { kind, partition, text: format!("{}/{id}", kind.name()).into() }
    }

    /// The stream of a named singleton.
    #[must_use]
    pub fn named(kind: StreamKind, name: &str) -> Self {
        let text: Arc<str> = format!("{}/{name}", kind.name()).into();
        Self { kind, partition: Partition::of_name(&text), text }
    }

    /// Which rules it follows.
    #[must_use]
    pub const fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Who owns it.
    #[must_use]
    pub const fn partition(&self) -> Partition {
        self.partition
    }

    /// `kind/id`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands after the kind.
    #[must_use]
    pub fn id(&self) -> &str {
        self.text.split_once('/').map_or("", |(_, id)| id)
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for StreamKey {
    type Err = NotAStream;

    fn from_str(text: &str) -> Result<Self, NotAStream> {
        let bad = || NotAStream(text.chars().take(STREAM_KEY_MAX).collect());
        let (kind, id) = text.split_once('/').ok_or_else(bad)?;
        let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'~' | b'-');
        if text.len() > STREAM_KEY_MAX || id.is_empty() || !id.bytes().all(allowed) {
            return Err(bad());
        }
        let kind = match kind {
            "session" => StreamKind::Session,
            "run" => StreamKind::Run,
            "key" => StreamKind::Key,
            "settings" => StreamKind::Settings,
            "probe" => StreamKind::Probe,
            "credential" => StreamKind::Credential,
            "budget" => StreamKind::Budget,
            "grant" => StreamKind::Grant,
            "gates" => StreamKind::Gates,
            "artifact" => StreamKind::Artifact,
            "project" => StreamKind::Project,
            _ => return Err(bad()),
        };
        let rooted = match kind {
            StreamKind::Session => id.parse().map(|id: crate::id::SessionId| id.place()).ok(),
            StreamKind::Run => id.parse().map(|id: crate::id::RunId| id.place()).ok(),
            StreamKind::Key => id.parse().map(|id: KeyId| id.place()).ok(),
            StreamKind::Settings
            | StreamKind::Probe
            | StreamKind::Credential
            | StreamKind::Budget
            | StreamKind::Grant
            | StreamKind::Gates
            | StreamKind::Artifact
            | StreamKind::Project => None,
        };
        Ok(match rooted {
            Some(place) => Self { kind, partition: place.partition, text: text.into() },
            None => Self::named(kind, id),
        })
    }
}

/// Who wanted a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Actor {
    /// The holder of an access key.
    Key(KeyId),
    /// The administrator's key of the node.
    Admin,
    /// The node itself: a woken host, an effect's outcome, a timer.
    Node,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Admin => f.write_str("admin"),
            Self::Node => f.write_str("node"),
        }
    }
}

/// Why some of a commit's entries were written: which command, for whom, in which larger piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// The command that was decided.
    pub command: CommandId,
    /// The larger piece of work: the first command of the chain.
    pub correlation: u128,
    /// Who wanted it.
    pub actor: Actor,
    /// How many of the commit's entries it produced, in order.
    pub entries: u16,
}

/// The stored bytes of one entry are sealed under a key slot (format now, sealing later).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// Which key.
    pub slot: u32,
    /// Derived from the key, the commit and the index, so that a retried commit has the same bytes.
    pub nonce: [u8; 24],
}

/// Names a blob by the SHA-256 of its stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobRef {
    /// Its name.
    pub hash: Hash,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Where an entry's payload stands.
#[derive(Clone, PartialEq, Eq)]
pub enum Payload {
    /// In the commit.
    Inline(Arc<[u8]>),
    /// In the blob store, because it is large.
    Blob(BlobRef),
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Blob(blob) => write!(f, "blob {} of {} bytes", blob.hash, blob.bytes),
        }
    }
}

/// One stored fact. Kind, schema and seal stand outside the payload, so that an unknown one can be kept opaque.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Which kind of fact.
    pub kind: u16,
    /// Which frozen shape of it.
    pub schema: u16,
    /// Whether its payload is sealed.
    pub seal: Option<Seal>,
    /// The fact itself.
    pub payload: Payload,
}

/// An atomic append of one or more entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Which journal it belongs to.
    pub journal: JournalId,
    /// Which stream.
    pub stream: StreamKey,
    /// The version of its first entry.
    pub first_version: Version,
    /// Which owner wrote it.
    pub epoch: Epoch,
    /// Which life of that owner.
    pub boot: Boot,
    /// Repeated on retry.
    pub id: CommitId,
    /// When it was decided.
    pub at: Instant,
    /// The commands it answers, in order. Their entry counts add up to at most the entries.
    pub causes: Vec<Cause>,
    /// The hash of the stream's commit before it; of journal and stream for the first.
    pub prev: Hash,
    /// What happened.
    pub entries: Vec<Entry>,
}

impl Commit {
    /// The stream's version after it.
    #[must_use]
    pub fn last_version(&self) -> Version {
        Version(self.first_version.0.saturating_sub(1)).plus(self.entries.len())
    }
}

/// A commit as read back, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Where it stands.
    pub position: Position,
    /// The hash stored beside it, checked against its bytes.
    pub hash: Hash,
    /// What it says.
    pub commit: Commit,
}

/// The newest commit of a stream, as far as its reader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// The stream's version.
    pub version: Version,
    /// The hash that the next commit links to.
    pub hash: Hash,
    /// Who wrote last.
    pub epoch: Epoch,
    /// Which life of that owner.
    pub boot: Boot,
    /// The newest commit's sequence in its shard; zero for an empty stream.
    pub sequence: u64,
}

const _: () = assert!(PARTITIONS == 64, "partitions stand in ids: never change their number");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Place, RunId};

    #[test]
    fn command_ids_sort_by_time_first() {
        let early = CommandId::new(Instant(1_000_000), u128::MAX);
        let late = CommandId::new(Instant(1_001_000), 0);
        assert!(early < late);
        assert_eq!(
            CommandId::derived(Instant(5), &[b"x"]),
            CommandId::derived(Instant(5), &[b"x"])
        );
    }

    #[test]
    fn a_stream_key_reads_back_with_its_partition() {
        let place = Place { partition: Partition::of(17), ..Place::default() };
        let key = StreamKey::rooted(StreamKind::Run, place.partition, &RunId::new(place, 9));
        assert_eq!(key.as_str().parse::<StreamKey>(), Ok(key.clone()));
        let named = StreamKey::named(StreamKind::Probe, "a");
        assert_eq!(named.as_str().parse::<StreamKey>(), Ok(named));
        for bad in ["run", "run/", "nope/x", "run/A", "run/a/b", "run/a.b"] {
            assert!(bad.parse::<StreamKey>().is_err(), "{bad}");
        }
    }
}
