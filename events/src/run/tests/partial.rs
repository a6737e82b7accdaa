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
    let stop = Command::Stop { seen: seen() };
    let events = Run::decide(&after(&given), &stop, NOW).unwrap();
    let Event::ModelUnknown(told) = &events[0] else { panic!("{events:?}") };
    assert_eq!(told.partial, priced());
    is_a_lower_bound(&after(&[open(Plane::Run), stop]), reserved(&given));
    // Of a call that a dead node made nobody has seen anything.
    let lost = Command::Model { call: CallNo(0), outcome: Settled::Lost };
    let state = after(&[open(Plane::Run), lost]);
    assert_eq!((state.total.prompt, state.total.cost), (Tokens(0), None));
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
