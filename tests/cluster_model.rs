//! Owners of a partition, checked in every order of events that fits a budget, and in long seeded walks beyond it.
//!
//! The lease rules and the judgement of a slot are the product's own code; the model only plays the servers, the
//! messages and the clocks. What must hold: one commit fills a slot and its writer is told the truth about it; epochs
//! never go backwards; a former owner that reads the stream again can not win it back; whatever became of the bucket,
//! some node can always take the partition and append.

mod course;
mod law;
mod made;
mod world;

use course::{Budget, Move};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use world::World;

/// Worlds of one exploration; about ten seconds on a busy machine.
const WORLDS_MAX: usize = 80_000;
/// Of so many worlds one is asked whether it recovers, which takes as long as reaching fifty.
const SAMPLED: u128 = 64;
/// Moves of one walk.
const LENGTH: usize = 250;
/// Walks of one kind.
const WALKS: u64 = 200;

const NOTHING: Budget = Budget {
    steps: &[3_000, 12_000],
    in_order: false,
    advances: 0,
    begins: 0,
    losses: 0,
    bucket: 0,
    restarts: 0,
    places: 0,
    silences: 0,
    fences: 0,
    deaf: false,
};

fn print(world: &World) -> u128 {
    let mut halves = [0_u64, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, world).hash(&mut hasher);
        hasher.finish()
    });
    halves.sort_unstable();
    u128::from(halves[0]) << 64 | u128::from(halves[1])
}

/// Every world that can be reached; of one in [`SAMPLED`], each node must be able to go on.
fn explore(nodes: usize, left: Budget) {
    let start = World::new(nodes, left);
    let mut known = HashSet::from([print(&start)]);
    let mut open: Vec<(World, Vec<Move>)> = vec![(start, vec![])];
    let mut acked = 0;
    while let Some((world, path)) = open.pop() {
        for next in world.moves() {
            let mut after = world.clone();
            after.apply(next);
            let print = print(&after);
            if !known.insert(print) {
                continue;
            }
            assert!(known.len() < WORLDS_MAX, "the budget is too large to try every order");
            let path: Vec<Move> = path.iter().copied().chain([next]).collect();
            if let Err(why) = after.check() {
                panic!("{why}, after {path:#?}");
            }
            if print.is_multiple_of(SAMPLED) {
                for chosen in 0..nodes {
                    if let Err(why) = after.clone().recovers(chosen) {
                        panic!("{why}, after {path:#?}");
                    }
                }
            }
            acked = acked.max(after.acked.len());
            open.push((after, path));
        }
    }
    println!("{} worlds", known.len());
    assert_eq!(acked, usize::from(left.begins), "in some world everything went well");
}

#[test]
fn owners_in_every_order_of_time_and_messages() {
    explore(2, Budget { advances: 2, begins: 3, ..NOTHING });
}

#[test]
fn owners_when_a_reply_is_lost_or_late_or_a_look_fails() {
    explore(2, Budget { advances: 1, begins: 2, losses: 1, ..NOTHING });
}

/// No work, and time that goes by as written; in between, everything in every order.
fn leases_alone(steps: &'static [u64]) {
    let advances = u8::try_from(steps.len()).expect("few");
    explore(2, Budget { steps, in_order: true, advances, losses: 1, ..NOTHING });
}

#[test]
fn leases_alone_when_the_answer_to_a_take_is_late() {
    leases_alone(&[9_000, 6_000]);
}

#[test]
fn leases_alone_when_the_answer_to_a_heartbeat_is_late() {
    leases_alone(&[3_000, 6_000, 9_000]);
}

#[test]
fn leases_alone_when_a_heartbeat_is_in_doubt() {
    leases_alone(&[6_000, 9_000]);
}

#[test]
fn owners_when_the_bucket_is_made_again_or_restored() {
    explore(2, Budget { advances: 1, begins: 2, bucket: 1, ..NOTHING });
}

#[test]
fn owners_when_one_is_restarted() {
    explore(2, Budget { advances: 1, begins: 2, restarts: 1, ..NOTHING });
}

#[test]
fn owners_when_one_is_suspected() {
    explore(2, Budget { advances: 1, begins: 2, silences: 1, ..NOTHING });
}

#[test]
fn owners_when_one_is_fenced() {
    explore(2, Budget { advances: 1, begins: 2, fences: 1, ..NOTHING });
    explore(2, Budget { advances: 1, begins: 1, fences: 2, ..NOTHING });
}

#[test]
fn owners_when_a_former_one_does_not_stop() {
    explore(2, Budget { advances: 2, begins: 2, deaf: true, ..NOTHING });
}

/// `splitmix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % most as u64).expect("small")
    }
}

/// One long walk of three nodes; where it ends, each of them must be able to go on.
fn walk(seed: u64, left: Budget) -> usize {
    let mut dice = Dice(seed);
    let mut world = World::new(3, left);
    let mut path = vec![];
    for _ in 0..LENGTH {
        let moves = world.moves();
        let next = moves[dice.below(moves.len())];
        path.push(next);
        world.apply(next);
        if let Err(why) = world.check() {
            panic!("{why}, seed {seed}, after {path:#?}");
        }
    }
    for chosen in 0..3 {
        if let Err(why) = world.clone().recovers(chosen) {
            panic!("{why}, seed {seed}, after {path:#?}");
        }
    }
    world.acked.len()
}

const MUCH: Budget = Budget {
    steps: &[3_000, 12_000],
    in_order: false,
    advances: 30,
    begins: 40,
    losses: 20,
    bucket: 0,
    restarts: 2,
    places: 6,
    silences: 0,
    fences: 0,
    deaf: false,
};

#[test]
fn owners_in_long_walks() {
    let acked: usize = (0..WALKS).map(|seed| walk(seed, MUCH)).sum();
    assert!(acked > 500, "the walks do too little to show anything: {acked}");
}

#[test]
fn owners_in_long_walks_that_shake_the_bucket() {
    let left = Budget { bucket: 3, silences: 3, fences: 2, ..MUCH };
    let acked: usize = (0..WALKS).map(|seed| walk(seed, left)).sum();
    let deaf: usize = (0..WALKS).map(|seed| walk(seed, Budget { deaf: true, ..left })).sum();
    assert!(acked > 500 && deaf > 500, "the walks do too little: {acked} and {deaf}");
}
