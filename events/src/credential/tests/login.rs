//! The rules of a refresh: one at a time, told whatever becomes of it, and never silently given up.

use super::*;

/// Profile `b` is a login whose token of revision 1 ends after 100 s.
fn login() -> State {
    let added = Added { kind: Kind::Login, expires: Some(at(100)), ..added("b", 1) };
    step(&State::default(), &Command::Add(added), NOW).unwrap()
}

pub(super) fn told(attempt: u32, outcome: Outcome) -> Command {
    Command::Told(Told { profile: "b".into(), attempt, outcome })
}

fn refresh(revision: u64) -> Command {
    Command::Refresh(Stale { profile: "b".into(), revision })
}

pub(super) fn outcomes() -> impl Iterator<Item = Outcome> {
    let done = Outcome::Done { revision: 2, expires: Some(at(3_600)) };
    let again = Outcome::Again { why: Fault::Unreachable, hint: None };
    let lost = [LoginLost::Reused, LoginLost::Expired].map(Outcome::NeedsLogin);
    [done, again, Outcome::Lost].into_iter().chain(lost)
}

fn then(state: State, commands: &[(u64, Command)]) -> State {
    let one = |state: State, (seconds, command): &(u64, Command)| {
        step(&state, command, at(*seconds)).unwrap()
    };
    commands.iter().fold(state, one)
}

fn owed(state: &State) -> Vec<(u32, u64, u32)> {
    let row = |(id, owed): (RefreshId, Owed)| (id.attempt, owed.revision, owed.lost);
    Credential::pending(state).into_iter().map(row).collect()
}

fn standing(state: &State, seconds: u64) -> Standing {
    state.profiles["b"].standing("m", at(seconds))
}

#[test]
fn many_who_ask_for_one_stale_token_make_one_refresh() {
    let mut state = login();
    for _ in 0..8 {
        state = step(&state, &refresh(1), at(99)).unwrap();
    }
    assert_eq!(owed(&state), [(1, 1, 0)]);
    let done = Outcome::Done { revision: 2, expires: Some(at(3_600)) };
    let fresh = then(state, &[(99, told(1, done.clone()))]);
    assert_eq!((fresh.profiles["b"].revision, owed(&fresh)), (2, vec![]));
    assert_eq!(fresh.profiles["b"].expires, Some(at(3_600)));
    // Whoever asks late for the old one, and whatever is told twice, changes nothing.
    assert_eq!(then(fresh.clone(), &[(99, refresh(1)), (99, told(1, done))]), fresh);
    assert_eq!(owed(&then(fresh, &[(3_590, refresh(2))])), [(2, 2, 0)]);
}

#[test]
fn a_refresh_that_failed_is_tried_again_later_and_a_token_that_lives_is_used_meanwhile() {
    let again = |hint| told(1, Outcome::Again { why: Fault::Limited, hint });
    let failed = then(login(), &[(10, refresh(1)), (10, again(None))]);
    assert_eq!(standing(&failed, 20), Standing::Ready);
    assert_eq!(step(&failed, &refresh(1), at(69)), Err(Refusal::NotNow));
    assert_eq!(owed(&then(failed, &[(70, refresh(1))])), [(2, 1, 0)]);
    let hinted = then(login(), &[(50, refresh(1)), (50, again(Some(Millis(120_000))))]);
    assert_eq!(standing(&hinted, 99), Standing::Ready);
    assert_eq!(standing(&hinted, 100), cooling(170, Class::AuthExpired));
    assert_eq!(standing(&hinted, 170), Standing::Ready, "it may be refreshed now");
    let long = then(login(), &[(0, refresh(1)), (0, again(Some(Millis(u64::MAX))))]);
    assert_eq!(standing(&long, 101), cooling(3_600, Class::AuthExpired));
}

#[test]
fn a_login_that_is_lost_says_why_until_somebody_logs_in() {
    for why in [
        LoginLost::Expired,
        LoginLost::Reused,
        LoginLost::Revoked,
        LoginLost::Refused,
        LoginLost::Unknown,
    ] {
        let dead = then(login(), &[(1, refresh(1)), (2, told(1, Outcome::NeedsLogin(why)))]);
        assert_eq!(standing(&dead, 3), Standing::Dead(Death::NeedsLogin(why)));
        assert_eq!((owed(&dead), step(&dead, &refresh(1), at(4))), (vec![], Err(Refusal::NotNow)));
        let rotated = Rotated { profile: "b".into(), revision: 2, expires: Some(at(900)) };
        let back = then(dead, &[(5, Command::Rotate(rotated))]);
        assert_eq!(standing(&back, 6), Standing::Ready);
        assert_eq!(owed(&then(back, &[(890, refresh(2))])), [(2, 2, 0)], "no number twice");
    }
}

#[test]
fn a_refresh_whose_host_died_is_asked_again_and_counted() {
    let mut state = then(login(), &[(1, refresh(1))]);
    for lost in 1..=LOST_MAX {
        state = Credential::awake(&state).iter().try_fold(state, Credential::evolve).unwrap();
        assert_eq!(owed(&state), [(1 + lost, 1, lost)]);
    }
    // What the former owner tells of its own does not count any more.
    let late = told(1, Outcome::Done { revision: 2, expires: None });
    assert_eq!(step(&state, &late, at(2)), Ok(state.clone()));
    let known = told(1 + LOST_MAX, Outcome::Again { why: Fault::Busy, hint: None });
    let known = then(state, &[(2, known), (9, refresh(1))]);
    assert_eq!(owed(&known), [(2 + LOST_MAX, 1, 0)], "of the next one something was known");
    let panicked = then(login(), &[(1, refresh(1)), (2, told(1, Outcome::Lost))]);
    assert_eq!(owed(&panicked), [(2, 1, 1)]);
}

#[test]
fn what_is_said_by_hand_meanwhile_does_not_cut_a_refresh_off_but_another_login_does() {
    let name = || Removed { profile: "b".into() };
    let running = then(login(), &[(1, refresh(1)), (2, Command::MarkDead(name()))]);
    assert_eq!(owed(&running), [(1, 1, 0)]);
    let running = then(running, &[(3, Command::Revive(name()))]);
    assert_eq!(owed(&running), [(1, 1, 0)]);
    let rotated = Rotated { profile: "b".into(), revision: 2, expires: None };
    let other = then(running.clone(), &[(4, Command::Rotate(rotated))]);
    assert_eq!(owed(&other), []);
    let late = told(1, Outcome::NeedsLogin(LoginLost::Reused));
    assert_eq!(step(&other, &late, at(5)), Ok(other.clone()));
    assert_eq!(owed(&then(running, &[(4, Command::Remove(name()))])), []);
}

#[test]
fn a_new_token_clears_what_was_held_against_the_old_one_and_not_what_the_account_used_up() {
    let of = |seen| {
        let (profile, model) = ("b".to_owned(), "m".to_owned());
        Command::Saw(Saw { profile, revision: 1, model, began: NOW, seen })
    };
    let quota = of(failed(Class::RateLimited, 429, Some(900)));
    let marked = then(login(), &[(0, quota), (1, of(unauthorised(Reason::Unnamed)))]);
    assert_eq!((marked.profiles["b"].strikes, marked.profiles["b"].cooling.len()), (1, 2));
    let done = told(1, Outcome::Done { revision: 2, expires: None });
    let fresh = then(marked, &[(2, refresh(1)), (2, done)]);
    assert_eq!(fresh.profiles["b"].strikes, 0);
    assert_eq!(standing(&fresh, 3), cooling(900, Class::RateLimited));
    // Of the old token nothing counts any more; of a key nothing is refreshed.
    let late = of(unauthorised(Reason::Named));
    assert_eq!(step(&fresh, &late, at(4)), Ok(fresh));
    let key = after(&[]);
    let asked = Command::Refresh(Stale { profile: "a".into(), revision: 1 });
    assert_eq!(step(&key, &asked, at(1)), Err(Refusal::NotNow));
}
