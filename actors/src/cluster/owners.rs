//! Who holds which partition, as this node has seen it, for whoever asks far owners: a question that waits at a holder
//! that is not one any more is asked again, and one that nobody heard makes its holder a suspect.

use super::keeper::Holders;
use events::id::Partition;
use events::record::Boot;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// What whoever asks knows of the owners. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Owners {
    holders: watch::Receiver<Arc<Holders>>,
    suspects: mpsc::Sender<Boot>,
}

impl Owners {
    /// What is seen, and where suspects are named.
    #[must_use]
    pub const fn new(holders: watch::Receiver<Arc<Holders>>, suspects: mpsc::Sender<Boot>) -> Self {
        Self { holders, suspects }
    }

    /// Which life holds a partition.
    #[must_use]
    pub fn of(&self, partition: Partition) -> Option<Boot> {
        self.holders.borrow().get(&partition).map(|holder| holder.boot)
    }

    /// Returns when another life than `former` holds the partition.
    pub async fn moved(&self, partition: Partition, former: Option<Boot>) {
        let mut holders = self.holders.clone();
        let moved = |holders: &Arc<Holders>| {
            holders.get(&partition).is_some_and(|holder| Some(holder.boot) != former)
        };
        if holders.wait_for(moved).await.is_err() {
            // Nobody sees anything any more; other bounds end the wait.
            std::future::pending::<()>().await;
        }
    }

    /// Nobody listens for a partition: its holder, if there is one, is to be looked after. One that is alive is not hurt.
    pub fn unheard(&self, partition: Partition) {
        if let Some(boot) = self.of(partition) {
            // Full means that suspects enough are known.
            let _full = self.suspects.try_send(boot);
        }
    }
}
