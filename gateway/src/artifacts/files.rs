//! Artifacts as files: `<data>/artifacts/<project>/<name>.md`, the newest version of each, readable without this program.
//!
//! The log is the truth and the files are a view of it, with one exception that goes the other way: a file that a person
//! changed is a version that nobody has yet. It is noticed by its hash, taken into the log and never written over before
//! it stands there. A file is replaced whole, so that a reader never sees half of one.

mod front;
mod tree;

use crate::app::App;
use actors::order::Lane;
use actors::task;
use events::aggregate::Aggregate;
use events::artifact::{Artifacts, Command, Event, Name, Source, Write, Written};
use events::codec::CodecError;
use events::journal;
use events::project::Project;
use events::record::{Actor, Position, Recorded, Shard, StreamKind};
use front::Front;
use futures_util::{StreamExt, pin_mut};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use store::{FollowError, StoreError};
use tokio::task::JoinHandle;
use tree::{Found, Known, Tree};

/// The folder in the data folder.
pub const FOLDER: &str = "artifacts";
/// How often files are looked at for what people changed.
const LOOK: Duration = Duration::from_secs(2);
/// The wait before what could not be read or written is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// Commits after which the cursor is kept at the latest: so many are looked at twice after a kill.
const COMMITS_MAX: usize = 1_024;

/// Why the files stand still for a moment.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("{path} can not be read or written")]
    File { path: PathBuf, source: io::Error },
    #[error("no decision about a changed file: {0}")]
    Undecided(actors::order::NoDecision),
}

/// What came of looking at one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// It is what the log says, or is not there.
    Ours,
    /// It was changed and is in the log now.
    Taken,
    /// It was changed and the log does not take it.
    Refused,
}

/// Keeps the files of this node: one task writes what is committed, one takes what people changed.
#[must_use]
pub fn keep(app: &App) -> Vec<JoinHandle<()>> {
    let tree = Tree::at(app.config.data_dir.join(FOLDER));
    let shards = app.store().shards();
    let mut tasks: Vec<JoinHandle<()>> = shards
        .into_iter()
        .map(|shard| task::spawn(task::Kind::Follow, follow(app.clone(), tree.clone(), shard)))
        .collect();
    tasks.push(task::spawn(task::Kind::Sweep, sweep(app.clone(), tree)));
    tasks
}

/// Writes what one shard commits, for as long as the node lives.
async fn follow(app: App, tree: Tree, shard: Shard) {
    loop {
        if let Err(error) = write_all(&app, &tree, shard).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(shard = shard.0, error, "artifact files wait");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn write_all(app: &App, tree: &Tree, shard: Shard) -> Result<(), Stopped> {
    let cursor = tree.clone();
    let sequence = on_disk(move || cursor.cursor(shard)).await?;
    let mut at = Position { shard, sequence };
    let log = app.store().follow(shard, at.sequence);
    pin_mut!(log);
    let mut since = 0_usize;
    while let Some(recorded) = log.next().await {
        let recorded = recorded?;
        let written = written(app, &recorded).await?;
        at = recorded.position;
        since = since.saturating_add(1);
        for (project, written) in &written {
            show(app, tree, *project, written).await?;
        }
        if !written.is_empty() || since >= COMMITS_MAX {
            let (cursor, sequence) = (tree.clone(), at.sequence);
            on_disk(move || cursor.keep_cursor(shard, sequence)).await?;
            since = 0;
        }
    }
    Ok(())
}

/// What a commit wrote of artifacts.
async fn written(app: &App, recorded: &Recorded) -> Result<Vec<(Project, Written)>, Stopped> {
    let commit = &recorded.commit;
    let (StreamKind::Artifact, Some(project)) =
        (commit.stream.kind(), Artifacts::id(&commit.stream))
    else {
        return Ok(vec![]);
    };
    let mut all = Vec::new();
    for entry in &commit.entries {
        let payload = app.store().payload(entry).await?;
        let Event::Written(written) = Event::decode(entry.kind, entry.schema, &payload)?;
        all.push((project, written));
    }
    Ok(all)
}

/// Shows a version, unless a person's words stand in its place.
async fn show(app: &App, tree: &Tree, project: Project, written: &Written) -> Result<(), Stopped> {
    let seen = app.observe_of::<Artifacts>(project).await.map_err(Stopped::Undecided)?;
    let newest = seen.state.version(&written.name, None);
    if newest.is_some_and(|newest| newest.version > written.version) {
        return Ok(());
    }
    let found = read(tree, project, &written.name).await?;
    let is_this = |found: &Found| journal::hash(found.content().as_bytes()) == written.hash;
    match &found {
        // What a person wrote is what was just committed: only its head is missing.
        Some(found) if is_this(found) => {}
        Some(found) => match take(app, project, &written.name, found).await? {
            Looked::Ours => {}
            // The version that was taken comes by here too.
            Looked::Taken | Looked::Refused => return Ok(()),
        },
        None => {}
    }
    let (tree, name) = (tree.clone(), written.name.clone());
    let page = Front::of(project, written).page(&written.content);
    on_disk(move || tree.write(project, &name, &page, found.as_ref())).await
}

/// Takes a file into the log if a person changed it.
async fn take(app: &App, project: Project, name: &Name, found: &Found) -> Result<Looked, Stopped> {
    if !found.is_changed() {
        return Ok(Looked::Ours);
    }
    let content = found.content().into();
    let asked =
        Write { name: name.clone(), content, over: None, source: Source::Hand, by: Actor::Node };
    let order = app.order(Command::Write(asked), Actor::Node, Lane::Data);
    match app.ask::<Artifacts>(project, order).await.map_err(Stopped::Undecided)? {
        Ok(_) => Ok(Looked::Taken),
        Err(refusal) => {
            let error: &dyn std::error::Error = &refusal;
            tracing::warn!(
                project = project.as_str(),
                artifact = name.as_str(),
                error,
                "artifact_edit_refused"
            );
            Ok(Looked::Refused)
        }
    }
}

/// Looks at the files from time to time, for as long as the node lives.
async fn sweep(app: App, tree: Tree) {
    let mut known = Known::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let (folder, mut looked) = (tree.clone(), known.clone());
        let changed = on_disk(move || {
            let changed = folder.changed(&mut looked)?;
            Ok((looked, changed))
        });
        let changed = match changed.await {
            Ok((looked, changed)) => {
                known = looked;
                changed
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "artifact files can not be listed");
                continue;
            }
        };
        for (project, name) in changed {
            if let Err(error) = look(&app, &tree, project, &name).await {
                // It is looked at again.
                known.remove(&(project, name));
                let error: &dyn std::error::Error = &error;
                tracing::warn!(project = project.as_str(), error, "a changed artifact file waits");
            }
        }
    }
}

/// Looks at one file.
async fn look(app: &App, tree: &Tree, project: Project, name: &Name) -> Result<Looked, Stopped> {
    match read(tree, project, name).await? {
        Some(found) => take(app, project, name, &found).await,
        None => Ok(Looked::Ours),
    }
}

async fn read(tree: &Tree, project: Project, name: &Name) -> Result<Option<Found>, Stopped> {
    let (tree, name) = (tree.clone(), name.clone());
    on_disk(move || tree.read(project, &name)).await
}

/// The disk may take its time; the other tasks of this thread do not wait for it.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, (PathBuf, io::Error)> + Send + 'static,
) -> Result<T, Stopped> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err((PathBuf::new(), io::Error::other(error))));
    done.map_err(|(path, source)| Stopped::File { path, source })
}
