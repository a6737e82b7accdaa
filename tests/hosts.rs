//! Hosts over a real store: what a crash, a flood, an outage, a repeat and a restart may cost, and what they may not.

mod effects;
mod partitions;
pub mod probe;
mod recovery;
mod wakes;

use actors::order::{Lane, NoDecision, Order};
use events::quantity::Millis;
use futures_util::future::join_all;
use probe::{Command, Id, Probe, Refusal, Rig, patient, undecided};
use std::time::Duration;
use store::{Fault, Faults, Outage, Point};

/// Commands that one stream lets wait.
const INBOX: usize = <Probe as actors::host::Hosted>::INBOX;
/// Longer than any test: whoever meets it is stuck.
const STUCK: Fault = Fault::Delay(Duration::from_secs(3_600));

#[tokio::test]
async fn a_command_is_decided_logged_and_answered_with_the_state_it_made() {
    let rig = Rig::new().await;
    let first = rig.granted(1, Command::Add(3)).await;
    let second = rig.granted(1, Command::Add(4)).await;
    assert_eq!((first.version.0, first.state.sum), (1, 3));
    assert_eq!((second.version.0, second.state.sum), (2, 7));
    assert!(second.position.sequence > first.position.sequence);
    let log = rig.log(1).await;
    assert_eq!(log.last().unwrap().position, second.position);
    assert_eq!(log[0].commit.causes[0].correlation, 5);
    assert_eq!(rig.folded(1).await, *second.state);
}

#[tokio::test]
async fn a_refusal_answers_its_own_command_only() {
    let rig = Rig::new().await;
    let (before, refused, after) = tokio::join!(
        rig.ask(1, Command::Add(1)),
        rig.ask(1, Command::Forbidden),
        rig.ask(1, Command::Add(2))
    );
    assert_eq!(refused.unwrap().unwrap_err(), Refusal::Forbidden);
    assert_eq!(before.unwrap().unwrap().state.sum, 3);
    assert_eq!(after.unwrap().unwrap().state.sum, 3);
    assert_eq!(rig.log(1).await.len(), 1);
}

#[tokio::test]
async fn what_is_so_already_is_answered_without_a_commit() {
    let rig = Rig::new().await;
    let answer = rig.granted(1, Command::Due).await;
    assert_eq!(answer.version.0, 0);
    assert!(rig.log(1).await.is_empty());
}

#[tokio::test]
async fn many_waiting_commands_become_one_commit() {
    let rig = Rig::new().await;
    let answers = join_all((0..INBOX).map(|_| rig.ask(1, Command::Add(1)))).await;
    for answer in answers {
        assert_eq!(answer.unwrap().unwrap().state.sum, u64::try_from(INBOX).unwrap());
    }
    let log = rig.log(1).await;
    assert_eq!((log.len(), log[0].commit.causes.len()), (1, INBOX));
}

#[tokio::test]
async fn a_batch_too_large_for_one_commit_becomes_several() {
    let rig = Rig::new().await;
    let answers = join_all((0..20).map(|_| rig.ask(1, Command::Count(100)))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().is_ok()));
    assert_eq!(rig.folded(1).await.sum, 2_000);
    let most = rig.log(1).await.iter().map(|recorded| recorded.commit.entries.len()).max();
    assert!(most.is_some_and(|most| most <= events::journal::ENTRIES_MAX), "{most:?}");
}

#[tokio::test]
async fn a_large_payload_stands_in_a_blob_and_reads_back() {
    let rig = Rig::new().await;
    let bytes = vec![7; 3 << 20];
    rig.granted(1, Command::Store(bytes.clone())).await;
    let rig = rig.restart().await;
    assert_eq!(rig.state(1).await.bytes, bytes.len());
}

#[tokio::test]
async fn a_flood_gets_busy_beyond_the_inbox_and_control_still_passes() {
    let rig = Rig::new().await;
    let flood = join_all((0..INBOX + 40).map(|_| rig.ask(1, Command::Add(1))));
    let stop = Order { lane: Lane::Control, ..rig.order(Command::Add(1_000)) };
    let control = rig.table.decide(Id(1), stop.clone());
    let (flood, control) = patient(futures_util::future::join(flood, control)).await;
    let busy = flood.iter().filter(|answer| matches!(answer, Err(NoDecision::Busy { .. }))).count();
    assert_eq!(busy, 40);
    assert_eq!(flood.iter().filter(|answer| answer.is_ok()).count(), INBOX);
    // Control is read first: it stands before the data that came before it.
    assert_eq!(rig.log(1).await[0].commit.causes[0].command, stop.id);
    assert_eq!(control.unwrap().unwrap().state.sum, 1_000 + u64::try_from(INBOX).unwrap() - 1);
}

#[tokio::test]
async fn two_million_commands_at_a_stuck_stream_are_refused_early_and_memory_stays_flat() {
    let rig = Rig::with(Faults::once(Point::BeforeCommit, 1, STUCK)).await;
    let mut stuck = Box::pin(join_all((0..INBOX).map(|_| rig.ask(1, Command::Add(1)))));
    assert!(futures_util::poll!(&mut stuck).is_pending());
    let before = resident_kib();
    for _ in 0..2_000_000 {
        let answer = rig.table.decide(Id(1), rig.order(Command::Add(1))).await;
        assert!(matches!(answer, Err(NoDecision::Busy { .. })));
    }
    let growth = resident_kib().saturating_sub(before);
    assert!(growth < 50 * 1_024, "{growth} KiB more");
    // The stream next to it is as quick as ever.
    assert_eq!(rig.granted(2, Command::Add(1)).await.state.sum, 1);
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_deadline_that_passed_is_not_decided_and_one_that_passes_ends_the_wait() {
    let rig = Rig::with(Faults::once(Point::BeforeCommit, 1, STUCK)).await;
    let late = Order { deadline: rig.hand.now(), ..rig.order(Command::Add(1)) };
    let late = rig.table.decide(Id(1), late).await;
    assert_eq!(undecided(late), NoDecision::DeadlinePassed);
    let ask = rig.ask(1, Command::Add(1));
    let pass = async {
        rig.visited(Point::BeforeCommit).await;
        rig.hand.advance(Millis(3_600_000));
    };
    let (answer, ()) = tokio::join!(ask, pass);
    assert_eq!(undecided(answer), NoDecision::TimedOut);
}

#[tokio::test]
async fn a_command_whose_deadline_passes_in_the_inbox_is_not_decided() {
    let rig = Rig::new().await;
    let order = rig.order(Command::Add(1));
    let deadline = order.deadline;
    let ask = rig.table.decide(Id(1), order);
    // The host looks only after this task has let go of the thread, and finds a later time.
    let pass = async { rig.hand.set(deadline) };
    let (answer, ()) = tokio::join!(biased; ask, pass);
    assert!(matches!(undecided(answer), NoDecision::DeadlinePassed | NoDecision::TimedOut));
    assert_eq!(rig.state(1).await.sum, 0);
    assert!(rig.log(1).await.is_empty());
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_take_the_command_back() {
    let rig = Rig::new().await;
    let mut ask = Box::pin(rig.ask(1, Command::Add(1)));
    assert!(futures_util::poll!(&mut ask).is_pending());
    drop(ask);
    assert_eq!(rig.state(1).await.sum, 1);
}

#[tokio::test]
async fn an_outage_closes_the_gate_and_everything_lands_when_it_is_over() {
    let rig = Rig::new().await;
    let faults = rig.store.faults().clone();
    faults.take_down(Outage::Full);
    let caught = async {
        let (one, two) = tokio::join!(rig.ask(1, Command::Add(1)), rig.ask(2, Command::Add(2)));
        (one.unwrap().unwrap().state.sum, two.unwrap().unwrap().state.sum)
    };
    let refused = async {
        let closed = |standing: &_| matches!(standing, actors::health::Standing::Closed { .. });
        patient(rig.node.gate.standing().wait_for(closed)).await.unwrap();
        let refused = rig.ask(3, Command::Add(3)).await;
        assert!(matches!(refused, Err(NoDecision::Busy { .. })));
        faults.bring_up();
    };
    let (caught, ()) = tokio::join!(caught, refused);
    assert_eq!(caught, (1, 2));
    rig.granted(3, Command::Add(3)).await;
    assert!(rig.table.parked().is_empty());
    assert_eq!((rig.folded(1).await.sum, rig.folded(2).await.sum), (1, 2));
}

#[tokio::test]
async fn a_repeat_after_a_lost_reply_counts_once() {
    let rig = Rig::with(Faults::once(Point::BeforeReply, 1, Fault::LoseReply)).await;
    let order = rig.order(Command::Add(5));
    let first = patient(rig.table.decide(Id(1), order.clone())).await.unwrap().unwrap();
    let again = patient(rig.table.decide(Id(1), order.clone())).await.unwrap().unwrap();
    assert_eq!((first.state.sum, again.state.sum), (5, 5));
    assert_eq!((first.version, first.position), (again.version, again.position));
    assert_eq!(rig.folded(1).await, *again.state);
    // Twice in one batch is a repeat as well.
    let twice = rig.order(Command::Add(1));
    let (a, b) = tokio::join!(
        rig.table.decide(Id(1), twice.clone()),
        rig.table.decide(Id(1), twice.clone())
    );
    assert_eq!((a.unwrap().unwrap().state.sum, b.unwrap().unwrap().state.sum), (6, 6));
    assert_eq!(rig.folded(1).await.sum, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_command_is_lost_between_sleep_and_wake() {
    let rig = Rig::new().await;
    let senders = (0..8).map(|_| async {
        let mut live = rig.table.live();
        for _ in 0..30 {
            let answers = join_all((0..4).map(|id| rig.ask(id, Command::Add(1)))).await;
            assert!(answers.into_iter().all(|answer| answer.unwrap().is_ok()));
            // The next commands come in the moment in which one of the streams goes to sleep.
            drop(patient(live.wait_for(|live| *live < 4)).await.unwrap());
        }
    });
    join_all(senders).await;
    for id in 0..4 {
        assert_eq!((rig.state(id).await.sum, rig.folded(id).await.sum), (240, 240));
    }
}

#[tokio::test]
async fn a_host_that_is_watched_stays_awake_and_tells_each_belief() {
    let rig = Rig::new().await;
    let mut seen = patient(rig.table.watch(Id(1))).await.unwrap();
    assert_eq!(seen.borrow_and_update().state.sum, 0);
    rig.granted(2, Command::Add(1)).await;
    rig.live(1).await;
    rig.granted(1, Command::Add(9)).await;
    patient(seen.changed()).await.unwrap();
    assert_eq!(seen.borrow_and_update().state.sum, 9);
    drop(seen);
    rig.live(0).await;
}
