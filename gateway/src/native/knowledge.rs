//! `knowledge.search`: what was said in the sessions of a project and what its artifacts say, by the search projection.
//!
//! The answer is recorded with the call like that of any tool, so a replay reads it and searches nothing: what is found
//! later is another answer.

use super::{Way, arguments};
use crate::wire;
use events::json::Json;
use events::quantity::Millis;
use projections::search::{Kind, Query, Words};
use serde::Deserialize;
use tools::tool::{ReplayClass, Working};
use tools::{Call, Tool, ToolError};

/// Hits of one search unless the model asks for fewer.
const HITS_MAX: u16 = 10;
/// A question to an index on this machine.
const TIMEOUT: Millis = Millis(10_000);

/// The tool.
#[derive(Debug)]
pub(super) struct Search {
    way: Way,
    parameters: Json,
}

#[derive(Deserialize)]
struct Asked {
    query: String,
    kind: Option<String>,
    count: Option<u16>,
}

impl Search {
    pub(super) fn new(way: Way) -> Self {
        let text = format!(
            r#"{{"type":"object","properties":{{"query":{{"type":"string","description":"Words that must all be there; a phrase in double quotes stands as it is.","minLength":1,"maxLength":1024}},"kind":{{"type":"string","enum":["user","assistant","artifact"],"description":"Only what users said, what models said, or artifacts."}},"count":{{"type":"integer","description":"The most results ({HITS_MAX}).","minimum":1,"maximum":{HITS_MAX}}}}},"required":["query"],"additionalProperties":false}}"#
        );
        Self { way, parameters: Json::from(text) }
    }
}

impl Tool for Search {
    fn name(&self) -> &'static str {
        "knowledge.search"
    }

    fn description(&self) -> &'static str {
        "Searches what was said in this project's conversations and what its artifacts say. Returns short pieces and where they \
         stand; read an artifact by its name for the whole."
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

    fn mediated(&self) -> bool {
        true
    }

    fn call(&self, call: Call) -> Working {
        let way = self.way.clone();
        Box::pin(async move {
            let asked: Asked = arguments(&call.arguments)?;
            // The one check that a call outside any project meets: there everything would be found.
            super::project(&call)?;
            let app = way.app()?;
            let failed = |words: String| ToolError::Failed(words);
            let words = Words::of(&asked.query).map_err(|error| failed(error.to_string()))?;
            let kind = asked.kind.as_deref().and_then(Kind::named);
            let limit = asked.count.unwrap_or(HITS_MAX).clamp(1, HITS_MAX);
            call.leave.ask()?;
            let query = Query { words, project: Some(call.project.clone()), kind, limit };
            let page = app.projections.search(query).await;
            let page = page.map_err(|error| failed(error.to_string()))?;
            Ok(wire::search::answer(&asked.query, &page).to_string())
        })
    }
}
