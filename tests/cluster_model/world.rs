//! The world of the model: nodes with their real lease rules, a bucket, one stream of a journal and the messages that
//! are on their way. Time, replies, restarts and the bucket's fate are moves like any other.

use super::course::{Budget, Move, Reply, Sight};
use super::made::{Head, Made};
use actors::cluster::lease::{Action, Belongs, Holder, Input, Lease, Outcome, Seen, TTL};
use actors::cluster::{NodeName, Uptime};
use events::record::{Boot, Epoch};
use std::collections::BTreeSet;
use store::model::{self, Heard, Judged, Settled, Settling, Step};

/// A write to the bucket on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Put {
    node: usize,
    boot: Boot,
    holder: Option<Holder>,
    expected: u64,
    /// Its node still waits for the outcome.
    waited: bool,
}

/// A commit on its way to the journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Post {
    node: usize,
    made: Made,
    waited: bool,
}

/// What is under the key, and until when; `None` never expires.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bucket {
    seen: Seen,
    until: Option<u64>,
    revision: u64,
}

/// The stream's owner on one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    Asleep,
    /// It waits for the answer to a publish.
    Waiting(Made, Settling),
    /// It does not know whether its commit stands, and looks.
    Doubt(Made, Settling),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    pub boot: Boot,
    pub lease: Lease,
    looking: bool,
    draining: bool,
    /// What it believes to own; not taken back until its lease is stepped, as in a paused process.
    pub serving: Option<Epoch>,
    pub host: Host,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub now: u64,
    pub bucket: Bucket,
    pub puts: Vec<Put>,
    /// Outcomes that are on their way back.
    pub late: Vec<(usize, Boot, Outcome)>,
    pub posts: Vec<Post>,
    pub log: Vec<Made>,
    pub nodes: Vec<Node>,
    pub left: Budget,
    pub acked: BTreeSet<u16>,
    /// Commits whose writer was told that they do not stand.
    pub disowned: BTreeSet<u16>,
    /// The bucket lost its memory, or somebody was replaced on suspicion: two may hold a lease for a while.
    pub shaken: bool,
    /// Lives that an operator ended; not every node has heard it.
    pub fenced: BTreeSet<u128>,
    ids: u16,
    boots: u128,
}

impl World {
    pub fn new(nodes: usize, left: Budget) -> Self {
        let name = |nth: usize| format!("n{nth}").parse::<NodeName>().expect("a name");
        let node = |nth| Node {
            boot: Boot(nth as u128 + 1),
            lease: Lease::new(name(nth), Boot(nth as u128 + 1)),
            looking: false,
            draining: false,
            serving: None,
            host: Host::Asleep,
        };
        let mut world = Self {
            now: 1_000,
            bucket: Bucket { seen: Seen::Free { revision: 0 }, until: None, revision: 0 },
            puts: vec![],
            late: vec![],
            posts: vec![],
            log: vec![],
            nodes: (0..nodes).map(node).collect(),
            left,
            acked: BTreeSet::new(),
            disowned: BTreeSet::new(),
            shaken: false,
            fenced: BTreeSet::new(),
            ids: 0,
            boots: nodes as u128,
        };
        // Views of who lives may differ: each believes that the partition is its own.
        for nth in 0..nodes {
            world.step(nth, Input::Placed(Belongs::Here));
        }
        world
    }

    pub fn head(&self) -> Head {
        self.log.last().map_or_else(Head::empty, |made| Head {
            version: made.on.version + 1,
            hash: made.hash,
            epoch: made.epoch,
            boot: made.boot,
            sequence: self.log.len() as u64,
        })
    }

    /// What may happen next.
    pub fn moves(&self) -> Vec<Move> {
        let Budget {
            steps,
            in_order,
            advances,
            begins,
            losses,
            bucket,
            restarts,
            places,
            silences,
            fences,
            deaf: _,
        } = self.left;
        let mut moves = vec![];
        let mut may = |condition: bool, next: &[Move]| {
            if condition {
                moves.extend_from_slice(next);
            }
        };
        let next = steps.len().saturating_sub(usize::from(advances));
        let steps = if in_order { &steps[next..steps.len().min(next + 1)] } else { steps };
        steps.iter().for_each(|by| may(advances > 0, &[Move::Advance(*by)]));
        may(bucket > 0, &[Move::Remake, Move::Restore]);
        for (nth, node) in self.nodes.iter().enumerate() {
            may(node.lease.next().is_some_and(|at| at.0 <= self.now), &[Move::Tick(nth)]);
            may(true, &[Move::Watch(nth)]);
            may(self.shaken, &[Move::Reopen(nth)]);
            may(node.looking, &[Move::Look(nth, Sight::Clear)]);
            let bad = [Move::Look(nth, Sight::Blind), Move::Look(nth, Sight::Fails)];
            may(node.looking && losses > 0, &bad);
            let may_begin = node.serving.is_some() && node.host == Host::Asleep;
            may(may_begin && begins > 0, &[Move::Begin(nth)]);
            may(matches!(node.host, Host::Doubt(..)), &[Move::Settle(nth)]);
            may(restarts > 0, &[Move::Restart(nth)]);
            let both = [Move::Place(nth, Belongs::Here), Move::Place(nth, Belongs::Elsewhere)];
            may(places > 0, &both);
            may(node.draining, &[Move::Drained(nth)]);
            may(silences > 0, &[Move::Silent(nth)]);
            may(fences > 0, &[Move::Fence(nth)]);
        }
        for (nth, put) in self.puts.iter().enumerate() {
            may(true, &[Move::LandPut(nth, Reply::Arrives)]);
            let bad = [Reply::Lost, Reply::Late].map(|reply| Move::LandPut(nth, reply));
            may(put.waited && losses > 0, &bad);
            may(put.waited && losses > 0, &[Move::TimeOutPut(nth)]);
        }
        for nth in 0..self.late.len() {
            may(true, &[Move::Hear(nth)]);
        }
        for (nth, post) in self.posts.iter().enumerate() {
            may(true, &[Move::LandPost(nth, Reply::Arrives)]);
            let lost = [Move::LandPost(nth, Reply::Lost), Move::TimeOutPost(nth)];
            may(post.waited && losses > 0, &lost);
        }
        moves
    }

    /// Lets it happen.
    pub fn apply(&mut self, next: Move) {
        match next {
            Move::Advance(by) => {
                self.left.advances -= 1;
                self.advance(by);
            }
            Move::Tick(nth) => self.step(nth, Input::Tick),
            Move::Watch(nth) => self.step(nth, Input::Watched(self.bucket.seen.clone())),
            Move::Reopen(nth) => self.step(nth, Input::Reopened),
            Move::Look(nth, sight) => self.look(nth, sight),
            Move::LandPut(nth, reply) => self.land_put(nth, reply),
            Move::TimeOutPut(nth) => {
                self.left.losses -= 1;
                self.puts[nth].waited = false;
                self.told(self.puts[nth].node, self.puts[nth].boot, Outcome::Unknown);
            }
            Move::Hear(nth) => {
                let (node, boot, outcome) = self.late.remove(nth);
                self.told(node, boot, outcome);
            }
            Move::LandPost(nth, reply) => self.land_post(nth, reply),
            Move::TimeOutPost(nth) => {
                self.left.losses -= 1;
                self.posts[nth].waited = false;
                let Post { node, made, .. } = self.posts[nth].clone();
                self.heard(node, made, Heard::Silence);
            }
            Move::Begin(nth) => self.begin(nth),
            Move::Settle(nth) => self.settle(nth),
            Move::Restart(nth) => {
                self.left.restarts -= 1;
                self.restart(nth);
            }
            Move::Place(nth, belongs) => {
                self.left.places -= 1;
                self.step(nth, Input::Placed(belongs));
            }
            Move::Drained(nth) => {
                self.nodes[nth].draining = false;
                self.step(nth, Input::Drained);
            }
            Move::Silent(nth) => {
                self.left.silences -= 1;
                self.shaken = true;
                if let Seen::Held { holder: Some(holder), .. } = self.bucket.seen.clone() {
                    self.step(nth, Input::Silent(holder.boot));
                }
            }
            Move::Fence(nth) => {
                self.left.fences -= 1;
                self.shaken = true;
                if let Seen::Held { holder: Some(holder), .. } = self.bucket.seen.clone() {
                    self.fenced.insert(holder.boot.0);
                    self.step(nth, Input::Fenced(holder.boot));
                }
            }
            Move::Remake | Move::Restore => self.remake(next),
        }
    }

    pub fn advance(&mut self, by: u64) {
        self.now += by;
        if self.bucket.until.is_some_and(|until| until <= self.now) {
            self.bucket.revision += 1;
            self.bucket.seen = Seen::Free { revision: self.bucket.revision };
            self.bucket.until = None;
        }
    }

    fn remake(&mut self, how: Move) {
        self.left.bucket -= 1;
        self.shaken = true;
        let (seen, revision) = match how {
            Move::Restore => {
                let holder = self.log.first().map(|made| Holder {
                    node: "n0".parse().expect("a name"),
                    boot: Boot(made.boot),
                    epoch: Epoch(made.epoch),
                });
                (Seen::Held { revision: 1, holder }, 1)
            }
            _ => (Seen::Free { revision: 0 }, 0),
        };
        self.bucket = Bucket { seen, until: None, revision };
    }

    pub fn step(&mut self, nth: usize, input: Input) {
        let now = Uptime(self.now);
        let actions = self.nodes[nth].lease.step(now, input);
        for action in actions {
            self.act(nth, action);
        }
    }

    fn act(&mut self, nth: usize, action: Action) {
        let deaf = self.left.deaf;
        let node = &mut self.nodes[nth];
        let boot = node.boot;
        let put = |holder, expected| Put { node: nth, boot, holder, expected, waited: true };
        match action {
            Action::Put { holder, expected } => self.puts.push(put(Some(holder), expected)),
            Action::Delete { expected } => self.puts.push(put(None, expected)),
            Action::Look if self.left.losses == 0 => self.look(nth, Sight::Clear),
            Action::Look => node.looking = true,
            Action::Own(epoch) => node.serving = Some(epoch),
            Action::Drain => node.draining = true,
            Action::Stop(_) if deaf => {}
            Action::Stop(_) => {
                node.serving = None;
                node.host = Host::Asleep;
                self.posts.iter_mut().filter(|p| p.node == nth).for_each(|p| p.waited = false);
            }
        }
    }

    fn look(&mut self, nth: usize, sight: Sight) {
        self.nodes[nth].looking = false;
        let highest = match sight {
            Sight::Clear => self.log.iter().map(|made| made.epoch).max().unwrap_or_default(),
            Sight::Blind | Sight::Fails => 0,
        };
        if sight != Sight::Clear {
            self.left.losses -= 1;
        }
        let input = match sight {
            Sight::Clear | Sight::Blind => {
                Input::Looked { seen: self.bucket.seen.clone(), highest: Epoch(highest) }
            }
            Sight::Fails => Input::LookFailed,
        };
        self.step(nth, input);
    }

    fn told(&mut self, node: usize, boot: Boot, outcome: Outcome) {
        if self.nodes[node].boot == boot {
            self.step(node, Input::Wrote(outcome));
        }
    }

    fn land_put(&mut self, nth: usize, reply: Reply) {
        let Put { node, boot, holder, expected, waited } = self.puts.remove(nth);
        let outcome = if self.bucket.seen.revision() == expected {
            self.bucket.revision += 1;
            let revision = self.bucket.revision;
            self.bucket.until = holder.is_some().then_some(self.now + TTL.0);
            self.bucket.seen = match holder {
                Some(holder) => Seen::Held { revision, holder: Some(holder) },
                None => Seen::Free { revision },
            };
            Outcome::Stored { revision }
        } else {
            Outcome::Refused
        };
        match reply {
            Reply::Arrives if waited => self.told(node, boot, outcome),
            Reply::Arrives => {}
            Reply::Late => {
                self.left.losses -= 1;
                self.late.push((node, boot, outcome));
            }
            Reply::Lost => {
                self.left.losses -= 1;
                self.told(node, boot, Outcome::Unknown);
            }
        }
    }

    fn begin(&mut self, nth: usize) {
        let Node { boot, serving: Some(epoch), .. } = self.nodes[nth] else { return };
        let head = self.head();
        self.left.begins -= 1;
        self.ids += 1;
        let made = Made::new(self.ids, epoch, boot, head);
        match made.judged(head) {
            Judged::Fits => {
                self.publish(nth, made, Settling::default());
            }
            Judged::Fenced(met) => {
                self.disowned.insert(made.id);
                self.nodes[nth].host = Host::Asleep;
                self.step(nth, Input::Met(met));
            }
            Judged::Conflict => unreachable!("it was made on this very head"),
        }
    }

    fn land_post(&mut self, nth: usize, reply: Reply) {
        let Post { node, made, waited } = self.posts.remove(nth);
        // The server's check, and its only one: the stream sequence of the subject's last message.
        let stored = self.log.len() as u64 == made.on.sequence;
        if stored {
            self.log.push(made);
        }
        let sequence = self.log.len() as u64;
        match reply {
            Reply::Arrives if waited && stored => self.heard(node, made, Heard::Stored(sequence)),
            Reply::Arrives if waited => self.heard(node, made, Heard::Taken),
            Reply::Arrives => {}
            Reply::Lost | Reply::Late => {
                self.left.losses -= 1;
                self.heard(node, made, Heard::Silence);
            }
        }
    }

    fn publish(&mut self, nth: usize, made: Made, settling: Settling) {
        self.nodes[nth].host = Host::Waiting(made, settling);
        self.posts.push(Post { node: nth, made, waited: true });
    }

    fn heard(&mut self, nth: usize, made: Made, heard: Heard) {
        if let Host::Waiting(waits, mut settling) = self.nodes[nth].host
            && waits == made
        {
            let next = settling.heard(heard);
            self.follow(nth, made, settling, next);
        }
    }

    /// Reads the slot after the expected sequence from the leader.
    fn settle(&mut self, nth: usize) {
        let Host::Doubt(made, settling) = self.nodes[nth].host else { return };
        let slot = usize::try_from(made.on.sequence).expect("small");
        let seen = match self.log.get(slot) {
            Some(stands) if stands.hash == made.hash => model::Seen::Ours(made.on.sequence + 1),
            Some(_) => model::Seen::Other,
            None => model::Seen::Empty,
        };
        let next = settling.seen(seen);
        self.follow(nth, made, settling, next);
    }

    /// Does what the real rule of settling says.
    fn follow(&mut self, nth: usize, made: Made, settling: Settling, next: Step) {
        match next {
            Step::Answer(Settled::Appended(_) | Settled::Duplicate(_)) => {
                self.acked.insert(made.id);
                self.nodes[nth].host = Host::Asleep;
            }
            Step::Answer(Settled::Lost) => {
                self.disowned.insert(made.id);
                self.nodes[nth].host = Host::Asleep;
            }
            Step::Answer(Settled::Unknown(_)) => self.nodes[nth].host = Host::Asleep,
            Step::LookAtSlot | Step::LookAt(_) => {
                self.nodes[nth].host = Host::Doubt(made, settling);
            }
            Step::Publish => self.publish(nth, made, settling),
        }
    }

    pub fn restart(&mut self, nth: usize) {
        self.boots += 1;
        let boot = Boot(self.boots);
        let name = format!("n{nth}").parse().expect("a name");
        let node = &mut self.nodes[nth];
        *node = Node {
            boot,
            lease: Lease::new(name, boot),
            looking: false,
            draining: false,
            serving: None,
            host: Host::Asleep,
        };
        self.puts.iter_mut().filter(|put| put.node == nth).for_each(|put| put.waited = false);
        self.posts.iter_mut().filter(|post| post.node == nth).for_each(|post| post.waited = false);
        self.step(nth, Input::Placed(Belongs::Here));
    }
}
