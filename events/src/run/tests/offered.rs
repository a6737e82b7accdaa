//! What a request offers: the tools that its provider takes, what a search found with the very next one, and each choice
//! recorded once.

use super::*;
use crate::run::choose::{Keep, Line, Plan};
use crate::run::chosen::ToolsChosen;

fn spec_of(tools: &[(&str, Keep)], caps: [Option<u32>; 2]) -> Arc<Spec> {
    let mut one = Spec::clone(&spec(Plane::Run));
    let offers: Vec<String> =
        tools.iter().map(|(name, _)| format!("{{\"name\":\"{name}\"}}")).collect();
    one.tools = Catalogue::new(Json::from(format!("[{}]", offers.join(","))));
    let line = |(name, keep): &(&str, Keep)| Line {
        name: (*name).into(),
        origin: "s".into(),
        keep: *keep,
        group: None,
    };
    one.plan = Plan { lines: tools.iter().map(line).collect() };
    for (who, cap) in one.route.iter_mut().zip(caps) {
        who.tools_max = cap;
    }
    one.limits.steps_max = 9;
    Arc::new(one)
}

fn opened(spec: Arc<Spec>) -> Command {
    Command::Open { spec, session: None, grant: None }
}

fn offered(state: &State) -> Vec<String> {
    let Some((_, Effect::AskModel(ask))) = Run::pending(state).into_iter().next() else { panic!() };
    let all: Vec<serde_json::Value> = serde_json::from_slice(ask.tools.json().as_bytes()).unwrap();
    all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

fn note(state: &State) -> Option<String> {
    let Some((_, Effect::AskModel(ask))) = Run::pending(state).into_iter().next() else { panic!() };
    ask.note.map(|note| note.message().unwrap().plain())
}

const TOOLS: [(&str, Keep); 4] =
    [("a", Keep::Native), ("h", Keep::Hidden), ("search_tools", Keep::Search), ("x", Keep::Share)];

#[test]
fn a_choice_is_recorded_with_the_first_request_and_again_only_when_it_is_another() {
    let open = opened(spec_of(&TOOLS, [None, None]));
    let state = check(&[], &open, Ok(&["queued", "started", "tools_chosen", "model_asked"]));
    assert_eq!(
        (offered(&state), note(&state)),
        (vec!["a".into(), "search_tools".into(), "x".into()], None)
    );
    let calls = vec![ask("1", server(ReplayClass::ReadOnly))];
    let given = [open, answered(0, calls)];
    check(&given, &receipt(0, 0), Ok(&["tool_receipt", "model_asked"]));
}

#[test]
fn what_a_search_found_is_offered_with_the_very_next_request() {
    let mut search = ask("1", server(ReplayClass::ReadOnly));
    search.name = "search_tools".into();
    let given = [opened(spec_of(&TOOLS, [None, None])), answered(0, vec![search])];
    let found = ledger::Settled::Receipt(ToolOutcome::Succeeded, r#"{"pinned":["h"]}"#.into());
    let when = Command::Tool { call: ToolNo(0), attempt: 0, outcome: found };
    let state = check(&given, &when, Ok(&["tool_receipt", "tools_chosen", "model_asked"]));
    assert!(offered(&state).contains(&"h".to_owned()), "{:?}", offered(&state));
}

#[test]
fn another_provider_s_cap_is_another_choice_and_the_model_is_told_what_is_left_out() {
    let open = opened(spec_of(&TOOLS, [None, Some(2)]));
    let mut given = vec![open];
    // The first candidate fails until the second is asked.
    let mut state = after(&given);
    while state.model.as_ref().is_some_and(|open| open.asked.candidate == 0) {
        given.push(failed(state.next_call.0 - 1, Class::ServerError, 0));
        state = after(&given);
        if state.delayed.is_some() {
            break;
        }
    }
    let late = NOW.after(Millis(2_000_000));
    let events = if state.delayed.is_some() {
        Run::decide(&state, &Command::Due, late).unwrap()
    } else {
        vec![]
    };
    let state = fold(&state, &events).unwrap();
    assert_eq!(state.model.as_ref().unwrap().asked.candidate, 1);
    assert_eq!(offered(&state), ["a", "search_tools"]);
    assert!(note(&state).unwrap().contains('x'), "{:?}", note(&state));
    let chosen: &ToolsChosen = state.choosing.now.as_ref().unwrap();
    assert_eq!((chosen.cap, chosen.dropped.clone()), (Some(2), vec!["x".to_owned()]));
}

#[test]
fn tools_that_can_not_be_left_out_end_a_run_whose_provider_takes_fewer() {
    let all = [("a", Keep::Native), ("b", Keep::Native), ("c", Keep::Native)];
    let open = opened(spec_of(&all, [Some(2), None]));
    let state = check(&[], &open, Ok(&["queued", "started", "finished"]));
    assert_eq!(state.ended().unwrap().reason, Reason::ModelFailed(Class::ToolsTooMany));
}

#[test]
fn a_provider_s_own_word_of_its_cap_is_learned_and_the_same_one_is_asked_with_fewer() {
    let many = [("a", Keep::Native), ("x", Keep::Share), ("y", Keep::Share), ("z", Keep::Share)];
    let given = [opened(spec_of(&many, [None, None]))];
    let mut said = failed(0, Class::ToolsTooMany, 0);
    if let Command::Model { outcome: Settled::Failed(failure), .. } = &mut said {
        failure.message =
            "Invalid 'tools': array too long. Expected an array with maximum length 2".into();
    }
    let state = check(&given, &said, Ok(&["model_failed", "tools_chosen", "model_asked"]));
    assert_eq!(state.model.as_ref().unwrap().asked.candidate, 0);
    assert_eq!(offered(&state), ["a", "x"]);
}
