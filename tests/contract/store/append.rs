//! The answers of an append. The slot rule: a commit fills the next version of its stream, or the caller is told
//! what does.

use super::{BOOT, Home, stream};
use crate::probe::{JOURNAL, after, all, by, entry, grow, landed, tail_of};
use events::journal::{ENTRIES_MAX, rolling};
use events::record::{Boot, Cause, CommandId, Epoch, Hash, JournalId, Position, Shard, Version};
use futures_util::future::join_all;
use store::{Append, Appended, Fault, Faults, Malformed, Outage, Point};

const LATER: Boot = Boot(2);

fn at(sequence: u64) -> Position {
    Position { shard: Shard(0), sequence }
}

pub async fn what_is_appended_is_read_back(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    assert_eq!(store.tail(&stream).await.unwrap(), store.empty_tail(&stream));
    assert_eq!(all(&store, &stream).await, []);

    let first = after(&store, &stream, store.empty_tail(&stream), &[b"one", b"two"]);
    let tail = tail_of(&first, 1);
    let appended = store.append(first.clone()).await;
    assert_eq!(appended, Appended::Appended { position: at(1), tail });
    assert_eq!(
        (tail.version, tail.epoch, tail.boot),
        (Version(2), store.epoch(stream.partition()), BOOT)
    );
    assert_eq!(store.tail(&stream).await.unwrap(), tail);

    let second = after(&store, &stream, tail, &[b"three"]);
    landed(&store.append(second.clone()).await);
    let found = all(&store, &stream).await;
    let commits: Vec<_> = found.iter().map(|recorded| recorded.commit.clone()).collect();
    assert_eq!(commits, [first.commit, second.commit]);
    let places: Vec<_> = found.iter().map(|recorded| recorded.position).collect();
    assert_eq!(places, [at(1), at(2)]);
    assert_eq!(found[1].commit.prev, found[0].hash);
    let payload = store.payload(&found[0].commit.entries[1]).await.unwrap();
    assert_eq!(&*payload, b"two");
}

pub async fn the_same_bytes_again_are_a_duplicate(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let first = after(&store, &stream, store.empty_tail(&stream), &[b"one", b"two"]);
    landed(&store.append(first.clone()).await);
    let duplicate = Appended::Duplicate { position: at(1), version: Version(2) };
    assert_eq!(store.append(first.clone()).await, duplicate);
    grow(&store, &stream, &[b"three"]).await;
    assert_eq!(store.append(first).await, duplicate);
    assert_eq!(all(&store, &stream).await.len(), 2);
}

pub async fn a_lost_reply_is_settled_after_a_later_owner_has_written(home: &Home) {
    let store = home.open_with(Faults::once(Point::BeforeReply, 1, Fault::LoseReply)).await;
    let stream = stream("a");
    let first = after(&store, &stream, store.empty_tail(&stream), &[b"one"]);
    assert_eq!(store.append(first.clone()).await, Appended::Unknown(Outage::Lost));
    let later = store.successor(LATER, Faults::none());
    grow(&later, &stream, &[b"a claim"]).await;
    let duplicate = Appended::Duplicate { position: at(1), version: Version(1) };
    assert_eq!(store.append(first).await, duplicate, "it landed, whoever wrote since");
}

pub async fn another_commit_in_the_slot_is_a_conflict(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let empty = store.empty_tail(&stream);
    let mine = after(&store, &stream, empty, &[b"mine"]);
    let theirs = landed(&store.append(after(&store, &stream, empty, &[b"theirs"])).await);
    assert_eq!(store.append(mine).await, Appended::Conflict { tail: theirs });
    assert_eq!(store.tail(&stream).await.unwrap(), theirs);
}

pub async fn an_id_with_other_bytes_is_a_conflict(home: &Home) {
    let store = home.open().await;
    let (here, there) = (stream("a"), stream("b"));
    let first = after(&store, &here, store.empty_tail(&here), &[b"one"]);
    let tail = landed(&store.append(first.clone()).await);
    for (stream, tail) in [(&here, tail), (&there, store.empty_tail(&there))] {
        let mut other = after(&store, stream, tail, &[b"other"]);
        other.commit.id = first.commit.id;
        assert_eq!(store.append(other).await, Appended::Conflict { tail }, "{stream}");
    }
    // The batch of a rejected commit is not harmed.
    grow(&store, &there, &[b"fine"]).await;
}

pub async fn what_does_not_fit_the_tail_is_a_conflict(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let tail = grow(&store, &stream, &[b"one"]).await;
    let good = || after(&store, &stream, tail, &[b"two"]);
    let broken: [fn(&mut Append); 6] = [
        |append| append.commit.first_version = Version(1),
        |append| append.commit.first_version = Version(3),
        |append| append.commit.prev = Hash([7; 32]),
        |append| append.expected.version = Version(0),
        |append| append.expected.hash = Hash([7; 32]),
        |append| append.expected.sequence = 0,
    ];
    for (nth, harm) in broken.iter().enumerate() {
        let mut append = good();
        harm(&mut append);
        assert_eq!(store.append(append).await, Appended::Conflict { tail }, "{nth}");
    }
    landed(&store.append(good()).await);
}

pub async fn a_later_owner_fences_the_one_before(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let tail = grow(&store, &stream, &[b"one"]).await;
    let later = store.successor(LATER, Faults::none());
    assert!(later.epoch(stream.partition()) > store.epoch(stream.partition()));
    let claim = grow(&later, &stream, &[b"claim"]).await;

    let fenced = Appended::Fenced { epoch: later.epoch(stream.partition()) };
    assert_eq!(store.append(after(&store, &stream, tail, &[b"zombie"])).await, fenced);
    // A zombie that has read again still may not win the stream back.
    assert_eq!(store.append(after(&store, &stream, claim, &[b"zombie"])).await, fenced);
    grow(&later, &stream, &[b"goes on"]).await;
    // Elsewhere nobody has claimed anything.
    grow(&store, &super::stream("b"), &[b"one"]).await;
}

pub async fn another_life_of_the_same_owner_fences(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let tail = grow(&store, &stream, &[b"one"]).await;
    let epoch = store.epoch(stream.partition());
    let other = by((epoch, LATER), &store, &stream, tail, &[b"two"]);
    assert_eq!(store.append(other).await, Appended::Fenced { epoch });
    let lower = by((Epoch(0), BOOT), &store, &stream, tail, &[b"two"]);
    assert_eq!(store.append(lower).await, Appended::Fenced { epoch });
    let higher = by((Epoch(9), LATER), &store, &stream, tail, &[b"two"]);
    landed(&store.append(higher).await);
}

pub async fn a_commit_lands_whole_or_not_at_all(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let payloads: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![n; 50]).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let tail = grow(&store, &stream, &payloads).await;
    assert_eq!(tail.version, Version(100));
    let found = all(&store, &stream).await;
    assert_eq!((found.len(), found[0].commit.entries.len()), (1, 100));
    // A reader that stands in the middle of a commit is given the whole of it.
    let middle = store.read(&stream, Version(50), 10).await.unwrap();
    assert_eq!(middle, found);
    assert_eq!(store.read(&stream, Version(100), 10).await.unwrap(), []);
}

pub async fn what_no_store_could_keep_is_malformed(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let good = || after(&store, &stream, store.empty_tail(&stream), &[b"one"]);
    let cause = Cause {
        command: CommandId(1),
        correlation: 1,
        actor: events::record::Actor::Node,
        entries: 2,
    };
    let with = |harm: &dyn Fn(&mut Append)| {
        let mut append = good();
        harm(&mut append);
        store.append(append)
    };
    let answers = [
        with(&|append| append.commit.entries.clear()).await,
        with(&|append| append.commit.entries = vec![entry(b"x"); ENTRIES_MAX + 1]).await,
        with(&|append| append.commit.causes = vec![cause]).await,
        with(&|append| append.commit.first_version = Version(0)).await,
        with(&|append| append.commit.journal = JournalId(1)).await,
        with(&|append| append.commit.stream = crate::probe::stream("NO")).await,
    ];
    let wanted = [
        Malformed::Entries(0),
        Malformed::Entries(ENTRIES_MAX + 1),
        Malformed::Causes { claimed: 2, entries: 1 },
        Malformed::FirstVersion,
        Malformed::Journal { given: JournalId(1), ours: JOURNAL },
        Malformed::Stream(events::record::NotAStream("probe/NO".to_owned())),
    ];
    assert_eq!(answers, wanted.map(Appended::Malformed));
    let large = vec![0; events::journal::FRAME_BYTES_MAX];
    let answer = with(&|append| append.commit.entries = vec![entry(&large)]).await;
    assert!(matches!(answer, Appended::Malformed(Malformed::TooLarge { .. })), "{answer:?}");
    assert_eq!(all(&store, &stream).await, []);
}

pub async fn one_slot_has_one_winner(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    for slot in 0..4 {
        let tail = store.tail(&stream).await.unwrap();
        let rivals = (0..32).map(|_| store.append(after(&store, &stream, tail, &[b"x"])));
        let answers = join_all(rivals).await;
        let won = answers.iter().filter(|answer| matches!(answer, Appended::Appended { .. }));
        let lost = answers.iter().filter(|answer| matches!(answer, Appended::Conflict { .. }));
        assert_eq!((won.count(), lost.count()), (1, 31), "slot {slot}");
    }
    assert_eq!(all(&store, &stream).await.len(), 4);
}

pub async fn a_conflict_rejects_one_commit_of_many(home: &Home) {
    let store = home.open().await;
    let appends = (0..200).map(|n| {
        let stream = stream(&format!("s{n}"));
        let mut append = after(&store, &stream, store.empty_tail(&stream), &[b"x"]);
        if n % 2 == 1 {
            append.commit.prev = Hash([9; 32]);
        }
        store.append(append)
    });
    for (n, answer) in join_all(appends).await.into_iter().enumerate() {
        let landed = matches!(answer, Appended::Appended { .. });
        let conflict = matches!(answer, Appended::Conflict { .. });
        assert!(if n % 2 == 0 { landed } else { conflict }, "{n}: {answer:?}");
    }
    assert_eq!(store.stats().await.unwrap().commits, 100);
}

pub async fn commits_of_one_stream_may_wait_together(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let mut tail = store.empty_tail(&stream);
    let mut appends = vec![];
    for sequence in 1..=100 {
        let append = after(&store, &stream, tail, &[b"x", b"y"]);
        tail = tail_of(&append, sequence);
        appends.push(append);
    }
    // Handed over in this order without waiting: a batch holds several, each on top of the one before.
    let answers = join_all(appends.into_iter().map(|append| store.append(append))).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(landed(answer).version, Version(2).plus(2 * n), "{n}");
    }
    assert_eq!(store.tail(&stream).await.unwrap(), tail);
}

pub async fn the_epoch_rises_with_every_life(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    grow(&store, &stream, &[b"one"]).await;
    let first = store.epoch(stream.partition());
    let store = home.reopen(store, LATER).await;
    let second = store.epoch(stream.partition());
    assert!(second > first, "{second:?} after {first:?}");
    assert_eq!((store.journal(), store.boot()), (JOURNAL, LATER));
    let tail = store.tail(&stream).await.unwrap();
    assert_eq!((tail.version, tail.epoch), (Version(1), first));
    // An epoch that was only seen counts too.
    let tail =
        landed(&store.append(by((Epoch(70), LATER), &store, &stream, tail, &[b"two"])).await);
    let store = home.reopen(store, Boot(3)).await;
    assert_eq!(store.epoch(stream.partition()), Epoch(71));
    landed(&store.append(after(&store, &stream, tail, &[b"three"])).await);
}

pub async fn faults_come_where_they_are_planned(home: &Home) {
    let faults: Faults = "before_commit:2:fail,before_commit:3:lose_reply,before_reply:3:fail,before_reply:4:delay=1"
        .parse()
        .unwrap();
    let store = home.open_with(faults.clone()).await;
    let stream = stream("a");
    let mut tail = store.empty_tail(&stream);
    let next = |tail| after(&store, &stream, tail, &[b"x"]);
    let unavailable =
        |answer: &Appended| matches!(answer, Appended::Unknown(Outage::Unavailable(_)));

    tail = landed(&store.append(next(tail)).await);
    let second = next(tail);
    assert!(unavailable(&store.append(second.clone()).await));
    assert_eq!(store.tail(&stream).await.unwrap(), tail, "nothing was written");
    assert_eq!(store.append(second.clone()).await, Appended::Unknown(Outage::Lost));
    tail = store.tail(&stream).await.unwrap();
    assert_eq!(tail.version, Version(2), "it was written");
    let third = next(tail);
    assert!(unavailable(&store.append(third.clone()).await));
    tail = store.tail(&stream).await.unwrap();
    assert_eq!(tail.version, Version(3), "it was written, and the caller can not know");
    assert_eq!(
        store.append(third).await,
        Appended::Duplicate { position: at(3), version: Version(3) }
    );
    landed(&store.append(next(tail)).await);
    assert_eq!(faults.visits(Point::BeforeCommit), 6);
    assert_eq!(faults.visits(Point::BeforeReply), 5);
}

pub async fn an_outage_ends(home: &Home) {
    let faults = Faults::counting();
    let store = home.open_with(faults.clone()).await;
    let stream = stream("a");
    let first = after(&store, &stream, store.empty_tail(&stream), &[b"one"]);
    store.probe().await.unwrap();
    faults.take_down(Outage::Full);
    assert_eq!(store.probe().await, Err(Outage::Full));
    assert_eq!(store.append(first.clone()).await, Appended::Unknown(Outage::Full));
    faults.bring_up();
    store.probe().await.unwrap();
    landed(&store.append(first).await);
}

pub async fn the_rolling_hash_covers_the_order(home: &Home) {
    let store = home.open().await;
    let mut wanted = Hash::default();
    for n in 0..6_u64 {
        let stream = stream(&format!("s{}", n % 3));
        let tail = grow(&store, &stream, &[b"x"]).await;
        wanted = rolling(wanted, n + 1, tail.hash);
    }
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.commits, stats.entries, stats.streams, stats.rolling), (6, 6, 3, wanted));
}
