//! One stored commit: the columns beside its bytes, and the check that they say what the bytes say.

use crate::Corrupt;
use crate::memory::SHARD;
use events::journal::{decode, decode_of};
use events::record::{Commit, Hash, Position, Recorded, StreamKey};
use rusqlite::Row;

/// What [`Columns::of`] reads, in its order.
pub(crate) const COLUMNS: &str =
    "sequence, stream, first_version, last_version, commit_id, epoch, hash, rolling, frame";

/// A row of commits, borrowed.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    pub(crate) sequence: i64,
    /// As stored; may be no text at all in a damaged file.
    pub(crate) stream: &'a [u8],
    pub(crate) first_version: i64,
    pub(crate) last_version: i64,
    pub(crate) commit_id: &'a [u8],
    pub(crate) epoch: i64,
    pub(crate) hash: Hash,
    pub(crate) rolling: Hash,
    pub(crate) frame: &'a [u8],
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            sequence: row.get(0)?,
            stream: row.get_ref(1)?.as_bytes()?,
            first_version: row.get(2)?,
            last_version: row.get(3)?,
            commit_id: row.get_ref(4)?.as_blob()?,
            epoch: row.get(5)?,
            hash: Hash(row.get(6)?),
            rolling: Hash(row.get(7)?),
            frame: row.get_ref(8)?.as_blob()?,
        })
    }

    pub(crate) fn position(&self) -> Position {
        Position { shard: SHARD, sequence: self.sequence.cast_unsigned() }
    }

    /// The commit, after its bytes were checked against the hash beside them.
    pub(crate) fn commit(&self) -> Result<Commit, Corrupt> {
        Ok(decode(self.frame, self.hash)?)
    }

    /// The same, for whoever reads one stream.
    pub(crate) fn commit_of(&self, stream: &StreamKey) -> Result<Commit, Corrupt> {
        Ok(decode_of(stream, self.frame, self.hash)?)
    }

    /// The first column that disagrees with the commit.
    pub(crate) fn differs(&self, commit: &Commit) -> Option<&'static str> {
        let number = |column: i64, field: u64| column.cast_unsigned() != field;
        if self.stream != commit.stream.as_str().as_bytes() {
            Some("stream")
        } else if number(self.first_version, commit.first_version.0) {
            Some("first_version")
        } else if number(self.last_version, commit.last_version().0) {
            Some("last_version")
        } else if self.commit_id != commit.id.0.to_le_bytes() {
            Some("commit_id")
        } else if number(self.epoch, commit.epoch.0) {
            Some("epoch")
        } else {
            None
        }
    }

    /// The commit with its place, bytes and columns checked.
    pub(crate) fn recorded(&self) -> Result<Recorded, Corrupt> {
        self.agreed(self.commit()?)
    }

    /// The same, for whoever reads one stream.
    pub(crate) fn recorded_of(&self, stream: &StreamKey) -> Result<Recorded, Corrupt> {
        self.agreed(self.commit_of(stream)?)
    }

    fn agreed(&self, commit: Commit) -> Result<Recorded, Corrupt> {
        match self.differs(&commit) {
            Some(column) => Err(Corrupt::Column(column)),
            None => Ok(Recorded { position: self.position(), hash: self.hash, commit }),
        }
    }
}
