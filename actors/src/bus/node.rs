//! What one node asks another as a node, not as the owner of a stream: how it is, and that it hands over what it has.
//!
//! Answered at once and by a node that owns nothing too. Nothing here moves a partition: that is for the leases.

use super::envelope::{read, write};
use crate::carried;
use crate::cluster::NodeName;
use crate::order::Build;
use crate::task;
use async_nats::client::{Request, RequestErrorKind};
use async_nats::{Client, connection::State};
use events::quantity::{Instant, Millis};
use events::record::Boot;
use events::subject::{Namespace, Subject};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Questions that may wait for their answers at a node.
const ANSWERS_MAX: usize = 64;
/// The wait before a subscription that ended is made again.
const AGAIN: Duration = Duration::from_millis(500);

/// What is asked of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// How are you?
    Describe(Build),
    /// Hand over what you have, and take nothing.
    Drain,
    /// Take what the placement gives you.
    Undrain,
}

/// What a node answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This is how it is.
    Described(Described),
    /// It will be done.
    Done,
    /// The question is not known to the build that was asked.
    Unsupported(Build),
}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// What it runs.
    pub build: Build,
    /// Which life of it answers.
    pub boot: Boot,
    /// Since when, by its own clock.
    pub since: Instant,
    /// Partitions that it serves.
    pub serves: u16,
    /// How long it may still act for the one whose lease ends first; none when it has no lease.
    pub horizon: Option<Millis>,
}

carried!(Question {
    Describe(build) = 400 / 1;
    Drain = 401 / 1;
    Undrain = 402 / 1;
});

carried!(Answer {
    Described(described) = 450 / 1;
    Done = 451 / 1;
    Unsupported(build) = 452 / 1;
});

/// Why a node did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// No such node listens, or the server does not know it yet: nothing was done.
    #[error("nobody listens there")]
    NobodyThere,
    /// It may have been heard.
    #[error("no answer came in time")]
    TimedOut,
    /// This node is cut off from the servers: nothing was sent.
    #[error("this node is cut off")]
    CutOff,
    /// The answer is of another build, or none.
    #[error("the answer can not be read")]
    Unread,
}

/// The way to the other nodes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Peers {
    client: Client,
    namespace: Namespace,
}

/// What answers for this node.
pub type Answering = Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>;

impl Peers {
    /// Over a connection.
    #[must_use]
    pub const fn new(client: Client, namespace: Namespace) -> Self {
        Self { client, namespace }
    }

    /// Whether this node is connected to a server now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    fn subject(&self, node: &NodeName) -> Option<String> {
        Some(self.namespace.spell(&Subject::Node(node.as_str().parse().ok()?)))
    }

    /// Asks one node.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`], which says whether it may have been heard.
    pub async fn ask(
        &self,
        node: &NodeName,
        question: &Question,
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        if !self.is_connected() {
            return Err(NoAnswer::CutOff);
        }
        let bytes = write(question).map_err(|_unwritable| NoAnswer::Unread)?;
        let subject = self.subject(node).ok_or(NoAnswer::NobodyThere)?;
        let request = Request::new().payload(bytes.into()).timeout(Some(within));
        let reply = self.client.send_request(subject, request).await;
        let reply = reply.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => NoAnswer::NobodyThere,
            RequestErrorKind::TimedOut => NoAnswer::TimedOut,
            RequestErrorKind::MaxPayloadExceeded
            | RequestErrorKind::InvalidSubject
            | RequestErrorKind::Other => NoAnswer::Unread,
        })?;
        read(&reply.payload).map_err(|_unread| NoAnswer::Unread)
    }

    /// Answers for a node until the task is ended.
    #[must_use]
    pub fn answer(self, node: &NodeName, answering: Answering) -> JoinHandle<()> {
        let subject = self.subject(node);
        task::spawn(task::Kind::Serve, async move {
            let room = Arc::new(Semaphore::new(ANSWERS_MAX));
            let Some(subject) = subject else { return };
            loop {
                match self.client.subscribe(subject.clone()).await {
                    Ok(mut asked) => {
                        while let Some(message) = asked.next().await {
                            self.take(message, &answering, &room);
                        }
                    }
                    Err(error) => tracing::warn!(%error, "other nodes can not ask this one"),
                }
                tokio::time::sleep(AGAIN).await;
            }
        })
    }

    /// Nothing is awaited between two messages. One too many is not answered: whoever asks hears that in time.
    fn take(&self, message: async_nats::Message, answering: &Answering, room: &Arc<Semaphore>) {
        let Some(reply) = message.reply else { return };
        let Ok(room) = Arc::clone(room).try_acquire_owned() else { return };
        let (client, answering) = (self.client.clone(), Arc::clone(answering));
        task::spawn(task::Kind::Serve, async move {
            let answer = match read(&message.payload) {
                Ok(question) => answering(question).await,
                Err(_unknown) => Answer::Unsupported(Build::OURS),
            };
            if let Ok(bytes) = write(&answer)
                && let Err(error) = client.publish(reply, bytes.into()).await
            {
                tracing::warn!(%error, "an answer was not sent");
            }
            drop(room);
        });
    }
}
