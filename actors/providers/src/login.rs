//! Logins: how the tokens of an account are asked for at their issuer, read from another program's file, and asked for
//! anew before they end.
//!
//! Pure functions write the requests and read the answers; [`crate::Client`] makes the calls. A token stands in bodies and
//! in the header of a model call only: in no address, no error and no debug print. Where it is kept is another crate's.

mod ask;
mod codex;
mod pkce;
mod tokens;

pub use ask::{Device, NotRefreshed, Polled, Rejected};
pub use codex::NotALogin;
pub use pkce::Pkce;
pub use tokens::{Tokens, account_of};

use std::fmt;
use url::{Host, Url};

/// Whom the issuer of ChatGPT accounts knows as a command line that logs in. It is Codex's own public name there: there is
/// no other one that may log in to a subscription.
const CLIENT: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
/// What a login may be used for: who it is, and to be refreshed.
const SCOPE: &str = "openid profile email offline_access";
/// The ports that the issuer sends a browser back to.
pub const PORTS: [u16; 2] = [1455, 1457];
/// Where a browser is sent back to on this machine.
pub const CALLBACK: &str = "/auth/callback";

/// Who gives tokens out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer(Url);

/// The address is none that tokens may be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "give https:// and a host, or http:// and this machine: refresh tokens are sent there; no user, no password, no ? and no #"
)]
pub struct NotAnIssuer;

impl fmt::Display for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Issuer {
    /// The issuer at an address: over TLS, or on this machine.
    ///
    /// # Errors
    ///
    /// [`NotAnIssuer`].
    pub fn at(url: Url) -> Result<Self, NotAnIssuer> {
        let here = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(NotAnIssuer),
        };
        let is_safe = url.scheme() == "https" || (url.scheme() == "http" && here);
        let is_bare = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if is_safe && is_bare { Ok(Self(url)) } else { Err(NotAnIssuer) }
    }

    fn path(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}/{path}", self.0.path().trim_end_matches('/')));
        url
    }

    /// Where a person enters the code of a device.
    #[must_use]
    pub fn device_page(&self) -> Url {
        self.path("codex/device")
    }

    /// Where a person's browser is sent, to come back to `redirect` with a code. The code alone is of no use: whoever
    /// exchanges it must know what the challenge was made from.
    #[must_use]
    pub fn authorize(&self, redirect: &str, pkce: &Pkce, state: &str) -> Url {
        let mut url = self.path("oauth/authorize");
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", CLIENT)
            .append_pair("redirect_uri", redirect)
            .append_pair("scope", SCOPE)
            .append_pair("code_challenge", pkce.challenge())
            .append_pair("code_challenge_method", "S256")
            .append_pair("id_token_add_organizations", "true")
            .append_pair("codex_cli_simplified_flow", "true")
            .append_pair("state", state)
            .append_pair("originator", crate::transport::ORIGINATOR);
        url
    }
}

#[cfg(test)]
mod tests;
