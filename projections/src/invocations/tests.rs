//! What each fact makes of an invocation's row.

use super::*;
use crate::tests::facts::{
    NOW, finished, given_up, here, invoked, other_tools, queued, run, settled, started, tool_asked,
    tool_unknown,
};
use events::quantity::Millis;
use events::record::Hash;
use events::run::life::{Outcome, Reason};

/// The n-th fact is recorded n milliseconds after the first, in the n-th commit.
fn folded(given: &[Event]) -> Result<Vec<Row>, FoldError> {
    let connection = Connection::open_in_memory().unwrap();
    let tables = Tables::live(&connection);
    tables.create(Name::Invocations, 0).unwrap();
    for (n, event) in (0..).zip(given) {
        let (position, hash, at) = (here(n + 1), Hash::default(), NOW.after(Millis(n)));
        let (stream, facts) = (Run::stream(&run(1)), Ok(vec![]));
        let commit = Decoded { position, hash, stream, at, facts };
        fold(tables, &commit, &[Fact::Run(Box::new(event.clone()))])?;
    }
    let mut statement = connection.prepare("SELECT * FROM invocations ORDER BY id").unwrap();
    let rows = statement.query_map([], read).unwrap();
    Ok(rows.collect::<rusqlite::Result<_>>().unwrap())
}

fn begun(more: &[Event]) -> Vec<Event> {
    [&[queued(), started()], more].concat()
}

fn pending() -> Row {
    Row {
        id: Numbered { run: run(1), number: 0 },
        correlation: correlation(run(1).unique(), ToolNo(0)),
        project: "default".into(),
        tool: "clock_now".into(),
        stage: "chat".into(),
        standing: Standing::Pending,
        why: None,
        policy_revision: 3,
        asked: NOW.after(Millis(2)),
        settled: None,
        lease_until: NOW.after(Millis(35_000)),
        by: None,
        last: here(3),
    }
}

#[track_caller]
fn check(then: &[Event], standing: Standing, why: Option<&str>, by: Option<&str>) {
    let count = then.len() as u64;
    let row = Row {
        standing,
        why: why.map(str::to_owned),
        by: by.map(str::to_owned),
        settled: Some(NOW.after(Millis(2 + count))),
        last: here(3 + count),
        ..pending()
    };
    assert_eq!(folded(&begun(&[&[invoked(0)], then].concat())).unwrap(), [row]);
}

#[test]
fn only_what_goes_through_the_broker_has_a_row() {
    assert_eq!(folded(&begun(&[invoked(0)])).unwrap(), [pending()]);
    let plain = [&[tool_asked(0)], &other_tools()[..]].concat();
    assert_eq!(folded(&begun(&plain)).unwrap(), []);
}

#[test]
fn each_outcome_is_a_state_with_its_class_or_its_reason() {
    check(&[settled(0, ToolOutcome::Succeeded)], Standing::Succeeded, None, None);
    let quota = ToolOutcome::Rejected(Rejection::Quota);
    check(&[settled(0, quota)], Standing::Rejected, Some("quota"), None);
    check(&[tool_unknown(0)], Standing::Unknown, Some("interrupted"), None);
    let then = [tool_unknown(0), given_up(0)];
    check(&then, Standing::Abandoned, Some("interrupted"), Some("admin"));
}

#[test]
fn it_is_given_up_after_the_end_of_its_run_too_and_only_where_it_is_unknown() {
    let end = finished(Outcome::Cancelled, Reason::Stopped);
    check(
        &[tool_unknown(0), end, given_up(0)],
        Standing::Abandoned,
        Some("interrupted"),
        Some("admin"),
    );
    assert!(folded(&begun(&[invoked(0), given_up(0)])).is_err());
    let succeeded = settled(0, ToolOutcome::Succeeded);
    assert!(folded(&begun(&[invoked(0), succeeded.clone(), given_up(0)])).is_err());
    assert!(folded(&begun(&[invoked(0), succeeded.clone(), succeeded])).is_err());
    assert!(folded(&[invoked(0)]).is_err());
}
