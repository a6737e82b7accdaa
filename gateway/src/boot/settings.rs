//! What was set durably, as every node follows it: the budgets, and which model was selected for what has no route.

use super::budgets;
use super::patience::until_it_reads;
use actors::follower::{Follower, FollowerError};
use events::budget::Budget;
use events::settings::{Settings, SettingsId};
use store::Store;
use tokio::task::JoinHandle;

/// Follows them, with the tasks that do.
pub(super) async fn follow(
    store: &Store,
) -> Result<(Follower<Budget>, Follower<Settings>, Vec<JoinHandle<()>>), FollowerError> {
    let (budgets, mut following) = until_it_reads(async || budgets::follow(store).await).await?;
    let settings = async || Follower::start(store.clone(), SettingsId::ALL).await;
    let (settings, tasks) = until_it_reads(settings).await?;
    following.extend(tasks);
    Ok((budgets, settings, following))
}
