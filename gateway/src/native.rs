//! Tools that ask the node itself: artifacts, projects and what was said and written. They are tools like any other; what they need of the node is
//! handed in when it is there, for the tools are taken in before the owners of streams are.

mod artifact;
mod chat;
mod knowledge;
mod project;

use crate::app::{App, Back};
use actors::order::NoDecision;
use events::json::Json;
use events::project::Project;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tools::{Call, Tool, ToolError};

/// Artifacts of another project are nobody's to see or write from a run: each call is about the run's own.
const OUTSIDE: &str = "the call belongs to no project: artifacts and projects are for runs";

/// The way from a tool to the node that it runs on.
#[derive(Clone, Default)]
pub struct Way(Arc<OnceLock<Back>>);

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Way")
    }
}

impl Way {
    /// From now on it leads there.
    pub fn lead_to(&self, app: &App) {
        self.0.get_or_init(|| app.back());
    }

    /// The node, while it serves.
    fn app(&self) -> Result<App, ToolError> {
        let there = self.0.get().and_then(Back::app);
        there.ok_or_else(|| ToolError::Failed("the node is starting or stopping".to_owned()))
    }
}

/// All of them.
#[must_use]
pub fn tools(way: &Way) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(artifact::Read::new(way.clone())),
        Arc::new(artifact::List::new(way.clone())),
        Arc::new(artifact::Write::new(way.clone())),
        Arc::new(project::Show::new(way.clone())),
        Arc::new(project::Describe::new(way.clone())),
        Arc::new(knowledge::Search::new(way.clone())),
        Arc::new(chat::SetScope::new(way.clone())),
    ]
}

/// The project of a call.
fn project(call: &Call) -> Result<Project, ToolError> {
    if call.project.is_empty() {
        return Err(ToolError::Failed(OUTSIDE.to_owned()));
    }
    Ok(Project::of(&call.project))
}

fn arguments<T: DeserializeOwned>(json: &Json) -> Result<T, ToolError> {
    serde_json::from_slice(json.as_bytes()).map_err(|error| ToolError::Failed(error.to_string()))
}

/// No decision is not "no": what may have been decided is not known.
fn undecided(why: NoDecision) -> ToolError {
    match why {
        NoDecision::Lost | NoDecision::TimedOut | NoDecision::Expired => {
            ToolError::Unknown(why.to_string())
        }
        NoDecision::Busy { .. }
        | NoDecision::Parked { .. }
        | NoDecision::DeadlinePassed
        | NoDecision::TooLarge { .. }
        | NoDecision::NobodyThere
        | NoDecision::Unsupported { .. } => ToolError::Failed(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::quantity::Instant;
    use tools::tool::{ReplayClass, Tier};

    fn call(project: &str) -> Call {
        let arguments = Json::from_bytes(b"{}");
        Call { project: project.into(), ..Call::new(1, arguments, Instant(0), Instant(9)) }
    }

    #[test]
    fn writing_is_gated_and_reading_is_not() {
        let gates: Vec<(String, Vec<String>, ReplayClass)> = tools(&Way::default())
            .iter()
            .map(|tool| (tool.name().to_owned(), tool.gates().to_vec(), tool.class()))
            .collect();
        let (read, idempotent) = (ReplayClass::ReadOnly, ReplayClass::Idempotent);
        let gate = |name: &str| vec![name.to_owned()];
        assert_eq!(
            gates,
            [
                ("artifact.read".into(), vec![], read),
                ("artifact.list".into(), vec![], read),
                ("artifact.write".into(), gate("artifact_write"), idempotent),
                ("project.show".into(), vec![], read),
                ("project.set_description".into(), gate("project_write"), idempotent),
                ("knowledge.search".into(), vec![], read),
                ("chat.set_project_scope".into(), vec![], idempotent),
            ]
        );
        assert!(tools(&Way::default()).iter().all(|tool| tool.tier() == Tier::Free));
    }

    #[test]
    fn a_call_without_a_project_has_nothing_to_read() {
        assert_eq!(project(&call("lab")), Ok(Project::of("lab")));
        assert!(matches!(project(&call("")), Err(ToolError::Failed(words)) if words == OUTSIDE));
    }

    #[tokio::test]
    async fn a_node_that_is_not_there_yet_is_said_to_be() {
        for tool in tools(&Way::default()) {
            let text =
                r#"{"name":"plan","content":"x","description":"x","query":"x","project":"x"}"#;
            let call = Call { arguments: Json::from(text.to_owned()), ..call("lab") };
            let told = tool.call(call).await;
            assert!(
                matches!(&told, Err(ToolError::Failed(words)) if words.contains("starting")),
                "{told:?}"
            );
        }
    }

    #[test]
    fn a_lost_answer_is_unknown_and_no_room_is_not() {
        assert!(matches!(undecided(NoDecision::Lost), ToolError::Unknown(_)));
        assert!(matches!(undecided(NoDecision::NobodyThere), ToolError::Failed(_)));
    }
}
