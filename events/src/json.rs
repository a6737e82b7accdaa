//! JSON carried as bytes, because a positional format can not carry a free-form value.
//!
//! The bytes are hashed and stored as they are; nobody re-serialises them to compare.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, sync::Arc};

/// JSON text as bytes; cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json(Arc<[u8]>);

impl Json {
    /// Bytes that the edge has checked to be JSON.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }

    /// The bytes as stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text; empty if the bytes are not UTF-8.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self(Arc::from(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Json {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::from(bytes))
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::from_bytes(b"null")
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl de::Visitor<'_> for Bytes {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Json, E> {
                Ok(Json::from_bytes(bytes))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
