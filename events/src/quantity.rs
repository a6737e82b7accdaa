//! Counted things, each with its unit in the type, so that tokens are never added to money.
//!
//! An amount that is not known is `None` of these, never zero.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Instant(pub i64);

impl Instant {
    /// Later than every instant a stream can name.
    pub const MAX: Self = Self(i64::MAX);

    /// This instant and `wait` more; saturates at the end of time.
    #[must_use]
    pub fn after(self, wait: Millis) -> Self {
        let micros = i64::try_from(wait.0).unwrap_or(i64::MAX).saturating_mul(1_000);
        Self(self.0.saturating_add(micros))
    }

    /// How long from `earlier` until this instant; zero when it is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Millis {
        let micros = self.0.saturating_sub(earlier.0).max(0);
        Millis(micros.unsigned_abs() / 1_000)
    }

    /// Whole milliseconds since 1970; zero before it.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.0.max(0).unsigned_abs() / 1_000
    }
}

/// Milliseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Millis(pub u64);

/// Tokens of a model.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Tokens(pub u64);

impl Tokens {
    /// The sum; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Millionths of a United States dollar.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// The sum; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl MicroUsd {
    /// What is left; nothing where the other is larger.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_in_milliseconds_and_saturate() {
        assert_eq!(Instant(5).after(Millis(2)), Instant(2_005));
        assert_eq!(Instant::MAX.after(Millis(1)), Instant::MAX);
        assert_eq!(Instant(5_000).since(Instant(1_000)), Millis(4));
        assert_eq!(Instant(1).since(Instant(2)), Millis(0));
    }

    #[test]
    fn money_prints_six_decimals() {
        assert_eq!(MicroUsd(1_234_567).to_string(), "1.234567");
    }
}
