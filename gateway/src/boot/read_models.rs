//! The read models' start, over a journal that may not read at once.

use super::patience::until_it_reads;
use super::{BootError, VIEWS};
use crate::config::Config;
use ::projections::{self as views, Runner};
use store::Store;

/// Starts the read models.
pub(super) async fn start(
    config: &Config,
    store: &Store,
) -> Result<(views::Handle, Runner), BootError> {
    let path = config.data_dir.join(VIEWS);
    let started = until_it_reads(async || {
        views::start(views::Config { store: store.clone(), path: path.clone() }).await
    });
    started.await.map_err(|source| BootError::Views { path: path.clone(), source })
}
