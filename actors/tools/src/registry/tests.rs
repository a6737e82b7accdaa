//! Tools that count what they did.

use super::*;
use crate::tool::{Leave, NotSent, Working};
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
    assert_eq!(registry.get("a_b_2e7336dc").unwrap().raw_name(), "a.b");
    assert!(registry.get("a.b").is_none());
    let unknown = registry.catalogue(&["nope"]).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        r#"no tool is called "nope": the known ones are a_b, a_b_2e7336dc"#
    );
}

#[test]
fn a_tool_that_can_not_be_used_is_named() {
    let refused = |tools: Vec<Arc<dyn Tool>>| Registry::new(tools).unwrap_err();
    assert!(
        matches!(refused(vec![tool("bad", "{", "").0]), RegistryError::Schema { name, .. } if name == "bad")
    );
    assert!(matches!(
        refused(vec![tool("a", "null", "").0, tool("a", "null", "").0]),
        RegistryError::Name(_)
    ));
    let number = r#"{"const":123456789012345678901234567890}"#;
    assert!(
        matches!(refused(vec![tool("big", number, "").0]), RegistryError::Offer { name, .. } if name == "big")
    );
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
                assert_eq!(told.strip_suffix(suffix).unwrap().chars().count(), RESULT_CHARS_MAX);
            }
        }
    }
}
