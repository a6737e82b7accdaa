//! Who may pass: gates that are open, shut, unknown and out of reach, and the grants that cover a call.

use super::*;
use crate::clock::Hand;
use events::gate::{self, Declaration, Evaluator, Hardness};
use events::grant::{self, Pattern, Wanted};
use events::id::Place;
use events::quantity::Instant;
use events::record::{Actor, Position, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const NOW: Instant = Instant(1_000);

fn run() -> RunId {
    RunId::new(Place::default(), 7)
}

fn observed<A: Aggregate>(state: A::State) -> Observed<A> {
    Observed { version: Version(1), position: Position::default(), state: Arc::new(state) }
}

fn way<A: Aggregate>(state: A::State) -> Way<A> {
    let seen = observed::<A>(state);
    Way::new(move |_project| {
        let seen = seen.clone();
        Box::pin(async move { Ok(seen) })
    })
}

fn preconditions(clock: &Hand, surfaces: Surfaces, grants: grant::State) -> Preconditions {
    let state = gate::State::default();
    let (gates, grants) = (way(state), way(grants));
    Preconditions { hooks: Hooks::none(), surfaces, gates, grants, clock: clock.clock() }
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn every_gate_must_stand_open_and_the_first_that_does_not_is_named() {
    let clock = Hand::at(NOW);
    let shut = Declaration { evaluator: Evaluator::Closed, hardness: Hardness::Soft };
    let surfaces = Surfaces {
        read_only: ["twin_write".to_owned()].into(),
        declared: BTreeMap::from([("frozen".to_owned(), shut)]),
    };
    let all = preconditions(&clock, surfaces, grant::State::default());
    let whose = (run(), "default");
    assert_eq!(all.passed(whose, &[]).await, Ok(vec![]));
    let open = Passed { name: "artifact_write".into(), version: 0 };
    assert_eq!(all.passed(whose, &names(&["artifact_write"])).await, Ok(vec![open]));
    for (shut, says) in [
        ("twin_write", "PITON_CHAT_TWIN_WRITES=0"),
        ("frozen", "declares it closed"),
        ("deploy_ok", "nobody says whether"),
    ] {
        let refused = all.passed(whose, &names(&["artifact_write", shut])).await.unwrap_err();
        assert_eq!(refused.name(), shut);
        assert!(refused.to_string().contains(says), "{refused}");
    }
}

#[tokio::test]
async fn a_grant_counts_by_the_clock_of_the_node_that_asks() {
    let clock = Hand::at(NOW);
    let arguments = Json::from_bytes(br#"{"a":1}"#);
    let wanted = Wanted {
        id: GrantId(3),
        tool: "note_append".into(),
        pattern: Pattern::exact(&arguments),
        by: Actor::Admin,
        until: Some(Instant(2_000)),
    };
    let events = Grant::decide(&grant::State::default(), &grant::Command::Grant(wanted), NOW);
    let state = events.unwrap().iter().try_fold(grant::State::default(), Grant::evolve).unwrap();
    let all = preconditions(&clock, Surfaces::default(), state);
    assert_eq!(all.granted("p", "note_append", &arguments).await, Some(GrantId(3)));
    assert_eq!(all.granted("p", "other", &arguments).await, None);
    clock.set(Instant(2_000));
    assert_eq!(all.granted("p", "note_append", &arguments).await, None);
}

#[tokio::test]
async fn an_owner_that_does_not_answer_is_asked_again_and_in_the_end_says_no() {
    let asks = AtomicUsize::new(0);
    let (hand, asks) = (Hand::at(NOW), Arc::new(asks));
    let (moved, counted) = (hand.clone(), Arc::clone(&asks));
    let gates = Way::<Gates>::new(move |_project| {
        // The second time takes longer than anybody waits.
        if counted.fetch_add(1, Ordering::SeqCst) == 1 {
            moved.advance(ASK_MAX);
        }
        Box::pin(async { Err(NoDecision::NobodyThere) })
    });
    let grants = Way::new(|_project| Box::pin(async { Err(NoDecision::Lost) }));
    let (hooks, surfaces) = (Hooks::none(), Surfaces::default());
    let all = Preconditions { hooks, surfaces, gates, grants, clock: hand.clock() };
    let name = names(&["artifact_write"]);
    let (refused, ()) =
        tokio::join!(all.passed((run(), "p"), &name), async { hand.advance(PAUSE) });
    let why = NoDecision::NobodyThere;
    assert_eq!(refused, Err(Shut::Unreached { name: "artifact_write".into(), why }));
    assert_eq!(asks.load(Ordering::SeqCst), 2);
}
