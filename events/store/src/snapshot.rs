//! A fold of a stream, kept so that waking need not read the whole of it. A cache: one that does not fit its
//! stream is dropped and the stream is read from the start, for a wrong state would decide wrongly for ever.

use events::record::{Hash, Version};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Bytes of one snapshot. A state that is larger is cheaper to fold than to load.
pub const SNAPSHOT_BYTES_MAX: usize = 16 << 20;

/// A fold of a stream up to a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The shape of the state; one of another shape is not returned.
    pub fold: u32,
    /// The stream's version that it stands for.
    pub version: Version,
    /// The hash of the commit that ends at that version.
    pub hash: Hash,
    /// The state.
    pub bytes: Arc<[u8]>,
}

impl Snapshot {
    /// SHA-256 over everything that it says, stored beside it.
    pub(crate) fn checksum(&self) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(b"piton/snapshot/1");
        hasher.update(self.fold.to_le_bytes());
        hasher.update(self.version.0.to_le_bytes());
        hasher.update(self.hash.0);
        hasher.update(&self.bytes);
        Hash(hasher.finalize().into())
    }
}
