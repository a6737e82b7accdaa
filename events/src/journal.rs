//! The stored form of a commit, and the chain that makes a changed, removed or reordered byte show.
//!
//! A frame is the domain `piton/commit/1` and then each field, length-prefixed (u32, little endian); the hash is
//! SHA-256 over exactly those bytes and is stored beside them. The first commit of a stream links to
//! [`genesis`], each later one to the hash before it. Each shard also keeps a [`rolling`] hash over
//! (sequence, commit hash), so that a reorder between streams shows.

use crate::id::KeyId;
use crate::quantity::Instant;
use crate::record::{
    Actor, BlobRef, Boot, Cause, CommandId, Commit, CommitId, Entry, Epoch, Hash, JournalId,
    Payload, Seal, StreamKey, Version,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What every frame starts with; names its layout.
const DOMAIN: &[u8] = b"piton/commit/1";
/// Entries of one commit; a commit is one step of one stream, so more is a fault of the writer.
pub const ENTRIES_MAX: usize = 1_024;
/// Bytes of one frame. Larger payloads stand in blobs.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// The exact bytes that are stored, and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The commit.
    pub bytes: Arc<[u8]>,
    /// SHA-256 over `bytes`.
    pub hash: Hash,
}

/// Why stored bytes are not a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes were changed, or the hash was.
    #[error("stored bytes hash to {found}, but {stored} is stored beside them")]
    Hash {
        /// What stands beside the bytes.
        stored: Hash,
        /// What the bytes hash to.
        found: Hash,
    },
    /// The bytes end early, run on, or a field is not what it should be.
    #[error("field {0} of the commit does not decode")]
    Field(&'static str),
    /// Another layout: a newer build wrote it.
    #[error("the commit's layout is unknown to this build")]
    Layout,
}

fn sha(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    Hash(hasher.finalize().into())
}

/// SHA-256 of stored bytes.
#[must_use]
pub fn hash(bytes: &[u8]) -> Hash {
    sha(&[bytes])
}

/// What the first commit of a stream links to.
#[must_use]
pub fn genesis(journal: JournalId, stream: &StreamKey) -> Hash {
    sha(&[b"piton/genesis/1", &journal.0.to_le_bytes(), stream.as_str().as_bytes()])
}

/// The shard's hash after one more commit.
#[must_use]
pub fn rolling(before: Hash, sequence: u64, commit: Hash) -> Hash {
    sha(&[&before.0, &sequence.to_le_bytes(), &commit.0])
}

struct Writer(Vec<u8>);

impl Writer {
    fn field(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn count(&mut self, count: usize) {
        self.field(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn cause(&mut self, cause: &Cause) {
        self.field(&cause.command.0.to_le_bytes());
        self.field(&cause.correlation.to_le_bytes());
        match cause.actor {
            Actor::Key(key) => self.field(key.to_string().as_bytes()),
            Actor::Admin => self.field(b"admin"),
            Actor::Node => self.field(b"node"),
        }
        self.field(&cause.entries.to_le_bytes());
    }

    fn entry(&mut self, entry: &Entry) {
        self.field(&entry.kind.to_le_bytes());
        self.field(&entry.schema.to_le_bytes());
        match &entry.seal {
            None => self.field(&[]),
            Some(seal) => {
                let mut bytes = [0; 28];
                let (slot, nonce) = bytes.split_at_mut(4);
                slot.copy_from_slice(&seal.slot.to_le_bytes());
                nonce.copy_from_slice(&seal.nonce);
                self.field(&bytes);
            }
        }
        match &entry.payload {
            Payload::Inline(bytes) => {
                self.field(&[0]);
                self.field(bytes);
            }
            Payload::Blob(blob) => {
                self.field(&[1]);
                self.field(&blob.hash.0);
                self.field(&blob.bytes.to_le_bytes());
            }
        }
    }
}

/// The stored form of a commit.
#[must_use]
pub fn encode(commit: &Commit) -> Frame {
    let inline: usize = commit.entries.iter().map(inline_bytes).sum();
    let mut out = Writer(Vec::with_capacity(320 + 48 * commit.entries.len() + inline));
    out.0.extend_from_slice(DOMAIN);
    out.field(&commit.journal.0.to_le_bytes());
    out.field(commit.stream.as_str().as_bytes());
    out.field(&commit.first_version.0.to_le_bytes());
    out.field(&commit.epoch.0.to_le_bytes());
    out.field(&commit.boot.0.to_le_bytes());
    out.field(&commit.id.0.to_le_bytes());
    out.field(&commit.at.0.to_le_bytes());
    out.count(commit.causes.len());
    for cause in &commit.causes {
        out.cause(cause);
    }
    out.field(&commit.prev.0);
    out.count(commit.entries.len());
    for entry in &commit.entries {
        out.entry(entry);
    }
    let hash = hash(&out.0);
    Frame { bytes: out.0.into(), hash }
}

fn inline_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        Payload::Inline(bytes) => bytes.len(),
        Payload::Blob(_) => 0,
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn field(&mut self, name: &'static str) -> Result<&'a [u8], FrameError> {
        let bad = || FrameError::Field(name);
        let (length, rest) = self.0.split_first_chunk::<4>().ok_or_else(bad)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| bad())?;
        let (bytes, rest) = rest.split_at_checked(length).ok_or_else(bad)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self, name: &'static str) -> Result<[u8; N], FrameError> {
        self.field(name)?.try_into().map_err(|_| FrameError::Field(name))
    }

    fn text(&mut self, name: &'static str) -> Result<&'a str, FrameError> {
        std::str::from_utf8(self.field(name)?).map_err(|_| FrameError::Field(name))
    }

    fn count(&mut self, name: &'static str) -> Result<usize, FrameError> {
        let count = u32::from_le_bytes(self.fixed(name)?);
        usize::try_from(count).ok().filter(|n| *n <= ENTRIES_MAX).ok_or(FrameError::Field(name))
    }

    /// As many as are announced, which are few: room is made once.
    fn many<T>(
        &mut self,
        name: &'static str,
        one: impl Fn(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Vec<T>, FrameError> {
        let count = self.count(name)?;
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(one(self)?);
        }
        Ok(all)
    }

    fn cause(&mut self) -> Result<Cause, FrameError> {
        let command = CommandId(u128::from_le_bytes(self.fixed("command")?));
        let correlation = u128::from_le_bytes(self.fixed("correlation")?);
        let actor = match self.text("actor")? {
            "admin" => Actor::Admin,
            "node" => Actor::Node,
            key => Actor::Key(key.parse::<KeyId>().map_err(|_| FrameError::Field("actor"))?),
        };
        let entries = u16::from_le_bytes(self.fixed("cause entries")?);
        Ok(Cause { command, correlation, actor, entries })
    }

    fn entry(&mut self) -> Result<Entry, FrameError> {
        let kind = u16::from_le_bytes(self.fixed("kind")?);
        let schema = u16::from_le_bytes(self.fixed("schema")?);
        let seal = match self.field("seal")? {
            [] => None,
            bytes => {
                let (slot, nonce) =
                    bytes.split_first_chunk::<4>().ok_or(FrameError::Field("seal"))?;
                let nonce = nonce.try_into().map_err(|_| FrameError::Field("seal"))?;
                Some(Seal { slot: u32::from_le_bytes(*slot), nonce })
            }
        };
        let payload = match self.fixed::<1>("placement")? {
            [0] => Payload::Inline(self.field("payload")?.into()),
            [1] => Payload::Blob(BlobRef {
                hash: Hash(self.fixed("blob hash")?),
                bytes: u64::from_le_bytes(self.fixed("blob bytes")?),
            }),
            _ => return Err(FrameError::Field("placement")),
        };
        Ok(Entry { kind, schema, seal, payload })
    }
}

/// Reads a stored commit back, after checking its bytes against the hash stored beside them.
///
/// # Errors
///
/// [`FrameError::Hash`] when a byte was changed; the others when the bytes are not a frame of this layout.
pub fn decode(bytes: &[u8], stored: Hash) -> Result<Commit, FrameError> {
    checked(bytes, stored)?;
    decode_unchecked(bytes, None)
}

/// [`decode`] for whoever reads one stream: its commits share `stream` instead of each parsing its own copy. A commit
/// of another stream reads as what it is.
///
/// # Errors
///
/// As [`decode`].
pub fn decode_of(stream: &StreamKey, bytes: &[u8], stored: Hash) -> Result<Commit, FrameError> {
    checked(bytes, stored)?;
    decode_unchecked(bytes, Some(stream))
}

fn checked(bytes: &[u8], stored: Hash) -> Result<(), FrameError> {
    let found = hash(bytes);
    if found == stored { Ok(()) } else { Err(FrameError::Hash { stored, found }) }
}

fn decode_unchecked(bytes: &[u8], likely: Option<&StreamKey>) -> Result<Commit, FrameError> {
    let mut from = Reader(bytes.strip_prefix(DOMAIN).ok_or(FrameError::Layout)?);
    let journal = JournalId(u128::from_le_bytes(from.fixed("journal")?));
    let stream = match (from.text("stream")?, likely) {
        (text, Some(likely)) if text == likely.as_str() => likely.clone(),
        (text, _) => text.parse().map_err(|_| FrameError::Field("stream"))?,
    };
    let first_version = Version(u64::from_le_bytes(from.fixed("first version")?));
    let epoch = Epoch(u64::from_le_bytes(from.fixed("epoch")?));
    let boot = Boot(u128::from_le_bytes(from.fixed("boot")?));
    let id = CommitId(u128::from_le_bytes(from.fixed("commit id")?));
    let at = Instant(i64::from_le_bytes(from.fixed("at")?));
    let causes = from.many("causes", Reader::cause)?;
    let prev = Hash(from.fixed("prev")?);
    let entries = from.many("entries", Reader::entry)?;
    if !from.0.is_empty() {
        return Err(FrameError::Field("end"));
    }
    Ok(Commit { journal, stream, first_version, epoch, boot, id, at, causes, prev, entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Place;
    use crate::record::StreamKind;

    fn commit() -> Commit {
        Commit {
            journal: JournalId(7),
            stream: StreamKey::named(StreamKind::Probe, "a"),
            first_version: Version(3),
            epoch: Epoch(2),
            boot: Boot(9),
            id: CommitId(11),
            at: Instant(1_700_000_000_000_000),
            causes: vec![
                Cause {
                    command: CommandId(5),
                    correlation: 6,
                    actor: Actor::Key(KeyId::new(Place::default(), 1)),
                    entries: 1,
                },
                Cause { command: CommandId(8), correlation: 6, actor: Actor::Admin, entries: 1 },
            ],
            prev: Hash([4; 32]),
            entries: vec![
                Entry {
                    kind: 1,
                    schema: 2,
                    seal: None,
                    payload: Payload::Inline([1, 2, 3].into()),
                },
                Entry {
                    kind: 3,
                    schema: 1,
                    seal: Some(Seal { slot: 1, nonce: [2; 24] }),
                    payload: Payload::Blob(BlobRef { hash: Hash([5; 32]), bytes: 70_000 }),
                },
            ],
        }
    }

    #[test]
    fn a_commit_reads_back_what_was_written() {
        let frame = encode(&commit());
        assert_eq!(decode(&frame.bytes, frame.hash), Ok(commit()));
        for likely in ["a", "b"] {
            let likely = StreamKey::named(StreamKind::Probe, likely);
            assert_eq!(decode_of(&likely, &frame.bytes, frame.hash), Ok(commit()));
        }
        assert_eq!(commit().last_version(), Version(4));
    }

    #[test]
    fn the_bytes_of_a_frame_do_not_change() {
        assert_eq!(encode(&commit()).hash.to_string(), include_str!("golden/frame.txt").trim());
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_refused() {
        let frame = encode(&commit());
        for at in 0..frame.bytes.len() {
            let mut bytes = frame.bytes.to_vec();
            bytes[at] ^= 0x40;
            assert!(
                matches!(decode(&bytes, frame.hash), Err(FrameError::Hash { .. })),
                "byte {at}"
            );
            // Even under a hash that was forged to match, no byte sequence panics.
            let _forged = decode(&bytes, hash(&bytes));
            let cut = &frame.bytes[..at];
            assert!(decode(cut, hash(cut)).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn the_rolling_hash_depends_on_order_and_place() {
        let (a, b) = (Hash([1; 32]), Hash([2; 32]));
        let forth = rolling(rolling(Hash::default(), 1, a), 2, b);
        let back = rolling(rolling(Hash::default(), 1, b), 2, a);
        assert_ne!(forth, back);
        assert_ne!(rolling(Hash::default(), 1, a), rolling(Hash::default(), 2, a));
    }
}
