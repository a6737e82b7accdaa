//! The texts of artifacts, where the log keeps them, and the files that show them.

pub mod files;

use events::aggregate::Aggregate;
use events::artifact::{Artifacts, Event, Kept, Written};
use events::codec::CodecError;
use events::project::Project;
use events::record::Version;
use store::{Store, StoreError};

/// A version's text can not be had.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A newer build wrote it.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The log does not have what its fold says: restore it.
    #[error("the text of version {0} is not where the log says")]
    Missing(u32),
}

/// The event that holds a version's text.
///
/// # Errors
///
/// [`TextError`] when the log does not give it.
pub async fn text(store: &Store, project: Project, kept: &Kept) -> Result<Written, TextError> {
    let missing = || TextError::Missing(kept.version);
    let after = Version(kept.event.0.saturating_sub(1));
    let commits = store.read(&Artifacts::stream(&project), after, 1).await?;
    let commit = &commits.first().ok_or_else(missing)?.commit;
    let place = kept.event.0.checked_sub(commit.first_version.0).ok_or_else(missing)?;
    let place = usize::try_from(place).map_err(|_| missing())?;
    let entry = commit.entries.get(place).ok_or_else(missing)?;
    let payload = store.payload(entry).await?;
    let Event::Written(written) = Event::decode(entry.kind, entry.schema, &payload)?;
    // Two that agree on everything but the place would otherwise be taken for one another.
    if written.version == kept.version && written.hash == kept.hash {
        return Ok(written);
    }
    Err(missing())
}
