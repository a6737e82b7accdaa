//! The bounds of mediated tool calls in one run. An administrator replaces them as a whole, each replacement has a
//! revision, and a run keeps those that stood when it was queued: a later change changes no run.
//!
//! Invariant: a policy that was validated lies in its ranges; what was frozen is never looked up again.

use crate::quantity::Millis;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// What happens, once its lease has ended, to a read-only call whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnUnknown {
    /// A person decides.
    #[default]
    Hold,
    /// The policy abandons it, in its own name.
    Abandon,
}

impl OnUnknown {
    /// Its word on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Abandon => "abandon",
        }
    }
}

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPolicy {
    /// Mediated calls of one run (1 to 100).
    pub calls_limit: u32,
    /// Mediated calls of one run to one tool (1 to 30).
    pub per_tool_limit: u32,
    /// The longest that one call may take, in whole seconds (1 to 60).
    pub timeout: Millis,
    /// Bytes of the largest result that is admitted (1,024 to 750,000).
    pub max_result_bytes: u64,
    /// What happens to a read-only call whose outcome is unknown.
    pub on_unknown_read_only: OnUnknown,
}

/// One bound of a policy, by its name on wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// `calls_limit`.
    CallsLimit,
    /// `per_tool_limit`.
    PerToolLimit,
    /// `timeout_seconds`.
    TimeoutSeconds,
    /// `max_result_bytes`.
    MaxResultBytes,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::CallsLimit, Self::PerToolLimit, Self::TimeoutSeconds, Self::MaxResultBytes];

    /// Its word on wires.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CallsLimit => "calls_limit",
            Self::PerToolLimit => "per_tool_limit",
            Self::TimeoutSeconds => "timeout_seconds",
            Self::MaxResultBytes => "max_result_bytes",
        }
    }

    /// What is allowed, in the unit that its name says.
    #[must_use]
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::CallsLimit => 1..=100,
            Self::PerToolLimit => 1..=30,
            Self::TimeoutSeconds => 1..=60,
            Self::MaxResultBytes => 1_024..=750_000,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A bound lies outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{field} is {value}: give {} to {}", field.range().start(), field.range().end())]
pub struct OutOfRange {
    /// Which one.
    pub field: Field,
    /// What was given, in the unit that the field's name says.
    pub value: u64,
}

/// Milliseconds of a second.
const SECOND: u64 = 1_000;

impl ToolPolicy {
    /// Version one: what a run has that was queued without a policy, and every run until one is set.
    pub const V1: Self = Self {
        calls_limit: 30,
        per_tool_limit: 10,
        timeout: Millis(30 * SECOND),
        max_result_bytes: 256_000,
        on_unknown_read_only: OnUnknown::Hold,
    };

    /// The time of one call in seconds, as wires say it.
    #[must_use]
    pub const fn timeout_seconds(&self) -> u64 {
        self.timeout.0 / SECOND
    }

    /// A number of seconds as the time of one call; saturates, so that what is too long stays too long.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Millis {
        Millis(seconds.saturating_mul(SECOND))
    }

    /// One bound, in the unit that its name says.
    #[must_use]
    pub fn value(&self, field: Field) -> u64 {
        match field {
            Field::CallsLimit => u64::from(self.calls_limit),
            Field::PerToolLimit => u64::from(self.per_tool_limit),
            Field::TimeoutSeconds => self.timeout_seconds(),
            Field::MaxResultBytes => self.max_result_bytes,
        }
    }

    /// Whether every bound lies in its range.
    ///
    /// # Errors
    ///
    /// The first that does not, with its range and its value.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let outside = |field: &Field| !field.range().contains(&self.value(*field));
        match Field::ALL.into_iter().find(outside) {
            None => Ok(()),
            Some(field) => Err(OutOfRange { field, value: self.value(field) }),
        }
    }
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self::V1
    }
}

/// A policy with its revision, as a run keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    /// The bounds.
    pub policy: ToolPolicy,
    /// Counts replacements; 1 is [`ToolPolicy::V1`] before any.
    pub revision: u32,
}

impl Frozen {
    /// What stands before any replacement.
    pub const FIRST: Self = Self { policy: ToolPolicy::V1, revision: 1 };
}

impl Default for Frozen {
    fn default() -> Self {
        Self::FIRST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(field: Field, value: u64) -> ToolPolicy {
        let small = || u32::try_from(value).unwrap();
        let mut policy = ToolPolicy::V1;
        match field {
            Field::CallsLimit => policy.calls_limit = small(),
            Field::PerToolLimit => policy.per_tool_limit = small(),
            Field::TimeoutSeconds => policy.timeout = ToolPolicy::seconds(value),
            Field::MaxResultBytes => policy.max_result_bytes = value,
        }
        policy
    }

    #[test]
    fn a_policy_is_allowed_up_to_both_ends_of_each_range_and_no_further() {
        let ranges = [(1, 100), (1, 30), (1, 60), (1_024, 750_000)];
        for (field, (least, most)) in Field::ALL.into_iter().zip(ranges) {
            for value in [least, most] {
                assert_eq!(with(field, value).validate(), Ok(()), "{field} {value}");
            }
            for value in [0, least - 1, most + 1] {
                let refused = with(field, value).validate().unwrap_err();
                assert_eq!(refused, OutOfRange { field, value });
                let said = refused.to_string();
                assert_eq!(said, format!("{field} is {value}: give {least} to {most}"));
            }
        }
    }

    #[test]
    fn version_one_has_the_defaults_of_the_source_document_and_is_the_first_revision() {
        let values = Field::ALL.map(|field| ToolPolicy::V1.value(field));
        assert_eq!(values, [30, 10, 30, 256_000]);
        assert_eq!(ToolPolicy::V1.validate(), Ok(()));
        assert_eq!(ToolPolicy::V1.on_unknown_read_only, OnUnknown::Hold);
        assert_eq!(Frozen::default(), Frozen { policy: ToolPolicy::V1, revision: 1 });
    }

    #[test]
    fn a_part_of_a_second_is_no_second() {
        let half = ToolPolicy { timeout: Millis(500), ..ToolPolicy::V1 };
        assert_eq!(half.validate(), Err(OutOfRange { field: Field::TimeoutSeconds, value: 0 }));
        let over = ToolPolicy { timeout: ToolPolicy::seconds(u64::MAX), ..ToolPolicy::V1 };
        assert!(over.validate().is_err());
    }
}
