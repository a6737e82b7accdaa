//! What a model is asked, laid out as a stable prefix and a volatile suffix, so that caches of a provider stay warm,
//! and hashed by its parts, so that an intent can name a request without carrying it.
//!
//! The neutral request hash is a function of journal and route alone; provider bytes never enter it.

use crate::json::Json;
use crate::message::Body;
use crate::quantity::Tokens;
use crate::record::Hash;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Version of the neutral request hash; part of it.
const REQUEST_SCHEMA: u16 = 1;

/// The tools offered to a model: a JSON array of `{name, description, parameters}`, sorted by name, keys sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue(Json);

impl Default for Catalogue {
    fn default() -> Self {
        Self(Json::from_bytes(b"[]"))
    }
}

impl Catalogue {
    /// Canonical bytes that the edge made.
    #[must_use]
    pub const fn new(canonical: Json) -> Self {
        Self(canonical)
    }

    /// The bytes.
    #[must_use]
    pub const fn json(&self) -> &Json {
        &self.0
    }

    /// Whether no tool is offered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.as_bytes() == b"[]"
    }

    /// SHA-256 of the bytes.
    #[must_use]
    pub fn hash(&self) -> Hash {
        crate::journal::hash(self.0.as_bytes())
    }
}

/// What the caller wants of the model besides the messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Params {
    /// The most output that may be produced, where the caller bounds it.
    pub output_max: Option<Tokens>,
    /// Everything else the caller sent for the model (temperature, stop, response format, tool choice …): a JSON
    /// object with sorted keys, passed through.
    pub extra: Json,
}

/// A request of one model: everything that its wire bytes depend on, but the adapter's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The model's name at its provider.
    pub model: String,
    /// Stable prefix: the tools.
    pub tools: Catalogue,
    /// Stable prefix: system messages; then the volatile suffix.
    pub messages: Vec<Body>,
    /// The rest.
    pub params: Params,
}

/// Names a request by its parts.
#[must_use]
pub fn request_hash(
    provider: &str,
    model: &str,
    tools: Hash,
    messages: &[Hash],
    params: &Params,
) -> Hash {
    let mut hasher = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hasher.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(bytes);
    };
    field(b"piton/request");
    field(&REQUEST_SCHEMA.to_le_bytes());
    field(provider.as_bytes());
    field(model.as_bytes());
    field(&tools.0);
    field(&params.output_max.map_or([0; 9], |max| {
        let mut bytes = [1; 9];
        let (_, value) = bytes.split_at_mut(1);
        value.copy_from_slice(&max.0.to_le_bytes());
        bytes
    }));
    field(params.extra.as_bytes());
    for message in messages {
        field(&message.0);
    }
    Hash(hasher.finalize().into())
}

impl Request {
    /// Its name; equal to the one in the intent that asked for it.
    #[must_use]
    pub fn hash(&self, provider: &str) -> Hash {
        let messages: Vec<Hash> = self.messages.iter().map(Body::hash).collect();
        self.hash_of(provider, &messages)
    }

    /// Its name when its messages have these: what stands for older ones is named by them, not by its own bytes.
    #[must_use]
    pub fn hash_of(&self, provider: &str, messages: &[Hash]) -> Hash {
        request_hash(provider, &self.model, self.tools.hash(), messages, &self.params)
    }
}

/// The most tokens that some text can be: a token of a byte-level vocabulary is at least one byte. A bound for
/// reservations, not an estimate: prose is about a quarter of it.
#[must_use]
pub fn tokens_upper(bytes: usize) -> Tokens {
    Tokens(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Message, Role};

    fn request(text: &str) -> Request {
        Request {
            model: "m".into(),
            tools: Catalogue::default(),
            messages: vec![Message::text(Role::User, text).body()],
            params: Params::default(),
        }
    }

    #[test]
    fn each_part_changes_the_hash() {
        let base = request("a");
        let mut others = vec![request("b"), Request { model: "n".into(), ..base.clone() }];
        others.push(Request { tools: Catalogue::new(Json::from_bytes(b"[{}]")), ..base.clone() });
        let bounded = Params { output_max: Some(Tokens(0)), ..Params::default() };
        others.push(Request { params: bounded, ..base.clone() });
        for other in others {
            assert_ne!(other.hash("p"), base.hash("p"));
        }
        assert_ne!(base.hash("p"), base.hash("q"));
        assert_eq!(base.hash("p"), request("a").hash("p"));
    }

    #[test]
    fn the_neutral_hash_does_not_change() {
        assert_eq!(request("a").hash("p").to_string(), include_str!("golden/request.txt").trim());
    }
}
