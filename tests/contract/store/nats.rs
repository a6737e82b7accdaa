//! The suite on real NATS servers, and what only a journal there has. One process of servers for all behaviours, a
//! namespace for each.

mod down;
mod slot;

use super::{Home, all_behaviours, own_all};
use crate::probe::JOURNAL;
use events::record::Boot;
use futures_util::{FutureExt, StreamExt, stream};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::jetstream::{LazySync, OUTAGE_MAX, Servers, Sync};
use store::{Connect, Faults, Store};
use tests::nats::{self, Nats};

/// A behaviour, for a list.
pub type Behaviour = for<'a> fn(&'a Home) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Behaviours at a time.
const ABREAST: usize = 4;

/// A namespace on servers.
#[derive(Debug, Clone)]
pub struct Place {
    pub connect: Connect,
}

impl Place {
    /// A namespace that no other place of this process has.
    pub fn on(nats: &Nats, lazy_sync: LazySync) -> Self {
        static DRAWN: AtomicU64 = AtomicU64::new(0);
        let namespace = format!("t_{}", DRAWN.fetch_add(1, Ordering::Relaxed)).parse().unwrap();
        let urls = nats.urls();
        let replicas = urls.len();
        let connect = Connect {
            servers: Servers { outage_max: OUTAGE_MAX, ..Servers::at(urls) },
            monitors: nats.monitors(),
            namespace,
            boot: Boot(0),
            fresh: JOURNAL,
            replicas,
            shard_bytes_max: 64 << 20,
            lazy_sync,
            faults: Faults::none(),
        };
        Self { connect }
    }

    pub async fn connect(&self, boot: Boot, faults: Faults) -> Store {
        let connect = Connect { boot, faults, ..self.connect.clone() };
        Store::connect(connect).await.unwrap()
    }

    /// Connects and takes every partition.
    pub async fn open(&self, boot: Boot, faults: Faults, before: Option<&Store>) -> Store {
        let store = self.connect(boot, faults).await;
        own_all(&store, before).await;
        store
    }

    /// A client of the servers, as an administrator has one.
    pub async fn admin(&self) -> async_nats::jetstream::Context {
        let addresses: Vec<async_nats::ServerAddr> =
            self.connect.servers.urls.iter().map(|url| url.parse().unwrap()).collect();
        async_nats::jetstream::new(async_nats::connect(addresses).await.unwrap())
    }

    /// Takes everything of the namespace away, so that the servers have room; what they do not do in time stays.
    async fn clear(&self) {
        let context = self.admin().await;
        let ours = format!("_{}", self.connect.namespace);
        let names: Vec<_> =
            context.stream_names().filter_map(|name| std::future::ready(name.ok())).collect().await;
        let (shard, beside) =
            (format!("EV{ours}_"), ["BLOB", "SNAP", "META"].map(|kind| format!("{kind}{ours}")));
        for name in names.iter().filter(|name| name.starts_with(&shard) || beside.contains(name)) {
            let _gone = context.delete_stream(name).await;
        }
    }
}

/// Runs every behaviour on these servers, some at a time, and says which failed.
async fn all(nats: &Nats, lazy_sync: LazySync, proved: fn(&Sync) -> bool) {
    let one = |(name, behaviour): (&'static str, Behaviour)| async move {
        let place = Place::on(nats, lazy_sync);
        let home = Home::Nats(place.clone());
        let started = std::time::Instant::now();
        let run = AssertUnwindSafe(async {
            behaviour(&home).await;
            home.verify().await;
            let store = place.connect(Boot(99), Faults::none()).await;
            assert!(proved(&store.sync()), "{:?}", store.sync());
        });
        let ended = tokio::time::timeout(Duration::from_secs(60), run.catch_unwind()).await;
        eprintln!("{name}: {:?}", started.elapsed());
        if !matches!(ended, Ok(Ok(()))) {
            return Some(name);
        }
        place.clear().await;
        None
    };
    let failed: Vec<_> = stream::iter(all_behaviours())
        .map(one)
        .buffer_unordered(ABREAST)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(failed.is_empty(), "failed: {failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_behaviour_on_one_nats_server_that_syncs_always() {
    let nats = Nats::one(nats::Sync::Always).await;
    all(&nats, LazySync::Refuse, |sync| *sync == Sync::Proved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_behaviour_on_one_nats_server_as_it_comes() {
    let nats = Nats::one(nats::Sync::Default).await;
    all(&nats, LazySync::Allow, |sync| matches!(sync, Sync::Lazy(_))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_behaviour_on_three_nats_servers() {
    let nats = Nats::three(nats::Sync::Always).await;
    all(&nats, LazySync::Refuse, |sync| *sync == Sync::Proved).await;
}
