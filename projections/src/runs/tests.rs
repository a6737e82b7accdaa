//! What each fact makes of a run's row.

use super::*;
use crate::tests::facts::{
    NOW, answered, asked, client_answered, client_asked, client_gone, delayed, failed, finished,
    here, not_sent, other_tools, queued, run, started, tool_asked, tool_unknown, unknown, used,
};
use events::model_call::Class;
use events::quantity::{MicroUsd, Millis, Tokens};
use events::run::step::Charge;

/// The n-th fact is recorded n milliseconds after the first, in the n-th commit.
fn folded(given: &[Event]) -> Result<Row, IllegalEvent> {
    let mut kept = None;
    for (n, event) in (0..).zip(given) {
        let when = When { at: NOW.after(Millis(n)), position: here(n + 1) };
        kept = Some(evolve(kept, run(1), event, when)?);
    }
    Ok(kept.unwrap().row)
}

/// The row of a run that was only queued.
fn fresh() -> Row {
    folded(&[queued()]).unwrap()
}

fn begun(more: &[Event]) -> Vec<Event> {
    [&[queued(), started(), asked(0, 1, 0, Some(90))], more].concat()
}

/// The row after a run was begun and asked, and then this happened.
#[track_caller]
fn check(then: &[Event], change: impl FnOnce(&mut Row)) {
    let given = begun(then);
    let last = here(given.len() as u64);
    let (phase, started) = (Phase::Running, Some(NOW.after(Millis(1))));
    let mut row = Row { phase, started, steps: 1, model_calls: 1, last, ..fresh() };
    change(&mut row);
    assert_eq!(folded(&given), Ok(row));
}

#[track_caller]
fn check_illegal(given: &[Event]) {
    assert!(folded(given).is_err(), "{given:?}");
}

fn served(provider: &str, model: &str) -> Option<Served> {
    Some(Served { provider: provider.into(), model: model.into() })
}

#[test]
fn a_queued_run_shows_what_it_was_asked() {
    let row = fresh();
    assert_eq!((row.phase, row.started), (Phase::Queued, None));
    assert_eq!((row.primary, row.served), (served("openai", "one"), None));
    assert_eq!((row.project.as_str(), row.plane), ("default", Plane::Run));
    assert_eq!((row.created, row.opened, row.last), (NOW, here(1), here(1)));
}

#[test]
fn a_call_that_was_asked_is_counted_before_it_is_settled() {
    check(&[], |row| assert_eq!(row.total, Total::default()));
}

#[test]
fn a_call_that_was_not_sent_was_not_asked() {
    check(&[not_sent(0)], |row| row.model_calls = 0);
    check_illegal(&begun(&[not_sent(1)]));
}

#[test]
fn an_answer_is_counted_and_names_who_gave_it() {
    check(&[answered(0, used(10, 5, Some(7)))], |row| {
        row.served = served("openai", "one");
        row.total = Total {
            calls: 1,
            prompt: Tokens(10),
            completion: Tokens(5),
            cost: Some(MicroUsd(7)),
            ..Total::default()
        };
    });
}

#[test]
fn a_refused_call_is_free_and_any_other_failure_counts_its_reservation() {
    check(&[failed(0, Charge::Nothing)], |row| row.total.calls = 1);
    let lost = Total {
        calls: 1,
        calls_without_usage: 1,
        calls_unknown: 1,
        cost_upper: Some(MicroUsd(90)),
        ..Total::default()
    };
    check(&[failed(0, Charge::Reserved)], |row| row.total = lost);
    check(&[unknown(0, Some(90))], |row| row.total = lost);
    let unpriced = Total { calls_unpriced: 1, cost_upper: None, ..lost };
    check(&[unknown(0, None)], |row| row.total = unpriced);
}

#[test]
fn the_next_candidate_serves_the_next_try_of_the_step() {
    let more = [failed(0, Charge::Nothing), asked(1, 1, 1, None), answered(1, used(1, 1, None))];
    check(&more, |row| {
        row.served = served("local", "two");
        row.model_calls = 2;
        let (prompt, completion) = (Tokens(1), Tokens(1));
        row.total = Total { calls: 2, calls_unpriced: 1, prompt, completion, ..Total::default() };
    });
}

#[test]
fn a_delay_lasts_until_the_next_call() {
    let until = NOW.after(Millis(60_000));
    let given = [failed(0, Charge::Nothing), delayed(until)];
    check(&given, |row| (row.phase, row.total.calls) = (Phase::Paused { until: Some(until) }, 1));
    let given = [failed(0, Charge::Nothing), delayed(until), asked(1, 1, 0, None)];
    check(&given, |row| (row.model_calls, row.total.calls) = (2, 1));
}

#[test]
fn tool_calls_are_counted_when_they_are_intended_and_when_they_are_lost() {
    check(&[tool_asked(0)], |row| row.tools_asked = 1);
    check(&[tool_asked(0), tool_unknown(0)], |row| (row.tools_asked, row.tools_unknown) = (1, 1));
    check(&other_tools(), |_| {});
}

#[test]
fn a_hold_lasts_until_its_caller_is_back_or_gone() {
    let until = NOW.after(Millis(60_000));
    check(&[client_asked(until)], |row| row.phase = Phase::WaitingForClient { until });
    check(&[client_asked(until), client_answered()], |_| {});
    check(&[client_asked(until), client_gone()], |_| {});
}

#[test]
fn an_end_says_how_why_and_when_and_is_the_last_fact() {
    let reason = Reason::ModelFailed(Class::RateLimited);
    let end = finished(Outcome::Errored, reason.clone());
    check(&[failed(0, Charge::Nothing), end.clone()], |row| {
        row.total.calls = 1;
        let (outcome, at) = (Outcome::Errored, NOW.after(Millis(4)));
        row.phase = Phase::Ended(End { outcome, reason, detail: "why".into(), at });
    });
    check_illegal(&begun(&[end.clone(), started()]));
    check_illegal(&begun(&[end.clone(), end]));
}

#[test]
fn a_fact_that_the_row_can_not_rest_on_is_not_folded() {
    check_illegal(&[started()]);
    check_illegal(&[queued(), queued()]);
    check_illegal(&[queued(), answered(0, used(1, 1, None))]);
    check_illegal(&begun(&[answered(1, used(1, 1, None))]));
    check_illegal(&begun(&[asked(1, 1, 0, None)]));
    check_illegal(&[queued(), started(), asked(0, 1, 2, None)]);
}
