//! Whether one life of a node is there: what is asked of it, and the door at which it is asked.
//!
//! A life of a node listens on a subject of its own. When the process is gone its connections are, and the server
//! says at once that nobody listens there: that is how others know. So a life listens over more than one connection,
//! or one that is being made anew would look like a death.

use super::envelope::{read, write};
use super::nats::barrier;
use crate::{carried, task};
use async_nats::{Client, SubscribeError, Subscriber};
use bytes::Bytes;
use events::record::Boot;
use events::subject::{Namespace, Subject};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The wait before a subscription that ended by itself is made again.
const AGAIN: Duration = Duration::from_millis(500);

/// What is asked of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Say that you are there.
    Ping,
    /// Nobody answered at this life: see for yourself. Not answered.
    Suspect {
        /// Which one.
        boot: Boot,
    },
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// This life is there.
    Here,
}

carried!(Request {
    Ping = 60 / 1;
    Suspect { boot } = 61 / 1;
});

carried!(Reply {
    Here = 70 / 1;
});

impl Request {
    /// Its bytes; empty when they could not be made, which nobody understands.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        write(self).unwrap_or_default().into()
    }
}

impl Reply {
    /// What the bytes say; `None` for the words of another build.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        read(bytes).ok()
    }
}

/// A life can not be asked.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The subscription was not made.
    #[error("a subscription to what other nodes ask could not be made")]
    Subscribe(#[from] SubscribeError),
    /// The server did not answer after it, so nobody knows whether it listens.
    #[error("the server did not confirm a subscription to what other nodes ask")]
    Silent,
}

/// Where a life is asked. Dropping it closes it, and then this life counts as over.
#[derive(Debug)]
pub struct Door {
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Door {
    /// Listens over each connection. Whom others suspect goes to `suspects`, and is dropped when that is full: they
    /// suspect again.
    ///
    /// # Errors
    ///
    /// [`DoorError`]; nothing listens then.
    pub async fn open(
        clients: &[Client],
        namespace: &Namespace,
        boot: Boot,
        suspects: mpsc::Sender<Boot>,
    ) -> Result<Self, DoorError> {
        let life = namespace.spell(&Subject::Life(boot));
        let mut door = Self { tasks: vec![] };
        for client in clients {
            let subscriber = client.subscribe(life.clone()).await?;
            let answer = answer(client.clone(), life.clone(), subscriber, suspects.clone());
            door.tasks.push(task::spawn(task::Kind::Serve, answer));
            if !barrier(client).await {
                return Err(DoorError::Silent);
            }
        }
        Ok(door)
    }
}

async fn answer(
    client: Client,
    subject: String,
    mut subscriber: Subscriber,
    suspects: mpsc::Sender<Boot>,
) {
    loop {
        while let Some(message) = subscriber.next().await {
            match read::<Request>(&message.payload) {
                Ok(Request::Ping) => here(&client, message.reply).await,
                Ok(Request::Suspect { boot }) => {
                    let _full = suspects.try_send(boot);
                }
                Err(error) => tracing::debug!(%error, "another node asked what is not known"),
            }
        }
        tracing::warn!("a subscription to what other nodes ask ended by itself");
        subscriber = loop {
            tokio::time::sleep(AGAIN).await;
            if let Ok(again) = client.subscribe(subject.clone()).await {
                break again;
            }
        };
    }
}

async fn here(client: &Client, reply: Option<async_nats::Subject>) {
    let Some(reply) = reply else { return };
    let Ok(bytes) = write(&Reply::Here) else { return };
    // Whoever is not answered asks again.
    let _sent = client.publish(reply, bytes.into()).await;
}
