//! Chance, passed in: the one place that draws random numbers, so that a test can repeat what it saw.
//!
//! Ids and key secrets come from here. A guessable one would be worse than no node at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where random numbers come from.
#[derive(Debug, Clone)]
pub enum Entropy {
    /// The operating system.
    System,
    /// The same numbers in the same order for the same seed. Only for tests: anybody can predict them.
    Seeded(Arc<AtomicU64>),
}

impl Entropy {
    /// Numbers that `seed` alone decides.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    /// 128 bits. Ends the process when the operating system has none to give.
    #[must_use]
    pub fn draw(&self) -> u128 {
        match self {
            Self::System => {
                let mut bytes = [0; 16];
                if let Err(error) = getrandom::fill(&mut bytes) {
                    // Every id and secret minted from here on could be guessed. Nothing acknowledged is lost.
                    tracing::error!(%error, "the operating system gives no random numbers");
                    std::process::abort();
                }
                u128::from_le_bytes(bytes)
            }
            Self::Seeded(state) => {
                (u128::from(split_mix(state)) << 64) | u128::from(split_mix(state))
            }
        }
    }

    /// The wait before try `tries` (from zero): `first`, doubled each time, at most `most`, jittered.
    #[must_use]
    pub fn backoff(&self, first: Duration, most: Duration, tries: u32) -> Duration {
        self.jitter(first.saturating_mul(2_u32.saturating_pow(tries)).min(most))
    }

    /// A wait between half of `most` and all of it, so that those who failed together do not return together.
    #[must_use]
    pub fn jitter(&self, most: Duration) -> Duration {
        let half = most / 2;
        let span = half.as_nanos().max(1);
        let extra = u64::try_from(self.draw() % span).unwrap_or_default();
        half + Duration::from_nanos(extra)
    }
}

/// One step of SplitMix64: every seed walks through all 2^64 states.
fn split_mix(state: &AtomicU64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_no_number_comes_twice() {
        let draw = |entropy: Entropy| (0..64).map(|_| entropy.draw()).collect::<Vec<_>>();
        assert_eq!(draw(Entropy::seeded(7)), draw(Entropy::seeded(7)));
        assert_ne!(draw(Entropy::seeded(7)), draw(Entropy::seeded(8)));
        for entropy in [Entropy::System, Entropy::seeded(0)] {
            let drawn = draw(entropy);
            let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
            assert_eq!(distinct.len(), drawn.len());
        }
    }

    #[test]
    fn a_backoff_doubles_up_to_its_bound() {
        let (first, most) = (Duration::from_millis(100), Duration::from_secs(30));
        for (tries, full) in [(0, 100), (1, 200), (4, 1_600), (9, 30_000), (u32::MAX, 30_000)] {
            let (wait, full) =
                (Entropy::seeded(3).backoff(first, most, tries), Duration::from_millis(full));
            assert!(wait >= full / 2 && wait <= full, "{wait:?} before try {tries}");
        }
    }

    #[test]
    fn jitter_stays_between_half_and_all() {
        let entropy = Entropy::seeded(1);
        for most in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(30)] {
            for _ in 0..100 {
                let wait = entropy.jitter(most);
                assert!(wait >= most / 2 && wait <= most, "{wait:?} of {most:?}");
            }
        }
    }
}
