//! The gateway's metrics: every name, label key and unit in one place. An id is never a label, for each would be a series.

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use std::time::Duration;

/// Requests that were answered, by method, route (its pattern) and status.
pub const REQUESTS: &str = "piton_http_requests_total";
/// Seconds until the head of an answer was ready, by method and route.
pub const REQUEST_SECONDS: &str = "piton_http_request_seconds";
/// Connections that are open now.
pub const CONNECTIONS: &str = "piton_http_connections";
/// Requests and connections that were refused because a limit was reached, by which.
pub const REFUSED: &str = "piton_http_refused_total";
/// Requests with no key, an unknown one, or one that may not, by code.
pub const UNADMITTED: &str = "piton_http_unadmitted_total";

/// Profiles that nobody can use before a person has logged in, by provider, as this node knows them.
pub const NEED_LOGIN: &str = "piton_credentials_need_login";
/// Counter, tries of messages to webhooks, by `event` and `outcome`: `delivered`, `failed` (it is tried again), `given_up`.
pub const HOOKS: &str = "piton_webhook_deliveries_total";
/// Gauge, calls that wait for somebody to agree, in the whole journal as this node's read model has it.
pub const HOLDS_OPEN: &str = "piton_approval_holds_open";
/// Gauge, runs with an unknown outcome that stand still, in the whole journal as this node's read model has it.
pub const RUNS_UNKNOWN: &str = "piton_runs_need_reconciliation";

const METHOD: &str = "method";
const EVENT: &str = "event";
const OUTCOME: &str = "outcome";
const ROUTE: &str = "route";
const STATUS: &str = "status";
const LIMIT: &str = "limit";
const CODE: &str = "code";
const PROVIDER: &str = "provider";

/// Upper bounds of the buckets of every histogram of seconds: from a look-up in memory to a long model call.
pub const SECONDS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0];

/// What came of a try of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The receiver took it.
    Delivered,
    /// It did not; it is asked again.
    Failed,
    /// It is not asked again.
    GivenUp,
}

/// A webhook was tried.
pub fn hook_told(event: &'static str, told: Told) {
    let outcome = match told {
        Told::Delivered => "delivered",
        Told::Failed => "failed",
        Told::GivenUp => "given_up",
    };
    counter!(HOOKS, EVENT => event, OUTCOME => outcome).increment(1);
}

/// What waits for people.
pub fn waiting(holds: u64, unknown: u64) {
    let count = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    gauge!(HOLDS_OPEN).set(count(holds));
    gauge!(RUNS_UNKNOWN).set(count(unknown));
}

/// A limit that a request can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of a body.
    Body,
    /// Runs at work.
    Runs,
    /// Open connections.
    Connections,
}

/// Says what each metric means, once, after the recorder is in place.
pub fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "requests answered, by method, route and status");
    describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "seconds until the head of an answer was ready"
    );
    describe_counter!(HOOKS, Unit::Count, "tries of messages to webhooks, by event and outcome");
    describe_gauge!(HOLDS_OPEN, Unit::Count, "calls that wait for somebody to agree");
    describe_gauge!(RUNS_UNKNOWN, Unit::Count, "runs that stand still on an unknown outcome");
    describe_gauge!(CONNECTIONS, Unit::Count, "connections open now");
    describe_counter!(REFUSED, Unit::Count, "requests and connections refused at a limit");
    describe_counter!(UNADMITTED, Unit::Count, "requests without a key that may");
    describe_gauge!(NEED_LOGIN, Unit::Count, "profiles that need a login, by provider");
}

/// A request was answered. `route` is the router's pattern, never the path.
pub fn answered(method: &'static str, route: &'static str, status: u16, took: Duration) {
    counter!(REQUESTS, METHOD => method, ROUTE => route, STATUS => status.to_string()).increment(1);
    histogram!(REQUEST_SECONDS, METHOD => method, ROUTE => route).record(took.as_secs_f64());
}

/// A connection came.
pub fn connected() {
    gauge!(CONNECTIONS).increment(1.0);
}

/// A connection went.
pub fn disconnected() {
    gauge!(CONNECTIONS).decrement(1.0);
}

/// A limit was reached.
pub fn refused(limit: Limit) {
    let limit = match limit {
        Limit::Body => "body",
        Limit::Runs => "runs",
        Limit::Connections => "connections",
    };
    counter!(REFUSED, LIMIT => limit).increment(1);
}

/// So many profiles of a provider need a login.
pub fn need_login(provider: String, profiles: u32) {
    gauge!(NEED_LOGIN, PROVIDER => provider).set(f64::from(profiles));
}

/// A caller was not let in.
pub fn unadmitted(code: &'static str) {
    counter!(UNADMITTED, CODE => code).increment(1);
}
