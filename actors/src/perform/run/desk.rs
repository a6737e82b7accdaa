//! What a run's own commit said about its tools, told to metrics and to the log: what was held for a person and what came
//! of it, what invocations came to, and what halted the run. And whether there is anybody who could answer a hold.
//!
//! It compares the state before a commit with the state after it, so each fact is told once, by the node whose append
//! made it: a host that replays, a follower and a rebuild tell nothing.

use crate::metric::tools;
use events::id::RunId;
use events::quantity::{Instant, Millis};
use events::run::State;
use events::run::approval::{Approval, ApprovalAsked};
use events::run::halt::Halt;
use events::run::mediated::Disposition;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// How long somebody who looked at the inbox counts as being there (10 min): a watch looks every few seconds, and whoever
/// looks by hand comes back.
const THERE: Millis = Millis(600_000);

type Told = Box<dyn Fn() -> bool + Send + Sync>;

/// Whether anybody can be reached who may answer a hold: somebody has a key for it, or is told of it by a webhook, or
/// looked at the inbox a short while ago. The node's own keys are no approver by themselves, for they may lie in a safe.
/// Clones are the same.
#[derive(Clone, Default)]
pub struct Approvers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    standing: OnceLock<Told>,
    looked: AtomicI64,
}

impl fmt::Debug for Approvers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approvers")
    }
}

impl Approvers {
    /// From now on this says whether there is a key or a webhook. Only the first is kept.
    pub fn are(&self, standing: impl Fn() -> bool + Send + Sync + 'static) {
        self.0.standing.get_or_init(|| Box::new(standing));
    }

    /// Somebody who may answer looked at what waits.
    pub fn looked(&self, now: Instant) {
        self.0.looked.fetch_max(now.0, Ordering::Relaxed);
    }

    /// Whether there is anybody. Nobody is missed before it is known who has keys.
    #[must_use]
    pub fn reachable(&self, now: Instant) -> bool {
        let looked = Instant(self.0.looked.load(Ordering::Relaxed));
        let is_there = looked.0 > 0 && now <= looked.after(THERE);
        is_there || self.0.standing.get().is_none_or(|standing| standing())
    }
}

/// Tells what one commit of a run said.
pub(super) fn tell(
    approvers: &Approvers,
    run: RunId,
    (before, after): (&State, &State),
    now: Instant,
) {
    let known = |held: &Approval| {
        before.approvals.iter().find(|one| one.asked.approval == held.asked.approval)
    };
    for held in &after.approvals {
        if known(held).is_none() {
            asked(approvers, run, &held.asked, now);
        }
        let Some(done) = &held.resolved else { continue };
        if known(held).is_none_or(|one| one.resolved.is_none()) {
            let wait = after.spec.as_ref().map_or(Millis(0), |spec| spec.limits.approval_wait);
            tools::resolved(&done.resolution, waited(&held.asked, wait, now));
            let by = done.by.map(|by| by.to_string()).unwrap_or_default();
            tracing::info!(%run, approval = held.asked.approval.0, tool = held.asked.name,
                resolution = done.resolution.word(), by, "approval_hold_resolved");
        }
    }
    for (place, one) in after.invocations.iter().enumerate() {
        let known = before.invocations.get(place).map(|one| &one.disposition);
        if known == Some(&one.disposition) {
            continue;
        }
        if known.is_none() && one.disposition != Disposition::Pending {
            tools::came_to(&Disposition::Pending);
        }
        tools::came_to(&one.disposition);
        if let Disposition::Unknown(reason) = one.disposition {
            let (tool, reason) = (one.name.as_str(), reason.word());
            tracing::warn!(%run, call = one.call.0, tool, reason, "run_needs_reconciliation");
        }
    }
    if before.halt.is_none()
        && let Some(Halt::Paused(paused)) = &after.halt
    {
        tools::paused(paused.class);
        tracing::warn!(%run, class = paused.class.word(), "run_paused");
    }
}

fn asked(approvers: &Approvers, run: RunId, asked: &ApprovalAsked, now: Instant) {
    tools::asked();
    let (approval, tool) = (asked.approval.0, asked.name.as_str());
    tracing::info!(%run, approval, tool, "approval_hold_asked");
    if !approvers.reachable(now) {
        tools::unreachable_hold();
        tracing::error!(%run, approval, tool, "approval_hold_unreachable");
    }
}

/// How long a hold waited: it says when it would have ended, and the run's limits how long that is.
fn waited(asked: &ApprovalAsked, wait: Millis, now: Instant) -> Millis {
    let wait = i64::try_from(wait.0).unwrap_or(i64::MAX).saturating_mul(1_000);
    let micros = now.0.saturating_sub(asked.until.0.saturating_sub(wait)).max(0);
    Millis(micros.unsigned_abs() / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::json::Json;
    use events::record::Hash;
    use events::run::approval::ApprovalNo;
    use std::sync::atomic::AtomicBool;

    const NOW: Instant = Instant(1_700_000_000_000_000);

    #[test]
    fn somebody_is_there_with_a_key_or_a_webhook_or_for_a_while_after_a_look() {
        let approvers = Approvers::default();
        assert!(approvers.reachable(NOW), "nobody is missed before the keys are read");
        let standing = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&standing);
        approvers.are(move || told.load(Ordering::Relaxed));
        assert!(!approvers.reachable(NOW));
        approvers.looked(NOW);
        assert!(approvers.reachable(NOW) && approvers.reachable(NOW.after(THERE)));
        assert!(!approvers.reachable(NOW.after(THERE).after(Millis(1))));
        standing.store(true, Ordering::Relaxed);
        assert!(approvers.reachable(NOW.after(THERE).after(Millis(1))));
    }

    #[test]
    fn a_wait_is_measured_from_the_question() {
        let wait = Millis(1_800_000);
        let asked = ApprovalAsked {
            approval: ApprovalNo(0),
            index: 0,
            name: "t".into(),
            arguments: Json::default(),
            subject: Hash::default(),
            until: NOW.after(wait),
        };
        assert_eq!(waited(&asked, wait, NOW), Millis(0));
        assert_eq!(waited(&asked, wait, NOW.after(Millis(90_000))), Millis(90_000));
    }
}
