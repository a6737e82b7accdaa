//! Commits of the model's one stream, and what the real rule says to them.

use events::aggregate::Wake;
use events::journal;
use events::quantity::Instant;
use events::record::{
    Boot, Commit, CommitId, Entry, Epoch, Hash, JournalId, Payload, StreamKey, StreamKind, Tail,
    Version,
};
use store::Append;
use store::model::{Judged, judge};

const JOURNAL: JournalId = JournalId(7);

/// The newest commit, as somebody read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head {
    pub version: u64,
    pub hash: [u8; 32],
    pub epoch: u64,
    pub boot: u128,
    pub sequence: u64,
}

/// A commit that a node made, and the head it was decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Made {
    pub id: u16,
    pub epoch: u64,
    pub boot: u128,
    pub hash: [u8; 32],
    pub on: Head,
}

fn stream() -> StreamKey {
    StreamKey::named(StreamKind::Probe, "model")
}

impl Head {
    pub fn empty() -> Self {
        let hash = journal::genesis(JOURNAL, &stream()).0;
        Self { version: 0, hash, epoch: 0, boot: 0, sequence: 0 }
    }

    fn tail(self) -> Tail {
        let Self { version, hash, epoch, boot, sequence } = self;
        Tail {
            version: Version(version),
            hash: Hash(hash),
            epoch: Epoch(epoch),
            boot: Boot(boot),
            sequence,
        }
    }
}

impl Made {
    pub fn new(id: u16, epoch: Epoch, boot: Boot, on: Head) -> Self {
        let mut made = Self { id, epoch: epoch.0, boot: boot.0, hash: [0; 32], on };
        made.hash = journal::encode(&made.commit()).hash.0;
        made
    }

    fn commit(&self) -> Commit {
        let payload = Payload::Inline(self.id.to_le_bytes()[..].into());
        Commit {
            journal: JOURNAL,
            stream: stream(),
            first_version: Version(self.on.version + 1),
            epoch: Epoch(self.epoch),
            boot: Boot(self.boot),
            id: CommitId(self.id.into()),
            at: Instant(1),
            causes: vec![],
            prev: Hash(self.on.hash),
            entries: vec![Entry { kind: 1, schema: 1, seal: None, payload }],
        }
    }

    /// What the real rule says to it, the newest commit being `head`.
    pub fn judged(&self, head: Head) -> Judged {
        let expected = self.on.tail();
        let append =
            Append { commit: self.commit(), expected, wake: Wake::OnCommand, blobs: vec![] };
        judge(append, &head.tail()).expect("a commit that a store can keep")
    }
}
