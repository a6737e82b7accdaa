//! Why a provider of a tool refused a call, as far as it said so in a way that a program can read.
//!
//! A rejection is certain: nothing happened. The typed ones are about the account and not about the call, so that the
//! next call would fare no better: those pause, and the rest is the model's to mend.

use serde::{Deserialize, Serialize};

/// The class of a known rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rejection {
    /// The account has used up what it may.
    Quota,
    /// The credential is not taken.
    Authentication,
    /// Too many calls in a time.
    RateLimit,
    /// The call itself was refused.
    Other,
}

impl Rejection {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Quota, Self::Authentication, Self::RateLimit, Self::Other];

    /// The word on wires, in logs and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Authentication => "authentication",
            Self::RateLimit => "rate_limit",
            Self::Other => "other",
        }
    }

    /// Whether the next call would meet the same.
    #[must_use]
    pub const fn pauses(self) -> bool {
        match self {
            Self::Quota | Self::Authentication | Self::RateLimit => true,
            Self::Other => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_the_account_pauses_and_what_is_about_the_call_does_not() {
        let told = Rejection::ALL.map(|class| (class.word(), class.pauses()));
        let then =
            [("quota", true), ("authentication", true), ("rate_limit", true), ("other", false)];
        assert_eq!(told, then);
    }
}
