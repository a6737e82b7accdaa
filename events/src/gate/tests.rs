//! How a gate stands, by example and over every history of a small world.

use super::*;
use crate::codec::golden;
use crate::id::Place;
use std::collections::BTreeSet;

const NOW: Instant = Instant(1_000);

fn run(nth: u128) -> RunId {
    RunId::new(Place::default(), nth)
}

fn declaring(evaluator: Evaluator, hardness: Hardness) -> Surfaces {
    let declaration = Declaration { evaluator, hardness };
    let read_only = BTreeSet::new();
    Surfaces { read_only, declared: BTreeMap::from([("tests_pass".to_owned(), declaration)]) }
}

fn evaluate(surfaces: &Surfaces, verdict: Verdict, text: &str) -> Command {
    let name = "tests_pass".to_owned();
    let said = surfaces.said(&name);
    let evidence = Evidence { text: text.into(), reference: None };
    Command::Evaluate { name, said, verdict, evidence, by: Actor::Admin }
}

fn waive(surfaces: &Surfaces, name: &str, run: RunId) -> Command {
    let (name, said) = (name.to_owned(), surfaces.said(name));
    Command::Waive { name, said, run, reason: "known flake".into(), by: Actor::Admin }
}

fn told(state: &State, command: &Command) -> Result<State, Refusal> {
    let events = Gates::decide(state, command, NOW)?;
    Ok(events.iter().try_fold(state.clone(), Gates::evolve).unwrap())
}

fn closed(why: Why) -> Standing {
    Standing::Closed { why }
}

#[test]
fn a_gate_without_an_evaluator_is_never_open_and_one_of_a_surface_is_unless_the_node_closes_it() {
    let (state, nothing) = (State::default(), Surfaces::default());
    assert_eq!(state.stand("deploy_ok", &nothing), Standing::NoEvaluator);
    assert_eq!(state.stand_for(run(1), "deploy_ok", &nothing), Standing::NoEvaluator);
    for name in ["artifact_write", "project_write", "twin_write"] {
        assert_eq!(state.stand(name, &nothing), Standing::Open { version: 0 });
        let read_only = Surfaces { read_only: [name.to_owned()].into(), ..Surfaces::default() };
        let variable = variable(name).unwrap();
        assert_eq!(state.stand(name, &read_only), closed(Why::ReadOnly(variable)));
        let refused = told(&state, &waive(&read_only, name, run(1)));
        assert_eq!(refused, Err(Refusal::ReadOnly(name.into())));
    }
    let refused = told(&state, &waive(&nothing, "deploy_ok", run(1)));
    assert_eq!(refused, Err(Refusal::NoSuchGate("deploy_ok".into())));
    assert_eq!(told(&state, &waive(&nothing, "No Gate", run(1))), Err(Refusal::BadName));
}

#[test]
fn a_gate_of_evidence_follows_the_newest() {
    let soft = declaring(Evaluator::Evidence, Hardness::Soft);
    let name = "tests_pass";
    let state = State::default();
    assert_eq!(state.stand(name, &soft), closed(Why::NoEvidence));
    let state = told(&state, &evaluate(&soft, Verdict::Failed, "3 red")).unwrap();
    assert_eq!(state.stand(name, &soft), closed(Why::Failed("3 red".into())));
    let state = told(&state, &evaluate(&soft, Verdict::Passed, "green")).unwrap();
    assert_eq!(state.stand(name, &soft), Standing::Open { version: 3 });
    // A node whose configuration does not name it goes by what was declared last.
    assert_eq!(state.stand(name, &Surfaces::default()), Standing::Open { version: 3 });
    // The same again says nothing; a declaration that changed is news, and the evidence stands.
    assert_eq!(Gates::decide(&state, &evaluate(&soft, Verdict::Passed, "green"), NOW), Ok(vec![]));
    let hard = declaring(Evaluator::Evidence, Hardness::Hard);
    let events = Gates::decide(&state, &evaluate(&hard, Verdict::Passed, "green"), NOW).unwrap();
    let names: Vec<&str> = events.iter().map(Event::name).collect();
    assert_eq!(names, ["gate_declared", "gate_evaluated"]);
    let open = declaring(Evaluator::Open, Hardness::Soft);
    let refused = told(&state, &evaluate(&open, Verdict::Passed, "x"));
    assert_eq!(refused, Err(Refusal::TakesNone(name.into())));
    assert_eq!(told(&state, &evaluate(&soft, Verdict::Passed, "")), Err(Refusal::BadEvidence));
}

#[test]
fn a_soft_gate_is_waived_for_one_run_until_the_next_verdict_and_a_hard_one_never() {
    let name = "tests_pass";
    for evaluator in [Evaluator::Evidence, Evaluator::Closed] {
        let hard = declaring(evaluator, Hardness::Hard);
        let refused = told(&State::default(), &waive(&hard, name, run(1)));
        assert_eq!(refused, Err(Refusal::Hard(name.into())));
        let soft = declaring(evaluator, Hardness::Soft);
        let state = told(&State::default(), &waive(&soft, name, run(1))).unwrap();
        assert_eq!(state.stand_for(run(1), name, &soft), Standing::Open { version: 2 });
        assert!(matches!(state.stand_for(run(2), name, &soft), Standing::Closed { .. }));
        assert!(matches!(state.stand(name, &soft), Standing::Closed { .. }));
        assert_eq!(Gates::decide(&state, &waive(&soft, name, run(1)), NOW), Ok(vec![]));
        // Hardened meanwhile, the waiver counts for nothing.
        assert!(matches!(state.stand_for(run(1), name, &hard), Standing::Closed { .. }));
    }
    let soft = declaring(Evaluator::Evidence, Hardness::Soft);
    let state = told(&State::default(), &waive(&soft, name, run(1))).unwrap();
    let failed = told(&state, &evaluate(&soft, Verdict::Failed, "new red")).unwrap();
    assert_eq!(failed.stand_for(run(1), name, &soft), closed(Why::Failed("new red".into())));
    let passed = told(&state, &evaluate(&soft, Verdict::Passed, "green")).unwrap();
    assert_eq!(told(&passed, &waive(&soft, name, run(1))), Err(Refusal::IsOpen(name.into())));
    let (said, by) = (soft.said(name), Actor::Admin);
    for reason in [String::new(), "x".repeat(1_001)] {
        let command = Command::Waive { name: name.into(), said, run: run(1), reason, by };
        assert_eq!(told(&state, &command), Err(Refusal::BadReason));
    }
}

#[test]
fn the_oldest_of_too_many_waivers_counts_no_more_and_too_many_gates_are_refused() {
    let soft = declaring(Evaluator::Closed, Hardness::Soft);
    let name = "tests_pass";
    let many = u128::try_from(WAIVERS_MAX).unwrap() + 1;
    let state = (0..many)
        .try_fold(State::default(), |state, nth| told(&state, &waive(&soft, name, run(nth))));
    let state = state.unwrap();
    assert_eq!(state.gates[name].waivers.len(), WAIVERS_MAX);
    assert!(matches!(state.stand_for(run(0), name, &soft), Standing::Closed { .. }));
    assert!(matches!(state.stand_for(run(1), name, &soft), Standing::Open { .. }));
    let full = State {
        gates: (0..GATES_MAX).map(|nth| (format!("g{nth}"), state.gates[name].clone())).collect(),
    };
    assert_eq!(told(&full, &waive(&soft, name, run(1))), Err(Refusal::Full));
}

/// The laws of an aggregate and those of gates, over every history of a small world.
#[test]
fn whatever_decide_says_evolve_accepts_and_no_hard_or_unknown_gate_is_ever_passed_by_a_waiver() {
    let name = "tests_pass";
    let mut nodes = vec![Surfaces::default()];
    for evaluator in Evaluator::ALL {
        nodes.extend(Hardness::ALL.map(|hardness| declaring(evaluator, hardness)));
    }
    let mut seen = BTreeSet::new();
    let mut layer = vec![State::default()];
    for _ in 0..4 {
        let mut next = vec![];
        for state in &layer {
            assert!(Gates::awake(state).is_empty() && Gates::pending(state).is_empty());
            for node in &nodes {
                let world = [
                    evaluate(node, Verdict::Passed, "a"),
                    evaluate(node, Verdict::Failed, "b"),
                    waive(node, name, run(1)),
                    waive(node, name, run(2)),
                ];
                for command in world {
                    let Ok(events) = Gates::decide(state, &command, NOW) else { continue };
                    let after = events.iter().try_fold(state.clone(), Gates::evolve);
                    let after = after.unwrap_or_else(|illegal| panic!("{illegal} in {state:#?}"));
                    assert_eq!(
                        Gates::decide(&after, &command, NOW),
                        Ok(vec![]),
                        "{command:?} twice"
                    );
                    let version =
                        |state: &State| state.gates.get(name).map_or(0, |gate| gate.version);
                    let more = u32::try_from(events.len()).unwrap();
                    assert_eq!(version(&after), version(state) + more);
                    passing(&after, &nodes);
                    if seen.insert(postcard::to_stdvec(&after).unwrap()) {
                        next.push(after);
                    }
                }
            }
        }
        layer = next;
    }
    assert!(seen.len() > 100, "a world of {} states is too small to say anything", seen.len());
}

/// Who passes although the gate is closed has a waiver, and the gate is soft.
fn passing(state: &State, nodes: &[Surfaces]) {
    let name = "tests_pass";
    for node in nodes {
        for nth in 1..=2 {
            let open = matches!(state.stand_for(run(nth), name, node), Standing::Open { .. });
            let waived = open && !matches!(state.stand(name, node), Standing::Open { .. });
            let soft = state.declaration(name, node.said(name)).map(|one| one.hardness);
            assert!(!waived || soft == Some(Hardness::Soft), "{node:?} in {state:?}");
        }
        let read_only = Surfaces { read_only: [name.to_owned()].into(), ..node.clone() };
        assert!(matches!(state.stand_for(run(1), name, &read_only), Standing::Closed { .. }));
    }
}

#[test]
fn the_bytes_of_an_event_do_not_change() {
    let soft = declaring(Evaluator::Evidence, Hardness::Soft);
    let evidence = Evidence { text: "3 red".into(), reference: Some("build 7".into()) };
    let name = "tests_pass".to_owned();
    let said = soft.said(&name);
    let command =
        Command::Evaluate { name, said, verdict: Verdict::Failed, evidence, by: Actor::Admin };
    let mut all = Gates::decide(&State::default(), &command, NOW).unwrap();
    let state = all.iter().try_fold(State::default(), Gates::evolve).unwrap();
    all.extend(Gates::decide(&state, &waive(&soft, "tests_pass", run(7)), NOW).unwrap());
    let samples: Vec<_> =
        all.iter().map(|event| (event.name(), Gates::encode(event).unwrap())).collect();
    golden::check(
        "gate.txt",
        include_str!("../golden/gate.txt"),
        Event::TABLE,
        &samples,
        |kind, schema, bytes| Event::decode(kind, schema, bytes).is_ok(),
    );
}
