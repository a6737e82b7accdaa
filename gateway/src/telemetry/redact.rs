//! Takes secrets out of text before anybody can read it: the ones that are known, and whatever looks like one.
//!
//! It works on the finished line, behind every formatter, so that no field, debug print or error of a library can pass
//! round it. It is the last of three walls: secrets are types that do not print, and messages do not quote them.

use crate::config::Secret;
use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

/// What stands where a secret stood.
const REDACTED: &str = "[redacted]";
/// Characters of the shortest secret that is looked for by its value (6): a shorter one would blot out prose.
const KNOWN_CHARS_MIN: usize = 6;
/// Characters behind a key's start from which on the word is taken for a key (8).
const KEY_CHARS_MIN: usize = 8;
/// What keys start with: ours, and those of the providers that use a start at all.
const STARTS: [&str; 17] = [
    "piton_key_",
    "piton_admin_",
    "piton_cli_",
    "sk-",
    "sk_",
    "pk-",
    "gsk_",
    "xai-",
    "hf_",
    "nvapi-",
    "pplx-",
    "AIza",
    "AKIA",
    "eyJ",
    "ghp_",
    "github_pat_",
    "r8_",
];
/// A scheme whose parameter is a key, in lower case.
const SCHEME: &str = "bearer ";

/// Knows the secrets of this process. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor {
    // Read for each line, written at the start and when a key comes; never held across an await.
    known: Arc<RwLock<Vec<String>>>,
}

impl Redactor {
    /// From now on this secret is taken out of every line, as it is and as JSON, a debug print or both would spell it.
    pub fn learn(&self, secret: &Secret) {
        let text = secret.expose().trim();
        if text.chars().count() < KNOWN_CHARS_MIN {
            return;
        }
        let debug = text.escape_debug().to_string();
        let spellings = [text.to_owned(), json(text), json(&debug), debug];
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for spelling in spellings {
            if !known.contains(&spelling) {
                known.push(spelling);
            }
        }
        // One that holds another goes first, or its rest would stay.
        known.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
    }

    /// The text without secrets.
    #[must_use]
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut clean = Cow::Borrowed(text);
        for secret in known.iter().filter(|secret| text.contains(secret.as_str())) {
            clean = Cow::Owned(clean.replace(secret.as_str(), REDACTED));
        }
        match clean {
            Cow::Borrowed(text) => patterns(text),
            Cow::Owned(text) => Cow::Owned(patterns(&text).into_owned()),
        }
    }
}

/// How it stands inside a JSON string.
fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(text).to_owned()
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

/// The text without what looks like a key.
#[must_use]
pub fn patterns(text: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut rest = text;
    // A key starts where a word starts.
    let mut in_word = false;
    let mut kept = text;
    while let Some(first) = rest.chars().next() {
        let found = if in_word { None } else { key_at(rest) };
        if let Some((before, after)) = found {
            let passed = kept.len() - rest.len();
            clean.push_str(kept.get(..passed).unwrap_or_default());
            clean.push_str(before);
            clean.push_str(REDACTED);
            (rest, kept) = (after, after);
            in_word = false;
        } else {
            in_word = first.is_ascii_alphanumeric() || matches!(first, '_' | '-');
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
        }
    }
    if clean.is_empty() {
        return Cow::Borrowed(text);
    }
    clean.push_str(kept);
    Cow::Owned(clean)
}

/// What stays of a key at the start of `text`, and what comes after it.
fn key_at(text: &str) -> Option<(&str, &str)> {
    let scheme = text.get(..SCHEME.len()).filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    let start = STARTS.into_iter().find(|start| text.starts_with(start));
    let (stays, key) = match (scheme, start) {
        (Some(scheme), _) => (scheme, text.get(SCHEME.len()..)?),
        (None, Some(_)) => ("", text),
        (None, None) => return None,
    };
    let of_key = |c: char| c.is_ascii_alphanumeric() || "-_.~+/=*".contains(c);
    let end = key.find(|c: char| !of_key(c)).unwrap_or(key.len());
    let needed = KEY_CHARS_MIN + start.filter(|_| stays.is_empty()).map_or(0, str::len);
    if end < needed { None } else { Some((stays, key.get(end..)?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, then: &str) {
        assert_eq!(patterns(text), then);
    }

    #[test]
    fn what_looks_like_a_key_goes() {
        check("key sk-0123456789, sorry", "key [redacted], sorry");
        check("key=sk-proj-abc_DEF-123\"", "key=[redacted]\"");
        check("sk-0123456789", "[redacted]");
        check("Authorization: Bearer abcdefgh.ijk==; x", "Authorization: Bearer [redacted]; x");
        check("BEARER sk-0123456789 eyJhbGciOiJIUzI1NiJ9.x.y", "BEARER [redacted] [redacted]");
        check("a piton_key_050000_0123 b", "a [redacted] b");
        check("{\"k\":\"gsk_0123456789\"}", "{\"k\":\"[redacted]\"}");
    }

    #[test]
    fn prose_and_ids_stay() {
        for text in [
            "",
            "a risk-free task-runner-with-a-long-name at disk-0123456789",
            "sk-short",
            "bearer of news",
            "run_0500000000000000000000000000000007 key_0500000000000000000000000000000007",
            "grüße … fein ✓",
        ] {
            check(text, text);
            assert!(matches!(patterns(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn a_known_secret_goes_in_every_spelling() {
        let redactor = Redactor::default();
        let secret = "hex\"0\\1\ttab";
        redactor.learn(&Secret::new(secret));
        for spelled in
            [secret.to_owned(), serde_json::to_string(secret).unwrap(), format!("{secret:?}")]
        {
            let clean = redactor.clean(&spelled).into_owned();
            assert!(clean.contains(REDACTED) && !clean.contains("hex"), "{clean}");
        }
    }

    #[test]
    fn a_secret_that_holds_another_goes_whole_and_a_short_one_is_left() {
        let redactor = Redactor::default();
        for secret in ["abcdef", "abcdef-tail", "no"] {
            redactor.learn(&Secret::new(secret));
        }
        assert_eq!(redactor.clean("x abcdef-tail abcdef no"), "x [redacted] [redacted] no");
        assert_eq!(redactor.clean("abcdef then sk-0123456789"), "[redacted] then [redacted]");
    }
}
