//! The public events: each shard is told by one node, the owner of its anchor partition, from the shard's own mark on.
//!
//! At least once and in order. A node that dies leaves its mark behind; the next owner begins there, and what it tells
//! again has the same versions. Nothing is told of keys, credentials and settings: those
//! are nobody's business outside.

use crate::wire::fact::Bodies;
use crate::wire::public::Public;
use actors::bus::{Announcement, EVENT_BYTES_MAX, Mark, NotTold, Outside};
use actors::served::Served;
use events::catalogue::{self, Fact};
use events::id::Partition;
use events::record::{Recorded, Shard, StreamKey, StreamKind, Version};
use events::run;
use events::session;
use events::subject::{Meta, Subject, Token};
use futures_util::{StreamExt, pin_mut};
use std::collections::HashMap;
use std::time::Duration;
use store::{FollowError, Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

/// Commits that are told before the mark moves at the latest: so many are told twice after a death, at most.
const COMMITS_MAX: usize = 256;
/// How long at most the mark stays behind what was told.
const MARK_AFTER: Duration = Duration::from_millis(500);
/// The wait before a shard that could not be told is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// Streams whose project is remembered; of others it is read from their first commit.
const PROJECTS_MAX: usize = 4_096;

/// Why a shard is not told further now.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Out(#[from] NotTold),
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Tells one shard.
#[derive(Debug)]
pub struct Teller {
    store: Store,
    out: Outside,
    bodies: Bodies,
    shard: Shard,
    projects: HashMap<StreamKey, Token>,
}

/// The partition whose owner tells a shard: the first one that is kept in it.
#[must_use]
pub fn anchor(shard: Shard) -> Partition {
    Partition::of(u64::from(shard.0))
}

impl Teller {
    /// Of a shard, over a way out.
    #[must_use]
    pub fn new(store: Store, out: Outside, bodies: Bodies, shard: Shard) -> Self {
        Self { store, out, bodies, shard, projects: HashMap::new() }
    }

    /// Tells the shard whenever this node owns its anchor, for as long as the node lives.
    pub async fn run(mut self, mut served: watch::Receiver<Served>) {
        let anchor = anchor(self.shard);
        while served.wait_for(|served| served.contains(anchor)).await.is_ok() {
            let mut lost = served.clone();
            let stopped = tokio::select! {
                stopped = self.tell() => stopped,
                // Somebody else tells it from the mark on.
                _lost = lost.wait_for(|served| !served.contains(anchor)) => continue,
            };
            if let Err(error) = stopped {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(shard = self.shard.0, error, "public events wait");
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn tell(&mut self) -> Result<(), Stopped> {
        // Before anything is told: only what went over this one is confirmed by it.
        let connection = self.out.connection();
        let mut mark = self.out.mark(Meta::Told(self.shard)).await?;
        let log = self.store.follow(self.shard, mark.sequence);
        pin_mut!(log);
        let (mut told, mut commits) = (mark.sequence, 0_usize);
        let mut mark_at: Option<Instant> = None;
        loop {
            let due = async {
                match mark_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => {
                    mark = self.settle(mark, told, connection).await?;
                    (mark_at, commits) = (None, 0);
                }
                recorded = log.next() => {
                    let Some(recorded) = recorded else { return Ok(()) };
                    let recorded = recorded?;
                    self.commit(&recorded).await?;
                    told = recorded.position.sequence;
                    commits = commits.saturating_add(1);
                    let now = Instant::now();
                    let soon = if commits >= COMMITS_MAX { now } else { now + MARK_AFTER };
                    mark_at = Some(mark_at.map_or(soon, |at| at.min(soon)));
                }
            }
        }
    }

    /// Moves the mark once what was told has reached a server.
    async fn settle(&self, mark: Mark, told: u64, connection: u64) -> Result<Mark, NotTold> {
        self.out.confirm(connection).await?;
        self.out.put_mark(Meta::Told(self.shard), mark, told).await
    }

    async fn commit(&mut self, recorded: &Recorded) -> Result<(), Stopped> {
        let commit = &recorded.commit;
        // A new kind stays inside until somebody decides that it may go out.
        if !matches!(commit.stream.kind(), StreamKind::Session | StreamKind::Run) {
            return Ok(());
        }
        for (version, entry) in (commit.first_version.0..).zip(&commit.entries) {
            let payload = self.store.payload(entry).await?;
            let fact = catalogue::decode(&commit.stream, entry.kind, entry.schema, &payload).ok();
            let project = self.project(&commit.stream, fact.as_ref()).await?;
            let event = Public {
                project: project.as_str(),
                stream: &commit.stream,
                version,
                position: recorded.position,
                at: commit.at,
                fact: fact.as_ref(),
            };
            let Ok(name) = event.name().parse::<Token>() else { continue };
            let mut body = event.body(self.bodies).to_string();
            if body.len() > EVENT_BYTES_MAX {
                body = event.without_data().to_string();
            }
            let headers = event.headers();
            let subject = Subject::Event { project, stream: commit.stream.clone(), event: name };
            self.out.tell(Announcement { subject, headers, body: body.into_bytes() }).await?;
        }
        Ok(())
    }

    /// The project of a stream: its first event says it.
    async fn project(
        &mut self,
        stream: &StreamKey,
        fact: Option<&Fact>,
    ) -> Result<Token, StoreError> {
        let known = self.projects.get(stream).cloned().or_else(|| fact.and_then(project_in));
        let project = match known {
            Some(project) => project,
            None => self.first(stream).await?.unwrap_or_else(|| Token::of_project("default")),
        };
        if self.projects.len() >= PROJECTS_MAX {
            self.projects.clear();
        }
        self.projects.insert(stream.clone(), project.clone());
        Ok(project)
    }

    async fn first(&self, stream: &StreamKey) -> Result<Option<Token>, StoreError> {
        for recorded in self.store.read(stream, Version::EMPTY, 1).await? {
            for entry in &recorded.commit.entries {
                let payload = self.store.payload(entry).await?;
                let fact = catalogue::decode(stream, entry.kind, entry.schema, &payload).ok();
                if let Some(project) = fact.as_ref().and_then(project_in) {
                    return Ok(Some(project));
                }
            }
        }
        Ok(None)
    }
}

fn project_in(fact: &Fact) -> Option<Token> {
    if let Fact::Run(event) = fact
        && let run::Event::Queued(queued) = &**event
    {
        return Some(Token::of_project(&queued.spec.project));
    }
    if let Fact::Session(event) = fact
        && let session::Event::Opened(opened) = &**event
    {
        return Some(Token::of_project(&opened.project));
    }
    None
}
