//! Model-facing names: `note.append` is `note_append` to a model, because the narrowest provider takes
//! `^[a-zA-Z0-9_-]{1,64}$`.
//!
//! A name depends on the tools that stand beside it and on nothing else, not on their order: two runs of one
//! configuration name them alike. Where two would share a name, a hash of the raw name tells them apart, so that a
//! model never calls one and means the other.

use events::journal;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Characters of a model-facing name.
pub const NAME_CHARS_MAX: usize = 64;
/// Bytes of the hash in a name.
const HASH_BYTES: usize = 4;

/// Two raw names have one model-facing name, in spite of their hashes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tools {first:?} and {second:?} would both be called {safe:?}: rename one")]
pub struct NameTaken {
    /// One raw name.
    pub first: String,
    /// The other.
    pub second: String,
    /// What both would be called.
    pub safe: String,
}

/// The model-facing name of each raw name.
///
/// # Errors
///
/// [`NameTaken`] for a raw name that stands twice, or was made to collide with another's hash.
pub fn safe_names(raw: &[&str]) -> Result<BTreeMap<String, String>, NameTaken> {
    let mut shared: BTreeMap<String, usize> = BTreeMap::new();
    for name in raw {
        *shared.entry(sanitise(name)).or_default() += 1;
    }
    let mut safe_to_raw: BTreeMap<String, &str> = BTreeMap::new();
    for name in raw {
        let plain = sanitise(name);
        let is_shared = shared.get(&plain).is_some_and(|count| *count > 1);
        // A name that is safe as it is keeps itself; the ones that were bent to it step aside.
        let is_cut = name.chars().count() > NAME_CHARS_MAX;
        let safe =
            if is_cut || (is_shared && plain != *name) { hashed(&plain, name) } else { plain };
        if let Some(first) = safe_to_raw.insert(safe.clone(), name) {
            return Err(NameTaken { first: first.to_owned(), second: (*name).to_owned(), safe });
        }
    }
    Ok(safe_to_raw.into_iter().map(|(safe, raw)| (raw.to_owned(), safe)).collect())
}

fn sanitise(raw: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = raw.chars().take(NAME_CHARS_MAX).map(safe).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// The plain name, shortened, and the start of the raw name's hash.
fn hashed(plain: &str, raw: &str) -> String {
    let mut name: String = plain.chars().take(NAME_CHARS_MAX - 1 - 2 * HASH_BYTES).collect();
    name.push('_');
    for byte in journal::hash(raw.as_bytes()).0.iter().take(HASH_BYTES) {
        // Writing to a string can not fail.
        let _infallible = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &[&str], then: &[&str]) {
        let names = safe_names(raw).unwrap();
        let found: Vec<&str> = raw.iter().map(|raw| names[*raw].as_str()).collect();
        assert_eq!(found, then);
        let reversed: Vec<&str> = raw.iter().rev().copied().collect();
        assert_eq!(safe_names(&reversed).unwrap(), names, "the order changes nothing");
        for name in names.values() {
            assert!((1..=64).contains(&name.len()), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
        }
    }

    #[test]
    fn what_is_not_safe_becomes_an_underscore() {
        check(&["note.append", "clock.now"], &["note_append", "clock_now"]);
        check(&["a-b_C9"], &["a-b_C9"]);
        check(&["größe"], &["gr__e"]);
        check(&[""], &["_"]);
    }

    #[test]
    fn a_collision_is_resolved_by_a_hash_and_the_safe_one_keeps_its_name() {
        check(&["a.b", "a_b"], &["a_b_2e7336dc", "a_b"]);
        check(&["a.b", "a/b"], &["a_b_2e7336dc", "a_b_c14cddc0"]);
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (one, other) = ("x".repeat(70), format!("{}y", "x".repeat(69)));
        let names = safe_names(&[&one, &other]).unwrap();
        assert_ne!(names[&one], names[&other]);
        assert!(names.values().all(|name| name.len() == 64));
        check(&[&"x".repeat(64)], &[&"x".repeat(64)]);
    }

    #[test]
    fn one_name_twice_is_refused() {
        let error = safe_names(&["a", "a"]).unwrap_err();
        assert_eq!(error.to_string(), r#"tools "a" and "a" would both be called "a": rename one"#);
        let forged = safe_names(&["a.b", "a_b"]).unwrap()["a.b"].clone();
        assert!(safe_names(&["a.b", "a_b", &forged]).is_err());
    }
}
