//! `chat.set_project_scope`: what a conversation is about from the next turn on.
//!
//! It changes no run that was frozen, this one included: a call that widened what its own run sees would change what was
//! agreed to.

use super::{OUTSIDE, Way, arguments, undecided};
use actors::order::Lane;
use events::id::RunId;
use events::json::Json;
use events::quantity::Millis;
use events::run::Run;
use events::session::{Command, Session};
use serde::Deserialize;
use serde_json::json;
use tools::tool::{ReplayClass, Working};
use tools::{Call, Tool, ToolError};

const PARAMETERS: &[u8] = br#"{"type":"object","properties":{"project":{"type":"string","description":"The project's name.","minLength":1,"maxLength":256}},"required":["project"],"additionalProperties":false}"#;
/// The owner of a stream answers at once or after a hand-over.
const TIMEOUT: Millis = Millis(15_000);

/// The tool.
#[derive(Debug)]
pub(super) struct SetScope {
    way: Way,
    parameters: Json,
}

#[derive(Deserialize)]
struct Asked {
    project: String,
}

impl SetScope {
    pub(super) fn new(way: Way) -> Self {
        Self { way, parameters: Json::from_bytes(PARAMETERS) }
    }
}

impl Tool for SetScope {
    fn name(&self) -> &'static str {
        "chat.set_project_scope"
    }

    fn description(&self) -> &'static str {
        "Says which project this conversation is about. It holds from the next turn on: then artifacts and searches are \
         those of that project."
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

    fn call(&self, call: Call) -> Working {
        let way = self.way.clone();
        Box::pin(async move {
            let Asked { project } = arguments(&call.arguments)?;
            let app = way.app()?;
            let outside = || ToolError::Failed(OUTSIDE.to_owned());
            let run: RunId = call.run.parse().map_err(|_| outside())?;
            let seen = app.observe_of::<Run>(run).await.map_err(undecided)?;
            let (Some(session), Some(spec)) = (seen.state.session, &seen.state.spec) else {
                let words =
                    "this run belongs to no conversation: name the project when it is started";
                return Err(ToolError::Failed(words.to_owned()));
            };
            let by = spec.caller;
            let command = Command::SetScope { project: project.clone(), by };
            let order = app.order(command, by, Lane::Data);
            call.leave.ask()?;
            let answer = app.ask::<Session>(session, order).await.map_err(undecided)?;
            answer.map_err(|refusal| ToolError::Failed(refusal.to_string()))?;
            Ok(json!({"status": "ok", "project": project, "from": "the next turn"}).to_string())
        })
    }
}
