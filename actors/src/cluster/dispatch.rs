//! Whether an effect may send its first byte now. The fence inside the append stops a former owner's commits, but not
//! what it is about to do in the world: that ends by the clock.
//!
//! A new owner marks an open tool intent unknown only after the same window on its own clock. A pause between this
//! check and the write is what no store can prevent; the idempotency key goes out for that.

use super::Uptime;
pub use events::leave::{DISPATCH_WINDOW, NotSent};
use events::quantity::Millis;

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

/// To be asked immediately before the first byte: whether it may leave at `now`, its intent having been on its way to the
/// log at `intent`. Not when the log answered: a node that is stopped between the two would think itself in time.
///
/// Where the journal has one process nobody takes over while it lives, and an effect dies with it: no window is needed,
/// and a machine that slept or a disk that was slow costs nothing.
///
/// # Errors
///
/// [`NotSent`]; the effect reports it as its outcome.
pub fn may_leave(now: Uptime, intent: Uptime, horizon: Horizon) -> Result<(), NotSent> {
    if !horizon.holds(now) {
        return Err(NotSent::LeaseOver);
    }
    let is_late = now >= intent.after(DISPATCH_WINDOW);
    if is_late && horizon != Horizon::Embedded {
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
            (90_000, Horizon::Embedded, Ok(())),
        ] {
            assert_eq!(at(now, horizon), wanted, "{now} {horizon:?}");
        }
        let end = Uptime(u64::MAX);
        assert_eq!(may_leave(Uptime(u64::MAX - 1), end, Horizon::Embedded), Ok(()));
    }
}
