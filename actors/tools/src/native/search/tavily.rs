//! Tavily: `POST /search` with a bearer key; credits in `usage`; 432 and 433 are a plan and a purse that are empty.

use super::{Engine, Found, citations, json_body};
use crate::outbound::{Ask, Reply, retry_after};
use crate::tool::{Rejection, ToolError};
use events::leave::Leave;
use events::quantity::Instant;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};

const PATH: &str = "search";

pub(super) fn ask<'a>(
    engine: &Engine,
    query: &str,
    count: usize,
    leave: &'a Leave,
) -> Result<Ask<'a>, ToolError> {
    let body = json!({
        "query": query,
        "max_results": count,
        "search_depth": "basic",
        "include_answer": false,
        "include_raw_content": false,
        "include_images": false,
        "include_usage": true,
    });
    let mut ask = Ask::post(engine.url(PATH), json_body(&body), leave);
    ask.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    engine.keyed(&mut ask, AUTHORIZATION, "Bearer ")?;
    Ok(ask)
}

pub(super) fn found(body: &Value) -> Option<Found> {
    let citations = citations(body.get("results"))?;
    let credits = body.get("usage").and_then(|usage| usage.get("credits"));
    let kept = [("credits", credits), ("request_id", body.get("request_id"))];
    let usage: Map<String, Value> = kept
        .into_iter()
        .filter_map(|(word, value)| Some((word.to_owned(), value.filter(|v| is_small(v))?.clone())))
        .collect();
    Some(Found { citations, usage })
}

fn is_small(value: &Value) -> bool {
    value.is_number() || value.as_str().is_some_and(|text| text.len() <= 100)
}

pub(super) fn rejected(reply: &Reply, now: Instant) -> Option<ToolError> {
    let class = match reply.status.as_u16() {
        432 | 433 => Rejection::Quota,
        _ => return None,
    };
    let retry_after = retry_after(&reply.headers, now);
    Some(ToolError::Rejected { class, retry_after, message: String::new() })
}
