//! Names of this crate's metrics, each with its unit. Kinds of streams and lanes are labels; ids never are.

pub mod llm;
pub mod tools;

use crate::cluster::lease::Why;
use crate::order::{Lane, NoDecision};
use events::budget::Width;
use events::record::StreamKind;
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use std::time::Duration;

/// Counter, falls of hosts by `kind`: panics, illegal events, undecodable commits. Store outages are not among them.
pub const HOST_FALLS: &str = "piton_host_falls_total";
/// Counter, hosts started again after a fall, by `kind`.
pub const HOST_RESTARTS: &str = "piton_host_restarts_total";
/// Gauge, streams with a host, by `kind`.
pub const HOSTS_LIVE: &str = "piton_hosts_live";
/// Gauge, streams that are parked because their host fell too often, by `kind`. An alert: none of them takes an event.
pub const HOSTS_PARKED: &str = "piton_hosts_parked";
/// Gauge, commands that were admitted and are not answered yet, by `lane`.
pub const PERMITS_USED: &str = "piton_permits_used";
/// Counter, commands that were refused as busy, by `cause`.
pub const BUSY: &str = "piton_busy_total";
/// Gauge, 1 while the store is out and commands are refused, else 0.
pub const GATE_CLOSED: &str = "piton_store_gate_closed";
/// Histogram, commands and outcomes decided in one commit, by `kind`.
pub const BATCH: &str = "piton_batch_commands";
/// Counter, streams woken by the agenda, by `kind`.
pub const WAKES: &str = "piton_agenda_wakes_total";

/// Counter, effects that were to leave and did not, by `cause`: too late, the lease was over, or their host ended first.
pub const EFFECTS_NOT_SENT: &str = "piton_effects_not_sent_total";

/// Counter, commands that were sent to another node, by `outcome`: decided, refused, or why nobody decided.
pub const BUS_ASKED: &str = "piton_bus_asked_total";
/// Counter, commands of other nodes that this build does not know. An alert: finish the upgrade.
pub const BUS_UNSUPPORTED: &str = "piton_bus_unsupported_total";
/// Counter, lives of other nodes that this node found over, each once or again while its leases stand.
pub const NODES_SILENT: &str = "piton_nodes_silent_total";

/// Histogram, seconds from a command's way to another node to its answer.
pub const BUS_SECONDS: &str = "piton_bus_request_seconds";

/// Gauge, partitions that this node has leases of.
pub const LEASES_HELD: &str = "piton_leases_held";
/// Counter, leases that this node took, by `from`: free (nobody held it) or replaced (its holder was silent, fenced or stale).
pub const LEASES_TAKEN: &str = "piton_leases_taken_total";
/// Counter, leases that this node gave up or lost, by `reason`.
pub const LEASES_LOST: &str = "piton_leases_lost_total";
/// Histogram, seconds from when a partition belonged to this node to its lease.
pub const LEASE_TAKE_SECONDS: &str = "piton_lease_take_seconds";
/// Gauge, partitions of which this node sees no holder. An alert: nobody decides there.
pub const PARTITIONS_UNOWNED: &str = "piton_partitions_unowned";
/// Gauge, nodes that this node sees, itself included.
pub const NODES_SEEN: &str = "piton_nodes_seen";

const FROM: &str = "from";
const REASON: &str = "reason";
/// Gauge, seconds that this node is behind with the streams of a `kind` that it follows. Below 1 while all is well; above 5
/// what may not be stale is refused: an alert.
pub const FOLLOWER_LAG: &str = "piton_follower_lag_seconds";

/// Counter, model calls that a budget had no room for, by its `scope`: session, key, project or all.
pub const BUDGET_REFUSALS: &str = "piton_budget_refusals_total";

const SCOPE: &str = "scope";
const KIND: &str = "kind";
const OUTCOME: &str = "outcome";
const LANE: &str = "lane";
const CAUSE: &str = "cause";

/// Why a command was refused as busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// Its stream's lane, or the node's.
    Lane,
    /// As many hosts as a table may have.
    Hosts,
    /// The store is out.
    Store,
    /// Too many commands of other nodes wait for their answers.
    Bus,
}

impl Full {
    const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Hosts => "hosts",
            Self::Store => "store",
            Self::Bus => "bus",
        }
    }
}

pub(crate) fn fell(kind: StreamKind) {
    metrics::counter!(HOST_FALLS, KIND => kind.name()).increment(1);
}

pub(crate) fn restarted(kind: StreamKind) {
    metrics::counter!(HOST_RESTARTS, KIND => kind.name()).increment(1);
}

pub(crate) fn live(kind: StreamKind, hosts: usize) {
    metrics::gauge!(HOSTS_LIVE, KIND => kind.name()).set(count(hosts));
}

pub(crate) fn parked(kind: StreamKind, streams: usize) {
    metrics::gauge!(HOSTS_PARKED, KIND => kind.name()).set(count(streams));
}

pub(crate) fn permit_taken(lane: Lane) {
    metrics::gauge!(PERMITS_USED, LANE => lane.name()).increment(1);
}

pub(crate) fn permit_home(lane: Lane) {
    metrics::gauge!(PERMITS_USED, LANE => lane.name()).decrement(1);
}

pub(crate) fn busy(full: Full) {
    metrics::counter!(BUSY, CAUSE => full.name()).increment(1);
}

pub(crate) fn short(width: Width) {
    metrics::counter!(BUDGET_REFUSALS, SCOPE => width.name()).increment(1);
}

pub(crate) fn gate_opened() {
    metrics::gauge!(GATE_CLOSED).set(0.0);
}

pub(crate) fn gate_closed() {
    metrics::gauge!(GATE_CLOSED).set(1.0);
}

pub(crate) fn batch(kind: StreamKind, commands: usize) {
    metrics::histogram!(BATCH, KIND => kind.name()).record(count(commands));
}

pub(crate) fn woke(kind: StreamKind) {
    metrics::counter!(WAKES, KIND => kind.name()).increment(1);
}

pub(crate) fn not_sent(cause: &'static str) {
    metrics::counter!(EFFECTS_NOT_SENT, CAUSE => cause).increment(1);
}

pub(crate) fn asked<T, R>(answer: &Result<Result<T, R>, NoDecision>, took: Duration) {
    let outcome = match answer {
        Ok(Ok(_)) => "decided",
        Ok(Err(_)) => "refused",
        Err(NoDecision::Busy { .. }) => "busy",
        Err(NoDecision::Parked { .. }) => "parked",
        Err(NoDecision::Lost) => "lost",
        Err(NoDecision::TimedOut) => "timed_out",
        Err(NoDecision::DeadlinePassed) => "deadline_passed",
        Err(NoDecision::Expired) => "expired",
        Err(NoDecision::TooLarge { .. }) => "too_large",
        Err(NoDecision::NobodyThere) => "nobody_there",
        Err(NoDecision::Unsupported { .. }) => "unsupported",
    };
    metrics::counter!(BUS_ASKED, OUTCOME => outcome).increment(1);
    metrics::histogram!(BUS_SECONDS).record(took);
}

/// What a lease stood on before it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Nobody's value.
    Free,
    /// That of a holder who was silent, fenced or stale.
    Replaced,
}

pub(crate) fn lease_taken(from: From, took: Duration) {
    let from = match from {
        From::Free => "free",
        From::Replaced => "replaced",
    };
    metrics::counter!(LEASES_TAKEN, FROM => from).increment(1);
    metrics::histogram!(LEASE_TAKE_SECONDS).record(took);
}

pub(crate) fn lease_lost(why: Why) {
    let reason = match why {
        Why::HeartbeatsFailed => "heartbeats_failed",
        Why::Taken => "taken",
        Why::HandedOver => "handed_over",
        Why::Fenced => "fenced",
    };
    metrics::counter!(LEASES_LOST, REASON => reason).increment(1);
}

pub(crate) fn leases(held: usize, unowned: usize) {
    metrics::gauge!(LEASES_HELD).set(count(held));
    metrics::gauge!(PARTITIONS_UNOWNED).set(count(unowned));
}

pub(crate) fn nodes(seen: usize) {
    metrics::gauge!(NODES_SEEN).set(count(seen));
}

pub(crate) fn node_silent() {
    metrics::counter!(NODES_SILENT).increment(1);
}

pub(crate) fn lags(kind: StreamKind, lag: Duration) {
    metrics::gauge!(FOLLOWER_LAG, KIND => kind.name()).set(lag.as_secs_f64());
}

pub(crate) fn unsupported() {
    metrics::counter!(BUS_UNSUPPORTED).increment(1);
}

/// Tells the recorder what the names mean.
pub fn describe() {
    llm::describe();
    tools::describe();
    describe_counter!(HOST_FALLS, Unit::Count, "falls of hosts, by kind");
    describe_counter!(HOST_RESTARTS, Unit::Count, "hosts started again after a fall, by kind");
    describe_counter!(BUDGET_REFUSALS, Unit::Count, "calls without room in a budget, by scope");
    describe_gauge!(HOSTS_LIVE, Unit::Count, "streams with a host, by kind");
    describe_gauge!(FOLLOWER_LAG, Unit::Seconds, "behind with followed streams, by kind");
    describe_gauge!(HOSTS_PARKED, Unit::Count, "streams parked after too many falls, by kind");
    describe_gauge!(PERMITS_USED, Unit::Count, "commands admitted and not answered yet, by lane");
    describe_counter!(BUSY, Unit::Count, "commands refused as busy, by cause");
    describe_gauge!(GATE_CLOSED, Unit::Count, "1 while the store is out");
    describe_histogram!(BATCH, Unit::Count, "commands and outcomes of one commit, by kind");
    describe_counter!(WAKES, Unit::Count, "streams woken by the agenda, by kind");
    describe_counter!(BUS_ASKED, Unit::Count, "commands sent to another node, by outcome");
    describe_counter!(BUS_UNSUPPORTED, Unit::Count, "commands that this build does not know");
    describe_histogram!(BUS_SECONDS, Unit::Seconds, "a command's way to another node and back");
    describe_counter!(NODES_SILENT, Unit::Count, "lives of other nodes that were found over");
    describe_gauge!(LEASES_HELD, Unit::Count, "partitions that this node has leases of");
    describe_counter!(LEASES_TAKEN, Unit::Count, "leases taken, by what they stood on before");
    describe_counter!(LEASES_LOST, Unit::Count, "leases given up or lost, by reason");
    describe_histogram!(LEASE_TAKE_SECONDS, Unit::Seconds, "from belonging here to the lease");
    describe_gauge!(PARTITIONS_UNOWNED, Unit::Count, "partitions without a holder seen here");
    describe_gauge!(NODES_SEEN, Unit::Count, "nodes seen here, this one included");
}

/// Exact up to four thousand million, which no gauge here reaches.
fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
