//! Read models over a journal of many shards: lists in the order of time, a rebuild that equals what was live, a restart
//! that goes on from every shard's place, a wait for a write in any shard, a halt that names its shard, and an outage
//! that costs time only.

mod journal;

use events::aggregate::Aggregate;
use events::record::{Entry, Hash, Payload, Position, Shard};
use events::run::Run;
use gateway::auth::{
    Verifier,
    node_key::{NodeKeys, Told},
};
use journal::{Journal, key, run, secret, session};
use projections::usage::By;
use projections::{Config, Handle, Name, NotThere, Reach, Runner, State, Status};
use projections::{runs, sessions};
use rusqlite::types::Value;
use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::jetstream::SHARDS;
use tempfile::TempDir;
use tests::nats::{Nats, Sync};
use tests::process::wait_for;

/// Longer than anything here takes; a wait that reaches it has failed.
const LONG: Duration = Duration::from_secs(20);

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("views.db")
}

async fn start(journal: &Journal, folder: &TempDir) -> (Handle, Runner) {
    projections::start(Config { store: journal.store.clone(), path: file(folder) }).await.unwrap()
}

/// Runs the loops while something else happens, then drops them wherever they are.
async fn during<T>(runner: Runner, body: impl Future<Output = T>) -> T {
    tokio::select! {
        () = runner.run() => panic!("the runner ended by itself"),
        done = body => done,
    }
}

async fn caught_up(handle: &Handle, ends: &Reach) {
    for name in Name::ALL {
        for end in ends.positions() {
            handle.at_least(name, end, LONG).await.unwrap();
        }
    }
}

fn status(handle: &Handle, name: Name) -> Status {
    handle.status().into_iter().find(|status| status.name == name).unwrap()
}

/// Every row of every table, and where each shard stands.
fn rows(path: &Path) -> Vec<(String, Vec<Value>)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(LONG).unwrap();
    let named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name != 'sets'";
    let mut statement = connection.prepare(named).unwrap();
    let tables = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut all = vec![];
    for table in tables.map(Result::unwrap) {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let found = statement
            .query_map([], |row| (0..columns).map(|column| row.get(column)).collect())
            .unwrap();
        all.extend(found.map(|row| (table.clone(), row.unwrap())));
    }
    all.sort_by_key(|row| format!("{row:?}"));
    all
}

/// Runs, sessions and keys in every shard. The second of each is unlike its place in its shard: a multiple of five in a
/// field of 31, so that no shard is in the order of time, and some share a second.
async fn fill(journal: &mut Journal) {
    for n in 0..24 {
        let (shard, unique) = (n % SHARDS, u128::from(n));
        let second = i64::from(n * 5 % 31 / 2);
        journal.answered_run(run(shard, unique), second, 1 << n).await;
        if n % 2 == 0 {
            journal.active_session(session(shard, unique), &[3, 40 - second]).await;
        }
        if n < SHARDS {
            journal.issued_key(key(shard, unique), second).await;
        }
    }
}

async fn all_runs(handle: &Handle, limit: u16) -> Vec<runs::Row> {
    let (mut query, mut all) = (runs::Query { limit, ..runs::Query::default() }, vec![]);
    loop {
        let page = handle.runs(query.clone()).await.unwrap();
        assert_eq!(page.count, 24);
        all.extend(page.rows);
        query.before = page.next;
        if page.next.is_none() {
            return all;
        }
    }
}

async fn all_sessions(handle: &Handle, limit: u16) -> Vec<sessions::Row> {
    let (mut query, mut all) = (sessions::Query { limit, ..sessions::Query::default() }, vec![]);
    loop {
        let page = handle.sessions(query.clone()).await.unwrap();
        all.extend(page.rows);
        query.before = page.next;
        if page.next.is_none() {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_all_shards_are_listed_in_the_order_of_time_and_rebuilt_equals_live() {
    let nats = Nats::one(Sync::Always).await;
    let (mut journal, folder) = (Journal::on(&nats).await, TempDir::new().unwrap());
    let (handle, runner) = start(&journal, &folder).await;
    during(runner, async {
        fill(&mut journal).await;
        let ends = journal.ends();
        caught_up(&handle, &ends).await;

        let whole = all_runs(&handle, 0).await;
        let shards: BTreeSet<Shard> = whole.iter().map(|row| row.opened.shard).collect();
        assert_eq!((whole.len(), shards.len()), (24, usize::from(SHARDS)));
        assert!(whole.is_sorted_by(|a, b| (a.created, a.id) > (b.created, b.id)));
        assert!(!whole.is_sorted_by(|a, b| a.opened.sequence >= b.opened.sequence));
        let active = all_sessions(&handle, 0).await;
        assert_eq!(active.len(), 12);
        assert!(active.is_sorted_by(|a, b| (a.active, a.id) > (b.active, b.id)));
        for limit in [1, 5, 12, 24] {
            assert_eq!(all_runs(&handle, limit).await, whole, "by {limit}");
            assert_eq!(all_sessions(&handle, limit).await, active, "by {limit}");
        }

        let totals = handle.usage(By::Run).await.unwrap();
        assert_eq!(totals.all.cost.map(|cost| cost.0), Some((1 << 24) - 1));
        let keys = handle.keys(None).await.unwrap();
        assert_eq!((keys.rows.len(), &keys.at), (usize::from(SHARDS), &ends));
        assert_eq!(totals.at, ends);
        assert_eq!(ends.to_string().matches(',').count(), usize::from(SHARDS) - 1);

        let live = rows(&file(&folder));
        for name in Name::ALL {
            let rebuilt = handle.rebuild(name, |_, _| {}).await.unwrap();
            let total = journal.store.stats().await.unwrap().entries;
            assert_eq!((rebuilt.position, rebuilt.events), (ends.clone(), total));
            let status = status(&handle, name);
            assert_eq!(
                (status.state, status.position, status.lag),
                (State::Running, ends.clone(), 0)
            );
        }
        assert_eq!(rows(&file(&folder)), live);
        // And they go on being live, in every shard.
        for shard in 0..SHARDS {
            journal.answered_run(run(shard, 1_000), 50, 0).await;
        }
        caught_up(&handle, &journal.ends()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_from_the_place_of_each_shard() {
    let nats = Nats::one(Sync::Always).await;
    let (mut journal, folder) = (Journal::on(&nats).await, TempDir::new().unwrap());
    fill(&mut journal).await;
    let first = journal.ends();
    let (handle, runner) = start(&journal, &folder).await;
    assert_eq!(status(&handle, Name::Runs).state, State::Rebuilding);
    during(runner, caught_up(&handle, &first)).await;

    // While nobody follows: in three shards only.
    for shard in [1, 4, 7] {
        journal.answered_run(run(shard, 2_000), 60, 9).await;
    }
    let (handle, runner) = start(&journal, &folder).await;
    let stands = status(&handle, Name::Runs);
    assert_eq!((stands.state, stands.position, stands.lag), (State::Running, first, 6));
    // Dropped at any place, again and again: each commit is folded once.
    during(runner, handle.at_least(Name::Runs, journal.ends().positions().last().unwrap(), LONG))
        .await
        .unwrap();
    let (handle, runner) = start(&journal, &folder).await;
    during(runner, caught_up(&handle, &journal.ends())).await;

    let other = TempDir::new().unwrap();
    let (handle, runner) = start(&journal, &other).await;
    during(runner, caught_up(&handle, &journal.ends())).await;
    assert_eq!(rows(&file(&folder)), rows(&file(&other)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_for_the_shard_that_was_written() {
    let nats = Nats::one(Sync::Always).await;
    let (mut journal, folder) = (Journal::on(&nats).await, TempDir::new().unwrap());
    let (handle, runner) = start(&journal, &folder).await;
    during(runner, async {
        for shard in (0..SHARDS).rev() {
            let id = run(shard, 5);
            let written = journal.answered_run(id, 1, 3).await;
            assert_eq!(written, Position { shard: Shard(shard), sequence: 2 });
            handle.at_least(Name::Runs, written, LONG).await.unwrap();
            assert_eq!(handle.run(id).await.unwrap().unwrap().last, written);
        }
        let after = Position { shard: Shard(5), sequence: 3 };
        let late = handle.at_least(Name::Runs, after, Duration::from_millis(1)).await;
        assert_eq!(late, Err(NotThere::Late { reached: Position { sequence: 2, ..after } }));
        let nowhere = Position { shard: Shard(SHARDS), sequence: 1 };
        let stopped = handle.at_least(Name::Runs, nowhere, LONG).await;
        assert_eq!(stopped, Err(NotThere::Stopped(nowhere)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_read_in_one_shard_halts_its_projections_in_all() {
    let nats = Nats::one(Sync::Always).await;
    let (mut journal, folder) = (Journal::on(&nats).await, TempDir::new().unwrap());
    let id = run(5, 1);
    journal.answered_run(id, 1, 3).await;
    let payload = Payload::Inline(vec![1, 2, 3].into());
    let stranger = Entry { kind: 9_999, schema: 1, seal: None, payload };
    let stays = journal.append(&Run::stream(&id), vec![stranger], 2).await;
    assert_eq!(stays, Position { shard: Shard(5), sequence: 3 });
    let (handle, runner) = start(&journal, &folder).await;
    during(runner, async {
        for name in [Name::Runs, Name::Usage] {
            let halted = handle.at_least(name, stays, LONG).await;
            let Err(NotThere::Halted { at, reason }) = halted else { panic!("{halted:?}") };
            assert_eq!(at, stays);
            assert!(reason.contains("at 5.3: kind 9999 schema 1 is unknown"), "{reason}");
        }
        // Later commits of any shard are for those that are not halted.
        let later = journal.answered_run(run(2, 1), 3, 3).await;
        journal.issued_key(key(2, 1), 4).await;
        handle
            .at_least(Name::Keys, journal.ends().positions().nth(2).unwrap(), LONG)
            .await
            .unwrap();
        assert_eq!(handle.run(run(2, 1)).await.unwrap(), None);
        let halted = handle.at_least(Name::Runs, later, LONG).await;
        assert!(matches!(&halted, Err(NotThere::Halted { at, .. }) if *at == stays), "{halted:?}");
        let State::Halted { at, .. } = status(&handle, Name::Runs).state else { panic!() };
        assert_eq!((at, status(&handle, Name::Runs).lag), (stays, 4));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_servers_is_waited_for_in_every_shard() {
    let mut nats = Nats::one(Sync::Always).await;
    let (mut journal, folder) = (Journal::on(&nats).await, TempDir::new().unwrap());
    fill(&mut journal).await;
    let (handle, runner) = start(&journal, &folder).await;
    let trouble = || status(&handle, Name::Runs).trouble;
    nats.kill(0);
    during(runner, async {
        wait_for("trouble", || async { trouble() }).await;
        nats.restart(0).await;
        caught_up(&handle, &journal.ends()).await;
        wait_for("no trouble", || async { trouble().is_none().then_some(()) }).await;
        assert_eq!(status(&handle, Name::Runs).state, State::Running);
    })
    .await;
    // Nothing to fetch: that the store answers is asked for.
    let (handle, runner) = start(&journal, &folder).await;
    let trouble = || status(&handle, Name::Runs).trouble;
    nats.kill(0);
    during(runner, async {
        wait_for("trouble", || async { trouble() }).await;
        nats.restart(0).await;
        wait_for("no trouble", || async { trouble().is_none().then_some(()) }).await;
        assert_eq!(status(&handle, Name::Runs).position, journal.ends());
    })
    .await;
}

/// From the read model as far as it got, and from the log of every shard after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_every_shard_are_known_at_a_start_and_none_that_was_revoked() {
    let nats = Nats::one(Sync::Always).await;
    let (mut journal, folder) = (Journal::on(&nats).await, TempDir::new().unwrap());
    for shard in 0..SHARDS {
        journal.issued_key(key(shard, 1), 1).await;
        journal.issued_key(key(shard, 2), 1).await;
    }
    journal.revoked_key(key(5, 2), 2).await;
    let (handle, runner) = start(&journal, &folder).await;
    during(runner, caught_up(&handle, &journal.ends())).await;
    // What comes while nobody folds.
    for shard in [0, 3, 7] {
        journal.revoked_key(key(shard, 1), 3).await;
        journal.issued_key(key(shard, 3), 4).await;
    }
    let (handle, _runner) = start(&journal, &folder).await;
    let (admin, cli, told) = (Hash([1; 32]), Hash([2; 32]), Told::Kept);
    let verifier = Verifier::new(&NodeKeys { admin, cli, told });
    gateway::boot::keys::load(&journal.store, &handle, &verifier).await.unwrap();
    let mut opens = 0;
    for id in (0..SHARDS).flat_map(|shard| [1, 2, 3].map(|unique| key(shard, unique))) {
        let known = verifier.verify(secret(id).expose()).is_ok();
        assert_eq!(known, journal.keys.contains_key(&id), "{id}");
        opens += u16::from(known);
    }
    assert_eq!(opens, 2 * SHARDS - 1);
}
