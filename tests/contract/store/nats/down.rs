//! One server of three is down: nodes start all the same and say so; one that is there and only does not say how it
//! syncs keeps them out, and nothing is founded without all.

use super::Place;
use crate::probe::{grow, stream};
use events::record::Boot;
use store::jetstream::{LazySync, Sync, Unsafe};
use store::{Connect, ConnectError, Faults, Store};
use tests::nats::{self, Nats};
use tests::process::wait_for;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_servers_of_which_one_is_down_are_joined_and_one_that_hides_is_not() {
    let mut nats = Nats::three(nats::Sync::Always).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let nobody = || "http://127.0.0.1:1".to_owned();
    let mut hidden = place.connect.clone();
    hidden.monitors[2] = nobody();
    let silent = |refused: Result<Store, ConnectError>| match refused {
        Err(ConnectError::Unsafe(Unsafe::Silent { monitor, .. })) => assert_eq!(monitor, nobody()),
        other => panic!("{other:?}"),
    };
    silent(Store::connect(hidden.clone()).await);
    let store = place.open(Boot(1), Faults::none(), None).await;
    assert_eq!(store.sync(), Sync::Proved);
    // The journal is there, and so is the server that does not say how it syncs.
    silent(Store::connect(hidden).await);

    nats.kill(2);
    let late = Connect { boot: Boot(2), ..place.connect.clone() };
    let late = Store::connect(late).await.unwrap();
    assert!(matches!(late.sync(), Sync::Silent(why) if why.contains(&nats.monitors()[2])));
    wait_for("appends land", || async { store.probe().await.ok() }).await;
    grow(&store, &stream("a"), &[b"one"]).await;
    nats.restart(2).await;
    wait_for("it is proved again", || async { (late.sync() == Sync::Proved).then_some(()) }).await;
}
