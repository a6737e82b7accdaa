//! Servers of NATS die, stop, hang and come back under nodes at work: what was acknowledged stands once, nobody is
//! taken for dead, and no lease is lost in one election.

use events::id::PARTITIONS;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::Node;
use tests::books::settle;
use tests::fleet::{Cluster, chat, said};
use tests::process::wait_for;
use tests::work::Crew;

/// Sessions at work.
const WORKERS: usize = 8;
/// How long a server hangs at least.
const HANGS: Duration = Duration::from_secs(6);
/// The bucket of leases, whose leader's death is the worst one for leases.
const LEASES: &str = "KV_LEASE_piton";

/// What each node holds, as one of them sees it once all is held: that comes to each node by a watch, a moment after it
/// is so.
async fn holds_all(node: &Node) -> Vec<(Value, Value, Value)> {
    wait_for("it sees that all is held", || async {
        let rows = holds(node).await;
        let held: u64 = rows.iter().filter_map(|row| row.2.as_u64()).sum();
        (held == 64).then_some(rows)
    })
    .await
}

/// What each node holds, as one of them sees it.
async fn holds(node: &Node) -> Vec<(Value, Value, Value)> {
    let (_, list) = node.get("/v1/nodes").await;
    let rows = list["data"].as_array().cloned().unwrap_or_default();
    rows.iter()
        .map(|row| (row["name"].clone(), row["boot"].clone(), row["holds"].clone()))
        .collect()
}

/// Nobody lost a lease, and nobody was taken for dead.
fn nothing_changed_hands(cluster: &Cluster) {
    for node in &cluster.nodes {
        let log = node.log();
        for sign in ["node_silent", "not owned any more", "handed over"] {
            let line = log.lines().find(|line| line.contains(sign));
            assert_eq!(line, None, "{log}");
        }
    }
}

/// Waits until a new turn is acknowledged and answered through each node; the time from `since`.
async fn all_go_on(cluster: &Cluster, since: Instant, name: &str) -> Duration {
    for (nth, node) in cluster.nodes.iter().enumerate() {
        let session = format!("{name}-{nth}");
        wait_for("a turn through each node", || async {
            let (status, _) = chat(node, &session, &json!([said("user", "hello")])).await;
            (status == 200).then_some(())
        })
        .await;
    }
    since.elapsed()
}

/// Waits until every lease was renewed once more: what happens next is then an outage of its own.
async fn renewed(cluster: &Cluster) {
    let client = async_nats::connect(cluster.nats.urls()).await.unwrap();
    let bucket = async_nats::jetstream::new(client).get_stream(LEASES).await.unwrap();
    let newest = async || {
        let info = bucket.get_info().await.ok()?;
        Some(info.state.last_sequence)
    };
    let before = wait_for("the bucket of leases answers", &newest).await;
    wait_for("every lease is renewed", async || {
        (newest().await? >= before + u64::from(PARTITIONS)).then_some(())
    })
    .await;
}

async fn finish(cluster: &Cluster, crew: Crew, what: &str) {
    finish_with(cluster, crew, what, 0).await;
}

/// The same where so many calls at most may have been under way when their leases ended: nobody knows of these.
async fn finish_with(cluster: &Cluster, crew: Crew, what: &str, unknown_max: usize) {
    cluster.settled().await;
    let done = crew.finish().await;
    let books = settle(cluster, &done.turns).await;
    println!("{what}: {books:?}, repeated {:?}", done.refused);
    assert!(books.turns >= WORKERS && books.unknown <= unknown_max, "{books:?}");
}

#[tokio::test]
async fn a_dead_leader_and_one_that_goes_cost_no_lease_and_no_turn() {
    let mut cluster = Cluster::on_three(3).await;
    let before = holds_all(&cluster.nodes[0]).await;
    let crew = Crew::start(&cluster, WORKERS);
    let leader = cluster.nats.leader_of(LEASES).await.unwrap();
    cluster.nats.kill(leader);
    let since = Instant::now();
    let took = all_go_on(&cluster, since, "killed").await;
    println!("NATS leader killed: {took:?} until a turn through each node");
    cluster.nats.restart(leader).await;
    renewed(&cluster).await;
    let leader = cluster.nats.leader_of(LEASES).await.unwrap();
    cluster.nats.lame_duck(leader);
    let since = Instant::now();
    let took = all_go_on(&cluster, since, "duck").await;
    println!("NATS leader in lame duck: {took:?} until a turn through each node");
    cluster.nats.restart(leader).await;
    finish(&cluster, crew, "a dead leader, one that goes").await;
    nothing_changed_hands(&cluster);
    assert_eq!(holds_all(&cluster.nodes[0]).await, before);
}

#[tokio::test]
async fn a_server_that_hangs_for_seconds_costs_no_lease_and_no_turn() {
    let cluster = Cluster::on_three(3).await;
    let before = holds_all(&cluster.nodes[0]).await;
    let crew = Crew::start(&cluster, WORKERS);
    for leads in [true, false] {
        let leader = cluster.nats.leader_of(LEASES).await.unwrap();
        let hangs = if leads { leader } else { (leader + 1) % 3 };
        cluster.nats.pause(hangs);
        let since = Instant::now();
        let took = all_go_on(&cluster, since, &format!("hangs-{leads}")).await;
        let mut more = 0;
        while since.elapsed() < HANGS {
            more += 1;
            all_go_on(&cluster, since, &format!("hangs-{leads}-{more}")).await;
        }
        println!("a server hangs (the leader: {leads}): {took:?} until a turn through each node");
        cluster.nats.resume(hangs);
        cluster.nats.ready().await;
        renewed(&cluster).await;
    }
    finish(&cluster, crew, "servers that hang").await;
    nothing_changed_hands(&cluster);
    assert_eq!(holds_all(&cluster.nodes[0]).await, before);
}

/// As with a disk that takes a quarter of a second for what takes others a millisecond: the server runs for a twelfth of
/// the time, so each of its writes and answers waits, and it never hangs long enough to be taken for dead.
#[tokio::test]
async fn a_server_that_is_slow_costs_no_lease_and_no_turn() {
    const STOPPED: Duration = Duration::from_millis(220);
    const RUNNING: Duration = Duration::from_millis(20);
    let cluster = Cluster::on_three(3).await;
    let before = holds_all(&cluster.nodes[0]).await;
    let crew = Crew::start(&cluster, WORKERS);
    for leads in [true, false] {
        let leader = cluster.nats.leader_of(LEASES).await.unwrap();
        let slow = if leads { leader } else { (leader + 1) % 3 };
        let since = Instant::now();
        let slowed = async {
            loop {
                cluster.nats.pause(slow);
                tokio::time::sleep(STOPPED).await;
                cluster.nats.resume(slow);
                tokio::time::sleep(RUNNING).await;
            }
        };
        let works = async {
            let took = all_go_on(&cluster, since, &format!("slow-{leads}")).await;
            let mut more = 0;
            while since.elapsed() < HANGS {
                more += 1;
                all_go_on(&cluster, since, &format!("slow-{leads}-{more}")).await;
            }
            println!(
                "a server is slow (the leader: {leads}): {took:?} until a turn through each node"
            );
        };
        tokio::select! {
            () = slowed => {}
            () = works => {}
        }
        cluster.nats.resume(slow);
        cluster.nats.ready().await;
        renewed(&cluster).await;
    }
    finish(&cluster, crew, "servers that are slow").await;
    nothing_changed_hands(&cluster);
    assert_eq!(holds_all(&cluster.nodes[0]).await, before);
}

#[tokio::test]
async fn all_servers_restarted_lose_no_turn_and_their_nodes_go_on() {
    let mut cluster = Cluster::on_three(3).await;
    let crew = Crew::start(&cluster, WORKERS);
    for server in 0..3 {
        cluster.nats.kill(server);
    }
    for server in 0..3 {
        cluster.nats.restart_unready(server);
    }
    let since = Instant::now();
    cluster.nats.ready().await;
    let ready = since.elapsed();
    let took = all_go_on(&cluster, since, "all").await;
    println!(
        "all servers restarted, ready after {ready:?}: {took:?} until a turn through each node"
    );
    // With no server at all, leases may end before one is there again.
    finish_with(&cluster, crew, "all servers restarted", WORKERS).await;
}

#[tokio::test]
async fn a_deleted_lease_bucket_is_made_again_and_nodes_come_and_go_after_it() {
    let mut cluster = Cluster::of(3).await;
    let crew = Crew::start(&cluster, WORKERS);
    let client = async_nats::connect(cluster.nats.urls()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    context.delete_stream(LEASES).await.unwrap();
    let since = Instant::now();
    wait_for("the bucket is there again", || async {
        context.get_stream(LEASES).await.is_ok().then_some(())
    })
    .await;
    cluster.settled().await;
    let took = all_go_on(&cluster, since, "made-again").await;
    println!("lease bucket deleted: {took:?} until a turn through each node");
    // What watches the members sees the new bucket: one goes, and one comes.
    let mut gone = cluster.nodes.remove(2);
    crew.go_through(tests::work::urls(&cluster));
    assert!(gone.stop().await.success(), "{}", gone.log());
    cluster.settled().await;
    let again = cluster.start(2).await;
    cluster.nodes.push(again);
    finish(&cluster, crew, "lease bucket deleted").await;
    holds_all(&cluster.nodes[0]).await;
}
