//! Brave: `GET /res/v1/web/search`, the key in `X-Subscription-Token`, limits by window in `X-RateLimit-*`.

use super::{Engine, Found, citations};
use crate::outbound::{Ask, Reply, retry_after};
use crate::tool::{Rejection, ToolError};
use events::leave::Leave;
use events::quantity::{Instant, Millis};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

const PATH: &str = "res/v1/web/search";
const TOKEN: HeaderName = HeaderName::from_static("x-subscription-token");
/// The windows of the account, each with a value for every window: per second, per month.
const LIMIT: &str = "x-ratelimit-limit";
const REMAINING: &str = "x-ratelimit-remaining";
const RESET: &str = "x-ratelimit-reset";
/// A wait longer than this is no rate but the month's quota that is used up.
const RATE_WAIT_MAX: Millis = Millis(3_600_000);

pub(super) fn ask<'a>(
    engine: &Engine,
    query: &str,
    count: usize,
    leave: &'a Leave,
) -> Result<Ask<'a>, ToolError> {
    let mut url = engine.url(PATH);
    url.query_pairs_mut()
        .append_pair("q", query)
        .append_pair("count", &count.to_string())
        .append_pair("result_filter", "web")
        .append_pair("text_decorations", "false");
    let mut ask = Ask::read(Method::GET, url, leave).here();
    engine.keyed(&mut ask, TOKEN, "")?;
    Ok(ask)
}

pub(super) fn found(reply: &Reply, body: &Value) -> Option<Found> {
    body.get("type").filter(|kind| *kind == "search")?;
    // A search that finds nothing on the web has no such part at all.
    let web = body.get("web").and_then(|web| web.get("results"));
    let citations = if web.is_none() { Vec::new() } else { citations(web)? };
    let mut usage = Map::new();
    let limits: Map<String, Value> = [("limit", LIMIT), ("remaining", REMAINING), ("reset", RESET)]
        .into_iter()
        .filter_map(|(word, name)| Some((word.to_owned(), header(&reply.headers, name)?.into())))
        .collect();
    if !limits.is_empty() {
        usage.insert("rate_limit".to_owned(), Value::Object(limits));
    }
    Some(Found { citations, usage })
}

pub(super) fn rejected(reply: &Reply, body: &Value, now: Instant) -> Option<ToolError> {
    let error = body.get("error");
    let code =
        error.and_then(|error| error.get("code")).and_then(Value::as_str).unwrap_or_default();
    let meta = |name: &str| error?.get("meta")?.get(name)?.as_u64();
    let spent = meta("quota_current").zip(meta("quota_limit"));
    let is_spent = spent.is_some_and(|(current, limit)| limit > 0 && current >= limit);
    let wait = retry_after(&reply.headers, now).or_else(|| window(&reply.headers));
    let class = match (reply.status.as_u16(), code) {
        (_, "SUBSCRIPTION_TOKEN_INVALID" | "SUBSCRIPTION_NOT_FOUND") => Rejection::Authentication,
        (402, _) | (_, "QUOTA_LIMITED" | "USAGE_LIMIT_EXCEEDED") => Rejection::Quota,
        (429, _) if is_spent || wait.is_some_and(|wait| wait > RATE_WAIT_MAX) => Rejection::Quota,
        (429, _) => Rejection::RateLimit,
        _ => return None,
    };
    let retry_after = if class == Rejection::Authentication { None } else { wait };
    Some(ToolError::Rejected { class, retry_after, message: String::new() })
}

/// When the window begins anew of which nothing is left; the longest where several are used up.
fn window(headers: &HeaderMap) -> Option<Millis> {
    let numbers =
        |name| header(headers, name).map(|text| text.split(',').map(|n| n.trim().parse()));
    let windows = numbers(REMAINING)?.zip(numbers(RESET)?);
    let empty = windows.filter_map(|(left, reset): (Result<u64, _>, Result<u64, _>)| {
        reset.ok().filter(|_| left.is_ok_and(|left| left == 0))
    });
    empty.max().map(|seconds| Millis(seconds.saturating_mul(1_000)))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
