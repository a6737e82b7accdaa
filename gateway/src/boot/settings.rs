//! What was set durably, as every node follows it: the budgets, and which model was selected for what has no route.

use super::budgets;
use actors::follower::{Follower, FollowerError};
use events::budget::Budget;
use events::settings::{Settings, SettingsId};
use store::Store;
use tokio::task::JoinHandle;

/// Follows them, with the tasks that do.
pub(super) async fn follow(
    store: &Store,
) -> Result<(Follower<Budget>, Follower<Settings>, Vec<JoinHandle<()>>), FollowerError> {
    let (budgets, mut following) = budgets::follow(store).await?;
    let (settings, tasks) = Follower::start(store.clone(), SettingsId::ALL).await?;
    following.extend(tasks);
    Ok((budgets, settings, following))
}
