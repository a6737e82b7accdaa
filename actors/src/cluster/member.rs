//! Which nodes live: each says so in the bucket of leases, with the same time to live, and all watch.
//!
//! It only says where partitions belong. A node that is wrongly thought dead still owns what it has leases of, and one
//! that is wrongly thought alive keeps nobody from taking a lease that has ended.

use super::bucket::{Bucket, News, Said, uptime};
use super::lease::{HEARTBEAT, Outcome};
use super::{NodeName, Uptime};
use crate::{metric, task};
use events::record::Boot;
use futures_util::{Stream, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The wait before a watch that ended is opened again.
const REOPEN: Duration = Duration::from_millis(500);

/// Whether a node takes partitions. A wish of one life: the next one takes its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It takes what the placement gives it.
    Take,
    /// It hands over what it has and takes nothing, and answers as a gateway.
    Drain,
}

/// One life of a node, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Which one.
    pub boot: Boot,
    /// Whether it takes partitions.
    pub wish: Wish,
}

/// The nodes, as one of them sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    lives: BTreeMap<NodeName, Life>,
    fenced: BTreeMap<NodeName, Boot>,
}

impl Nodes {
    #[cfg(test)]
    pub(super) fn of(lives: impl Iterator<Item = (NodeName, Boot)>) -> Self {
        let life = |(name, boot)| (name, Life { boot, wish: Wish::Take });
        Self { lives: lives.map(life).collect(), fenced: BTreeMap::new() }
    }

    /// Those that say they are there, without those that were fenced.
    pub fn lives(&self) -> impl Iterator<Item = (&NodeName, Life)> {
        let fenced = |name: &NodeName, life: &Life| self.fenced.get(name) == Some(&life.boot);
        let lives = self.lives.iter().filter(move |(name, life)| !fenced(name, life));
        lives.map(|(name, life)| (name, *life))
    }

    /// The life of one of them.
    #[must_use]
    pub fn life(&self, node: &NodeName) -> Option<Life> {
        self.lives().find_map(|(name, life)| (name == node).then_some(life))
    }

    /// Those that partitions are placed on. When all drain, none does: a cluster that owns nothing serves nobody.
    #[must_use]
    pub fn takers(&self) -> BTreeSet<NodeName> {
        let takers = self.lives().filter(|(_, life)| life.wish == Wish::Take);
        let takers: BTreeSet<NodeName> = takers.map(|(name, _)| name.clone()).collect();
        if takers.is_empty() {
            self.lives().map(|(name, _)| name.clone()).collect()
        } else {
            takers
        }
    }

    /// Lives that must not act any more, by node. A fence stands until the node is started again.
    #[must_use]
    pub const fn fenced(&self) -> &BTreeMap<NodeName, Boot> {
        &self.fenced
    }
}

/// When the last word of each node was heard here.
pub type Heard = BTreeMap<NodeName, Uptime>;

/// Where each life's last word stands.
type Revisions = BTreeMap<Boot, u64>;

/// The words of the others, to strike one that stays behind. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Words {
    bucket: Bucket,
    revisions: watch::Receiver<Revisions>,
}

impl Words {
    /// Strikes the word of a life that is over, unless it was said again meanwhile: then it is not.
    pub async fn strike(&self, node: &NodeName, boot: Boot) {
        let Some(revision) = self.revisions.borrow().get(&boot).copied() else { return };
        let outcome = self.bucket.delete_member(node, Some(revision)).await;
        tracing::debug!(%node, ?outcome, "the word of a life that is over");
    }
}

/// What the watch tells the rest of the node.
struct Shows {
    nodes: watch::Sender<Arc<Nodes>>,
    heard: watch::Sender<Heard>,
    revisions: watch::Sender<Revisions>,
}

/// A handle on the tasks that say this node is there and watch the others. Dropping it ends them, and the word with its
/// time.
#[derive(Debug)]
pub struct Members {
    bucket: Bucket,
    node: NodeName,
    wish: watch::Sender<Wish>,
    nodes: watch::Receiver<Arc<Nodes>>,
    heard: watch::Receiver<Heard>,
    revisions: watch::Receiver<Revisions>,
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
        let ((shows, nodes), (hears, heard)) =
            (watch::channel(Arc::default()), watch::channel(Heard::new()));
        let (stand, revisions) = watch::channel(Revisions::new());
        let (wish, wishes) = watch::channel(Wish::Take);
        let beat = task::spawn(task::Kind::Lease, beat(bucket.clone(), node.clone(), boot, wishes));
        let shows = Shows { nodes: shows, heard: hears, revisions: stand };
        let watching = watch_all(bucket.clone(), node.clone(), boot, shows);
        let tasks = [beat, task::spawn(task::Kind::Lease, watching)];
        Self { bucket, node, wish, nodes, heard, revisions, tasks }
    }

    /// Who lives, now and as it changes.
    #[must_use]
    pub fn nodes(&self) -> watch::Receiver<Arc<Nodes>> {
        self.nodes.clone()
    }

    /// When each was heard of last.
    #[must_use]
    pub fn heard(&self) -> watch::Receiver<Heard> {
        self.heard.clone()
    }

    /// The words of the others.
    #[must_use]
    pub fn words(&self) -> Words {
        Words { bucket: self.bucket.clone(), revisions: self.revisions.clone() }
    }

    /// Whether this node is to take partitions from now on. All learn it from its next word, which goes out at once.
    #[must_use]
    pub fn wish(&self) -> watch::Sender<Wish> {
        self.wish.clone()
    }

    /// Says that this node goes: nothing belongs to it from now on.
    pub async fn leave(self) {
        let [beat, _] = &self.tasks;
        beat.abort();
        if self.bucket.delete_member(&self.node, None).await == Outcome::Unknown {
            tracing::warn!(
                "whether the others know that this node goes is not known; its word ends by itself"
            );
        }
    }
}

async fn beat(bucket: Bucket, node: NodeName, boot: Boot, mut wish: watch::Receiver<Wish>) {
    let every = Duration::from_millis(HEARTBEAT.0);
    // A fence of a former life says nothing of this one; it only stands in the list.
    if bucket.unfence(&node).await == Outcome::Unknown {
        tracing::debug!("whether a fence of a former life stands is not known");
    }
    loop {
        let life = Life { boot, wish: *wish.borrow_and_update() };
        let wait = match bucket.put_member(&node, life).await {
            Outcome::Stored { .. } => every,
            // The bucket may not be there yet.
            Outcome::Refused | Outcome::Unknown => REOPEN,
        };
        let wished = async {
            if wish.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = wished => {}
        }
    }
}

async fn watch_all(bucket: Bucket, node: NodeName, boot: Boot, shows: Shows) {
    while !shows.nodes.is_closed() {
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
    shows: &Shows,
) {
    let mut news = pin!(news);
    // Of another bucket, perhaps.
    shows.revisions.send_replace(Revisions::new());
    let (mut nodes, mut is_whole) = (Nodes::default(), false);
    while let Some(one) = news.next().await {
        let Some(News { said, revision, is_last }) = one else { continue };
        match said {
            Some(Said::Lives(name, Some(life))) => {
                if name == *node && life.boot != boot && nodes.lives.contains_key(node) {
                    tracing::error!(node = %name, "two nodes have the same name: give each its own, --node");
                }
                shows.heard.send_modify(|heard| _ = heard.insert(name.clone(), uptime()));
                let former = nodes.lives.insert(name, life);
                shows.revisions.send_modify(|stand| {
                    former.map(|former| stand.remove(&former.boot));
                    stand.insert(life.boot, revision);
                });
            }
            Some(Said::Lives(name, None)) => {
                shows.heard.send_modify(|heard| _ = heard.remove(&name));
                let former = nodes.lives.remove(&name);
                shows.revisions.send_modify(|stand| {
                    former.map(|former| stand.remove(&former.boot));
                });
            }
            Some(Said::Fenced(name, Some(boot))) => _ = nodes.fenced.insert(name, boot),
            Some(Said::Fenced(name, None)) => _ = nodes.fenced.remove(&name),
            None => {}
        }
        is_whole |= is_last;
        // A node that does not see itself is not in the picture that the others have.
        if is_whole && nodes.lives.contains_key(node) {
            metric::nodes(nodes.lives().count());
            shows.nodes.send_if_modified(|shown| {
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

    fn name(node: &str) -> NodeName {
        node.parse().unwrap()
    }

    fn told(said: Said) -> Option<News> {
        Some(News { said: Some(said), revision: 1, is_last: true })
    }

    /// One of what stood there before.
    fn before(node: &str, boot: u128) -> Option<News> {
        news(node, Some(boot)).map(|news| News { is_last: false, ..news })
    }

    fn news(node: &str, boot: Option<u128>) -> Option<News> {
        let life = boot.map(|boot| Life { boot: Boot(boot), wish: Wish::Take });
        told(Said::Lives(name(node), life))
    }

    fn drains(node: &str, boot: u128) -> Option<News> {
        told(Said::Lives(name(node), Some(Life { boot: Boot(boot), wish: Wish::Drain })))
    }

    async fn nodes(news: Vec<Option<News>>) -> Arc<Nodes> {
        let (shows, nodes) = watch::channel(Arc::default());
        let (heard, _) = watch::channel(Heard::new());
        let revisions = watch::channel(Revisions::new()).0;
        let shows = Shows { nodes: shows, heard, revisions };
        follow(stream::iter(news), (&name("a"), Boot(1)), &shows).await;
        nodes.borrow().clone()
    }

    async fn shown(news: Vec<Option<News>>) -> Vec<String> {
        nodes(news).await.lives().map(|(name, _)| name.to_string()).collect()
    }

    async fn takers(news: Vec<Option<News>>) -> Vec<String> {
        nodes(news).await.takers().iter().map(ToString::to_string).collect()
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

    #[tokio::test]
    async fn who_drains_is_shown_and_nothing_is_placed_on_it_unless_all_do() {
        let told = vec![news("a", Some(1)), drains("b", 2)];
        assert_eq!(shown(told.clone()).await, ["a", "b"]);
        assert_eq!(takers(told.clone()).await, ["a"]);
        assert_eq!(takers([told.clone(), vec![drains("a", 1)]].concat()).await, ["a", "b"]);
        assert_eq!(takers([told, vec![news("b", Some(2))]].concat()).await, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_fence_ends_one_life_and_not_the_next_one() {
        let fence = |boot: u128| told(Said::Fenced(name("b"), Some(Boot(boot))));
        let fenced = vec![news("a", Some(1)), news("b", Some(2)), fence(2), news("b", Some(2))];
        assert_eq!(shown(fenced.clone()).await, ["a"], "whatever it says");
        let again = [fenced.clone(), vec![news("b", Some(3))]].concat();
        assert_eq!(shown(again).await, ["a", "b"]);
        let lifted = [fenced, vec![told(Said::Fenced(name("b"), None))]].concat();
        assert_eq!(shown(lifted).await, ["a", "b"]);
    }
}
