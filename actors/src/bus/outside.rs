//! What programs outside hear: public events on subjects of their own, and how far each shard has been told.
//!
//! A publish is no proof: only what stood before a question that a server answered has reached it. So the mark moves
//! after such an answer, and whoever begins at the mark tells some events twice and none never. Two nodes that tell the
//! same shard for a while both begin at a mark; the one whose mark is refused looks again.

use super::nats::{barrier, number};
use async_nats::connection::State;
use async_nats::jetstream::context::{Context, PublishErrorKind};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use events::subject::{Meta, Namespace, Subject};
use std::fmt;
use std::time::Duration;

/// How long a server may take to answer a read or a write of a mark.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes of one event's message (960 KiB): below what a server takes with its headers and subject.
pub const EVENT_BYTES_MAX: usize = 960 << 10;

/// It was not told, or nobody knows: begin again from the mark.
#[derive(Debug, thiserror::Error)]
pub enum NotTold {
    /// The connection is down; nothing is sent, for the client would keep it and tell it out of order.
    #[error("the connection to NATS is down")]
    Down,
    /// No server confirmed it.
    #[error("no server confirms what was told: {0}")]
    Unconfirmed(String),
    /// Another node has moved the mark.
    #[error("another node tells this shard")]
    Overtaken,
    /// What stands in its place is no mark of this build.
    #[error("the mark of the shard does not read: {0:?}")]
    Mark(String),
}

/// How far a shard has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Up to this sequence; 0 when nothing was.
    pub sequence: u64,
    /// The mark's own revision; 0 before there is one.
    revision: u64,
}

impl Mark {
    /// Whether there is one: otherwise nothing was ever told.
    #[must_use]
    pub const fn stands(&self) -> bool {
        self.revision > 0
    }
}

/// One event, ready to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Where.
    pub subject: Subject,
    /// Names and values beside the body; ASCII.
    pub headers: Vec<(&'static str, String)>,
    /// At most [`EVENT_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// The way out; clones are the same connection.
#[derive(Clone)]
pub struct Outside {
    client: Client,
    context: Context,
    namespace: Namespace,
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Outside {
    /// A way out over a connection of its own, so that a flood of events holds no command up.
    #[must_use]
    pub fn new(client: Client, namespace: Namespace) -> Self {
        let mut context = async_nats::jetstream::new(client.clone());
        context.set_timeout(ANSWER_MAX);
        Self { client, context, namespace }
    }

    /// Tells an event; whether it was heard, [`Self::confirm`] says.
    ///
    /// # Errors
    ///
    /// When nothing can be sent now.
    pub async fn tell(&self, told: Announcement) -> Result<(), NotTold> {
        if self.client.connection_state() != State::Connected {
            return Err(NotTold::Down);
        }
        let mut headers = HeaderMap::new();
        for (name, value) in told.headers {
            headers.insert(name, value);
        }
        let (subject, body) = (self.namespace.spell(&told.subject), Bytes::from(told.body));
        let sent = self.client.publish_with_headers(subject, headers, body).await;
        sent.map_err(|error| NotTold::Unconfirmed(error.to_string()))
    }

    /// Which connection stands, for [`Self::confirm`]: to be asked before anything is told.
    #[must_use]
    pub fn connection(&self) -> u64 {
        number(&self.client)
    }

    /// Waits until a server has read everything that was told over this connection.
    ///
    /// # Errors
    ///
    /// When none says so, or the connection was made anew: what stood in the former one's buffers is gone with it.
    pub async fn confirm(&self, connection: u64) -> Result<(), NotTold> {
        let read = barrier(&self.client).await && number(&self.client) == connection;
        read.then_some(()).ok_or_else(|| NotTold::Unconfirmed("it does not answer".to_owned()))
    }

    /// How far a shard has been told outside, or to a webhook, as the leader of the journal's own stream has it.
    ///
    /// # Errors
    ///
    /// When nobody answers, or what stands there is no mark.
    pub async fn mark(&self, of: Meta) -> Result<Mark, NotTold> {
        let silent = |error: &dyn fmt::Display| NotTold::Unconfirmed(error.to_string());
        let stream = self.context.get_stream_no_info(self.namespace.meta_stream()).await;
        let stream = stream.map_err(|error| silent(&error))?;
        let subject = self.namespace.spell(&Subject::Meta(of));
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => {
                let text = String::from_utf8_lossy(&message.payload);
                let sequence =
                    text.parse().map_err(|_| NotTold::Mark(text.chars().take(40).collect()))?;
                Ok(Mark { sequence, revision: message.sequence })
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                Ok(Mark::default())
            }
            Err(error) => Err(silent(&error)),
        }
    }

    /// Moves such a mark, unless another node has.
    ///
    /// # Errors
    ///
    /// [`NotTold::Overtaken`] when it has; else when nobody knows whether it moved.
    pub async fn put_mark(&self, of: Meta, before: Mark, sequence: u64) -> Result<Mark, NotTold> {
        let mut headers = HeaderMap::new();
        let header = async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
        headers.insert(header, before.revision.to_string());
        let subject = self.namespace.spell(&Subject::Meta(of));
        let body = sequence.to_string().into();
        let stored =
            async { self.context.publish_with_headers(subject, headers, body).await?.await };
        match tokio::time::timeout(ANSWER_MAX, stored).await {
            Ok(Ok(ack)) => Ok(Mark { sequence, revision: ack.sequence }),
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => {
                Err(NotTold::Overtaken)
            }
            Ok(Err(error)) => Err(NotTold::Unconfirmed(error.to_string())),
            Err(_late) => Err(NotTold::Unconfirmed("the mark is not confirmed".to_owned())),
        }
    }
}
