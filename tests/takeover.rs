//! A node's process dies, and others serve what it owned within seconds, with and without somebody who asks for it.

use crate::probe::Dice;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::Node;
use tests::fleet::{Cluster, chat, said};
use tests::process::{answer, json as body, wait_for};

/// Kills of one story; `PITON_TEST_TAKEOVERS` overrides it.
const KILLS: usize = 5;
/// From the kill to the first command that is accepted through another node.
const BOUND: Duration = Duration::from_secs(5);
/// Conversations under way while nodes are killed.
const TALKS: usize = 4;

fn kills() -> usize {
    std::env::var("PITON_TEST_TAKEOVERS").map_or(KILLS, |kills| kills.parse().unwrap())
}

/// Kills a node in the middle of an answer, and stops that run through another one.
async fn stopped_elsewhere(cluster: &mut Cluster, nth: usize) -> Duration {
    let run = cluster.nodes[nth].start_run(&json!({"input": "slow 400"})).await;
    let path = format!("/v1/runs/{run}");
    wait_for("its model is asked", || async {
        let events = cluster.nodes[nth].events(&run).await;
        events.iter().any(|name| name == "model_asked").then_some(())
    })
    .await;
    let other = (nth + 1) % cluster.nodes.len();
    cluster.nodes[nth].kill();
    let since = Instant::now();
    let stop = body(cluster.nodes[other].ask(Method::POST, &format!("{path}/stop")), &json!({}));
    let (status, stopped) = answer(stop.timeout(2 * BOUND)).await;
    assert!(status < 300, "{status} {stopped}");
    let took = since.elapsed();
    assert_eq!(cluster.nodes[other].ended(&run).await["outcome"], "cancelled");
    took
}

/// Kills a node, and only looks on until the others serve all.
async fn served_elsewhere(cluster: &mut Cluster, nth: usize) -> Duration {
    cluster.nodes[nth].kill();
    let since = Instant::now();
    let rest: Vec<&Node> =
        (0..cluster.nodes.len()).filter(|one| *one != nth).map(|one| &cluster.nodes[one]).collect();
    wait_for("the others serve all", || async {
        let mut serves = 0;
        for node in &rest {
            let (_, list) = node.get("/v1/nodes").await;
            let own = list["data"].as_array()?.iter().find(|row| row["this"] == true)?.clone();
            serves += own["serves"].as_u64()?;
        }
        (serves == 64).then_some(())
    })
    .await;
    since.elapsed()
}

fn figures(what: &str, took: &mut [Duration]) {
    took.sort_unstable();
    let at = |share: usize| took[(took.len() * share / 100).min(took.len() - 1)];
    println!(
        "{what}: {} kills, p50 {:?}, p99 {:?}, max {:?}",
        took.len(),
        at(50),
        at(99),
        took[took.len() - 1]
    );
}

/// Talks to both of the nodes that live until told to stop; no turn may fail.
async fn talk(urls: Vec<String>, name: String, stop: tokio::sync::watch::Receiver<bool>) -> usize {
    let client = tests::process::client();
    let mut turns = 0;
    while !*stop.borrow() {
        let url = &urls[turns % urls.len()];
        let asked = json!({"model": "demo", "messages": [said("user", "hello")]});
        let request = client
            .post(format!("{url}/v1/chat/completions"))
            .bearer_auth(tests::ADMIN_KEY)
            .header("x-piton-session-id", format!("{name}-{turns}"));
        let (status, got) = answer(body(request, &asked)).await;
        assert_eq!(status, 200, "{name}, turn {turns}: {got}");
        turns += 1;
    }
    turns
}

#[tokio::test]
async fn a_killed_node_is_replaced_within_seconds_whether_somebody_asks_or_not() {
    let mut cluster = Cluster::of(3).await;
    let (mut asked, mut unasked) = (vec![], vec![]);
    let mut turns = 0;
    for kill in 0..kills() {
        let nth = kill % 3;
        let urls = (1..3).map(|one| cluster.nodes[(nth + one) % 3].url.clone());
        let urls: Vec<String> = urls.collect();
        let (stop, stops) = tokio::sync::watch::channel(false);
        let talks: Vec<_> = (0..TALKS)
            .map(|one| tokio::spawn(talk(urls.clone(), format!("t{kill}-{one}"), stops.clone())))
            .collect();
        // Every third one without a question to the dead node's partitions from the story itself.
        if kill % 3 == 2 {
            unasked.push(served_elsewhere(&mut cluster, nth).await);
        } else {
            asked.push(stopped_elsewhere(&mut cluster, nth).await);
        }
        stop.send_replace(true);
        for talk in talks {
            turns += talk.await.unwrap();
        }
        cluster.restart(nth).await;
        cluster.settled().await;
    }
    println!("{turns} turns through the other nodes meanwhile, none failed");
    figures("from the kill to the first accepted command", &mut asked);
    if !unasked.is_empty() {
        figures("from the kill to all partitions served, nobody asking for one", &mut unasked);
    }
    for took in asked.iter().chain(&unasked) {
        assert!(*took < BOUND, "{asked:?} {unasked:?}");
    }
}

#[tokio::test]
async fn an_idle_cluster_notices_by_itself() {
    let mut cluster = Cluster::of(3).await;
    let took = served_elsewhere(&mut cluster, 1).await;
    assert!(took < BOUND, "{took:?}");
    println!("from the kill to all partitions served, an idle cluster: {took:?}");
    let (status, got) = chat(&cluster.nodes[0], "after", &json!([said("user", "hello")])).await;
    assert_eq!(status, 200, "{got}");
}

/// Whom everybody suspects, although it lives, loses nothing.
#[tokio::test]
async fn a_suspicion_of_a_live_node_does_nothing() {
    let cluster = Cluster::of(2).await;
    // Who holds what comes to each node by a watch, a moment after it is so.
    let list = wait_for("each has its half", || async {
        let (_, list) = cluster.nodes[0].get("/v1/nodes").await;
        let mut rows = list["data"].as_array()?.iter();
        rows.all(|row| row["holds"] == 32).then_some(list)
    })
    .await;
    let boots: Vec<u128> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| u128::from_str_radix(row["boot"].as_str().unwrap(), 16).unwrap())
        .collect();
    let client = async_nats::connect(cluster.nats.urls()).await.unwrap();
    let mut dice = Dice::new(1);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(3) {
        let boot = boots[usize::from(dice.roll(2) == 1)];
        let suspect = actors::bus::life::Request::Suspect { boot: events::record::Boot(boot) };
        for life in &boots {
            let subject = format!("piton.piton.life.{life:032x}");
            client.publish(subject, suspect.bytes()).await.unwrap();
        }
        client.flush().await.unwrap();
    }
    let (_, after) = cluster.nodes[0].get("/v1/nodes").await;
    let held = |list: &Value| {
        let rows = list["data"].as_array().unwrap().iter();
        let held = rows.map(|row| (row["boot"].clone(), row["holds"].clone()));
        held.collect::<Vec<(Value, Value)>>()
    };
    assert_eq!(held(&list), held(&after));
    assert_eq!(held(&list)[0].1, 32, "{list}");
    for node in &cluster.nodes {
        let log = node.log();
        assert!(!log.contains("node_silent") && !log.contains("not owned any more"), "{log}");
    }
}
