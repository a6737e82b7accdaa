//! A provider's key, which no log, error or debug print may show.
//!
//! It leaves this type in one place only, the authorization header of a call; [`redact`] takes it, and whatever looks
//! like another key, out of a provider's words before anybody keeps them.

use sha2::{Digest, Sha256};
use std::fmt;
use std::iter;
use std::sync::Arc;

/// What stands where a key stood.
const REDACTED: &str = "[redacted]";
/// What the keys of known providers start with.
const PREFIXES: [&str; 10] =
    ["sk-", "sk_", "pk-", "gsk_", "xai-", "hf_", "nvapi-", "AIza", "eyJ", "ghp_"];
/// Characters from which on a word with such a start is taken for a key.
const KEY_CHARS_MIN: usize = 12;
/// Characters from which on a provider's own key is searched for in its words; a shorter one would blot out prose.
const OWN_CHARS_MIN: usize = 4;

/// A key. Clones share one copy, which is overwritten when the last one goes.
#[derive(Clone)]
pub struct Secret(Arc<Bytes>);

struct Bytes(Vec<u8>);

impl Drop for Bytes {
    fn drop(&mut self) {
        self.0.fill(0);
        // Best effort without unsafe code: the optimiser must believe that the zeros are read. What the HTTP client
        // and the kernel copied is out of reach.
        std::hint::black_box(&self.0);
    }
}

impl Secret {
    /// Takes the key over; its text is not copied.
    #[must_use]
    pub fn new(key: String) -> Self {
        Self(Arc::new(Bytes(key.into_bytes())))
    }

    /// Tells two keys apart and gives neither away: 32 bits of a hash, far too few to guess a key by.
    #[must_use]
    pub fn mark(&self) -> u64 {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(b"piton key mark\0")
            .chain_update(&self.0.0)
            .finalize()
            .into();
        let (mark, _) = hash.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        u64::from(u32::from_le_bytes(*mark))
    }

    /// The key itself, for the header and for [`redact`] only.
    pub(crate) fn expose(&self) -> &str {
        std::str::from_utf8(&self.0.0).unwrap_or_default()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// A provider's words without keys, at most `bytes_max` bytes, cut at a character.
pub(crate) fn redact<'a>(
    text: &str,
    own: impl IntoIterator<Item = &'a Secret>,
    bytes_max: usize,
) -> String {
    // A key of several parts is none of its parts: some providers repeat one of them in their words.
    let whole =
        own.into_iter().map(Secret::expose).flat_map(|own| iter::once(own).chain(own.split(':')));
    // Before any cut: of a key across it the first half would stand, and what is left of long words moves up.
    let text = whole
        .filter(|own| own.len() >= OWN_CHARS_MIN)
        .fold(text.to_owned(), |text, own| text.replace(own, REDACTED));
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || "-_*.…".contains(c)))
    {
        if out.len() >= bytes_max {
            break;
        }
        let is_key =
            word.len() >= KEY_CHARS_MIN && PREFIXES.iter().any(|prefix| word.starts_with(prefix));
        if is_key {
            out.push_str(REDACTED);
            out.extend(word.chars().last().filter(|last| !last.is_ascii_alphanumeric()));
        } else {
            out.push_str(word);
        }
    }
    cut(&out, bytes_max).to_owned()
}

/// The text up to `bytes_max` bytes, cut at a character.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_nothing() {
        let secret = Secret::new("sk-very-secret".to_owned());
        for shown in [format!("{secret}"), format!("{secret:?}"), format!("{:#?}", Some(&secret))] {
            assert!(!shown.contains("very"), "{shown}");
        }
        assert_eq!(secret.clone().expose(), "sk-very-secret");
        let other = Secret::new("sk-very-secret-too".to_owned());
        assert!(secret.mark() == secret.clone().mark() && secret.mark() != other.mark());
    }

    #[track_caller]
    fn check(text: &str, own: &str, then: &str) {
        let own = Secret::new(own.to_owned());
        assert_eq!(redact(text, Some(&own), 200), then);
    }

    #[test]
    fn keys_are_taken_out_of_words() {
        check("bad key topsecret!", "topsecret", "bad key [redacted]!");
        check("token TTTT of S/cr=t", "AKID:S/cr=t:TTTT", "token [redacted] of [redacted]");
        check(
            "Incorrect API key provided: sk-inval***-key. See",
            "x",
            "Incorrect API key provided: [redacted] See",
        );
        check("key=xai-0123456789abcdef, sorry", "x", "key=[redacted], sorry");
        check("Bearer eyJhbGciOi.eyJzdWIi.sig9 is old", "x", "Bearer [redacted] is old");
        check("sk-short and task-runner stay", "x", "sk-short and task-runner stay");
        check("grüße … fein", "x", "grüße … fein");
    }

    #[test]
    fn words_are_cut_at_a_character() {
        assert_eq!(redact(&"é".repeat(10), None, 5), "éé");
        assert_eq!(redact("abc", None, 0), "");
        let across = format!("{}sk-0123456789abcdef", "a ".repeat(5));
        assert!(!redact(&across, None, 14).contains("sk-0"));
        // What is taken out makes room for what comes behind it, however far.
        let own = Secret::new("k".repeat(40));
        let many = format!("{} ", own.expose()).repeat(20);
        assert_eq!(redact(&many, Some(&own), 60), format!("{}[reda", "[redacted] ".repeat(5)));
        let foreign = format!("sk-{} ", "0123456789".repeat(4)).repeat(20);
        assert!(!redact(&foreign, None, 60).contains("0123"));
    }

    #[test]
    fn every_secret_that_was_sent_is_taken_out() {
        let (one, other) =
            (Secret::new("device-7".to_owned()), Secret::new("AB12-CD34".to_owned()));
        let words = redact("device-7 may not enter AB12-CD34", [&one, &other], 200);
        assert_eq!(words, "[redacted] may not enter [redacted]");
    }
}
