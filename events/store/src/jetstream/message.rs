//! A commit as a message: its subject, its headers, its frame. What the headers say beside the frame is checked against
//! the frame whenever it is read.
//!
//! Headers are what a server checks and what is folded without the body: hash, versions, owner and wake. Their names
//! and forms are part of the stored format: never change one.

use crate::Corrupt;
use crate::slot::Candidate;
use async_nats::jetstream::message::StreamMessage;
use async_nats::{HeaderMap, HeaderValue};
use events::journal::decode;
use events::record::{
    Boot, Commit, CommitId, Epoch, Hash, Position, Recorded, Shard, StreamKey, Tail, Version,
};
use events::subject::{Namespace, Subject};

const ID: &str = "Nats-Msg-Id";
const EXPECTED_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";
const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
const HASH: &str = "Piton-Hash";
const VERSIONS: &str = "Piton-Versions";
const EPOCH: &str = "Piton-Epoch";
const BOOT: &str = "Piton-Boot";
const WAKE: &str = "Piton-Wake";

/// The headers of a commit that goes to a stream of this name.
pub(super) fn headers(candidate: &Candidate, stream: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ID, format!("{:032x}", candidate.id.0));
    headers.insert(EXPECTED_SEQUENCE, candidate.expected.sequence.to_string());
    headers.insert(EXPECTED_STREAM, stream);
    headers.insert(HASH, candidate.frame.hash.to_string());
    headers.insert(VERSIONS, format!("{}-{}", candidate.first.0, candidate.last.0));
    headers.insert(EPOCH, candidate.epoch.0.to_string());
    headers.insert(BOOT, format!("{:032x}", candidate.boot.0));
    let wake = match candidate.wake {
        None => "command".to_owned(),
        Some(0) => "now".to_owned(),
        Some(micros) => micros.to_string(),
    };
    headers.insert(WAKE, wake);
    headers
}

/// What the headers and the subject say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) stream: StreamKey,
    pub(super) id: CommitId,
    pub(super) hash: Hash,
    pub(super) first: Version,
    pub(super) last: Version,
    pub(super) epoch: Epoch,
    pub(super) boot: Boot,
    /// As [`crate::slot::stored_wake`] gives it.
    pub(super) wake: Option<i64>,
}

impl Columns {
    pub(super) fn read(
        namespace: &Namespace,
        subject: &str,
        headers: &HeaderMap,
    ) -> Result<Self, Corrupt> {
        let Ok(Subject::Journal(stream)) = namespace.parse(subject) else {
            return Err(Corrupt::Column("subject"));
        };
        let text = |name: &'static str| {
            headers.get(name).map(HeaderValue::as_str).ok_or(Corrupt::Column(name))
        };
        let number =
            |name: &'static str, text: &str| text.parse::<u64>().map_err(|_| Corrupt::Column(name));
        let wide = |name: &'static str| {
            u128::from_str_radix(text(name)?, 16).map_err(|_| Corrupt::Column(name))
        };
        let (first, last) = text(VERSIONS)?.split_once('-').ok_or(Corrupt::Column(VERSIONS))?;
        let wake = match text(WAKE)? {
            "command" => None,
            "now" => Some(0),
            micros => {
                let micros: i64 = micros.parse().map_err(|_| Corrupt::Column(WAKE))?;
                Some(micros).filter(|micros| *micros > 0).map(Some).ok_or(Corrupt::Column(WAKE))?
            }
        };
        Ok(Self {
            stream,
            id: CommitId(wide(ID)?),
            hash: read_hash(text(HASH)?).ok_or(Corrupt::Column(HASH))?,
            first: Version(number(VERSIONS, first)?),
            last: Version(number(VERSIONS, last)?),
            epoch: Epoch(number(EPOCH, text(EPOCH)?)?),
            boot: Boot(wide(BOOT)?),
            wake,
        })
    }

    /// The first one that disagrees with the commit's bytes.
    fn differs(&self, commit: &Commit) -> Option<&'static str> {
        if self.stream != commit.stream {
            Some("subject")
        } else if self.id != commit.id {
            Some(ID)
        } else if (self.first, self.last) != (commit.first_version, commit.last_version()) {
            Some(VERSIONS)
        } else if self.epoch != commit.epoch {
            Some(EPOCH)
        } else if self.boot != commit.boot {
            Some(BOOT)
        } else {
            None
        }
    }
}

fn read_hash(text: &str) -> Option<Hash> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = Hash::default();
    for (nth, byte) in hash.0.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * nth..2 * nth + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// A stored commit, checked: bytes against hash, headers and subject against bytes.
pub(super) fn recorded(
    namespace: &Namespace,
    shard: Shard,
    message: &StreamMessage,
) -> Result<(Recorded, Columns), (Position, Corrupt)> {
    let position = Position { shard, sequence: message.sequence };
    let read = || {
        let columns = Columns::read(namespace, &message.subject, &message.headers)?;
        let commit = decode(&message.payload, columns.hash)?;
        match columns.differs(&commit) {
            Some(column) => Err(Corrupt::Column(column)),
            None => Ok((Recorded { position, hash: columns.hash, commit }, columns)),
        }
    };
    read().map_err(|corrupt| (position, corrupt))
}

/// The tail that a commit leaves.
pub(super) fn tail(recorded: &Recorded) -> Tail {
    let Recorded { position, hash, commit } = recorded;
    Tail {
        version: commit.last_version(),
        hash: *hash,
        epoch: commit.epoch,
        boot: commit.boot,
        sequence: position.sequence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Append, slot};
    use events::aggregate::Wake;
    use events::quantity::Instant;
    use events::record::{Entry, JournalId, Payload, StreamKind};

    fn candidate(wake: Wake) -> (Candidate, Commit) {
        let stream = StreamKey::named(StreamKind::Probe, "a");
        let commit = Commit {
            journal: JournalId(7),
            stream,
            first_version: Version(3),
            epoch: Epoch(2),
            boot: Boot(9),
            id: CommitId(11),
            at: Instant(1_700_000_000_000_000),
            causes: vec![],
            prev: Hash([4; 32]),
            entries: vec![Entry {
                kind: 1,
                schema: 2,
                seal: None,
                payload: Payload::Inline([1, 2, 3].into()),
            }],
        };
        let expected = Tail {
            version: Version(2),
            hash: Hash([4; 32]),
            epoch: Epoch(2),
            boot: Boot(9),
            sequence: 41,
        };
        let append = Append { commit, expected, wake, blobs: vec![] };
        Candidate::new(append, JournalId(7)).unwrap()
    }

    fn ours() -> Namespace {
        "prod".parse().unwrap()
    }

    fn message(candidate: &Candidate) -> StreamMessage {
        StreamMessage {
            subject: ours().spell(&Subject::Journal(candidate.stream.clone())).into(),
            sequence: 42,
            headers: headers(candidate, "EV_prod_0_0"),
            payload: candidate.frame.bytes.to_vec().into(),
            time: async_nats::datetime::DateTime::from(std::time::UNIX_EPOCH),
        }
    }

    #[test]
    fn the_headers_of_a_commit_do_not_change() {
        let (candidate, _) = candidate(Wake::At(Instant(1_700_000_001_000_000)));
        let headers = headers(&candidate, "EV_prod_0_0");
        let mut lines: Vec<String> = headers
            .iter()
            .flat_map(|(name, values)| values.iter().map(move |value| format!("{name}: {value}")))
            .collect();
        lines.sort();
        assert_eq!(lines.join("\n"), include_str!("golden/headers.txt").trim());
    }

    #[test]
    fn a_message_reads_back_and_a_changed_one_says_where() {
        for wake in [Wake::Now, Wake::OnCommand, Wake::At(Instant(5))] {
            let (candidate, commit) = candidate(wake);
            let (found, columns) = recorded(&ours(), Shard(0), &message(&candidate)).unwrap();
            assert_eq!((found.commit, slot::wake(columns.wake)), (commit, wake));
        }
        let (candidate, _) = candidate(Wake::Now);
        let changed = |name: &str, value: &str| {
            let mut message = message(&candidate);
            message.headers.insert(name, value);
            recorded(&ours(), Shard(0), &message).unwrap_err().1
        };
        assert_eq!(changed(EPOCH, "3"), Corrupt::Column(EPOCH));
        assert_eq!(changed(BOOT, "a"), Corrupt::Column(BOOT));
        assert_eq!(changed(ID, "c"), Corrupt::Column(ID));
        assert_eq!(changed(VERSIONS, "3-4"), Corrupt::Column(VERSIONS));
        assert_eq!(changed(WAKE, "-1"), Corrupt::Column(WAKE));
        assert_eq!(changed(HASH, "zz"), Corrupt::Column(HASH));
        assert!(matches!(changed(HASH, &Hash([1; 32]).to_string()), Corrupt::Frame(_)));
        let mut moved = message(&candidate);
        moved.subject =
            ours().spell(&Subject::Journal(StreamKey::named(StreamKind::Probe, "b"))).into();
        let (position, corrupt) = recorded(&ours(), Shard(0), &moved).unwrap_err();
        assert_eq!((position.sequence, corrupt), (42, Corrupt::Column("subject")));
        let mut flipped = message(&candidate);
        let mut bytes = flipped.payload.to_vec();
        bytes[20] ^= 1;
        flipped.payload = bytes.into();
        let (_, corrupt) = recorded(&ours(), Shard(0), &flipped).unwrap_err();
        assert!(matches!(corrupt, Corrupt::Frame(_)));
    }
}
