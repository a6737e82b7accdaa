//! Snapshots in pieces, the head last. It names the place of the commit that it stands for, so that waking reads from
//! there and not from the start.

use super::blob::keep;
use super::settings::PIECE_BYTES;
use super::{Place, Shared, api::Ask, message};
use crate::{SNAPSHOT_BYTES_MAX, Snapshot, StoreError};
use bytes::Bytes;
use events::record::{Hash, StreamKey, Version};
use events::subject::{Part, Subject};

/// The head's layout: its version, then fold, version, hash, checksum, sequence and size, little endian.
const LAYOUT: u8 = 1;
const HEAD_BYTES: usize = 1 + 4 + 8 + 32 + 32 + 8 + 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    fold: u32,
    version: Version,
    hash: Hash,
    checksum: Hash,
    /// Of the commit that ends at the version; zero when there was none.
    sequence: u64,
    bytes: u64,
}

impl Head {
    fn write(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT];
        out.extend_from_slice(&self.fold.to_le_bytes());
        out.extend_from_slice(&self.version.0.to_le_bytes());
        out.extend_from_slice(&self.hash.0);
        out.extend_from_slice(&self.checksum.0);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != HEAD_BYTES {
            return None;
        }
        let (layout, rest) = bytes.split_first()?;
        let (fold, rest) = rest.split_first_chunk()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (hash, rest) = rest.split_first_chunk()?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (size, _) = rest.split_first_chunk()?;
        (*layout == LAYOUT).then_some(Self {
            fold: u32::from_le_bytes(*fold),
            version: Version(u64::from_le_bytes(*version)),
            hash: Hash(*hash),
            checksum: Hash(*checksum),
            sequence: u64::from_le_bytes(*sequence),
            bytes: u64::from_le_bytes(*size),
        })
    }
}

impl Shared {
    pub(super) async fn put_snapshot(
        &self,
        stream: &StreamKey,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        let checksum = snapshot.checksum();
        let Snapshot { fold, version, hash, bytes } = snapshot;
        let sequence = self.sequence_of(stream, version).await?;
        let client = self.link.up()?;
        let subject = |part| self.namespace.spell(&Subject::Snapshot(stream.clone(), part));
        for (nth, piece) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
            keep(&client, &subject(Part::Piece(nth)), Bytes::copy_from_slice(piece)).await?;
        }
        let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let head = Head { fold, version, hash, checksum, sequence, bytes };
        keep(&client, &subject(Part::Head), head.write().into()).await
    }

    /// Where the commit stands that ends at a version; zero when none does.
    async fn sequence_of(&self, stream: &StreamKey, version: Version) -> Result<u64, StoreError> {
        if let Some(tail) = self.remembered(stream).filter(|tail| tail.version == version) {
            return Ok(tail.sequence);
        }
        let before = Version(version.0.saturating_sub(1));
        let found = self.read(stream, before, 1).await?;
        let ends = found.first().filter(|recorded| recorded.commit.last_version() == version);
        Ok(ends.map_or(0, |recorded| recorded.position.sequence))
    }

    /// The stored snapshot with its checksum, and the hash of the commit that ends at its version.
    pub(super) async fn snapshot(
        &self,
        stream: &StreamKey,
    ) -> Result<Option<(Snapshot, Hash, Option<Hash>)>, StoreError> {
        let name = self.namespace.snapshot_stream();
        let subject = |part| self.namespace.spell(&Subject::Snapshot(stream.clone(), part));
        let Some((head, _)) = self.newest_of(&name, &subject(Part::Head)).await? else {
            return Ok(None);
        };
        // One of another build, or damaged: it is a cache.
        let Some(head) = Head::read(&head) else { return Ok(None) };
        let size = usize::try_from(head.bytes).unwrap_or(usize::MAX);
        let mut bytes: Vec<u8> = vec![];
        for nth in 0.. {
            if bytes.len() >= size.min(SNAPSHOT_BYTES_MAX) {
                break;
            }
            let Some((piece, _)) = self.newest_of(&name, &subject(Part::Piece(nth))).await? else {
                break;
            };
            bytes.extend_from_slice(&piece);
        }
        bytes.truncate(size);
        let at = self.hash_at(stream, &head).await?;
        let Head { fold, version, hash, checksum, .. } = head;
        Ok(Some((Snapshot { fold, version, hash, bytes: bytes.into() }, checksum, at)))
    }

    /// The hash of the commit at the head's place, if it is of this stream and ends at its version.
    async fn hash_at(&self, stream: &StreamKey, head: &Head) -> Result<Option<Hash>, StoreError> {
        if head.sequence == 0 {
            return Ok(None);
        }
        let shard = self.shard_of(stream);
        let Some(message) = self.leader(shard, &Ask::At(head.sequence)).await? else {
            return Ok(None);
        };
        let Ok((found, _)) = message::recorded(&self.namespace, shard.shard, &message) else {
            return Ok(None);
        };
        let version = found.commit.last_version();
        if found.commit.stream != *stream || version != head.version {
            return Ok(None);
        }
        let (hash, sequence) = (found.hash, head.sequence);
        if hash == head.hash {
            self.keep_place(stream, Place { version, hash, sequence });
        }
        Ok(Some(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_head_do_not_change() {
        let head = Head {
            fold: 1,
            version: Version(2),
            hash: Hash([3; 32]),
            checksum: Hash([4; 32]),
            sequence: 5,
            bytes: 6,
        };
        let bytes = head.write();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, include_str!("golden/snapshot_head.txt").trim());
        assert_eq!(Head::read(&bytes), Some(head));
        for cut in 0..bytes.len() {
            assert_eq!(Head::read(&bytes[..cut]), None);
        }
        let mut other = bytes;
        other[0] = 9;
        assert_eq!(Head::read(&other), None, "of another layout");
    }
}
