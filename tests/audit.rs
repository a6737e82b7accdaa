//! What every story's journal must still be when the story is over: each byte, link, head and wake as it should be,
//! and each run decided again as it was.

use events::aggregate::Aggregate;
use events::catalogue::{self, Folded};
use events::record::{Recorded, StreamKind};
use events::run::replay::{self, Logic};
use events::run::{Event, Run, State};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

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
    let runs: RefCell<BTreeMap<String, Vec<Recorded>>> = RefCell::default();
    let bytes: RefCell<BTreeMap<(u64, usize), Vec<u8>>> = RefCell::default();
    let report = store::verify::verify(
        &path,
        |stream, commits, payloads| {
            let mut folded = Folded::empty(stream.kind());
            for recorded in commits {
                for (place, entry) in recorded.commit.entries.iter().enumerate() {
                    let payload = payloads(entry)?;
                    let fact =
                        catalogue::decode(stream, entry.kind, entry.schema, &payload).ok()?;
                    folded = folded.evolve(&fact).ok()?;
                    if stream.kind() == StreamKind::Run {
                        bytes
                            .borrow_mut()
                            .insert((recorded.position.sequence, place), payload.to_vec());
                    }
                }
            }
            if stream.kind() == StreamKind::Run {
                runs.borrow_mut().insert(stream.to_string(), commits.to_vec());
            }
            folded.wake()
        },
        |_done, _total| {},
    )
    .map_err(|error| format!("{}: {error}", path.display()))?;
    if let Some(problem) = report.problems.first() {
        return Err(format!("{}: {problem}", path.display()));
    }
    let (runs, bytes) = (runs.into_inner(), bytes.into_inner());
    let (streams, commits) = (runs.len(), report.commits);
    for (stream, recorded) in runs {
        re_drive(&recorded, &bytes).map_err(|why| format!("{stream}: {why}"))?;
    }
    Ok(Audited { runs: streams, commits })
}

/// How much was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audited {
    /// Runs that were decided again.
    pub runs: usize,
    /// Commits whose bytes were checked.
    pub commits: u64,
}

fn re_drive(commits: &[Recorded], bytes: &BTreeMap<(u64, usize), Vec<u8>>) -> Result<(), String> {
    let (mut state, mut logic) = (State::default(), None);
    for recorded in commits {
        let entries = recorded.commit.entries.iter().enumerate();
        let events: Vec<Event> = entries
            .map(|(place, entry)| {
                let payload = bytes
                    .get(&(recorded.position.sequence, place))
                    .ok_or("a payload is missing")?;
                Run::decode(entry.kind, entry.schema, payload).map_err(|error| error.to_string())
            })
            .collect::<Result<_, String>>()?;
        let first = events.first().ok_or("a commit without events")?;
        let met: Logic = *logic.get_or_insert_with(|| replay::logic(first));
        state = replay::commit(state, &events, recorded.commit.at, met)
            .map_err(|difference| format!("at {}: {difference}", recorded.position))?;
    }
    Ok(())
}
