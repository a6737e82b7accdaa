//! What each fact makes of a session's row.

use super::*;
use crate::tests::facts::{NOW, here, run, said, session, spec};
use events::message::Message;
use events::quantity::Millis;
use events::run::life::{Fence, Outcome};
use events::session::{Closed, Committed, Forked, Granted, Opened, Queued, Released};

fn opened() -> Event {
    Event::Opened(Opened { project: "default".into(), by: Actor::Admin, key_slot: 0 })
}

fn queued(unique: u128, text: &str) -> Event {
    Event::Queued(Queued { run: run(unique), spec: spec("default", text) })
}

fn granted(unique: u128) -> Event {
    Event::Granted(Granted { run: run(unique), fence: Fence(1) })
}

fn committed(messages: Vec<Body>) -> Event {
    Event::Committed(Committed { run: run(1), messages })
}

fn released(unique: u128) -> Event {
    let (run, fence, outcome) = (run(unique), Fence(1), Outcome::Completed);
    Event::Released(Released { run, fence, outcome, generated_by: None })
}

fn folded(given: &[Event]) -> Result<Row, IllegalEvent> {
    let mut row = None;
    for (n, event) in (0..).zip(given) {
        row = Some(evolve(row, session(1), event, NOW.after(Millis(n)), here(n + 1))?);
    }
    Ok(row.unwrap())
}

/// The row after a session was opened and then this happened.
#[track_caller]
fn check(then: &[Event], change: impl FnOnce(&mut Row)) {
    let given = [&[opened()], then].concat();
    let count = then.len() as u64;
    let mut row = Row {
        id: session(1),
        project: "default".into(),
        opened_by: Actor::Admin,
        parent: None,
        title: None,
        messages: 0,
        waiting: 0,
        holder: None,
        opened: NOW,
        active: NOW.after(Millis(count)),
        closed: None,
        last: here(count + 1),
    };
    change(&mut row);
    assert_eq!(folded(&given), Ok(row));
}

#[track_caller]
fn check_title(text: &str, then: Option<&str>) {
    assert_eq!(folded(&[opened(), queued(1, text)]).unwrap().title.as_deref(), then);
}

#[test]
fn a_run_waits_holds_the_lock_speaks_and_lets_go() {
    let title = Some(String::from("hi"));
    check(&[], |_| {});
    check(&[queued(1, "hi")], |row| (row.waiting, row.title) = (1, title.clone()));
    check(&[queued(1, "hi"), granted(1)], |row| {
        (row.holder, row.title) = (Some(run(1)), title.clone());
    });
    let spoke = [queued(1, "hi"), granted(1), committed(vec![said("hi"), said("so")])];
    check(&spoke, |row| (row.holder, row.messages, row.title) = (Some(run(1)), 2, title.clone()));
    check(&[&spoke[..], &[queued(2, "more"), released(1), granted(2)]].concat(), |row| {
        (row.holder, row.messages, row.title) = (Some(run(2)), 2, title.clone());
    });
    check(&[Event::Closed(Closed {})], |row| row.closed = Some(NOW.after(Millis(1))));
}

#[test]
fn a_fork_begins_with_what_its_parent_said() {
    let messages = vec![Message::text(Role::System, "be kind").body(), said("hello")];
    let forked = Event::Forked(Forked { parent: session(9), at: 2, messages });
    check(&[forked], |row| {
        (row.parent, row.messages) = (Some((session(9), 2)), 2);
        row.title = Some("hello".into());
    });
}

#[test]
fn a_title_is_the_first_thing_that_a_user_said_cut_to_eighty_characters() {
    check_title("hi", Some("hi"));
    check_title("\n  hi", Some("hi"));
    check_title(&"ü".repeat(81), Some(&"ü".repeat(80)));
    check_title("  ", None);
    let given = [opened(), queued(1, ""), queued(2, "first"), queued(3, "second")];
    assert_eq!(folded(&given).unwrap().title.as_deref(), Some("first"));
}

#[test]
fn a_fact_out_of_order_is_not_folded() {
    for given in [
        vec![queued(1, "hi")],
        vec![opened(), opened()],
        vec![opened(), granted(1)],
        vec![opened(), queued(1, "hi"), granted(1), released(2)],
    ] {
        assert!(folded(&given).is_err(), "{given:?}");
    }
}
