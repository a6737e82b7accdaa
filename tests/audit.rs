//! What every story's journal must still be when the story is over: each byte, link, head and wake as it should be,
//! and each run decided again as it was.

use events::aggregate::{Aggregate, Wake};
use events::catalogue::{self, Folded};
use events::record::{Boot, JournalId, Recorded, StreamKey, StreamKind};
use events::run::replay::{self, Logic};
use events::run::{Event, Run, State};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use store::jetstream::{LazySync, SHARD_BYTES_MAX, Servers};
use store::verify::{Payloads, Report};
use store::{Connect, Faults, Store};

/// Checks the journal of a data folder whose node is gone; the first problem is returned.
///
/// # Errors
///
/// What is wrong, and where.
pub fn audit(data: &Path) -> Result<Audited, String> {
    let path = data.join("journal.db");
    if !path.exists() {
        return Ok(Audited::default());
    }
    let reader = Reader::keeping(|_| ());
    let report = store::verify::verify(
        &path,
        |stream, commits, payloads| reader.wake_of(stream, commits, payloads),
        |_done, _total| {},
    );
    let report = report.map_err(|error| format!("{}: {error}", path.display()))?;
    reader.done(&report).map(|audited| Audited { runs: audited.0.len(), commits: audited.1 })
}

/// Checks a whole journal on servers, read from them and not through a node, and returns what `keep` makes of each
/// run's events, by the run's stream. Nothing may be at work meanwhile.
///
/// # Errors
///
/// What is wrong, and where.
pub async fn audit_servers<K: Send>(
    (urls, monitors): (Vec<String>, Vec<String>),
    keep: impl Fn(&[Event]) -> K + Send + Sync,
) -> Result<(BTreeMap<String, K>, u64), String> {
    let id = u128::from(std::process::id());
    let connect = Connect {
        servers: Servers::at(urls),
        monitors,
        namespace: "piton".parse().expect("a namespace"),
        boot: Boot(id),
        fresh: JournalId(id),
        replicas: 1,
        shard_bytes_max: SHARD_BYTES_MAX,
        lazy_sync: LazySync::Refuse,
        faults: Faults::none(),
    };
    let store = Store::connect(connect).await.map_err(|error| format!("no journal: {error}"))?;
    let reader = Reader::keeping(keep);
    let wake_of = |stream: &StreamKey, commits: &[Recorded], payloads: Payloads<'_>| {
        reader.wake_of(stream, commits, payloads)
    };
    let report = store.verify(wake_of).await;
    store.close().await;
    let report = report.map_err(|error| format!("the journal does not read: {error}"))?;
    reader.done(&report.ok_or("it is on no servers")?)
}

/// How much was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audited {
    /// Runs that were decided again.
    pub runs: usize,
    /// Commits whose bytes were checked.
    pub commits: u64,
}

/// Folds each stream as it is verified, and decides each run again.
struct Reader<K, F> {
    keep: F,
    kept: Mutex<BTreeMap<String, Result<K, String>>>,
}

impl<K, F: Fn(&[Event]) -> K> Reader<K, F> {
    fn keeping(keep: F) -> Self {
        Self { keep, kept: Mutex::default() }
    }

    /// None for a stream that does not read or fold.
    fn wake_of(
        &self,
        stream: &StreamKey,
        commits: &[Recorded],
        payloads: Payloads<'_>,
    ) -> Option<Wake> {
        let mut folded = Folded::empty(stream.kind());
        let mut said = vec![];
        for recorded in commits {
            let mut events = vec![];
            for entry in &recorded.commit.entries {
                let payload = payloads(entry)?;
                let fact = catalogue::decode(stream, entry.kind, entry.schema, &payload).ok()?;
                folded = folded.evolve(&fact).ok()?;
                if stream.kind() == StreamKind::Run {
                    events.push(Run::decode(entry.kind, entry.schema, &payload).ok()?);
                }
            }
            said.push(events);
        }
        if stream.kind() == StreamKind::Run {
            let whole = re_drive(commits, &said).map(|()| (self.keep)(&said.concat()));
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(stream.to_string(), whole);
        }
        folded.wake()
    }

    fn done(self, report: &Report) -> Result<(BTreeMap<String, K>, u64), String> {
        if let Some(problem) = report.problems.first() {
            return Err(format!("{problem}, one of {}", report.problems_count));
        }
        let kept = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.into_iter().map(|(stream, whole)| match whole {
            Ok(whole) => Ok((stream, whole)),
            Err(why) => Err(format!("{stream}: {why}")),
        });
        Ok((kept.collect::<Result<_, String>>()?, report.commits))
    }
}

fn re_drive(commits: &[Recorded], said: &[Vec<Event>]) -> Result<(), String> {
    let (mut state, mut logic) = (State::default(), None);
    for (recorded, events) in commits.iter().zip(said) {
        let first = events.first().ok_or("a commit without events")?;
        let met: Logic = *logic.get_or_insert_with(|| replay::logic(first));
        state = replay::commit(state, events, recorded.commit.at, met)
            .map_err(|difference| format!("at {}: {difference}", recorded.position))?;
    }
    Ok(())
}
