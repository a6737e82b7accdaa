//! `project.show` and `project.set_description`: what the project of a run is about.

use super::{Way, arguments, project, undecided};
use crate::wire;
use actors::order::Lane;
use events::about::{About, Command, DESCRIPTION_BYTES_MAX};
use events::artifact::Artifacts;
use events::json::Json;
use events::quantity::Millis;
use events::record::Actor;
use serde::Deserialize;
use tools::tool::{Gate, ReplayClass, Working};
use tools::{Call, Tool, ToolError};

/// The owner of a stream answers at once or after a hand-over.
const TIMEOUT: Millis = Millis(15_000);

/// `project.show`.
#[derive(Debug)]
pub(super) struct Show {
    way: Way,
    parameters: Json,
}

/// `project.set_description`.
#[derive(Debug)]
pub(super) struct Describe {
    way: Way,
    parameters: Json,
    gates: Vec<Gate>,
}

#[derive(Deserialize)]
struct Said {
    description: String,
}

impl Show {
    pub(super) fn new(way: Way) -> Self {
        let parameters = br#"{"type":"object","properties":{},"additionalProperties":false}"#;
        Self { way, parameters: Json::from_bytes(parameters) }
    }
}

impl Describe {
    pub(super) fn new(way: Way) -> Self {
        let text = format!(
            r#"{{"type":"object","properties":{{"description":{{"type":"string","description":"What the project is about, in a few sentences.","maxLength":{DESCRIPTION_BYTES_MAX}}}}},"required":["description"],"additionalProperties":false}}"#
        );
        Self { way, parameters: Json::from(text), gates: vec!["project_write".to_owned()] }
    }
}

impl Tool for Show {
    fn name(&self) -> &'static str {
        "project.show"
    }

    fn description(&self) -> &'static str {
        "Says what this project is about and how many artifacts it has."
    }

    fn parameters(&self) -> &Json {
        &self.parameters
    }

    fn class(&self) -> ReplayClass {
        ReplayClass::ReadOnly
    }

    fn timeout(&self) -> Millis {
        TIMEOUT
    }

    fn call(&self, call: Call) -> Working {
        let way = self.way.clone();
        Box::pin(async move {
            let (app, project) = (way.app()?, project(&call)?);
            let about = app.observe_of::<About>(project).await.map_err(undecided)?;
            let kept = app.observe_of::<Artifacts>(project).await.map_err(undecided)?;
            let (said, count) = (about.state.described.as_ref(), kept.state.artifacts.len());
            Ok(wire::artifact::project(&call.project, said, count).to_string())
        })
    }
}

impl Tool for Describe {
    fn name(&self) -> &'static str {
        "project.set_description"
    }

    fn description(&self) -> &'static str {
        "Says anew what this project is about; what it said before is over."
    }

    fn parameters(&self) -> &Json {
        &self.parameters
    }

    fn class(&self) -> ReplayClass {
        ReplayClass::Idempotent
    }

    fn timeout(&self) -> Millis {
        TIMEOUT
    }

    fn gates(&self) -> &[Gate] {
        &self.gates
    }

    fn call(&self, call: Call) -> Working {
        let way = self.way.clone();
        Box::pin(async move {
            let Said { description } = arguments(&call.arguments)?;
            let (app, project) = (way.app()?, project(&call)?);
            let (name, by) = (call.project.clone(), Actor::Node);
            let order = app.order(Command::Describe { name, description, by }, by, Lane::Data);
            call.leave.ask()?;
            let answer = app.ask::<About>(project, order).await.map_err(undecided)?;
            answer.map_err(|refusal| ToolError::Failed(refusal.to_string()))?;
            Ok(r#"{"status":"ok"}"#.to_owned())
        })
    }
}
