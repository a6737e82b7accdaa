//! The rules of a budget, by example and exhaustively over a small world.

use super::*;
use crate::codec::golden;
use crate::id::Place;
use crate::quantity::Millis;
use std::collections::BTreeSet;

const NOW: Instant = Instant(1_700_000_000_000_000);
/// The end of the day that holds it.
const MIDNIGHT: Instant = Instant(1_700_006_400_000_000);

fn run(nth: u128) -> RunId {
    RunId::new(Place::default(), nth)
}

fn terms(usd: u64) -> Terms {
    Terms {
        usd: Some(MicroUsd(usd)),
        calls: None,
        renews: Renewal::Day,
        warn_at: vec![50, 100],
        unpriced: Unpriced::Refuse,
    }
}

fn wanted(nth: u128, ask: u32, usd: u64) -> Command {
    let scope = Scope::ALL;
    Command::Grant(Wanted { scope, run: run(nth), ask, usd: Some(MicroUsd(usd)), calls: 1 })
}

fn returned(nth: u128, usd: u64) -> Command {
    let used = Amount { usd: MicroUsd(usd), calls: 1 };
    Command::Return(Returned { run: run(nth), used })
}

#[track_caller]
fn after(commands: &[Command]) -> State {
    commands.iter().fold(State::default(), |state, command| {
        let events = Budget::decide(&state, command, NOW).unwrap();
        events.iter().try_fold(state, Budget::evolve).unwrap()
    })
}

#[track_caller]
fn check(given: &[Command], (when, at): (&Command, Instant), then: &[&str]) -> State {
    let state = after(given);
    let events = Budget::decide(&state, when, at).unwrap();
    assert_eq!(events.iter().map(Event::name).collect::<Vec<_>>(), then);
    events.iter().try_fold(state, Budget::evolve).unwrap()
}

#[test]
fn of_fifty_calls_against_a_budget_for_two_two_get_a_slice() {
    let mut state = after(&[Command::Set(terms(20))]);
    let (mut admitted, mut refused) = (0, 0);
    for nth in 0..50 {
        match Budget::decide(&state, &wanted(nth, 1, 10), NOW) {
            Ok(events) => {
                admitted += 1;
                state = events.iter().try_fold(state, Budget::evolve).unwrap();
            }
            Err(Refusal::Short(short)) => {
                refused += 1;
                let spent = Amount::default();
                let reserved = Amount { usd: MicroUsd(20), calls: 2 };
                assert_eq!((short.spent, short.reserved), (spent, reserved));
                assert_eq!(short.renews_at, Some(MIDNIGHT));
                let said = short.to_string();
                for word in
                    ["budget all", "0.000020 USD", "spent 0.0", "each day", "piton budget set all"]
                {
                    assert!(said.contains(word), "{word} in {said}");
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((admitted, refused), (2, 48));
}

#[test]
fn a_question_is_answered_once_and_what_comes_after_the_end_gets_nothing() {
    let given = [Command::Set(terms(20)), wanted(1, 1, 8)];
    check(&given, (&wanted(1, 1, 8), NOW), &[]);
    let state = check(&given, (&wanted(1, 2, 2), NOW), &["slice_granted", "threshold_crossed"]);
    assert_eq!(state.slices[&run(1)].held, Amount { usd: MicroUsd(10), calls: 2 });
    let given = [given.to_vec(), vec![returned(1, 3)]].concat();
    check(&given, (&returned(1, 3), NOW), &[]);
    let state = after(&given);
    assert_eq!((state.spent.usd, state.held), (MicroUsd(3), Amount::default()));
    assert_eq!(Budget::decide(&state, &wanted(1, 9, 1), NOW), Err(Refusal::RunEnded));
}

#[test]
fn a_run_that_ended_before_its_question_came_gets_nothing_and_owes_nothing() {
    let state = after(&[Command::Set(terms(20)), returned(1, 0)]);
    assert_eq!(state.taken(), Amount::default());
    assert_eq!(Budget::decide(&state, &wanted(1, 1, 1), NOW), Err(Refusal::RunEnded));
}

#[test]
fn each_mark_is_crossed_once_in_a_window() {
    let given = [Command::Set(terms(20)), wanted(1, 1, 10)];
    assert_eq!(after(&given).warned, 50);
    let given = [given.to_vec(), vec![returned(1, 10)]].concat();
    check(&given, (&wanted(2, 1, 5), NOW), &["slice_granted"]);
    check(&given, (&wanted(2, 1, 10), NOW), &["slice_granted", "threshold_crossed"]);
    // In the next window again.
    check(
        &given,
        (&wanted(2, 1, 10), MIDNIGHT),
        &["renewed", "slice_granted", "threshold_crossed"],
    );
}

#[test]
fn a_window_ends_by_a_wake_and_what_runs_hold_they_hold() {
    let given = [Command::Set(terms(20)), wanted(1, 1, 10), wanted(2, 1, 10), returned(1, 10)];
    let state = after(&given);
    assert_eq!(Budget::wake(&state), Wake::At(MIDNIGHT));
    check(&given, (&Command::Due, NOW), &[]);
    let state = check(&given, (&Command::Due, MIDNIGHT), &["renewed", "threshold_crossed"]);
    let held = Amount { usd: MicroUsd(10), calls: 1 };
    assert_eq!((state.spent, state.held), (Amount::default(), held));
    assert_eq!(state.until, Some(MIDNIGHT.after(Millis(86_400_000))));
}

#[test]
fn raising_keeps_what_was_spent_and_removing_forgets_it() {
    let given = [Command::Set(terms(20)), wanted(1, 1, 20), returned(1, 20)];
    assert!(Budget::decide(&after(&given), &wanted(2, 1, 1), NOW).is_err());
    let state = check(&given, (&Command::Set(terms(30)), NOW), &["set", "threshold_crossed"]);
    assert_eq!((state.spent.usd, state.warned), (MicroUsd(20), 50));
    let given = [given.to_vec(), vec![Command::Remove]].concat();
    let state = check(&given, (&wanted(2, 1, 1_000), NOW), &["slice_granted"]);
    // Counted all the same, so that it comes back in order.
    assert_eq!(state.taken().usd, MicroUsd(1_000));
}

#[test]
fn a_model_without_a_price_is_refused_or_counted_by_its_calls() {
    let unpriced =
        Command::Grant(Wanted { scope: Scope::ALL, run: run(1), ask: 1, usd: None, calls: 1 });
    let refused = Budget::decide(&after(&[Command::Set(terms(20))]), &unpriced, NOW).unwrap_err();
    assert!(refused.to_string().contains("a model without a price"), "{refused}");
    let allows = Terms { unpriced: Unpriced::Allow, ..terms(20) };
    check(&[Command::Set(allows)], (&unpriced, NOW), &["slice_granted"]);
    let calls = Terms { usd: None, calls: Some(1), ..terms(0) };
    let given = [Command::Set(calls), unpriced];
    assert!(matches!(
        Budget::decide(&after(&given), &wanted(2, 1, 0), NOW),
        Err(Refusal::Short(_))
    ));
}

#[test]
fn terms_that_make_no_sense_are_refused() {
    let base = terms(20);
    for bad in [
        Terms { usd: None, ..base.clone() },
        Terms { warn_at: vec![80, 50], ..base.clone() },
        Terms { warn_at: vec![50, 50], ..base.clone() },
        Terms { warn_at: vec![0], ..base.clone() },
        Terms { warn_at: vec![101], ..base.clone() },
        Terms { warn_at: (1..=9).collect(), ..base },
    ] {
        let refused = Budget::decide(&State::default(), &Command::Set(bad.clone()), NOW);
        assert_eq!(refused, Err(Refusal::BadTerms), "{bad:?}");
    }
}

fn world() -> Vec<Command> {
    let other: Scope = "project~lab".parse().unwrap();
    let mut all = vec![
        Command::Set(terms(20)),
        Command::Set(terms(12)),
        Command::Remove,
        Command::Due,
        Command::List(other),
        Command::Unlist(other),
    ];
    for nth in 1..=2 {
        all.extend([wanted(nth, 1, 10), wanted(nth, 2, 5), returned(nth, 6), returned(nth, 0)]);
    }
    all
}

/// The laws of an aggregate and those of the sums, over every history of a small world.
#[test]
fn whatever_decide_says_evolve_accepts_and_no_grant_goes_beyond_the_limit() {
    let mut seen = BTreeSet::new();
    let mut layer = vec![State::default()];
    for _ in 0..6 {
        let mut next = vec![];
        for state in &layer {
            assert!(Budget::awake(state).is_empty() && Budget::pending(state).is_empty());
            for command in world() {
                for at in [NOW, MIDNIGHT] {
                    let Ok(events) = Budget::decide(state, &command, at) else { continue };
                    let after = events.iter().try_fold(state.clone(), Budget::evolve);
                    let after = after.unwrap_or_else(|illegal| panic!("{illegal} in {state:#?}"));
                    sums(state, &events, &after);
                    assert_eq!(
                        Budget::decide(&after, &command, at),
                        Ok(vec![]),
                        "{command:?} twice"
                    );
                    if seen.insert(crate::journal::hash(&postcard::to_stdvec(&after).unwrap())) {
                        next.push(after);
                    }
                }
            }
        }
        layer = next;
    }
    assert!(seen.len() > 500, "a world of {} states is too small to say anything", seen.len());
}

fn sums(before: &State, events: &[Event], after: &State) {
    let held = after.slices.values().fold(Amount::default(), |sum, slice| sum.plus(slice.held));
    assert_eq!(after.held, held, "the sum of the slices is not what is held");
    let granted = events.iter().any(|event| matches!(event, Event::Granted(_)));
    if let Some(max) = after.terms.as_ref().and_then(|terms| terms.usd).filter(|_| granted) {
        assert!(after.taken().usd <= max, "granted beyond the limit: {before:?} {events:?}");
    }
    let overlap = after.closed.iter().any(|run| after.slices.contains_key(run));
    assert!(!overlap, "a run holds a slice after it gave it back");
}

fn samples() -> Vec<Event> {
    let given = [Command::Set(terms(20)), wanted(1, 300, 10), returned(1, 6)];
    let mut all = vec![];
    for count in 0..given.len() {
        all.extend(Budget::decide(&after(&given[..count]), &given[count], NOW).unwrap());
    }
    all.extend(Budget::decide(&after(&given), &Command::Due, MIDNIGHT).unwrap());
    all.extend(Budget::decide(&after(&given), &Command::Remove, NOW).unwrap());
    let scope = "project~lab".parse().unwrap();
    all.extend([Event::Listed(Listed { scope }), Event::Unlisted(Listed { scope })]);
    all
}

#[test]
fn the_bytes_of_an_event_do_not_change() {
    let samples: Vec<_> =
        samples().iter().map(|event| (event.name(), Budget::encode(event).unwrap())).collect();
    golden::check(
        "budget.txt",
        include_str!("../golden/budget.txt"),
        Event::TABLE,
        &samples,
        |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
    );
}
