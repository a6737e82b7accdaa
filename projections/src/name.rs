//! The projections of this build: a closed set, each with the tables it owns and the number of its fold.

use crate::batch::Decoded;
use crate::tables::Tables;
use crate::writer::FoldError;
use crate::{
    approvals, credentials, gates, grants, invocations, keys, runs, search, sessions, usage,
};
use events::catalogue::Fact;
use events::record::StreamKind;
use std::{fmt, str::FromStr};

/// Names a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// One row a run.
    Runs,
    /// Sums of what model calls used and cost.
    Usage,
    /// One row a session.
    Sessions,
    /// One row an access key.
    Keys,
    /// One row a profile of a provider.
    Credentials,
    /// One row a standing grant.
    Grants,
    /// One row a gate.
    Gates,
    /// What was said and written, by its words.
    Search,
    /// One row a hold of a run.
    Approvals,
    /// One row a tool call that went through the broker.
    Invocations,
}

/// The text names no projection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a projection: give runs, usage, sessions, keys, credentials, grants, gates, search, approvals or invocations"
)]
pub struct NotAName(pub String);

impl Name {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Runs,
        Self::Usage,
        Self::Sessions,
        Self::Keys,
        Self::Credentials,
        Self::Grants,
        Self::Gates,
        Self::Search,
        Self::Approvals,
        Self::Invocations,
    ];

    /// The word in commands, metrics and the cursor table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Usage => "usage",
            Self::Sessions => "sessions",
            Self::Keys => "keys",
            Self::Credentials => "credentials",
            Self::Grants => "grants",
            Self::Gates => "gates",
            Self::Search => "search",
            Self::Approvals => "approvals",
            Self::Invocations => "invocations",
        }
    }

    /// Counts the changes of its fold: rows of another number are built again.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Runs => runs::CODE,
            Self::Usage => usage::CODE,
            Self::Sessions => sessions::CODE,
            Self::Keys => keys::CODE,
            Self::Credentials => credentials::CODE,
            Self::Grants => grants::CODE,
            Self::Gates => gates::CODE,
            Self::Search => search::CODE,
            Self::Approvals => approvals::CODE,
            Self::Invocations => invocations::CODE,
        }
    }

    /// Whether it folds streams of a kind. What stands in others can not halt it.
    #[must_use]
    pub fn reads(self, kind: StreamKind) -> bool {
        let kinds: &[StreamKind] = match self {
            Self::Runs | Self::Usage | Self::Approvals | Self::Invocations => &[StreamKind::Run],
            Self::Sessions => &[StreamKind::Session],
            Self::Keys => &[StreamKind::Key],
            Self::Credentials => &[StreamKind::Credential],
            Self::Grants => &[StreamKind::Grant],
            Self::Gates => &[StreamKind::Gates],
            Self::Search => &[StreamKind::Session, StreamKind::Artifact],
        };
        kinds.contains(&kind)
    }

    pub(crate) const fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Runs => &["runs"],
            Self::Usage => &[
                "usage_open",
                "usage_runs",
                "usage_days",
                "usage_minutes",
                "usage_profiles",
                "usage_fallbacks",
            ],
            Self::Sessions => &["sessions"],
            Self::Keys => &["keys"],
            Self::Credentials => &["credentials"],
            Self::Grants => &["grants"],
            Self::Gates => &["gates"],
            Self::Search => &["search", "search_sessions"],
            Self::Approvals => &["approvals", "approvals_open"],
            Self::Invocations => &["invocations", "invocations_open"],
        }
    }

    /// Their definitions, with `{t}`, `{g}` and `{totals}` still to be filled in.
    pub(crate) const fn definitions(self) -> &'static str {
        match self {
            Self::Runs => include_str!("sql/runs.sql"),
            Self::Usage => include_str!("sql/usage.sql"),
            Self::Sessions => include_str!("sql/sessions.sql"),
            Self::Keys => include_str!("sql/keys.sql"),
            Self::Credentials => include_str!("sql/credentials.sql"),
            Self::Grants => include_str!("sql/grants.sql"),
            Self::Gates => include_str!("sql/gates.sql"),
            Self::Search => include_str!("sql/search.sql"),
            Self::Approvals => include_str!("sql/approvals.sql"),
            Self::Invocations => include_str!("sql/invocations.sql"),
        }
    }

    /// Folds one commit of a stream that it reads into its rows.
    pub(crate) fn fold(
        self,
        tables: Tables<'_>,
        commit: &Decoded,
        facts: &[Fact],
    ) -> Result<(), FoldError> {
        match self {
            Self::Runs => runs::fold(tables, commit, facts),
            Self::Usage => usage::fold(tables, commit, facts),
            Self::Sessions => sessions::fold(tables, commit, facts),
            Self::Keys => keys::fold(tables, commit, facts),
            Self::Credentials => credentials::fold(tables, commit, facts),
            Self::Grants => grants::fold(tables, commit, facts),
            Self::Gates => gates::fold(tables, commit, facts),
            Self::Search => search::fold(tables, commit, facts),
            Self::Approvals => approvals::fold(tables, commit, facts),
            Self::Invocations => invocations::fold(tables, commit, facts),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let found = Self::ALL.into_iter().find(|name| name.word() == text);
        found.ok_or_else(|| NotAName(text.chars().take(80).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back() {
        for name in Name::ALL {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert!("run".parse::<Name>().is_err());
    }
}
