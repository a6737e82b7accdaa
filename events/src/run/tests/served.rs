//! Who gave an answer instead of whom, and that an evaluator does not judge its own provider.

use super::*;
use crate::role::Independence;
use crate::run::served::{InsteadOf, ServedBy, Why};

fn at(provider: &str, model: &str) -> Candidate {
    Candidate { provider: provider.into(), ..candidate(model) }
}

/// A run of a session whose generator was served by `generated_by`.
fn opened(spec: Spec, generated_by: Option<&str>) -> Command {
    let grant = Some(granted(generated_by));
    Command::Open { spec: Arc::new(spec), session: Some(session()), grant }
}

fn judging(independence: Independence, route: Vec<Candidate>) -> Spec {
    let role = "evaluator".parse().unwrap();
    Spec { role, independence, route, ..Spec::clone(&spec(Plane::Run)) }
}

fn instead(provider: &str, model: &str, why: Why) -> InsteadOf {
    InsteadOf { provider: provider.into(), model: model.into(), why }
}

fn served(given: &[Command]) -> ServedBy {
    after(given).served_by.unwrap()
}

#[test]
fn who_served_instead_of_whom_stands_in_the_answer() {
    let open = || open(Plane::Run);
    let by = served(&[open(), answered(0, vec![])]);
    assert_eq!((&*by.model, by.instead_of), ("one", None));
    let given = [open(), failed(0, Class::AuthInvalid, 0), answered(1, vec![])];
    let by = served(&given);
    assert_eq!(
        (&*by.model, by.instead_of),
        ("two", Some(instead("openai", "one", Why::CallFailed)))
    );
    for (unfit, why) in [
        (spec::Unfit::ModelMismatch, Why::ModelMismatch),
        (spec::Unfit::CapabilityUnsupported, Why::CapabilityUnsupported),
    ] {
        let mut spec = Spec::clone(&spec(Plane::Run));
        let (provider, model) = ("anthropic".into(), "gpt-6".into());
        spec.dropped = vec![spec::Dropped { provider, model, unfit }];
        let open = Command::Open { spec: Arc::new(spec), session: None, grant: None };
        let by = served(&[open, answered(0, vec![])]);
        let meant = Some(instead("anthropic", "gpt-6", why));
        assert_eq!((&*by.model, by.instead_of, why.name()), ("one", meant, unfit.name()));
    }
}

#[test]
fn an_evaluator_passes_over_whoever_served_what_it_judges() {
    let route = || vec![at("a", "one"), at("b", "two"), at("a", "three"), at("c", "four")];
    let require = || judging(Independence::Require, route());
    // Served by a: b is asked, and after b not a again but c.
    let open = || opened(require(), Some("a"));
    let state = after(&[open()]);
    assert_eq!(state.serving().map(|by| by.model), Some("two".into()));
    let by = served(&[open(), answered(0, vec![])]);
    let meant = Some(instead("a", "one", Why::NotIndependent));
    assert_eq!((&*by.provider, by.instead_of, by.judges_itself), ("b", meant, false));
    let failed = || failed(0, Class::AuthInvalid, 0);
    assert_eq!(served(&[open(), failed(), answered(1, vec![])]).model, "four");
    // Served by whom nobody here is, or of a role that does not judge: the primary.
    for open in [
        opened(require(), Some("d")),
        opened(require(), None),
        opened(Spec { role: crate::role::Role::chat(), ..require() }, Some("a")),
        opened(judging(Independence::Off, route()), Some("a")),
    ] {
        let by = served(&[open, answered(0, vec![])]);
        assert_eq!((&*by.model, by.instead_of, by.judges_itself), ("one", None, false));
    }
    let warned = opened(judging(Independence::Warn, route()), Some("a"));
    let by = served(&[warned, answered(0, vec![])]);
    assert_eq!((&*by.model, by.instead_of, by.judges_itself), ("one", None, true));
}

#[test]
fn an_evaluator_with_nobody_else_to_ask_ends_and_says_whom_it_would_have_judged() {
    let route = vec![at("a", "one"), at("a", "two")];
    let open = opened(judging(Independence::Require, route), Some("a"));
    let state = check(&[], &open, Ok(&["queued", "started", "finished"]));
    let end = state.ended().unwrap();
    assert_eq!((&end.reason, end.outcome), (&Reason::NotIndependent, Outcome::Errored));
    assert!(end.detail.contains("other provider than a,"), "{}", end.detail);
    assert_eq!(state.model_calls(), 0, "nothing was asked");
    // After the only other one has failed, that is what is told; nobody falls back to whom it would judge.
    let route = vec![at("b", "one"), at("a", "two")];
    let open = opened(judging(Independence::Require, route), Some("a"));
    let state = after(&[open, failed(0, Class::AuthInvalid, 0)]);
    assert_eq!(state.ended().unwrap().reason, Reason::ModelFailed(Class::AuthInvalid));
    // And a limit is waited for, where there is nobody else.
    let limited = after(&[
        opened(judging(Independence::Require, vec![at("b", "one"), at("a", "two")]), Some("a")),
        failed(0, Class::RateLimited, 0),
    ]);
    assert_eq!(limited.ended(), None);
}
