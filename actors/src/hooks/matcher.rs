//! Which tools a hook looks at: names joined by `|`, in which `*` and `.*` stand for anything and `.` for one character.
//!
//! That is the part of Claude Code's patterns that people use. Any other character of a regular expression is refused:
//! taken for itself it would match nothing, and the hook would never look.

use std::fmt;
use std::str::FromStr;

/// Bytes of the longest matcher (512).
const BYTES_MAX: usize = 512;

/// Which tools a hook looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher(String);

/// The text is no matcher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no matcher: give names of tools joined by |, with * for anything (note_append|mcp_git_*), or * alone for all"
)]
pub struct NotAMatcher(pub String);

impl Matcher {
    /// Whether it names this tool.
    #[must_use]
    pub fn matches(&self, tool: &str) -> bool {
        let is_all = |pattern: &str| pattern.is_empty() || pattern == "*";
        is_all(&self.0) || self.0.split('|').any(|pattern| is_match(pattern, tool))
    }
}

/// Moves all places that the name so far can have reached, so that no pattern takes exponential time.
fn is_match(pattern: &str, name: &str) -> bool {
    let pattern = pattern.replace(".*", "*");
    let parts = pattern.as_bytes();
    let skipped = |mut reached: Vec<bool>| {
        for (at, part) in parts.iter().enumerate() {
            let skips = *part == b'*' && reached.get(at) == Some(&true);
            if let Some(after) = reached.get_mut(at + 1).filter(|_| skips) {
                *after = true;
            }
        }
        reached
    };
    let start = skipped((0..=parts.len()).map(|at| at == 0).collect());
    let end = name.bytes().fold(start, |reached, byte| {
        let mut next = vec![false; reached.len()];
        for (at, part) in parts.iter().enumerate().filter(|(at, _)| reached.get(*at) == Some(&true))
        {
            let to = match part {
                b'*' => Some(at),
                b'.' => Some(at + 1),
                other => (*other == byte).then_some(at + 1),
            };
            if let Some(place) = to.and_then(|to| next.get_mut(to)) {
                *place = true;
            }
        }
        skipped(next)
    });
    end.last() == Some(&true)
}

impl FromStr for Matcher {
    type Err = NotAMatcher;

    fn from_str(text: &str) -> Result<Self, NotAMatcher> {
        let allowed =
            |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b'*' | b'|');
        let empty_part = text.contains('|') && text.split('|').any(str::is_empty);
        if text.len() > BYTES_MAX || !text.bytes().all(allowed) || empty_part {
            return Err(NotAMatcher(text.chars().take(100).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_names_whole_tools() {
        for (matcher, tool, names) in [
            ("*", "anything", true),
            ("", "anything", true),
            ("note_append", "note_append", true),
            ("note_append", "note_append2", false),
            ("note.append", "note_append", true),
            ("note_*", "note_append", true),
            ("note_.*", "note_append", true),
            ("mcp_git_*|note_append", "note_append", true),
            ("mcp_git_*|note_append", "mcp_git_push", true),
            ("mcp_git_*|note_append", "mcp_gitpush", false),
            ("*_write", "file_write", true),
            ("*_write", "file_write_all", false),
            ("Note_append", "note_append", false),
        ] {
            let matcher: Matcher = matcher.parse().unwrap();
            assert_eq!(matcher.matches(tool), names, "{matcher} {tool}");
        }
    }

    #[test]
    fn what_would_never_match_is_refused() {
        for bad in ["(a|b)", "a+", "^a$", "a b", "[ab]", r"a\d", "a||b", "|", &"a".repeat(513)] {
            assert!(bad.parse::<Matcher>().is_err(), "{bad}");
        }
    }
}
