//! What the owner of a stream believes, followed from another node: the log is the same for both, so nobody is asked
//! twice.

use crate::host::Hosted;
use crate::order::Observed;
use crate::task;
use events::codec::CodecError;
use events::record::{Recorded, StreamKey};
use std::sync::Arc;
use std::time::Duration;
use store::{Store, StoreError};
use tokio::sync::watch;

/// Commits of one page.
const PAGE_COMMITS: usize = 256;
/// How often the log is looked at although no notice came: a notice is a courtesy, the log is the truth.
const LOOK: Duration = Duration::from_secs(2);

/// Why a stream is followed no further: whoever watches asks its owner again.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the stream can not be read")]
    Store(#[from] StoreError),
    #[error("the stream does not decode in this build")]
    Codec(#[from] CodecError),
    #[error("the log and the rules of this build disagree")]
    Illegal(#[from] events::aggregate::IllegalEvent),
}

/// Each belief after the given one, those in between perhaps left out, for as long as somebody watches.
pub(super) fn watch<A: Hosted>(
    store: Store,
    id: A::Id,
    first: Observed<A>,
) -> watch::Receiver<Observed<A>> {
    let (sender, receiver) = watch::channel(first);
    task::spawn(task::Kind::Follow, async move {
        if let Err(error) = follow::<A>(&store, id, &sender).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(stream = %A::stream(&id), error, "a far stream is followed no further");
        }
    });
    receiver
}

async fn follow<A: Hosted>(
    store: &Store,
    id: A::Id,
    sender: &watch::Sender<Observed<A>>,
) -> Result<(), Ended> {
    let stream = A::stream(&id);
    let mut notice = store.notice(store.shard(&stream));
    while !sender.is_closed() {
        notice.mark_unchanged();
        let belief = sender.borrow().clone();
        let more = match further::<A>(store, &stream, belief).await {
            Ok((belief, read)) => {
                if read > 0 {
                    sender.send_replace(belief);
                }
                read == PAGE_COMMITS
            }
            // It is looked for again, as if no notice had come.
            Err(Ended::Store(StoreError::Outage(_))) => false,
            Err(ended) => return Err(ended),
        };
        if !more {
            tokio::select! {
                told = notice.changed() => if told.is_err() { tokio::time::sleep(LOOK).await },
                () = sender.closed() => return Ok(()),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
    Ok(())
}

/// The belief after the next page, and how many commits that had.
async fn further<A: Hosted>(
    store: &Store,
    stream: &StreamKey,
    mut belief: Observed<A>,
) -> Result<(Observed<A>, usize), Ended> {
    let page = store.read(stream, belief.version, PAGE_COMMITS).await?;
    for recorded in &page {
        belief = step::<A>(store, belief, recorded).await?;
    }
    Ok((belief, page.len()))
}

async fn step<A: Hosted>(
    store: &Store,
    belief: Observed<A>,
    recorded: &Recorded,
) -> Result<Observed<A>, Ended> {
    let mut state = Arc::unwrap_or_clone(belief.state);
    for entry in &recorded.commit.entries {
        let payload = store.payload(entry).await?;
        state = A::evolve(state, &A::decode(entry.kind, entry.schema, &payload)?)?;
    }
    let (version, position) = (recorded.commit.last_version(), recorded.position);
    Ok(Observed { version, position, state: Arc::new(state) })
}
