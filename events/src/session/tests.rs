//! The rules of a session, by example and exhaustively over a small world.

use super::*;
use crate::codec::golden;
use crate::id::Place;
use crate::message::{Message, Role};
use crate::prompt::{Catalogue, Params};
use crate::record::Hash;
use crate::run::spec::{Delivery, Limits, Plane};
use std::collections::BTreeSet;

const NOW: Instant = Instant(1_700_000_000_000_000);

fn run(n: u128) -> RunId {
    RunId::new(Place::default(), n)
}

fn spec() -> Arc<Spec> {
    Arc::new(Spec {
        plane: Plane::Model,
        delivery: Delivery::Live,
        project: "default".into(),
        caller: Actor::Admin,
        route: vec![],
        route_source: "call".into(),
        role: crate::role::Role::chat(),
        phase: None,
        dropped: vec![],
        independence: crate::role::Independence::Off,
        tools: Catalogue::default(),
        plan: Default::default(),
        server_tools: vec![],
        params: Params::default(),
        input: vec![said("hi")],
        limits: Limits::default(),
        approval_mode: Default::default(),
        source: Default::default(),
        budgets: vec![],
        tool_policy: crate::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: 1,
        metadata: std::collections::BTreeMap::new(),
        seed: 7,
        input_hash: Hash::default(),
    })
}

fn said(text: &str) -> Body {
    Message::text(Role::User, text).body()
}

fn submit(n: u128, on_busy: OnBusy, seen: Option<u32>) -> Command {
    Command::Submit { run: run(n), spec: spec(), on_busy, seen }
}

fn end(n: u128, fence: u64) -> Command {
    let messages = vec![said("hi"), said("ho")];
    let (run, fence, outcome) = (run(n), Fence(fence), Outcome::Completed);
    Command::RunEnded { run, fence, outcome, messages, generated_by: None }
}

fn fork() -> Command {
    let parent = SessionId::new(Place::default(), 9);
    Command::Fork {
        parent,
        at: 1,
        messages: vec![said("hi")],
        project: "default".into(),
        by: Actor::Admin,
    }
}

fn fold(state: &State, events: &[Event]) -> State {
    events.iter().try_fold(state.clone(), Session::evolve).unwrap()
}

#[track_caller]
fn check(given: &[Command], when: &Command, then: Result<&[&str], Refusal>) -> State {
    let state = given.iter().fold(State::default(), |state, command| {
        let events = Session::decide(&state, command, NOW).unwrap();
        fold(&state, &events)
    });
    let decided = Session::decide(&state, when, NOW);
    let names: Result<Vec<_>, Refusal> =
        decided.clone().map(|events| events.iter().map(Event::name).collect());
    assert_eq!(names, then.map(<[_]>::to_vec));
    fold(&state, &decided.unwrap_or_default())
}

#[test]
fn the_first_submission_opens_the_session_and_takes_the_lock() {
    let state = check(
        &[],
        &submit(1, OnBusy::Reject, Some(0)),
        Ok(&["opened", "message_queued", "lock_granted"]),
    );
    assert_eq!(Session::wake(&state), Wake::Now);
    let [(fence, drive)] = Session::pending(&state).try_into().unwrap();
    assert_eq!((fence, drive.run), (Fence(1), run(1)));
}

#[test]
fn a_second_run_waits_or_is_told_that_the_session_is_busy() {
    let given = [submit(1, OnBusy::Queue, None)];
    check(&given, &submit(2, OnBusy::Queue, None), Ok(&["message_queued"]));
    check(&given, &submit(2, OnBusy::Reject, None), Err(Refusal::Busy));
    check(&given, &submit(1, OnBusy::Reject, None), Ok(&[]));
}

#[test]
fn the_inbox_is_bounded() {
    let given: Vec<_> = (0..=INBOX_MAX as u128).map(|n| submit(n, OnBusy::Queue, None)).collect();
    check(&given, &submit(99, OnBusy::Queue, None), Err(Refusal::InboxFull));
}

#[test]
fn the_end_of_a_run_commits_its_messages_and_grants_the_next() {
    let given = [submit(1, OnBusy::Queue, None), submit(2, OnBusy::Queue, None)];
    let state =
        check(&given, &end(1, 1), Ok(&["message_committed", "lock_released", "lock_granted"]));
    assert_eq!((state.messages.len(), state.lock.as_ref().unwrap().fence), (2, Fence(2)));
}

#[test]
fn an_end_under_an_old_lock_is_refused_and_a_repeated_one_changes_nothing() {
    let given = [submit(1, OnBusy::Queue, None)];
    check(&given, &end(1, 2), Err(Refusal::NotHolder(run(1))));
    check(&given, &end(7, 1), Err(Refusal::NotHolder(run(7))));
    check(&[given.to_vec(), vec![end(1, 1)]].concat(), &end(1, 1), Ok(&[]));
}

#[test]
fn input_written_against_an_older_conversation_is_refused() {
    let given = [submit(1, OnBusy::Queue, None), end(1, 1)];
    check(
        &given,
        &submit(2, OnBusy::Queue, Some(0)),
        Err(Refusal::HistoryMoved { have: 2, seen: 0 }),
    );
    check(&given, &submit(2, OnBusy::Queue, Some(2)), Ok(&["message_queued", "lock_granted"]));
}

#[test]
fn a_fork_begins_with_its_parents_messages() {
    let state = check(&[], &fork(), Ok(&["opened", "forked"]));
    assert_eq!((state.messages.len(), state.bytes), (1, said("hi").json().as_bytes().len() as u64));
    check(&[fork()], &fork(), Ok(&[]));
    check(&[submit(1, OnBusy::Queue, None)], &fork(), Err(Refusal::Exists));
}

#[test]
fn whatever_decide_says_evolve_accepts() {
    let mut world = vec![fork(), Command::Again];
    for n in 1..4 {
        world.extend([submit(n, OnBusy::Queue, None), submit(n, OnBusy::Reject, Some(0))]);
        world.extend((1..4).map(|fence| end(n, fence)));
    }
    let mut seen = BTreeSet::new();
    let mut layer = vec![State::default()];
    for _ in 0..7 {
        let mut next = vec![];
        for state in &layer {
            assert!(Session::awake(state).is_empty());
            assert_eq!(state.lock.is_some(), Session::pending(state).len() == 1);
            assert_eq!(state.lock.is_some(), Session::wake(state) == Wake::Now);
            assert!(
                state.lock.is_some() || state.inbox.is_empty(),
                "somebody waits for nobody: {state:?}"
            );
            for command in &world {
                let Ok(events) = Session::decide(state, command, NOW) else { continue };
                let after = fold(state, &events);
                if seen.insert(postcard::to_stdvec(&after).unwrap()) {
                    next.push(after);
                }
            }
        }
        layer = next;
    }
    assert!(seen.len() > 50, "a world of {} states is too small to say anything", seen.len());
}

#[test]
fn the_bytes_of_an_event_do_not_change() {
    let all = [
        Session::decide(&State::default(), &submit(1, OnBusy::Queue, None), NOW).unwrap(),
        Session::decide(&State::default(), &fork(), NOW).unwrap(),
        vec![
            Event::Committed(Committed { run: run(1), messages: vec![said("hi")] }),
            Event::Released(Released {
                run: run(1),
                fence: Fence(1),
                outcome: Outcome::Cancelled,
                generated_by: Some("p".into()),
            }),
            Event::Closed(Closed {}),
            Event::ScopeSet(ScopeSet { project: "lab".into(), by: Actor::Node }),
        ],
    ]
    .concat();
    let samples: Vec<_> =
        all.iter().map(|event| (event.name(), Session::encode(event).unwrap())).collect();
    golden::check(
        "session.txt",
        include_str!("../golden/session.txt"),
        Event::TABLE,
        &samples,
        |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
    );
}

#[test]
fn who_served_the_generator_last_is_known_to_the_next_run() {
    let mut state = State::default();
    for (n, by, then) in [(1, Some("a"), None), (2, None, Some("a")), (3, Some("b"), Some("a"))] {
        let events = Session::decide(&state, &submit(n.into(), OnBusy::Reject, None), NOW).unwrap();
        state = events.iter().try_fold(state, Session::evolve).unwrap();
        let drives = Session::pending(&state);
        assert_eq!(drives[0].1.generated_by.as_deref(), then, "{n}");
        let (run, fence, outcome) = (run(n.into()), Fence(n), Outcome::Completed);
        let (messages, generated_by) = (vec![], by.map(str::to_owned));
        let end = Command::RunEnded { run, fence, outcome, messages, generated_by };
        let events = Session::decide(&state, &end, NOW).unwrap();
        state = events.iter().try_fold(state, Session::evolve).unwrap();
    }
    assert_eq!(state.generated_by.as_deref(), Some("b"));
}
