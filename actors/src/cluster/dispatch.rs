//! Whether an effect may send its first byte now. The fence inside the append stops a former owner's commits, but not
//! what it is about to do in the world: that ends by the clock.
//!
//! A new owner marks an open tool intent unknown only after the same window on its own clock. A pause between this
//! check and the write is what no store can prevent; the idempotency key goes out for that.

use super::Uptime;
use events::quantity::Millis;

/// How long after its intent was committed an effect may still begin.
pub const DISPATCH_WINDOW: Millis = Millis(2_000);

/// Why an effect was not sent. Nothing of it left, so this is certain and not unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// It came too long after its intent: whoever took over may count it as lost by now.
    #[error("not sent: {} ms went by since its intent, the most is {}", waited.0, DISPATCH_WINDOW.0)]
    TooLate {
        /// How long after.
        waited: Millis,
    },
    /// This node's lease on the partition is over.
    #[error("not sent: the lease on the partition ended")]
    LeaseOver,
}

/// Until when a node may act for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizon {
    /// For ever: the journal has one process.
    Embedded,
    /// Until its lease must be taken as lost.
    Until(Uptime),
    /// It has no lease.
    Over,
}

impl Horizon {
    /// Whether it is not reached yet.
    #[must_use]
    pub fn holds(self, now: Uptime) -> bool {
        match self {
            Self::Embedded => true,
            Self::Until(end) => now < end,
            Self::Over => false,
        }
    }
}

/// To be asked immediately before the first byte: whether it may leave at `now`, its intent having been known as
/// committed at `intent`.
///
/// # Errors
///
/// [`NotSent`]; the effect reports it as its outcome.
pub fn may_leave(now: Uptime, intent: Uptime, horizon: Horizon) -> Result<(), NotSent> {
    if !horizon.holds(now) {
        return Err(NotSent::LeaseOver);
    }
    if now >= intent.after(DISPATCH_WINDOW) {
        return Err(NotSent::TooLate { waited: Millis(now.0.saturating_sub(intent.0)) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_leaves_only_before_both_ends() {
        let until = |end| Horizon::Until(Uptime(end));
        let at = |now, horizon| may_leave(Uptime(now), Uptime(10_000), horizon);
        let late = |waited| Err(NotSent::TooLate { waited: Millis(waited) });
        for (now, horizon, wanted) in [
            (10_000, until(20_000), Ok(())),
            (11_999, until(12_000), Ok(())),
            (12_000, until(20_000), late(2_000)),
            (40_000, until(90_000), late(30_000)),
            (10_999, until(11_000), Ok(())),
            (11_000, until(11_000), Err(NotSent::LeaseOver)),
            (15_000, until(11_000), Err(NotSent::LeaseOver)),
            (10_000, Horizon::Over, Err(NotSent::LeaseOver)),
            (11_999, Horizon::Embedded, Ok(())),
            (12_000, Horizon::Embedded, late(2_000)),
        ] {
            assert_eq!(at(now, horizon), wanted, "{now} {horizon:?}");
        }
        let end = Uptime(u64::MAX);
        assert_eq!(may_leave(Uptime(u64::MAX - 1), end, Horizon::Embedded), Ok(()));
    }
}
