//! Ids of tool calls that a provider left out or gave twice: made here, and always the same for the same request,
//! answer and place, so that a replay meets the same ones.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Bytes of the hash in an id that is made here.
const ID_BYTES: usize = 12;

/// Makes ids.
#[derive(Debug)]
pub(crate) struct Ids {
    /// The request's bytes, so that equal requests get equal ids and others do not.
    salt: Bytes,
}

impl Ids {
    /// Ids of the answer to a request with these bytes.
    pub(crate) const fn new(request: Bytes) -> Self {
        Self { salt: request }
    }

    /// The id of the call at this place of an answer.
    pub(crate) fn make(&self, answer: &str, at: usize) -> String {
        let mut hasher = Sha256::new();
        for part in [&self.salt, answer.as_bytes(), at.to_string().as_bytes()] {
            hasher.update(part.len().to_string());
            hasher.update(b":");
            hasher.update(part);
        }
        let mut id = "call_".to_owned();
        for byte in hasher.finalize().iter().take(ID_BYTES) {
            // Writing to a string can not fail.
            let _infallible = write!(id, "{byte:02x}");
        }
        id
    }
}
