//! The rules of a run, by example and exhaustively over a small world.

use super::ledger::{Ask, ToolOutcome, Verdict};
use super::life::{Finished, Outcome, Reason};
use super::spec::{Candidate, Delivery, Limits, ReplayClass};
use super::terms::Terms;
use super::unsent::Flight;
use super::*;
use crate::codec::golden;
use crate::id::Place;
use crate::json::Json;
use crate::leave::NotSent;
use crate::message::{Message, Role, ToolCall};
use crate::model_call::Class;
use crate::prompt::{Catalogue, Params};
use crate::quantity::{MicroUsd, Millis, Tokens};
use crate::record::{Actor, Hash};
use crate::usage::{Billing, Price, Rates, Usage};
use std::collections::BTreeSet;
use step::{Answer, Charge, Failure, Settled, Stop};

const NOW: Instant = Instant(1_700_000_000_000_000);

fn session() -> SessionId {
    SessionId::new(Place::default(), 1)
}

fn candidate(model: &str) -> Candidate {
    let usual = Rates {
        input: MicroUsd(1_000_000),
        output: MicroUsd(2_000_000),
        cached_input: None,
        cache_write: None,
    };
    Candidate {
        provider: "openai".into(),
        model: model.into(),
        price: Some(Price { usual, long: None }),
        billing: Billing::Metered,
        output_max: Tokens(100),
        family: "f".into(),
        context_max: None,
        tools_max: None,
    }
}

fn spec(plane: Plane) -> Arc<Spec> {
    Arc::new(Spec {
        plane,
        delivery: Delivery::Live,
        project: "default".into(),
        caller: Actor::Admin,
        route: vec![candidate("one"), candidate("two")],
        route_source: "call".into(),
        role: crate::role::Role::chat(),
        phase: None,
        dropped: vec![],
        independence: crate::role::Independence::Off,
        tools: Catalogue::default(),
        plan: Default::default(),
        server_tools: vec!["note_append".into(), "clock_now".into()],
        params: Params::default(),
        input: vec![Message::text(Role::User, "hi").body()],
        limits: Limits { steps_max: 2, ..Limits::default() },
        approval_mode: spec::ApprovalMode::Hold,
        source: terms::Source::default(),
        budgets: vec![],
        tool_policy: crate::tool_policy::Frozen::FIRST,
        campaign: None,
        logic: spec::LOGIC,
        metadata: BTreeMap::new(),
        seed: 7,
        input_hash: Hash([1; 32]),
    })
}

fn open(plane: Plane) -> Command {
    Command::Open { spec: spec(plane), session: None, grant: None }
}

fn granted(generated_by: Option<&str>) -> Grant {
    let history = vec![MessageRef { hash: Hash([9; 32]), bytes: 10, role: Role::User }];
    Grant { fence: Fence(1), history, generated_by: generated_by.map(str::to_owned) }
}

fn open_in_session() -> Command {
    let grant = granted(None);
    Command::Open { spec: spec(Plane::Model), session: Some(session()), grant: Some(grant) }
}

fn ask(id: &str, verdict: Verdict) -> Ask {
    Ask { id: id.into(), name: format!("tool_{id}"), arguments: Json::from_bytes(b"{}"), verdict }
}

/// The same call is not made twice in a run: each of these is another one.
fn nth(n: u32, call: Ask) -> Ask {
    Ask { arguments: Json::from(format!("{{\"n\":{n}}}")), ..call }
}

fn server(class: ReplayClass) -> Verdict {
    Verdict::Server(Box::new(Terms::plain(class, Millis(5_000))))
}

fn answered(call: u32, asks: Vec<Ask>) -> Command {
    let calls = asks.iter().map(|ask| {
        crate::message::Part::ToolCall(ToolCall {
            id: ask.id.clone(),
            name: ask.name.clone(),
            arguments: "{}".into(),
        })
    });
    let body = Message { role: Role::Assistant, name: None, parts: calls.collect() }.body();
    let usage = Usage { prompt: Some(Tokens(10)), completion: Some(Tokens(5)), ..Usage::default() };
    let stop = if asks.is_empty() { Stop::End } else { Stop::ToolCalls };
    let answer =
        Answer { body, asks, stop, usage, served_model: None, request_id: None, profile: None };
    Command::Model { call: CallNo(call), outcome: Settled::Answered(answer) }
}

/// What is seen of a call before it is cut.
fn seen() -> Usage {
    Usage { prompt: Some(Tokens(7)), completion: Some(Tokens(1)), ..Usage::default() }
}

fn failed(call: u32, class: Class, handed_out: u64) -> Command {
    let failure = Failure {
        class,
        status: Some(500),
        request_id: None,
        hint: None,
        charge: Charge::Reserved,
        handed_out,
        message: "boom".into(),
        profile: None,
        others: 0,
        renewed: false,
        took: Millis(3),
        partial: seen(),
    };
    Command::Model { call: CallNo(call), outcome: Settled::Failed(failure) }
}

fn receipt(call: u32, attempt: u32) -> Command {
    let outcome = ledger::Settled::Receipt(ToolOutcome::Succeeded, "done".into());
    Command::Tool { call: ToolNo(call), attempt, outcome }
}

const LATE: NotSent = NotSent::TooLate { waited: Millis(2_500) };

fn model_not_sent(call: u32) -> Command {
    Command::Model { call: CallNo(call), outcome: Settled::NotSent(LATE) }
}

fn tool_not_sent(call: u32, attempt: u32) -> Command {
    let outcome = ledger::Settled::NotSent(LATE);
    Command::Tool { call: ToolNo(call), attempt, outcome }
}

fn results(call: &str) -> Command {
    Command::ClientAnswer { results: vec![Message::tool_result(call, "42".into()).body()] }
}

#[track_caller]
fn after(commands: &[Command]) -> State {
    commands.iter().fold(State::default(), |state, command| {
        let events = Run::decide(&state, command, NOW).unwrap();
        fold(&state, &events).unwrap()
    })
}

#[track_caller]
fn check(given: &[Command], when: &Command, then: Result<&[&str], Refusal>) -> State {
    let state = after(given);
    let decided = Run::decide(&state, when, NOW);
    let names: Result<Vec<_>, Refusal> =
        decided.clone().map(|events| events.iter().map(Event::name).collect());
    assert_eq!(names, then.map(<[_]>::to_vec));
    fold(&state, &decided.unwrap_or_default()).unwrap()
}

#[test]
fn a_run_that_stands_alone_intends_its_call_in_its_first_commit() {
    let state = check(&[], &open(Plane::Model), Ok(&["queued", "started", "model_asked"]));
    assert_eq!(Run::pending(&state).len(), 1);
    assert_eq!(Run::wake(&state), Wake::Now);
    // 28 bytes of message and 2 of tools at most one token each, and all of the output.
    let reserved = state.model.unwrap().asked.reserved;
    let bytes = Message::text(Role::User, "hi").body().json().as_bytes().len() as u64 + 2;
    assert_eq!(reserved, Some(MicroUsd(bytes + 200)));
}

#[test]
fn an_answer_without_calls_ends_it_in_the_same_commit() {
    let given = [open(Plane::Model)];
    let state = check(&given, &answered(0, vec![]), Ok(&["model_answered", "finished"]));
    assert_eq!(state.total.cost, Some(MicroUsd(20)));
    assert_eq!(state.ended().unwrap().reason, Reason::Answered);
    assert_eq!(Run::wake(&state), Wake::OnCommand);
}

#[test]
fn the_same_request_twice_changes_nothing_and_another_one_is_refused() {
    check(&[open(Plane::Model)], &open(Plane::Model), Ok(&[]));
    let mut other = Spec::clone(&spec(Plane::Model));
    other.input_hash = Hash([2; 32]);
    let command = Command::Open { spec: Arc::new(other), session: None, grant: None };
    check(&[open(Plane::Model)], &command, Err(Refusal::OtherInput));
}

#[test]
fn a_run_of_a_session_waits_for_its_grant() {
    let waiting = Command::Open { spec: spec(Plane::Model), session: Some(session()), grant: None };
    let state = check(&[], &waiting, Ok(&["queued"]));
    assert_eq!((Run::pending(&state).len(), Run::wake(&state)), (0, Wake::OnCommand));
    check(&[waiting], &open_in_session(), Ok(&["started", "model_asked"]));
}

#[test]
fn server_tools_are_intended_with_the_answer_and_their_results_go_back_in_the_models_order() {
    let asks = vec![
        ask("a", server(ReplayClass::Effectful)),
        ask("b", Verdict::Refused("no such tool".into())),
        ask("c", server(ReplayClass::ReadOnly)),
    ];
    let given = [open(Plane::Run), answered(0, asks)];
    let state = after(&given);
    assert_eq!(Run::pending(&state).len(), 2);
    check(&given, &receipt(1, 0), Ok(&["tool_receipt"]));
    let given = [given.to_vec(), vec![receipt(1, 0)]].concat();
    let state = check(&given, &receipt(0, 0), Ok(&["tool_receipt", "model_asked"]));
    let told: Vec<String> = state.transcript[2..]
        .iter()
        .flat_map(|body| {
            body.message().unwrap().results().map(|r| r.call.clone()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(told, ["a", "b", "c"]);
}

#[test]
fn calls_of_the_callers_tools_end_a_run_that_stands_alone() {
    let given = [open(Plane::Model)];
    let state = check(
        &given,
        &answered(0, vec![ask("a", Verdict::Client)]),
        Ok(&["model_answered", "finished"]),
    );
    assert_eq!(state.ended().unwrap().reason, Reason::ToolCalls);
}

#[test]
fn calls_of_the_callers_tools_are_held_in_a_session_until_they_come_back_or_the_time_is_up() {
    let given = [open_in_session(), answered(0, vec![ask("a", Verdict::Client)])];
    let state = after(&given);
    let until = NOW.after(Millis(600_000));
    assert_eq!(Run::wake(&state), Wake::At(until));
    check(&given, &results("b"), Err(Refusal::ResultMissing("a".into())));
    check(&given, &results("a"), Ok(&["client_tools_answered", "model_asked"]));
    check(&given, &Command::ClientGone, Ok(&["client_tools_gone", "finished"]));
    check(&given, &Command::Due, Ok(&[]));
    let late = Run::decide(&state, &Command::Due, until).unwrap();
    let ended = fold(&state, &late).unwrap();
    assert_eq!(ended.ended().unwrap().reason, Reason::ClientToolGone);
}

#[test]
fn a_failed_call_is_asked_again_and_its_reservation_stays_counted() {
    let state = check(
        &[open(Plane::Model)],
        &failed(0, Class::ServerError, 0),
        Ok(&["model_failed", "model_asked"]),
    );
    assert_eq!((state.total.calls_unknown, state.step), (1, 1));
    assert!(state.total.cost_upper.is_some());
}

#[test]
fn a_call_that_was_not_sent_is_asked_again_for_nothing() {
    let given = [open(Plane::Model)];
    let before = after(&given);
    let state = check(&given, &model_not_sent(0), Ok(&["model_not_sent", "model_asked"]));
    assert_eq!((state.total, state.attempts, state.step), (before.total, before.attempts, 1));
    assert_eq!((state.model_calls(), state.next_call), (1, CallNo(2)));
    // The first time at once, then at a pace; whatever is sent begins the row anew.
    let asked = |state: &State| state.model.as_ref().unwrap().asked.not_before;
    assert_eq!(asked(&state), NOW);
    let given = [open(Plane::Model), model_not_sent(0)];
    let state = check(&given, &model_not_sent(1), Ok(&["model_not_sent", "model_asked"]));
    assert!(asked(&state) >= NOW.after(Millis(250)), "{:?}", asked(&state));
    let given = [open(Plane::Model), model_not_sent(0), failed(1, Class::ServerError, 0)];
    let state = check(&given, &model_not_sent(2), Ok(&["model_not_sent", "model_asked"]));
    assert_eq!((asked(&state), state.attempts.total, state.total.calls), (NOW, 1, 1));
}

#[test]
fn a_call_that_was_not_sent_uses_up_no_budget_of_calls() {
    let mut one = Spec::clone(&spec(Plane::Run));
    one.limits.model_calls_max = Some(1);
    let command = Command::Open { spec: Arc::new(one), session: None, grant: None };
    let given = [command, model_not_sent(0)];
    check(&given, &model_not_sent(1), Ok(&["model_not_sent", "model_asked"]));
    check(&given, &failed(1, Class::ServerError, 0), Ok(&["model_failed", "finished"]));
}

#[test]
fn a_tool_that_was_not_called_is_told_so_to_the_model_whatever_its_class() {
    for class in [ReplayClass::ReadOnly, ReplayClass::Idempotent, ReplayClass::Effectful] {
        let given = [open(Plane::Run), answered(0, vec![ask("a", server(class))])];
        let state = check(&given, &tool_not_sent(0, 0), Ok(&["tool_not_sent", "model_asked"]));
        let told = Message::tool_result("a", ledger::NOT_SENT_RESULT.into()).body();
        assert_eq!((state.transcript.last(), state.tools_unknown), (Some(&told), 0));
        check(&given, &tool_not_sent(0, 1), Ok(&[]));
    }
}

#[test]
fn text_that_a_model_plane_caller_has_read_is_not_taken_back() {
    let given = [open(Plane::Model)];
    check(&given, &failed(0, Class::StreamTruncated, 5), Ok(&["model_failed", "finished"]));
    check(
        &[open(Plane::Run)],
        &failed(0, Class::StreamTruncated, 5),
        Ok(&["model_failed", "model_asked"]),
    );
}

#[test]
fn stop_closes_everything_that_is_open_in_one_commit() {
    let asks = vec![ask("a", server(ReplayClass::Effectful))];
    check(&[open(Plane::Run)], &Command::stop(), Ok(&["model_unknown", "finished"]));
    let given = [open(Plane::Run), answered(0, asks)];
    check(&given, &Command::stop(), Ok(&["tool_unknown", "finished"]));
    check(&[given.to_vec(), vec![Command::stop()]].concat(), &Command::stop(), Ok(&[]));
}

#[test]
fn the_step_limit_and_the_budget_end_a_run() {
    let tool = |n| vec![nth(n, ask("a", server(ReplayClass::ReadOnly)))];
    let given = [open(Plane::Run), answered(0, tool(0)), receipt(0, 0), answered(1, tool(1))];
    let state = check(&given, &receipt(1, 0), Ok(&["tool_receipt", "finished"]));
    assert_eq!(state.ended().unwrap().reason, Reason::StepLimit);
    let mut poor = Spec::clone(&spec(Plane::Run));
    poor.limits.cost_max = Some(MicroUsd(50));
    let command = Command::Open { spec: Arc::new(poor), session: None, grant: None };
    let state = check(&[], &command, Ok(&["queued", "started", "finished"]));
    assert_eq!(state.ended().unwrap().reason, Reason::Budget);
}

#[test]
fn a_wake_treats_each_replay_class_as_ruled() {
    let asks = vec![
        ask("a", server(ReplayClass::ReadOnly)),
        ask("b", server(ReplayClass::Idempotent)),
        ask("c", server(ReplayClass::Effectful)),
    ];
    let state = after(&[open(Plane::Run), answered(0, asks)]);
    let names: Vec<_> = Run::awake(&state).iter().map(Event::name).collect();
    assert_eq!(names, ["tool_retried", "tool_retried", "tool_unknown"]);
    let woken = fold(&state, &Run::awake(&state)).unwrap();
    let open: Vec<_> = Run::pending(&woken).into_iter().map(|(id, _)| id).collect();
    assert_eq!(open, [EffectId::Tool(ToolNo(0), 1), EffectId::Tool(ToolNo(1), 1)]);
}

#[test]
fn a_wake_records_an_open_model_call_as_unknown_and_asks_again_until_it_was_lost_too_often() {
    let mut state = after(&[open(Plane::Model)]);
    for lost in 1..5_u32 {
        state = fold(&state, &Run::awake(&state)).unwrap();
        assert_eq!(
            (state.total.calls_unknown, state.next_call),
            (u64::from(lost), CallNo(lost + 1))
        );
    }
    let names: Vec<_> = Run::awake(&state).iter().map(Event::name).collect();
    assert_eq!(names, ["model_unknown", "finished"]);
}

fn world() -> Vec<Command> {
    let mut all = vec![open(Plane::Run), open_in_session(), Command::stop(), Command::Due];
    all.extend([Command::ClientGone, results("a"), Command::withhold()]);
    all.push(Command::Stop { seen: Flight::Stayed(CallNo(0)) });
    for call in 0..3 {
        all.push(answered(call, vec![]));
        all.push(answered(call, vec![ask("a", Verdict::Client)]));
        let mixed = vec![
            ask("a", Verdict::Client),
            ask("b", server(ReplayClass::Effectful)),
            ask("c", Verdict::Refused("no".into())),
        ];
        all.push(answered(call, mixed));
        let tools =
            [ReplayClass::ReadOnly, ReplayClass::Effectful].map(|class| ask("a", server(class)));
        all.push(answered(call, tools.to_vec()));
        all.push(failed(call, Class::ServerError, 0));
        all.push(failed(call, Class::ContentPolicy, 3));
        all.push(Command::Model { call: CallNo(call), outcome: Settled::Lost });
        all.push(model_not_sent(call));
    }
    for call in 0..2 {
        all.push(receipt(call, 0));
        all.push(Command::Tool { call: ToolNo(call), attempt: 0, outcome: ledger::Settled::Lost });
        all.push(receipt(call, 1));
        all.push(tool_not_sent(call, 0));
    }
    all
}

/// The four laws over every history of a small world; the replay of each commit decides the same.
#[test]
fn whatever_decide_and_awake_say_evolve_accepts() {
    explore(&world(), 6);
}

/// The same for runs that budgets count.
#[test]
fn whatever_decide_and_awake_say_of_slices_evolve_accepts_and_the_sums_hold() {
    explore(&draws::world(), 9);
}

fn explore(world: &[Command], commits: u32) {
    let times = [NOW, NOW.after(Millis(2_000_000))];
    let mut seen = BTreeSet::new();
    let mut layer = vec![State::default()];
    for _ in 0..commits {
        let mut next = vec![];
        for state in &layer {
            laws(state);
            let mut histories = vec![(NOW, Run::awake(state))];
            for command in world {
                histories.extend(
                    times.map(|at| (at, Run::decide(state, command, at).unwrap_or_default())),
                );
            }
            for (at, events) in histories.into_iter().filter(|(_, events)| !events.is_empty()) {
                let after = fold(state, &events)
                    .unwrap_or_else(|illegal| panic!("{illegal}: {events:#?} in {state:#?}"));
                let again = replay::commit(state.clone(), &events, at, replay::Logic::Same);
                assert_eq!(again.as_ref(), Ok(&after), "replay decides otherwise: {events:#?}");
                if seen.insert(crate::journal::hash(&postcard::to_stdvec(&after).unwrap())) {
                    next.push(after);
                }
            }
        }
        layer = next;
    }
    assert!(seen.len() > 500, "a world of {} states is too small to say anything", seen.len());
}

/// Asking for a slice and giving one back are no intents that can be lost: begun again, they find what is already so.
fn is_repeated(id: &EffectId) -> bool {
    matches!(id, EffectId::Slice(_) | EffectId::Return(_))
}

fn laws(state: &State) {
    draws::sums(state);
    brokered::bounds(state);
    let all = Run::pending(state).into_iter().map(|(id, _)| id);
    let (repeated, pending): (BTreeSet<_>, BTreeSet<_>) = all.partition(is_repeated);
    let slices = if state.ended().is_some() {
        state.slices.keys().map(|scope| EffectId::Return(*scope)).collect()
    } else {
        state.asking.iter().map(|open| EffectId::Slice(open.ask)).collect()
    };
    assert_eq!(repeated, slices, "a slice is not asked for, or not given back: {state:?}");
    let woken = fold(state, &Run::awake(state)).unwrap();
    let still: BTreeSet<_> = Run::pending(&woken).into_iter().map(|(id, _)| id).collect();
    let now = Run::wake(state) == Wake::Now;
    assert!(pending.is_disjoint(&still), "an old intent is still open: {still:?}");
    assert!(state.ended().is_none() || pending.is_empty(), "ended and owing: {state:?}");
    let open = state.model.is_some() || ledger::open(state).next().is_some();
    assert_eq!(open, !pending.is_empty(), "open and not pending, or the other way: {state:?}");
    assert_eq!(open || !repeated.is_empty(), now, "owes and does not wake: {state:?}");
    let asks = approval::open(state).next().is_some();
    let halted = state.halt.is_some() || asks;
    let waits = halted || state.held.is_some() || state.delayed.is_some() || state.asking.is_some();
    let stuck = state.life == Life::Running && !open && !waits;
    assert!(!stuck, "runs and waits for nothing: {state:?}");
}

mod approvals;
mod brokered;
mod bytes;
mod draws;
mod folded;
mod offered;
mod partial;
mod served;
mod spend;
mod withheld;
