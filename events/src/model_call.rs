//! What a failed model call does next: one pure rule for every path, tested without a network.
//!
//! The pool only executes what [`next`] says. A lost outcome is unknown: charged at its worst case and asked again.

use crate::quantity::{Instant, Millis};
use serde::{Deserialize, Serialize};

/// The one error class of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// The token has expired and may be refreshed.
    AuthExpired,
    /// The key is wrong.
    AuthInvalid,
    /// Payment is due.
    Billing,
    /// This key asks too often.
    RateLimited,
    /// This key's quota is used up until it resets.
    QuotaExhausted,
    /// The aggregator's upstream is limited; the key is healthy.
    UpstreamRateLimited,
    /// The provider has no room.
    Overloaded,
    /// The provider failed.
    ServerError,
    /// No answer in time.
    Timeout,
    /// The connection failed.
    Transport,
    /// The connection can not be trusted.
    Tls,
    /// The prompt is longer than the model reads.
    ContextOverflow,
    /// The request is larger than the provider takes.
    PayloadTooLarge,
    /// The provider has no such model for this key.
    ModelNotFound,
    /// More tools than the provider takes.
    ToolsTooMany,
    /// The provider can not work with the request.
    InvalidRequest,
    /// Replayed reasoning was refused.
    ReplayRejected,
    /// The content was refused.
    ContentPolicy,
    /// The stream ended without its terminal event.
    StreamTruncated,
    /// An error came inside the stream.
    StreamError,
    /// None of the above.
    Unknown,
}

impl Class {
    /// Every class, in order.
    pub const ALL: [Self; 21] = [
        Self::AuthExpired,
        Self::AuthInvalid,
        Self::Billing,
        Self::RateLimited,
        Self::QuotaExhausted,
        Self::UpstreamRateLimited,
        Self::Overloaded,
        Self::ServerError,
        Self::Timeout,
        Self::Transport,
        Self::Tls,
        Self::ContextOverflow,
        Self::PayloadTooLarge,
        Self::ModelNotFound,
        Self::ToolsTooMany,
        Self::InvalidRequest,
        Self::ReplayRejected,
        Self::ContentPolicy,
        Self::StreamTruncated,
        Self::StreamError,
        Self::Unknown,
    ];

    /// Its word on wires, in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AuthExpired => "auth_expired",
            Self::AuthInvalid => "auth_invalid",
            Self::Billing => "billing",
            Self::RateLimited => "rate_limited",
            Self::QuotaExhausted => "quota_exhausted",
            Self::UpstreamRateLimited => "upstream_rate_limited",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::Transport => "transport",
            Self::Tls => "tls",
            Self::ContextOverflow => "context_overflow",
            Self::PayloadTooLarge => "payload_too_large",
            Self::ModelNotFound => "model_not_found",
            Self::ToolsTooMany => "tools_too_many",
            Self::InvalidRequest => "invalid_request",
            Self::ReplayRejected => "replay_rejected",
            Self::ContentPolicy => "content_policy",
            Self::StreamTruncated => "stream_truncated",
            Self::StreamError => "stream_error",
            Self::Unknown => "unknown",
        }
    }

    /// The row of the policy table.
    #[must_use]
    pub const fn policy(self) -> Policy {
        match self {
            Self::AuthExpired
            | Self::AuthInvalid
            | Self::Billing
            | Self::QuotaExhausted
            | Self::UpstreamRateLimited
            | Self::ModelNotFound
            | Self::ToolsTooMany
            | Self::ContextOverflow
            | Self::PayloadTooLarge
            | Self::ReplayRejected
            | Self::InvalidRequest => Policy::NextCandidate,
            Self::RateLimited => Policy::NextCandidateElseWait,
            Self::Overloaded
            | Self::ServerError
            | Self::Timeout
            | Self::Transport
            | Self::StreamTruncated
            | Self::StreamError => Policy::SameThenNext,
            Self::Unknown => Policy::OnceThenNext,
            Self::ContentPolicy | Self::Tls => Policy::Surface,
        }
    }
}

/// What a class allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Ask the next candidate; with none left, surface.
    NextCandidate,
    /// Ask the next candidate; with none left, wait as the hint says.
    NextCandidateElseWait,
    /// Ask the same up to `api_max_retries` more, then the next.
    SameThenNext,
    /// Ask the same once more, then the next.
    OnceThenNext,
    /// Say it to the caller.
    Surface,
}

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
        }
    }
}

/// How often what was tried within one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attempts {
    /// Which candidate of the route is being asked.
    pub candidate: usize,
    /// Failed tries of that candidate.
    pub failed: u32,
    /// Waits for a rate limit that were granted.
    pub waits: u32,
    /// How long they were together.
    pub waited: Millis,
    /// Lost outcomes.
    pub unknown: u32,
    /// All wire calls of the step.
    pub total: u32,
}

/// Waits for a rate limit that one step is granted, so that a provider that always says "now" ends.
const WAITS_MAX: u32 = 20;

/// How a wire call went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It failed with a class, and perhaps a hint when to come back.
    Failed(Class, Option<Millis>),
    /// Nobody will ever say.
    Unknown,
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
    candidates: usize,
    limits: &Limits,
    jitter: u64,
    now: Instant,
) -> (Action, Attempts) {
    let mut after = Attempts { total: attempts.total.saturating_add(1), ..*attempts };
    let (class, hint) = match outcome {
        Outcome::Unknown => {
            after.unknown = after.unknown.saturating_add(1);
            if after.unknown >= limits.unknown_max {
                return (Action::Surface, after);
            }
            return (Action::Ask { candidate: after.candidate, not_before: now }, after);
        }
        Outcome::Failed(class, hint) => (class, hint),
    };
    after.failed = after.failed.saturating_add(1);
    let same = match class.policy() {
        Policy::SameThenNext => limits.api_max_retries,
        Policy::OnceThenNext => 1,
        Policy::NextCandidate | Policy::NextCandidateElseWait => 0,
        Policy::Surface => return (Action::Surface, after),
    };
    let following = after.candidate.saturating_add(1);
    let is_last = following >= candidates;
    let pause = backoff(limits, after.failed, jitter).max(hint.unwrap_or_default());
    // A ready candidate is preferred over a sleep of more than a second.
    if after.failed <= same && (is_last || pause <= Millis(1_000)) {
        return (pause_for(pause, after.candidate, limits, now), after);
    }
    if !is_last {
        after.candidate = following;
        after.failed = 0;
        return (Action::Ask { candidate: following, not_before: now }, after);
    }
    let waited = Millis(after.waited.0.saturating_add(pause.0));
    let may_wait =
        matches!(class.policy(), Policy::NextCandidateElseWait) && after.waits < WAITS_MAX;
    if may_wait && waited <= limits.wait_max {
        (after.waits, after.waited) = (after.waits.saturating_add(1), waited);
        return (pause_for(pause, after.candidate, limits, now), after);
    }
    (Action::Surface, after)
}

fn pause_for(pause: Millis, candidate: usize, limits: &Limits, now: Instant) -> Action {
    let until = now.after(pause);
    if pause <= limits.sleep_max {
        Action::Ask { candidate, not_before: until }
    } else if pause <= limits.wait_max {
        Action::WaitUntil { candidate, until }
    } else {
        Action::Surface
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000_000);

    #[track_caller]
    fn check(attempts: Attempts, outcome: Outcome, candidates: usize, then: Action) -> Attempts {
        let (action, after) = next(&attempts, outcome, candidates, &Limits::default(), 0, NOW);
        assert_eq!(action, then);
        after
    }

    fn ask(candidate: usize, pause: u64) -> Action {
        Action::Ask { candidate, not_before: NOW.after(Millis(pause)) }
    }

    #[test]
    fn a_server_error_is_tried_twice_more_and_then_the_next_candidate() {
        let outcome = Outcome::Failed(Class::ServerError, None);
        let one = check(Attempts::default(), outcome, 2, ask(0, 0));
        let two = check(one, outcome, 2, ask(0, 0));
        let three = check(two, outcome, 2, ask(1, 0));
        let four = check(check(three, outcome, 2, ask(1, 0)), outcome, 2, ask(1, 0));
        check(four, outcome, 2, Action::Surface);
    }

    #[test]
    fn a_ready_candidate_is_preferred_over_a_long_sleep() {
        check(
            Attempts::default(),
            Outcome::Failed(Class::RateLimited, Some(Millis(2_000))),
            2,
            ask(1, 0),
        );
        check(
            Attempts::default(),
            Outcome::Failed(Class::Overloaded, Some(Millis(2_000))),
            2,
            ask(1, 0),
        );
        check(
            Attempts::default(),
            Outcome::Failed(Class::Overloaded, Some(Millis(900))),
            2,
            ask(0, 900),
        );
    }

    #[test]
    fn a_rate_limit_without_another_candidate_waits_as_the_hint_says() {
        let limited =
            |seconds: u64| Outcome::Failed(Class::RateLimited, Some(Millis(seconds * 1_000)));
        check(Attempts::default(), limited(2), 1, ask(0, 2_000));
        let until = NOW.after(Millis(60_000));
        check(Attempts::default(), limited(60), 1, Action::WaitUntil { candidate: 0, until });
        check(Attempts::default(), limited(3_600), 1, Action::Surface);
    }

    #[test]
    fn a_lost_outcome_is_asked_again_until_it_was_lost_too_often() {
        let mut attempts = Attempts::default();
        for _ in 1..Limits::default().unknown_max {
            attempts = check(attempts, Outcome::Unknown, 1, ask(0, 0));
        }
        check(attempts, Outcome::Unknown, 1, Action::Surface);
    }

    #[test]
    fn classes_that_no_other_try_can_mend_surface() {
        for class in [Class::Tls, Class::ContentPolicy] {
            check(Attempts::default(), Outcome::Failed(class, None), 3, Action::Surface);
        }
    }

    #[test]
    fn waits_for_a_rate_limit_are_bounded_together() {
        let limited = Outcome::Failed(Class::RateLimited, Some(Millis(400_000)));
        let until = NOW.after(Millis(400_000));
        let one = check(Attempts::default(), limited, 1, Action::WaitUntil { candidate: 0, until });
        let two = check(one, limited, 1, Action::WaitUntil { candidate: 0, until });
        check(two, limited, 1, Action::Surface);
    }

    /// Every class, every hint, every place in the route: the rule always ends, and never asks out of range.
    #[test]
    fn recovery_always_ends() {
        let hints = [
            None,
            Some(Millis(500)),
            Some(Millis(5_000)),
            Some(Millis(60_000)),
            Some(Millis(u64::MAX)),
        ];
        for class in Class::ALL {
            for hint in hints {
                for candidates in 1..4 {
                    ends(Outcome::Failed(class, hint), candidates);
                }
            }
        }
        ends(Outcome::Unknown, 1);
    }

    fn ends(outcome: Outcome, candidates: usize) {
        let (mut attempts, mut now) = (Attempts::default(), NOW);
        for _ in 0..200 {
            let (action, after) = next(&attempts, outcome, candidates, &Limits::default(), 77, now);
            assert_eq!(after.total, attempts.total + 1);
            match action {
                Action::Surface => return,
                Action::Ask { candidate, not_before }
                | Action::WaitUntil { candidate, until: not_before } => {
                    assert!(
                        candidate < candidates
                            && candidate >= attempts.candidate
                            && not_before >= now
                    );
                    now = not_before;
                }
            }
            attempts = after;
        }
        panic!("{outcome:?} with {candidates} candidates never ends");
    }

    #[test]
    fn what_never_left_is_asked_again_at_once_and_then_at_a_pace() {
        let limits = Limits::default();
        for jitter in [0, 77, u64::MAX] {
            assert_eq!(again(0, &limits, jitter, NOW), NOW);
            for in_a_row in 1..200 {
                let most = NOW.after(Millis(ceiling(&limits, in_a_row)));
                let least = NOW.after(Millis(ceiling(&limits, in_a_row) / 2));
                let at = again(in_a_row, &limits, jitter, NOW);
                assert!(least >= NOW.after(Millis(250)) && least <= at && at <= most, "{at:?}");
            }
        }
        assert_eq!(ceiling(&limits, 200), limits.retry_cap.0);
    }

    #[test]
    fn class_names_are_distinct() {
        let mut names: Vec<_> = Class::ALL.iter().map(|class| class.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Class::ALL.len());
    }
}
