//! The broker's ledger: what draws on the budget, what blocks what, and who may settle what.

use super::*;
use crate::run::halt::Halt;
use crate::run::ledger::UnknownReason;
use crate::run::mediated::{Disposition, Invoke, policy, unresolved};
use crate::run::rejection::Rejection;
use crate::run::terms::{Consent, GateSeen, Mediated};
use crate::tool_policy::{Frozen, OnUnknown, ToolPolicy};

pub(super) const REQUEST: &str = "00112233445566778899aabbccddeeff";
const OTHER: &str = "ffeeddccbbaa99887766554433221100";

pub(super) fn terms(class: ReplayClass) -> Terms {
    let mediated = Some(Box::new(Mediated { revision: "r1".into(), ..Mediated::default() }));
    Terms { mediated, ..Terms::plain(class, Millis(60_000)) }
}

pub(super) fn mediated(class: ReplayClass) -> Verdict {
    Verdict::Server(Box::new(terms(class)))
}

fn writing() -> Verdict {
    let gates = vec![GateSeen { name: "artifact_write".into(), version: 1 }];
    let terms = Terms { gates, ..Terms::plain(ReplayClass::Effectful, Millis(5_000)) };
    Verdict::Server(Box::new(terms))
}

fn looks(id: &str) -> Ask {
    ask(id, mediated(ReplayClass::ReadOnly))
}

fn open_with(policy: ToolPolicy) -> Command {
    let mut spec = Spec::clone(&spec(Plane::Run));
    spec.tool_policy = Frozen { policy, revision: 4 };
    spec.limits.steps_max = 100;
    Command::Open { spec: Arc::new(spec), session: None, grant: None }
}

fn lost(call: u32) -> Command {
    Command::Tool { call: ToolNo(call), attempt: 0, outcome: ledger::Settled::Lost }
}

fn refused(call: u32, class: Rejection, until: Option<Instant>) -> Command {
    let outcome = ledger::Settled::Refused(class, until, "no".into());
    Command::Tool { call: ToolNo(call), attempt: 0, outcome }
}

fn abandon(call: u32, request: &str) -> Command {
    Command::Abandon { call: ToolNo(call), request: request.into(), by: Actor::Admin }
}

const RESUME: Command = Command::Resume { by: Actor::Admin };

/// 30 s of the policy and 5 s of extra.
const LEASED: Millis = Millis(35_000);

#[track_caller]
fn at(state: &State, command: &Command, now: Instant) -> Result<State, Refusal> {
    Run::decide(state, command, now).map(|events| fold(state, &events).unwrap())
}

fn told(state: &State) -> Vec<String> {
    let bodies = state.transcript.iter().filter_map(|body| body.message().ok());
    bodies.flat_map(|m| m.results().map(|r| r.content.clone()).collect::<Vec<_>>()).collect()
}

#[test]
fn one_invocation_of_a_run_is_under_way_at_a_time_and_the_others_wait_in_order() {
    let given = [open(Plane::Run), answered(0, vec![looks("a"), looks("b")])];
    let state = after(&given);
    let pending: Vec<_> = Run::pending(&state).into_iter().map(|(id, _)| id).collect();
    assert_eq!(pending, [EffectId::Tool(ToolNo(0), 0)]);
    let state = check(&given, &receipt(0, 0), Ok(&["tool_receipt", "tool_intent"]));
    assert_eq!(Run::pending(&state).len(), 1);
    let given = [given.to_vec(), vec![receipt(0, 0)]].concat();
    check(&given, &receipt(1, 0), Ok(&["tool_receipt", "model_asked"]));
}

#[test]
fn what_goes_through_no_broker_does_not_wait_for_what_does() {
    let own = ask("b", server(ReplayClass::Effectful));
    let state = after(&[open(Plane::Run), answered(0, vec![looks("a"), own, looks("c")])]);
    let pending: Vec<_> = Run::pending(&state).into_iter().map(|(id, _)| id).collect();
    assert_eq!(pending, [0, 1].map(|call| EffectId::Tool(ToolNo(call), 0)));
}

#[test]
fn each_intent_draws_a_call_whatever_comes_of_it_and_the_limit_is_told_to_the_model() {
    let policy = ToolPolicy { calls_limit: 3, per_tool_limit: 3, ..ToolPolicy::V1 };
    let mut given = vec![open_with(policy)];
    let outcomes = [receipt(0, 0), refused(1, Rejection::Other, None), tool_not_sent(2, 0)];
    for (call, outcome) in (0_u32..).zip(outcomes) {
        given.extend([answered(call, vec![nth(call, looks("a"))]), outcome]);
    }
    let when = answered(3, vec![nth(3, looks("a"))]);
    let state = check(&given, &when, Ok(&["model_answered", "tool_refused", "model_asked"]));
    assert_eq!(state.invocations.len(), 3);
    let last = told(&state).pop().unwrap();
    assert!(last.contains("tool_budget_exhausted") && last.contains("calls_limit of 3"), "{last}");
}

fn told_no(state: &State) -> bool {
    matches!(&state.tools[1].standing, ledger::Standing::Settled(said) if said.contains("per_tool_limit of 1"))
}

#[test]
fn each_tool_has_a_limit_of_its_own() {
    let policy = ToolPolicy { calls_limit: 30, per_tool_limit: 1, ..ToolPolicy::V1 };
    let given = [open_with(policy), answered(0, vec![looks("a"), looks("a"), looks("b")])];
    assert!(told_no(&after(&given)), "known before the first is done");
    let state = check(&given, &receipt(0, 0), Ok(&["tool_receipt", "tool_intent"]));
    assert_eq!(
        state.invocations.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(),
        ["tool_a", "tool_b"]
    );
}

#[test]
fn a_lost_outcome_of_any_class_halts_the_run_and_nothing_is_sent_again() {
    for class in [ReplayClass::ReadOnly, ReplayClass::Idempotent, ReplayClass::Effectful] {
        let given = [open(Plane::Run), answered(0, vec![ask("a", mediated(class))])];
        let state = check(&given, &lost(0), Ok(&["tool_unknown"]));
        assert_eq!(state.halt, Some(Halt::Reconciliation));
        assert!(Run::pending(&state).is_empty() && Run::wake(&state) == Wake::OnCommand);
        let woken: Vec<_> = Run::awake(&after(&given)).iter().map(Event::name).collect();
        assert_eq!(woken, ["tool_unknown"], "a restart says the same");
    }
}

#[test]
fn while_an_outcome_is_unknown_what_builds_on_it_is_refused_and_what_does_not_goes_on() {
    let own = ask("d", server(ReplayClass::ReadOnly));
    let asks = vec![looks("a"), looks("b"), ask("c", writing()), own];
    let given = [open(Plane::Run), answered(0, asks)];
    // What writes was intended with the first; only what still waits is refused.
    let state = check(&given, &lost(0), Ok(&["tool_unknown", "tool_refused"]));
    assert!(
        matches!(state.tools[1].standing, ledger::Standing::Settled(ref said) if said.contains("unresolved_invocation"))
    );
    assert_eq!(Run::pending(&state).len(), 2);
    assert!(
        at(&state, &Command::Invoke(Box::new(invoke(1, "x"))), NOW)
            == Err(Refusal::Unresolved(ToolNo(0)))
    );
}

#[test]
fn an_unknown_outcome_is_abandoned_after_its_lease_once_and_then_the_run_is_resumed() {
    let given = [open(Plane::Run), answered(0, vec![looks("a")]), lost(0)];
    let state = after(&given);
    let late = NOW.after(LEASED);
    check(&given, &RESUME, Err(Refusal::Unresolved(ToolNo(0))));
    check(&given, &abandon(0, REQUEST), Err(Refusal::Leased(late)));
    let early = Instant(late.0 - 1);
    assert_eq!(at(&state, &abandon(0, REQUEST), early), Err(Refusal::Leased(late)));
    for wrong in [
        "",
        "00112233445566778899AABBCCDDEEFF",
        "0112233445566778899aabbccddeeff",
        "0x112233445566778899aabbccddeeff",
    ] {
        assert_eq!(at(&state, &abandon(0, wrong), late), Err(Refusal::NotARequestId), "{wrong}");
    }
    assert_eq!(at(&state, &abandon(7, REQUEST), late), Err(Refusal::NoSuchTool(ToolNo(7))));
    let settled = at(&state, &abandon(0, REQUEST), late).unwrap();
    assert_eq!(settled.halt, Some(Halt::Reconciliation), "abandoning resumes nothing");
    assert_eq!(
        at(&settled, &abandon(0, REQUEST), late).as_ref(),
        Ok(&settled),
        "twice is harmless"
    );
    assert_eq!(at(&settled, &abandon(0, OTHER), late), Err(Refusal::Settled("abandoned".into())));
    assert_eq!(settled.invocations.len(), 1, "no budget comes back");
    assert!(Run::pending(&settled).is_empty(), "nothing is sent");
    let resumed = at(&settled, &RESUME, late).unwrap();
    assert_eq!((resumed.halt.clone(), resumed.model.is_some()), (None, true));
    assert_eq!(told(&resumed), [ledger::ABANDONED_RESULT]);
    assert_eq!(at(&resumed, &RESUME, late), Err(Refusal::NotHalted));
}

#[test]
fn a_decision_is_not_taken_for_another_invocation() {
    let given = [open(Plane::Run), answered(0, vec![looks("a")]), lost(0)];
    let late = NOW.after(LEASED);
    let mut state = at(&after(&given), &abandon(0, REQUEST), late).unwrap();
    for command in [RESUME, answered(1, vec![looks("b")]), lost(1)] {
        state = at(&state, &command, late).unwrap();
    }
    let later = late.after(LEASED);
    assert_eq!(at(&state, &abandon(1, REQUEST), later), Err(Refusal::RequestIdUsed(ToolNo(0))));
    assert!(at(&state, &abandon(1, OTHER), later).is_ok());
}

#[test]
fn an_opt_in_policy_gives_up_what_only_reads_after_the_lease_and_says_so() {
    let policy = ToolPolicy { on_unknown_read_only: OnUnknown::Abandon, ..ToolPolicy::V1 };
    for (class, gives_up) in [(ReplayClass::ReadOnly, true), (ReplayClass::Effectful, false)] {
        let asks = vec![ask("a", mediated(class))];
        let state = after(&[open_with(policy), answered(0, asks), lost(0)]);
        let late = NOW.after(LEASED);
        let wake = if gives_up { Wake::At(late) } else { Wake::OnCommand };
        assert_eq!(Run::wake(&state), wake);
        assert_eq!(Run::decide(&state, &Command::Due, NOW), Ok(vec![]));
        let events = Run::decide(&state, &Command::Due, late).unwrap();
        let names: Vec<_> = events.iter().map(Event::name).collect();
        let then: &[&str] =
            if gives_up { &["tool_reconciled", "resumed", "model_asked"] } else { &[] };
        assert_eq!(names, then);
        if let Some(Event::ToolReconciled(settled)) = events.first() {
            assert_eq!(settled.by, Decider::Policy(4));
        }
    }
}

#[test]
fn a_typed_rejection_pauses_the_run_until_its_time_or_until_somebody_resumes_it() {
    for class in [Rejection::Quota, Rejection::Authentication, Rejection::RateLimit] {
        let given = [open(Plane::Run), answered(0, vec![looks("a"), looks("b")])];
        let until = NOW.after(Millis(9_000));
        let when = refused(0, class, Some(until));
        let state = check(&given, &when, Ok(&["tool_receipt", "paused"]));
        assert_eq!((Run::wake(&state), Run::pending(&state).len()), (Wake::At(until), 0));
        let due = at(&state, &Command::Due, until).unwrap();
        assert_eq!((due.halt, due.invocations.len()), (None, 2), "the next one is admitted");
        let forever = check(&given, &refused(0, class, None), Ok(&["tool_receipt", "paused"]));
        assert_eq!(Run::wake(&forever), Wake::OnCommand);
        assert!(at(&forever, &RESUME, NOW).unwrap().halt.is_none());
    }
    let given = [open(Plane::Run), answered(0, vec![looks("a")])];
    check(&given, &refused(0, Rejection::Other, None), Ok(&["tool_receipt", "model_asked"]));
}

fn invoke(correlation: u128, name: &str) -> Invoke {
    let (name, arguments) = (name.to_owned(), Json::from_bytes(b"{}"));
    Invoke { correlation, name, arguments, terms: terms(ReplayClass::ReadOnly) }
}

fn invoked(correlation: u128, name: &str) -> Command {
    Command::Invoke(Box::new(invoke(correlation, name)))
}

#[test]
fn the_same_correlation_with_the_same_input_finds_what_came_of_it_and_another_input_is_refused() {
    let given = [open(Plane::Run)];
    check(&given, &invoked(7, "x"), Ok(&["tool_intent"]));
    let given = [open(Plane::Run), invoked(7, "x"), receipt(0, 0)];
    let state = check(&given, &invoked(7, "x"), Ok(&[]));
    assert_eq!(state.invocations[0].disposition, Disposition::Succeeded("done".into()));
    check(&given, &invoked(7, "y"), Err(Refusal::OtherInvocation));
    let mut other = invoke(7, "x");
    other.terms.mediated =
        Some(Box::new(Mediated { revision: "r2".into(), ..Mediated::default() }));
    check(&given, &Command::Invoke(Box::new(other)), Err(Refusal::OtherInvocation));
    check(&given, &invoked(8, "x"), Ok(&["tool_intent"]));
    let mut free = invoke(9, "x");
    free.terms.mediated = None;
    check(&given, &Command::Invoke(Box::new(free)), Err(Refusal::NotMediated("x".into())));
    let mut asks = invoke(9, "x");
    asks.terms.consent = Consent::Needed;
    check(&given, &Command::Invoke(Box::new(asks)), Err(Refusal::ConsentNeeded("x".into())));
}

#[test]
fn an_unknown_outcome_from_outside_blocks_the_end_even_when_the_model_says_it_is_done() {
    let given = [open(Plane::Run), invoked(7, "x"), lost(0)];
    let state = check(&given, &answered(0, vec![]), Ok(&["model_answered"]));
    assert_eq!((state.ended(), state.halt.clone()), (None, Some(Halt::Reconciliation)));
    let late = NOW.after(LEASED);
    let settled = at(&state, &abandon(0, REQUEST), late).unwrap();
    let resumed = at(&settled, &RESUME, late).unwrap();
    assert_eq!(resumed.ended().unwrap().reason, Reason::Answered);
    // And a failed try waits with the rest.
    let failed = check(&given, &failed(0, Class::ServerError, 0), Ok(&["model_failed"]));
    let settled = at(&failed, &abandon(0, REQUEST), late).unwrap();
    assert!(at(&settled, &RESUME, late).unwrap().model.is_some());
}

#[test]
fn what_is_unknown_when_a_run_is_stopped_can_still_be_settled() {
    let given = [open(Plane::Run), answered(0, vec![looks("a")]), Command::stop()];
    let state = after(&given);
    assert_eq!(state.ended().unwrap().outcome, Outcome::Cancelled);
    let unknown = Disposition::Unknown(UnknownReason::Stopped);
    assert_eq!(unresolved(&state).unwrap().disposition, unknown);
    assert!(unresolved(&at(&state, &abandon(0, REQUEST), NOW.after(LEASED)).unwrap()).is_none());
    check(&given, &RESUME, Err(Refusal::Ended));
}

/// One at a time, no more than the budget, and nothing delivered over what nobody knows.
pub(super) fn bounds(state: &State) {
    let pending = state.invocations.iter().filter(|one| one.disposition == Disposition::Pending);
    assert!(pending.count() <= 1, "two at a time: {state:?}");
    let limit = policy(state).policy.calls_limit;
    assert!(state.invocations.len() <= usize::try_from(limit).unwrap(), "over budget: {state:?}");
    let delivered = state.ended().is_some_and(|end| end.outcome == Outcome::Completed);
    assert!(!(delivered && unresolved(state).is_some()), "delivered over an unknown: {state:?}");
}

pub(super) fn world() -> Vec<Command> {
    let policy =
        ToolPolicy { calls_limit: 2, on_unknown_read_only: OnUnknown::Abandon, ..ToolPolicy::V1 };
    let mut all = vec![
        open_with(policy),
        Command::stop(),
        Command::Due,
        RESUME,
        abandon(0, REQUEST),
        abandon(1, OTHER),
    ];
    all.extend([invoked(7, "x"), invoked(8, "x")]);
    for call in 0..2 {
        all.push(answered(call, vec![]));
        let own = ask("b", server(ReplayClass::ReadOnly));
        all.push(answered(call, vec![looks("a"), own, ask("c", writing())]));
        all.push(answered(call, vec![looks("a"), ask("c", mediated(ReplayClass::Effectful))]));
        all.push(failed(call, Class::ServerError, 0));
        all.push(model_not_sent(call));
    }
    for call in 0..3 {
        all.extend([receipt(call, 0), lost(call), tool_not_sent(call, 0)]);
        all.push(refused(call, Rejection::RateLimit, Some(NOW.after(Millis(1_000)))));
    }
    all
}

/// The laws of a run with everything that the broker adds; and nothing is delivered over an unknown outcome.
#[test]
fn whatever_is_decided_of_invocations_evolve_accepts() {
    explore(&world(), 5);
}

/// One of each event that the broker adds, and an intent of its own.
pub(super) fn samples() -> Vec<Event> {
    let asks = vec![looks("a"), ask("c", writing())];
    let given = [open(Plane::Run), answered(0, asks)];
    let until = Some(NOW.after(Millis(1_000)));
    let paused = refused(0, Rejection::RateLimit, until);
    let mut all = Run::decide(&after(&given[..1]), &given[1], NOW).unwrap();
    all.extend(Run::decide(&after(&given), &paused, NOW).unwrap());
    all.extend(
        Run::decide(&after(&[given.to_vec(), vec![paused]].concat()), &RESUME, NOW).unwrap(),
    );
    let unknown = after(&[given.to_vec(), vec![lost(0)]].concat());
    all.extend(Run::decide(&unknown, &abandon(0, REQUEST), NOW.after(LEASED)).unwrap());
    all
}
