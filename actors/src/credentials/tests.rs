//! Which profile a session asks with, in which order, and what it is told when there is none.

use super::*;
use events::aggregate::Aggregate;
use events::credential::{Added, Removed};

const NOW: Instant = Instant(1_000_000_000);

fn openai() -> ProviderId {
    "openai".parse().unwrap()
}

fn state(names: &[&str]) -> State {
    names.iter().fold(State::default(), |state, name| {
        let (profile, kind, by) = ((*name).to_owned(), Kind::ApiKey, Actor::Admin);
        then(state, &Command::Add(Added { profile, kind, by, revision: 1, expires: None }))
    })
}

fn then(state: State, command: &Command) -> State {
    let events = Credential::decide(&state, command, NOW).unwrap();
    events.iter().try_fold(state, Credential::evolve).unwrap()
}

fn limited(name: &str) -> Command {
    let (class, status, hint) = (Class::RateLimited, Some(429), Some(Millis(10_000)));
    let (reason, forbidden) = (Reason::Unnamed, Forbidden::Cools);
    let seen = Seen::Failed { class, status, hint, reason, forbidden };
    let (profile, model) = (name.to_owned(), "m".to_owned());
    Command::Saw(Saw { profile, revision: 1, model, began: NOW, seen })
}

fn order(state: &State, pin: u128) -> Vec<String> {
    let profiles = usable(state, None, Secrets::Vault);
    ranked(&profiles, (openai(), "m"), pin, NOW).iter().map(|one| one.name.to_owned()).collect()
}

#[test]
fn a_session_keeps_its_profile_and_one_less_moves_only_its_own_sessions() {
    let three = state(&["a", "b", "c"]);
    let two = then(three.clone(), &Command::MarkDead(Removed { profile: "b".into() }));
    let mut firsts: BTreeMap<String, u32> = BTreeMap::new();
    for pin in 0..300 {
        let (before, after) = (order(&three, pin), order(&two, pin));
        assert_eq!(before, order(&three, pin));
        let without: Vec<String> = before.iter().filter(|name| *name != "b").cloned().collect();
        assert_eq!(after, without, "the others keep their order");
        *firsts.entry(before[0].clone()).or_default() += 1;
    }
    assert!(
        firsts.len() == 3 && firsts.values().all(|count| (60..140).contains(count)),
        "{firsts:?}"
    );
}

#[test]
fn the_order_of_a_session_does_not_change() {
    let orders: Vec<String> =
        (0..4).map(|pin| order(&state(&["a", "b", "c", "d"]), pin).concat()).collect();
    assert_eq!(orders, ["dcab", "bdca", "cdab", "adbc"]);
}

#[test]
fn what_cools_keeps_its_rank_and_its_end_is_told() {
    let cooled = then(state(&["a", "b"]), &limited("a"));
    let profiles = usable(&cooled, None, Secrets::Vault);
    let all = ranked(&profiles, (openai(), "m"), 1, NOW);
    assert_eq!(all.len(), 2, "it is skipped, not forgotten");
    let both = then(cooled, &limited("b"));
    let profiles = usable(&both, None, Secrets::Vault);
    let all = ranked(&profiles, (openai(), "m"), 1, NOW);
    let NoProfile::Cooling { class, left, .. } = first_ready(openai(), &all, NOW).unwrap() else {
        panic!()
    };
    assert_eq!((class, left), (Class::RateLimited, Millis(10_000)));
    assert!(
        ranked(&profiles, (openai(), "other"), 1, NOW)
            .iter()
            .all(|one| one.standing == Standing::Ready)
    );
}

#[test]
fn only_a_key_of_its_own_environment_is_a_nodes() {
    let add = |revision| {
        let (profile, kind, by) = (ENVIRONMENT.to_owned(), Kind::Environment, Actor::Node);
        then(state(&["a"]), &Command::Add(Added { profile, kind, by, revision, expires: None }))
    };
    let names = |state: &State, own, secrets| -> Vec<String> {
        usable(state, own, secrets).into_keys().collect()
    };
    assert_eq!(names(&add(7), None, Secrets::Vault), ["a"]);
    assert_eq!(names(&add(7), Some(7), Secrets::Vault), ["a", "env"]);
    assert_eq!(names(&add(7), Some(7), Secrets::Environment), ["env"]);
    let dead = then(add(7), &Command::MarkDead(Removed { profile: ENVIRONMENT.into() }));
    let standing = |own| usable(&dead, Some(own), Secrets::Vault)[ENVIRONMENT].standing("m", NOW);
    assert!(matches!(standing(7), Standing::Dead(_)));
    assert_eq!(standing(8), Standing::Ready, "of another key nothing was seen");
}

#[test]
fn a_401_that_names_its_reason_is_told_from_one_that_does_not() {
    for named in
        ["Incorrect API key provided: [redacted]", "invalid x-api-key", "this key was revoked"]
    {
        assert_eq!(reason(named), Reason::Named, "{named}");
    }
    for unnamed in ["Unauthorized", "HTTP 401 without a message", "missing scopes"] {
        assert_eq!(reason(unnamed), Reason::Unnamed, "{unnamed}");
    }
    assert_eq!(stored("sk-x").expose(), br#"{"kind":"api_key","key":"sk-x"}"#);
}

#[test]
fn a_profile_is_there_for_whoever_may_use_it() {
    let kept = Profile::new(Kind::ApiKey, Actor::Admin, 1);
    assert!(
        is_usable(&kept, None, Secrets::Vault) && !is_usable(&kept, None, Secrets::Environment)
    );
    let own = Profile::new(Kind::Environment, Actor::Node, 7);
    let may = |mark| is_usable(&own, mark, Secrets::Vault);
    assert!(may(Some(7)) && !may(Some(8)) && !may(None), "of another environment's key");
}

#[test]
fn a_refresh_that_is_late_is_waited_for_and_kills_nobody() {
    let why = |state: &State, missed| {
        nobody(&usable(state, None, Secrets::Vault), (openai(), "m"), missed, NOW)
    };
    let (late, none) = (Missed { late: true, ..Missed::default() }, Missed::default());
    let alive = state(&["a"]);
    assert_eq!(why(&alive, late), NoProfile::NoSecret("openai".into()), "it is tried again");
    assert_eq!(why(&alive, none), NoProfile::Tried("openai".into()));
    // What the wait has brought to light counts.
    let dead = then(alive.clone(), &Command::MarkDead(Removed { profile: "a".into() }));
    assert_eq!(why(&dead, late), NoProfile::Dead("openai".into()));
    let cooled = then(alive, &limited("a"));
    assert!(matches!(why(&cooled, late), NoProfile::Cooling { left: Millis(10_000), .. }));
}
