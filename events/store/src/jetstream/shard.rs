//! One shard's follower: a consumer of headers that folds the [`Index`], tells who waits that there is something new,
//! and starts again from its own place whenever the consumer falters.
//!
//! A consumer is a thing of one server and dies with it: heartbeats show that, and nothing that it says ends the loop.

use super::api::context;
use super::index::{Gap, Index};
use super::link::{Life, Link};
use super::message::Columns;
use super::settings::{REQUEST_MAX, WAIT_MAX};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::message::Message;
use events::record::Shard;
use events::subject::Namespace;
use futures_util::StreamExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How often a server says that a quiet consumer lives; two missed ones and it is made anew.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How long one pull waits on the server.
const PULL_MAX: Duration = Duration::from_secs(10);
/// How long a server keeps a consumer that nobody asks.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Messages of one pull.
const PULL_MESSAGES: usize = 1_000;

/// One shard as this node knows it.
#[derive(Debug)]
pub(super) struct ShardView {
    pub(super) shard: Shard,
    /// The name of its `JetStream` stream.
    pub(super) name: String,
    /// A std lock: it is held over no await.
    index: Mutex<Index>,
    newest: watch::Sender<u64>,
    /// The newest sequence that this node has written.
    written: AtomicU64,
    /// Why the follower stopped for good, if it did.
    halted: Mutex<Option<Gap>>,
}

impl ShardView {
    pub(super) fn new(shard: Shard, name: String) -> Self {
        let newest = watch::Sender::new(0);
        let (index, halted) = (Mutex::default(), Mutex::default());
        Self { shard, name, index, newest, written: AtomicU64::new(0), halted }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        // Every change of the index is made after its checks: a panic leaves no half of one.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn halted(&self) -> Option<Gap> {
        *self.halted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn notice(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Lets who waits for news look again, though there is none: what they saw was behind.
    pub(super) fn prompt(&self) {
        self.newest.send_modify(|_| {});
    }

    pub(super) fn written(&self, sequence: u64) {
        self.written.fetch_max(sequence, Ordering::AcqRel);
    }

    pub(super) fn newest_written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Waits until a sequence was taken in; false when that does not happen in time.
    pub(super) async fn reached(&self, sequence: u64, limit: Duration) -> bool {
        let mut notice = self.notice();
        let reached = notice.wait_for(|newest| *newest >= sequence);
        matches!(tokio::time::timeout(limit, reached).await, Ok(Ok(_)))
    }

    /// Follows the shard until the link is gone.
    pub(super) async fn follow(self: Arc<Self>, link: Arc<Link>, namespace: Namespace) {
        loop {
            let life = link.life();
            let why = self.consume(&life, &namespace).await;
            if let Some(gap) = self.halted() {
                let Gap { after, found } = gap;
                tracing::error!(
                    stream = self.name,
                    after,
                    found,
                    "a commit is missing: not followed any further"
                );
                return;
            }
            tracing::debug!(stream = self.name, why, "the consumer is made anew");
            tokio::time::sleep(WAIT_MAX / 5).await;
        }
    }

    /// One life of the consumer; returns why it ended.
    async fn consume(&self, life: &Life, namespace: &Namespace) -> String {
        let start = self.index().sequence.saturating_add(1);
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: start },
            ack_policy: AckPolicy::None,
            headers_only: true,
            inactive_threshold: IDLE_MAX,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let context = context(life.client.clone());
        let made = context.create_consumer_on_stream(config, self.name.as_str());
        let consumer: PullConsumer = match tokio::time::timeout(2 * REQUEST_MAX, made).await {
            Ok(Ok(consumer)) => consumer,
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "the consumer was not made in time".to_owned(),
        };
        let opened = consumer
            .stream()
            .heartbeat(HEARTBEAT)
            .expires(PULL_MAX)
            .max_messages_per_batch(PULL_MESSAGES)
            .messages()
            .await;
        let mut messages = match opened {
            Ok(messages) => messages,
            Err(error) => return error.to_string(),
        };
        loop {
            match messages.next().await {
                Some(Ok(message)) => {
                    if let Err(why) = self.take(&message, namespace) {
                        return why;
                    }
                }
                Some(Err(error)) => return error.to_string(),
                None => return "the consumer ended".to_owned(),
            }
        }
    }

    fn take(&self, message: &Message, namespace: &Namespace) -> Result<(), String> {
        let info = message.info().map_err(|error| error.to_string())?;
        let sequence = info.stream_sequence;
        let headers = message.headers.clone().unwrap_or_default();
        let columns = match Columns::read(namespace, &message.subject, &headers) {
            Ok(columns) => columns,
            Err(corrupt) => {
                // Its readers are told; the agenda can not wait for what nobody can name.
                tracing::error!(stream = self.name, sequence, %corrupt, "a message is no commit");
                return Err(corrupt.to_string());
            }
        };
        let folded = self.index().fold(sequence, &columns);
        match folded {
            Ok(()) => {
                self.newest.send_if_modified(|newest| {
                    let newer = *newest < sequence;
                    *newest = sequence.max(*newest);
                    newer
                });
                Ok(())
            }
            Err(gap) => {
                // Nothing may be missing in a stream that denies deletion: a consumer that starts at our place and
                // still skips has told the truth.
                if info.consumer_sequence == 1 {
                    *self.halted.lock().unwrap_or_else(PoisonError::into_inner) = Some(gap);
                }
                Err(format!("sequence {} is followed by {}", gap.after, gap.found))
            }
        }
    }
}
