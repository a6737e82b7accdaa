//! What a node may: all of its work, and nothing that takes a journal away.

use super::{Guest, PASSWORDS, connect, copy, copy_for, open, own, piton, read, streams};
use crate::hosts::probe::{Command, Id, Probe, Rig, patient};
use crate::probe::{after, all, grow, landed, stream};
use actors::bus::{Bus, Local, Nats as NatsBus};
use actors::cluster::bucket::Bucket as Leases;
use actors::cluster::keeper::{Keeper, Owns};
use actors::cluster::member::Members;
use actors::directory::Serves;
use actors::table::Table;
use events::aggregate::Aggregate;
use events::record::{Boot, Shard, StreamKey};
use events::subject::Namespace;
use futures_util::StreamExt;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use store::jetstream::{SHARDS, Sync, client};
use store::vault::{Bucket, KeyFile, OpenBucket, Plain, Revision, Vault};
use store::verify::no_wakes;
use store::{Connect, Faults, PAYLOAD_INLINE_MAX, Snapshot, Store, StoreError, spill};
use tests::nats::Nats;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_does_all_of_its_work_in_any_namespace() {
    for name in ["piton", "prod_eu-1"] {
        let folder = copy_for(name);
        let namespace: Namespace = name.parse().unwrap();
        let nats = Nats::deployed(1, &folder.path().join("single.conf"), &PASSWORDS).await;
        let first = connect(&nats, &namespace, Boot(1));
        works(&first).await;
        // Another life of it, which finds what the first one made.
        works(&Connect { boot: Boot(2), ..first }).await;
        assert!(!nats.log(0).contains("Violation"), "{}", nats.log(0));
    }
}

/// A cluster's key.
const KEY: &str = "k1:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// One life of a node: journal, leases, bus, vault.
async fn works(connect: &Connect) {
    let store = open(connect.clone()).await;
    assert_eq!(store.sync(), Sync::Proved);
    let stream = stream("a");
    let (keeper, members) = leads(connect, &store, &stream).await;
    keeps(&store, &stream).await;
    erases(&store, &stream).await;
    hides(connect).await;
    let report = store.verify(no_wakes).await.unwrap().unwrap();
    assert_eq!(report.problems, []);
    answers(connect, &store).await;
    keeper.place(BTreeSet::new()).await;
    let partition = stream.partition();
    let drains = |owns: &Arc<Owns>| owns.get(&partition).is_some_and(|owned| owned.draining);
    patient(keeper.owns().wait_for(drains)).await.unwrap();
    keeper.drained(partition).await;
    patient(keeper.owns().wait_for(|owns| owns.is_empty())).await.unwrap();
    members.leave().await;
    store.close().await;
}

/// Takes the lease of a stream's partition, and says that it lives.
async fn leads(connect: &Connect, store: &Store, stream: &StreamKey) -> (Keeper, Members) {
    let client = client(&connect.servers).await.unwrap();
    let bucket = Leases::new(client, connect.namespace.clone(), connect.replicas);
    let node = "n1".parse().unwrap();
    let keeper = Keeper::start(bucket.clone(), store.clone(), &node, connect.boot);
    keeper.place(BTreeSet::from([stream.partition()])).await;
    let mut owns = keeper.owns();
    let owned =
        patient(owns.wait_for(|owns| owns.contains_key(&stream.partition()))).await.unwrap();
    let epoch = owned[&stream.partition()].epoch;
    drop(owned);
    store.own(stream.partition(), epoch).await.unwrap();
    let members = Members::start(bucket, node.clone(), connect.boot);
    patient(
        members
            .nodes()
            .wait_for(|nodes| nodes.life(&node).is_some_and(|life| life.boot == connect.boot)),
    )
    .await
    .unwrap();
    (keeper, members)
}

/// Appends, reads, follows, and keeps a snapshot.
async fn keeps(store: &Store, stream: &StreamKey) {
    let before = all(store, stream).await.len();
    grow(store, stream, &[b"one"]).await;
    let tail = grow(store, stream, &[b"two"]).await;
    assert_eq!(all(store, stream).await.len(), before + 2);
    let shard = Shard(u16::from(stream.partition().number()) % SHARDS);
    let mut followed = pin!(store.follow(shard, 0));
    for _ in 0..before + 2 {
        patient(followed.next()).await.unwrap().unwrap();
    }
    let kept =
        Snapshot { fold: 1, version: tail.version, hash: tail.hash, bytes: b"a fold"[..].into() };
    store.put_snapshot(stream, kept.clone()).await.unwrap();
    assert_eq!(store.snapshot(stream, 1).await.unwrap(), Some(kept));
}

/// Keeps a blob, and erases it.
async fn erases(store: &Store, stream: &StreamKey) {
    let tail = store.tail(stream).await.unwrap();
    let mut append = after(store, stream, tail, &[&vec![7; PAYLOAD_INLINE_MAX + 1]]);
    (append.commit.entries, append.blobs) = spill(append.commit.entries);
    let blob = append.blobs[0].reference;
    landed(&store.append(append).await);
    assert_eq!(store.blob(&blob).await.unwrap().len(), PAYLOAD_INLINE_MAX + 1);
    store.erase_blob(&blob).await.unwrap();
    assert!(matches!(store.blob(&blob).await, Err(StoreError::Erased(_))));
    assert_eq!(store.stats().await.unwrap().blobs, 0);
}

/// Keeps a secret in the vault, and takes it away.
async fn hides(connect: &Connect) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.key");
    store::private::write(&path, KEY).unwrap();
    let open = OpenBucket {
        servers: connect.servers.clone(),
        namespace: connect.namespace.clone(),
        replicas: connect.replicas,
        keys: KeyFile::open(&path).unwrap(),
    };
    let bucket = patient(Bucket::open(open)).await.unwrap();
    let (vault, name) = (Vault::Bucket(bucket.clone()), "a.b".parse().unwrap());
    vault.put(&name, &Plain::new(b"secret".to_vec()), Revision::NONE).await.unwrap();
    assert_eq!(bucket.rotate().await.unwrap().values, 1);
    vault.remove(&name).await.unwrap();
    assert_eq!(vault.names().await.unwrap(), []);
}

/// Who serves the one stream of the bus.
struct Directory(Arc<Table<Probe>>);

impl Serves<Probe> for Directory {
    fn table(&self) -> Option<&Arc<Table<Probe>>> {
        Some(&self.0)
    }
}

/// Asks one node from another.
async fn answers(connect: &Connect, store: &Store) {
    let rig = Rig::with(Faults::none()).await;
    let directory = Arc::new(Directory(rig.table.clone()));
    let bus = async || {
        let client = client(&connect.servers).await.unwrap();
        let (local, clock) = (Local::new(), rig.hand.clock());
        NatsBus::<Directory>::new(client, connect.namespace.clone(), local, store.clone(), clock)
    };
    let owner = bus().await;
    owner.lead_to(&directory);
    owner.answer_for(&rig.table);
    let partition = Probe::stream(&Id(1)).partition();
    patient(owner.serve(partition)).await.unwrap();
    let asker = Bus::Nats(bus().await);
    let answer = patient(asker.decide::<Probe>(Id(1), rig.order(Command::Add(3)))).await;
    assert_eq!(answer.unwrap().unwrap().state.sum, 3);
    patient(owner.leave(partition)).await;
}

/// What takes a stream or a part of it away, changes it, or moves it.
fn harms(stream: &str) -> Vec<String> {
    ["DELETE", "PURGE", "UPDATE", "RESTORE", "SNAPSHOT", "LEADER.STEPDOWN", "PEER.REMOVE"]
        .map(|verb| format!("$JS.API.STREAM.{verb}.{stream}"))
        .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_takes_nothing_of_a_journal_away() {
    let nats = Nats::deployed(1, &super::here().join("single.conf"), &PASSWORDS).await;
    let namespace = piton();
    let store = open(connect(&nats, &namespace, Boot(1))).await;
    own(&store, &stream("a")).await;
    grow(&store, &stream("a"), &[b"one"]).await;
    let mut node = Guest::node(&nats).await;
    let bucket = Leases::new(node.client.clone(), namespace.clone(), 1);
    hides(&connect(&nats, &namespace, Boot(1))).await;
    let _watch = patient(bucket.open()).await.unwrap();
    for name in streams(&namespace) {
        for harm in harms(&name) {
            node.may_not_publish(&harm).await;
        }
        if name != namespace.blob_stream() {
            node.may_not_publish(&format!("$JS.API.STREAM.MSG.DELETE.{name}")).await;
        }
    }
    let more = [
        "STREAM.CREATE.OTHER",
        "STREAM.LIST",
        "ACCOUNT.PURGE.PITON",
        "META.LEADER.STEPDOWN",
        "SERVER.REMOVE",
    ];
    for api in more {
        node.may_not_publish(&format!("$JS.API.{api}")).await;
    }
    for subject in ["$SYS.REQ.SERVER.PING", "ev.other.01.probe.a", "other", "_INBOX_reader.a"] {
        node.may_not_publish(subject).await;
    }
    for subject in [
        ">",
        "ev.piton.>",
        "$JS.API.>",
        "$KV.LEASE_piton.>",
        "$KV.VAULT_piton.>",
        "$SYS.>",
        "_INBOX_reader.>",
    ] {
        node.may_not_subscribe(subject).await;
    }
    assert_eq!(all(&store, &stream("a")).await.len(), 1);
    let context = async_nats::jetstream::new(node.client.clone());
    for name in streams(&namespace) {
        patient(context.get_stream(&name)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_makes_no_stream_once_founding_is_taken_away() {
    let folder = copy();
    let nats = Nats::deployed(1, &folder.path().join("single.conf"), &PASSWORDS).await;
    let namespace = piton();
    let first = connect(&nats, &namespace, Boot(1));
    open(first.clone()).await.close().await;
    hides(&first).await;
    let loaded = |varz: serde_json::Value| varz["config_load_time"].as_str().map(str::to_owned);
    let before = nats.monitor(0, "/varz").await.and_then(loaded).unwrap();
    take_founding_away(&folder.path().join("permissions.conf"));
    nats.reload(0);
    tests::process::wait_for("the new permissions", || async {
        nats.monitor(0, "/varz").await.and_then(loaded).filter(|now| *now != before)
    })
    .await;
    let mut node = Guest::node(&nats).await;
    for name in streams(&namespace).iter().filter(|name| **name != namespace.lease_stream()) {
        node.may_not_publish(&format!("$JS.API.STREAM.CREATE.{name}")).await;
    }
    // It has all that it needs, and a bucket of leases that was lost may be made again.
    works(&connect(&nats, &namespace, Boot(2))).await;
    let log = nats.log(0);
    let refused = log.lines().filter(|line| line.contains("Publish Violation")).count();
    assert_eq!(refused, streams(&namespace).len() - 1, "{log}");
}

/// Cuts the lines out that the file marks.
fn take_founding_away(permissions: &std::path::Path) {
    let mut is_founding = false;
    let text = read(permissions);
    let kept = text.lines().filter(|line| {
        let ends = line.ends_with("# founding: end");
        is_founding = (is_founding && !ends) || line.ends_with("# founding: begin");
        !is_founding && !ends
    });
    let kept = kept.fold(String::new(), |kept, line| kept + line + "\n");
    assert!(kept.len() < text.len());
    std::fs::write(permissions, kept).unwrap();
}
