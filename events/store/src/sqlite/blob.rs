//! What stands beside commits in the file: blobs, in the transaction of the commit that refers to them, and
//! snapshots, which may be lost.

use crate::memory::SHARD;
use crate::{Blob, Corrupt, Snapshot, StoreError};
use events::journal::hash;
use events::record::{BlobRef, Hash, Position, StreamKey, Version};
use rusqlite::{Connection, OptionalExtension, Statement, params};
use std::sync::Arc;

/// The writer's compiled statements on blobs and snapshots.
#[derive(Debug)]
pub(super) struct Statements<'c> {
    put: Statement<'c>,
    stored: Statement<'c>,
    erase: Statement<'c>,
    put_snapshot: Statement<'c>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            // An erased blob comes back when a commit brings its bytes again.
            put: connection.prepare(
                "insert into blobs(hash, bytes, body) values (?1, ?2, ?3)
                 on conflict(hash) do update set bytes = excluded.bytes, body = excluded.body where body is null",
            )?,
            stored: connection
                .prepare("select 1 from blobs where hash = ?1 and body is not null")?,
            // The size turns negative, so that bytes which got lost do not look erased.
            erase: connection.prepare(
                "update blobs set body = null, bytes = -bytes where hash = ?1 and body is not null",
            )?,
            put_snapshot: connection.prepare(
                "insert or replace into snapshots(stream, fold, version, hash, checksum, body)
                 values (?1, ?2, ?3, ?4, ?5, ?6)",
            )?,
        })
    }

    pub(super) fn put(&mut self, blob: &Blob) -> rusqlite::Result<()> {
        let BlobRef { hash, bytes } = blob.reference;
        self.put.execute(params![hash.0, bytes.cast_signed(), &*blob.bytes])?;
        Ok(())
    }

    /// The first of these that is not stored.
    pub(super) fn missing(&mut self, wanted: &[BlobRef]) -> rusqlite::Result<Option<Hash>> {
        for blob in wanted {
            if !self.stored.exists([blob.hash.0])? {
                return Ok(Some(blob.hash));
            }
        }
        Ok(None)
    }

    pub(super) fn erase(&mut self, hash: Hash) -> rusqlite::Result<()> {
        self.erase.execute([hash.0])?;
        Ok(())
    }

    pub(super) fn put_snapshot(
        &mut self,
        stream: &StreamKey,
        snapshot: &Snapshot,
    ) -> rusqlite::Result<()> {
        let Snapshot { fold, version, hash, bytes } = snapshot;
        let checksum = snapshot.checksum().0;
        let version = version.0.cast_signed();
        self.put_snapshot.execute(params![
            stream.as_str(),
            fold,
            version,
            hash.0,
            checksum,
            &**bytes
        ])?;
        Ok(())
    }
}

/// A blob's bytes, checked.
pub(super) fn read(connection: &Connection, blob: &BlobRef) -> Result<Arc<[u8]>, StoreError> {
    let mut select = connection.prepare_cached("select body from blobs where hash = ?1")?;
    let body = select.query_row([blob.hash.0], |row| row.get::<_, Option<Arc<[u8]>>>(0));
    let bytes = match body.optional()? {
        None => return Err(StoreError::NoBlob(blob.hash)),
        Some(None) => return Err(StoreError::Erased(blob.hash)),
        Some(Some(bytes)) => bytes,
    };
    let found = hash(&bytes);
    if found == blob.hash {
        return Ok(bytes);
    }
    // A blob may be shared, so there is no one commit to name.
    let position = Position { shard: SHARD, sequence: 0 };
    Err(StoreError::Corrupt { position, source: Corrupt::Blob { stored: blob.hash, found } })
}

/// The stored snapshot with its checksum, and the hash of the commit that ends at its version. One whose columns
/// do not read back is none.
pub(super) fn snapshot(
    connection: &Connection,
    stream: &StreamKey,
) -> rusqlite::Result<Option<(Snapshot, Hash, Option<Hash>)>> {
    let mut select = connection.prepare_cached(
        "select s.fold, s.version, s.hash, s.checksum, s.body, c.hash from snapshots s
         left join commits c on c.stream = s.stream and c.last_version = s.version where s.stream = ?1",
    )?;
    let found = select.query_row([stream.as_str()], |row| {
        let version = Version(row.get::<_, i64>(1)?.cast_unsigned());
        let snapshot =
            Snapshot { fold: row.get(0)?, version, hash: Hash(row.get(2)?), bytes: row.get(4)? };
        let at = row.get::<_, Option<[u8; 32]>>(5)?;
        Ok((snapshot, Hash(row.get(3)?), at.map(Hash)))
    });
    match found {
        Ok(found) => Ok(Some(found)),
        Err(
            rusqlite::Error::QueryReturnedNoRows
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}
