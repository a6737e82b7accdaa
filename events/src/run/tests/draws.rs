//! What runs that budgets count draw on: by example, and the sums over every history.

use super::*;
use crate::budget::{Amount, Renewal, Scope, Short};
use draw::{SliceNo, SliceRefused, SliceReturned};

fn lab() -> Scope {
    "project~lab".parse().unwrap()
}

fn counted(plane: Plane, budgets: &[Scope]) -> Command {
    let mut counted = Spec::clone(&spec(plane));
    counted.budgets = budgets.to_vec();
    Command::Open { spec: Arc::new(counted), session: None, grant: None }
}

fn slice(ask: u32, outcome: draw::Settled) -> Command {
    Command::Slice { ask: SliceNo(ask), outcome }
}

fn granted(ask: u32) -> Command {
    slice(ask, draw::Settled::Granted)
}

fn short() -> Box<Short> {
    Box::new(Short {
        scope: lab(),
        usd: Some(MicroUsd(300)),
        calls: None,
        spent: Amount { usd: MicroUsd(100), calls: 1 },
        reserved: Amount::default(),
        wanted: Some(MicroUsd(258)),
        renews: Renewal::Day,
        renews_at: Some(NOW),
    })
}

#[test]
fn slices_are_asked_for_narrow_to_wide_and_the_intent_draws_on_them_in_its_own_commit() {
    let given = [counted(Plane::Model, &[lab(), Scope::ALL])];
    let state = check(&[], &given[0], Ok(&["queued", "started", "slice_asked"]));
    assert_eq!(state.asking.as_ref().unwrap().scope, lab());
    let state = check(&given, &granted(1), Ok(&["slice_granted", "slice_asked"]));
    assert_eq!(state.asking.as_ref().unwrap().scope, Scope::ALL);
    let given = [given.to_vec(), vec![granted(1)]].concat();
    let state = check(&given, &granted(2), Ok(&["slice_granted", "model_asked"]));
    let reserved = state.model.as_ref().unwrap().asked.reserved.unwrap();
    for scope in [lab(), Scope::ALL] {
        assert_eq!(state.slices[&scope].drawn, Amount { usd: reserved, calls: 1 });
        assert_eq!(state.slices[&scope].room(), Amount::default());
    }
    // A repeat changes nothing, and a question that was never asked is none.
    let given = [given, vec![granted(2)]].concat();
    check(&given, &granted(2), Ok(&[]));
    check(&given, &granted(3), Err(Refusal::NoSuchSlice(SliceNo(3))));
}

/// What nobody knows the end of takes what was reserved, or what was reported so far where that is more.
#[test]
fn a_call_that_broke_off_takes_what_it_reported_beyond_its_reservation() {
    let given = [counted(Plane::Model, &[lab()]), granted(1)];
    let reserved = after(&given).model.unwrap().asked.reserved.unwrap();
    let beyond = MicroUsd(reserved.0 + 7);
    let used = |cost, when: &dyn Fn(Usage) -> Command| {
        let when = when(Usage { cost: Some(cost), ..seen() });
        after(&[given.to_vec(), vec![when]].concat()).slices[&lab()].used
    };
    let cut = |partial| {
        let Command::Model { call, outcome: Settled::Failed(failure) } =
            failed(0, Class::StreamTruncated, 5)
        else {
            panic!()
        };
        Command::Model { call, outcome: Settled::Failed(Failure { partial, ..failure }) }
    };
    let stop = |seen| Command::Stop { seen: Flight::Left(seen) };
    for when in [&cut as &dyn Fn(Usage) -> Command, &stop] {
        assert_eq!(used(beyond, when), Amount { usd: beyond, calls: 1 });
        assert_eq!(used(MicroUsd(1), when), Amount { usd: reserved, calls: 1 });
    }
    let stayed = Command::Stop { seen: Flight::Stayed(CallNo(0)) };
    let slice = after(&[given.to_vec(), vec![stayed]].concat()).slices[&lab()];
    assert_eq!((slice.used, slice.drawn), (Amount::default(), Amount::default()));
}

#[test]
fn what_a_call_did_not_use_serves_the_next_one_and_only_the_rest_is_asked_for() {
    let tool = || vec![ask("a", server(ReplayClass::ReadOnly))];
    let given = [counted(Plane::Run, &[lab()]), granted(1), answered(0, tool())];
    let state = after(&given);
    let first = state.slices[&lab()];
    assert_eq!(first.used, Amount { usd: MicroUsd(20), calls: 1 });
    let state = check(&given, &receipt(0, 0), Ok(&["tool_receipt", "slice_asked"]));
    let asked = state.asking.as_ref().unwrap();
    let needed = asked.usd.unwrap().plus(first.room().usd);
    let given = [given.to_vec(), vec![receipt(0, 0)]].concat();
    let state = check(&given, &granted(2), Ok(&["slice_granted", "model_asked"]));
    assert_eq!(state.model.unwrap().asked.reserved, Some(needed));
}

/// A provider may report more than was reserved. What was spent beyond the slice is asked for with the next call, at once,
/// so that the budget does not grant it to others.
#[test]
fn what_was_used_beyond_a_slice_is_asked_for_in_one_question() {
    let tool = || vec![ask("a", server(ReplayClass::ReadOnly))];
    let Command::Model { call, outcome: Settled::Answered(mut answer) } = answered(0, tool())
    else {
        panic!()
    };
    answer.usage.cost = Some(MicroUsd(1_000_000));
    let over = Command::Model { call, outcome: Settled::Answered(answer) };
    let given = [counted(Plane::Run, &[lab()]), granted(1), over];
    let slice = after(&given).slices[&lab()];
    assert!(slice.used.usd > slice.granted.usd);
    let state = check(&given, &receipt(0, 0), Ok(&["tool_receipt", "slice_asked"]));
    let asked = state.asking.as_ref().unwrap().usd.unwrap();
    let given = [given.to_vec(), vec![receipt(0, 0)]].concat();
    let state = check(&given, &granted(2), Ok(&["slice_granted", "model_asked"]));
    let reserved = state.model.unwrap().asked.reserved.unwrap();
    assert_eq!(asked, MicroUsd(slice.used.usd.0 - slice.granted.usd.0 + reserved.0));
}

#[test]
fn a_call_that_does_not_fit_ends_the_run_and_says_why() {
    let given = [counted(Plane::Model, &[lab()])];
    let refused = slice(1, draw::Settled::Refused(short()));
    let state = check(&given, &refused, Ok(&["slice_refused", "finished"]));
    let end = state.ended().unwrap();
    assert_eq!((end.outcome, &end.reason), (Outcome::Exhausted, &Reason::Budget));
    assert_eq!(end.detail, short().to_string());
    assert_eq!((state.short, Run::pending(&after(&given)).len()), (Some(short()), 1));
    // Nothing was granted, so nothing is owed.
    let ended = after(&[given.to_vec(), vec![refused]].concat());
    assert!(Run::pending(&ended).is_empty());
}

#[test]
fn a_run_that_ended_gives_its_slices_back_with_what_was_used() {
    let given = [counted(Plane::Model, &[lab()]), granted(1), answered(0, vec![])];
    let state = after(&given);
    let owed = Run::pending(&state);
    let (id, effect) = owed.first().unwrap();
    assert_eq!(id, &EffectId::Return(lab()));
    let used = Amount { usd: MicroUsd(20), calls: 1 };
    assert!(matches!(effect, Effect::ReturnSlice(_, back) if *back == used), "{effect:?}");
    let back = Command::Returned { scope: lab() };
    let state = check(&given, &back, Ok(&["slice_returned"]));
    assert_eq!((Run::pending(&state).len(), Run::wake(&state)), (0, Wake::OnCommand));
    check(&[given.to_vec(), vec![back.clone()]].concat(), &back, Ok(&[]));
    check(&given[..2], &back, Ok(&[]));
}

#[test]
fn a_question_that_was_open_when_the_run_ended_is_given_back_too() {
    let given = [counted(Plane::Model, &[lab()])];
    let state = check(&given, &Command::stop(), Ok(&["finished"]));
    let owed: Vec<_> = Run::pending(&state).into_iter().map(|(id, _)| id).collect();
    assert_eq!(owed, [EffectId::Return(lab())]);
    let given = [given.to_vec(), vec![]].concat();
    let unreached = slice(1, draw::Settled::Unreached);
    let state = check(&given, &unreached, Ok(&["slice_refused", "finished"]));
    assert_eq!(state.ended().unwrap().outcome, Outcome::Errored);
    assert_eq!(Run::pending(&state).len(), 1);
}

#[test]
fn unknown_stays_spent_and_what_was_refused_before_work_is_released() {
    let given = [counted(Plane::Model, &[lab()]), granted(1)];
    let drawn = after(&given).slices[&lab()].drawn;
    let lost = Command::Model { call: CallNo(0), outcome: Settled::Lost };
    let state = check(&given, &lost, Ok(&["model_unknown", "slice_asked"]));
    assert_eq!(
        (state.slices[&lab()].used, state.slices[&lab()].room()),
        (drawn, Amount::default())
    );
    let state = check(&given, &model_not_sent(0), Ok(&["model_not_sent", "model_asked"]));
    assert_eq!((state.slices[&lab()].used, state.slices[&lab()].drawn), (Amount::default(), drawn));
    let mut free = failed(0, Class::ServerError, 0);
    if let Command::Model { outcome: Settled::Failed(failure), .. } = &mut free {
        failure.charge = Charge::Nothing;
    }
    let state = check(&given, &free, Ok(&["model_failed", "model_asked"]));
    assert_eq!((state.slices[&lab()].used, state.slices[&lab()].drawn), (Amount::default(), drawn));
}

#[test]
fn a_model_without_a_price_asks_even_where_there_is_room() {
    let mut mixed = Spec::clone(&spec(Plane::Model));
    mixed.budgets = vec![lab()];
    mixed.route[1].price = None;
    let mut free = failed(0, Class::ModelNotFound, 0);
    if let Command::Model { outcome: Settled::Failed(failure), .. } = &mut free {
        failure.charge = Charge::Nothing;
    }
    let open = Command::Open { spec: Arc::new(mixed), session: None, grant: None };
    let given = [open, granted(1), free];
    let state = after(&given);
    let asked = state.asking.as_ref().unwrap();
    assert_eq!((asked.candidate, asked.usd), (1, None), "{state:?}");
    check(&given, &granted(2), Ok(&["slice_granted", "model_asked"]));
}

pub(super) fn world() -> Vec<Command> {
    let mut all = vec![
        counted(Plane::Run, &[lab(), Scope::ALL]),
        counted(Plane::Model, &[Scope::ALL]),
        Command::stop(),
        Command::Due,
        Command::Returned { scope: lab() },
        Command::Returned { scope: Scope::ALL },
    ];
    for ask in 1..5 {
        all.push(granted(ask));
        all.push(slice(ask, draw::Settled::Refused(short())));
        all.push(slice(ask, draw::Settled::Unreached));
        all.push(slice(ask, draw::Settled::Lost));
    }
    for call in 0..3 {
        all.push(answered(call, vec![]));
        let tool = ask("a", server(ReplayClass::Effectful));
        all.push(answered(call, vec![tool]));
        all.push(failed(call, Class::ServerError, 0));
        all.push(failed(call, Class::RateLimited, 0));
        all.push(Command::Model { call: CallNo(call), outcome: Settled::Lost });
        all.push(model_not_sent(call));
    }
    all.push(receipt(0, 0));
    all
}

/// What is drawn is what the unsettled intent reserved; what was used is what the run's sums say, unknown in full.
pub(super) fn sums(state: &State) {
    let reserved = state.model.as_ref().map(|open| open.asked.reserved.unwrap());
    let drawn = reserved.map_or(Amount::default(), |usd| Amount { usd, calls: 1 });
    let spent =
        state.total.cost.unwrap_or_default().plus(state.total.cost_upper.unwrap_or_default());
    let budgets = state.spec.as_ref().map_or(&[][..], |spec| &spec.budgets);
    for (scope, slice) in &state.slices {
        assert!(budgets.contains(scope), "{scope} does not count it: {state:?}");
        assert_eq!(slice.drawn, drawn, "drawn and not settled: {state:?}");
        assert_eq!(slice.used.usd, spent, "used: {state:?}");
        assert!(slice.used.plus(slice.drawn).fits(slice.granted), "more than granted: {state:?}");
    }
    let bare = state.model.is_some() && budgets.iter().any(|b| !state.slices.contains_key(b));
    assert!(!bare, "an intent that drew on nothing: {state:?}");
}

pub(super) fn samples() -> Vec<Event> {
    let given = [counted(Plane::Run, &[lab()]), granted(1)];
    let mut all = Run::decide(&after(&given[..1]), &given[1], NOW).unwrap();
    all.extend(after(&given[..1]).asking.map(Event::SliceAsked));
    for short in [None, Some(short())] {
        all.push(Event::SliceRefused(SliceRefused { ask: SliceNo(300), short }));
    }
    all.push(Event::SliceReturned(SliceReturned { scope: lab() }));
    all
}
