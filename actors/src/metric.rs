//! Names of this crate's metrics, each with its unit. Kinds of streams and lanes are labels; ids never are.

use crate::order::{Lane, NoDecision};
use events::record::StreamKind;

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

/// Counter, commands that were sent to another node, by `outcome`: decided, refused, or undecided.
pub const BUS_ASKED: &str = "piton_bus_asked_total";
/// Counter, commands of other nodes that this build does not know. An alert: finish the upgrade.
pub const BUS_UNSUPPORTED: &str = "piton_bus_unsupported_total";
/// Counter, lives of other nodes that this node found over, each once or again while its leases stand.
pub const NODES_SILENT: &str = "piton_nodes_silent_total";

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

pub(crate) fn asked<T, R>(answer: &Result<Result<T, R>, NoDecision>) {
    let outcome = match answer {
        Ok(Ok(_)) => "decided",
        Ok(Err(_)) => "refused",
        Err(_) => "undecided",
    };
    metrics::counter!(BUS_ASKED, OUTCOME => outcome).increment(1);
}

pub(crate) fn node_silent() {
    metrics::counter!(NODES_SILENT).increment(1);
}

pub(crate) fn unsupported() {
    metrics::counter!(BUS_UNSUPPORTED).increment(1);
}

/// Exact up to four thousand million, which no gauge here reaches.
fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
