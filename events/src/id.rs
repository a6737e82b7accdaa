//! Typed ids that carry where their stream lives, so that no look-up is needed to find its owner.
//!
//! Form: `<prefix>_<pp><gg><26>`: two characters of partition, two of generation, 128 bits; lower-case base 32
//! without `i l o u`. Children copy their root's partition and generation. An id is parsed once, at the edge.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};

/// Partitions of a journal; the unit of ownership.
pub const PARTITIONS: u8 = 64;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of 128 bits in base 32.
const UNIQUE_CHARS: usize = 26;

/// Unit of ownership, 0 to 63.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Partition(u8);

impl Partition {
    /// The partition that a number falls into.
    #[must_use]
    pub fn of(number: u64) -> Self {
        Self(u8::try_from(number % u64::from(PARTITIONS)).unwrap_or_default())
    }

    /// The partition of a named singleton: a hash of its name.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        let [first, ..] = digest;
        Self::of(u64::from(first))
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..PARTITIONS).map(Self)
    }

    /// 0 to 63.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }
}

/// A set of shards that is archived as a whole, 0 to 1023.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Generation(u16);

impl Generation {
    /// The first one.
    pub const FIRST: Self = Self(0);

    /// 0 to 1023.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// Where a root and all its children live.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Place {
    /// Which owner.
    pub partition: Partition,
    /// Which set of shards.
    pub generation: Generation,
}

/// The text is not an id of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a {prefix} id: give {prefix}_ and 30 characters of 0-9 a-z without i l o u"
)]
pub struct NotAnId {
    /// What was given.
    pub text: String,
    /// What was wanted.
    pub prefix: &'static str,
}

fn push(out: &mut String, value: u128, chars: usize) {
    for place in (0..chars).rev() {
        let digit = usize::try_from((value >> (place * 5)) & 31).unwrap_or_default();
        out.push(char::from(ALPHABET.get(digit).copied().unwrap_or(b'0')));
    }
}

fn pull(text: &str) -> Option<u128> {
    text.bytes().try_fold(0_u128, |value, byte| {
        let digit = ALPHABET.iter().position(|c| *c == byte)?;
        value.checked_mul(32)?.checked_add(u128::try_from(digit).ok()?)
    })
}

fn write(prefix: &str, place: Place, unique: u128) -> String {
    let mut out = String::with_capacity(prefix.len() + 5 + UNIQUE_CHARS);
    out.push_str(prefix);
    out.push('_');
    push(&mut out, u128::from(place.partition.0), 2);
    push(&mut out, u128::from(place.generation.0), 2);
    push(&mut out, unique, UNIQUE_CHARS);
    out
}

fn read(prefix: &str, text: &str) -> Option<(Place, u128)> {
    let rest = text.strip_prefix(prefix)?.strip_prefix('_')?;
    if !rest.is_ascii() || rest.len() != 4 + UNIQUE_CHARS {
        return None;
    }
    let (place, unique) = rest.split_at_checked(4)?;
    let (partition, generation) = place.split_at_checked(2)?;
    let partition = u8::try_from(pull(partition)?).ok().filter(|p| *p < PARTITIONS)?;
    let generation = u16::try_from(pull(generation)?).ok()?;
    let place = Place { partition: Partition(partition), generation: Generation(generation) };
    Some((place, pull(unique)?))
}

/// The first 128 bits of a hash over length-prefixed parts.
#[must_use]
pub fn digest(parts: &[&[u8]]) -> u128 {
    let full = digest256(parts);
    let (head, _) = full.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    u128::from_be_bytes(*head)
}

/// All of SHA-256 over parts, each behind its length.
#[must_use]
pub fn digest256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name {
            place: Place,
            unique: u128,
        }

        impl $name {
            /// What its text starts with.
            pub const PREFIX: &'static str = $prefix;

            /// An id from 128 bits that the edge drew.
            #[must_use]
            pub const fn new(place: Place, unique: u128) -> Self {
                Self { place, unique }
            }

            /// The id that the same parts always give, so that a repeat finds the same stream.
            #[must_use]
            pub fn derived(place: Place, parts: &[&[u8]]) -> Self {
                Self { place, unique: digest(parts) }
            }

            /// Where its stream lives.
            #[must_use]
            pub const fn place(self) -> Place {
                self.place
            }

            /// Its 128 bits.
            #[must_use]
            pub const fn unique(self) -> u128 {
                self.unique
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&write($prefix, self.place, self.unique))
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                let (place, unique) = read($prefix, text)
                    .ok_or_else(|| NotAnId { text: text.chars().take(80).collect(), prefix: $prefix })?;
                Ok(Self { place, unique })
            }
        }
    };
}

id!(
    /// Names a session: a conversation with one writer.
    SessionId,
    "ses"
);
id!(
    /// Names a run: one unit of agent work.
    RunId,
    "run"
);
id!(
    /// Names an access key; never the secret itself.
    KeyId,
    "key"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: u64, generation: u16) -> Place {
        Place { partition: Partition::of(partition), generation: Generation(generation) }
    }

    #[test]
    fn an_id_reads_back_what_it_writes() {
        for unique in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let id = RunId::new(place(63, 1023), unique);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn an_id_has_one_spelling() {
        let good = RunId::new(place(5, 0), 7).to_string();
        assert_eq!(good, "run_050000000000000000000000000007");
        for bad in [
            good.to_uppercase(),
            good.replace("run_", "ses_"),
            format!("{good}0"),
            good.replace('7', "l"),
            good.replacen("05", "20", 1),
            good.replacen("0500", "0500z", 1),
            String::new(),
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn equal_parts_derive_equal_ids_and_boundaries_matter() {
        let derive = |parts: &[&[u8]]| RunId::derived(place(1, 0), parts);
        assert_eq!(derive(&[b"a", b"b"]), derive(&[b"a", b"b"]));
        assert_ne!(derive(&[b"a", b"b"]), derive(&[b"ab", b""]));
    }
}
