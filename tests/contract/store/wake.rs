//! The agenda of a partition: which streams must be looked at, and when the next one must.

use super::Home;
use crate::probe::{after, landed, stream};
use events::aggregate::Wake;
use events::id::Partition;
use events::quantity::Instant;
use events::record::StreamKey;
use store::{Due, Store};

/// Streams of one partition, in the order of their names.
fn neighbours(partition: Partition, count: usize) -> Vec<StreamKey> {
    let names = (0..).map(|n: u32| stream(&format!("n{n:05}")));
    names.filter(|stream| stream.partition() == partition).take(count).collect()
}

async fn set(store: &Store, stream: &StreamKey, wake: Wake) {
    let tail = store.tail(stream).await.unwrap();
    landed(&store.append(store::Append { wake, ..after(store, stream, tail, &[b"x"]) }).await);
}

fn mine() -> Partition {
    Partition::of(5)
}

async fn due(store: &Store, before: i64) -> Vec<(StreamKey, Wake)> {
    let due = store.due(mine(), Instant(before), 100, None).await.unwrap();
    due.into_iter().map(|due| (due.stream, due.wake)).collect()
}

pub async fn now_comes_first_and_then_the_oldest(home: &Home) {
    let store = home.open().await;
    let streams = neighbours(mine(), 6);
    let at = |micros| Wake::At(Instant(micros));
    let wakes = [at(300), Wake::Now, at(100), Wake::OnCommand, Wake::Now, at(200)];
    for (stream, wake) in streams.iter().zip(wakes) {
        set(&store, stream, wake).await;
    }
    let other = neighbours(Partition::of(6), 1);
    set(&store, &other[0], Wake::Now).await;

    let named = |n: usize| (streams[n].clone(), wakes[n]);
    assert_eq!(due(&store, 200).await, [named(1), named(4), named(2), named(5)]);
    assert_eq!(due(&store, 99).await, [named(1), named(4)]);
    assert_eq!(due(&store, -1).await, [named(1), named(4)], "now does not ask for the time");
    assert_eq!(due(&store, i64::MAX).await.len(), 5);
    let theirs = store.due(Partition::of(6), Instant(0), 100, None).await.unwrap();
    assert_eq!(theirs, [Due { stream: other[0].clone(), wake: Wake::Now }]);
}

pub async fn due_is_paged_without_gap_or_repeat(home: &Home) {
    let store = home.open().await;
    let streams = neighbours(mine(), 20);
    for (n, stream) in (0..).zip(&streams) {
        // Several of each time, so that a page ends between equals.
        let wake = if n < 8 { Wake::Now } else { Wake::At(Instant(100 + n / 3)) };
        set(&store, stream, wake).await;
    }
    let whole = store.due(mine(), Instant(1_000), 100, None).await.unwrap();
    assert_eq!(whole.len(), 20);
    for page in [1, 3, 7] {
        let (mut paged, mut after) = (vec![], None);
        loop {
            let next = store.due(mine(), Instant(1_000), page, after.as_ref()).await.unwrap();
            assert!(next.len() <= page);
            let Some(last) = next.last() else { break };
            after = Some(last.clone());
            paged.extend(next);
        }
        assert_eq!(paged, whole, "pages of {page}");
    }
}

pub async fn the_newest_commit_decides_the_wake(home: &Home) {
    let store = home.open().await;
    let one = &neighbours(mine(), 1)[0];
    let at = Wake::At(Instant(50));
    for (wake, wanted) in [(Wake::Now, 1), (at, 1), (Wake::OnCommand, 0), (at, 1), (Wake::Now, 1)] {
        set(&store, one, wake).await;
        let listed = due(&store, 100).await;
        assert_eq!(listed, vec![(one.clone(), wake); wanted]);
    }
    // A time before 1970 is due like any other that has passed.
    set(&store, one, Wake::At(Instant(-7))).await;
    assert_eq!(due(&store, 100).await.len(), 1);
}

pub async fn the_next_wake_is_the_earliest_to_come(home: &Home) {
    let store = home.open().await;
    let streams = neighbours(mine(), 4);
    let next = async |after: i64| store.next_wake(mine(), Instant(after)).await.unwrap();
    assert_eq!(next(0).await, None);
    let wakes = [Wake::Now, Wake::At(Instant(200)), Wake::At(Instant(100)), Wake::OnCommand];
    for (stream, wake) in streams.iter().zip(wakes) {
        set(&store, stream, wake).await;
    }
    assert_eq!(next(-5).await, Some(Instant(100)));
    assert_eq!(next(99).await, Some(Instant(100)));
    assert_eq!(next(100).await, Some(Instant(200)));
    assert_eq!(next(200).await, None);
    let theirs = store.next_wake(Partition::of(6), Instant(0)).await.unwrap();
    assert_eq!(theirs, None);
}
