//! SearXNG: `GET /search?format=json`, which an instance must allow in its settings; no key, no count, no receipt.

use super::{Engine, Found, citations};
use crate::outbound::{Ask, Reply};
use crate::tool::ToolError;
use events::leave::Leave;
use events::quantity::Instant;
use reqwest::Method;
use serde_json::{Map, Value};

const PATH: &str = "search";
/// Engines behind an instance that are named when they did not answer.
const SILENT_MAX: usize = 20;

pub(super) fn ask<'a>(engine: &Engine, query: &str, leave: &'a Leave) -> Ask<'a> {
    let mut url = engine.url(PATH);
    url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
    Ask::read(Method::GET, url, leave).here()
}

pub(super) fn found(body: &Value) -> Option<Found> {
    let citations = citations(body.get("results"))?;
    let silent = body.get("unresponsive_engines").and_then(Value::as_array);
    let names = silent.into_iter().flatten().filter_map(|one| one.get(0).unwrap_or(one).as_str());
    let names: Vec<Value> = names
        .take(SILENT_MAX)
        .map(|name| name.chars().take(40).collect::<String>().into())
        .collect();
    let mut usage = Map::new();
    if !names.is_empty() {
        // Fewer results are not "there is nothing": whoever reads them is told why.
        usage.insert("unresponsive_engines".to_owned(), Value::Array(names));
    }
    Some(Found { citations, usage })
}

/// A 403 is not about an account here: the instance does not speak JSON.
pub(super) fn rejected(reply: &Reply, _now: Instant) -> Option<ToolError> {
    let is_closed = reply.status.as_u16() == 403;
    is_closed.then(|| {
        let host = reply.url.host_str().unwrap_or_default();
        ToolError::Failed(format!(
            "{host} answered 403: its settings.yml must have json among search.formats, and its limiter must let this node \
             through"
        ))
    })
}
