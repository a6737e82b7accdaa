//! Two minutes in which nodes and servers are killed every few seconds under two hundred sessions at work: each
//! acknowledged turn is in the journal once, each effect happened at most once, what was killed half-way is unknown and
//! the model is told, each chain verifies, each run ends.

use crate::probe::Dice;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tests::books::settle;
use tests::fleet::Cluster;
use tests::work::{Crew, urls};

/// Sessions at work.
const SESSIONS: usize = 200;
/// Seconds of the storm; `PITON_TEST_STORM_SECONDS` overrides it.
const SECONDS: u64 = 120;
/// From one blow to the next, at least; what a blow waits for comes on top.
const BETWEEN: Duration = Duration::from_secs(3);
/// The longest that something stays down or hangs before it is started again or goes on.
const DOWN_MAX_MS: u64 = 2_500;
/// Each session's wait between two looks, so that two hundred do not keep the machine busy with questions.
const PACE: Duration = Duration::from_millis(1_500);

/// What happens to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blow {
    /// A node dies.
    Node,
    /// A server dies.
    Server,
    /// Both at once; the node comes back first.
    Both,
    /// A server hangs, and a node dies meanwhile.
    Hang,
    /// All servers die at once.
    All,
}

impl Blow {
    fn rolled(dice: &mut Dice) -> Self {
        match dice.roll(16) {
            0..=4 => Self::Node,
            5..=8 => Self::Server,
            9..=12 => Self::Both,
            13..=14 => Self::Hang,
            _ => Self::All,
        }
    }

    /// How many nodes and servers it kills.
    const fn kills(self) -> (usize, usize) {
        match self {
            Self::Node | Self::Hang => (1, 0),
            Self::Server => (0, 1),
            Self::Both => (1, 1),
            Self::All => (0, 3),
        }
    }
}

/// The cluster in its storm.
struct Storm {
    cluster: Cluster,
    crew: Crew,
    dice: Dice,
}

impl Storm {
    /// Strikes, and waits until all that was struck runs again.
    async fn strike(&mut self, blow: Blow) {
        let (node, server) = (self.one_of_three(), self.one_of_three());
        let down = Duration::from_millis(self.dice.roll(DOWN_MAX_MS));
        match blow {
            Blow::Node => {
                self.kill_node(node);
                tokio::time::sleep(down).await;
                self.start_node(node).await;
            }
            Blow::Server => {
                self.cluster.nats.kill(server);
                tokio::time::sleep(down).await;
            }
            Blow::Both => {
                self.cluster.nats.kill(server);
                self.kill_node(node);
                tokio::time::sleep(down).await;
                self.start_node(node).await;
            }
            Blow::Hang => {
                self.cluster.nats.pause(server);
                self.kill_node(node);
                tokio::time::sleep(down).await;
                self.cluster.nats.resume(server);
                self.start_node(node).await;
            }
            Blow::All => (0..3).for_each(|server| self.cluster.nats.kill(server)),
        }
        for server in 0..3 {
            if !self.cluster.nats.runs(server) {
                self.cluster.nats.restart_unready(server);
            }
        }
        self.cluster.nats.ready().await;
    }

    fn one_of_three(&mut self) -> usize {
        usize::try_from(self.dice.roll(3)).unwrap()
    }

    fn kill_node(&mut self, nth: usize) {
        self.cluster.nodes[nth].kill();
        let mut left = urls(&self.cluster);
        left.remove(nth);
        self.crew.go_through(left);
    }

    async fn start_node(&mut self, nth: usize) {
        self.cluster.nodes[nth] = self.cluster.start(nth).await;
        self.crew.go_through(urls(&self.cluster));
    }
}

fn given(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |value| value.parse().unwrap())
}

#[tokio::test]
async fn a_storm_of_kills_loses_no_acknowledged_turn_and_doubles_no_effect() {
    let seed = given("PITON_TEST_SEED", u64::from(std::process::id()));
    let seconds = Duration::from_secs(given("PITON_TEST_STORM_SECONDS", SECONDS));
    println!("seed {seed}");
    let cluster = Cluster::on_three(3).await;
    let crew = Crew::paced(&cluster, SESSIONS, PACE);
    let mut storm = Storm { cluster, crew, dice: Dice::new(seed) };
    let mut blows: BTreeMap<Blow, usize> = BTreeMap::new();
    let began = Instant::now();
    let mut next = tokio::time::interval(BETWEEN);
    next.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while began.elapsed() < seconds {
        next.tick().await;
        let blow = Blow::rolled(&mut storm.dice);
        println!("{:?}: {blow:?}", began.elapsed());
        storm.strike(blow).await;
        *blows.entry(blow).or_default() += 1;
    }
    let stormed = began.elapsed();
    let Storm { cluster, crew, .. } = storm;
    cluster.settled().await;
    let done = crew.finish().await;
    let ended = began.elapsed();
    let books = settle(&cluster, &done.turns).await;
    let killed = blows.iter().map(|(blow, times)| (blow.kills(), times));
    let (nodes, servers) = killed.fold((0, 0), |(nodes, servers), (kills, times)| {
        (nodes + kills.0 * times, servers + kills.1 * times)
    });
    println!(
        "storm: seed {seed}, {} s, {nodes} nodes and {servers} servers killed, {} turns acknowledged, {} commits, \
         {} calls unknown ({} happened), {} not sent, {} model calls asked again, longest wait for an acknowledgement {:?}, parked 0",
        stormed.as_secs(),
        books.turns,
        books.commits,
        books.unknown,
        books.unknown_happened,
        books.not_sent,
        books.asked_again,
        books.longest
    );
    println!("blows {blows:?}, all ended after {ended:?}, books after {:?}", began.elapsed());
    println!("tries with another answer: {:?}", done.refused);
    let longest = done.turns.iter().max_by_key(|turn| turn.took);
    println!("longest: {longest:?}");
    assert!(nodes > 0 && servers > 0 && books.turns > SESSIONS, "seed {seed}: {books:?}");
}
