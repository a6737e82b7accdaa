//! Which place wins, what stands behind it, and what is refused.

use super::*;
use std::collections::BTreeMap;

fn routing(configured: &[&str], default: Option<&str>) -> Routing {
    let default = configured.first().map(|provider| Default {
        provider: (*provider).to_owned(),
        model: default.map(str::to_owned),
        names: if *provider == "demo" { Names::These(vec!["demo".to_owned()]) } else { Names::Any },
        why: "test".to_owned(),
    });
    Routing::new(configured.iter().map(|id| (*id).to_owned()), default)
}

fn role(text: &str) -> Role {
    text.parse().unwrap()
}

fn target(text: &str) -> Target {
    let (provider, model) = text.split_once(':').unwrap();
    Target::new(provider, model)
}

fn routes(pairs: &[(&str, &str)]) -> BTreeMap<Role, Target> {
    pairs.iter().map(|(name, to)| (role(name), target(to))).collect()
}

/// Who serves, in order, and who said so.
fn said(routed: &Routed) -> (Vec<String>, &'static str) {
    let names = routed.route.iter().map(|one| format!("{}:{}", one.provider, one.model));
    (names.collect(), routed.source.name())
}

#[track_caller]
fn check(
    configured: &[&str],
    default: Option<&str>,
    asked: Option<&str>,
    then: Result<(&str, &str), &str>,
) {
    let found = routing(configured, default).route(&Wanted::model(asked, &Role::chat()));
    match (found, then) {
        (Ok(found), Ok((model, source))) => {
            assert_eq!(said(&found), (vec![model.to_owned()], source));
        }
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, then) => panic!("{found:?}, not {then:?}"),
    }
}

#[test]
fn a_named_provider_is_asked_and_a_bare_name_goes_to_the_default() {
    check(&["openai"], None, Some("openai:gpt-x"), Ok(("openai:gpt-x", "call")));
    check(&["openai"], None, Some("openai/gpt-x"), Ok(("openai:gpt-x", "call")));
    check(&["openai"], None, Some("gpt-x"), Ok(("openai:gpt-x", "call")));
    check(&["ollama", "openai"], None, Some("llama3:8b"), Ok(("ollama:llama3:8b", "call")));
    check(&["demo"], Some("demo"), None, Ok(("demo:demo", "default")));
    check(&["demo"], Some("demo"), Some("gpt-x"), Ok(("demo:demo", "default")));
    check(&["demo"], Some("demo"), Some("demo:demo-2"), Ok(("demo:demo-2", "call")));
}

#[test]
fn what_has_no_route_says_what_to_set() {
    check(&[], None, Some("gpt-x"), Err("--demo"));
    check(&["demo"], None, Some("openai:gpt-x"), Err("OPENAI_API_KEY"));
    check(&["openai"], None, Some("vertex:gemini-x"), Err("not supported yet"));
    check(&["openai"], None, None, Err("default_model"));
}

/// Every place says something of `phase_brain`, and each says something else.
fn everywhere() -> Routing {
    let table = Table {
        projects: [("p".to_owned(), routes(&[("phase_brain", "openai:project")]))].into(),
        environment: [("PHASE_BRAIN".to_owned(), target("openai:env"))].into(),
        file: routes(&[("phase_brain", "openai:table"), ("phase_brain:fluid", "openai:fluid")]),
        ..Table::default()
    };
    routing(&["openai"], Some("default")).routed_by(table)
}

#[test]
fn each_place_gives_way_to_the_ones_above_it() {
    let (brain, phase) = (role("phase_brain"), target("openai:phase"));
    let mut routing = everywhere();
    let whole =
        Wanted { phase: Some(&phase), project: "p", ..Wanted::model(Some("openai:call"), &brain) };
    let source = |routing: &Routing, wanted: &Wanted<'_>| said(&routing.route(wanted).unwrap());
    let of = |name: &str, source| (vec![format!("openai:{name}")], source);
    assert_eq!(source(&routing, &whole), of("call", "call"));
    let wanted = Wanted { model: None, ..whole };
    assert_eq!(source(&routing, &wanted), of("phase", "phase"));
    let wanted = Wanted { phase: None, ..wanted };
    assert_eq!(source(&routing, &wanted), of("project", "project"));
    let wanted = Wanted { project: "another", ..wanted };
    assert_eq!(source(&routing, &wanted), of("env", "env"));
    routing.table.environment.clear();
    assert_eq!(source(&routing, &wanted), of("table", "table"));
    routing.table.file.clear();
    let selected = routing.clone().selected(Some(target("openai:selected")));
    assert_eq!(source(&selected, &wanted), of("selected", "selection"));
    assert_eq!(source(&routing, &wanted), of("default", "default"));
}

#[test]
fn a_selection_serves_what_has_no_route_and_bare_names_at_its_provider() {
    let table = Table { file: routes(&[("planner", "openai:table")]), ..Table::default() };
    let of = |routing: &Routing, asked: Option<&str>, name: &str| {
        said(&routing.route(&Wanted::model(asked, &role(name))).unwrap())
    };
    let demo = routing(&["demo", "openai"], Some("demo")).routed_by(table);
    let selected = demo.clone().selected(Some(target("openai:b")));
    assert_eq!(of(&selected, None, "chat"), (vec!["openai:b".to_owned()], "selection"));
    assert_eq!(of(&selected, None, "planner"), (vec!["openai:table".to_owned()], "table"));
    assert_eq!(of(&selected, Some("any"), "chat"), (vec!["openai:any".to_owned()], "call"));
    assert_eq!(of(&selected, Some("demo:demo"), "chat").0, ["demo:demo"]);
    assert_eq!(selected.standing(), Some(("openai", Some("b"), Source::Selection)));
    assert_eq!(demo.standing(), Some(("demo", Some("demo"), Source::Default)));
    // Where the names of its provider are known, another one is answered by what was selected.
    let named = demo.selected(Some(target("demo:demo-2")));
    assert_eq!(of(&named, Some("gpt-x"), "chat"), (vec!["demo:demo-2".to_owned()], "selection"));
    assert_eq!(of(&named, Some("demo"), "chat"), (vec!["demo:demo".to_owned()], "call"));
    let places = selected.explain(&role("planner"), "");
    assert_eq!(places.last(), Some(&(Source::Selection, Some(&target("openai:b")))));
}

#[test]
fn a_selection_that_fails_the_family_check_is_ignored_and_one_without_a_key_is_refused() {
    let plain = routing(&["openai"], Some("a"));
    let ignored = plain.clone().selected(Some(target("anthropic:gpt-6")));
    let routed = ignored.route(&Wanted::model(None, &Role::chat())).unwrap();
    assert_eq!(said(&routed), (vec!["openai:a".to_owned()], "default"));
    let problem = ignored.problems().first().map(ToString::to_string).unwrap_or_default();
    assert!(problem.contains("ignored") && problem.contains("gpt-6"), "{problem}");
    let closed = plain.selected(Some(target("deepseek:x")));
    for asked in [None, Some("bare")] {
        let error = closed.route(&Wanted::model(asked, &Role::chat())).unwrap_err().to_string();
        for part in ["selection", "DEEPSEEK_API_KEY", "deepseek:x"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
    assert!(closed.route(&Wanted::model(Some("openai:b"), &Role::chat())).is_ok());
    let problems = closed.problems();
    assert!(matches!(problems[..], [Problem::SelectionUnconfigured { .. }]), "{problems:?}");
    assert_eq!(closed.selected(None).problems(), []);
}

#[test]
fn a_discipline_is_tried_before_its_role_at_each_place() {
    let mut routing = everywhere();
    let fluid = role("phase_brain:fluid");
    let of = |routing: &Routing| said(&routing.route(&Wanted::model(None, &fluid)).unwrap());
    assert_eq!(of(&routing), (vec!["openai:env".to_owned()], "env"), "a place goes before a word");
    routing.table.environment.clear();
    assert_eq!(of(&routing), (vec!["openai:fluid".to_owned()], "table"));
    let solid = role("phase_brain:solid");
    let routed = routing.route(&Wanted::model(None, &solid)).unwrap();
    assert_eq!(said(&routed), (vec!["openai:table".to_owned()], "table"));
}

#[test]
fn behind_the_primary_stand_the_roles_own_chain_and_the_common_one_each_model_once() {
    let table = Table {
        fallbacks: ["anthropic:claude-a", "openai:b", "groq:c"].map(target).into(),
        role_fallbacks: [(role("chat"), vec![target("openai:b")])].into(),
        ..Table::default()
    };
    let routing = routing(&["openai", "anthropic"], Some("a")).routed_by(table);
    let route = |role: &Role| said(&routing.route(&Wanted::model(None, role)).unwrap()).0;
    assert_eq!(route(&Role::chat()), ["openai:a", "openai:b", "anthropic:claude-a"]);
    assert_eq!(route(&role("planner")), ["openai:a", "anthropic:claude-a", "openai:b"]);
    let problems: Vec<String> = routing.problems().iter().map(Problem::to_string).collect();
    assert!(problems.len() == 1 && problems[0].contains("groq:c is skipped"), "{problems:?}");
}

#[test]
fn a_model_of_another_vendor_is_dropped_openly_and_none_left_is_refused() {
    let table = Table { fallbacks: vec![target("openai:b")], ..Table::default() };
    let with = routing(&["openai", "anthropic"], Some("a")).routed_by(table);
    let chat = Role::chat();
    let routed = with.route(&Wanted::model(Some("anthropic:gpt-6"), &chat)).unwrap();
    assert_eq!(said(&routed), (vec!["openai:b".to_owned()], "call"));
    let (provider, model) = ("anthropic".to_owned(), "gpt-6".to_owned());
    assert_eq!(routed.dropped, [Dropped { provider, model, unfit: Unfit::ModelMismatch }]);
    // One that stands behind who serves was not meant to serve in its place.
    let table = Table { fallbacks: vec![target("anthropic:gpt-6")], ..Table::default() };
    let behind = routing(&["openai", "anthropic"], Some("a")).routed_by(table);
    let routed = behind.route(&Wanted::model(None, &chat)).unwrap();
    assert_eq!((said(&routed).0, routed.dropped), (vec!["openai:a".to_owned()], vec![]));
    let alone = routing(&["anthropic"], None).route(&Wanted::model(Some("anthropic:gpt-6"), &chat));
    assert!(matches!(alone, Err(RouteError::Mismatch(_))), "{alone:?}");
}

#[test]
fn an_image_is_not_sent_to_a_model_that_takes_text_only() {
    let table = Table { fallbacks: vec![target("openai:b")], ..Table::default() };
    let with = routing(&["deepseek", "openai"], Some("a")).routed_by(table);
    let (chat, image) = (Role::chat(), Needs::Images);
    let wanted = Wanted { needs: image, ..Wanted::model(None, &chat) };
    let routed = with.route(&wanted).unwrap();
    assert_eq!(said(&routed), (vec!["openai:b".to_owned()], "default"));
    let (provider, model) = ("deepseek".to_owned(), "a".to_owned());
    let unfit = Unfit::CapabilityUnsupported;
    assert_eq!(routed.dropped, [Dropped { provider, model, unfit }]);
    assert_eq!(said(&with.route(&Wanted::model(None, &chat)).unwrap()).0.len(), 2);
    let alone = routing(&["deepseek"], Some("a")).route(&wanted);
    assert_eq!(alone, Err(RouteError::TextOnly(target("deepseek:a"))));
    let unknown = routing(&["demo"], Some("demo")).route(&wanted).unwrap();
    assert_eq!(said(&unknown).0, ["demo:demo"]);
}

#[test]
fn a_route_to_a_provider_that_is_not_configured_is_refused_and_not_skipped() {
    let table = Table {
        file: routes(&[("planner", "deepseek:a")]),
        fallbacks: vec![target("openai:b")],
        ..Table::default()
    };
    let routing = routing(&["openai"], Some("a")).routed_by(table);
    let error = routing.route(&Wanted::model(None, &role("planner"))).unwrap_err().to_string();
    for part in ["planner", "deepseek:a", "table", "DEEPSEEK_API_KEY"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let problems = routing.problems();
    assert!(matches!(problems[..], [Problem::Unconfigured { .. }]), "{problems:?}");
    assert!(routing.route(&Wanted::model(None, &Role::chat())).is_ok(), "other roles are served");
}

#[test]
fn who_judges_is_served_by_another_as_soon_as_there_is_another() {
    let judged = |configured: &[&str], file: &[(&str, &str)], independence| {
        let table = Table { file: routes(file), independence, ..Table::default() };
        routing(configured, Some("a")).routed_by(table)
    };
    let alike = [("evaluator", "openai:x"), ("generator", "openai:y")];
    let apart = [("evaluator", "openai:x"), ("generator", "anthropic:y")];
    let two = ["openai", "anthropic"];
    let clash = judged(&two, &alike, None);
    assert!(clash.dependence().is_some() && clash.independence() == Independence::Require);
    assert_eq!(judged(&two, &apart, None).dependence(), None);
    assert_eq!(judged(&two, &[], None).dependence(), None, "nobody routed either");
    assert_eq!(judged(&two, &alike, Some(Independence::Off)).dependence(), None);
    let projects = [("p".to_owned(), routes(&alike))].into();
    let table = Table { projects, ..Table::default() };
    let of_a_project = routing(&two, Some("a")).routed_by(table);
    assert!(of_a_project.dependence().is_some(), "a project's routes count as well");
    let one = judged(&["openai"], &alike, None);
    assert!(one.dependence().is_some() && one.independence() == Independence::Warn);
}

/// Who is asked after a refused request is of another family than whoever refused it, by what each really speaks here.
#[test]
fn a_candidate_is_of_the_family_that_its_provider_was_set_to() {
    let families = |routing: &Routing| -> Vec<String> {
        let table = Table { fallbacks: vec![target("openai:gpt-x")], ..Table::default() };
        let routing = routing.clone().routed_by(table);
        let found = routing.route(&Wanted::model(Some("anthropic:claude-x"), &Role::chat()));
        found.unwrap().route.into_iter().map(|one| one.family).collect()
    };
    let usual = routing(&["anthropic", "openai"], None);
    assert_eq!(families(&usual), ["anthropic_messages", "openai_chat"]);
    let set = [("openai".to_owned(), "openai_responses".to_owned())];
    assert_eq!(families(&usual.speaking(set)), ["anthropic_messages", "openai_responses"]);
}
