//! Blobs in pieces. The head is written last and says that all pieces are there; erasing overwrites the pieces in the
//! servers' files and leaves a mark, so that a reader is told.

use super::Shared;
use super::api::{Ask, Tries, context, leader, persist, publish, stream, unavailable};
use super::settings::{APPEND_MAX, PIECE_BYTES, READ_MAX};
use super::settle::Heard;
use crate::slot::Candidate;
use crate::{Blob, Corrupt, Outage, StoreError};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use events::journal::hash;
use events::record::{BlobRef, Hash, Position, Shard};
use events::subject::{Part, Subject};
use std::sync::Arc;

impl Shared {
    fn blob_subject(&self, hash: Hash, part: Part) -> String {
        self.namespace.spell(&Subject::Blob(hash, part))
    }

    /// Writes the blobs that came with a commit; names one that was referred to, not given, and is not there.
    pub(super) async fn put_blobs(
        &self,
        client: &Client,
        candidate: &Candidate,
    ) -> Result<Option<Hash>, StoreError> {
        for referred in &candidate.referred {
            if self.head(referred.hash).await?.is_none() {
                return Ok(Some(referred.hash));
            }
        }
        for blob in &candidate.blobs {
            self.put_blob(client, blob).await?;
        }
        Ok(None)
    }

    async fn put_blob(&self, client: &Client, blob: &Blob) -> Result<(), StoreError> {
        let hash = blob.reference.hash;
        if self.head(hash).await?.is_some() {
            return Ok(());
        }
        for (nth, piece) in (0..).zip(blob.bytes.chunks(PIECE_BYTES)) {
            let subject = self.blob_subject(hash, Part::Piece(nth));
            keep(client, &subject, Bytes::copy_from_slice(piece)).await?;
        }
        let size = blob.reference.bytes.to_string();
        keep(client, &self.blob_subject(hash, Part::Head), size.into()).await?;
        Ok(())
    }

    /// Keeps a blob that no commit refers to yet.
    pub(super) async fn keep_blob(&self, blob: &Blob) -> Result<(), StoreError> {
        let client = self.link.up()?;
        self.put_blob(&client, blob).await
    }

    /// How large a blob is, if it is whole.
    async fn head(&self, hash: Hash) -> Result<Option<u64>, StoreError> {
        let subject = self.blob_subject(hash, Part::Head);
        let Some((body, position)) =
            self.newest_of(&self.namespace.blob_stream(), &subject).await?
        else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&body).ok().and_then(|text| text.parse().ok());
        let source = Corrupt::Column("blob head");
        size.map(Some).ok_or(StoreError::Corrupt { position, source })
    }

    /// The newest message of a subject beside the shards, from the leader.
    pub(super) async fn newest_of(
        &self,
        name: &str,
        subject: &str,
    ) -> Result<Option<(Bytes, Position)>, StoreError> {
        let ask = || async move { leader(self.link.up()?, name, &Ask::Last(subject)).await };
        let message = persist(READ_MAX, ask).await?;
        Ok(message.map(|message| {
            (message.payload, Position { shard: Shard::default(), sequence: message.sequence })
        }))
    }

    pub(super) async fn blob(&self, blob: &BlobRef) -> Result<Arc<[u8]>, StoreError> {
        let name = self.namespace.blob_stream();
        let Some(size) = self.head(blob.hash).await? else {
            let mark = self.blob_subject(blob.hash, Part::Erased);
            return Err(match self.newest_of(&name, &mark).await? {
                Some(_) => StoreError::Erased(blob.hash),
                None => StoreError::NoBlob(blob.hash),
            });
        };
        let mut bytes: Vec<u8> = vec![];
        let mut position = super::read::nowhere(Shard::default());
        for nth in 0.. {
            if u64::try_from(bytes.len()).is_ok_and(|length| length >= size) {
                break;
            }
            let subject = self.blob_subject(blob.hash, Part::Piece(nth));
            // Erased meanwhile, or lost.
            let Some((piece, at)) = self.newest_of(&name, &subject).await? else { break };
            bytes.extend_from_slice(&piece);
            position = at;
        }
        let found = hash(&bytes);
        if found == blob.hash {
            return Ok(bytes.into());
        }
        if self.head(blob.hash).await?.is_none() {
            return Err(StoreError::Erased(blob.hash));
        }
        Err(StoreError::Corrupt { position, source: Corrupt::Blob { stored: blob.hash, found } })
    }

    pub(super) async fn erase_blob(&self, blob: &BlobRef) -> Result<(), StoreError> {
        let client = self.link.up()?;
        let Some(size) = self.head(blob.hash).await? else { return Ok(()) };
        keep(&client, &self.blob_subject(blob.hash, Part::Erased), Bytes::new()).await?;
        self.delete(&self.blob_subject(blob.hash, Part::Head)).await?;
        let piece = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
        let pieces = u32::try_from(size.div_ceil(piece)).unwrap_or(u32::MAX);
        for nth in 0..pieces {
            self.delete(&self.blob_subject(blob.hash, Part::Piece(nth))).await?;
        }
        Ok(())
    }

    /// Overwrites the newest message of a subject, if there is one.
    async fn delete(&self, subject: &str) -> Result<(), StoreError> {
        let name = self.namespace.blob_stream();
        let Some((_, at)) = self.newest_of(&name, subject).await? else { return Ok(()) };
        let name = name.as_str();
        let erase = || async move {
            let stream = stream(self.link.up()?, name).await?;
            match stream.delete_message(at.sequence).await {
                Ok(_) => Ok(()),
                // An earlier try did it and was not heard.
                Err(error) if error.to_string().contains("no message found") => Ok(()),
                Err(error) => Err(unavailable(&error)),
            }
        };
        persist(READ_MAX, erase).await
    }

    /// Blobs that are whole.
    pub(super) async fn blobs(&self) -> Result<u64, StoreError> {
        let subject = format!("STREAM.INFO.{}", self.namespace.blob_stream());
        let heads = serde_json::json!({ "subjects_filter": self.namespace.blob_heads() });
        let (subject, heads) = (subject.as_str(), &heads);
        let count = || async move {
            let context = context(self.link.up()?);
            let info: serde_json::Value =
                context.request(subject.to_owned(), heads).await.map_err(|e| unavailable(&e))?;
            if let Some(error) = info.get("error") {
                return Err(Outage::Unavailable(error.to_string()));
            }
            let listed = info.pointer("/state/subjects").and_then(|found| found.as_object());
            let listed = listed.map_or(0, |subjects| u64::try_from(subjects.len()).unwrap_or(0));
            // Of many, only a page is listed and the number of all is said.
            Ok(info.get("total").and_then(serde_json::Value::as_u64).unwrap_or(0).max(listed))
        };
        persist(READ_MAX, count).await
    }
}

/// Writes a message that may be written twice: the newest of its subject takes the place of the one before.
pub(super) async fn keep(client: &Client, subject: &str, body: Bytes) -> Result<(), StoreError> {
    let mut tries = Tries::within(APPEND_MAX);
    loop {
        match publish(client, subject.to_owned(), HeaderMap::new(), body.clone()).await {
            Heard::Stored(_) | Heard::Repeated(_) => return Ok(()),
            Heard::Refused(outage) => return Err(StoreError::Outage(outage)),
            Heard::Taken | Heard::Busy | Heard::NotSent | Heard::Silence => {
                if !tries.again().await {
                    let why = format!("no leader said that {subject} is stored");
                    return Err(StoreError::Outage(Outage::Unavailable(why)));
                }
            }
        }
    }
}
