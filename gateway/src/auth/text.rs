//! A key's text: which key it is, and 256 bits that nobody guesses. It is shown once, and only its hash is kept.
//!
//! The bits are random, so a plain SHA-256 is enough: there is no dictionary to try.

use crate::config::Secret;
use events::id::KeyId;
use events::record::Hash;
use sha2::{Digest, Sha256};

/// What every key of ours starts with.
const PREFIX: &str = "piton_";
/// What the node's administrator key starts with.
pub(crate) const ADMIN_PREFIX: &str = "piton_admin_";
/// What the command line's own key starts with.
pub(crate) const CLI_PREFIX: &str = "piton_cli_";
/// The alphabet of ids: base 32 without `i l o u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of 256 bits in base 32.
const SECRET_CHARS: usize = 52;

/// The text of an issued key, from 256 bits that the edge drew. Show it once; keep its [`hash`].
#[must_use]
pub fn issued(id: KeyId, drawn: [u8; 32]) -> Secret {
    Secret::new(format!("{PREFIX}{id}_{}", base32(drawn)))
}

/// The text of a key of the node itself.
pub(crate) fn of_node(prefix: &str, drawn: [u8; 32]) -> Secret {
    Secret::new(format!("{prefix}{}", base32(drawn)))
}

/// Which issued key a text claims to be; none when it has not the form of one.
#[must_use]
pub fn claimed(text: &str) -> Option<KeyId> {
    let (id, secret) = text.strip_prefix(PREFIX)?.rsplit_once('_')?;
    let formed =
        secret.len() == SECRET_CHARS && secret.bytes().all(|byte| ALPHABET.contains(&byte));
    if formed { id.parse().ok() } else { None }
}

/// What is kept of a key.
#[must_use]
pub fn hash(text: &str) -> Hash {
    Hash(Sha256::digest(text.as_bytes()).into())
}

/// The bits from the first byte on, five a character; the last character has one bit.
fn base32(drawn: [u8; 32]) -> String {
    let mut text = String::with_capacity(SECRET_CHARS);
    let (mut held, mut bits) = (0_u16, 0_u32);
    let mut push = |digit: u16| {
        let digit = ALPHABET.get(usize::from(digit & 31)).copied().unwrap_or(b'0');
        text.push(char::from(digit));
    };
    for byte in drawn {
        held = (held << 8) | u16::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            push(held >> bits);
        }
        held &= (1 << bits) - 1;
    }
    push(held << (5 - bits));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::id::Place;
    use std::collections::BTreeSet;

    #[test]
    fn each_bit_shows_in_the_text() {
        let texts: BTreeSet<String> = (0..256)
            .map(|bit: usize| {
                let mut drawn = [0; 32];
                drawn[bit / 8] = 1 << (bit % 8);
                base32(drawn)
            })
            .collect();
        assert_eq!(texts.len(), 256);
        assert!(texts.iter().all(|text| text.len() == SECRET_CHARS));
        assert_eq!(base32([0xff; 32]), format!("{}g", "z".repeat(51)));
    }

    #[test]
    fn a_text_says_which_key_it_is_and_nothing_else_does() {
        let id = KeyId::new(Place::default(), 7);
        let key = issued(id, [9; 32]);
        assert_eq!(claimed(key.expose()), Some(id));
        let bad = [
            key.expose().replace("piton_", ""),
            key.expose().replace("key_", "run_"),
            format!("{}0", key.expose()),
            key.expose().to_uppercase(),
            of_node(ADMIN_PREFIX, [9; 32]).expose().to_owned(),
            String::new(),
        ];
        for text in bad {
            assert_eq!(claimed(&text), None, "{text}");
        }
    }
}
