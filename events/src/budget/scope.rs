//! What a budget is for, as the name of its stream: small, ordered and copied freely.

use crate::id::{KeyId, SessionId};
use crate::record::Actor;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes of the longest scope; a project's name has at most 64 of them.
const BYTES_MAX: usize = 72;

/// `all`, `project~NAME`, `key~ID` or `session~ID`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope {
    /// Zeros behind its end, so that scopes sort as their texts do.
    bytes: [u8; BYTES_MAX],
}

/// The text names nothing that can have a budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no scope of a budget: give all, project~NAME (1 to 64 characters of a-z 0-9 _ -), key~KEY-ID or session~SESSION-ID"
)]
pub struct NotAScope(pub String);

/// What a scope holds together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// One conversation.
    Session,
    /// Everything that one access key asks for.
    Key,
    /// Everything of a project.
    Project,
    /// Everything.
    All,
}

impl Width {
    /// The word before the `~`, in metrics too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Key => "key",
            Self::Project => "project",
            Self::All => "all",
        }
    }
}

/// Whose work is asked for: what it can be counted against.
#[derive(Debug, Clone, Copy)]
pub struct Whose<'a> {
    /// In which conversation.
    pub session: Option<SessionId>,
    /// Who asks.
    pub caller: Actor,
    /// Of which project.
    pub project: &'a str,
}

impl Scope {
    /// Everything; its stream also lists which other budgets there are.
    pub const ALL: Self = Self::of_ascii(b"all");

    const fn of_ascii(text: &[u8; 3]) -> Self {
        let mut bytes = [0; BYTES_MAX];
        let [a, b, c, ..] = &mut bytes;
        [*a, *b, *c] = *text;
        Self { bytes }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(BYTES_MAX);
        std::str::from_utf8(self.bytes.get(..end).unwrap_or_default()).unwrap_or_default()
    }

    /// What it holds together.
    #[must_use]
    pub fn width(&self) -> Width {
        match self.as_str().split_once('~') {
            Some(("session", _)) => Width::Session,
            Some(("key", _)) => Width::Key,
            Some(_) => Width::Project,
            None => Width::All,
        }
    }

    /// The scopes that count some work, narrow to wide. A project whose name no scope can have has none.
    pub fn of(whose: Whose<'_>) -> impl Iterator<Item = Self> {
        let session = whose.session.and_then(|id| format!("session~{id}").parse().ok());
        let key = match whose.caller {
            Actor::Key(id) => format!("key~{id}").parse().ok(),
            Actor::Admin | Actor::Node => None,
        };
        let project = format!("project~{}", whose.project).parse().ok();
        [session, key, project, Some(Self::ALL)].into_iter().flatten()
    }
}

impl FromStr for Scope {
    type Err = NotAScope;

    fn from_str(text: &str) -> Result<Self, NotAScope> {
        let bad = || NotAScope(text.chars().take(100).collect());
        let is_name = |name: &str| {
            let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
            (1..=64).contains(&name.len()) && name.bytes().all(allowed)
        };
        let good = match text.split_once('~') {
            None => text == "all",
            Some(("session", id)) => id.parse::<SessionId>().is_ok(),
            Some(("key", id)) => id.parse::<KeyId>().is_ok(),
            Some(("project", name)) => is_name(name),
            Some(_) => false,
        };
        let mut bytes = [0; BYTES_MAX];
        let head = bytes.get_mut(..text.len()).filter(|_| good).ok_or_else(bad)?;
        head.copy_from_slice(text.as_bytes());
        Ok(Self { bytes })
    }
}

impl TryFrom<String> for Scope {
    type Error = NotAScope;

    fn try_from(text: String) -> Result<Self, NotAScope> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.as_str().to_owned()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Place;

    #[test]
    fn a_scope_reads_back_and_nothing_else_is_one() {
        let long = format!("project~{}", "x".repeat(64));
        let ses = format!("session~{}", SessionId::new(Place::default(), 7));
        for text in ["all", "project~lab-2", long.as_str(), ses.as_str()] {
            let scope: Scope = text.parse().unwrap();
            assert_eq!(scope.to_string(), text);
            let stored = postcard::to_stdvec(&scope).unwrap();
            assert_eq!(postcard::from_bytes::<Scope>(&stored), Ok(scope));
        }
        assert_eq!("all".parse(), Ok(Scope::ALL));
        let longer = format!("{long}x");
        for bad in ["", "everything", "project~", "project~A", "team~x", "key~x", "all~x", &longer]
        {
            assert!(bad.parse::<Scope>().is_err(), "{bad}");
        }
    }

    #[test]
    fn work_is_counted_narrow_to_wide() {
        let (session, key) = (SessionId::new(Place::default(), 1), KeyId::new(Place::default(), 2));
        let whose = Whose { session: Some(session), caller: Actor::Key(key), project: "lab" };
        let widths: Vec<Width> = Scope::of(whose).map(|scope| scope.width()).collect();
        assert_eq!(widths, [Width::Session, Width::Key, Width::Project, Width::All]);
        let whose = Whose { session: None, caller: Actor::Admin, project: "No Name" };
        assert_eq!(Scope::of(whose).collect::<Vec<_>>(), [Scope::ALL]);
    }
}
