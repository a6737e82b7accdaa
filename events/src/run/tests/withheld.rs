//! An answer that is taken back.

use super::*;

#[test]
fn what_has_ended_is_withheld_once_and_says_what_it_said_in_its_fold() {
    let given = [open(Plane::Model), answered(0, vec![])];
    let before = after(&given);
    let state = check(&given, &Command::withhold(), Ok(&["withheld"]));
    assert_eq!(State { withheld: false, ..state.clone() }, before, "nothing else changes");
    assert_eq!((Run::pending(&state).len(), Run::wake(&state)), (0, Wake::OnCommand));
    let given = [given.to_vec(), vec![Command::withhold()]].concat();
    check(&given, &Command::withhold(), Ok(&[]));
    check(&given, &Command::stop(), Ok(&[]));
    check(&given, &open(Plane::Model), Ok(&[]));
    check(&[], &Command::withhold(), Err(Refusal::NoSuchRun));
}

#[test]
fn what_is_at_work_ends_with_it_in_one_commit_and_what_waits_never_begins() {
    let names = ["model_unknown", "finished", "withheld"];
    let state = check(&[open(Plane::Model)], &Command::withhold(), Ok(&names));
    assert_eq!(state.ended().unwrap().outcome, Outcome::Cancelled);
    let waiting = Command::Open { spec: spec(Plane::Model), session: Some(session()), grant: None };
    check(std::slice::from_ref(&waiting), &Command::withhold(), Ok(&["finished", "withheld"]));
    check(&[waiting, Command::withhold()], &open_in_session(), Ok(&[]));
}

#[test]
fn it_follows_an_end_and_no_other() {
    let running = after(&[open(Plane::Model)]);
    let event = Event::Withheld(withhold::Withheld {});
    assert!(Run::evolve(running, &event).is_err());
    let gone = after(&[open(Plane::Model), Command::withhold()]);
    assert!(Run::evolve(gone, &event).is_err());
}
