//! The stories' own NATS servers come up, lose one and get it back.

use async_nats::jetstream::{self, stream};
use tests::nats::{Nats, Sync};

#[tokio::test]
async fn one_nats_server_comes_up_and_comes_back_with_what_it_kept() {
    let mut nats = Nats::one(Sync::Always).await;
    let varz = nats.monitor(0, "/varz").await.unwrap();
    assert_eq!(varz["jetstream"]["config"]["sync_always"], true, "{varz}");
    let client = async_nats::connect(nats.urls()[0].as_str()).await.unwrap();
    let context = jetstream::new(client);
    let config = stream::Config {
        name: "S".to_owned(),
        subjects: vec!["s".to_owned()],
        ..stream::Config::default()
    };
    context.create_stream(config).await.unwrap();
    context.publish("s", "kept".into()).await.unwrap().await.unwrap();
    nats.restart(0).await;

    let client = async_nats::connect(nats.urls()[0].as_str()).await.unwrap();
    let stream = jetstream::new(client).get_stream("S").await.unwrap();
    let kept = stream.get_last_raw_message_by_subject("s").await.unwrap();
    assert_eq!(kept.payload, "kept");
}

#[tokio::test]
async fn three_nats_servers_have_a_leader_and_another_one_after_its_death() {
    let mut nats = Nats::three(Sync::Default).await;
    let first = nats.leader().await.unwrap();
    nats.kill(first);
    let next = tests::process::wait_for("another leader", || async {
        nats.leader().await.filter(|next| *next != first)
    })
    .await;
    assert_ne!(next, first);
    nats.restart(first).await;
    assert!(nats.leader().await.is_some());
}
