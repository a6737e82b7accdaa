//! A provider's id as the name of a stream: small, ordered and copied freely.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes of the longest id; the longest known one has 20.
const BYTES_MAX: usize = 32;

/// A provider's id: 1 to 32 characters of `a-z 0-9 -`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProviderId {
    /// Zeros behind its end, so that ids sort as their texts do.
    bytes: [u8; BYTES_MAX],
}

/// The text is no provider's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no provider's id: give 1 to {BYTES_MAX} characters of a-z 0-9 -")]
pub struct NotAProvider(pub String);

impl ProviderId {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(BYTES_MAX);
        let text = self.bytes.get(..end).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl FromStr for ProviderId {
    type Err = NotAProvider;

    fn from_str(text: &str) -> Result<Self, NotAProvider> {
        let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let mut bytes = [0; BYTES_MAX];
        match bytes.get_mut(..text.len()) {
            Some(head) if !text.is_empty() && text.bytes().all(allowed) => {
                head.copy_from_slice(text.as_bytes());
                Ok(Self { bytes })
            }
            Some(_) | None => Err(NotAProvider(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_sorts_as_its_text() {
        let ids = ["a", "ab", "b", "minimax-cn", &"x".repeat(32)];
        let parsed: Vec<ProviderId> = ids.iter().map(|id| id.parse().unwrap()).collect();
        assert!(parsed.is_sorted());
        assert!(parsed.iter().zip(ids).all(|(parsed, id)| parsed.to_string() == id));
        for bad in ["", "A", "a.b", "a b", "a/b", &"x".repeat(33)] {
            assert!(bad.parse::<ProviderId>().is_err(), "{bad}");
        }
    }
}
