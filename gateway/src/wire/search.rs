//! What was found, as JSON.

use super::time::rfc3339;
use projections::search::{Hit, Kind, Page};
use serde_json::{Value, json};

fn hit(hit: &Hit) -> Value {
    let (session, message, artifact) = match hit.kind {
        Kind::User | Kind::Assistant => (Some(&hit.stream), hit.item.parse::<u32>().ok(), None),
        Kind::Artifact => (None, None, Some(&hit.item)),
    };
    json!({
        "kind": hit.kind.word(),
        "project": hit.project,
        "session_id": session,
        "message": message,
        "artifact": artifact,
        "version": hit.version,
        "at": rfc3339(hit.at),
        "snippet": hit.snippet,
    })
}

/// A list of hits, the best first, with the positions it was folded up to.
#[must_use]
pub fn list(page: &Page) -> Value {
    let hits: Vec<Value> = page.hits.iter().map(hit).collect();
    json!({"object": "list", "count": hits.len(), "data": hits, "position": page.at.to_string()})
}

/// What a model is told.
#[must_use]
pub fn answer(query: &str, page: &Page) -> Value {
    let hits: Vec<Value> = page.hits.iter().map(hit).collect();
    json!({"query": query, "results": hits, "position": page.at.to_string()})
}
