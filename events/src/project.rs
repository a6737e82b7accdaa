//! A project as the name of a stream: small, ordered and copied freely.
//!
//! Every project has one, so that no name is without gates: a name that no stream can have is found by its hash.

use crate::id::digest;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes of the longest name that is kept as it is.
const BYTES_MAX: usize = 64;

/// A project. Its own name where that has 1 to 64 characters of `a-z 0-9 _ -`; else `~` and 32 hexadecimal digits of
/// the name's hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Project {
    /// Zeros behind its end, so that projects sort as their texts do.
    bytes: [u8; BYTES_MAX],
}

/// The text is no stream of a project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no project's stream: 1 to {BYTES_MAX} characters of a-z 0-9 _ -, or ~ and 32 hexadecimal digits"
)]
pub struct NotAProject(pub String);

fn is_name(text: &str) -> bool {
    let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

fn is_hash(text: &str) -> bool {
    let allowed = |c: u8| matches!(c, b'a'..=b'f' | b'0'..=b'9');
    text.strip_prefix('~').is_some_and(|hex| hex.len() == 32 && hex.bytes().all(allowed))
}

impl Project {
    /// The project of this name; two names never share one.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let hashed =
            || Self::written(&format!("~{:032x}", digest(&[b"piton/project", name.as_bytes()])));
        if is_name(name) { Self::written(name) } else { hashed() }
    }

    fn written(text: &str) -> Self {
        let mut bytes = [0; BYTES_MAX];
        if let Some(head) = bytes.get_mut(..text.len()) {
            head.copy_from_slice(text.as_bytes());
        }
        Self { bytes }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(BYTES_MAX);
        std::str::from_utf8(self.bytes.get(..end).unwrap_or_default()).unwrap_or_default()
    }
}

impl FromStr for Project {
    type Err = NotAProject;

    fn from_str(text: &str) -> Result<Self, NotAProject> {
        if is_name(text) || is_hash(text) {
            return Ok(Self::written(text));
        }
        Err(NotAProject(text.chars().take(100).collect()))
    }
}

impl TryFrom<String> for Project {
    type Error = NotAProject;

    fn try_from(text: String) -> Result<Self, NotAProject> {
        text.parse()
    }
}

impl From<Project> for String {
    fn from(project: Project) -> Self {
        project.as_str().to_owned()
    }
}

impl fmt::Display for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{StreamKey, StreamKind};

    #[test]
    fn each_name_has_a_stream_of_its_own_and_reads_back() {
        let long = "x".repeat(64);
        let longer = "x".repeat(65);
        let names = ["default", "lab-2", &long, &longer, "", "No Name", "no name", "~", "a/b", "ä"];
        let mut seen = std::collections::BTreeSet::new();
        for name in names {
            let project = Project::of(name);
            assert_eq!(project.as_str().parse(), Ok(project), "{name}");
            let stored = postcard::to_stdvec(&project).unwrap();
            assert_eq!(postcard::from_bytes::<Project>(&stored), Ok(project));
            let stream = StreamKey::named(StreamKind::Gates, project.as_str());
            assert_eq!(stream.as_str().parse::<StreamKey>(), Ok(stream), "{name}");
            assert!(seen.insert(project), "{name} shares a stream");
        }
        assert_eq!(Project::of("lab-2").as_str(), "lab-2");
        // A name that looks like a hash can not take another's stream.
        let hashed = Project::of("No Name");
        assert_ne!(Project::of(hashed.as_str()), hashed);
        for bad in ["", "A", "~x", "a~b", &longer] {
            assert!(bad.parse::<Project>().is_err(), "{bad}");
        }
    }
}
