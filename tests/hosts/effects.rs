//! What a stream owes is started once in a host's life, stopped when it is owed no more, and never left without an
//! end: a panic, a lost host and a fault on purpose all close their intent.

use super::probe::{Command, How, Id, LASTS, Probe, Rig, Work, undecided};
use actors::cluster::Uptime;
use actors::cluster::dispatch::{DISPATCH_WINDOW, Horizon, NotSent};
use actors::cluster::keeper::Owned;
use actors::cluster::mandate::Mandate;
use actors::order::NoDecision;
use events::aggregate::Aggregate;
use events::record::{Boot, Epoch};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Fault, Faults, Point};

#[tokio::test]
async fn an_effect_is_started_once_and_its_outcome_recorded() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    for _ in 0..5 {
        rig.granted(1, Command::Add(1)).await;
    }
    rig.granted(1, Command::Open(Work::Quick)).await;
    rig.until(1, |state| state.closed == [(1, How::Done)]).await;
    assert_eq!(rig.world.has_started(2).await, [(Id(1), 0), (Id(1), 1)]);
    rig.world.free.send_replace(true);
    rig.until(1, |state| state.open.is_empty()).await;
    assert_eq!(rig.world.has_started(2).await.len(), 2);
}

#[tokio::test]
async fn the_outcome_of_an_effect_belongs_to_the_work_that_asked_for_it() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Quick)).await;
    rig.until(1, |state| state.open.is_empty()).await;
    let log = rig.log(1).await;
    let cause = log[1].commit.causes[0];
    assert_eq!((cause.correlation, cause.actor), (5, events::record::Actor::Node));
}

#[tokio::test]
async fn an_effect_that_is_owed_no_more_is_aborted() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    rig.granted(1, Command::Close(0, How::Dropped)).await;
    // The host sleeps only when nothing runs.
    rig.live(0).await;
    assert_eq!(*rig.world.aborted.lock().unwrap(), [(Id(1), 0)]);
    assert_eq!(rig.folded(1).await.closed, [(0, How::Dropped)]);
}

#[tokio::test]
async fn an_effect_that_panics_is_recorded_as_lost() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Panic)).await;
    let state = rig.until(1, |state| state.open.is_empty()).await;
    assert_eq!(state.closed, [(0, How::Died)]);
}

#[tokio::test]
async fn a_fault_around_an_effect_ends_it_without_its_word() {
    for (point, fault, started) in [
        (Point::AfterIntent, Fault::Fail, 0),
        (Point::AfterIntent, Fault::LoseReply, 1),
        (Point::AfterEffect, Fault::LoseReply, 1),
    ] {
        let rig = Rig::with(Faults::once(point, 1, fault)).await;
        rig.granted(1, Command::Open(Work::Quick)).await;
        let state = rig.until(1, |state| state.open.is_empty()).await;
        assert_eq!(state.closed, [(0, How::Died)], "{point:?} {fault}");
        assert_eq!(rig.world.started.borrow().len(), started, "{point:?} {fault}");
    }
}

#[tokio::test]
async fn a_host_is_not_put_to_sleep_while_an_effect_runs() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    // Another stream comes and goes meanwhile.
    rig.granted(2, Command::Add(1)).await;
    rig.live(1).await;
    assert!(rig.world.aborted.lock().unwrap().is_empty());
    rig.world.free.send_replace(true);
    rig.live(0).await;
    assert_eq!(rig.folded(1).await.closed, [(0, How::Done)]);
}

#[tokio::test]
async fn what_a_former_incarnation_left_open_is_closed_by_the_next_and_asked_again_under_a_new_id()
{
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Again)).await;
    rig.world.has_started(1).await;
    // The host falls with its effect in flight; nobody sends another command.
    assert_eq!(undecided(rig.ask(1, Command::Panic).await), NoDecision::Lost);
    assert_eq!(rig.world.has_started(2).await, [(Id(1), 0), (Id(1), 1)]);
    assert_eq!(*rig.world.aborted.lock().unwrap(), [(Id(1), 0)]);
    rig.world.free.send_replace(true);
    let state = rig.until(1, |state| state.open.is_empty()).await;
    assert_eq!(state.closed, [(0, How::Unknown), (1, How::Done)]);
    assert_eq!(rig.folded(1).await, state);
}

/// A node of a cluster that has just taken the partition of stream 1.
fn taken(dead: Option<Boot>) -> Mandate {
    let mandate = owning(dead);
    mandate.took(Probe::stream(&Id(1)).partition());
    mandate
}

/// A node of a cluster whose lease holds for as long as the machine runs.
fn owning(dead: Option<Boot>) -> Mandate {
    let partition = Probe::stream(&Id(1)).partition();
    let horizon = Horizon::Until(Uptime(u64::MAX));
    let owned = Owned { epoch: Epoch(1), horizon, draining: false };
    let mandate = Mandate::leased();
    mandate.joined(tokio::sync::watch::channel(Arc::new([(partition, owned)].into())).1, dead);
    mandate
}

/// Between the commit of an intent and the word that it stands a node can be stopped, and another one take over: the
/// window begins before the commit, and not with that word.
#[tokio::test]
async fn the_window_of_an_effect_begins_before_its_intent_is_in_the_log() {
    let late = Fault::Delay(Duration::from_millis(DISPATCH_WINDOW.0));
    for (mandate, may) in [(owning(None), false), (Mandate::alone(), true)] {
        let rig = Rig::owning(Faults::once(Point::BeforeReply, 3, late), mandate).await;
        rig.granted(1, Command::Open(Work::Quick)).await;
        rig.until(1, |state| state.open.is_empty()).await;
        let leave = std::mem::take(&mut *rig.world.leave.lock().unwrap());
        assert_eq!(leave, [Ok(())]);
        rig.granted(1, Command::Open(Work::Quick)).await;
        rig.until(1, |state| state.open.is_empty()).await;
        let leave = rig.world.leave.lock().unwrap().clone();
        let [leave] = leave[..] else { panic!("{leave:?}") };
        assert_eq!(leave.is_ok(), may, "{leave:?}");
        assert!(may || matches!(leave, Err(NotSent::TooLate { .. })), "{leave:?}");
    }
}

#[tokio::test]
async fn what_a_former_owner_left_open_is_lost_only_when_it_can_take_no_effect_any_more() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    let began = Instant::now();
    let rig = rig.succeeded(taken(None)).await;
    // It is served meanwhile, and nothing of it is begun again.
    assert_eq!(rig.granted(1, Command::Add(1)).await.state.open.len(), 1);
    let state = rig.until(1, |state| state.open.is_empty()).await;
    assert_eq!((state.sum, state.closed), (1, vec![(0, How::Unknown)]));
    let waited = Duration::from_millis(DISPATCH_WINDOW.0 + LASTS.0);
    assert!(began.elapsed() >= waited, "{:?}", began.elapsed());
    assert_eq!(*rig.world.started.borrow(), []);
    // The wait is over for every host of the partition.
    rig.live(0).await;
    rig.granted(1, Command::Open(Work::Quick)).await;
    rig.until(1, |state| state.closed.len() == 2).await;
}

#[tokio::test]
async fn what_a_dead_owner_left_open_is_lost_at_once() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    let rig = rig.succeeded(taken(Some(Boot(1)))).await;
    assert_eq!(rig.state(1).await.closed, [(0, How::Unknown)]);
}

#[tokio::test]
async fn what_is_owed_no_more_is_not_waited_for() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    let rig = rig.succeeded(taken(None)).await;
    let closed = rig.granted(1, Command::Close(0, How::Dropped)).await.state.closed.clone();
    assert_eq!(closed, [(0, How::Dropped)]);
}

#[tokio::test]
async fn an_outcome_that_settles_nothing_ends_the_host_and_the_next_one_closes_the_intent() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Stubborn)).await;
    let state = rig.until(1, |state| state.open.is_empty()).await;
    assert_eq!(state.closed, [(0, How::Unknown)]);
}

#[tokio::test]
async fn a_host_that_finds_nothing_open_writes_nothing() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Add(1)).await;
    let rig = rig.restart().await;
    assert_eq!(rig.state(1).await.sum, 1);
    assert_eq!(rig.log(1).await.len(), 1);
}
