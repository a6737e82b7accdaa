//! Who is calling, and whether he may: keys, roles and the table of routes.
//!
//! A key is compared by its hash and in constant time, so that neither the disk nor the clock gives one away. Whether a
//! role has a right is asked in one place, for every route, before a handler runs.

pub mod node_key;
pub mod role;
pub mod route;
pub mod text;

pub use role::Right;
pub use route::{Need, ROUTES};
pub use store::private;

use axum::http::{HeaderMap, header};
use events::id::KeyId;
use events::key::{Issued, Role};
use events::record::{Actor, Hash};
use node_key::NodeKeys;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use subtle::ConstantTimeEq;

/// The header that Anthropic's clients send instead of a bearer token.
const X_API_KEY: &str = "x-api-key";
/// Bytes of the longest text that is looked at as a key (512): ours have about 100, a given one may have more.
const PRESENTED_BYTES_MAX: usize = 512;

/// Who is calling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// As whom his acts are recorded.
    pub actor: Actor,
    /// What he may do.
    pub role: Role,
    /// For people.
    pub name: String,
}

/// The caller is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Send one.
    #[error("there is no key: send Authorization: Bearer KEY or x-api-key: KEY")]
    NoKey,
    /// Send one key in one header.
    #[error("the authorization header is not Bearer KEY, or comes twice")]
    NotAKey,
    /// Use a key of this node that was not revoked.
    #[error("this node does not know the key: it was revoked, or another node issued it")]
    Unknown,
    /// Use a key with one of the roles.
    #[error("the key's role {} may not {right}; these may: {}", role::name(*role), role::who_may(*right))]
    MayNot {
        /// What the key has.
        role: Role,
        /// What the route needs.
        right: Right,
    },
    /// The route has no row in the table.
    #[error("nobody may use this route")]
    Nobody,
}

/// The key that a request presents.
///
/// # Errors
///
/// [`AuthError::NoKey`] when there is none, [`AuthError::NotAKey`] when it can not be told which one is meant.
pub fn presented(headers: &HeaderMap) -> Result<&str, AuthError> {
    let mut bearers = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (bearers.next(), bearers.next()) {
        (Some(value), None) => {
            let text = value.to_str().map_err(|_| AuthError::NotAKey)?;
            let (scheme, key) = text.trim().split_once(' ').ok_or(AuthError::NotAKey)?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(AuthError::NotAKey);
            }
            key
        }
        (Some(_), Some(_)) => return Err(AuthError::NotAKey),
        (None, _) => {
            let value = headers.get(X_API_KEY).ok_or(AuthError::NoKey)?;
            value.to_str().map_err(|_| AuthError::NotAKey)?
        }
    };
    let key = value.trim();
    if key.is_empty() { Err(AuthError::NoKey) } else { Ok(key) }
}

/// Knows every key of the node by its hash. Whoever follows the keys' streams keeps it up to date.
#[derive(Debug)]
pub struct Verifier {
    admin: Hash,
    cli: Hash,
    // Held for a look-up or one insertion, never across an await.
    issued: Arc<RwLock<BTreeMap<KeyId, Issued>>>,
}

impl Verifier {
    /// Knows the node's own keys and no issued one.
    #[must_use]
    pub fn new(keys: &NodeKeys) -> Self {
        Self { admin: keys.admin, cli: keys.cli, issued: Arc::default() }
    }

    /// From now on this key opens what its role may.
    pub fn insert(&self, id: KeyId, issued: &Issued) {
        self.issued.write().unwrap_or_else(PoisonError::into_inner).insert(id, issued.clone());
    }

    /// From now on this key opens nothing.
    pub fn remove(&self, id: KeyId) {
        self.issued.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Says, whenever it is asked, whether there is an issued key whose role has a right.
    pub fn anybody_who_may(&self, right: Right) -> impl Fn() -> bool + Send + Sync + use<> {
        let issued = Arc::clone(&self.issued);
        move || {
            let issued = issued.read().unwrap_or_else(PoisonError::into_inner);
            issued.values().any(|key| role::may(key.role, right))
        }
    }

    /// Whose key a text is.
    ///
    /// # Errors
    ///
    /// [`AuthError::Unknown`] when it is nobody's; it does not say how far it was from being somebody's.
    pub fn verify(&self, presented: &str) -> Result<Caller, AuthError> {
        if presented.len() > PRESENTED_BYTES_MAX {
            return Err(AuthError::Unknown);
        }
        let hash = text::hash(presented);
        let is = |kept: &Hash| bool::from(kept.0.ct_eq(&hash.0));
        let node =
            |name: &str| Caller { actor: Actor::Admin, role: Role::Admin, name: name.to_owned() };
        if is(&self.admin) {
            return Ok(node("administrator"));
        }
        if is(&self.cli) {
            return Ok(node("command line"));
        }
        let id = text::claimed(presented).ok_or(AuthError::Unknown)?;
        let issued = self.issued.read().unwrap_or_else(PoisonError::into_inner);
        match issued.get(&id) {
            Some(Issued { name, role, hash }) if is(hash) => {
                Ok(Caller { actor: Actor::Key(id), role: *role, name: name.clone() })
            }
            Some(_) | None => Err(AuthError::Unknown),
        }
    }

    /// Lets a request through to a route: the caller, or nobody where the route needs none.
    ///
    /// # Errors
    ///
    /// [`AuthError`] when the route needs a key and there is none, an unknown one, or one that may not.
    pub fn admit(
        &self,
        need: Option<Need>,
        headers: &HeaderMap,
    ) -> Result<Option<Caller>, AuthError> {
        let right = match need {
            None => return Err(AuthError::Nobody),
            Some(Need::Nothing) => return Ok(None),
            Some(Need::Right(right)) => right,
        };
        let caller = self.verify(presented(headers)?)?;
        if role::may(caller.role, right) {
            Ok(Some(caller))
        } else {
            Err(AuthError::MayNot { role: caller.role, right })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;
    use axum::http::{HeaderName, HeaderValue};
    use events::id::Place;
    use node_key::Told;

    const ADMIN: &str = "the-administrators-key";
    const CLI: &str = "the-command-lines-key";

    fn verifier() -> Verifier {
        let (admin, cli) = (text::hash(ADMIN), text::hash(CLI));
        Verifier::new(&NodeKeys { admin, cli, told: Told::Kept })
    }

    fn id(unique: u128) -> KeyId {
        KeyId::new(Place::default(), unique)
    }

    fn key(unique: u128, drawn: u8) -> Secret {
        text::issued(id(unique), [drawn; 32])
    }

    fn issue(verifier: &Verifier, unique: u128, drawn: u8, role: Role) {
        let hash = text::hash(key(unique, drawn).expose());
        verifier.insert(id(unique), &Issued { name: "ci".to_owned(), role, hash });
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn both_headers_carry_a_key_and_a_doubtful_one_is_refused() {
        let of = |pairs: &[(&str, &str)]| presented(&headers(pairs)).map(str::to_owned);
        assert_eq!(of(&[("authorization", "Bearer abc")]), Ok("abc".to_owned()));
        assert_eq!(of(&[("authorization", "bearer  abc ")]), Ok("abc".to_owned()));
        assert_eq!(of(&[("x-api-key", "abc")]), Ok("abc".to_owned()));
        assert_eq!(of(&[("x-api-key", "b"), ("authorization", "Bearer a")]), Ok("a".to_owned()));
        assert_eq!(of(&[]), Err(AuthError::NoKey));
        assert_eq!(of(&[("x-api-key", "")]), Err(AuthError::NoKey));
        assert_eq!(of(&[("authorization", "Basic YWJj")]), Err(AuthError::NotAKey));
        assert_eq!(of(&[("authorization", "abc")]), Err(AuthError::NotAKey));
        let twice = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
        assert_eq!(of(&twice), Err(AuthError::NotAKey));
    }

    #[test]
    fn a_key_opens_until_it_is_revoked_and_another_secret_of_the_same_id_never_does() {
        let verifier = verifier();
        assert_eq!(verifier.verify(key(1, 1).expose()), Err(AuthError::Unknown));
        issue(&verifier, 1, 1, Role::Runner);
        let caller = Caller { actor: Actor::Key(id(1)), role: Role::Runner, name: "ci".to_owned() };
        assert_eq!(verifier.verify(key(1, 1).expose()), Ok(caller));
        assert_eq!(verifier.verify(key(1, 2).expose()), Err(AuthError::Unknown));
        assert_eq!(verifier.verify(key(2, 1).expose()), Err(AuthError::Unknown));
        verifier.remove(id(1));
        assert_eq!(verifier.verify(key(1, 1).expose()), Err(AuthError::Unknown));
    }

    #[test]
    fn there_is_an_approver_while_a_key_of_one_is_issued() {
        let verifier = verifier();
        let anybody = verifier.anybody_who_may(Right::HoldAnswer);
        assert!(!anybody());
        issue(&verifier, 1, 1, Role::Runner);
        assert!(!anybody());
        issue(&verifier, 2, 2, Role::Approver);
        assert!(anybody());
        verifier.remove(id(2));
        assert!(!anybody());
    }

    #[test]
    fn the_nodes_own_keys_are_the_administrators() {
        for presented in [ADMIN, CLI] {
            let caller = verifier().verify(presented).unwrap();
            assert_eq!((caller.actor, caller.role), (Actor::Admin, Role::Admin));
        }
        for presented in ["", "the-administrators-keY", &"x".repeat(PRESENTED_BYTES_MAX + 1)] {
            assert_eq!(verifier().verify(presented), Err(AuthError::Unknown));
        }
    }

    #[test]
    fn a_role_is_let_in_where_it_may_and_told_who_may_where_it_may_not() {
        let verifier = verifier();
        issue(&verifier, 1, 1, Role::Reader);
        let bearer = format!("Bearer {}", key(1, 1).expose());
        let with_key = headers(&[("authorization", &bearer)]);
        let read = Some(Need::Right(Right::RunRead));
        assert_eq!(verifier.admit(read, &with_key).unwrap().unwrap().role, Role::Reader);
        let start = verifier.admit(Some(Need::Right(Right::RunStart)), &with_key).unwrap_err();
        assert_eq!(
            start.to_string(),
            "the key's role reader may not start runs; these may: runner, operator, admin"
        );
        assert_eq!(verifier.admit(read, &headers(&[])), Err(AuthError::NoKey));
        assert_eq!(verifier.admit(Some(Need::Nothing), &headers(&[])), Ok(None));
        assert_eq!(verifier.admit(None, &with_key), Err(AuthError::Nobody));
    }
}
