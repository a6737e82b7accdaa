//! How much a budget allows, how often it begins anew, and what is said when something does not fit into it.

use super::Scope;
use crate::quantity::{Instant, MicroUsd, Millis};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Marks of one budget.
pub const MARKS_MAX: usize = 8;

/// Money, and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Amount {
    /// Money.
    pub usd: MicroUsd,
    /// Model calls.
    pub calls: u64,
}

impl Amount {
    /// The sum; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let calls = self.calls.saturating_add(other.calls);
        Self { usd: self.usd.plus(other.usd), calls }
    }

    /// What is left without the other; nothing where the other is more.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        let usd = MicroUsd(self.usd.0.saturating_sub(other.usd.0));
        Self { usd, calls: self.calls.saturating_sub(other.calls) }
    }

    /// Whether neither is more than in the other.
    #[must_use]
    pub fn fits(self, other: Self) -> bool {
        self.usd <= other.usd && self.calls <= other.calls
    }
}

/// How often a budget begins anew. Windows end at whole hours or days of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewal {
    /// Never.
    Never,
    /// With each hour.
    Hour,
    /// With each day.
    Day,
}

impl Renewal {
    /// When the window that holds this instant ends.
    #[must_use]
    pub fn until(self, now: Instant) -> Option<Instant> {
        let length = match self {
            Self::Never => return None,
            Self::Hour => Millis(3_600_000),
            Self::Day => Millis(86_400_000),
        };
        let passed = Millis(now.millis() % length.0);
        let start = now.millis().saturating_sub(passed.0);
        Some(Instant::default().after(Millis(start)).after(length))
    }

    /// The word on wires.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Never => None,
            Self::Hour => Some("hour"),
            Self::Day => Some("day"),
        }
    }
}

/// What happens to a model without a price where money is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Unpriced {
    /// It is not asked: nobody could say whether it fits.
    #[default]
    Refuse,
    /// It is asked, and only its calls count.
    Allow,
}

/// How much a budget allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Money; without limit where there is none.
    pub usd: Option<MicroUsd>,
    /// Model calls; without limit where there is none.
    pub calls: Option<u64>,
    /// How often it begins anew.
    pub renews: Renewal,
    /// Percent of what is allowed, ascending, each crossed once.
    pub warn_at: Vec<u8>,
    /// What happens to a model without a price.
    pub unpriced: Unpriced,
}

impl Terms {
    pub(super) fn allows(&self, taken: Amount) -> bool {
        self.usd.is_none_or(|max| taken.usd <= max)
            && self.calls.is_none_or(|max| taken.calls <= max)
    }

    /// The marks are few, ascending and percents, and something is limited.
    pub(super) fn is_sound(&self) -> bool {
        let ascending = self.warn_at.windows(2).all(|pair| pair.first() < pair.last());
        let percents = self.warn_at.iter().all(|mark| (1..=100).contains(mark));
        let limited = self.usd.is_some() || self.calls.is_some();
        limited && ascending && percents && self.warn_at.len() <= MARKS_MAX
    }

    /// The marks above `warned` that are reached.
    pub(super) fn reached(&self, taken: Amount, warned: u8) -> impl Iterator<Item = u8> {
        let reaches = move |mark: u8, taken: u64, max: Option<u64>| {
            max.is_some_and(|max| u128::from(taken) * 100 >= u128::from(max) * u128::from(mark))
        };
        let (usd, calls) = (self.usd.map(|max| max.0), self.calls);
        self.warn_at.iter().copied().filter(move |mark| {
            *mark > warned
                && (reaches(*mark, taken.usd.0, usd) || reaches(*mark, taken.calls, calls))
        })
    }
}

/// Something did not fit. For people and for programs: all that says why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Short {
    /// Whose budget.
    pub scope: Scope,
    /// What it allows.
    pub usd: Option<MicroUsd>,
    /// What it allows.
    pub calls: Option<u64>,
    /// What was spent, unknown outcomes in full.
    pub spent: Amount,
    /// What runs hold of it.
    pub reserved: Amount,
    /// What was asked for: the most that the call can cost; none for a model without a price.
    pub wanted: Option<MicroUsd>,
    /// How often it begins anew.
    pub renews: Renewal,
    /// When it does so next.
    pub renews_at: Option<Instant>,
}

impl Short {
    /// How to get more.
    #[must_use]
    pub fn raise(&self) -> String {
        let Self { scope, usd, .. } = self;
        match usd {
            Some(usd) => format!("piton budget set {scope} --usd {usd}"),
            None => format!("piton budget set {scope} --calls {}", self.calls.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, usd, calls, spent, reserved, wanted, renews, renews_at: _ } = self;
        match wanted {
            Some(wanted) => {
                write!(f, "a call of at most {wanted} USD does not fit budget {scope}:")?;
            }
            None => write!(f, "a model without a price does not fit budget {scope}:")?,
        }
        if let Some(usd) = usd {
            write!(f, " limit {usd} USD, spent {}, reserved {};", spent.usd, reserved.usd)?;
        }
        if let Some(calls) = calls {
            let (spent, reserved) = (spent.calls, reserved.calls);
            write!(f, " limit {calls} calls, spent {spent}, reserved {reserved};")?;
        }
        match renews.name() {
            Some(window) => write!(f, " it begins anew each {window};")?,
            None => write!(f, " it does not begin anew;")?,
        }
        write!(f, " to raise it: `{}`, with more", self.raise())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_at_whole_hours_and_days() {
        let now = Instant(1_700_000_123_456_789);
        assert_eq!(Renewal::Day.until(now), Some(Instant(1_700_006_400_000_000)));
        assert_eq!(Renewal::Hour.until(now), Some(Instant(1_700_002_800_000_000)));
        // The end belongs to the next one.
        let end = Instant(1_700_006_400_000_000);
        assert_eq!(Renewal::Day.until(end), Some(end.after(Millis(86_400_000))));
        assert_eq!(Renewal::Never.until(now), None);
    }
}
