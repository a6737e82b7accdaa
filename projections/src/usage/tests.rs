//! What each fact adds to the sums.

use super::*;
use crate::tests::facts::{
    NOW, answered, asked, client_answered, client_asked, client_gone, delayed, failed, finished,
    other_tools, queued, started, tool_asked, tool_unknown, unknown, used,
};
use events::quantity::MicroUsd;
use events::run::life::{Outcome, Reason};
use events::run::step::Charge;
use events::usage::{Billing, Usage};

const METERED: Billing = Billing::Metered;

fn served(provider: &str, model: &str) -> Served {
    Served { provider: provider.into(), model: model.into() }
}

type Calls = Vec<(Served, Settled)>;

/// The calls that these facts settle, in order, and what is kept; `None` when one may not follow.
fn settled(given: &[Event]) -> Option<(Calls, Option<Open>)> {
    let (mut open, mut all) = (None, vec![]);
    for event in given {
        let step = evolve(open, event).ok()?;
        all.extend(step.settled);
        open = step.open;
    }
    Some((all, open))
}

#[track_caller]
fn check(then: &[Event], adds: &[(Served, Settled)]) {
    let given = [&[queued(), started(), asked(0, 1, 0, Some(90))], then].concat();
    assert_eq!(settled(&given).map(|(all, _)| all).as_deref(), Some(adds));
}

#[test]
fn a_call_counts_when_it_is_settled_and_for_whom_it_was_asked() {
    let (one, two) = (served("openai", "one"), served("local", "two"));
    let usage = used(1, 2, Some(3));
    check(&[], &[]);
    check(
        &[answered(0, usage)],
        &[(one.clone(), Settled::Answered(usage, Some(MicroUsd(90)), METERED))],
    );
    check(&[failed(0, Charge::Nothing)], &[(one.clone(), Settled::Refused)]);
    let reserved = Settled::Unknown(Usage::default(), Some(MicroUsd(90)), METERED);
    check(&[failed(0, Charge::Reserved)], &[(one.clone(), reserved)]);
    check(&[unknown(0, Some(90))], &[(one.clone(), reserved)]);
    let given = [unknown(0, None), asked(1, 1, 1, None), answered(1, usage)];
    check(
        &given,
        &[
            (one, Settled::Unknown(Usage::default(), None, METERED)),
            (two, Settled::Answered(usage, None, METERED)),
        ],
    );
}

#[test]
fn what_costs_nothing_adds_nothing() {
    check(&[delayed(NOW), tool_asked(0), tool_unknown(0)], &[]);
    check(&[client_asked(NOW), client_answered(), client_gone()], &[]);
    check(&other_tools(), &[]);
}

#[test]
fn nothing_is_kept_of_a_run_that_has_ended() {
    let end = finished(Outcome::Cancelled, Reason::Stopped);
    let (_, open) = settled(&[queued(), started(), end.clone()]).unwrap();
    assert_eq!(open, None);
    assert_eq!(settled(&[queued(), end, asked(0, 1, 0, None)]), None);
}

#[test]
fn a_fact_out_of_order_is_not_folded() {
    assert_eq!(settled(&[started()]), None);
    assert_eq!(settled(&[queued(), queued()]), None);
    assert_eq!(settled(&[queued(), answered(0, used(1, 1, None))]), None);
    assert_eq!(settled(&[queued(), asked(0, 1, 0, None), unknown(1, None)]), None);
}

#[test]
fn a_day_prints_as_the_calendar_has_it() {
    let check = |seconds: i64, then: &str| {
        assert_eq!(Day::of(Instant(seconds * 1_000_000)).to_string(), then);
    };
    check(0, "1970-01-01");
    check(-1, "1969-12-31");
    check(951_782_399, "2000-02-28");
    check(951_782_400, "2000-02-29");
    check(951_868_800, "2000-03-01");
    check(1_700_000_000, "2023-11-14");
    check(4_107_542_400, "2100-03-01");
    check(4_107_542_399, "2100-02-28");
}
