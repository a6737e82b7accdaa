//! Where secrets are kept: a file of this machine's, or a bucket of the cluster whose values are sealed.
//!
//! A value has a name and a revision, and is written by compare and set, so that of two who refresh one token only one
//! wins. What is read is checked before it is believed: that it is this name's value, and that nobody changed it. No
//! value stands in an error, a log line or a debug print. Absent on purpose: a way to read a value over HTTP.

mod bucket;
mod file;
pub mod keys;
mod seal;

use crate::Outage;
use crate::private::PrivateError;
pub use bucket::{Bucket, OpenBucket, Rotation};
pub use file::CredentialFile;
pub use keys::{ClusterKeys, KeyFile, KeyFileError};
use std::fmt;
use std::str::FromStr;

/// Bytes of the largest value (16 KiB): a key has less than 300, tokens with their claims a few thousand.
pub const VALUE_BYTES_MAX: usize = 16 << 10;
/// Parts of the longest name.
const PARTS_MAX: usize = 4;
/// Bytes of the longest part of a name.
const PART_BYTES_MAX: usize = 48;

/// Names a value: 1 to 4 parts of `a-z 0-9 _ -` with dots between them, such as `credential.openai.main`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// The text does not name a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no value of the vault: give 1 to {PARTS_MAX} parts of a-z 0-9 _ - with dots between them, each of 1 to {PART_BYTES_MAX}"
)]
pub struct NotAName(pub String);

impl Name {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where a provider's profile is kept.
    ///
    /// # Errors
    ///
    /// [`NotAName`] when one of the two can not be a part of a name.
    pub fn of_credential(provider: &str, profile: &str) -> Result<Self, NotAName> {
        let name: Self = format!("credential.{provider}.{profile}").parse()?;
        if name.credential().is_some() { Ok(name) } else { Err(NotAName(name.0)) }
    }

    /// The provider and the profile whose credential it is, if it is one.
    #[must_use]
    pub fn credential(&self) -> Option<(&str, &str)> {
        let (provider, profile) = self.0.strip_prefix("credential.")?.split_once('.')?;
        (!profile.contains('.')).then_some((provider, profile))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        let part =
            |part: &str| (1..=PART_BYTES_MAX).contains(&part.len()) && part.bytes().all(allowed);
        let few = text.split('.').take(PARTS_MAX + 1).count() <= PARTS_MAX;
        if few && text.split('.').all(part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAName(text.chars().take(80).collect()))
        }
    }
}

/// A value in the clear. It prints as nothing and is overwritten when it goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Plain(Vec<u8>);

impl Plain {
    /// Takes a value over; its bytes are not copied.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The value itself. Every call of this is a place to look at in a review.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.0.fill(0);
        // Best effort without unsafe code: the optimiser must believe that the zeros are read.
        std::hint::black_box(&self.0);
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("redacted")
    }
}

/// Counts the writes of a name; it never goes back, also over a removal. The first one is above [`Revision::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Of a name without a value.
    pub const NONE: Self = Self(0);
}

/// A value as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What a change of it must name.
    pub revision: Revision,
    /// The value.
    pub value: Plain,
}

/// The vault has no answer, or says no. No message holds a value.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// Somebody else was first: look again and decide anew.
    #[error("{name} was changed meanwhile: it is at revision {}, not {}", found.0, expected.0)]
    Conflict {
        /// Which value.
        name: Name,
        /// What was named.
        expected: Revision,
        /// What stands there.
        found: Revision,
    },
    /// Put that key into this node's cluster key file.
    #[error(
        "{name} is sealed under cluster key {id:?}, which the cluster key file of this node does not have: add its line"
    )]
    NoKey {
        /// Which value.
        name: Name,
        /// Which key it wants.
        id: String,
    },
    /// The file's key of that id is another one: copy the line from a node that can read.
    #[error(
        "cluster key {id:?} of this node is not the one that {name} was sealed under: copy its line from another node"
    )]
    WrongKey {
        /// Which value.
        name: Name,
        /// Which key.
        id: String,
    },
    /// Somebody changed the stored bytes. Rotate the credential; look who may write to the bucket.
    #[error(
        "{name} was changed outside of Piton: it does not open under cluster key {id:?}; write it again"
    )]
    Tampered {
        /// Which value.
        name: Name,
        /// Which key it claims.
        id: String,
    },
    /// Somebody put another name's value there. As above.
    #[error("what stands under {name} is the value of {found}: somebody moved it; write it again")]
    Swapped {
        /// Which value was asked for.
        name: Name,
        /// Whose it is.
        found: String,
    },
    /// Another build wrote it, or no build did.
    #[error("what stands under {name} is nothing that this build reads")]
    Strange {
        /// Which value.
        name: Name,
    },
    /// Shorten it.
    #[error("the value of {name} has {bytes} bytes, the most is {VALUE_BYTES_MAX}")]
    TooLarge {
        /// Which value.
        name: Name,
        /// What was given.
        bytes: usize,
    },
    /// Nothing is kept under such a name here.
    #[error("{name} is not kept here: {why}")]
    NotHere {
        /// Which value.
        name: Name,
        /// Why not.
        why: &'static str,
    },
    /// Mend the file, as its text says.
    #[error(transparent)]
    File(#[from] PrivateError),
    /// The file of credentials is not what it should be: mend it, or move it away.
    #[error("{path}: {why}", path = path.display())]
    Format {
        /// Which file.
        path: std::path::PathBuf,
        /// What is wrong, without a value.
        why: String,
    },
    /// Mend the file of cluster keys, as its text says.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// No answer that says anything; a write may or may not have landed. Look again.
    #[error("the vault does not answer")]
    Outage(#[from] Outage),
    /// The machine gives no random numbers.
    #[error("no random numbers")]
    NoChance,
}

/// Nobody else of this machine is at a value while this lives. The system takes it back from a process that died.
#[derive(Debug)]
pub struct Alone(#[expect(dead_code, reason = "held, never read")] Option<std::fs::File>);

/// A closed set; clone it freely.
#[derive(Debug, Clone)]
pub enum Vault {
    /// Provider credentials in a file of this machine.
    File(CredentialFile),
    /// A bucket of the cluster, sealed under its key.
    Bucket(Bucket),
}

impl Vault {
    /// What stands under a name, checked.
    ///
    /// # Errors
    ///
    /// [`VaultError`], which names what is wrong with it.
    pub async fn get(&self, name: &Name) -> Result<Option<Kept>, VaultError> {
        match self {
            Self::File(file) => file.get(name),
            Self::Bucket(bucket) => Box::pin(bucket.get(name)).await,
        }
    }

    /// Writes a value where `expected` stands; [`Revision::NONE`] where none does. Says its revision.
    ///
    /// # Errors
    ///
    /// [`VaultError::Conflict`] when something else stands there; after an outage it may have landed: look.
    pub async fn put(
        &self,
        name: &Name,
        value: &Plain,
        expected: Revision,
    ) -> Result<Revision, VaultError> {
        if value.expose().len() > VALUE_BYTES_MAX {
            return Err(VaultError::TooLarge { name: name.clone(), bytes: value.expose().len() });
        }
        match self {
            Self::File(file) => file.put(name, value, expected),
            Self::Bucket(bucket) => Box::pin(bucket.put(name, value, expected)).await,
        }
    }

    /// Takes a value away. What is not there is gone already.
    ///
    /// # Errors
    ///
    /// When it could not be done; it may be tried again.
    pub async fn remove(&self, name: &Name) -> Result<(), VaultError> {
        match self {
            Self::File(file) => file.remove(name),
            Self::Bucket(bucket) => Box::pin(bucket.remove(name)).await,
        }
    }

    /// Keeps other processes of this machine from doing what only one may do at a time with this value, until it is
    /// dropped; `None` while another one is at it. A cluster's value has one owner among the nodes and needs no such thing.
    ///
    /// # Errors
    ///
    /// When the mark can not be made.
    pub fn alone(&self, name: &Name) -> Result<Option<Alone>, VaultError> {
        match self {
            Self::File(file) => Ok(file.alone(name)?.map(|mark| Alone(Some(mark)))),
            Self::Bucket(_) => Ok(Some(Alone(None))),
        }
    }

    /// The names that have a value, in order.
    ///
    /// # Errors
    ///
    /// When they can not be listed now.
    pub async fn names(&self) -> Result<Vec<Name>, VaultError> {
        match self {
            Self::File(file) => file.names(),
            Self::Bucket(bucket) => Box::pin(bucket.names()).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_parts_with_dots_between_them() {
        for good in ["a", "credential.openai.main", "a.b.c.d", "x_1-2"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "a.", "A", "a.*", "a.>", "a b", "a.b.c.d.e", &"x".repeat(49)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
        let name = Name::of_credential("openai", "main").unwrap();
        assert_eq!(name.credential(), Some(("openai", "main")));
        for (provider, profile) in [("openai", "a.b"), ("open.ai", "a"), ("", "a"), ("a", "")] {
            assert!(Name::of_credential(provider, profile).is_err(), "{provider} {profile}");
        }
        assert_eq!("anchor".parse::<Name>().unwrap().credential(), None);
    }

    #[test]
    fn a_value_prints_as_nothing() {
        let kept = Kept { revision: Revision(1), value: Plain::new(b"sk-planted".to_vec()) };
        let shown = format!("{kept:?} {:#?}", Some(&kept.value));
        assert!(!shown.contains("planted") && !shown.contains("115"), "{shown}");
    }
}
