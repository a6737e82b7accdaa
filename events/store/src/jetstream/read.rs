//! Reading: tails from the leader, commits from any replica until the leader's tail is reached. No consumer is made for
//! a stream: there are more of them than a server has consumers.
//!
//! Nothing is handed out unchecked: bytes against hash, headers against bytes, each commit against the one before.

use super::api::{Ask, Page, batch, leader, persist};
use super::message::{recorded, tail};
use super::settings::READ_MAX;
use super::{Place, ShardView, Shared};
use crate::follow::{PAGE_BYTES, PAGE_COMMITS};
use crate::memory::empty_tail;
use crate::{Corrupt, FollowError, Outage, StoreError};
use async_nats::jetstream::message::StreamMessage;
use events::journal::genesis;
use events::record::{Position, Recorded, Shard, StreamKey, Tail, Version};
use events::subject::Subject;

const PAGE: Page = Page { messages: PAGE_COMMITS, bytes: PAGE_BYTES };

impl Shared {
    /// The newest commit of a stream, as its leader has it.
    pub(super) async fn tail(&self, stream: &StreamKey) -> Result<Tail, StoreError> {
        let shard = self.shard_of(stream);
        let subject = self.namespace.spell(&Subject::Journal(stream.clone()));
        let message = self.leader(shard, &Ask::Last(&subject)).await?;
        let found = match message {
            None => empty_tail(self.journal, stream),
            Some(message) => tail(&self.commit(shard, &message)?),
        };
        self.remember(stream, found);
        Ok(found)
    }

    pub(super) async fn leader(
        &self,
        shard: &ShardView,
        ask: &Ask<'_>,
    ) -> Result<Option<StreamMessage>, StoreError> {
        persist(READ_MAX, || async move { leader(self.link.up()?, &shard.name, ask).await }).await
    }

    fn commit(&self, shard: &ShardView, message: &StreamMessage) -> Result<Recorded, StoreError> {
        let found = recorded(&self.namespace, shard.shard, message);
        let (recorded, _) =
            found.map_err(|(position, source)| StoreError::Corrupt { position, source })?;
        Ok(recorded)
    }

    /// A stream's commits that end after a version, oldest first.
    pub(super) async fn read(
        &self,
        stream: &StreamKey,
        after: Version,
        commits_max: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let end = self.tail(stream).await?;
        if end.version <= after || commits_max == 0 {
            return Ok(vec![]);
        }
        let shard = self.shard_of(stream);
        let subject = self.namespace.spell(&Subject::Journal(stream.clone()));
        let start = self.place(stream).filter(|place| place.version <= after);
        let mut chain = Chain { journal: self.journal, stream, before: start };
        // From the commit at our place itself: it must be there, for the next one links to it.
        let mut from = start.map_or(1, |place| place.sequence);
        let mut found: Vec<Recorded> = vec![];
        loop {
            let messages = self.messages(shard, &subject, (from, end.sequence)).await?;
            for message in &messages {
                from = message.sequence.saturating_add(1);
                let recorded = self.commit(shard, message)?;
                if !chain.link(&recorded)? || recorded.commit.last_version() <= after {
                    continue;
                }
                found.push(recorded);
                if found.len() >= commits_max {
                    break;
                }
            }
            if found.len() >= commits_max || from > end.sequence {
                break;
            }
        }
        if let Some(before) = chain.before {
            self.keep_place(stream, before);
        }
        Ok(found)
    }

    /// The next messages of a subject, up to a sequence that the leader has; at least one.
    async fn messages(
        &self,
        shard: &ShardView,
        subject: &str,
        (from, end): (u64, u64),
    ) -> Result<Vec<StreamMessage>, StoreError> {
        let page = persist(READ_MAX, || async move {
            let client = self.link.up()?;
            let batch = batch(&client, &shard.name, subject, from, PAGE).await?;
            let newer = batch.messages.iter().filter(|message| message.sequence <= end);
            let messages: Vec<StreamMessage> = newer.cloned().collect();
            if messages.is_empty() {
                // A replica that is behind the leader's tail.
                return Err(Outage::Unavailable(format!("a replica of {} is behind", shard.name)));
            }
            Ok(messages)
        });
        page.await
    }

    /// The commits after a cursor, as a follower of the shard wants them.
    pub(super) async fn page(
        &self,
        shard: Shard,
        after: u64,
    ) -> Result<Vec<Recorded>, FollowError> {
        let view = self.shard(shard).ok_or(FollowError::NoShard(shard))?;
        let ask = || async move {
            let client = self.link.up()?;
            batch(&client, &view.name, ">", after.max(1), PAGE).await
        };
        let batch = persist(READ_MAX, ask).await?;
        let mut page = vec![];
        let mut messages = batch.messages.iter().peekable();
        if after > 0 {
            match messages.peek().map(|message| message.sequence) {
                Some(found) if found == after => {
                    messages.next();
                }
                Some(found) => {
                    return Err(FollowError::Gap { after: after.saturating_sub(1), found });
                }
                // Nothing at the cursor: the log is shorter, or the replica is behind.
                None => return self.ahead(view, after).await,
            }
        }
        for message in messages {
            page.push(self.commit(view, message)?);
        }
        if page.is_empty() && batch.done && *view.notice().borrow() > after {
            // A replica that is behind: the follower looks again at once, so not in a hurry.
            tokio::time::sleep(super::settings::WAIT_FIRST).await;
            view.prompt();
        }
        Ok(page)
    }

    /// A cursor that no replica's message stands at.
    async fn ahead(&self, view: &ShardView, cursor: u64) -> Result<Vec<Recorded>, FollowError> {
        let newest = self.newest(view).await?;
        if cursor > newest {
            return Err(FollowError::Ahead { cursor, newest });
        }
        tokio::time::sleep(super::settings::WAIT_FIRST).await;
        view.prompt();
        Ok(vec![])
    }
}

/// Each commit against the one before.
struct Chain<'a> {
    journal: events::record::JournalId,
    stream: &'a StreamKey,
    before: Option<Place>,
}

impl Chain<'_> {
    /// False for the commit at the place where the chain starts: it was handed out before.
    fn link(&mut self, recorded: &Recorded) -> Result<bool, StoreError> {
        let Recorded { position, hash, commit } = recorded;
        let corrupt = |source| StoreError::Corrupt { position: *position, source };
        let place =
            Place { version: commit.last_version(), hash: *hash, sequence: position.sequence };
        let (expected, prev) = match self.before {
            Some(before) if before.sequence == position.sequence => {
                // What was handed out before reads the same.
                if before != place {
                    return Err(corrupt(Corrupt::Link { expected: before.hash, found: *hash }));
                }
                return Ok(false);
            }
            Some(before) => (before.version.plus(1), before.hash),
            None => (Version(1), genesis(self.journal, self.stream)),
        };
        if commit.first_version != expected {
            let found = commit.first_version;
            return Err(corrupt(Corrupt::Versions { expected, found }));
        }
        if commit.prev != prev {
            return Err(corrupt(Corrupt::Link { expected: prev, found: commit.prev }));
        }
        self.before = Some(place);
        Ok(true)
    }
}

/// Where a commit is, for an error that names one that is not there.
pub(super) fn nowhere(shard: Shard) -> Position {
    Position { shard, sequence: 0 }
}
