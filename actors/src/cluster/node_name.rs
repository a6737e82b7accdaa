//! What a node is called. It stands in subjects, bucket keys and lease values, so it has one spelling.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// Bytes of the longest name.
pub const NODE_NAME_MAX: usize = 40;

/// Names a node of a cluster: 1 to 40 of `a-z`, `0-9` and `-`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

/// The text does not name a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a node's name: give 1 to {NODE_NAME_MAX} characters of a-z, 0-9 and -")]
pub struct NotANodeName(pub String);

impl NodeName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NotANodeName;

    fn from_str(text: &str) -> Result<Self, NotANodeName> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if (1..=NODE_NAME_MAX).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(NotANodeName(text.chars().take(NODE_NAME_MAX).collect()))
        }
    }
}

impl TryFrom<String> for NodeName {
    type Error = NotANodeName;

    fn try_from(text: String) -> Result<Self, NotANodeName> {
        text.parse()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_token_of_a_subject() {
        for good in ["a", "node-1", &"x".repeat(NODE_NAME_MAX)] {
            assert_eq!(good.parse::<NodeName>().unwrap().to_string(), good);
        }
        for bad in ["", "A", "a.b", "a*", ">", "a b", "a_b", "é", &"x".repeat(NODE_NAME_MAX + 1)] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }
}
