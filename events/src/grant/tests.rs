//! Standing grants: what they cover, how they end, and every history of a small world.

use super::*;
use crate::codec::golden;
use std::collections::BTreeSet;

const NOW: Instant = Instant(1_000);
const LATER: Instant = Instant(2_000);

fn json(text: &str) -> Json {
    Json::from_bytes(text.as_bytes())
}

fn wanted(id: u128, until: Option<Instant>) -> Wanted {
    let pattern = Pattern::exact(&json(r#"{"a":1}"#));
    Wanted { id: GrantId(id), tool: "note_append".into(), pattern, by: Actor::Admin, until }
}

fn revoked(id: u128) -> Command {
    Command::Revoke(Revoked { id: GrantId(id), by: Actor::Admin })
}

fn told(state: &State, command: &Command, at: Instant) -> Result<State, Refusal> {
    let events = Grant::decide(state, command, at)?;
    Ok(events.iter().try_fold(state.clone(), Grant::evolve).unwrap())
}

#[test]
fn a_grant_covers_its_tool_and_arguments_until_its_time_or_until_it_is_taken_back() {
    let state = told(&State::default(), &Command::Grant(wanted(1, Some(LATER))), NOW).unwrap();
    let same = json(r#"{"a":1}"#);
    assert_eq!(state.covers("note_append", &same, NOW), Some(GrantId(1)));
    assert_eq!(state.covers("note_append", &same, Instant(1_999)), Some(GrantId(1)));
    assert_eq!(state.covers("note_append", &same, LATER), None);
    assert_eq!(state.covers("other", &same, NOW), None);
    assert_eq!(state.covers("note_append", &json(r#"{"a":2}"#), NOW), None);
    assert_eq!(state.covers("note_append", &json(r#"{"a":1,"b":1}"#), NOW), None);
    let state = told(&state, &revoked(1), NOW).unwrap();
    assert_eq!(state.covers("note_append", &same, NOW), None);
    assert_eq!(Grant::decide(&state, &revoked(1), NOW), Ok(vec![]));
    assert_eq!(Grant::decide(&state, &revoked(2), NOW), Err(Refusal::NoSuchGrant));
    let again = Command::Grant(wanted(1, None));
    assert_eq!(Grant::decide(&state, &again, NOW), Err(Refusal::Exists));
}

#[test]
fn what_makes_no_sense_is_refused_and_what_has_ended_makes_room() {
    let state = State::default();
    let asks = |wanted: Wanted| Grant::decide(&state, &Command::Grant(wanted), NOW);
    assert_eq!(asks(wanted(1, Some(NOW))), Err(Refusal::Past));
    for tool in ["", "a b", "note.append", &"x".repeat(65)] {
        assert_eq!(asks(Wanted { tool: tool.into(), ..wanted(1, None) }), Err(Refusal::BadTool));
    }
    let nothing = Wanted { pattern: Pattern::default(), ..wanted(1, None) };
    assert_eq!(asks(nothing), Err(Refusal::BadPattern(BadPattern::Empty)));
    let full = (0..256).try_fold(State::default(), |state, id| {
        told(&state, &Command::Grant(wanted(id, Some(LATER))), NOW)
    });
    let full = full.unwrap();
    let more = Command::Grant(wanted(999, None));
    assert_eq!(told(&full, &more, NOW), Err(Refusal::Full));
    assert_eq!(told(&full, &more, LATER).unwrap().grants.len(), 1);
}

/// The laws of an aggregate over every history of a small world.
#[test]
fn whatever_decide_says_evolve_accepts_and_a_repeat_says_nothing() {
    let mut world = vec![];
    for id in 1..=2 {
        world.extend([
            Command::Grant(wanted(id, None)),
            Command::Grant(wanted(id, Some(LATER))),
            revoked(id),
        ]);
    }
    let mut seen = BTreeSet::new();
    let mut layer = vec![State::default()];
    for _ in 0..5 {
        let mut next = vec![];
        for state in &layer {
            assert!(Grant::awake(state).is_empty() && Grant::pending(state).is_empty());
            for command in &world {
                for at in [NOW, LATER] {
                    let Ok(events) = Grant::decide(state, command, at) else { continue };
                    let after = events.iter().try_fold(state.clone(), Grant::evolve);
                    let after = after.unwrap_or_else(|illegal| panic!("{illegal} in {state:#?}"));
                    assert_eq!(Grant::decide(&after, command, at), Ok(vec![]), "{command:?} twice");
                    let both = after.revoked.iter().any(|id| after.grants.contains_key(id));
                    assert!(!both, "taken back and standing: {after:?}");
                    if seen.insert(postcard::to_stdvec(&after).unwrap()) {
                        next.push(after);
                    }
                }
            }
        }
        layer = next;
    }
    assert!(seen.len() > 20, "a world of {} states is too small to say anything", seen.len());
}

#[test]
fn an_id_reads_back_and_nothing_else_is_one() {
    for id in [GrantId(0), GrantId(u128::MAX)] {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    let good = GrantId(7).to_string();
    for bad in [good.to_uppercase(), format!("{good}0"), good.replace("gra_", ""), "gra_".into()] {
        assert!(bad.parse::<GrantId>().is_err(), "{bad}");
    }
}

#[test]
fn the_bytes_of_an_event_do_not_change() {
    let mut pattern = Pattern::exact(&json(r#"{"a":"x"}"#));
    pattern.glob.insert("/b".into(), "*.md".into());
    let granted = Granted {
        id: GrantId(300),
        tool: "note_append".into(),
        pattern,
        by: Actor::Admin,
        until: Some(Instant(700)),
        at: Instant(300),
    };
    let revoked = Event::Revoked(Revoked { id: GrantId(300), by: Actor::Node });
    let samples = [Event::Granted(granted), revoked];
    let samples = samples.map(|event| (event.name(), Grant::encode(&event).unwrap()));
    golden::check(
        "grant.txt",
        include_str!("../golden/grant.txt"),
        Event::TABLE,
        &samples,
        |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
    );
}
