//! Reading: by stream in pages, and by shard through the one cursor loop. Nothing is skipped and nothing comes
//! twice, whenever the reader starts and whatever is appended meanwhile.

use super::{Home, stream};
use crate::probe::{after, all, grow, landed};
use events::record::{Recorded, Shard, Version};
use futures_util::{StreamExt, TryStreamExt};
use std::pin::pin;
use std::time::Duration;
use store::{FollowError, Store};

const SHARD: Shard = Shard(0);

/// What no look of a follower takes.
const PATIENCE: Duration = Duration::from_secs(8);

/// More than two pages of the follower.
const MANY: u64 = 600;

pub async fn a_stream_is_read_in_pages(home: &Home) {
    let store = home.open().await;
    let (mine, other) = (stream("a"), stream("b"));
    for n in 0..10_u8 {
        grow(&store, &mine, &[&[n], &[n]]).await;
        grow(&store, &other, &[&[n]]).await;
    }
    let whole = all(&store, &mine).await;
    assert_eq!(whole.len(), 10);
    let (mut paged, mut version) = (vec![], Version::EMPTY);
    loop {
        let page = store.read(&mine, version, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        version = last.commit.last_version();
        paged.extend(page);
    }
    assert_eq!(paged, whole);
}

async fn fill(store: &Store, from: u64, to: u64) {
    for n in from..to {
        grow(store, &stream(&format!("s{}", n % 7)), &[&n.to_le_bytes()]).await;
    }
}

async fn first(store: &Store, cursor: u64, count: usize) -> Vec<Recorded> {
    store.follow(SHARD, cursor).take(count).try_collect().await.unwrap()
}

pub async fn a_follower_misses_nothing_that_comes_meanwhile(home: &Home) {
    let store = home.open().await;
    fill(&store, 0, MANY / 2).await;
    let followers = (0..4).map(|n| {
        let store = store.clone();
        tokio::spawn(
            async move { first(&store, n * 50, usize::try_from(MANY - n * 50).unwrap()).await },
        )
    });
    let followers: Vec<_> = followers.collect();
    fill(&store, MANY / 2, MANY).await;
    for (n, follower) in (0..).zip(followers) {
        let seen = follower.await.unwrap();
        let places: Vec<u64> = seen.iter().map(|recorded| recorded.position.sequence).collect();
        let wanted: Vec<u64> = (n * 50 + 1..=MANY).collect();
        assert_eq!(places, wanted, "follower {n}");
    }
}

pub async fn a_late_reader_sees_the_same(home: &Home) {
    let store = home.open().await;
    let count = usize::try_from(MANY).unwrap();
    let early = {
        let store = store.clone();
        tokio::spawn(async move { first(&store, 0, count).await })
    };
    fill(&store, 0, MANY).await;
    let (early, late) = (early.await.unwrap(), first(&store, 0, count).await);
    assert_eq!(early, late);
    let mut by_stream: Vec<Recorded> = vec![];
    for n in 0..7 {
        by_stream.extend(all(&store, &stream(&format!("s{n}"))).await);
    }
    by_stream.sort_by_key(|recorded| recorded.position);
    assert_eq!(by_stream, late);
}

pub async fn a_cursor_ahead_of_the_log_is_an_error(home: &Home) {
    let store = home.open().await;
    fill(&store, 0, 3).await;
    let mut ahead = pin!(store.follow(SHARD, 4));
    let error = ahead.next().await.unwrap().unwrap_err();
    assert!(matches!(error, FollowError::Ahead { cursor: 4, newest: 3 }), "{error:?}");
    assert!(ahead.next().await.is_none());
    // A cursor at the end waits.
    let mut level = pin!(store.follow(SHARD, 3));
    let (next, ()) = tokio::join!(level.next(), fill(&store, 3, 4));
    assert_eq!(next.unwrap().unwrap().position.sequence, 4);
}

pub async fn an_unknown_shard_is_an_error(home: &Home) {
    let store = home.open().await;
    let mut none = pin!(store.follow(Shard(999), 0));
    let error = none.next().await.unwrap().unwrap_err();
    assert!(matches!(error, FollowError::NoShard(Shard(999))), "{error:?}");
}

pub async fn a_notice_comes_after_each_append(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let mut notice = store.notice(SHARD);
    let mut tail = store.empty_tail(&stream);
    for sequence in 1..=3 {
        notice.mark_unchanged();
        tail = landed(&store.append(after(&store, &stream, tail, &[b"x"])).await);
        let newest = *notice.wait_for(|newest| *newest >= sequence).await.unwrap();
        assert_eq!((newest, tail.sequence), (sequence, sequence));
    }
}

/// Each commit is appended once the one before was seen, at ever another moment of the follower's look: one that
/// slept through a notice would wait for ever.
pub async fn a_follower_keeps_step_with_its_writer(home: &Home) {
    let store = home.open().await;
    let stream = stream("a");
    let (seen, mut watched) = tokio::sync::watch::channel(0);
    let follower = {
        let store = store.clone();
        tokio::spawn(async move {
            let mut commits = pin!(store.follow(SHARD, 0));
            while let Some(recorded) = commits.next().await {
                seen.send_replace(recorded.unwrap().position.sequence);
            }
        })
    };
    let mut tail = store.empty_tail(&stream);
    for sequence in 1..=400_u64 {
        for _ in 0..sequence % 40 {
            tokio::task::yield_now().await;
        }
        tail = landed(&store.append(after(&store, &stream, tail, &[b"x"])).await);
        let step = watched.wait_for(|seen| *seen >= sequence);
        tokio::time::timeout(PATIENCE, step).await.expect("a notice was slept through").unwrap();
    }
    follower.abort();
}
