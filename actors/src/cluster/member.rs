//! Which nodes live: each says so in the bucket of leases, with the same time to live, and all watch.
//!
//! It only says where partitions belong. A node that is wrongly thought dead still owns what it has leases of, and one
//! that is wrongly thought alive keeps nobody from taking a lease that has ended.

use super::NodeName;
use super::bucket::{Bucket, News};
use super::lease::{HEARTBEAT, Outcome};
use crate::task;
use events::record::Boot;
use futures_util::{Stream, StreamExt};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The wait before a watch that ended is opened again.
const REOPEN: Duration = Duration::from_millis(500);

/// The nodes that live, by name, and which life of each it is.
pub type Nodes = BTreeMap<NodeName, Boot>;

/// A handle on the tasks that say this node is there and watch the others. Dropping it ends them, and the word with its
/// time.
#[derive(Debug)]
pub struct Members {
    bucket: Bucket,
    node: NodeName,
    nodes: watch::Receiver<Arc<Nodes>>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Members {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Members {
    /// Says that this life of a node is there, again and again, and watches who else is. The set is empty until all of
    /// it is known.
    #[must_use]
    pub fn start(bucket: Bucket, node: NodeName, boot: Boot) -> Self {
        let (shows, nodes) = watch::channel(Arc::default());
        let beat = task::spawn(task::Kind::Lease, beat(bucket.clone(), node.clone(), boot));
        let watching = watch_all(bucket.clone(), node.clone(), boot, shows);
        let tasks = [beat, task::spawn(task::Kind::Lease, watching)];
        Self { bucket, node, nodes, tasks }
    }

    /// Who lives, now and as it changes.
    #[must_use]
    pub fn nodes(&self) -> watch::Receiver<Arc<Nodes>> {
        self.nodes.clone()
    }

    /// Says that this node goes: nothing belongs to it from now on.
    pub async fn leave(self) {
        let [beat, _] = &self.tasks;
        beat.abort();
        if self.bucket.delete_member(&self.node).await == Outcome::Unknown {
            tracing::warn!(
                "whether the others know that this node goes is not known; its word ends by itself"
            );
        }
    }
}

async fn beat(bucket: Bucket, node: NodeName, boot: Boot) {
    let every = Duration::from_millis(HEARTBEAT.0);
    loop {
        let wait = match bucket.put_member(&node, boot).await {
            Outcome::Stored { .. } => every,
            // The bucket may not be there yet.
            Outcome::Refused | Outcome::Unknown => REOPEN,
        };
        tokio::time::sleep(wait).await;
    }
}

async fn watch_all(bucket: Bucket, node: NodeName, boot: Boot, shows: watch::Sender<Arc<Nodes>>) {
    while !shows.is_closed() {
        match bucket.watch_members().await {
            Ok(news) => follow(news, (&node, boot), &shows).await,
            Err(error) => tracing::debug!(%error, "the nodes are not known"),
        }
        tokio::time::sleep(REOPEN).await;
    }
}

/// Takes in one watch to its end. What stood there before is shown once all of it was told, or a node that starts would
/// think for a moment that it is alone.
async fn follow(
    news: impl Stream<Item = Option<News>>,
    (node, boot): (&NodeName, Boot),
    shows: &watch::Sender<Arc<Nodes>>,
) {
    let mut news = pin!(news);
    let (mut nodes, mut is_whole) = (Nodes::new(), false);
    while let Some(one) = news.next().await {
        let Some(News { node: name, boot: life, is_last }) = one else { continue };
        if name == *node && life.is_some_and(|life| life != boot) && nodes.contains_key(node) {
            tracing::error!(node = %name, "two nodes have the same name: give each its own, --node");
        }
        match life {
            Some(life) => nodes.insert(name, life),
            None => nodes.remove(&name),
        };
        is_whole |= is_last;
        // A node that does not see itself is not in the picture that the others have.
        if is_whole && nodes.contains_key(node) {
            shows.send_if_modified(|shown| {
                let changed = **shown != nodes;
                if changed {
                    *shown = Arc::new(nodes.clone());
                }
                changed
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    /// One of what stood there before.
    fn before(node: &str, boot: u128) -> Option<News> {
        Some(News { node: node.parse().unwrap(), boot: Some(Boot(boot)), is_last: false })
    }

    fn news(node: &str, boot: Option<u128>) -> Option<News> {
        Some(News { node: node.parse().unwrap(), boot: boot.map(Boot), is_last: true })
    }

    async fn shown(news: Vec<Option<News>>) -> Vec<String> {
        let (shows, nodes) = watch::channel(Arc::default());
        follow(stream::iter(news), (&"a".parse().unwrap(), Boot(1)), &shows).await;
        nodes.borrow().keys().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn nothing_is_shown_before_all_of_it_is_known_and_this_node_in_it() {
        let half = vec![before("a", 1), before("b", 2)];
        assert!(shown(half.clone()).await.is_empty());
        assert_eq!(shown([half, vec![None, news("c", Some(3))]].concat()).await, ["a", "b", "c"]);
        assert!(shown(vec![news("b", Some(2))]).await.is_empty());
    }

    #[tokio::test]
    async fn who_is_gone_is_not_shown() {
        let told = vec![news("a", Some(1)), news("b", Some(2)), news("b", None)];
        assert_eq!(shown(told).await, ["a"]);
    }
}
