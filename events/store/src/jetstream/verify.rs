//! Reads every shard from its start and reports what is not as it was written: the same checks as of a file, but for
//! those of columns that only a file has.

use super::Shared;
use super::api::{Page, batch, persist};
use super::message::{Columns, recorded};
use super::settings::READ_MAX;
use crate::follow::{PAGE_BYTES, PAGE_COMMITS};
use crate::verify::{Payloads, Problem, Report, What};
use crate::{Corrupt, StoreError};
use async_nats::jetstream::message::StreamMessage;
use events::aggregate::Wake;
use events::journal::{genesis, rolling};
use events::record::{
    Boot, Commit, Entry, Epoch, Hash, Payload, Position, Recorded, Shard, StreamKey, Version,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a stream's wake is derived, from whichever thread reads.
pub(crate) type WakeOf<'a> =
    &'a (dyn Fn(&StreamKey, &[Recorded], Payloads<'_>) -> Option<Wake> + Sync);

/// What a stream's next commit must be like. About 200 bytes a stream: of all streams of one shard at a time.
struct Chain {
    next: (Hash, Version),
    owner: (Epoch, Boot),
    last: (u64, Option<i64>),
    sound: bool,
}

struct Pass<'a> {
    shared: &'a Shared,
    report: Report,
    chains: BTreeMap<StreamKey, Chain>,
}

impl Shared {
    /// Reads everything. `wake_of` derives a stream's wake from its commits, or declines with none.
    pub(super) async fn verify(&self, wake_of: WakeOf<'_>) -> Result<Report, StoreError> {
        let report = Report { journal: self.journal, ..Report::default() };
        let mut pass = Pass { shared: self, report, chains: BTreeMap::new() };
        for view in &self.shards {
            pass.chains.clear();
            pass.shard(view.shard).await?;
            pass.wakes(wake_of).await?;
        }
        Ok(pass.report)
    }
}

impl Pass<'_> {
    async fn shard(&mut self, shard: Shard) -> Result<(), StoreError> {
        let shared = self.shared;
        let Some(view) = shared.shard(shard) else { return Ok(()) };
        // What is appended meanwhile is the next verification's.
        let newest = shared.newest(view).await?;
        let (mut cursor, mut order) = (0, Hash::default());
        while cursor < newest {
            let page = Page { messages: PAGE_COMMITS, bytes: PAGE_BYTES };
            let view = view.as_ref();
            let ask = || async move {
                let client = shared.link.up()?;
                batch(&client, &view.name, ">", cursor + 1, page).await
            };
            let messages = persist(READ_MAX, ask).await?.messages;
            if messages.is_empty() {
                // The leader has more than any replica that answers.
                self.missing(shard, cursor + 1, newest + 1);
                break;
            }
            for message in messages.iter().take_while(|message| message.sequence <= newest) {
                if message.sequence != cursor + 1 {
                    self.missing(shard, cursor + 1, message.sequence);
                }
                cursor = message.sequence;
                order = self.message(shard, message, order).await?;
            }
            if messages.iter().any(|message| message.sequence > newest) {
                break;
            }
        }
        for (one, other) in self.report.rolling.0.iter_mut().zip(order.0) {
            *one ^= other;
        }
        Ok(())
    }

    fn missing(&mut self, shard: Shard, expected: u64, found: u64) {
        let position = Position { shard, sequence: found };
        self.problem(Some(position), None, What::Sequence { expected, found });
    }

    fn problem(
        &mut self,
        position: Option<Position>,
        stream: Option<(StreamKey, Version)>,
        what: What,
    ) {
        let (stream, version) = stream.unzip();
        self.report.add(Problem { position, stream, version, what });
    }

    /// One message; returns the hash over the order after it.
    async fn message(
        &mut self,
        shard: Shard,
        message: &StreamMessage,
        order: Hash,
    ) -> Result<Hash, StoreError> {
        self.report.commits += 1;
        match recorded(&self.shared.namespace, shard, message) {
            Ok((found, columns)) => {
                self.commit(&found, &columns);
                self.blobs(&found).await?;
                Ok(rolling(order, message.sequence, found.hash))
            }
            Err((position, corrupt)) => {
                // Its headers lead on, so that one changed commit is one problem and not all after it.
                let columns =
                    Columns::read(&self.shared.namespace, &message.subject, &message.headers).ok();
                let stream = columns.as_ref().map(|c| (c.stream.clone(), c.last));
                self.problem(Some(position), stream, corrupt.into());
                let Some(columns) = columns else { return Ok(order) };
                let chain = self.chain(&columns.stream);
                chain.sound = false;
                chain.next = (columns.hash, columns.last.plus(1));
                Ok(rolling(order, message.sequence, columns.hash))
            }
        }
    }

    fn chain(&mut self, stream: &StreamKey) -> &mut Chain {
        let journal = self.shared.journal;
        self.chains.entry(stream.clone()).or_insert_with(|| {
            self.report.streams += 1;
            Chain {
                next: (genesis(journal, stream), Version(1)),
                owner: (Epoch(0), Boot(0)),
                last: (0, None),
                sound: true,
            }
        })
    }

    fn commit(&mut self, found: &Recorded, columns: &Columns) {
        let Recorded { position, hash, commit } = found;
        let entries = u64::try_from(commit.entries.len()).unwrap_or(u64::MAX);
        self.report.entries = self.report.entries.saturating_add(entries);
        let journal = self.shared.journal;
        let chain = self.chain(&commit.stream);
        let faults = faults(journal, commit, chain);
        chain.next = (*hash, commit.last_version().plus(1));
        chain.owner = (commit.epoch, commit.boot);
        chain.last = (position.sequence, columns.wake);
        chain.sound &= faults.is_empty();
        for what in faults {
            let stream = Some((commit.stream.clone(), commit.last_version()));
            self.problem(Some(*position), stream, what);
        }
    }

    async fn blobs(&mut self, found: &Recorded) -> Result<(), StoreError> {
        for entry in &found.commit.entries {
            let Payload::Blob(blob) = &entry.payload else { continue };
            self.report.blobs += 1;
            let what = match self.shared.blob(blob).await {
                Ok(bytes) if u64::try_from(bytes.len()) == Ok(blob.bytes) => continue,
                Ok(_) => What::BlobSize(blob.hash),
                Err(StoreError::Erased(_)) => {
                    self.report.erased += 1;
                    continue;
                }
                Err(StoreError::NoBlob(hash)) => What::BlobMissing(hash),
                Err(StoreError::Corrupt { source, .. }) => source.into(),
                Err(other) => return Err(other),
            };
            let stream = Some((found.commit.stream.clone(), found.commit.last_version()));
            self.problem(Some(found.position), stream, what);
        }
        Ok(())
    }

    /// Derives every wake again. One whole stream is in memory at a time.
    async fn wakes(&mut self, wake_of: WakeOf<'_>) -> Result<(), StoreError> {
        for (stream, chain) in std::mem::take(&mut self.chains) {
            if !chain.sound {
                continue;
            }
            let mut commits = self.shared.read(&stream, Version::EMPTY, usize::MAX).await?;
            commits.retain(|recorded| recorded.position.sequence <= chain.last.0);
            let mut payloads: BTreeMap<Hash, Arc<[u8]>> = BTreeMap::new();
            for entry in commits.iter().flat_map(|recorded| &recorded.commit.entries) {
                if let Payload::Blob(blob) = &entry.payload
                    && let Ok(bytes) = self.shared.blob(blob).await
                {
                    payloads.insert(blob.hash, bytes);
                }
            }
            let payload = |entry: &Entry| match &entry.payload {
                Payload::Inline(bytes) => Some(bytes.clone()),
                Payload::Blob(blob) => payloads.get(&blob.hash).cloned(),
            };
            let payload: Payloads<'_> = &payload;
            if let Some(derived) = wake_of(&stream, &commits, payload) {
                self.report.wakes += 1;
                let stored = crate::slot::wake(chain.last.1);
                if stored != derived {
                    let shard = self.shared.shard_of(&stream).shard;
                    let position = Position { shard, sequence: chain.last.0 };
                    let version = Version(chain.next.1.0.saturating_sub(1));
                    let what = What::Wake { stored, derived };
                    self.problem(Some(position), Some((stream, version)), what);
                }
            }
        }
        Ok(())
    }
}

fn faults(journal: events::record::JournalId, commit: &Commit, chain: &Chain) -> Vec<What> {
    let mut faults: Vec<What> = vec![];
    let (prev, expected) = chain.next;
    if commit.journal != journal {
        faults.push(What::Journal(commit.journal));
    }
    if commit.first_version != expected {
        faults.push(Corrupt::Versions { expected, found: commit.first_version }.into());
    }
    if commit.prev != prev {
        faults.push(Corrupt::Link { expected: prev, found: commit.prev }.into());
    }
    let (epoch, boot) = chain.owner;
    let same_owner_other_life = commit.epoch == epoch && commit.boot != boot && chain.last.0 > 0;
    if commit.epoch < epoch || same_owner_other_life {
        faults.push(What::Epoch);
    }
    faults
}
