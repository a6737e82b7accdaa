//! The vault of a cluster: a bucket on its servers, each value sealed before it leaves this process.
//!
//! The value `sealing` names the key that all are sealed under, and is sealed under that key itself: a node with a wrong
//! key finds out before it reads anything else, and a new key is used by all nodes at once, from the moment that
//! [`Bucket::rotate`] writes its name there.

use super::keys::{ClusterKey, ClusterKeys, KeyFile};
use super::seal::{self, Label, Opened};
use super::{Kept, Name, Plain, Revision, VaultError};
use crate::Outage;
use crate::jetstream::settle::Heard;
use crate::jetstream::{Ask, Servers, context, leader, publish, unavailable};
use crate::vault::VALUE_BYTES_MAX;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::{Client, HeaderMap};
use bytes::Bytes;
use events::subject::Namespace;
use futures_util::TryStreamExt;
use std::sync::Arc;

/// The value that names the key in use.
const SEALING: &str = "sealing";
/// Bytes of the whole bucket (64 MiB): thousands of the largest values.
const BUCKET_BYTES_MAX: i64 = 64 << 20;
/// Bytes of what stands around a sealed value: names, numbers, headers.
const AROUND_BYTES_MAX: usize = 2 << 10;
/// Looks and writes of one change before it is given up: each one more means that somebody else was first.
const TRIES_MAX: usize = 8;
/// Rounds over all names of one rotation; a second one finds what was written during the first.
const ROUNDS_MAX: usize = 8;

/// What a bucket is opened with.
#[derive(Debug, Clone)]
pub struct OpenBucket {
    /// The servers.
    pub servers: Servers,
    /// Whose vault.
    pub namespace: Namespace,
    /// Copies, when it is made.
    pub replicas: usize,
    /// The cluster's keys.
    pub keys: KeyFile,
}

/// A handle on the bucket; clone it freely.
#[derive(Debug, Clone)]
pub struct Bucket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    namespace: Namespace,
    keys: KeyFile,
}

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The key that all values are sealed under now.
    pub key: String,
    /// Values that were sealed anew.
    pub resealed: usize,
    /// Values in all.
    pub values: usize,
    /// Older keys of this node's file that no value needs: their lines may be dropped on every node.
    pub droppable: Vec<String>,
}

/// What stands under a name, unopened.
struct Found {
    /// Its sequence in the stream, also of a marker; zero when there is neither.
    at: u64,
    /// The envelope; none where a marker stands.
    bytes: Option<Bytes>,
}

impl Bucket {
    /// Opens the bucket of a cluster, or makes it.
    ///
    /// # Errors
    ///
    /// When it can not be reached or made, or this node's cluster key is not the one in use.
    pub async fn open(open: OpenBucket) -> Result<Self, VaultError> {
        let OpenBucket { servers, namespace, replicas, keys } = open;
        let client = crate::jetstream::client(&servers)
            .await
            .map_err(|error| VaultError::Outage(unavailable(&error)))?;
        let config = Config {
            name: namespace.vault_stream(),
            subjects: vec![namespace.vault()],
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            max_messages_per_subject: 1,
            max_bytes: BUCKET_BYTES_MAX,
            max_message_size: i32::try_from(VALUE_BYTES_MAX + AROUND_BYTES_MAX).unwrap_or(-1),
            num_replicas: replicas,
            deny_delete: true,
            deny_purge: true,
            ..Config::default()
        };
        let context = context(client.clone());
        if context.get_stream(&config.name).await.is_err() {
            // Of two nodes that come at the same time both ask for the same.
            let name = config.name.clone();
            context.create_stream(config).await.map_err(|error| {
                let why = unavailable(&error);
                VaultError::Outage(Outage::Unavailable(format!(
                    "bucket {name} is not there and can not be made ({why}): the servers must let a node make it once"
                )))
            })?;
        }
        let bucket = Self(Arc::new(Inner { client, namespace, keys }));
        bucket.sealing().await?;
        Ok(bucket)
    }

    pub(super) async fn get(&self, name: &Name) -> Result<Option<Kept>, VaultError> {
        let Some(bytes) = self.look(name).await?.bytes else { return Ok(None) };
        let Opened { revision, value, .. } = self.opened(name, &bytes)?;
        Ok(Some(Kept { revision, value }))
    }

    pub(super) async fn put(
        &self,
        name: &Name,
        value: &Plain,
        expected: Revision,
    ) -> Result<Revision, VaultError> {
        let key = self.sealing().await?;
        let found = self.look(name).await?;
        let stands = match &found.bytes {
            None => Revision::NONE,
            // What nobody can open any more is as good as nothing: it is written over.
            Some(bytes) => match self.opened(name, bytes) {
                Ok(opened) => opened.revision,
                Err(
                    VaultError::Tampered { .. }
                    | VaultError::Swapped { .. }
                    | VaultError::Strange { .. },
                ) => Revision::NONE,
                Err(error) => return Err(error),
            },
        };
        if stands != expected {
            return Err(VaultError::Conflict { name: name.clone(), expected, found: stands });
        }
        // Above every one that this name ever had: the sequence of what it takes the place of has only grown.
        let revision = Revision(found.at.max(stands.0).saturating_add(1));
        self.write(name, &key, revision, value, found.at).await?;
        // A rotation that passed this name between our look at the key and our write would have left it behind.
        let after = self.sealing().await?;
        if after != key {
            self.reseal(name, &after).await?;
        }
        Ok(revision)
    }

    pub(super) async fn remove(&self, name: &Name) -> Result<(), VaultError> {
        for _ in 0..TRIES_MAX {
            let found = self.look(name).await?;
            if found.bytes.is_none() {
                return Ok(());
            }
            let mut headers = HeaderMap::new();
            headers.insert("KV-Operation", "DEL");
            match self.send(name, headers, Bytes::new(), found.at).await {
                // Looked at again: it may be our own marker that stands there, its answer lost.
                Ok(()) | Err(VaultError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(contended(name))
    }

    pub(super) async fn names(&self) -> Result<Vec<Name>, VaultError> {
        let mut names = self.spelt().await?;
        let mut kept = Vec::new();
        names.sort();
        for name in names {
            if self.look(&name).await?.bytes.is_some() {
                kept.push(name);
            }
        }
        Ok(kept)
    }

    /// Seals every value under the newest key of this node's file, which is read again for that. Safe to be cut at any
    /// moment and run again, here or on another node; nodes go on reading and writing meanwhile.
    ///
    /// # Errors
    ///
    /// When a value can not be read or written; those before it are sealed anew already.
    pub async fn rotate(&self) -> Result<Rotation, VaultError> {
        let keys = self.0.keys.reload()?;
        let newest = keys.newest().clone();
        self.use_key(&newest).await?;
        let mut rotation = Rotation {
            key: newest.id().to_owned(),
            resealed: 0,
            values: 0,
            droppable: keys.older().map(str::to_owned).collect(),
        };
        for _ in 0..ROUNDS_MAX {
            let names = self.names().await?;
            let mut changed = 0;
            for name in &names {
                changed += usize::from(self.reseal(name, &newest).await?);
            }
            rotation.resealed += changed;
            rotation.values = names.len();
            if changed == 0 {
                return Ok(rotation);
            }
        }
        // Somebody with another key goes on writing: nothing may be dropped.
        rotation.droppable.clear();
        Ok(rotation)
    }

    /// Names the key in use; from now on every node seals under it.
    async fn use_key(&self, key: &ClusterKey) -> Result<(), VaultError> {
        let name = sealing_name()?;
        for _ in 0..TRIES_MAX {
            let found = self.look(&name).await?;
            if let Some(bytes) = &found.bytes
                && self.opened(&name, bytes)?.value.expose() == key.id().as_bytes()
            {
                return Ok(());
            }
            let value = Plain::new(key.id().as_bytes().to_vec());
            let revision = Revision(found.at.saturating_add(1));
            match self.write(&name, key, revision, &value, found.at).await {
                Err(VaultError::Conflict { .. }) => {}
                written => return written,
            }
        }
        Err(contended(&name))
    }

    /// The key in use; the first node ever names its newest.
    async fn sealing(&self) -> Result<ClusterKey, VaultError> {
        let name = sealing_name()?;
        for _ in 0..TRIES_MAX {
            let found = self.look(&name).await?;
            let Some(bytes) = found.bytes else {
                self.use_key(self.0.keys.keys().newest()).await?;
                continue;
            };
            let opened = self.opened(&name, &bytes)?;
            let id = String::from_utf8_lossy(opened.value.expose()).into_owned();
            let key = self.0.keys.keys().get(&id).cloned();
            return key.ok_or(VaultError::NoKey { name, id });
        }
        Err(contended(&name))
    }

    /// Seals a value under this key, if it is under another. Its revision stays.
    async fn reseal(&self, name: &Name, key: &ClusterKey) -> Result<bool, VaultError> {
        for _ in 0..TRIES_MAX {
            let found = self.look(name).await?;
            let Some(bytes) = found.bytes else { return Ok(false) };
            let Opened { revision, value, key: under } = self.opened(name, &bytes)?;
            if under == key.id() {
                return Ok(false);
            }
            match self.write(name, key, revision, &value, found.at).await {
                Ok(()) => return Ok(true),
                // It was changed meanwhile: by whoever knows the key in use, most likely.
                Err(VaultError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(contended(name))
    }

    fn opened(&self, name: &Name, bytes: &[u8]) -> Result<Opened, VaultError> {
        let known: Arc<ClusterKeys> = self.0.keys.keys();
        let wanted = seal::claims(name, bytes)?;
        let keys = match known.get(&wanted) {
            Some(_) => known,
            // A key that was put into the file since.
            None => self.0.keys.reload()?,
        };
        seal::open(&self.0.namespace, name, &keys, bytes)
    }

    async fn write(
        &self,
        name: &Name,
        key: &ClusterKey,
        revision: Revision,
        value: &Plain,
        expected: u64,
    ) -> Result<(), VaultError> {
        let namespace = &self.0.namespace;
        let bytes = seal::seal(&Label { namespace, name, revision }, key, value)?;
        self.send(name, HeaderMap::new(), bytes.into(), expected).await
    }

    /// Publishes where `expected` stands. An answer that says nothing is settled by a look.
    async fn send(
        &self,
        name: &Name,
        mut headers: HeaderMap,
        body: Bytes,
        expected: u64,
    ) -> Result<(), VaultError> {
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        let subject = self.0.namespace.vault_of(name.as_str());
        let heard = publish(&self.0.client, subject, headers, body.clone()).await;
        match heard {
            Heard::Stored(_) | Heard::Repeated(_) => Ok(()),
            Heard::Refused(outage) => Err(VaultError::Outage(outage)),
            Heard::NotSent => {
                Err(Outage::Unavailable("no server keeps the vault now".to_owned()).into())
            }
            Heard::Taken | Heard::Busy | Heard::Silence => {
                let found = self.look(name).await?;
                if found.at > expected && found.bytes.as_ref().is_some_and(|bytes| *bytes == body) {
                    return Ok(());
                }
                if found.at == expected {
                    return Err(Outage::Lost.into());
                }
                let (expected, found) = (Revision(expected), Revision(found.at));
                Err(VaultError::Conflict { name: name.clone(), expected, found })
            }
        }
    }

    /// What the leader has: a replica may be behind.
    async fn look(&self, name: &Name) -> Result<Found, VaultError> {
        let subject = self.0.namespace.vault_of(name.as_str());
        let stream = self.0.namespace.vault_stream();
        let message = leader(self.0.client.clone(), &stream, &Ask::Last(&subject)).await?;
        Ok(match message {
            None => Found { at: 0, bytes: None },
            Some(message) => {
                let is_marker = message.headers.get("KV-Operation").is_some();
                let bytes = (!is_marker).then(|| message.payload.clone());
                Found { at: message.sequence, bytes }
            }
        })
    }

    /// Every name that ever had a value, but for [`SEALING`].
    async fn spelt(&self) -> Result<Vec<Name>, VaultError> {
        let failed = |error: &dyn std::error::Error| VaultError::Outage(unavailable(error));
        let stream = self.0.namespace.vault_stream();
        let stream = context(self.0.client.clone()).get_stream(stream).await;
        let stream = stream.map_err(|error| failed(&error))?;
        let info = stream.info_with_subjects(self.0.namespace.vault()).await;
        let subjects: Vec<(String, usize)> = info
            .map_err(|error| failed(&error))?
            .try_collect()
            .await
            .map_err(|error| failed(&error))?;
        let name = |subject: &str| self.0.namespace.vaulted(subject)?.parse::<Name>().ok();
        let names = subjects.iter().filter_map(|(subject, _)| name(subject));
        Ok(names.filter(|name| name.as_str() != SEALING).collect())
    }
}

fn sealing_name() -> Result<Name, VaultError> {
    SEALING.parse().map_err(|_| VaultError::NoChance)
}

fn contended(name: &Name) -> VaultError {
    let why = format!("{name} is being changed by others all the time");
    VaultError::Outage(Outage::Unavailable(why))
}
