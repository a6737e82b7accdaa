//! What only a journal on servers has: lost answers, outages, servers that are not fit, streams that are gone.

use super::Place;
use crate::contract::store::{own_all, stream};
use crate::probe::{JOURNAL, after, all, grow, landed, tail_of};
use async_nats::jetstream::stream::Config;
use events::aggregate::Wake;
use events::id::Generation;
use events::quantity::Instant;
use events::record::{Boot, Epoch, Hash, JournalId, Shard, StreamKey, Version};
use events::subject::Subject;
use futures_util::{StreamExt, TryStreamExt};
use std::time::Duration;
use store::jetstream::{LazySync, Servers, Sync, Unsafe};
use store::{
    Append, Appended, Connect, ConnectError, Faults, FollowError, Outage, Store, StoreError,
};
use tests::nats::{self, Nats};
use tests::process::wait_for;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const FIRST: Boot = Boot(1);

fn unavailable(answer: &Appended) -> bool {
    matches!(answer, Appended::Unknown(Outage::Unavailable(_)))
}

/// Between a client and its server: lets everything through until it is told to lose the answers.
struct Between {
    url: String,
    deaf: tokio::sync::watch::Sender<bool>,
}

async fn told(hears: &mut tokio::sync::watch::Receiver<bool>, what: bool) {
    drop(hears.wait_for(|deaf| *deaf == what).await);
}

impl Between {
    async fn of(server: &str) -> Self {
        let server = server.trim_start_matches("nats://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let (deaf, hears) = tokio::sync::watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let Ok(mut server) = TcpStream::connect(&server).await else { continue };
                let mut hears = hears.clone();
                tokio::spawn(async move {
                    let both = tokio::io::copy_bidirectional(&mut client, &mut server);
                    tokio::select! {
                        _ = both => return,
                        () = told(&mut hears, true) => {}
                    }
                    // What is asked goes on, what is answered is lost; then so is the connection.
                    let (mut asked, mut answers) = (vec![0; 65_536], vec![0; 65_536]);
                    loop {
                        tokio::select! {
                            Ok(read @ 1..) = client.read(&mut asked) => {
                                server.write_all(&asked[..read]).await.unwrap();
                            }
                            Ok(1..) = server.read(&mut answers) => {}
                            () = told(&mut hears, false) => return,
                            else => return,
                        }
                    }
                });
            }
        });
        Self { url, deaf }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_appended_though_a_claim_stands_after_it() {
    let nats = Nats::one(nats::Sync::Always).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let between = Between::of(&nats.urls()[0]).await;
    let mut behind = place.clone();
    behind.connect.servers.urls = vec![between.url.clone()];
    let (mine, theirs) = (
        behind.open(FIRST, Faults::none(), None).await,
        place.open(Boot(2), Faults::none(), None).await,
    );
    let stream = stream("a");
    let first = after(&mine, &stream, mine.tail(&stream).await.unwrap(), &[b"mine"]);
    let wanted = tail_of(&first, 1);

    // It is stored, but nothing is heard of it.
    between.deaf.send_replace(true);
    let appending = {
        let mine = mine.clone();
        tokio::spawn(async move { mine.append(first).await })
    };
    let claim_after = wait_for("the commit stands", || async {
        let tail = theirs.tail(&stream).await.unwrap();
        (tail.version == Version(1)).then_some(tail)
    })
    .await;
    let epoch = theirs.own(stream.partition(), mine.epoch(stream.partition())).await.unwrap();
    assert!(epoch > mine.epoch(stream.partition()));
    landed(&theirs.append(after(&theirs, &stream, claim_after, &[b"a claim"])).await);
    between.deaf.send_replace(false);

    let answer = appending.await.unwrap();
    assert!(matches!(answer, Appended::Appended { tail, .. } if tail == wanted), "{answer:?}");
    // And what is decided on it is fenced.
    let next = after(&mine, &stream, wanted, &[b"zombie"]);
    assert_eq!(mine.append(next).await, Appended::Fenced { epoch });
    assert_eq!(all(&mine, &stream).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_while_the_server_was_gone_lands_once_or_not_at_all() {
    let mut nats = Nats::one(nats::Sync::Always).await;
    let mut place = Place::on(&nats, LazySync::Refuse);
    place.connect.servers.outage_max = Duration::from_secs(2);
    let store = place.open(FIRST, Faults::none(), None).await;
    let stream = stream("a");
    let tail = grow(&store, &stream, &[b"one"]).await;

    // It hangs, so that the client still holds itself for connected and sends; then it is gone.
    nats.pause(0);
    let lost = after(&store, &stream, tail, &[b"lost"]);
    let answer = store.append(lost.clone()).await;
    assert!(unavailable(&answer), "{answer:?}");
    nats.kill(0);
    let refused = wait_for("a connection that is down refuses at once", || async {
        let other = super::super::stream("b");
        let started = std::time::Instant::now();
        let answer = store.append(after(&store, &other, store.empty_tail(&other), &[b"x"])).await;
        assert!(unavailable(&answer), "{answer:?}");
        (started.elapsed() < Duration::from_millis(50)).then_some(answer)
    })
    .await;
    assert!(refused_text(&refused).contains("not connected"), "{refused:?}");

    let given_up = || async { (store.connections_given_up() == 1).then_some(()) };
    wait_for("after the bound, the client gives up what it holds", given_up).await;
    nats.restart(0).await;
    wait_for("appends land again", || async { store.probe().await.ok() }).await;
    assert_eq!(store.tail(&stream).await.unwrap(), tail, "nothing lands by itself");
    let other = super::super::stream("b");
    assert_eq!(all(&store, &other).await, []);
    landed(&store.append(lost.clone()).await);
    let again = store.append(lost).await;
    assert!(matches!(again, Appended::Duplicate { version: Version(2), .. }), "{again:?}");
}

fn refused_text(answer: &Appended) -> String {
    match answer {
        Appended::Unknown(outage) => outage.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn refusal(connect: Connect) -> ConnectError {
    Store::connect(connect).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_not_fit_are_refused_by_name() {
    let nats = Nats::one(nats::Sync::Default).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let lazy = refusal(place.connect.clone()).await;
    assert_eq!(lazy, ConnectError::Unsafe(Unsafe::Lazy("s0".to_owned())));
    let text = lazy.to_string();
    assert!(text.contains("s0") && text.contains("sync_interval: always"), "{text}");
    let made: Vec<String> = place.admin().await.stream_names().map(Result::unwrap).collect().await;
    assert_eq!(made, Vec::<String>::new(), "nothing was made on them");
    let flagged = Place::on(&nats, LazySync::Allow).connect(FIRST, Faults::none()).await;
    assert!(matches!(flagged.sync(), Sync::Lazy(why) if why.contains("s0")));

    // One that says that it is old.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let info = b"INFO {\"server_id\":\"N\",\"server_name\":\"old\",\"version\":\"2.9.10\",\"max_payload\":1048576,\"headers\":true,\"proto\":1}\r\n";
            let _sent = client.write_all(info).await;
            let mut bytes = [0; 4_096];
            while let Ok(read @ 1..) = client.read(&mut bytes).await {
                if bytes[..read].windows(4).any(|four| four == b"PING") {
                    let _sent = client.write_all(b"PONG\r\n").await;
                }
            }
        }
    });
    let servers = Servers::at(vec![url]);
    let old = refusal(Connect { servers, ..place.connect.clone() }).await;
    assert_eq!(
        old.to_string(),
        "server old has version 2.9.10, at least 2.12.0 is needed: update it"
    );

    let nobody = Servers::at(vec!["nats://127.0.0.1:1".to_owned()]);
    let nobody = refusal(Connect { servers: nobody, ..place.connect.clone() }).await;
    assert!(matches!(nobody, ConnectError::Unreachable(_)), "{nobody}");
    let unwatched = Nats::one(nats::Sync::Always).await;
    let mut place = Place::on(&unwatched, LazySync::Refuse);
    place.connect.monitors.clear();
    let unwatched = refusal(place.connect).await;
    assert_eq!(unwatched, ConnectError::Unsafe(Unsafe::Unwatched("s0".to_owned())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_gone_is_reported_and_never_made_again() {
    let nats = Nats::one(nats::Sync::Always).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let store = place.open(FIRST, Faults::none(), None).await;
    let stream = stream("a");
    let tail = grow(&store, &stream, &[b"one"]).await;
    let namespace = place.connect.namespace.clone();
    let shard = namespace.shard_stream(0, Generation::FIRST);
    let admin = place.admin().await;
    // What the streams promise is set as designed.
    let Config { max_age, deny_delete, deny_purge, num_replicas, allow_direct, .. } =
        admin.get_stream(&shard).await.unwrap().cached_info().config.clone();
    assert_eq!((max_age, deny_delete, deny_purge), (Duration::ZERO, true, true));
    assert_eq!((num_replicas, allow_direct), (1, true));
    let direct = admin.get_stream(&shard).await.unwrap();
    assert!(direct.delete_message(1).await.is_err() && direct.purge().await.is_err());

    admin.delete_stream(&shard).await.unwrap();
    let answer = store.append(after(&store, &stream, tail, &[b"two"])).await;
    assert!(unavailable(&answer), "{answer:?}");
    assert!(store.probe().await.is_err() && store.tail(&stream).await.is_err());
    let error = refusal(Connect { boot: Boot(2), ..place.connect.clone() }).await;
    assert_eq!(error, ConnectError::StreamGone(shard.clone()));
    assert!(admin.get_stream(&shard).await.is_err(), "it was made again");

    // Nor is a journal named anew over the commits of another.
    let place = Place::on(&nats, LazySync::Refuse);
    grow(&place.open(FIRST, Faults::none(), None).await, &stream, &[b"one"]).await;
    admin.delete_stream(place.connect.namespace.meta_stream()).await.unwrap();
    let shard = place.connect.namespace.shard_stream(0, Generation::FIRST);
    assert_eq!(refusal(place.connect).await, ConnectError::Nameless(shard));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_come_together_agree_on_one_journal() {
    let nats = Nats::one(nats::Sync::Always).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let come = (1..=5_u128).map(|n| {
        let connect = Connect { boot: Boot(n), fresh: JournalId(n), ..place.connect.clone() };
        Store::connect(connect)
    });
    let stores = futures_util::future::try_join_all(come).await.unwrap();
    let journals: Vec<JournalId> = stores.iter().map(Store::journal).collect();
    assert!(journals.iter().all(|journal| *journal == journals[0]), "{journals:?}");
    assert!((1..=5).contains(&journals[0].0));
}

/// What is changed of a message: its body, its headers.
type Harm = fn(&mut Vec<u8>, &mut async_nats::HeaderMap);

/// Puts a message into a shard that no store would write.
async fn forge(place: &Place, append: &Append, sequence: u64, harm: Harm) {
    let frame = events::journal::encode(&append.commit);
    let mut body = frame.bytes.to_vec();
    let mut headers = async_nats::HeaderMap::new();
    let commit = &append.commit;
    headers.insert("Nats-Msg-Id", format!("{:032x}", commit.id.0));
    headers.insert("Nats-Expected-Last-Subject-Sequence", sequence.to_string());
    headers.insert("Piton-Hash", frame.hash.to_string());
    headers.insert(
        "Piton-Versions",
        format!("{}-{}", commit.first_version.0, commit.last_version().0),
    );
    headers.insert("Piton-Epoch", commit.epoch.0.to_string());
    headers.insert("Piton-Boot", format!("{:032x}", commit.boot.0));
    headers.insert("Piton-Wake", "command");
    harm(&mut body, &mut headers);
    let subject = place.connect.namespace.spell(&Subject::Journal(commit.stream.clone()));
    let admin = place.admin().await;
    admin.publish_with_headers(subject, headers, body.into()).await.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_link_or_was_changed_is_reported_with_its_place_when_it_is_read() {
    let nats = Nats::one(nats::Sync::Always).await;
    let harms: [(&str, Harm); 3] = [
        ("links to", |_, _| {}),
        ("hash to", |body, _| body[100] ^= 1),
        ("Piton-Epoch", |_, headers| headers.insert("Piton-Epoch", "77")),
    ];
    for (said, harm) in harms {
        let place = Place::on(&nats, LazySync::Refuse);
        let store = place.open(FIRST, Faults::none(), None).await;
        let stream = stream("a");
        let tail = grow(&store, &stream, &[b"one"]).await;
        let mut next = after(&store, &stream, tail, &[b"two"]);
        if said == "links to" {
            next.commit.prev = Hash([9; 32]);
        }
        forge(&place, &next, tail.sequence, harm).await;
        let error = store.read(&stream, Version::EMPTY, 10).await.unwrap_err();
        let StoreError::Corrupt { position, source } = error else { panic!("{error:?}") };
        assert_eq!((position.shard, position.sequence), (Shard(0), 2));
        assert!(source.to_string().contains(said), "{source}");
        let report = store.verify(store::verify::no_wakes).await.unwrap().unwrap();
        assert_eq!(report.problems_count, 1, "{:?}", report.problems);
        assert_eq!(report.problems[0].position, Some(position));
        assert!(report.problems[0].to_string().contains(said), "{}", report.problems[0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_partition_is_owned_by_itself_and_followed_in_its_shard() {
    let nats = Nats::one(nats::Sync::Always).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let store = place.connect(FIRST, Faults::none()).await;
    let streams: Vec<StreamKey> = (0..40).map(|n| crate::probe::stream(&format!("n{n}"))).collect();
    let not_mine = after(&store, &streams[0], store.empty_tail(&streams[0]), &[b"x"]);
    assert_eq!(store.append(not_mine).await, Appended::Fenced { epoch: Epoch(0) });
    assert_eq!(all(&store, &streams[0]).await, [], "nothing was published");

    // Above the lease, and above what stands in the commits.
    let part = streams[0].partition();
    assert_eq!(store.own(part, Epoch(6)).await.unwrap(), Epoch(7));
    grow(&store, &streams[0], &[b"x"]).await;
    let other = place.connect(Boot(2), Faults::none()).await;
    assert_eq!(other.epoch_seen(part).await.unwrap(), Epoch(7));
    assert_eq!(other.own(part, Epoch(2)).await.unwrap(), Epoch(8));
    store.release(part);
    let tail = store.tail(&streams[0]).await.unwrap();
    let released = after(&other, &streams[0], tail, &[b"released"]);
    assert!(matches!(store.append(released.clone()).await, Appended::Fenced { .. }));
    landed(&other.append(released).await);

    own_all(&store, Some(&other)).await;
    for stream in &streams {
        grow(&store, stream, &[b"y", b"z"]).await;
    }
    assert_eq!(store.shards(), (0..8).map(Shard).collect::<Vec<_>>());
    let mut seen = 0;
    for shard in store.shards() {
        let mine: Vec<&StreamKey> =
            streams.iter().filter(|stream| store.shard(stream) == shard).collect();
        let count = mine.len() + if store.shard(&streams[0]) == shard { 2 } else { 0 };
        let found: Vec<_> = store.follow(shard, 0).take(count).try_collect().await.unwrap();
        assert!(found.iter().all(|recorded| mine.contains(&&recorded.commit.stream)));
        seen += found.len();
    }
    assert_eq!(seen, 42);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.commits, stats.streams, stats.entries), (42, 40, 82));
    let report = store.verify(crate::probe::wake_of).await.unwrap().unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.commits, report.streams, report.wakes), (42, 40, 40));
    assert_eq!((report.rolling, report.journal), (stats.rolling, JOURNAL));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_leader_and_a_restart_of_all_servers_lose_nothing_that_was_acknowledged() {
    let mut nats = Nats::three(nats::Sync::Always).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let store = place.open(FIRST, Faults::none(), None).await;
    let stream = stream("a");
    let follower = {
        let store = store.clone();
        tokio::spawn(
            async move { store.follow(Shard(0), 0).take(60).try_collect::<Vec<_>>().await },
        )
    };
    let mut tail = store.empty_tail(&stream);
    for n in 0..60_u8 {
        if n == 20 {
            let name = place.connect.namespace.shard_stream(0, Generation::FIRST);
            let leader = nats.leader_of(&name).await.unwrap();
            nats.kill(leader);
        }
        if n == 40 {
            (0..3).for_each(|nth| nats.kill(nth));
            (0..3).for_each(|nth| nats.restart_unready(nth));
        }
        let mut append = after(&store, &stream, tail, &[&[n]]);
        append.wake = Wake::At(Instant(i64::from(n) + 1));
        // The same bytes until it is known: as a host does at its gate.
        tail = wait_for("the commit is settled", || async {
            match store.append(append.clone()).await {
                Appended::Appended { tail, .. } => Some(tail),
                Appended::Duplicate { position, .. } => Some(tail_of(&append, position.sequence)),
                Appended::Unknown(_) => None,
                other => panic!("{n}: {other:?}"),
            }
        })
        .await;
    }
    let found = all(&store, &stream).await;
    assert_eq!(found.len(), 60, "each landed once");
    let followed: Result<Vec<_>, FollowError> = follower.await.unwrap();
    assert_eq!(followed.unwrap(), found);
    let due = store.due(stream.partition(), Instant(1_000), 9, None).await.unwrap();
    assert_eq!((due.len(), due[0].wake), (1, Wake::At(Instant(60))));
    // What is known of a shard is known again after a new start.
    let again = place.open(Boot(2), Faults::none(), Some(&store)).await;
    assert_eq!(again.due(stream.partition(), Instant(1_000), 9, None).await.unwrap(), due);
    assert_eq!(again.stats().await.unwrap(), store.stats().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_owners_on_two_servers_never_both_append() {
    let nats = Nats::three(nats::Sync::Always).await;
    let place = Place::on(&nats, LazySync::Refuse);
    let on = |nth: usize| {
        let mut place = place.clone();
        place.connect.servers.urls = vec![nats.urls()[nth].clone()];
        place
    };
    // Both believe that they own everything, under the same epoch.
    let one = on(0).open(Boot(1), Faults::none(), None).await;
    let other = on(1).open(Boot(2), Faults::none(), None).await;
    let (mut won, rounds) = ([0, 0], 100);
    for n in 0..rounds {
        let stream = crate::probe::stream(&format!("race{n}"));
        let empty = one.empty_tail(&stream);
        let (mine, theirs) =
            (after(&one, &stream, empty, &[b"one"]), after(&other, &stream, empty, &[b"other"]));
        let answers = tokio::join!(one.append(mine), other.append(theirs));
        let lost = |answer: &Appended| matches!(answer, Appended::Fenced { epoch: Epoch(1) });
        match answers {
            (Appended::Appended { .. }, answer) if lost(&answer) => won[0] += 1,
            (answer, Appended::Appended { .. }) if lost(&answer) => won[1] += 1,
            both => panic!("{n}: {both:?}"),
        }
        assert_eq!(all(&one, &stream).await.len(), 1, "{n}");
    }
    assert_eq!(won[0] + won[1], rounds);
    let report = one.verify(crate::probe::wake_of).await.unwrap().unwrap();
    assert_eq!((report.problems, report.commits), (vec![], 100));
}
