//! The rules of a provider's credentials: what is seen, what follows, and that no course of it is unlawful.

use super::*;
use crate::codec::golden;
use crate::quantity::Millis;
use std::collections::BTreeSet;

const NOW: Instant = Instant(1_000_000_000);

fn at(seconds: u64) -> Instant {
    NOW.after(Millis(seconds * 1_000))
}

fn added(profile: &str, revision: u64) -> Added {
    let (profile, kind, by, expires) = (profile.into(), Kind::ApiKey, Actor::Admin, None);
    Added { profile, kind, by, revision, expires }
}

fn removed(profile: &str) -> Removed {
    Removed { profile: profile.into() }
}

fn saw(began: Instant, seen: Seen) -> Command {
    let (profile, model) = ("a".to_owned(), "m".to_owned());
    Command::Saw(Saw { profile, revision: 1, model, began, seen })
}

fn failed(class: Class, status: u16, hint: Option<u64>) -> Seen {
    let (hint, reason) = (hint.map(|seconds| Millis(seconds * 1_000)), Reason::Unnamed);
    Seen::Failed { class, status: Some(status), hint, reason, forbidden: Forbidden::Cools }
}

fn unauthorised(reason: Reason) -> Seen {
    let (class, status) = (Class::AuthInvalid, Some(401));
    Seen::Failed { class, status, hint: None, reason, forbidden: Forbidden::Cools }
}

fn step(state: &State, command: &Command, now: Instant) -> Result<State, Refusal> {
    let events = Credential::decide(state, command, now)?;
    Ok(events.iter().try_fold(state.clone(), Credential::evolve).unwrap())
}

/// What a list of commands makes of one profile `a` whose secret is 1.
fn after(commands: &[(u64, Command)]) -> State {
    let start = step(&State::default(), &Command::Add(added("a", 1)), NOW).unwrap();
    commands
        .iter()
        .fold(start, |state, (seconds, command)| step(&state, command, at(*seconds)).unwrap())
}

fn standing(state: &State, model: &str, seconds: u64) -> Standing {
    state.profiles["a"].standing(model, at(seconds))
}

fn cooling(seconds: u64, class: Class) -> Standing {
    Standing::Cooling { until: at(seconds), class }
}

#[test]
fn a_cool_down_is_of_its_scope_and_ends_with_one_probe() {
    let state = after(&[(0, saw(NOW, failed(Class::RateLimited, 429, Some(10))))]);
    assert_eq!(standing(&state, "m", 9), cooling(10, Class::RateLimited));
    assert_eq!(standing(&state, "other", 9), Standing::Ready);
    assert_eq!(standing(&state, "m", 10), Standing::HalfOpen);
    let probe = Command::Probe(Probing { profile: "a".into(), model: "m".into() });
    assert_eq!(step(&state, &probe, at(9)), Err(Refusal::NotNow));
    let probed = step(&state, &probe, at(10)).unwrap();
    assert_eq!(step(&probed, &probe, at(11)), Err(Refusal::NotNow), "one only");
    assert_eq!(standing(&probed, "m", 11), cooling(70, Class::RateLimited));
    assert_eq!(standing(&probed, "m", 70), Standing::HalfOpen, "the one who tried never came back");
    let works = step(&probed, &saw(at(10), Seen::Success), at(12)).unwrap();
    assert_eq!(standing(&works, "m", 12), Standing::Ready);
    let again = saw(at(10), failed(Class::RateLimited, 429, Some(5)));
    assert_eq!(
        standing(&step(&probed, &again, at(12)).unwrap(), "m", 13),
        cooling(17, Class::RateLimited)
    );
}

#[test]
fn the_latest_end_counts_and_what_was_decided_later_is_not_cleared_by_an_older_call() {
    let limited = |seconds| saw(NOW, failed(Class::QuotaExhausted, 429, Some(seconds)));
    let state = after(&[(0, limited(100)), (1, limited(10))]);
    assert_eq!(standing(&state, "any", 2), cooling(100, Class::QuotaExhausted));
    let longer = step(&state, &limited(200), at(1)).unwrap();
    assert_eq!(standing(&longer, "any", 2), cooling(201, Class::QuotaExhausted));
    // A call that began before the quota ran out says nothing of it.
    assert_eq!(step(&state, &saw(NOW, Seen::Success), at(3)), Ok(state.clone()));
    assert!(step(&state, &saw(at(2), Seen::Success), at(3)).unwrap().profiles["a"].is_unmarked());
}

#[test]
fn what_is_not_the_keys_fault_touches_no_profile() {
    for class in Class::ALL {
        let state = after(&[(0, saw(NOW, failed(class, 500, Some(10))))]);
        assert_eq!(!state.profiles["a"].is_unmarked(), Seen::concerns(class), "{class:?}");
    }
    for class in [Class::Transport, Class::Timeout, Class::ServerError, Class::UpstreamRateLimited]
    {
        assert!(!Seen::concerns(class), "{class:?}");
    }
}

#[test]
fn dead_is_who_was_named_or_struck_three_times_in_a_row() {
    let blow = |began| saw(at(began), unauthorised(Reason::Unnamed));
    let twice = after(&[(0, blow(0)), (100, blow(99))]);
    assert_eq!(twice.profiles["a"].strikes, 2);
    assert_eq!(standing(&twice, "m", 101), cooling(160, Class::AuthInvalid));
    let thrice = step(&twice, &blow(161), at(162)).unwrap();
    assert_eq!(standing(&thrice, "m", 999), Standing::Dead(Death::Strikes));
    let saved = step(&twice, &saw(at(161), Seen::Success), at(162)).unwrap();
    assert!(saved.profiles["a"].is_unmarked());
    // Four calls that were under way together are one blow.
    let burst = after(&[(1, blow(0)), (1, blow(0)), (1, blow(0)), (2, blow(0))]);
    assert_eq!(burst.profiles["a"].strikes, 1);
    let named = after(&[(0, saw(NOW, unauthorised(Reason::Named)))]);
    assert_eq!(standing(&named, "m", 0), Standing::Dead(Death::Named));
    // A 403, or a bad key that is told with another status, cools.
    for status in [403, 400] {
        let state = after(&[(0, saw(NOW, failed(Class::AuthInvalid, status, None)))]);
        assert_eq!(standing(&state, "m", 1), cooling(60, Class::AuthInvalid));
    }
    let (class, status, reason) = (Class::AuthInvalid, Some(403), Reason::Unnamed);
    let strict = Seen::Failed { class, status, hint: None, reason, forbidden: Forbidden::Kills };
    let state = after(&[(0, saw(NOW, strict))]);
    assert_eq!(standing(&state, "m", 1), Standing::Dead(Death::Forbidden));
    let revived = step(&thrice, &Command::Revive(removed("a")), at(200)).unwrap();
    assert!(revived.profiles["a"].is_unmarked());
}

#[test]
fn a_rotated_secret_is_not_blamed_for_the_old_one() {
    let rotate = Command::Rotate(Rotated { profile: "a".into(), revision: 2, expires: None });
    let state = after(&[(0, saw(NOW, unauthorised(Reason::Named))), (1, rotate.clone())]);
    assert!(state.profiles["a"].is_unmarked());
    assert_eq!(step(&state, &saw(NOW, unauthorised(Reason::Named)), at(2)), Ok(state.clone()));
    assert_eq!(step(&state, &rotate, at(3)), Ok(state));
}

#[test]
fn names_are_checked_and_profiles_are_bounded() {
    let add = |state: &State, name: &str| step(state, &Command::Add(added(name, 1)), NOW);
    for bad in ["", "A", "a.b", "a b", &"x".repeat(33)] {
        assert_eq!(add(&State::default(), bad), Err(Refusal::BadName), "{bad}");
    }
    let full = (0..PROFILES_MAX)
        .fold(State::default(), |state, nth| add(&state, &format!("p{nth}")).unwrap());
    assert_eq!(add(&full, "more"), Err(Refusal::Full));
    assert_eq!(add(&full, "p0"), Ok(full.clone()));
    assert_eq!(step(&full, &Command::Add(added("p0", 2)), NOW), Err(Refusal::Exists));
    assert_eq!(step(&full, &Command::Revive(removed("more")), NOW), Err(Refusal::NoSuchProfile));
    let mut cooled = after(&[]);
    for nth in 0..2 * COOLING_MAX {
        let Command::Saw(mut saw) = saw(NOW, failed(Class::RateLimited, 429, Some(10))) else {
            panic!()
        };
        saw.model = format!("m{nth}");
        cooled = step(&cooled, &Command::Saw(saw), at(0)).unwrap();
    }
    assert_eq!(cooled.profiles["a"].cooling.len(), COOLING_MAX);
}

/// Every command at several times, some steps deep: evolve takes what decide says, a repeat says nothing more, strikes
/// stay below the limit in whoever lives, and only what may clear a cool-down shortens it.
#[test]
fn whatever_decide_says_evolve_accepts() {
    let mut world = vec![
        Command::Add(added("a", 1)),
        Command::Add(Added { kind: Kind::Login, ..added("b", 1) }),
        Command::Refresh(Stale { profile: "b".into(), revision: 1 }),
        Command::Rotate(Rotated { profile: "a".into(), revision: 2, expires: None }),
        Command::Remove(removed("a")),
        Command::MarkDead(removed("a")),
        Command::Revive(removed("a")),
        Command::Probe(Probing { profile: "a".into(), model: "m".into() }),
    ];
    world.extend(outcomes().map(|outcome| told(1, outcome)));
    for began in [0, 60] {
        world.push(saw(at(began), Seen::Success));
        world.push(saw(at(began), unauthorised(Reason::Unnamed)));
        world.push(saw(at(began), unauthorised(Reason::Named)));
        world.push(saw(at(began), failed(Class::RateLimited, 429, Some(30))));
        world.push(saw(at(began), failed(Class::Billing, 402, None)));
    }
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut layer = vec![State::default()];
    for depth in 0..5_u64 {
        let now = at(depth * 40);
        let mut next = vec![];
        for state in &layer {
            for command in &world {
                let Ok(events) = Credential::decide(state, command, now) else { continue };
                let then = events.iter().try_fold(state.clone(), Credential::evolve).unwrap();
                lawful(state, &events, &then);
                if seen.insert(format!("{depth}{then:?}")) {
                    next.push(then);
                }
            }
        }
        layer = next;
    }
    let dead = |state: &State| {
        matches!(state.profiles.get("a").map(|a| a.health), Some(Health::Dead { .. }))
    };
    let refreshed = |state: &State| state.profiles.get("b").is_some_and(|b| b.revision == 2);
    assert!(layer.iter().any(refreshed));
    assert!(layer.iter().any(dead) && layer.iter().any(|state| state.profiles.len() == 2));
}

fn lawful(before: &State, events: &[Event], then: &State) {
    let owed = Credential::pending(then);
    assert_eq!(owed.is_empty(), Credential::wake(then) == Wake::OnCommand);
    // A new host closes what it finds open, and asks again under a new id.
    let woken = Credential::awake(then).iter().try_fold(then.clone(), Credential::evolve).unwrap();
    let again = Credential::pending(&woken);
    assert_eq!(again.len(), owed.len());
    assert!(owed.iter().all(|(id, _)| again.iter().all(|(new, _)| new != id)), "{owed:?}");
    for (name, profile) in &then.profiles {
        assert!(profile.strikes < 3 || profile.health != Health::Alive);
        let clears = |event: &Event| {
            matches!(
                event,
                Event::Recovered(_)
                    | Event::Rotated(_)
                    | Event::Revived(_)
                    | Event::Added(_)
                    | Event::Refreshed(_)
            )
        };
        let Some(old) = before.profiles.get(name).filter(|_| !events.iter().any(clears)) else {
            continue;
        };
        for (scope, cooling) in &old.cooling {
            assert!(profile.cooling[scope].until >= cooling.until, "{events:?}");
        }
        assert!(old.health == Health::Alive || profile.health == old.health);
    }
}

#[test]
fn the_bytes_of_an_event_do_not_change() {
    let (profile, model) = (String::from("main"), String::from("m"));
    let (since, until, class) = (Instant(1), Instant(2), Class::RateLimited);
    let cooled =
        |scope| Event::Cooled(Cooled { profile: "main".into(), scope, since, until, class });
    let died = |reason| Event::Died(Died { profile: "main".into(), reason, at: Instant(3) });
    let all = [
        Event::Added(added("main", 300)),
        Event::Added(Added { kind: Kind::Environment, by: Actor::Node, ..added("env", 1) }),
        Event::Added(Added { kind: Kind::Login, expires: Some(until), ..added("login", 1) }),
        Event::Added(Added { kind: Kind::Followed, ..added("codex", 1) }),
        Event::Rotated(Rotated { profile: profile.clone(), revision: 301, expires: Some(until) }),
        Event::Removed(removed("main")),
        cooled(Scope::Profile),
        cooled(Scope::Model(model.clone())),
        Event::Probed(Probed { profile: profile.clone(), model: model.clone(), until }),
        Event::Recovered(Recovered { profile: profile.clone(), model }),
        Event::Struck(Struck { profile: profile.clone(), strikes: 2, class: Class::AuthInvalid }),
        died(Death::Named),
        died(Death::Strikes),
        died(Death::Forbidden),
        died(Death::ByHand),
        died(Death::NeedsLogin(LoginLost::Reused)),
        Event::Revived(Revived { profile: profile.clone() }),
        Event::Refreshing(Refreshing { profile: profile.clone(), attempt: 7 }),
        Event::Refreshed(Refreshed {
            profile: profile.clone(),
            revision: 302,
            expires: Some(until),
        }),
        Event::RefreshFailed(RefreshFailed {
            profile: profile.clone(),
            why: Fault::Limited,
            again: until,
        }),
        Event::RefreshLost(RefreshLost { profile, attempt: 7 }),
    ];
    let samples: Vec<_> =
        all.iter().map(|event| (event.name(), Credential::encode(event).unwrap())).collect();
    golden::check(
        "credential.txt",
        include_str!("../golden/credential.txt"),
        Event::TABLE,
        &samples,
        |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
    );
}

/// Two who rotate at once may be recorded in the other order: what is used is the later secret, and it is judged all the
/// same. What was seen of an earlier secret says nothing of a later one.
#[test]
fn a_later_secret_than_the_recorded_one_is_judged_and_an_earlier_one_is_not() {
    let seen = |revision| {
        let (profile, model) = ("a".to_owned(), "m".to_owned());
        let seen = failed(Class::RateLimited, 429, Some(10));
        Command::Saw(Saw { profile, revision, model, began: NOW, seen })
    };
    let rotated = Command::Rotate(Rotated { profile: "a".into(), revision: 5, expires: None });
    for (revision, then) in [
        (4, Standing::Ready),
        (5, cooling(10, Class::RateLimited)),
        (6, cooling(10, Class::RateLimited)),
    ] {
        let state = after(&[(0, rotated.clone()), (0, seen(revision))]);
        assert_eq!(standing(&state, "m", 1), then, "{revision}");
    }
}

mod login;
use login::{outcomes, told};

/// What a login's token is refused with that could not be had anew: nobody is to die of patience.
#[test]
fn a_401_without_its_number_cools_and_never_counts() {
    let mut state = after(&[]);
    for nth in 0..9 {
        let (class, reason) = (Class::AuthExpired, Reason::Unnamed);
        let forbidden = Forbidden::Kills;
        let seen = Seen::Failed { class, status: None, hint: None, reason, forbidden };
        let began = at(100 * nth);
        state = step(&state, &saw(began, seen), began).unwrap();
        assert_eq!(standing(&state, "m", 100 * nth), cooling(100 * nth + 60, class));
        assert_eq!((state.profiles["a"].strikes, state.profiles["a"].health), (0, Health::Alive));
    }
}
