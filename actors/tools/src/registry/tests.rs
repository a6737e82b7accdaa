//! Tools that count what they did.

use super::*;
use crate::name::Style;
use crate::settings::Overlay;
use crate::tool::{Call, Leave, NotSent, ReplayClass, Tier, ToolError, Working};
use events::json::Json;
use events::quantity::Instant;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
struct Counting {
    name: &'static str,
    parameters: Json,
    answer: Result<String, ToolError>,
    done: Arc<AtomicUsize>,
}

impl Tool for Counting {
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &'static str {
        "counts"
    }
    fn parameters(&self) -> &Json {
        &self.parameters
    }
    fn class(&self) -> ReplayClass {
        ReplayClass::Effectful
    }
    fn call(&self, _call: Call) -> Working {
        let (done, answer) = (Arc::clone(&self.done), self.answer.clone());
        Box::pin(async move {
            done.fetch_add(1, Ordering::Relaxed);
            answer
        })
    }
}

fn tool(name: &'static str, schema: &str, answer: &str) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let done = Arc::new(AtomicUsize::new(0));
    let parameters = Json::from_bytes(schema.as_bytes());
    let tool =
        Counting { name, parameters, answer: Ok(answer.to_owned()), done: Arc::clone(&done) };
    (Arc::new(tool), done)
}

const NUMBER: &str = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;

fn call(arguments: &str) -> Call {
    Call::new(7, Json::from_bytes(arguments.as_bytes()), Instant(0), Instant(10))
}

#[test]
fn a_catalogue_is_canonical_and_sorted() {
    let tools = || [tool("z.last", "null", "").0, tool("a.first", NUMBER, "").0];
    let registry = Registry::new(tools()).unwrap();
    let catalogue = registry.catalogue(&["z_last", "a_first", "z_last"]).unwrap();
    assert_eq!(
        catalogue.json().as_str(),
        concat!(
            r#"[{"description":"counts","name":"a_first","parameters":{"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"}},"#,
            r#"{"description":"counts","name":"z_last","parameters":{"properties":{},"type":"object"}}]"#
        )
    );
    let mut reversed = tools();
    reversed.reverse();
    assert_eq!(
        Registry::new(reversed).unwrap().catalogue(&["a_first", "z_last"]).unwrap(),
        catalogue
    );
    assert!(registry.catalogue(&[]).unwrap().is_empty());
}

#[test]
fn tools_are_found_by_the_name_that_a_model_knows() {
    let registry = Registry::new([tool("a.b", "null", "").0, tool("a_b", "null", "").0]).unwrap();
    assert_eq!(registry.get("a_b").unwrap().raw_name(), "a_b");
    assert_eq!(registry.get("a_b_2e7336dc8eba").unwrap().raw_name(), "a.b");
    assert!(registry.get("a.b").is_none());
    let unknown = registry.catalogue(&["nope"]).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        r#"no tool is called "nope": the known ones are a_b, a_b_2e7336dc8eba"#
    );
}

#[test]
fn a_tool_that_can_not_be_used_stays_out_with_the_reason_and_the_others_do_not() {
    let number = r#"{"const":123456789012345678901234567890}"#;
    let deep = (0..100).fold("{}".to_owned(), |inner, _| format!(r#"{{"not":{inner}}}"#));
    let tools = [
        tool("bad", "{", "").0,
        tool("big", number, "").0,
        tool("deep", &deep, "").0,
        tool("far", r#"{"$ref":"https://example.com/s"}"#, "").0,
        tool("good", NUMBER, "").0,
        tool("list", r#"{"type":"array"}"#, "").0,
        tool("never", "false", "").0,
    ];
    let registry = Registry::new(tools).unwrap();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["good"]);
    let why: Vec<(&str, &str)> =
        registry.quarantined().iter().map(|one| (one.name.as_str(), one.why.as_str())).collect();
    let about = [
        ("bad", "not JSON"),
        ("big", "can not be carried exactly"),
        ("deep", "deeper than 64"),
        ("far", "does not compile"),
        ("list", "admits no object"),
        ("never", "admits no object"),
    ];
    assert_eq!(why.len(), about.len(), "{why:?}");
    for ((name, why), (expected, words)) in why.into_iter().zip(about) {
        assert!(name == expected && why.contains(words), "{name}: {why}");
    }
    let twice = Registry::new([tool("a", "null", "").0, tool("a", "null", "").0]).unwrap_err();
    assert!(matches!(twice, RegistryError::Name(_)));
}

#[test]
fn what_is_ruled_stands_over_what_a_tool_says_and_a_rule_about_nobody_is_refused() {
    let overlay = Overlay {
        tier: Some(Tier::Approval),
        mediated: true,
        gates: vec!["note_write".into(), "note_write".into()],
        class: Some(ReplayClass::Idempotent),
        timeout: Some(events::quantity::Millis(5)),
        result_max: Some(9),
        pinned: Some(true),
    };
    let settings = |name: &str| Settings {
        tools: [(name.to_owned(), overlay.clone())].into(),
        ..Settings::default()
    };
    let with = |name: &str| {
        let tools = [tool("note.append", "null", "").0];
        Registry::with(tools, settings(name), &Names::default())
    };
    let registry = with("note.append").unwrap();
    let entry = registry.get("note_append").unwrap();
    assert_eq!((entry.tier(), entry.mediated(), entry.pinned()), (Tier::Approval, true, true));
    assert_eq!(
        (entry.gates(), entry.class()),
        (&["note_write".to_owned()][..], ReplayClass::Idempotent)
    );
    assert_eq!((entry.timeout().0, entry.result_max()), (5, Some(9)));
    let error = with("note.apend").unwrap_err().to_string();
    assert!(error.contains(r#"tools."note.apend""#) && error.contains("note.append"), "{error}");
    assert!(with("cad/part.open").is_ok(), "a rule for a tool of a server may wait for it");
}

#[test]
fn the_search_is_there_for_who_asks_and_not_among_the_others() {
    let tools = || [tool("a.b", NUMBER, "").0];
    let registry = Registry::with(tools(), Settings::default(), &Names::default()).unwrap();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["a_b"]);
    assert_eq!(registry.search(), Some("search_tools"));
    assert!(registry.get("search_tools").is_some());
    assert_eq!(Registry::new(tools()).unwrap().search(), None);
}

#[test]
fn names_are_the_same_after_a_restart_with_more_tools() {
    let before =
        Registry::with([tool("a.b", "null", "").0], Settings::default(), &Names::default());
    let recorded = Names::read(&before.unwrap().given().written()).unwrap();
    let tools = [tool("a.b", "null", "").0, tool("a_b", "null", "").0];
    let after = Registry::with(tools, Settings::default(), &recorded).unwrap();
    assert_eq!(after.get("a_b").unwrap().raw_name(), "a.b");
    let double = Settings { style: Style::Double, ..Settings::default() };
    let tools = [tool("a.b", "null", "").0, tool("a_b", "null", "").0];
    let other = Registry::with(tools, double, &recorded).unwrap();
    assert_eq!(other.get("a_b").unwrap().raw_name(), "a_b", "another style is a new record");
}

#[tokio::test]
async fn what_is_not_admitted_or_may_not_leave_runs_nothing() {
    let (tool, done) = tool("t", NUMBER, "ok");
    let registry = Registry::new([tool]).unwrap();
    let entry = registry.get("t").unwrap();
    for arguments in [r#"{"n":"one"}"#, "{}", "{", "[]", "nonsense", ""] {
        assert!(entry.check(arguments).is_err(), "{arguments}");
        assert!(
            matches!(entry.call(call(arguments)).await, Err(ToolError::Invalid(_))),
            "{arguments}"
        );
    }
    let late = Call { deadline: Instant(0), ..call(r#"{"n":1}"#) };
    assert_eq!(entry.call(late).await, Err(ToolError::DeadlinePassed));
    let late = Call { leave: Leave::new(|| Err(NotSent::LeaseOver)), ..call(r#"{"n":1}"#) };
    assert_eq!(entry.call(late).await, Err(ToolError::NotSent(NotSent::LeaseOver)));
    assert_eq!(done.load(Ordering::Relaxed), 0);
    assert_eq!(entry.check(r#"{ "n": 1.0 }"#).unwrap().json.as_str(), r#"{"n":1}"#);
    assert_eq!(entry.call(call(r#"{"n":1}"#)).await, Ok("ok".into()));
    assert_eq!(done.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_long_result_is_cut_and_the_cut_is_said() {
    for (length, then) in [
        (16_000, None),
        (16_001, Some("…[truncated 1 chars]")),
        (20_000, Some("…[truncated 4000 chars]")),
    ] {
        let text = "é".repeat(length);
        let registry = Registry::new([tool("t", "null", &text).0]).unwrap();
        let told = registry.get("t").unwrap().call(call("")).await.unwrap();
        match then {
            None => assert_eq!(told, text),
            Some(suffix) => {
                assert!(told.ends_with(suffix));
                assert_eq!(
                    told.strip_suffix(suffix).unwrap().chars().count(),
                    crate::settings::OBSERVATION_CHARS
                );
            }
        }
    }
}

#[tokio::test]
async fn a_mediated_result_over_its_bound_is_not_admitted_and_never_cut() {
    let overlay = Overlay { mediated: true, ..Overlay::default() };
    let settings = |chars| Settings {
        observation_chars: chars,
        tools: [("t".to_owned(), overlay.clone())].into(),
        ..Settings::default()
    };
    let text = "x".repeat(100);
    let told = async |limit: usize, settings: Settings| {
        let registry = Registry::with([tool("t", "null", &text).0], settings, &Names::default());
        registry.unwrap().get("t").unwrap().call(Call { result_max: limit, ..call("") }).await
    };
    assert_eq!(told(99, settings(10)).await, Err(ToolError::TooLarge { limit: 99 }));
    assert_eq!(told(100, settings(10)).await, Ok(text.clone()));
    let free = Settings { observation_chars: 10, ..Settings::default() };
    assert_eq!(told(99, free).await, Ok(format!("{}…[truncated 90 chars]", "x".repeat(10))));
}
