//! Whatever is asked of a store, in whatever order, it answers as a few lines of bookkeeping would: random streams,
//! stale expectations, repeats, lost replies, former owners, new lives.

use crate::probe::{JOURNAL, all, by, stream, tail_of};
use events::id::Partition;
use events::record::{Boot, Epoch, Hash, Position, Shard, Tail, Version};
use futures_util::{StreamExt, TryStreamExt};
use proptest::prelude::*;
use std::fmt::Write;
use store::{Append, Appended, Faults, Open, Outage, Store};
use tempfile::TempDir;

const STREAMS: usize = 3;

/// What the writer of a commit believes to be the newest one.
#[derive(Debug, Clone, Copy)]
enum Belief {
    Newest,
    /// So many commits ago, if there were as many.
    Stale(usize),
    /// One that nobody wrote.
    Invented,
}

#[derive(Debug, Clone, Copy)]
enum Reply {
    Heard,
    Lost,
}

#[derive(Debug, Clone, Copy)]
enum Owner {
    Current,
    /// The owner so many lives ago, if there were as many.
    Former(usize),
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Append {
        stream: usize,
        entries: usize,
        belief: Belief,
        owner: Owner,
        reply: Reply,
    },
    /// The very bytes of an earlier append, whatever became of it.
    Repeat {
        nth: usize,
        reply: Reply,
    },
    /// A new life of the process.
    Reopen,
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![4 => Just(Reply::Heard), 1 => Just(Reply::Lost)]
}

fn step() -> impl Strategy<Value = Step> {
    let belief = prop_oneof![
        6 => Just(Belief::Newest),
        2 => (1_usize..4).prop_map(Belief::Stale),
        1 => Just(Belief::Invented),
    ];
    let owner = prop_oneof![6 => Just(Owner::Current), 1 => (1_usize..3).prop_map(Owner::Former)];
    let append = (0..STREAMS, 1_usize..4, belief, owner, reply()).prop_map(
        |(stream, entries, belief, owner, reply)| Step::Append {
            stream,
            entries,
            belief,
            owner,
            reply,
        },
    );
    let repeat = (any::<usize>(), reply()).prop_map(|(nth, reply)| Step::Repeat { nth, reply });
    prop_oneof![8 => append, 4 => repeat, 1 => Just(Step::Reopen)]
}

/// Commits that landed, in their order: the stream, the append, and the tail that it left.
#[derive(Debug, Default)]
struct Model {
    log: Vec<(usize, Append, Tail)>,
}

impl Model {
    fn tails(&self, stream: usize) -> impl DoubleEndedIterator<Item = Tail> {
        self.log.iter().filter(move |(of, ..)| *of == stream).map(|(_, _, tail)| *tail)
    }

    fn tail(&self, store: &Store, of: usize) -> Tail {
        self.tails(of).next_back().unwrap_or_else(|| store.empty_tail(&name(of)))
    }

    /// What a store must answer, and what then stands.
    fn append(&mut self, store: &Store, of: usize, append: &Append) -> Appended {
        let position = |sequence| Position { shard: Shard(0), sequence };
        let hash = tail_of(append, 0).hash;
        if let Some((_, standing, tail)) =
            self.log.iter().find(|(_, standing, _)| standing.commit.id == append.commit.id)
        {
            assert_eq!(tail.hash, hash, "the model never gives an id to two commits");
            let version = standing.commit.last_version();
            return Appended::Duplicate { position: position(tail.sequence), version };
        }
        let tail = self.tail(store, of);
        let (epoch, boot) = (append.commit.epoch, append.commit.boot);
        if tail.epoch > epoch || (tail.epoch == epoch && tail.boot != boot) {
            return Appended::Fenced { epoch: tail.epoch };
        }
        if append.expected != tail {
            return Appended::Conflict { tail };
        }
        let sequence = u64::try_from(self.log.len()).unwrap() + 1;
        let tail = tail_of(append, sequence);
        self.log.push((of, append.clone(), tail));
        Appended::Appended { position: position(sequence), tail }
    }
}

fn name(of: usize) -> events::record::StreamKey {
    stream(&format!("m{of}"))
}

/// The plan that loses the replies of one life: its appends up to the next reopening.
fn plan(steps: &[Step]) -> Faults {
    let mut text = String::new();
    let life = steps.iter().take_while(|step| !matches!(step, Step::Reopen));
    for (visit, step) in (1..).zip(life) {
        let (Step::Append { reply, .. } | Step::Repeat { reply, .. }) = step else { continue };
        if matches!(reply, Reply::Lost) {
            let comma = if text.is_empty() { "" } else { "," };
            write!(text, "{comma}before_reply:{visit}:lose_reply").unwrap();
        }
    }
    text.parse().unwrap()
}

/// Where a run of steps keeps its store.
enum Home {
    Memory,
    Sqlite(TempDir),
}

impl Home {
    async fn open(&self, before: Option<Store>, boot: Boot, faults: Faults) -> Store {
        match (self, before) {
            (Self::Memory, None) => Store::memory(boot, JOURNAL, faults),
            (Self::Memory, Some(before)) => before.successor(boot, faults),
            (Self::Sqlite(folder), before) => {
                if let Some(before) = before {
                    before.close().await;
                }
                let path = folder.path().join("journal.db");
                Store::open(Open { path, boot, fresh: JOURNAL, faults }).unwrap()
            }
        }
    }
}

/// A run of steps over one store, beside the model.
struct Run {
    store: Store,
    model: Model,
    issued: Vec<(usize, Append)>,
    owners: Vec<(Epoch, Boot)>,
}

impl Run {
    fn written(&self, of: usize, entries: usize, belief: Belief, owner: Owner) -> Append {
        let newest = self.model.tail(&self.store, of);
        let tail = match belief {
            Belief::Newest => newest,
            Belief::Stale(back) => {
                let earlier = self.model.tails(of).rev().nth(back);
                earlier.unwrap_or_else(|| self.store.empty_tail(&name(of)))
            }
            Belief::Invented => {
                Tail { version: newest.version.plus(1), hash: Hash([3; 32]), ..newest }
            }
        };
        let back = match owner {
            Owner::Current => 0,
            Owner::Former(back) => back,
        };
        let last = self.owners.len() - 1;
        let owner = self.owners[last.saturating_sub(back)];
        let payloads = [&b"payload"[..]; 4];
        by(owner, &self.store, &name(of), tail, &payloads[..entries])
    }

    async fn take(&mut self, nth: usize, step: Step) {
        let (of, append, reply) = match step {
            Step::Reopen => return,
            Step::Append { stream, entries, belief, owner, reply } => {
                let append = self.written(stream, entries, belief, owner);
                self.issued.push((stream, append.clone()));
                (stream, append, reply)
            }
            Step::Repeat { nth, reply } => {
                let Some((stream, append)) = self.issued.get(nth % self.issued.len().max(1)) else {
                    // Nothing to repeat yet: a visit all the same, so that the plan's count holds.
                    let append = self.written(0, 1, Belief::Newest, Owner::Current);
                    self.issued.push((0, append.clone()));
                    return self.compare(nth, 0, append, reply).await;
                };
                (*stream, append.clone(), reply)
            }
        };
        self.compare(nth, of, append, reply).await;
    }

    async fn compare(&mut self, nth: usize, of: usize, append: Append, reply: Reply) {
        let wanted = match (self.model.append(&self.store, of, &append), reply) {
            (wanted, Reply::Heard) => wanted,
            (_, Reply::Lost) => Appended::Unknown(Outage::Lost),
        };
        assert_eq!(self.store.append(append).await, wanted, "step {nth}");
    }

    /// Everything that can be read is what the model holds.
    async fn agree(&self) {
        for of in 0..STREAMS {
            let wanted: Vec<_> =
                self.model.log.iter().filter(|(stream, ..)| *stream == of).collect();
            let found = all(&self.store, &name(of)).await;
            assert_eq!(found.len(), wanted.len());
            for (found, (_, append, tail)) in found.iter().zip(wanted) {
                assert_eq!((&found.commit, found.hash), (&append.commit, tail.hash));
            }
            assert_eq!(self.store.tail(&name(of)).await.unwrap(), self.model.tail(&self.store, of));
        }
        let count = self.model.log.len();
        let followed: Vec<_> =
            self.store.follow(Shard(0), 0).take(count).try_collect().await.unwrap();
        let places: Vec<_> =
            followed.iter().map(|recorded| (recorded.position.sequence, recorded.hash)).collect();
        let wanted: Vec<_> =
            self.model.log.iter().map(|(_, _, tail)| (tail.sequence, tail.hash)).collect();
        assert_eq!(places, wanted);
        let entries: Version = (0..STREAMS)
            .map(|of| self.model.tail(&self.store, of).version)
            .fold(Version(0), |sum, version| Version(sum.0 + version.0));
        assert_eq!(self.store.stats().await.unwrap().entries, entries.0);
    }
}

fn run(home: Home, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let boot = Boot(1);
        let store = home.open(None, boot, plan(steps)).await;
        let owners = vec![(store.epoch(Partition::default()), boot)];
        let mut run = Run { store, model: Model::default(), issued: vec![], owners };
        for (nth, step) in steps.iter().enumerate() {
            if matches!(step, Step::Reopen) {
                let boot = Boot(u128::try_from(run.owners.len()).unwrap() + 1);
                let faults = plan(&steps[nth + 1..]);
                run.store = home.open(Some(run.store), boot, faults).await;
                assert!(
                    run.owners
                        .iter()
                        .all(|(epoch, _)| *epoch < run.store.epoch(Partition::default()))
                );
                run.owners.push((run.store.epoch(Partition::default()), boot));
            } else {
                run.take(nth, *step).await;
            }
        }
        run.agree().await;
        run.store.close().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_answers_as_the_model(steps in prop::collection::vec(step(), 1..60)) {
        run(Home::Memory, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_answers_as_the_model(steps in prop::collection::vec(step(), 1..60)) {
        run(Home::Sqlite(TempDir::new().unwrap()), &steps);
    }
}
