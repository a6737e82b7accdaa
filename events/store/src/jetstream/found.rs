//! How a journal on NATS is made, once, and found again ever after.
//!
//! Its name is written first, by compare and set, so that all nodes agree on one; streams are made while the record
//! says *founding*, and never after it says *ready*: a stream that is then missing has lost its history, or nobody leads
//! it just now, and making it would turn either into an empty journal.

use super::api::{Ask, Tries, context, leader, not_found, publish, unavailable};
use super::error::{ConnectError, Unsafe};
use super::settings::{CONSUMERS_MAX, Connect, DUPLICATES_WINDOW, HEARD_WITHIN, OPEN_MAX, SHARDS};
use super::settle::Heard;
use super::sync::Keeper;
use crate::Outage;
use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType};
use async_nats::{Client, HeaderMap};
use events::id::{Generation, Partition};
use events::record::JournalId;
use events::subject::{Meta, Namespace, Subject};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The form of the record.
const FORMAT: u16 = 1;
/// How long a stream that must exist is looked for. Over an election and a start of the whole cluster.
const GONE_AFTER: Duration = Duration::from_secs(12);

/// What the journal keeps about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u16,
    /// 32 hexadecimal digits.
    journal: String,
    shards: u16,
    replicas: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Founding,
    Ready,
}

/// A journal that was found or made.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) journal: JournalId,
    /// The servers that keep a part of it; none says so on a single server.
    pub(super) keepers: Vec<Keeper>,
}

/// The stream of a shard's commits.
fn shard_config(connect: &Connect, shard: u16, replicas: usize) -> Config {
    let Connect { namespace, shard_bytes_max, .. } = connect;
    let mine = Partition::all().filter(|partition| u16::from(partition.number()) % SHARDS == shard);
    Config {
        name: namespace.shard_stream(shard, Generation::FIRST),
        subjects: mine.map(|partition| namespace.journal_of(partition)).collect(),
        max_bytes: *shard_bytes_max,
        // Of the newest commit of a stream there is no limit either: an old one must never make room.
        max_messages: -1,
        max_messages_per_subject: -1,
        deny_delete: true,
        duplicate_window: DUPLICATES_WINDOW,
        ..kept(replicas)
    }
}

/// What all streams have in common.
fn kept(replicas: usize) -> Config {
    Config {
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        num_replicas: replicas,
        max_consumers: CONSUMERS_MAX,
        max_messages: -1,
        max_messages_per_subject: 1,
        max_bytes: -1,
        deny_purge: true,
        allow_direct: true,
        ..Config::default()
    }
}

/// Blobs and snapshots: pieces that are written once or replaced, and erased one by one.
fn beside_configs(namespace: &Namespace, replicas: usize) -> [Config; 2] {
    let of = |name: String, subjects: String| Config {
        name,
        subjects: vec![subjects],
        // The newest of a subject takes the place of the one before.
        discard: DiscardPolicy::Old,
        deny_purge: false,
        ..kept(replicas)
    };
    [
        of(namespace.blob_stream(), namespace.blobs()),
        of(namespace.snapshot_stream(), namespace.snapshots()),
    ]
}

fn meta_config(namespace: &Namespace, replicas: usize) -> Config {
    Config {
        name: namespace.meta_stream(),
        subjects: vec![namespace.metas()],
        discard: DiscardPolicy::Old,
        deny_delete: true,
        ..kept(replicas)
    }
}

/// Finds the journal, or makes it, unless something is missing for that.
pub(super) async fn found(
    client: &Client,
    connect: &Connect,
    missing: Option<&Unsafe>,
) -> Result<Found, ConnectError> {
    let namespace = &connect.namespace;
    ensure(client, meta_config(namespace, connect.replicas)).await?;
    let mut tries = Tries::within(OPEN_MAX);
    loop {
        let why = match (record(client, namespace).await?, missing) {
            (Some((record, _)), _) if record.state == State::Ready => {
                return ready(client, connect, &record).await;
            }
            (_, Some(missing)) => return Err(ConnectError::Unsafe(missing.clone())),
            (None, None) => {
                no_orphans(client, namespace).await?;
                let fresh = Record {
                    format: FORMAT,
                    journal: connect.fresh.to_string(),
                    shards: SHARDS,
                    replicas: connect.replicas,
                    state: State::Founding,
                };
                write(client, namespace, &fresh, 0).await?
            }
            (Some((record, sequence)), None) => {
                let replicas = record.replicas;
                let shards = (0..SHARDS).map(|shard| shard_config(connect, shard, replicas));
                let all = shards.chain(beside_configs(namespace, replicas));
                try_join_all(all.map(|config| ensure(client, config))).await?;
                let ready = Record { state: State::Ready, ..record };
                write(client, namespace, &ready, sequence).await?
            }
        };
        if !tries.again().await {
            return Err(ConnectError::Nats { what: "naming the journal".to_owned(), why });
        }
    }
}

/// Every stream is there, and is as it must be.
async fn ready(client: &Client, connect: &Connect, record: &Record) -> Result<Found, ConnectError> {
    let replicas = record.replicas;
    let shards = (0..SHARDS).map(|shard| shard_config(connect, shard, replicas));
    let all: Vec<Config> = shards.chain(beside_configs(&connect.namespace, replicas)).collect();
    let infos = try_join_all(all.iter().map(|config| existing(client, &config.name))).await?;
    let mut keepers: BTreeMap<String, bool> = BTreeMap::new();
    for (info, wanted) in infos.iter().zip(&all) {
        same(&info.config, wanted)?;
        if let Some(cluster) = &info.cluster {
            let leader = cluster.leader.iter().map(|name| (name, true));
            let replicas = cluster.replicas.iter();
            // Of one that it never heard a new leader says that it was heard just now, and is not current.
            let replicas = replicas.map(|peer| {
                (&peer.name, peer.current && !peer.offline && peer.active < HEARD_WITHIN)
            });
            for (name, heard) in leader.chain(replicas) {
                *keepers.entry(name.clone()).or_default() |= heard;
            }
        }
    }
    let keepers = keepers.into_iter().map(|(name, heard)| Keeper { name, heard }).collect();
    let journal = u128::from_str_radix(&record.journal, 16)
        .map_err(|_| ConnectError::Meta(format!("journal {:?}", record.journal)))?;
    Ok(Found { journal: JournalId(journal), keepers })
}

/// The record and its sequence.
async fn record(
    client: &Client,
    namespace: &Namespace,
) -> Result<Option<(Record, u64)>, ConnectError> {
    let (name, subject) = (namespace.meta_stream(), namespace.spell(&Subject::Meta(Meta::Journal)));
    let mut tries = Tries::within(OPEN_MAX);
    let message = loop {
        match leader(client.clone(), &name, &Ask::Last(&subject)).await {
            Ok(message) => break message,
            Err(outage) if !tries.again().await => {
                return Err(nats("reading the journal's name", &outage));
            }
            Err(_) => {}
        }
    };
    let Some(message) = message else { return Ok(None) };
    let record: Record = serde_json::from_slice(&message.payload)
        .map_err(|error| ConnectError::Meta(error.to_string()))?;
    if (record.format, record.shards) != (FORMAT, SHARDS) {
        let text = format!("format {} with {} shards", record.format, record.shards);
        return Err(ConnectError::Meta(text));
    }
    Ok(Some((record, message.sequence)))
}

/// Writes the record where the one at `expected` stands; when another was first, or nobody answers, the caller looks
/// again. Returns what was answered, for a message.
async fn write(
    client: &Client,
    namespace: &Namespace,
    record: &Record,
    expected: u64,
) -> Result<String, ConnectError> {
    let body = serde_json::to_vec(record).map_err(|error| ConnectError::Meta(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
    let subject = namespace.spell(&Subject::Meta(Meta::Journal));
    match publish(client, subject, headers, body.into()).await {
        Heard::Refused(outage) => Err(nats("writing the journal's name", &outage)),
        heard => Ok(format!("{heard:?}")),
    }
}

fn nats(what: &str, outage: &Outage) -> ConnectError {
    ConnectError::Nats { what: what.to_owned(), why: outage.to_string() }
}

/// Refuses to name a journal whose commits are there already.
async fn no_orphans(client: &Client, namespace: &Namespace) -> Result<(), ConnectError> {
    for shard in 0..SHARDS {
        let name = namespace.shard_stream(shard, Generation::FIRST);
        if let Some(info) = look(client, &name, OPEN_MAX).await?
            && info.state.last_sequence > 0
        {
            return Err(ConnectError::Nameless(name));
        }
    }
    Ok(())
}

/// A stream that must exist.
async fn existing(client: &Client, name: &str) -> Result<Info, ConnectError> {
    let mut tries = Tries::within(GONE_AFTER);
    loop {
        if let Some(info) = look(client, name, GONE_AFTER).await? {
            return Ok(info);
        }
        if !tries.again().await {
            return Err(ConnectError::StreamGone(name.to_owned()));
        }
    }
}

/// A stream, or that no leader knows it; tries while nobody answers.
async fn look(client: &Client, name: &str, limit: Duration) -> Result<Option<Info>, ConnectError> {
    let mut tries = Tries::within(limit);
    loop {
        let outage = match context(client.clone()).get_stream(name).await {
            Ok(stream) => return Ok(Some(stream.cached_info().clone())),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if not_found(&error) => return Ok(None),
                _ => unavailable(&error),
            },
        };
        if !tries.again().await {
            return Err(nats(&format!("looking at stream {name}"), &outage));
        }
    }
}

/// Makes a stream of a journal that is being founded; one that is there already must be the same.
async fn ensure(client: &Client, config: Config) -> Result<(), ConnectError> {
    let name = config.name.clone();
    let mut tries = Tries::within(OPEN_MAX);
    loop {
        if let Some(info) = look(client, &name, OPEN_MAX).await? {
            return same(&info.config, &config);
        }
        let outage = match context(client.clone()).create_stream(config.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) => match error.kind() {
                // No space, too many streams, no such replicas: waiting does not help.
                CreateStreamErrorKind::JetStream(refused)
                    if matches!(refused.error_code().0, 10_047 | 10_023 | 10_002 | 10_074) =>
                {
                    return Err(nats(&format!("making stream {name}"), &unavailable(&error)));
                }
                _ => unavailable(&error),
            },
        };
        if !tries.again().await {
            return Err(nats(&format!("making stream {name}"), &outage));
        }
    }
}

/// What durability and order rest on is as it was made. Limits of size and number may differ: an operator raises them.
fn same(found: &Config, wanted: &Config) -> Result<(), ConnectError> {
    let pairs: [(&'static str, String, String); 9] = [
        ("subjects", format!("{:?}", found.subjects), format!("{:?}", wanted.subjects)),
        ("storage", format!("{:?}", found.storage), format!("{:?}", wanted.storage)),
        ("retention", format!("{:?}", found.retention), format!("{:?}", wanted.retention)),
        ("discard", format!("{:?}", found.discard), format!("{:?}", wanted.discard)),
        ("max_age", format!("{:?}", found.max_age), format!("{:?}", wanted.max_age)),
        ("deny_delete", found.deny_delete.to_string(), wanted.deny_delete.to_string()),
        ("deny_purge", found.deny_purge.to_string(), wanted.deny_purge.to_string()),
        ("allow_direct", found.allow_direct.to_string(), wanted.allow_direct.to_string()),
        (
            "max_msgs_per_subject",
            found.max_messages_per_subject.to_string(),
            wanted.max_messages_per_subject.to_string(),
        ),
    ];
    for (setting, found_value, wanted_value) in pairs {
        if found_value != wanted_value {
            let name = wanted.name.clone();
            return Err(ConnectError::Differs {
                name,
                setting,
                found: found_value,
                wanted: wanted_value,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            format: FORMAT,
            journal: JournalId(7).to_string(),
            shards: SHARDS,
            replicas: 3,
            state: State::Founding,
        }
    }

    #[test]
    fn the_bytes_of_the_record_do_not_change() {
        let text = serde_json::to_string(&record()).unwrap();
        assert_eq!(text, include_str!("golden/record.json").trim());
        let ready = text.replace("founding", "ready");
        let found: Record = serde_json::from_str(&ready).unwrap();
        assert_eq!(found, Record { state: State::Ready, ..record() });
        assert!(serde_json::from_str::<Record>(&text.replace("founding", "gone")).is_err());
    }

    #[test]
    fn a_stream_that_may_forget_is_not_taken() {
        let wanted = Config { name: "S".to_owned(), deny_delete: true, ..kept(3) };
        assert_eq!(same(&wanted, &wanted), Ok(()));
        let harms: [fn(&mut Config); 6] = [
            |config| config.discard = DiscardPolicy::Old,
            |config| config.max_age = Duration::from_secs(1),
            |config| config.deny_delete = false,
            |config| config.deny_purge = false,
            |config| config.storage = StorageType::Memory,
            |config| config.subjects = vec!["other".to_owned()],
        ];
        for harm in harms {
            let mut found = wanted.clone();
            harm(&mut found);
            assert!(
                matches!(same(&found, &wanted), Err(ConnectError::Differs { .. })),
                "{found:?}"
            );
        }
    }
}
