//! How a host gets its memory: a snapshot if one fits, then the tail of the stream, each commit checked and folded.
//!
//! A wrong state would decide wrongly for ever, so nothing is skipped: what does not decode or may not follow ends
//! the host, and a snapshot that can not be read costs time only.

use super::{Effects, Host, HostError, Hosted, Known, Memory};
use crate::cluster::bucket::uptime;
use events::aggregate::Aggregate;
use events::record::{Position, Recorded, Tail, Version};
use std::sync::Arc;
use store::{Snapshot, StoreError};

/// Commits of the first look. Fewer, of fewer entries than make a snapshot, are a whole stream that has none.
const FIRST_COMMITS: usize = 32;
/// Commits of one page, so that no read holds the store for long.
const PAGE_COMMITS: usize = 256;
/// Entries folded since the newest snapshot that make another one worth its write: folding them again takes about
/// as long as loading it.
const SNAPSHOT_EVERY: usize = 256;
/// Counts the shapes of what stands in a snapshot beside the state.
const SHAPE: u16 = 1;

impl<A: Hosted> Host<A> {
    /// The stream as the log has it. Most streams are young: one look at the log is all that they need.
    pub(super) async fn replay(&self) -> Result<Memory<A>, HostError> {
        let mut memory = self.empty();
        let first = self.page(&memory, FIRST_COMMITS).await?;
        let entries: usize = first.iter().map(|recorded| recorded.commit.entries.len()).sum();
        if first.len() < FIRST_COMMITS && entries < SNAPSHOT_EVERY {
            self.fold_all(&mut memory, &first).await?;
            self.publish_belief(&mut memory);
            return Ok(memory);
        }
        match self.load().await? {
            Some(kept) => memory = kept,
            None => self.fold_all(&mut memory, &first).await?,
        }
        self.catch_up(&mut memory).await?;
        Ok(memory)
    }

    fn empty(&self) -> Memory<A> {
        Memory {
            state: Arc::default(),
            tail: self.node().store.empty_tail(&self.stream),
            position: Position::default(),
            known: Known::default(),
            correlation: 0,
            effects: Effects::none(),
            intended: uptime(),
            settles: None,
            followers: None,
            unsaved: 0,
            busy: true,
        }
    }

    /// What the newest snapshot says, placed by the commit that it stands on.
    async fn load(&self) -> Result<Option<Memory<A>>, HostError> {
        let (store, stream) = (&self.node().store, &self.stream);
        let snapshot = self.node().gate.read(|| store.snapshot(stream, A::FOLD)).await?;
        let Some(snapshot) = snapshot else { return Ok(None) };
        let Some(kept) = kept::<A>(&snapshot.bytes) else {
            tracing::warn!(%stream, "a snapshot does not decode; the stream is read from its start");
            return Ok(None);
        };
        let before = Version(snapshot.version.0.saturating_sub(1));
        let commits = self.node().gate.read(|| store.read(stream, before, 1)).await?;
        let fits = |at: &Recorded| {
            (at.commit.last_version(), at.hash) == (snapshot.version, snapshot.hash)
        };
        Ok(commits.first().filter(|at| fits(at)).map(|at| {
            let Kept { known, correlation, state } = kept;
            let state = Arc::new(state);
            Memory {
                state,
                tail: tail(at),
                position: at.position,
                known,
                correlation,
                ..self.empty()
            }
        }))
    }

    /// Folds what the log has after what is believed.
    pub(super) async fn catch_up(&self, memory: &mut Memory<A>) -> Result<(), HostError> {
        loop {
            let page = self.page(memory, PAGE_COMMITS).await?;
            self.fold_all(memory, &page).await?;
            if page.len() < PAGE_COMMITS {
                break;
            }
        }
        self.publish_belief(memory);
        Ok(())
    }

    /// What follows in the log on what is believed.
    async fn page(&self, memory: &Memory<A>, commits: usize) -> Result<Vec<Recorded>, HostError> {
        let (store, stream, after) = (&self.node().store, &self.stream, memory.tail.version);
        Ok(self.node().gate.read(|| store.read(stream, after, commits)).await?)
    }

    async fn fold_all(&self, memory: &mut Memory<A>, page: &[Recorded]) -> Result<(), HostError> {
        for recorded in page {
            self.fold(memory, recorded).await?;
        }
        Ok(())
    }

    async fn fold(&self, memory: &mut Memory<A>, recorded: &Recorded) -> Result<(), HostError> {
        let mut state = Arc::unwrap_or_clone(std::mem::take(&mut memory.state));
        for entry in &recorded.commit.entries {
            let payload = self.node().gate.read(|| self.node().store.payload(entry)).await?;
            let event = A::decode(entry.kind, entry.schema, &payload)?;
            state = A::evolve(state, &event)?;
        }
        let stands = (recorded.position, tail(recorded));
        self.believe(memory, Arc::new(state), stands, &recorded.commit.causes);
        Ok(())
    }

    /// Keeps a snapshot when enough was folded since the last one. A host never fails of one that is not kept.
    pub(super) async fn save(&self, memory: &mut Memory<A>) {
        if memory.unsaved < SNAPSHOT_EVERY {
            return;
        }
        memory.unsaved = 0;
        if let Err(error) = self.put(memory).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(stream = %self.stream, error, "a snapshot was not kept");
        }
    }

    async fn put(&self, memory: &Memory<A>) -> Result<(), Unsaved> {
        let Memory { known, correlation, state, tail, .. } = memory;
        let bytes = postcard::to_stdvec(&(SHAPE, known, correlation, &**state))?;
        let snapshot =
            Snapshot { fold: A::FOLD, version: tail.version, hash: tail.hash, bytes: bytes.into() };
        Ok(self.node().store.put_snapshot(&self.stream, snapshot).await?)
    }
}

#[derive(Debug, thiserror::Error)]
enum Unsaved {
    #[error("the state can not be written")]
    State(#[from] postcard::Error),
    #[error("the store did not keep it")]
    Store(#[from] StoreError),
}

struct Kept<A: Aggregate> {
    known: Known,
    correlation: u128,
    state: A::State,
}

fn kept<A: Aggregate>(bytes: &[u8]) -> Option<Kept<A>> {
    // Before the rest, whose shape it says.
    let (shape, rest) = postcard::take_from_bytes::<u16>(bytes).ok()?;
    let decoded = postcard::take_from_bytes(rest).ok().filter(|_| shape == SHAPE)?;
    let ((known, correlation, state), []) = decoded else { return None };
    Some(Kept { known, correlation, state })
}

fn tail(recorded: &Recorded) -> Tail {
    let commit = &recorded.commit;
    Tail {
        version: commit.last_version(),
        hash: recorded.hash,
        epoch: commit.epoch,
        boot: commit.boot,
        sequence: recorded.position.sequence,
    }
}
