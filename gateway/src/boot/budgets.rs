//! The budgets of a node: which there are, as the log says, and the way of its runs to their owners.

use crate::directory::Directory;
use actors::bus::Bus;
use actors::follower::{Follower, FollowerError};
use actors::perform::run::Budgets;
use events::budget::{Budget, Scope};
use std::collections::BTreeSet;
use store::Store;
use tokio::task::JoinHandle;

/// Follows the budgets. The one of all lists the others; one that is set from here on is met with its commits.
pub(super) async fn follow(
    store: &Store,
) -> Result<(Follower<Budget>, Vec<JoinHandle<()>>), FollowerError> {
    let mut known = BTreeSet::from([Scope::ALL]);
    loop {
        let (follower, tasks) = Follower::<Budget>::start(store.clone(), known.clone()).await?;
        let listed = follower.get(&Scope::ALL).state.scopes.clone();
        if listed.is_subset(&known) {
            return Ok((follower, tasks));
        }
        // Those that it did not know were perhaps set before it began to follow.
        tasks.iter().for_each(JoinHandle::abort);
        known.extend(listed);
    }
}

/// The way of runs to the owners of budgets, wherever they are.
pub(super) fn way(bus: Bus<Directory>) -> Budgets {
    Budgets::new(move |scope, order| {
        let bus = bus.clone();
        Box::pin(async move { bus.decide::<Budget>(scope, order).await })
    })
}
