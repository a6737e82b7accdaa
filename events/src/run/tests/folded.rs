//! What a run does about a conversation that is too long: it is folded, once more where that was not enough, and then
//! somebody else is asked or the run ends and says so.

use super::*;
use crate::context::Fold;

fn talk(turns: usize, bytes: usize) -> Vec<Body> {
    let turn = |n: usize| {
        let text = format!("{n} {}", "t".repeat(bytes));
        [Message::text(Role::User, &text).body(), Message::text(Role::Assistant, &text).body()]
    };
    let question = Message::text(Role::User, "and now?").body();
    (0..turns).flat_map(turn).chain([question]).collect()
}

fn spec_of(plane: Plane, input: Vec<Body>, reads: Option<u64>) -> Arc<Spec> {
    let mut spec = Spec::clone(&spec(plane));
    spec.input = input;
    spec.limits = Limits { steps_max: 12, ..Limits::default() };
    for one in &mut spec.route {
        one.context_max = reads.map(Tokens);
    }
    Arc::new(spec)
}

fn alone(plane: Plane, input: Vec<Body>, reads: Option<u64>) -> Command {
    Command::Open { spec: spec_of(plane, input, reads), session: None, grant: None }
}

fn asked(state: &State) -> (u32, Option<Fold>) {
    let asked = &state.model.as_ref().unwrap().asked;
    (asked.candidate, asked.fold)
}

fn long(call: u32) -> Command {
    failed(call, Class::ContextOverflow, 0)
}

const AGAIN: Result<&[&str], Refusal> = Ok(&["model_failed", "model_asked"]);
const ENDS: Result<&[&str], Refusal> = Ok(&["model_failed", "finished"]);

#[test]
fn an_overflow_folds_once_and_asks_the_same_one_and_then_the_next_and_then_it_ends_and_says_why() {
    for class in [Class::ContextOverflow, Class::PayloadTooLarge] {
        let given = [alone(Plane::Model, talk(10, 1_000), None)];
        let whole = after(&given);
        assert_eq!(asked(&whole), (0, None));
        let state = check(&given, &failed(0, class, 0), AGAIN);
        let (candidate, fold) = asked(&state);
        assert!(candidate == 0 && fold.unwrap().turns.is_some(), "{fold:?}");
        let of = |state: &State| state.model.as_ref().unwrap().asked.clone();
        assert_ne!(of(&state).request, of(&whole).request);
        assert!(of(&state).reserved < of(&whole).reserved, "less is sent, less is reserved");
        assert_eq!(state.transcript, whole.transcript, "what was said stays");
        assert!(state.context().unwrap().folded > 10);

        // It was not enough: the other one is asked, whole, and has a fold of its own.
        let mut given = [given.to_vec(), vec![failed(0, class, 0)]].concat();
        assert_eq!(asked(&check(&given, &failed(1, class, 0), AGAIN)), (1, None));
        given.push(failed(1, class, 0));
        let (candidate, fold) = asked(&check(&given, &failed(2, class, 0), AGAIN));
        assert!(candidate == 1 && fold.is_some());
        given.push(failed(2, class, 0));
        let end = check(&given, &failed(3, class, 0), ENDS).ended().unwrap().clone();
        assert_eq!((end.outcome, end.reason), (Outcome::Errored, Reason::ContextUnfit(class)));
        assert!(end.detail.contains("folded once and is still too long"), "{}", end.detail);
        // An answer ends it as any other.
        given.pop();
        given.push(failed(2, class, 0));
        let state = check(&given, &answered(3, vec![]), Ok(&["model_answered", "finished"]));
        assert_eq!(state.ended().unwrap().reason, Reason::Answered);
    }
}

#[test]
fn what_a_fold_would_not_make_a_tenth_shorter_is_not_asked_again() {
    for input in
        [talk(0, 0), talk(6, 60), vec![Message::text(Role::User, &"q".repeat(90_000)).body()]]
    {
        let given = [alone(Plane::Model, input, None)];
        let state = check(&given, &long(0), AGAIN);
        assert_eq!(asked(&state), (1, None));
        let given = [given.to_vec(), vec![long(0)]].concat();
        let end = check(&given, &long(1), ENDS).ended().unwrap().clone();
        assert_eq!(end.reason, Reason::ContextUnfit(Class::ContextOverflow));
        assert!(end.detail.contains("would not make it a tenth shorter"), "{}", end.detail);
    }
}

#[test]
fn the_past_of_a_session_is_folded_beyond_its_budget() {
    let budget = 4 * Limits::default().history_max.0;
    let grant = |bytes: u64| {
        let one = |n: u8| {
            let role = if n.is_multiple_of(2) { Role::User } else { Role::Assistant };
            MessageRef { hash: Hash([n; 32]), bytes, role }
        };
        let history = (0..40).map(one).collect();
        let grant = Some(Grant { fence: Fence(1), history, generated_by: None });
        let spec = spec(Plane::Model);
        after(&[Command::Open { spec, session: Some(session()), grant }])
    };
    assert_eq!(asked(&grant(budget / 40)).1, None);
    let fold = asked(&grant(budget / 40 + 1)).1.unwrap();
    let turns = fold.turns.unwrap();
    assert_eq!((turns.from, fold.exchanges), (0, None));
    assert!((18..=30).contains(&turns.to) && turns.to.is_multiple_of(2), "{turns:?}");
}

/// Steps with results of so many bytes; the run goes on after each.
fn steps(open: Command, steps: u32, bytes: usize) -> Vec<Command> {
    let mut given = vec![open];
    for step in 0..steps {
        let id = format!("c{step}");
        given.push(answered(step, vec![ask(&id, server(ReplayClass::ReadOnly))]));
        let outcome = ledger::Settled::Receipt(ToolOutcome::Succeeded, "r".repeat(bytes));
        given.push(Command::Tool { call: ToolNo(step), attempt: 0, outcome });
    }
    given
}

#[test]
fn a_run_folds_its_older_exchanges_before_they_pass_the_window_and_a_callers_own_talk_is_left_alone()
 {
    let question = vec![Message::text(Role::User, "do it").body()];
    // 60 % of 4,000 tokens are 9,600 bytes.
    let state = after(&steps(alone(Plane::Run, question.clone(), Some(4_000)), 6, 2_000));
    let fold = asked(&state).1.unwrap();
    assert_eq!((fold.turns, fold.exchanges.unwrap().from), (None, 1));
    let sizes = state.context().unwrap();
    assert!(sizes.total() <= Tokens(2_410) && sizes.folded >= 4, "{sizes:?}");
    assert_eq!(sizes.messages, state.transcript.len());
    let state = after(&steps(alone(Plane::Run, question, None), 6, 2_000));
    assert_eq!(asked(&state).1, None, "nobody knows what it reads");
    let state = after(&[alone(Plane::Model, talk(10, 1_000), Some(1_000))]);
    assert_eq!(asked(&state).1, None);
}

#[test]
fn what_was_learnt_of_a_refusal_holds_on_in_the_next_step_which_may_fold_once_more() {
    let question = vec![Message::text(Role::User, "do it").body()];
    let mut given = steps(alone(Plane::Run, question, None), 8, 1_500);
    given.push(long(8));
    let state = after(&given);
    let (bound, first) = (state.attempts.without.bytes_max.unwrap(), asked(&state).1.unwrap());
    assert!(first.exchanges.is_some() && state.attempts.without.folded);
    given.push(answered(9, vec![ask("d", server(ReplayClass::ReadOnly))]));
    let outcome = ledger::Settled::Receipt(ToolOutcome::Succeeded, "r".repeat(1_500));
    given.push(Command::Tool { call: ToolNo(8), attempt: 0, outcome });
    let state = after(&given);
    assert_eq!(state.attempts.without.bytes_max, Some(bound));
    assert!(!state.attempts.without.folded && asked(&state).1.is_some());
    assert!(state.context().unwrap().total().0 * 4 <= bound + 40);
    // Too long once more, though less than what was refused before.
    let state = check(&given, &long(10), AGAIN);
    assert_eq!(asked(&state).0, 0);
    assert!(state.attempts.without.bytes_max.unwrap() < bound);
}

fn world() -> Vec<Command> {
    let mut all = vec![alone(Plane::Run, talk(4, 800), Some(2_500)), Command::stop()];
    for call in 0..4 {
        all.extend([answered(call, vec![]), long(call)]);
        all.push(answered(call, vec![ask("a", server(ReplayClass::Effectful))]));
        all.push(failed(call, Class::PayloadTooLarge, 0));
        all.push(Command::Model { call: CallNo(call), outcome: Settled::Lost });
        let outcome = ledger::Settled::Receipt(ToolOutcome::Succeeded, "r".repeat(2_500));
        all.push(Command::Tool { call: ToolNo(call), attempt: 0, outcome });
    }
    all
}

/// What is folded is decided again by a replay, and by whoever wakes after a crash.
#[test]
fn whatever_is_folded_evolve_accepts_and_replay_decides_again() {
    explore(&world(), 7);
}
