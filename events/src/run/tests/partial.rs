//! What was seen of a call that did not come to its end.

use super::*;

/// 7 tokens in and 1 out at the prices of [`candidate`].
fn priced() -> Usage {
    let price = candidate("m").price;
    seen().priced(price.as_ref())
}

fn is_a_lower_bound(state: &State, reserved: MicroUsd) {
    let (total, cost) = (state.total, priced().cost.unwrap());
    assert!(cost > MicroUsd(0) && cost < reserved);
    assert_eq!((total.prompt, total.completion), (Tokens(7), Tokens(1)));
    assert_eq!(total.cost, Some(cost));
    // Together they are what was reserved: a budget takes no less than before.
    assert_eq!(total.cost_upper.unwrap().plus(cost), reserved);
    assert!(total.is_lower_bound());
    assert_eq!((total.calls, total.calls_unknown), (1, 1));
}

fn reserved(given: &[Command]) -> MicroUsd {
    after(given).model.unwrap().asked.reserved.unwrap()
}

#[test]
fn a_call_that_was_cut_keeps_what_was_seen_as_a_lower_bound() {
    let given = [open(Plane::Model)];
    let state = after(&given);
    let events = Run::decide(&state, &failed(0, Class::StreamTruncated, 5), NOW).unwrap();
    let Event::ModelFailed(told) = &events[0] else { panic!("{events:?}") };
    assert_eq!(told.partial, priced());
    let then = after(&[open(Plane::Model), failed(0, Class::StreamTruncated, 5)]);
    is_a_lower_bound(&then, reserved(&given));
}

#[test]
fn a_run_that_is_stopped_keeps_what_was_seen_as_a_lower_bound() {
    let given = [open(Plane::Run)];
    let stop = Command::Stop { seen: Flight::Left(seen()) };
    let events = Run::decide(&after(&given), &stop, NOW).unwrap();
    let Event::ModelUnknown(told) = &events[0] else { panic!("{events:?}") };
    assert_eq!(told.partial, priced());
    is_a_lower_bound(&after(&[open(Plane::Run), stop]), reserved(&given));
    // Of a call that a dead node made nobody has seen anything.
    let lost = Command::Model { call: CallNo(0), outcome: Settled::Lost };
    let state = after(&[open(Plane::Run), lost]);
    assert_eq!((state.total.prompt, state.total.cost), (Tokens(0), None));
}

/// A call that waits for its time has cost nothing, and its run ends without a reservation that nobody used.
#[test]
fn a_run_that_is_stopped_while_its_call_waits_pays_nothing_for_it() {
    let given = [open(Plane::Run)];
    let stop = |call| Command::Stop { seen: Flight::Stayed(CallNo(call)) };
    let state = check(&given, &stop(0), Ok(&["model_not_sent", "finished"]));
    assert_eq!(state.ended().unwrap().outcome, Outcome::Cancelled);
    assert_eq!((state.total, state.model_calls()), (Total::default(), 0));
    let withheld = Command::Withhold { seen: Flight::Stayed(CallNo(0)) };
    check(&given, &withheld, Ok(&["model_not_sent", "finished", "withheld"]));
    // What is known of another call says nothing of this one.
    let state = check(&given, &stop(1), Ok(&["model_unknown", "finished"]));
    assert_eq!(state.total.cost_upper, Some(reserved(&given)));
}

#[test]
fn an_answer_that_is_taken_back_while_it_comes_keeps_what_was_seen() {
    let given = [open(Plane::Run)];
    let withhold = Command::Withhold { seen: Flight::Left(seen()) };
    let names = ["model_unknown", "finished", "withheld"];
    is_a_lower_bound(&check(&given, &withhold, Ok(&names)), reserved(&given));
}

/// The mark is a micro-dollar below what the cut call is known to have cost.
#[test]
fn a_cost_beyond_its_mark_is_said_after_whatever_brought_it() {
    let mut marked = Spec::clone(&spec(Plane::Model));
    let mark = MicroUsd(priced().cost.unwrap().0 - 1);
    marked.limits.spend_alert = Some(mark);
    let given = [Command::Open { spec: Arc::new(marked), session: None, grant: None }];
    let cut = failed(0, Class::StreamTruncated, 5);
    let stop = Command::Stop { seen: Flight::Left(seen()) };
    let withhold = Command::Withhold { seen: Flight::Left(seen()) };
    for (when, names) in [
        (cut, &["model_failed", "spend_crossed", "finished"][..]),
        (stop, &["model_unknown", "spend_crossed", "finished"]),
        (withhold, &["model_unknown", "spend_crossed", "finished", "withheld"]),
    ] {
        assert!(check(&given, &when, Ok(names)).spend_crossed);
    }
    // One that is tried again says it too, before the next intent.
    let again = ["model_failed", "spend_crossed", "model_asked"];
    check(&given, &failed(0, Class::ServerError, 0), Ok(&again));
}

#[test]
fn a_refusal_that_cost_nothing_counts_nothing_of_what_it_says() {
    let Command::Model { call, outcome: Settled::Failed(failure) } =
        failed(0, Class::RateLimited, 0)
    else {
        panic!()
    };
    let free = Settled::Failed(Failure { charge: Charge::Nothing, ..failure });
    let state = after(&[open(Plane::Model), Command::Model { call, outcome: free }]);
    assert_eq!((state.total.prompt, state.total.cost), (Tokens(0), None));
}
