//! Holds: asked once, answered once, and what an answer lets run is intended with it.

use super::*;
use crate::grant::Pattern;
use crate::run::approval::{Answer, ApprovalNo, Edited, Reach, Resolution, open as held, subject};
use crate::run::terms::Consent;

fn needing(class: ReplayClass) -> Terms {
    Terms { consent: Consent::Needed, ..Terms::plain(class, Millis(5_000)) }
}

fn writes(id: &str) -> Ask {
    ask(id, Verdict::Server(Box::new(needing(ReplayClass::Effectful))))
}

fn reads(id: &str) -> Ask {
    ask(id, server(ReplayClass::ReadOnly))
}

fn answer(approval: u32, resolution: Resolution) -> Command {
    let answer = Answer { subject: None, resolution, by: Actor::Admin };
    Command::Approval { approval: ApprovalNo(approval), answer: Box::new(answer) }
}

fn approve(approval: u32) -> Command {
    answer(approval, Resolution::Approved { edited: None, reach: Reach::Call })
}

fn deny(approval: u32) -> Command {
    answer(approval, Resolution::Denied { reason: "not today".into() })
}

fn said(state: &State, index: usize) -> &str {
    let ledger::Standing::Settled(said) = &state.tools[index].standing else {
        panic!("{:?}", state.tools[index].standing)
    };
    said
}

#[test]
fn a_held_call_is_intended_with_its_approval_and_not_before() {
    let given = [open(Plane::Run)];
    let when = answered(0, vec![writes("a")]);
    let state = check(&given, &when, Ok(&["model_answered", "approval_asked"]));
    let until = NOW.after(Millis(1_800_000));
    assert_eq!((Run::pending(&state).len(), Run::wake(&state)), (0, Wake::At(until)));
    assert!(Run::awake(&state).is_empty(), "a restart changes nothing");
    let given = [open(Plane::Run), when];
    let state = check(&given, &approve(0), Ok(&["approval_resolved", "tool_intent"]));
    assert_eq!(Run::pending(&state).len(), 1);
}

#[test]
fn the_first_answer_wins_the_same_again_is_harmless_and_another_is_refused() {
    let given = [open(Plane::Run), answered(0, vec![writes("a")]), approve(0)];
    check(&given, &approve(0), Ok(&[]));
    check(&given, &deny(0), Err(Refusal::AnsweredBefore("approved".into())));
    check(&given, &approve(1), Err(Refusal::NoSuchApproval(ApprovalNo(1))));
    let given = [open(Plane::Run), answered(0, vec![writes("a")])];
    let state = check(&given, &deny(0), Ok(&["approval_resolved", "model_asked"]));
    let told = state.transcript.last().unwrap().message().unwrap();
    assert!(
        told.results()
            .any(|r| r.content.contains("approval_denied") && r.content.contains("not today"))
    );
}

#[test]
fn nobody_s_answer_is_a_no() {
    let state = after(&[open(Plane::Run), answered(0, vec![writes("a")])]);
    let until = NOW.after(Millis(1_800_000));
    assert_eq!(Run::decide(&state, &Command::Due, Instant(until.0 - 1)), Ok(vec![]));
    let events = Run::decide(&state, &Command::Due, until).unwrap();
    let names: Vec<_> = events.iter().map(Event::name).collect();
    assert_eq!(names, ["approval_resolved", "model_asked"]);
    let late = fold(&state, &events).unwrap();
    let refused = Run::decide(&late, &approve(0), until);
    assert_eq!(refused, Err(Refusal::AnsweredBefore("expired".into())));
}

#[test]
fn the_end_of_a_run_voids_its_holds_in_the_same_commit() {
    let given = [open(Plane::Run), answered(0, vec![writes("a")])];
    check(&given, &Command::stop(), Ok(&["approval_resolved", "finished"]));
    let given = [given.to_vec(), vec![Command::stop()]].concat();
    check(&given, &approve(0), Err(Refusal::NotWaiting));
}

#[test]
fn a_batch_with_an_approval_runs_one_after_the_other_and_keeps_what_is_finished() {
    let given = [open(Plane::Run), answered(0, vec![reads("a"), writes("b"), reads("c")])];
    let state = after(&given);
    assert_eq!((Run::pending(&state).len(), held(&state).count()), (1, 0));
    let state = check(&given, &receipt(0, 0), Ok(&["tool_receipt", "approval_asked"]));
    assert_eq!(said(&state, 0), "done");
    let given = [given.to_vec(), vec![receipt(0, 0)]].concat();
    check(&given, &approve(0), Ok(&["approval_resolved", "tool_intent"]));
    let given = [given, vec![approve(0)]].concat();
    check(&given, &receipt(1, 0), Ok(&["tool_receipt", "tool_intent"]));
    let given = [given, vec![receipt(1, 0)]].concat();
    check(&given, &receipt(2, 0), Ok(&["tool_receipt", "model_asked"]));
}

#[test]
fn an_answer_is_bound_to_what_was_seen_and_may_change_it() {
    let given = [open(Plane::Run), answered(0, vec![writes("a")])];
    let edited = Edited {
        arguments: Json::from_bytes(br#"{"to":"b"}"#),
        terms: needing(ReplayClass::Effectful),
    };
    let bound = |seen| {
        let resolution =
            Resolution::Approved { edited: Some(Box::new(edited.clone())), reach: Reach::Call };
        let answer = Answer { subject: Some(seen), resolution, by: Actor::Admin };
        Command::Approval { approval: ApprovalNo(0), answer: Box::new(answer) }
    };
    let wrong = subject("tool_a", &Json::from_bytes(br#"{"to":"c"}"#));
    check(&given, &bound(wrong), Err(Refusal::OtherSubject));
    let right = subject("tool_a", &Json::from_bytes(b"{}"));
    let state = check(&given, &bound(right), Ok(&["approval_resolved", "tool_intent"]));
    assert_eq!(state.tools[0].arguments, edited.arguments);
    let Some((_, Effect::RunTool(run))) = Run::pending(&state).into_iter().next() else { panic!() };
    assert_eq!(run.arguments, edited.arguments);
}

#[test]
fn an_approval_for_the_run_covers_what_fits_and_nothing_else() {
    let pattern = Pattern::exact(&Json::from_bytes(b"{}"));
    let all = answer(0, Resolution::Approved { edited: None, reach: Reach::Run(pattern) });
    let given = [open(Plane::Run), answered(0, vec![writes("a")]), all, receipt(0, 0)];
    // The call itself was made: only one that is lost or failed is made again.
    let failed = ledger::Settled::Receipt(ToolOutcome::Failed, "no".into());
    let failed = Command::Tool { call: ToolNo(0), attempt: 0, outcome: failed };
    let again = [&given[..3], &[failed]].concat();
    check(&again, &answered(1, vec![writes("a")]), Ok(&["model_answered", "tool_intent"]));
    check(&given, &answered(1, vec![writes("b")]), Ok(&["model_answered", "approval_asked"]));
    let mut other = writes("a");
    other.arguments = Json::from_bytes(br#"{"x":1}"#);
    check(&given, &answered(1, vec![other]), Ok(&["model_answered", "approval_asked"]));
}

#[test]
fn an_approved_invocation_draws_its_call_with_its_approval() {
    let mut terms = brokered::terms(ReplayClass::Effectful);
    terms.consent = Consent::Needed;
    let call = ask("a", Verdict::Server(Box::new(terms)));
    let given = [open(Plane::Run), answered(0, vec![call])];
    assert!(after(&given).invocations.is_empty(), "what is only asked about draws nothing");
    let state = check(&given, &approve(0), Ok(&["approval_resolved", "tool_intent"]));
    assert_eq!(state.invocations.len(), 1);
}

/// The laws, over holds and invocations together.
#[test]
fn whatever_is_decided_of_holds_evolve_accepts() {
    let mut world = brokered::world();
    let mut terms = brokered::terms(ReplayClass::Effectful);
    terms.consent = Consent::Needed;
    let both = vec![ask("a", Verdict::Server(Box::new(terms))), reads("b"), writes("c")];
    world.push(answered(0, both));
    for approval in 0..2 {
        world.extend([approve(approval), deny(approval)]);
        let orphaned = Resolution::Orphaned { reason: "gone".into() };
        world.push(answer(approval, orphaned));
        world.push(answer(approval, Resolution::Expired));
    }
    explore(&world, 5);
}

/// One of each.
pub(super) fn samples() -> Vec<Event> {
    let given = [open(Plane::Run), answered(0, vec![writes("a")])];
    let edited =
        Edited { arguments: Json::from_bytes(b"{}"), terms: needing(ReplayClass::Effectful) };
    let pattern = Pattern::exact(&Json::from_bytes(b"{}"));
    let resolution =
        Resolution::Approved { edited: Some(Box::new(edited)), reach: Reach::Run(pattern) };
    let mut all = Run::decide(&after(&given[..1]), &given[1], NOW).unwrap();
    all.extend(Run::decide(&after(&given), &answer(0, resolution), NOW).unwrap());
    all
}

#[test]
fn a_call_that_was_made_in_this_turn_is_not_made_again_and_one_that_failed_is() {
    let given = [open(Plane::Run), answered(0, vec![reads("a"), reads("a"), reads("b")])];
    // The second is the same as the first, and waits for its outcome.
    assert_eq!(Run::pending(&after(&given)).len(), 2);
    let state = check(&given, &receipt(0, 0), Ok(&["tool_receipt", "tool_repeated"]));
    assert!(said(&state, 1).contains("\"cached\":true"), "{}", said(&state, 1));
    let given = [given.to_vec(), vec![receipt(0, 0), receipt(1, 0)]].concat();
    let when = answered(1, vec![reads("a")]);
    check(&given, &when, Ok(&["model_answered", "tool_repeated", "finished"]));
}
