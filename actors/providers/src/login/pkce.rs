//! Proof that whoever exchanges a code is whoever asked for it (RFC 7636).

use crate::secret::Secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// A verifier that stays here, and the challenge that is made from it and goes with the browser.
#[derive(Debug, Clone)]
pub struct Pkce {
    verifier: Secret,
    challenge: String,
}

impl Pkce {
    /// From bytes that nobody can guess.
    #[must_use]
    pub fn of(random: &[u8; 64]) -> Self {
        Self::with(URL_SAFE_NO_PAD.encode(random))
    }

    pub(super) fn with(verifier: String) -> Self {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        Self { verifier: Secret::new(verifier), challenge }
    }

    pub(super) fn challenge(&self) -> &str {
        &self.challenge
    }

    pub(super) const fn verifier(&self) -> &Secret {
        &self.verifier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn a_challenge_is_the_hash_of_its_verifier() {
        let pkce = Pkce::with("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned());
        assert_eq!(pkce.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(!format!("{pkce:?}").contains("dBjf"));
        let verifier = Pkce::of(&[7; 64]).verifier.expose().len();
        assert!((43..=128).contains(&verifier), "{verifier}");
    }
}
