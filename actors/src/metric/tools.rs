//! Names of what happens to tool calls of runs: what they came to, what waits for a person, and what halts a run. Labels are
//! a tool and words; never an id, a run or a key. Names of tools come from servers and configurations, so only so many of
//! them get a series of their own.

use super::llm::Series;
use events::quantity::Millis;
use events::run::approval::Resolution;
use events::run::mediated::Disposition;
use events::run::rejection::Rejection;
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use std::time::Duration;

/// Counter, calls that this node ran, by `tool` and `outcome`: `succeeded`, `failed`, `rejected`, `unknown`, `not_sent`.
pub const CALLS: &str = "piton_tool_calls_total";
/// Histogram, seconds that they took, by `outcome`.
pub const SECONDS: &str = "piton_tool_call_seconds";
/// Counter, invocations (calls through the broker) that came to a `state`: `pending` (admitted), `succeeded`, `rejected`,
/// `unknown` (their run needs reconciliation), `abandoned`.
pub const INVOCATIONS: &str = "piton_tool_invocations_total";
/// Counter, calls that were held for a person.
pub const HOLDS_ASKED: &str = "piton_approval_holds_asked_total";
/// Counter, holds that ended, by `resolution`: `approved`, `denied`, `expired`, `voided`, `orphaned`.
pub const HOLDS_RESOLVED: &str = "piton_approval_holds_resolved_total";
/// Histogram, seconds from a hold to its end, by `resolution`.
pub const HOLD_SECONDS: &str = "piton_approval_wait_seconds";
/// Counter, holds that were asked while nobody who could answer was reachable. An alert: nobody will.
pub const HOLDS_UNREACHABLE: &str = "piton_unreachable_approval_hold_total";
/// Counter, runs that a provider's refusal paused, by `class`: `quota`, `authentication`, `rate_limit`.
pub const PAUSES: &str = "piton_run_pauses_total";

const TOOL: &str = "tool";
const OUTCOME: &str = "outcome";
const STATE: &str = "state";
const RESOLUTION: &str = "resolution";
const CLASS: &str = "class";

/// Tools that get a series of their own: a catalogue of several servers.
const TOOLS_MAX: usize = 256;

static TOOLS: Series = Series::new();

pub(crate) fn called(tool: &str, outcome: &'static str, took: Duration) {
    let tool = TOOLS.label(tool, TOOLS_MAX);
    counter!(CALLS, TOOL => tool, OUTCOME => outcome).increment(1);
    histogram!(SECONDS, OUTCOME => outcome).record(took);
}

pub(crate) fn came_to(disposition: &Disposition) {
    counter!(INVOCATIONS, STATE => disposition.word()).increment(1);
}

pub(crate) fn asked() {
    counter!(HOLDS_ASKED).increment(1);
}

pub(crate) fn unreachable_hold() {
    counter!(HOLDS_UNREACHABLE).increment(1);
}

pub(crate) fn resolved(resolution: &Resolution, waited: Millis) {
    let word = resolution.word();
    counter!(HOLDS_RESOLVED, RESOLUTION => word).increment(1);
    histogram!(HOLD_SECONDS, RESOLUTION => word).record(Duration::from_millis(waited.0));
}

pub(crate) fn paused(class: Rejection) {
    counter!(PAUSES, CLASS => class.word()).increment(1);
}

/// Tells the recorder what the names mean.
pub(super) fn describe() {
    describe_counter!(CALLS, Unit::Count, "tool calls run here, by tool and outcome");
    describe_histogram!(SECONDS, Unit::Seconds, "what tool calls took, by outcome");
    describe_counter!(INVOCATIONS, Unit::Count, "calls through the broker, by the state reached");
    describe_counter!(HOLDS_ASKED, Unit::Count, "calls that were held for a person");
    describe_counter!(HOLDS_RESOLVED, Unit::Count, "holds that ended, by resolution");
    describe_histogram!(HOLD_SECONDS, Unit::Seconds, "from a hold to its end, by resolution");
    describe_counter!(HOLDS_UNREACHABLE, Unit::Count, "holds asked while nobody could answer");
    describe_counter!(PAUSES, Unit::Count, "runs that a provider's refusal paused, by class");
    // An increase is an alert, and the first one is only seen where the counter stood at zero before.
    counter!(HOLDS_UNREACHABLE).increment(0);
}
