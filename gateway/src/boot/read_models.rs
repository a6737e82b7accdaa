//! The read models' start, over a journal that may not read at once.

use super::{BootError, VIEWS};
use crate::config::Config;
use ::projections::{self as views, Runner};
use std::time::Duration;
use store::{Store, StoreError};

/// How long a start waits until the journal reads, and between two looks. As long as its opening waits for leaders.
const JOURNAL_READS_WITHIN: Duration = Duration::from_secs(25);
const JOURNAL_LOOK: Duration = Duration::from_millis(250);

/// Starts the read models. Servers that elect, or that are behind after a death, are waited for: to end would only be to
/// start again.
pub(super) async fn start(
    config: &Config,
    store: &Store,
) -> Result<(views::Handle, Runner), BootError> {
    let path = config.data_dir.join(VIEWS);
    let deadline = tokio::time::Instant::now() + JOURNAL_READS_WITHIN;
    loop {
        let asked = views::Config { store: store.clone(), path: path.clone() };
        match views::start(asked).await {
            Err(views::StartError::Store(StoreError::Outage(why)))
                if tokio::time::Instant::now() < deadline =>
            {
                tracing::warn!(%why, "the journal does not read yet");
                tokio::time::sleep(JOURNAL_LOOK).await;
            }
            started => return started.map_err(|source| BootError::Views { path, source }),
        }
    }
}
