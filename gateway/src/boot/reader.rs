//! Whether this build may take part in a journal: it reads what the journal says of itself before anything else.

use events::aggregate::Aggregate;
use events::codec::CodecError;
use events::record::Version;
use events::settings::{Reader, Settings, SettingsId, State};
use store::{Store, StoreError};

/// Raises of a minimum that are read at once; there are a few in a journal's life.
const PAGE_COMMITS: usize = 64;

/// This build may not take part.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// Start the newer build.
    #[error(
        "this journal wants builds that read {wants}, and {} reads {}: start the build that its other nodes run (`piton nodes ls`); there is no way back",
        env!("CARGO_PKG_VERSION"), Reader::OURS
    )]
    TooOld {
        /// The minimum.
        wants: Reader,
    },
    /// Start the newer build.
    #[error("the settings of this journal were written by a newer build: start that one")]
    Newer(#[source] CodecError),
    /// The settings are not what they were.
    #[error("the settings of this journal contradict each other: run `piton journal verify`")]
    Illegal(#[from] events::aggregate::IllegalEvent),
    /// Mend the store.
    #[error("the settings of this journal can not be read")]
    Store(#[from] StoreError),
}

/// Reads the journal's settings and refuses what this build is too old for.
pub(super) async fn check(store: &Store) -> Result<(), ReaderError> {
    let stream = Settings::stream(&SettingsId::Journal);
    let (mut state, mut version) = (State::default(), Version::EMPTY);
    loop {
        let page = store.read(&stream, version, PAGE_COMMITS).await?;
        let Some(last) = page.last() else { break };
        version = last.commit.last_version();
        for entry in page.iter().flat_map(|recorded| &recorded.commit.entries) {
            let payload = store.payload(entry).await?;
            let event = Settings::decode(entry.kind, entry.schema, &payload);
            state = Settings::evolve(state, &event.map_err(ReaderError::Newer)?)?;
        }
    }
    if state.reader > Reader::OURS {
        return Err(ReaderError::TooOld { wants: state.reader });
    }
    Ok(())
}
