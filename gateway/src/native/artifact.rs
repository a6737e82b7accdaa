//! `artifact.read`, `artifact.list` and `artifact.write`: the texts that the agents of a project hand to one another by
//! name.

use super::{Way, arguments, project, undecided};
use crate::app::App;
use crate::artifacts;
use crate::wire;
use actors::order::Lane;
use events::artifact::{Artifacts, CONTENT_BYTES_MAX, Command, Made, Name, Source, Write as Asked};
use events::id::RunId;
use events::json::Json;
use events::quantity::Millis;
use events::record::Actor;
use events::run::Run;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tools::tool::{Gate, ReplayClass, Working};
use tools::{Call, Tool, ToolError};

const NAME: &str = r#""name":{"type":"string","description":"The artifact's name, such as plan or report-2.","pattern":"^[a-z0-9][a-z0-9._-]{0,63}$"}"#;
/// The owner of a stream answers at once or after a hand-over.
const TIMEOUT: Millis = Millis(15_000);
/// Characters of a text that one call returns: with its head they stay below what a model is shown of a result.
const CHARS_MAX: usize = 15_000;
/// Artifacts that one list names.
const LISTED_MAX: usize = 200;

/// `artifact.read`.
#[derive(Debug)]
pub(super) struct Read {
    way: Way,
    parameters: Json,
}

/// `artifact.list`.
#[derive(Debug)]
pub(super) struct List {
    way: Way,
    parameters: Json,
}

/// `artifact.write`.
#[derive(Debug)]
pub(super) struct Write {
    way: Way,
    parameters: Json,
    gates: Vec<Gate>,
}

#[derive(Deserialize)]
struct Wanted {
    name: String,
    version: Option<u32>,
    #[serde(default)]
    from_char: usize,
}

#[derive(Deserialize)]
struct Written {
    name: String,
    content: String,
    over_version: Option<u32>,
}

impl Read {
    pub(super) fn new(way: Way) -> Self {
        let text = format!(
            r#"{{"type":"object","properties":{{{NAME},"version":{{"type":"integer","description":"Which version; the newest unless said otherwise.","minimum":1}},"from_char":{{"type":"integer","description":"Where to begin, for a text that was cut.","minimum":0}}}},"required":["name"],"additionalProperties":false}}"#
        );
        Self { way, parameters: Json::from(text) }
    }
}

impl List {
    pub(super) fn new(way: Way) -> Self {
        let parameters = br#"{"type":"object","properties":{},"additionalProperties":false}"#;
        Self { way, parameters: Json::from_bytes(parameters) }
    }
}

impl Write {
    pub(super) fn new(way: Way) -> Self {
        let text = format!(
            r#"{{"type":"object","properties":{{{NAME},"content":{{"type":"string","description":"The whole text, in Markdown.","maxLength":{CONTENT_BYTES_MAX}}},"over_version":{{"type":"integer","description":"The version that this text was written over; 0 for a new artifact. If somebody wrote since, nothing is written.","minimum":0}}}},"required":["name","content"],"additionalProperties":false}}"#
        );
        Self { way, parameters: Json::from(text), gates: vec!["artifact_write".to_owned()] }
    }
}

fn name(text: &str) -> Result<Name, ToolError> {
    text.parse().map_err(|error: events::artifact::NotAName| ToolError::Failed(error.to_string()))
}

impl Tool for Read {
    fn name(&self) -> &'static str {
        "artifact.read"
    }

    fn description(&self) -> &'static str {
        "Reads an artifact of this project by its name: the newest version or an earlier one. A long text comes in pieces."
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
            let wanted: Wanted = arguments(&call.arguments)?;
            let (app, project) = (way.app()?, project(&call)?);
            let name = name(&wanted.name)?;
            let seen = app.observe_of::<Artifacts>(project).await.map_err(undecided)?;
            let Some(kept) = seen.state.version(&name, wanted.version) else {
                return Err(ToolError::Failed(missing(&name, wanted.version, &seen.state)));
            };
            let written = artifacts::text(app.store(), project, kept).await;
            let written = written.map_err(|error| ToolError::Failed(error.to_string()))?;
            let chars = written.content.chars().count();
            let piece: String =
                written.content.chars().skip(wanted.from_char).take(CHARS_MAX).collect();
            let end = wanted.from_char.saturating_add(piece.chars().count());
            let next = (end < chars).then_some(end);
            Ok(json!({
                "artifact": wire::artifact::row(&name, kept),
                "chars": chars,
                "content": piece,
                "next_from_char": next,
            })
            .to_string())
        })
    }
}

/// What there is instead, so that the next call is a better one.
fn missing(name: &Name, version: Option<u32>, state: &events::artifact::State) -> String {
    match (state.version(name, None), version) {
        (Some(newest), Some(version)) => {
            format!("{name} has no version {version}: the newest is {}", newest.version)
        }
        (Some(_) | None, _) => {
            let names: Vec<&str> = state.artifacts.keys().take(20).map(Name::as_str).collect();
            let names = if names.is_empty() { "none yet".to_owned() } else { names.join(", ") };
            format!("this project has no artifact {name}; it has {names}")
        }
    }
}

impl Tool for List {
    fn name(&self) -> &'static str {
        "artifact.list"
    }

    fn description(&self) -> &'static str {
        "Lists the artifacts of this project: name, newest version, size, who made it."
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
            let seen = app.observe_of::<Artifacts>(project).await.map_err(undecided)?;
            let all = &seen.state.artifacts;
            let newest = all.iter().filter_map(|(name, versions)| Some((name, versions.last()?)));
            let rows: Vec<_> = newest
                .take(LISTED_MAX)
                .map(|(name, kept)| {
                    json!({"name": name.as_str(), "version": kept.version, "bytes": kept.bytes})
                })
                .collect();
            Ok(json!({"artifacts": rows, "count": all.len()}).to_string())
        })
    }
}

impl Tool for Write {
    fn name(&self) -> &'static str {
        "artifact.write"
    }

    fn description(&self) -> &'static str {
        "Writes an artifact of this project under a name. Each write is a new version; earlier ones stay."
    }

    fn parameters(&self) -> &Json {
        &self.parameters
    }

    /// The same text twice is one version.
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
            let Written { name: named, content, over_version: over } = arguments(&call.arguments)?;
            let (app, project) = (way.app()?, project(&call)?);
            let name = name(&named)?;
            let (source, by) = made(&app, &call).await?;
            let content = Arc::from(content);
            let asked = Asked { name: name.clone(), content, over, source, by };
            let order = app.order(Command::Write(asked), by, Lane::Data);
            // The run may have moved while its own host was asked.
            call.leave.ask()?;
            let answer = app.ask::<Artifacts>(project, order).await.map_err(undecided)?;
            let seen = answer.map_err(|refusal| ToolError::Failed(refusal.to_string()))?;
            let newest = seen.state.version(&name, None);
            let row = newest.map(|kept| wire::artifact::row(&name, kept));
            Ok(json!({"status": "ok", "artifact": row}).to_string())
        })
    }
}

/// Who makes it: the run, and whoever answered with this call.
async fn made(app: &App, call: &Call) -> Result<(Source, Actor), ToolError> {
    let Ok(run) = call.run.parse::<RunId>() else {
        return Ok((Source::Caller, Actor::Node));
    };
    let seen = app.observe_of::<Run>(run).await.map_err(undecided)?;
    let Some(spec) = &seen.state.spec else {
        return Ok((Source::Caller, Actor::Node));
    };
    let (role, served_by) = (spec.role.clone(), seen.state.served_by.clone());
    Ok((Source::Run(Box::new(Made { run, role, served_by })), spec.caller))
}
