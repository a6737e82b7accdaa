//! Leases over a real server: taken, kept, lost with a dead node, handed over, and had again when the bucket is gone.
//!
//! The times are the product's own, so the death of a node takes its fifteen seconds here too.

use crate::hosts::probe::patient;
use actors::cluster::bucket::Bucket;
use actors::cluster::dispatch::Horizon;
use actors::cluster::keeper::{Keeper, Owned, Owns};
use actors::cluster::lease::{Holder, Outcome, Seen};
use actors::cluster::member::Members;
use events::id::Partition;
use events::record::{Boot, Epoch, JournalId};
use events::subject::Namespace;
use std::collections::BTreeSet;
use std::time::Instant;
use store::{Faults, Store};
use tests::nats::{Nats, Sync};

/// A server, and the one partition that these tests fight for.
struct Arena {
    server: Nats,
    store: Store,
}

impl Arena {
    async fn new() -> Self {
        let store = Store::memory(Boot(1), JournalId(7), Faults::none());
        Self { server: Nats::one(Sync::Default).await, store }
    }

    async fn client(&self) -> async_nats::Client {
        patient(async_nats::connect(self.server.urls())).await.unwrap()
    }

    async fn bucket(&self) -> Bucket {
        Bucket::new(self.client().await, namespace(), 1)
    }

    async fn keeper(&self, name: &str, boot: u128) -> Keeper {
        let bucket = self.bucket().await;
        Keeper::start(bucket, self.store.clone(), &name.parse().unwrap(), Boot(boot))
    }
}

fn namespace() -> Namespace {
    "test".parse().unwrap()
}

fn seven() -> Partition {
    Partition::of(7)
}

fn here() -> BTreeSet<Partition> {
    BTreeSet::from([seven()])
}

async fn until(keeper: &Keeper, wanted: impl Fn(Option<&Owned>) -> bool) -> Option<Owned> {
    let mut owns = keeper.owns();
    let found = patient(owns.wait_for(|owns| wanted(owns.get(&seven())))).await.unwrap();
    found.get(&seven()).copied()
}

async fn owned(keeper: &Keeper) -> Epoch {
    until(keeper, |owned| owned.is_some()).await.unwrap().epoch
}

#[tokio::test]
async fn a_value_names_the_revision_that_it_replaces() {
    let arena = Arena::new().await;
    let bucket = arena.bucket().await;
    assert!(bucket.look(seven()).await.is_err(), "there is no bucket yet");
    let _watch = patient(bucket.open()).await.unwrap();
    assert_eq!(bucket.look(seven()).await.unwrap(), Seen::Free { revision: 0 });
    let holder = Holder { node: "a".parse().unwrap(), boot: Boot(1), epoch: Epoch(3) };
    let Outcome::Stored { revision } = bucket.put(seven(), &holder, 0).await else { panic!() };
    assert_eq!(bucket.put(seven(), &holder, 0).await, Outcome::Refused);
    let seen = Seen::Held { revision, holder: Some(holder.clone()) };
    assert_eq!(bucket.look(seven()).await.unwrap(), seen);
    assert_eq!(bucket.delete(seven(), revision + 1).await, Outcome::Refused);
    let Outcome::Stored { revision } = bucket.delete(seven(), revision).await else { panic!() };
    assert_eq!(bucket.look(seven()).await.unwrap(), Seen::Free { revision });
    assert_eq!(bucket.put(seven(), &holder, 0).await, Outcome::Refused, "the marker counts");
    assert!(matches!(bucket.put(seven(), &holder, revision).await, Outcome::Stored { .. }));
    let other = bucket.look(Partition::of(8)).await.unwrap();
    assert_eq!(other, Seen::Free { revision: 0 });
}

#[tokio::test]
async fn a_partition_is_taken_kept_and_handed_over_at_once() {
    let arena = Arena::new().await;
    let (a, b) = (arena.keeper("a", 11).await, arena.keeper("b", 12).await);
    a.place(here()).await;
    let first = owned(&a).await;
    b.place(here()).await;
    // A heartbeat moves the horizon.
    let before = a.horizon(seven());
    until(&a, |owned| owned.is_some_and(|owned| owned.horizon != before)).await;
    assert!(matches!((before, a.horizon(seven())),
        (Horizon::Until(old), Horizon::Until(new)) if new > old));
    assert_eq!(b.horizon(seven()), Horizon::Over);
    let since = Instant::now();
    a.place(BTreeSet::new()).await;
    until(&a, |owned| owned.is_some_and(|owned| owned.draining)).await;
    assert_eq!(b.horizon(seven()), Horizon::Over, "not before it is at rest");
    a.drained(seven()).await;
    let second = owned(&b).await;
    assert!(second > first, "{second:?} after {first:?}");
    assert_eq!(a.horizon(seven()), Horizon::Over);
    let took = since.elapsed();
    assert!(took.as_secs() < 5, "the next owner sees it at once, not after {took:?}");
    println!("handed over in {took:?}");
}

#[tokio::test]
async fn a_dead_nodes_partition_is_taken_when_its_lease_ends() {
    let arena = Arena::new().await;
    let (a, b) = (arena.keeper("a", 11).await, arena.keeper("b", 12).await);
    a.place(here()).await;
    let first = owned(&a).await;
    b.place(here()).await;
    let since = Instant::now();
    drop(a);
    let second = owned(&b).await;
    let took = since.elapsed();
    assert!(second > first, "{second:?} after {first:?}");
    assert!(
        (11..19).contains(&took.as_secs()),
        "by its own end, and not by standing still: {took:?}"
    );
    println!("taken over in {took:?}");
}

#[tokio::test]
async fn a_silent_nodes_partition_is_taken_without_waiting() {
    let arena = Arena::new().await;
    let (a, b) = (arena.keeper("a", 11).await, arena.keeper("b", 12).await);
    a.place(here()).await;
    let first = owned(&a).await;
    b.place(here()).await;
    drop(a);
    let since = Instant::now();
    let second = patient(async {
        loop {
            // The last heartbeat of the dead node may look like a sign of life once.
            b.silent(Boot(11)).await;
            let mut owns = b.owns();
            let soon = std::time::Duration::from_millis(100);
            let took = |owns: &std::sync::Arc<Owns>| owns.contains_key(&seven());
            if let Ok(found) = tokio::time::timeout(soon, owns.wait_for(took)).await {
                break found.unwrap()[&seven()].epoch;
            }
        }
    })
    .await;
    let took = since.elapsed();
    assert!(second > first && took.as_secs() < 5, "{second:?} after {first:?} in {took:?}");
}

#[tokio::test]
async fn a_bucket_that_was_deleted_is_made_again_and_blocks_nobody() {
    let arena = Arena::new().await;
    let a = arena.keeper("a", 11).await;
    a.place(here()).await;
    let first = owned(&a).await;
    let context = async_nats::jetstream::new(arena.client().await);
    patient(context.delete_stream(namespace().lease_stream())).await.unwrap();
    let again = until(&a, |owned| owned.is_some_and(|owned| owned.epoch > first)).await.unwrap();
    let bucket = arena.bucket().await;
    let Ok(Seen::Held { holder: Some(holder), .. }) = bucket.look(seven()).await else { panic!() };
    assert_eq!((holder.node.as_str(), holder.epoch), ("a", again.epoch));
}

#[tokio::test]
async fn a_bucket_that_was_made_again_is_watched_again() {
    let arena = Arena::new().await;
    let (a, b) = (arena.keeper("a", 11).await, arena.keeper("b", 12).await);
    let bucket = arena.bucket().await;
    let member = |(name, boot): (&str, u128)| {
        Members::start(bucket.clone(), name.parse().unwrap(), Boot(boot))
    };
    let members = [("a", 11), ("b", 12)].map(member);
    let eight = Partition::of(8);
    a.place(here()).await;
    b.place(BTreeSet::from([eight])).await;
    let first = owned(&a).await;
    let count = async |count: usize| {
        let mut nodes = members[0].nodes();
        patient(nodes.wait_for(|nodes| nodes.lives().count() == count)).await.unwrap();
    };
    count(2).await;
    let context = async_nats::jetstream::new(arena.client().await);
    patient(context.delete_stream(namespace().lease_stream())).await.unwrap();
    until(&a, |owned| owned.is_some_and(|owned| owned.epoch > first)).await.unwrap();
    // Both have said a word in the new one.
    let stands = async |subject: String| {
        patient(async {
            let stream = context.get_stream(namespace().lease_stream()).await.unwrap();
            while stream.get_last_raw_message_by_subject(&subject).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    for subject in ["a", "b"].map(|node| namespace().member_of(node)) {
        stands(subject).await;
    }
    stands(namespace().lease_of(eight)).await;
    let since = Instant::now();
    b.place(here()).await;
    a.place(BTreeSet::new()).await;
    until(&a, |owned| owned.is_some_and(|owned| owned.draining)).await;
    a.drained(seven()).await;
    owned(&b).await;
    let took = since.elapsed();
    assert!(took.as_secs() < 15, "it is told, and does not find out by looking: {took:?}");
    // A third one comes.
    let _third = member(("c", 13));
    count(3).await;
    println!("handed over in {took:?}, a third node seen after {:?}", since.elapsed());
}

#[tokio::test]
async fn without_a_server_nobody_owns_anything_for_longer_than_the_horizon() {
    let mut arena = Arena::new().await;
    let a = arena.keeper("a", 11).await;
    a.place(here()).await;
    let first = owned(&a).await;
    arena.server.kill(0);
    let since = Instant::now();
    until(&a, |owned| owned.is_none()).await;
    let took = since.elapsed();
    assert!((8..14).contains(&took.as_secs()), "{took:?}");
    arena.server.restart(0).await;
    assert!(owned(&a).await > first);
    assert!(a.is_running());
}

#[tokio::test]
async fn an_owner_that_meets_a_higher_epoch_goes_on_above_it() {
    let arena = Arena::new().await;
    let a = arena.keeper("a", 11).await;
    a.place(here()).await;
    let first = owned(&a).await;
    a.met(seven(), Epoch(first.0 + 40)).await;
    let raised = until(&a, |owned| owned.is_some_and(|owned| owned.epoch > first)).await.unwrap();
    assert_eq!(raised.epoch, Epoch(first.0 + 41));
}
