//! Webhooks: programs outside that are told, signed, of what a person should know. What is told is read from the journal
//! from a durable mark on, so that a node that is killed loses none: at least once, in the order of each stream, and a
//! repeat has the same id.
//!
//! In a cluster one node tells a shard, the owner of its anchor partition, as it is with public events. A receiver that is
//! down is asked again, longer and longer apart, and nothing overtakes what waits for it; what is too old by then is
//! given up, logged and counted.

mod address;
mod mark;
mod pick;
mod send;
mod sign;
mod sustained;

pub use mark::Marks;
pub use sustained::Sustained;

use crate::config::{Config, HookEvent, Secret, Webhook};
use crate::metric;
use crate::stream::public::anchor;
use crate::wire::fact::Bodies;
use actors::clock::Clock;
use actors::served::Served;
use events::id::digest;
use events::quantity::Millis;
use events::record::Shard;
use futures_util::{StreamExt, pin_mut};
use mark::{Marked, NotMarked};
use pick::{Delivery, Picker};
use send::{NotSent, Sender};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{FollowError, Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long at most the mark stays behind commits of which nothing was told (2 s): they are looked through again after a
/// death, and nobody sees it.
const MARK_AFTER: Duration = Duration::from_secs(2);
/// The wait before a shard that could not be followed is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// The pause after the first failure; each next one is twice as long.
const PAUSE_MIN: Millis = Millis(500);
/// The longest pause (5 min): a receiver that comes back is told soon.
const PAUSE_MAX: Millis = Millis(300_000);
/// What happened longer ago is not told any more (24 h): nobody can act on it.
const AGE_MAX: Millis = Millis(86_400_000);
/// Tries after which a message that the receiver itself refuses (a 4xx) is given up, so that it does not hold up what
/// comes after it for a day.
const REFUSED_MAX: u32 = 8;

/// The variable of a webhook's secret is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the webhook to {host} is signed with the secret in {variable}, which is not set: set it, or take the webhook out"
)]
pub struct NoSecret {
    host: String,
    variable: String,
}

/// Refuses a configuration whose webhooks can not be signed.
///
/// # Errors
///
/// [`NoSecret`] for the first of them.
pub fn check(config: &Config) -> Result<(), NoSecret> {
    match config.webhooks.iter().find(|hook| hook.secret.is_none()) {
        None => Ok(()),
        Some(hook) => {
            Err(NoSecret { host: hook.host().to_owned(), variable: hook.secret_env.clone() })
        }
    }
}

/// Whether anybody is told that a call waits for an approval.
#[must_use]
pub fn tells_of_holds(hooks: &[Webhook]) -> bool {
    hooks.iter().any(|hook| hook.events.contains(&HookEvent::ApprovalAsked))
}

/// Why a shard is not told further now.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Mark(#[from] NotMarked),
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One webhook of a node.
#[derive(Debug)]
pub struct Hook {
    /// Names it in marks and ids: its address, and which of several with the same one it is.
    id: u64,
    host: String,
    events: BTreeSet<HookEvent>,
    bodies: Bodies,
    sender: Sender,
    /// Of all shards of this node. Held over no await.
    sustained: Mutex<Sustained>,
}

impl Hook {
    /// Every webhook of a configuration that can be signed.
    ///
    /// # Errors
    ///
    /// When the HTTP library refuses its settings.
    pub fn all(hooks: &[Webhook]) -> Result<Vec<Arc<Self>>, reqwest::Error> {
        let mut found: Vec<Arc<Self>> = Vec::new();
        for (place, hook) in hooks.iter().enumerate() {
            let Some(secret) = &hook.secret else { continue };
            let same = hooks.iter().take(place).filter(|before| before.url == hook.url).count();
            found.push(Arc::new(Self::new(hook, secret, same)?));
        }
        Ok(found)
    }

    fn new(hook: &Webhook, secret: &Secret, same: usize) -> Result<Self, reqwest::Error> {
        let parts = [&b"piton/webhook"[..], hook.url.as_str().as_bytes(), &same.to_le_bytes()];
        // Its lower half is as good as all of it: there are sixteen webhooks at most.
        let id = digest(&parts) & u128::from(u64::MAX);
        Ok(Self {
            id: u64::try_from(id).unwrap_or_default(),
            host: hook.host().to_owned(),
            events: hook.events.clone(),
            bodies: if hook.include_text { Bodies::Whole } else { Bodies::Named },
            sender: Sender::new(hook, secret)?,
            sustained: Mutex::new(Sustained::default()),
        })
    }
}

/// Tells one webhook what happens in one shard.
#[derive(Debug)]
pub struct Teller {
    hook: Arc<Hook>,
    store: Store,
    clock: Clock,
    marks: Marks,
    shard: Shard,
}

impl Teller {
    /// Of a shard of a journal.
    #[must_use]
    pub fn new(hook: Arc<Hook>, store: Store, clock: Clock, marks: Marks, shard: Shard) -> Self {
        Self { hook, store, clock, marks, shard }
    }

    /// Tells whenever this node owns the shard's anchor, for as long as the node lives.
    pub async fn run(self, mut served: watch::Receiver<Served>) {
        let anchor = anchor(self.shard);
        while served.wait_for(|served| served.contains(anchor)).await.is_ok() {
            let mut lost = served.clone();
            let stopped = tokio::select! {
                stopped = self.tell() => stopped,
                // Somebody else tells it from the mark on. Where the journal is a file nobody ever does, and nobody says so.
                Ok(_lost) = lost.wait_for(|served| !served.contains(anchor)) => continue,
            };
            if let Err(error) = stopped {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(shard = self.shard.0, host = self.hook.host, error, "webhook waits");
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn tell(&self) -> Result<(), Stopped> {
        let mut mark = self.marks.open(&self.store, self.hook.id, self.shard).await?;
        let log = self.store.follow(self.shard, mark.sequence());
        pin_mut!(log);
        let mut seen = mark.sequence();
        let mut mark_at: Option<Instant> = None;
        loop {
            let due = async {
                match mark_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => {
                    mark = self.put(mark, seen).await?;
                    mark_at = None;
                }
                recorded = log.next() => {
                    let Some(recorded) = recorded else { return Ok(()) };
                    let recorded = recorded?;
                    let picker = Picker { store: &self.store, hook: &self.hook };
                    let told = picker.pick(&recorded).await?;
                    for delivery in &told {
                        self.deliver(delivery).await;
                    }
                    seen = recorded.position.sequence;
                    if told.is_empty() {
                        mark_at = mark_at.or_else(|| Some(Instant::now() + MARK_AFTER));
                    } else {
                        mark = self.put(mark, seen).await?;
                        mark_at = None;
                    }
                }
            }
        }
    }

    async fn put(&self, mark: Marked, seen: u64) -> Result<Marked, NotMarked> {
        self.marks.put(self.hook.id, self.shard, mark, seen).await
    }

    /// Sends until it is taken, or too old, or refused too often.
    async fn deliver(&self, delivery: &Delivery) {
        let (event, id, host) = (delivery.event.word(), delivery.id.as_str(), &*self.hook.host);
        let (mut pause, mut refused) = (PAUSE_MIN, 0_u32);
        loop {
            let now = self.clock.now();
            let why = if now > delivery.at.after(AGE_MAX) {
                "it is older than a day".to_owned()
            } else {
                match self.hook.sender.send(delivery, now).await {
                    Ok(()) => return metric::hook_told(event, metric::Told::Delivered),
                    Err(not_sent) => {
                        metric::hook_told(event, metric::Told::Failed);
                        tracing::warn!(host, event, id, why = %not_sent, "webhook_not_delivered");
                        if let NotSent::Refused(_) = not_sent {
                            refused = refused.saturating_add(1);
                        }
                        not_sent.to_string()
                    }
                }
            };
            if refused >= REFUSED_MAX || now > delivery.at.after(AGE_MAX) {
                metric::hook_told(event, metric::Told::GivenUp);
                tracing::error!(host, event, id, why, "webhook_dead_letter");
                return;
            }
            self.clock.pause(pause).await;
            pause = Millis(pause.0.saturating_mul(2).min(PAUSE_MAX.0));
        }
    }
}

#[cfg(test)]
mod tests;
