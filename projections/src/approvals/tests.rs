//! What each fact makes of a hold's row.

use super::*;
use crate::tests::facts::{
    NOW, approval_asked, approval_resolved, finished, here, queued, run, started,
};
use events::quantity::Millis;
use events::run::life::{Outcome, Reason};

/// The n-th fact is recorded n milliseconds after the first, in the n-th commit.
fn folded(given: &[Event]) -> Result<Vec<Row>, FoldError> {
    let connection = Connection::open_in_memory().unwrap();
    let tables = Tables::live(&connection);
    tables.create(Name::Approvals, 0).unwrap();
    for (n, event) in (0..).zip(given) {
        let (position, hash, at) = (here(n + 1), Hash::default(), NOW.after(Millis(n)));
        let (stream, facts) = (Run::stream(&run(1)), Ok(vec![]));
        let commit = Decoded { position, hash, stream, at, facts };
        fold(tables, &commit, &[Fact::Run(Box::new(event.clone()))])?;
    }
    let open: i64 =
        connection.query_row("SELECT COUNT(*) FROM approvals_open", [], |row| row.get(0)).unwrap();
    let has_ended = given.iter().any(|event| matches!(event, Event::Finished(_)));
    assert_eq!(open, i64::from(!has_ended), "an ended run needs no row of its project");
    let mut statement = connection.prepare("SELECT * FROM approvals ORDER BY id").unwrap();
    let rows = statement.query_map([], read).unwrap();
    Ok(rows.collect::<rusqlite::Result<_>>().unwrap())
}

fn begun(more: &[Event]) -> Vec<Event> {
    [&[queued(), started()], more].concat()
}

fn waiting() -> Row {
    let arguments = Json::from_bytes(br#"{"text":"a"}"#);
    Row {
        id: Numbered { run: run(1), number: 0 },
        project: "default".into(),
        tool: "note_append".into(),
        subject: events::run::approval::subject("note_append", &arguments),
        arguments: r#"{"text":"a"}"#.into(),
        arguments_bytes: 12,
        asked: NOW.after(Millis(2)),
        until: NOW.after(Millis(60_000)),
        standing: Standing::Waiting,
        answered: None,
        by: None,
        last: here(3),
    }
}

use events::json::Json;

fn asked() -> Event {
    approval_asked(0, r#"{"text":"a"}"#)
}

#[test]
fn a_hold_waits_with_what_it_is_about() {
    assert_eq!(folded(&begun(&[asked()])).unwrap(), [waiting()]);
    assert_eq!(folded(&begun(&[])).unwrap(), []);
}

#[test]
fn an_answer_says_which_when_and_by_whom_and_comes_once() {
    let agreed = Resolution::Approved { edited: None, reach: events::run::approval::Reach::Call };
    let answers = [
        (agreed, Standing::Approved, Some(Actor::Admin)),
        (Resolution::Denied { reason: "no".into() }, Standing::Denied, Some(Actor::Admin)),
        (Resolution::Expired, Standing::Expired, None),
        (Resolution::Voided, Standing::Voided, None),
        (Resolution::Orphaned { reason: "gone".into() }, Standing::Orphaned, None),
    ];
    for (resolution, standing, by) in answers {
        let answered = approval_resolved(0, resolution, by);
        let row =
            Row { standing, answered: Some(NOW.after(Millis(3))), by, last: here(4), ..waiting() };
        let given = begun(&[asked(), answered.clone()]);
        assert_eq!(folded(&given).unwrap(), [row]);
        assert!(folded(&[given, vec![answered]].concat()).is_err(), "{standing:?}");
    }
}

#[test]
fn a_fact_of_no_hold_and_of_no_run_is_not_folded() {
    assert!(folded(&begun(&[approval_resolved(0, Resolution::Expired, None)])).is_err());
    assert!(folded(&[asked()]).is_err());
    let end = finished(Outcome::Completed, Reason::Answered);
    assert!(folded(&begun(&[end, asked()])).is_err());
}

#[test]
fn long_arguments_are_cut_at_a_whole_character_and_their_length_is_kept() {
    let long = format!("\"{}\"", "é".repeat(ARGUMENTS_BYTES_MAX));
    let rows = folded(&begun(&[approval_asked(0, &long)])).unwrap();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.arguments_bytes, long.len() as u64);
    assert_eq!(row.arguments.len(), ARGUMENTS_BYTES_MAX - 1);
    assert!(long.starts_with(&row.arguments));
}
