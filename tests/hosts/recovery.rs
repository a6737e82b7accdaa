//! A host falls, is fenced or loses its slot; the stream goes on where the log ends, and its neighbours never notice.

use super::probe::{
    Command, DECODED, Event, How, Id, Probe, Refusal, Rig, Work, patient, undecided,
};
use actors::order::NoDecision;
use actors::supervisor::{FALLS_MAX, WINDOW};
use actors::table::Drained;
use events::aggregate::{Aggregate, Wake};
use events::quantity::Millis;
use events::record::{Boot, Commit, CommitId, Entry, Hash, Version};
use futures_util::future::join_all;
use store::{Append, Appended, Faults, Snapshot, Store};

/// More entries than a host folds without keeping a snapshot.
const LONG: u32 = 300;

/// Writes beside the host, as an owner of the same epoch.
async fn intrude(store: &Store, id: u32, event: Event) {
    write(store, id, event.encode().unwrap(), Wake::OnCommand).await;
}

/// What this build does not know.
fn undecodable() -> Entry {
    Entry { schema: 9, ..Event::Added(1).encode().unwrap() }
}

async fn write(store: &Store, id: u32, entry: Entry, wake: Wake) {
    let stream = Probe::stream(&Id(id));
    let tail = store.tail(&stream).await.unwrap();
    let commit = Commit {
        journal: store.journal(),
        first_version: tail.version.plus(1),
        epoch: store.epoch(stream.partition()),
        stream,
        boot: store.boot(),
        id: CommitId(99),
        at: super::probe::START,
        causes: vec![],
        prev: tail.hash,
        entries: vec![entry],
    };
    let append = Append { commit, expected: tail, wake, blobs: vec![] };
    assert!(matches!(store.append(append).await, Appended::Appended { .. }));
}

#[tokio::test]
async fn a_panic_loses_no_accepted_command_and_the_next_incarnation_answers_those_that_wait() {
    let rig = Rig::new().await;
    assert_eq!(rig.granted(1, Command::Add(1)).await.state.sum, 1);
    let mut commands: Vec<_> = (0..20).map(|_| Command::Add(1)).collect();
    commands.insert(10, Command::Panic);
    let answers = join_all(commands.into_iter().map(|command| rig.ask(1, command))).await;
    for (nth, answer) in answers.into_iter().enumerate() {
        match nth {
            10 => assert_eq!(undecided(answer), NoDecision::Lost),
            _ => assert_eq!(answer.unwrap().unwrap().state.sum, 21),
        }
    }
    assert_eq!(rig.folded(1).await.sum, 21);
}

#[tokio::test]
async fn a_parent_survives_its_child_and_its_other_children_do() {
    let rig = Rig::new().await;
    rig.granted(2, Command::Add(1)).await;
    let sibling = patient(rig.table.watch(Id(2))).await.unwrap();
    for _ in 1..FALLS_MAX {
        assert_eq!(undecided(rig.ask(1, Command::Panic).await), NoDecision::Lost);
    }
    assert_eq!(rig.granted(1, Command::Add(1)).await.state.sum, 1);
    rig.granted(2, Command::Add(1)).await;
    assert!(sibling.has_changed().is_ok(), "the sibling's host went away");
}

#[tokio::test]
async fn who_falls_too_often_is_parked_and_tried_again_after_the_window() {
    let rig = Rig::new().await;
    for _ in 0..FALLS_MAX {
        assert_eq!(undecided(rig.ask(1, Command::Panic).await), NoDecision::Lost);
    }
    rig.live(0).await;
    let until = rig.hand.now().after(WINDOW);
    assert_eq!(rig.table.parked(), [(Id(1), until)]);
    assert_eq!(undecided(rig.ask(1, Command::Add(1)).await), NoDecision::Parked { until });
    rig.granted(2, Command::Add(1)).await;
    rig.hand.set(until);
    assert!(rig.table.parked().is_empty());
    assert_eq!(rig.granted(1, Command::Add(1)).await.state.sum, 1);
}

#[tokio::test]
async fn a_host_that_can_not_even_start_is_parked_and_its_callers_are_told() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Curse).await;
    rig.live(0).await;
    // Nobody but the waiting command asks for the restarts.
    let answer = rig.ask(1, Command::Add(1)).await;
    assert!(matches!(undecided(answer), NoDecision::Parked { .. }));
    assert_eq!(rig.table.parked().len(), 1);
    rig.granted(2, Command::Add(1)).await;
}

#[tokio::test]
async fn a_roused_host_that_can_not_start_is_tried_again_though_nobody_waits_for_it() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.granted(1, Command::Curse).await;
    let rig = rig.restart().await;
    rig.table.rouse(Id(1));
    rig.live(0).await;
    assert_eq!(rig.table.parked().len(), 1);
}

#[tokio::test]
async fn a_fall_a_minute_is_no_crash_loop() {
    let rig = Rig::new().await;
    for _ in 0..FALLS_MAX + 2 {
        assert_eq!(undecided(rig.ask(1, Command::Panic).await), NoDecision::Lost);
        rig.hand.advance(WINDOW);
    }
    assert!(rig.table.parked().is_empty());
    assert_eq!(rig.granted(1, Command::Add(1)).await.state.sum, 1);
}

#[tokio::test]
async fn who_loses_the_slot_reads_again_in_place_and_answers_lost() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Add(1)).await;
    let watched = patient(rig.table.watch(Id(1))).await.unwrap();
    intrude(&rig.store, 1, Event::Added(10)).await;
    let (add, refused) = tokio::join!(
        rig.ask(1, Command::Add(100)),
        // Refused in a state that never came to stand: that is no refusal.
        rig.ask(1, Command::Close(0, How::Done))
    );
    assert_eq!(undecided(add), NoDecision::Lost);
    assert_eq!(undecided(refused), NoDecision::Lost);
    assert_eq!(rig.state(1).await.sum, 11);
    assert_eq!(rig.granted(1, Command::Add(100)).await.state.sum, 111);
    assert!(watched.has_changed().is_ok(), "it is still the same host");
    assert_eq!(rig.folded(1).await.sum, 111);
}

#[tokio::test]
async fn an_outcome_survives_the_loss_of_the_slot() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    intrude(&rig.store, 1, Event::Added(10)).await;
    rig.world.free.send_replace(true);
    let state = rig.until(1, |state| state.open.is_empty()).await;
    assert_eq!((state.sum, state.closed), (10, vec![(0, How::Done)]));
    assert_eq!(rig.folded(1).await.closed, [(0, How::Done)]);
}

#[tokio::test]
async fn a_fenced_host_leaves_and_is_not_counted_as_fallen() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Add(1)).await;
    let later = rig.store.successor(Boot(9), Faults::none());
    intrude(&later, 1, Event::Added(10)).await;
    for _ in 0..FALLS_MAX + 1 {
        let answer = undecided(rig.ask(1, Command::Add(1)).await);
        assert!(matches!(answer, NoDecision::Lost | NoDecision::NobodyThere), "{answer}");
    }
    assert!(rig.table.parked().is_empty());
    assert_eq!(rig.folded(1).await.sum, 11);
}

#[tokio::test]
async fn what_the_build_can_not_decode_stops_its_stream_and_no_other() {
    let rig = Rig::new().await;
    write(&rig.store, 1, undecodable(), Wake::OnCommand).await;
    let answer = undecided(rig.ask(1, Command::Add(1)).await);
    assert!(matches!(answer, NoDecision::Parked { .. }), "{answer}");
    rig.granted(2, Command::Add(1)).await;
}

#[tokio::test]
async fn what_owes_something_and_can_not_be_read_is_tried_until_it_is_parked() {
    let rig = Rig::new().await;
    write(&rig.store, 1, undecodable(), Wake::Now).await;
    rig.start_agenda();
    rig.live(1).await;
    rig.live(0).await;
    assert_eq!(rig.table.parked().len(), 1);
}

#[tokio::test]
async fn known_ids_survive_the_host_and_an_older_one_is_refused_as_expired() {
    let rig = Rig::new().await;
    let old = rig.order(Command::Add(1));
    let first = rig.order(Command::Add(1));
    for _ in 0..2 {
        let answer = patient(rig.table.decide(Id(1), first.clone())).await;
        assert_eq!(answer.unwrap().unwrap().state.sum, 1);
        // Its host goes to sleep in between.
        rig.live(0).await;
    }
    // While there is room in its memory, a stream has forgotten nothing.
    let late = patient(rig.table.decide(Id(1), old.clone())).await;
    assert_eq!(late.unwrap().unwrap().state.sum, 2);
    for _ in 0..LONG {
        rig.granted(1, Command::Add(1)).await;
    }
    for order in [old, first] {
        let answer = patient(rig.table.decide(Id(1), order)).await;
        assert_eq!(undecided(answer), NoDecision::Expired);
    }
    assert_eq!(rig.state(1).await.sum, 2 + u64::from(LONG));
}

#[tokio::test]
async fn a_snapshot_gives_what_a_full_replay_gives_and_known_ids_with_it() {
    let rig = Rig::new().await;
    let known = rig.order(Command::Count(LONG));
    patient(rig.table.decide(Id(1), known.clone())).await.unwrap().unwrap();
    rig.granted(1, Command::Add(5)).await;
    rig.live(0).await;
    DECODED.set(0);
    let state = rig.state(1).await;
    assert_eq!(DECODED.get(), 1, "only what came after the snapshot is read");
    assert_eq!(state, rig.folded(1).await);
    let again = patient(rig.table.decide(Id(1), known)).await.unwrap().unwrap();
    assert_eq!(*again.state, state);
    assert_eq!(again.position, rig.log(1).await.last().unwrap().position);
}

#[tokio::test]
async fn a_forged_snapshot_is_dropped() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Count(LONG)).await;
    rig.live(0).await;
    let stream = Probe::stream(&Id(1));
    let good = rig.store.snapshot(&stream, Probe::FOLD).await.unwrap().unwrap();
    let forged = [
        Snapshot { hash: Hash([7; 32]), ..good.clone() },
        Snapshot { version: Version(17), ..good.clone() },
        Snapshot { bytes: vec![255; 40].into(), ..good.clone() },
        Snapshot { bytes: good.bytes[1..].into(), ..good.clone() },
        Snapshot { bytes: [&good.bytes[..], &[0]].concat().into(), ..good.clone() },
    ];
    for snapshot in forged {
        rig.store.put_snapshot(&stream, snapshot).await.unwrap();
        DECODED.set(0);
        assert_eq!(rig.state(1).await.sum, u64::from(LONG));
        assert_eq!(DECODED.get(), u64::from(LONG), "all of it is read");
        rig.live(0).await;
    }
}

#[tokio::test]
async fn a_stopping_table_lets_what_is_in_flight_finish_and_nothing_new_in() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    rig.granted(2, Command::Add(1)).await;
    let deadline = rig.hand.now().after(Millis(10_000));
    let mut drain = Box::pin(rig.table.drain(deadline));
    assert!(futures_util::poll!(&mut drain).is_pending());
    assert_eq!(undecided(rig.ask(2, Command::Add(1)).await), NoDecision::NobodyThere);
    rig.world.free.send_replace(true);
    assert_eq!(patient(drain).await, Drained::Quiet);
    assert_eq!(rig.folded(1).await.closed, [(0, How::Done)]);
}

#[tokio::test]
async fn a_stopping_table_cuts_off_what_does_not_finish_by_the_deadline() {
    let rig = Rig::new().await;
    rig.granted(1, Command::Open(Work::Wait)).await;
    rig.world.has_started(1).await;
    let deadline = rig.hand.now().after(Millis(10_000));
    let mut drain = Box::pin(rig.table.drain(deadline));
    assert!(futures_util::poll!(&mut drain).is_pending());
    rig.hand.set(deadline);
    assert_eq!(patient(drain).await, Drained::Cut { hosts: 1 });
    assert_eq!(rig.folded(1).await.open.len(), 1);
    let aborted = rig.world.aborted.lock().unwrap().clone();
    assert_eq!(aborted, [(Id(1), 0)]);
}

#[tokio::test]
async fn a_refusal_is_told_apart_from_the_state_it_was_made_in() {
    let rig = Rig::new().await;
    let answer = rig.ask(1, Command::Close(3, How::Done)).await;
    assert_eq!(answer.unwrap().unwrap_err(), Refusal::NotOpen(3));
}
