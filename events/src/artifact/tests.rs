//! What a project keeps: every version, in order, once.

use super::*;
use crate::codec::golden;
use crate::run::served::{InsteadOf, Why};

const NOW: Instant = Instant(1_700_000_000_000_000);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn asked(of: &str, content: &str, over: Option<u32>) -> Command {
    let (name, content) = (name(of), Arc::from(content));
    Command::Write(Write { name, content, over, source: Source::Hand, by: Actor::Node })
}

fn after(commands: &[Command]) -> State {
    commands.iter().fold(State::default(), |state, command| {
        let events = Artifacts::decide(&state, command, NOW).unwrap();
        events.iter().try_fold(state, Artifacts::evolve).unwrap()
    })
}

#[test]
fn each_write_is_a_version_and_the_same_text_is_none() {
    let state = after(&[
        asked("plan", "one", Some(0)),
        asked("plan", "two", Some(1)),
        asked("plan", "two", Some(9)),
        asked("notes.v2", "x", None),
        asked("plan", "one", None),
    ]);
    let plan: Vec<(u32, u64)> =
        state.artifacts[&name("plan")].iter().map(|kept| (kept.version, kept.event.0)).collect();
    assert_eq!(plan, [(1, 1), (2, 2), (3, 4)]);
    assert_eq!(state.version(&name("plan"), Some(1)).unwrap().hash, journal::hash(b"one"));
    assert_eq!(state.version(&name("plan"), None).unwrap().version, 3);
    assert_eq!(state.version(&name("plan"), Some(4)), None);
}

#[test]
fn two_who_write_at_once_do_not_lose_each_others_words() {
    let state = after(&[asked("plan", "one", None), asked("plan", "two", None)]);
    let refused = Artifacts::decide(&state, &asked("plan", "mine", Some(1)), NOW);
    assert_eq!(refused, Err(Refusal::Moved { name: "plan".into(), have: 2, over: 1 }));
    let refused = Artifacts::decide(&state, &asked("plan", "mine", Some(0)), NOW);
    assert!(matches!(refused, Err(Refusal::Moved { .. })));
    assert_eq!(Artifacts::decide(&state, &asked("plan", "mine", Some(2)), NOW).unwrap().len(), 1);
}

#[test]
fn there_is_a_bound_on_everything() {
    let long = "x".repeat(CONTENT_BYTES_MAX + 1);
    let refused = Artifacts::decide(&State::default(), &asked("plan", &long, None), NOW);
    assert_eq!(refused, Err(Refusal::TooLong { bytes: 524_289 }));
    let kept = after(&[asked("plan", "x", None)]).version(&name("plan"), None).unwrap().clone();
    let mut full = State::default();
    for number in 0..ARTIFACTS_MAX {
        full.artifacts.insert(name(&format!("a{number}")), Arc::new(vec![kept.clone()]));
    }
    assert_eq!(Artifacts::decide(&full, &asked("plan", "y", None), NOW), Err(Refusal::Full));
    assert_eq!(Artifacts::decide(&full, &asked("a7", "y", None), NOW).unwrap().len(), 1);
    let versions = (1..=1_000).map(|version| Kept { version, ..kept.clone() }).collect();
    full.artifacts.insert(name("a7"), Arc::new(versions));
    let refused = Artifacts::decide(&full, &asked("a7", "y", None), NOW);
    assert_eq!(refused, Err(Refusal::ManyVersions { name: "a7".into() }));
}

#[test]
fn whatever_decide_says_evolve_accepts() {
    let commands: Vec<Command> = ["a", "b"]
        .into_iter()
        .flat_map(|of| ["x", "y"].map(|text| (of, text)))
        .flat_map(|(of, text)| [None, Some(0), Some(1), Some(2)].map(|over| asked(of, text, over)))
        .collect();
    let mut states = vec![State::default()];
    for _ in 0..3 {
        let mut next = vec![];
        for state in &states {
            for command in &commands {
                let Ok(events) = Artifacts::decide(state, command, NOW) else { continue };
                let then = events.iter().try_fold(state.clone(), Artifacts::evolve).unwrap();
                assert_eq!(Artifacts::decide(&then, command, NOW), Ok(vec![]), "{command:?} twice");
                for event in &events {
                    assert!(Artifacts::evolve(then.clone(), event).is_err(), "a version twice");
                }
                if !next.contains(&then) {
                    next.push(then);
                }
            }
        }
        states = next;
    }
    assert!(states.len() > 20, "a world of {} states is too small", states.len());
}

#[test]
fn a_name_is_a_files_name_and_nothing_else() {
    for good in ["plan", "a", "0", "report-2.final_x", &"x".repeat(64)] {
        assert_eq!(name(good).to_string(), good);
    }
    for bad in
        ["", ".", "..", ".hidden", "-x", "a..b", "a/b", "a\\b", "A", "a b", "ä", &"x".repeat(65)]
    {
        assert!(bad.parse::<Name>().is_err(), "{bad}");
    }
}

#[test]
fn the_bytes_of_an_event_do_not_change() {
    let instead_of = InsteadOf { provider: "a".into(), model: "big".into(), why: Why::CallFailed };
    let served_by = ServedBy {
        provider: "b".into(),
        model: "small".into(),
        instead_of: Some(instead_of),
        judges_itself: false,
    };
    let run = RunId::new(crate::id::Place::default(), 7);
    let source =
        Source::Run(Box::new(Made { run, role: Role::chat(), served_by: Some(served_by) }));
    let content: Arc<str> = Arc::from("# Plan\n");
    let hash = journal::hash(content.as_bytes());
    let (name, by) = (name("plan"), Actor::Node);
    let written = Written { name, version: 300, content, hash, source, by, at: NOW };
    let event = Event::Written(written);
    golden::check(
        "artifact.txt",
        include_str!("../golden/artifact.txt"),
        Event::TABLE,
        &[(event.name(), Artifacts::encode(&event).unwrap())],
        |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
    );
}
