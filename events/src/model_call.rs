//! What a failed model call does next: one pure rule for every path, tested without a network.
//!
//! The pool only executes what [`next`] says. As far as the class's row allows: the same profile after a pause, the next
//! healthy profile of the provider, the next candidate of the route, a wait, the caller. A ready route is preferred over a
//! sleep of more than a second. A lost outcome is unknown: charged at its worst case and asked again.

mod class;
mod lighten;

pub use class::{Class, Mend, OnPolicy, Row, Same, Then};
pub use lighten::{Without, tools_max};

use crate::quantity::{Instant, Millis, Tokens};
use serde::{Deserialize, Serialize};

/// How often one candidate moves on to another profile of its provider (32): as many as there can be.
pub const ROTATIONS_MAX: u32 = 32;
/// Waits for a rate limit that one step is granted, so that a provider that always says "now" ends.
pub const WAITS_MAX: u32 = 20;
/// The longest pause that is preferred over somebody who is ready (1 s).
const PAUSE_MAX: Millis = Millis(1_000);

/// Bounds of recovery, frozen into the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Extra tries of the same candidate (2).
    pub api_max_retries: u32,
    /// First pause between tries (500 ms).
    pub retry_base: Millis,
    /// Longest pause without a hint (8 s).
    pub retry_cap: Millis,
    /// Longest pause that is slept in place; a longer one becomes the run's wake (10 s).
    pub sleep_max: Millis,
    /// Longest wait for rate limits in one step, all waits together; above it the class surfaces (15 min).
    pub wait_max: Millis,
    /// Lost outcomes of one step after which the run ends, so that a call that kills its node is not asked for ever (5).
    pub unknown_max: u32,
    /// What is done about content that was refused and connections that can not be trusted.
    pub on_policy: OnPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            api_max_retries: 2,
            retry_base: Millis(500),
            retry_cap: Millis(8_000),
            sleep_max: Millis(10_000),
            wait_max: Millis(900_000),
            unknown_max: 5,
            on_policy: OnPolicy::Surface,
        }
    }
}

/// Who of the route can be asked again first, of those that asked for a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Soonest {
    /// Which candidate.
    pub candidate: usize,
    /// When.
    pub at: Instant,
}

/// How often what was tried within one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attempts {
    /// Which candidate of the route is being asked.
    pub candidate: usize,
    /// Failed tries of that candidate, but for those that moved on to another profile or left something out.
    pub failed: u32,
    /// How often that candidate moved on to another profile.
    pub rotated: u32,
    /// Whether a token of that candidate was had anew.
    pub renewed: bool,
    /// What is left out of the request to it.
    pub without: Without,
    /// Waits for a rate limit that were granted.
    pub waits: u32,
    /// How long they were together.
    pub waited: Millis,
    /// Who can be asked again first.
    pub soonest: Option<Soonest>,
    /// The earliest time to come back that anybody asked for, whatever the class: what a caller is told in the end.
    pub ready_at: Option<Instant>,
    /// Lost outcomes.
    pub unknown: u32,
    /// All wire calls of the step.
    pub total: u32,
}

impl Attempts {
    /// Notes when the candidate that is asked can be asked again, if nobody can be earlier.
    fn wait_for(&mut self, at: Instant) {
        let this = Soonest { candidate: self.candidate, at };
        self.soonest = Some(self.soonest.filter(|other| other.at <= at).unwrap_or(this));
    }

    /// What a step begins with, after another one: the caps that its candidate was seen to have hold on.
    #[must_use]
    pub fn after(former: &Self, candidate: u32) -> Self {
        let same = usize::try_from(candidate).is_ok_and(|candidate| candidate == former.candidate);
        let without = if same { former.without.learnt() } else { Without::default() };
        Self { without, ..Self::default() }
    }
}

/// How a wire call went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It failed.
    Failed(Failed),
    /// Nobody will ever say.
    Unknown,
}

/// A failure, as far as it matters to what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// Its class.
    pub class: Class,
    /// When the provider said to come back.
    pub hint: Option<Millis>,
    /// Other profiles of the provider that are ready.
    pub others: u32,
    /// Whether the profile's token had ended and was had anew.
    pub renewed: bool,
    /// The most tools that the provider takes, where it named a number that is smaller than what was offered.
    pub tools_max: Option<u32>,
    /// The bytes to which the conversation would be folded, where a fold would make it much shorter.
    pub bytes_max: Option<u64>,
}

/// A candidate of the route, as far as it matters to whether it is worth asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rung<'a> {
    /// Its API family.
    pub family: &'a str,
    /// The most input that its model reads, where that is known.
    pub window: Option<Tokens>,
    /// Whether a rule forbids it: nobody falls back to it.
    pub barred: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ask this candidate, not before this instant; the pause is short enough to be slept.
    Ask {
        /// Which one.
        candidate: usize,
        /// Not before then.
        not_before: Instant,
    },
    /// Sleep as a run: nothing is in flight until then, and then this candidate is asked.
    WaitUntil {
        /// Which one.
        candidate: usize,
        /// Then.
        until: Instant,
    },
    /// Nothing is left to try.
    Surface,
}

/// Full jitter, drawn from `jitter` (any 64 evenly spread bits that the caller derives from the call).
fn backoff(limits: &Limits, failed: u32, jitter: u64) -> Millis {
    Millis(jitter % ceiling(limits, failed).saturating_add(1))
}

/// The longest pause after so many in a row, in milliseconds.
fn ceiling(limits: &Limits, in_a_row: u32) -> u64 {
    let doubled = limits
        .retry_base
        .0
        .saturating_mul(1_u64.checked_shl(in_a_row.saturating_sub(1)).unwrap_or(u64::MAX));
    doubled.min(limits.retry_cap.0)
}

/// When a call that never left is asked again. It was no try, so nothing counts it but the pace: at once the first time,
/// then later and later, for what kept a call from leaving twice is not over soon.
#[must_use]
pub fn again(in_a_row: u32, limits: &Limits, jitter: u64, now: Instant) -> Instant {
    if in_a_row == 0 {
        return now;
    }
    let longest = ceiling(limits, in_a_row);
    let half = longest / 2;
    now.after(Millis(half.saturating_add(jitter % half.saturating_add(1))))
}

/// The rule. `attempts` counts what was tried before this outcome; the second value counts it too.
#[must_use]
pub fn next(
    attempts: &Attempts,
    outcome: Outcome,
    route: &[Rung<'_>],
    limits: &Limits,
    jitter: u64,
    now: Instant,
) -> (Action, Attempts) {
    let mut after = Attempts { total: attempts.total.saturating_add(1), ..*attempts };
    let at_once = Action::Ask { candidate: after.candidate, not_before: now };
    let failed = match outcome {
        Outcome::Unknown => {
            after.unknown = after.unknown.saturating_add(1);
            let ends = after.unknown >= limits.unknown_max;
            return (if ends { Action::Surface } else { at_once }, after);
        }
        Outcome::Failed(failed) => failed,
    };
    let row = failed.class.row(limits.on_policy);
    let told = failed.hint.map(|hint| now.after(hint));
    after.ready_at = after.ready_at.filter(|at| *at > now).into_iter().chain(told).min();
    let without = row.mend.and_then(|mend| after.without.and(mend, &failed));
    if let Some(without) = without {
        after.without = without;
        return (at_once, after);
    }
    // The same profile is asked with its new token; a second one that is refused is a fault of the profile.
    if failed.class == Class::AuthExpired && failed.renewed && !after.renewed {
        after.renewed = true;
        return (at_once, after);
    }
    // What is the fault of one key, or of its quota, another one may not have: it is asked and nobody sleeps.
    if row.rotates && failed.others > 0 && after.rotated < ROTATIONS_MAX {
        if let (Then::CandidateElseWait, Some(at)) = (row.then, told) {
            after.wait_for(at);
        }
        // The token of another login may be had anew too.
        (after.rotated, after.renewed) = (after.rotated.saturating_add(1), false);
        return (at_once, after);
    }
    let again = match row.same {
        Same::Never => 0,
        Same::Once => 1,
        Same::Retries => limits.api_max_retries,
    };
    after.failed = after.failed.saturating_add(1);
    let pause = backoff(limits, after.failed, jitter).max(failed.hint.unwrap_or_default());
    let following = following(route, after.candidate, row.then);
    if after.failed <= again && (following.is_none() || pause <= PAUSE_MAX) {
        return (pause_for(pause, after.candidate, limits, now.after(pause)), after);
    }
    if row.then == Then::CandidateElseWait {
        after.wait_for(now.after(pause));
    }
    match following {
        Some(candidate) => {
            move_to(&mut after, candidate);
            (Action::Ask { candidate, not_before: now }, after)
        }
        None => (wait(&mut after, row.then, limits, now), after),
    }
}

/// Who of the route comes after a candidate. Of whom nothing is known that speaks against it, it is tried.
fn following(route: &[Rung<'_>], candidate: usize, then: Then) -> Option<usize> {
    let this = route.get(candidate)?;
    let may = |other: &Rung<'_>| match then {
        Then::Candidate | Then::CandidateElseWait => true,
        Then::LargerWindow => match (this.window, other.window) {
            (Some(window), Some(larger)) => larger > window,
            (None, _) | (_, None) => true,
        },
        Then::OtherFamily => other.family != this.family,
        Then::Nobody => false,
    };
    let first = candidate.saturating_add(1);
    let open = |other: &Rung<'_>| !other.barred && may(other);
    route.get(first..)?.iter().position(open).map(|place| first.saturating_add(place))
}

/// Counts and what is left out are of one candidate.
fn move_to(attempts: &mut Attempts, candidate: usize) {
    (attempts.candidate, attempts.failed, attempts.rotated) = (candidate, 0, 0);
    (attempts.renewed, attempts.without) = (false, Without::default());
}

/// Nobody is ready: waits for whoever is first, where anybody said when, and only for a class that others may mend.
fn wait(after: &mut Attempts, then: Then, limits: &Limits, now: Instant) -> Action {
    let mends = match then {
        Then::Candidate | Then::CandidateElseWait => true,
        Then::LargerWindow | Then::OtherFamily | Then::Nobody => false,
    };
    let Some(soonest) = after.soonest.filter(|_| mends && after.waits < WAITS_MAX) else {
        return Action::Surface;
    };
    let pause = soonest.at.since(now);
    let waited = Millis(after.waited.0.saturating_add(pause.0));
    if waited > limits.wait_max {
        return Action::Surface;
    }
    (after.waits, after.waited) = (after.waits.saturating_add(1), waited);
    after.soonest = None;
    if soonest.candidate != after.candidate {
        move_to(after, soonest.candidate);
    }
    pause_for(pause, soonest.candidate, limits, soonest.at.max(now))
}

fn pause_for(pause: Millis, candidate: usize, limits: &Limits, until: Instant) -> Action {
    if pause <= limits.sleep_max {
        Action::Ask { candidate, not_before: until }
    } else if pause <= limits.wait_max {
        Action::WaitUntil { candidate, until }
    } else {
        Action::Surface
    }
}

#[cfg(test)]
mod tests;
