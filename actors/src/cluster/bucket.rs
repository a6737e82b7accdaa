//! The bucket that leases stand in: one key for each partition, in memory, with markers where values end.
//!
//! Written by raw publishes: the client's own `create_with_ttl` loses the TTL over a marker, and such a lease would never
//! end. A publish whose outcome is not known may arrive later; the revision it names makes that harmless.

use super::lease::{Holder, Outcome, Seen, TTL};
use super::member::{Life, Wish};
use super::{NodeName, Uptime};
use async_nats::jetstream::context::{Context, PublishErrorKind};
use async_nats::jetstream::kv::{self, Operation};
use async_nats::jetstream::stream::{Info, LastRawMessageErrorKind, StorageType, Stream as Held};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use events::codec;
use events::id::Partition;
use events::record::{Boot, Epoch};
use events::subject::Namespace;
use futures_util::{Stream, StreamExt};
use std::time::Duration;

/// How long a server may take to answer before nobody can say what became of a write.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long the marker of an expired value stands. A node that looks later finds nothing, and takes that as free.
const MARKER: Duration = Duration::from_secs(60);
/// How often it is asked whether the bucket is still the same one.
const REMADE: Duration = Duration::from_secs(3);
/// Kind and schema of a value.
const VALUE: (u16, u16) = (40, 1);
/// Kind and schema of the word of a node that takes partitions.
const MEMBER: (u16, u16) = (41, 1);
/// Of one that takes none. A build that can not read it counts the node as gone, which places the same.
const DRAINING: (u16, u16) = (42, 1);
/// Of a fence.
const FENCE: (u16, u16) = (43, 1);

const OPERATION: &str = "KV-Operation";
const MARKER_REASON: &str = "Nats-Marker-Reason";

/// The bucket could not be used now.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// It is not there: nobody owns anything until it is made again.
    #[error("the lease bucket is gone")]
    Gone,
    /// No answer, or none that says anything.
    #[error("the lease bucket does not answer: {0}")]
    Silent(String),
}

/// A handle on the bucket; clone it freely.
#[derive(Debug, Clone)]
pub struct Bucket {
    context: Context,
    namespace: Namespace,
    replicas: usize,
}

impl Bucket {
    /// A handle over a connection; makes nothing yet. `replicas` is 1, or 3 where there are three servers.
    #[must_use]
    pub fn new(client: Client, namespace: Namespace, replicas: usize) -> Self {
        let mut context = async_nats::jetstream::new(client);
        context.set_timeout(ANSWER_MAX);
        Self { context, namespace, replicas }
    }

    /// Says that this life of a node is there, for [`TTL`], and whether it takes partitions.
    pub(super) async fn put_member(&self, node: &NodeName, life: Life) -> Outcome {
        let form = match life.wish {
            Wish::Take => MEMBER,
            Wish::Drain => DRAINING,
        };
        let Ok(value) = framed(form, &life.boot) else { return Outcome::Unknown };
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_TTL, format!("{}s", TTL.0 / 1_000));
        self.send(self.namespace.member_of(node.as_str()), headers, value.into()).await
    }

    /// Says that a node is gone, so that nobody waits for the end of its word.
    pub(super) async fn delete_member(&self, node: &NodeName, expected: Option<u64>) -> Outcome {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION, "DEL");
        if let Some(expected) = expected {
            let header = async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
            headers.insert(header, expected.to_string());
        }
        self.send(self.namespace.member_of(node.as_str()), headers, Bytes::new()).await
    }

    /// Says that a life of a node must not act any more. It stands until the node's next life takes it away.
    ///
    /// # Errors
    ///
    /// When nobody can say whether it stands. It may be said again.
    pub async fn fence(&self, node: &NodeName, boot: Boot) -> Result<(), BucketError> {
        let silent = |why: &str| BucketError::Silent(why.to_owned());
        let value = framed(FENCE, &boot).map_err(|error| silent(&error.to_string()))?;
        let subject = self.namespace.fence_of(node.as_str());
        match self.send(subject, HeaderMap::new(), value.into()).await {
            Outcome::Stored { .. } => Ok(()),
            Outcome::Refused | Outcome::Unknown => Err(silent("whether it stands is not known")),
        }
    }

    /// Takes a fence of a former life of a node away.
    pub(super) async fn unfence(&self, node: &NodeName) -> Outcome {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION, "DEL");
        self.send(self.namespace.fence_of(node.as_str()), headers, Bytes::new()).await
    }

    /// Opens a watch on the nodes' words in a bucket that [`Self::open`] made: what stands there first, then each change.
    pub(super) async fn watch_members(
        &self,
    ) -> Result<impl Stream<Item = Option<News>> + Send + Unpin + use<>, BucketError> {
        let silent = |error: &dyn std::error::Error| BucketError::Silent(error.to_string());
        let found = self.context.get_key_value(self.namespace.lease_bucket()).await;
        let bucket = found.map_err(|error| silent(&error))?;
        let keys = ["node.*", "fence.*"];
        let made = made(&bucket.stream);
        let watch = bucket.watch_many_with_history(keys).await.map_err(|error| silent(&error))?;
        let told = watch.map(|entry| {
            let entry = entry.ok()?;
            let value = match entry.operation {
                Operation::Put => Some(&*entry.value),
                Operation::Delete | Operation::Purge => None,
            };
            let (revision, is_last) = (entry.revision, entry.delta == 0);
            Some(News { said: said(&entry.key, value), revision, is_last })
        });
        Ok(told.take_until(Box::pin(self.clone().made_again(made))))
    }

    /// Makes the bucket if it is not there, and opens a watch on it: what stands under each key first, then each change.
    ///
    /// # Errors
    ///
    /// When it could not be made or watched now.
    pub async fn open(
        &self,
    ) -> Result<impl Stream<Item = Option<(Partition, Seen)>> + Send + Unpin + use<>, BucketError>
    {
        let config = kv::Config {
            bucket: self.namespace.lease_bucket(),
            history: 1,
            storage: StorageType::Memory,
            num_replicas: self.replicas,
            limit_markers: Some(MARKER),
            ..kv::Config::default()
        };
        let silent = |error: &dyn std::error::Error| BucketError::Silent(error.to_string());
        let found = self.context.create_key_value(config).await;
        let bucket = found.map_err(|error| silent(&error))?;
        let made = made(&bucket.stream);
        let watch = bucket.watch_with_history(">").await.map_err(|error| silent(&error))?;
        let told = watch.map(|entry| {
            let entry = entry.ok()?;
            let partition = Namespace::leased(&entry.key)?;
            let seen = match entry.operation {
                Operation::Put => {
                    Seen::Held { revision: entry.revision, holder: read(&entry.value) }
                }
                Operation::Delete | Operation::Purge => Seen::Free { revision: entry.revision },
            };
            Some((partition, seen))
        });
        Ok(told.take_until(Box::pin(self.clone().made_again(made))))
    }

    /// Returns when another bucket stands in the place of the one that was made then. A watch on the former one is told
    /// nothing of that; its consumer comes back on the new one, somewhere, and has missed what came before.
    async fn made_again(self, then: i128) {
        loop {
            tokio::time::sleep(REMADE).await;
            let found = self.context.get_stream(self.namespace.lease_stream()).await;
            if found.is_ok_and(|stream| made(&stream) != then) {
                tracing::warn!(
                    "another lease bucket stands there: it is watched from its beginning"
                );
                return;
            }
        }
    }

    /// Writes a value that ends after [`TTL`], if the key's revision is the expected one.
    pub async fn put(&self, partition: Partition, holder: &Holder, expected: u64) -> Outcome {
        let Ok(value) = write(holder) else { return Outcome::Unknown };
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_MESSAGE_TTL, format!("{}s", TTL.0 / 1_000));
        self.publish(partition, headers, value.into(), expected).await
    }

    /// Deletes the value, if the key's revision is the expected one. The watch tells the next owner at once.
    pub async fn delete(&self, partition: Partition, expected: u64) -> Outcome {
        let mut headers = HeaderMap::new();
        headers.insert(OPERATION, "DEL");
        self.publish(partition, headers, Bytes::new(), expected).await
    }

    async fn publish(
        &self,
        partition: Partition,
        mut headers: HeaderMap,
        value: Bytes,
        expected: u64,
    ) -> Outcome {
        let header = async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
        headers.insert(header, expected.to_string());
        self.send(self.namespace.lease_of(partition), headers, value).await
    }

    async fn send(&self, subject: String, headers: HeaderMap, value: Bytes) -> Outcome {
        let stored =
            async { self.context.publish_with_headers(subject, headers, value).await?.await };
        match tokio::time::timeout(ANSWER_MAX, stored).await {
            Ok(Ok(ack)) => Outcome::Stored { revision: ack.sequence },
            // Code 10071, and no other: 10164 comes as another kind and says that a write is under way.
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => {
                Outcome::Refused
            }
            Ok(Err(_)) | Err(_) => Outcome::Unknown,
        }
    }

    /// What stands under a partition's key, read from the bucket's leader.
    ///
    /// # Errors
    ///
    /// When the bucket is gone, or does not answer.
    pub async fn look(&self, partition: Partition) -> Result<Seen, BucketError> {
        let name = self.namespace.lease_stream();
        let silent = |text: String| BucketError::Silent(text);
        let stream = self.context.get_stream_no_info(name).await;
        let stream = stream.map_err(|error| silent(error.to_string()))?;
        let subject = self.namespace.lease_of(partition);
        let look = stream.get_last_raw_message_by_subject(&subject);
        match tokio::time::timeout(ANSWER_MAX, look).await {
            Ok(Ok(message)) => {
                let revision = message.sequence;
                let headers = &message.headers;
                let is_marker =
                    headers.get(OPERATION).is_some() || headers.get(MARKER_REASON).is_some();
                Ok(if is_marker {
                    Seen::Free { revision }
                } else {
                    Seen::Held { revision, holder: read(&message.payload) }
                })
            }
            Ok(Err(error)) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(Seen::Free { revision: 0 }),
                LastRawMessageErrorKind::JetStream(why)
                    if why.error_code() == async_nats::jetstream::ErrorCode::STREAM_NOT_FOUND =>
                {
                    Err(BucketError::Gone)
                }
                _ => Err(silent(error.to_string())),
            },
            Err(elapsed) => Err(silent(elapsed.to_string())),
        }
    }
}

/// One thing that the watch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct News {
    /// `None` for what another build wrote.
    pub(super) said: Option<Said>,
    /// Where that stands.
    pub(super) revision: u64,
    /// Nothing that was there before is left to be told.
    pub(super) is_last: bool,
}

/// When a bucket was made, in ns since 1970, which tells it from another one of the same name.
fn made(stream: &Held<Info>) -> i128 {
    stream.cached_info().created.unix_timestamp_nanos()
}

/// What the watch says of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Which life of it is there; `None` when it is gone.
    Lives(NodeName, Option<Life>),
    /// Which life of it must not act any more.
    Fenced(NodeName, Option<Boot>),
}

fn said(key: &str, value: Option<&[u8]>) -> Option<Said> {
    if let Some(node) = Namespace::fenced(key) {
        let boot = value.and_then(|value| unframed(FENCE, value));
        return Some(Said::Fenced(node.parse().ok()?, boot));
    }
    let node = Namespace::member(key)?.parse().ok()?;
    let life = value.and_then(|value| {
        let takes = unframed(MEMBER, value).map(|boot| Life { boot, wish: Wish::Take });
        takes.or_else(|| Some(Life { boot: unframed(DRAINING, value)?, wish: Wish::Drain }))
    });
    Some(Said::Lives(node, life))
}

fn write(holder: &Holder) -> Result<Vec<u8>, codec::CodecError> {
    let Holder { node, boot, epoch } = holder;
    framed(VALUE, &(node.as_str(), boot, epoch))
}

/// The bytes of a value: `[kind][schema][postcard]`, frozen.
fn framed(
    (kind, schema): (u16, u16),
    value: &impl serde::Serialize,
) -> Result<Vec<u8>, codec::CodecError> {
    let entry = codec::encode(kind, schema, value)?;
    let events::record::Payload::Inline(body) = entry.payload else {
        return Err(codec::CodecError::Absent { kind });
    };
    Ok([&kind.to_le_bytes()[..], &schema.to_le_bytes()[..], &body].concat())
}

/// The holder that a value names; `None` for what another build wrote.
fn read(value: &[u8]) -> Option<Holder> {
    let (node, boot, epoch): (NodeName, Boot, Epoch) = unframed(VALUE, value)?;
    Some(Holder { node, boot, epoch })
}

fn unframed<T: serde::de::DeserializeOwned>(form: (u16, u16), value: &[u8]) -> Option<T> {
    let (kind, rest) = value.split_first_chunk::<2>()?;
    let (schema, body) = rest.split_first_chunk::<2>()?;
    let found = (u16::from_le_bytes(*kind), u16::from_le_bytes(*schema));
    codec::decode(form.0, form.1, body).ok().filter(|_| found == form)
}

/// Milliseconds since the machine started, its sleep included.
#[must_use]
pub fn uptime() -> Uptime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let millis = u64::try_from(time.tv_nsec / 1_000_000).unwrap_or_default();
    Uptime(seconds.saturating_mul(1_000).saturating_add(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_lease_do_not_change() {
        let holder = Holder { node: "node-1".parse().unwrap(), boot: Boot(300), epoch: Epoch(7) };
        let bytes = write(&holder).unwrap();
        assert_eq!(bytes, [40, 0, 1, 0, 6, b'n', b'o', b'd', b'e', b'-', b'1', 0xac, 2, 7]);
        assert_eq!(read(&bytes), Some(holder));
    }

    #[test]
    fn the_bytes_of_a_nodes_word_do_not_change() {
        let bytes = framed(MEMBER, &Boot(300)).unwrap();
        assert_eq!(bytes, [41, 0, 1, 0, 0xac, 2]);
        assert_eq!(unframed(MEMBER, &bytes), Some(Boot(300)));
        assert_eq!(unframed::<Boot>(VALUE, &bytes), None);
        let [life, drains] = [Wish::Take, Wish::Drain].map(|wish| Life { boot: Boot(300), wish });
        let node: NodeName = "a".parse().unwrap();
        let told = |key, value: &[u8]| said(key, Some(value)).unwrap();
        assert_eq!(told("node.a", &bytes), Said::Lives(node.clone(), Some(life)));
        let bytes = [42, 0, 1, 0, 0xac, 2];
        assert_eq!(framed(DRAINING, &Boot(300)).unwrap(), bytes);
        assert_eq!(told("node.a", &bytes), Said::Lives(node.clone(), Some(drains)));
        assert_eq!(said("node.a", None), Some(Said::Lives(node.clone(), None)));
        let bytes = [43, 0, 1, 0, 0xac, 2];
        assert_eq!(framed(FENCE, &Boot(300)).unwrap(), bytes);
        assert_eq!(told("fence.a", &bytes), Said::Fenced(node.clone(), Some(Boot(300))));
        assert_eq!(told("node.a", &bytes), Said::Lives(node, None), "a fence is no sign of life");
        assert_eq!(said("p.05", Some(&bytes)), None);
    }

    #[test]
    fn a_value_of_another_build_names_nobody() {
        let holder = Holder { node: "a".parse().unwrap(), boot: Boot(1), epoch: Epoch(7) };
        let bytes = write(&holder).unwrap();
        for at in 0..bytes.len() {
            assert_eq!(read(&bytes[..at]), None);
        }
        assert_eq!(read(&[&bytes[..], &[0]].concat()), None);
        let mut newer = bytes.clone();
        newer[2] = 2;
        assert_eq!(read(&newer), None);
        let mut upper = bytes;
        upper[5] = b'A';
        assert_eq!(read(&upper), None, "no node is called so");
    }

    #[test]
    fn the_machine_has_been_up_for_a_while_and_goes_on() {
        let before = uptime();
        assert!(before.0 > 0 && uptime() >= before);
    }
}
