//! The one way out to the web for tools: what may be asked, whom, and how much of the answer is read.
//!
//! A model writes addresses, and so does whoever wrote the page that it read. So an address is asked only if the list of
//! the node and the list of the run have it, and only at an address that is everybody's. A name is looked up once and
//! the connection goes to what was checked: a name that answers differently the second time leads nowhere else. Each
//! redirect is a new address and is checked like one.
//!
//! Whether a byte left is seen, not guessed: leave is asked when the connection stands, and from then on a failure is
//! an unknown outcome.

pub(crate) mod address;
mod hop;
mod place;
mod rejected;
mod resolve;

pub use hop::ClientError;
pub use place::{NotAPlace, PLACES_MAX, Place};
pub(crate) use rejected::{rejected, retry_after};
pub use resolve::{Resolve, Resolving, System};

use crate::tool::{NotSent, ToolError};
use bytes::Bytes;
use events::leave::Leave;
use hop::{Hop, Tls};
use reqwest::header::{ACCEPT, HeaderMap, LOCATION, USER_AGENT};
use reqwest::{Method, StatusCode};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

/// Redirects that one request follows.
pub const REDIRECTS_MAX: usize = 5;
/// Bytes of an address that is asked.
pub const URL_BYTES_MAX: usize = 4_096;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// Bytes of a peer's words that are repeated.
const WORDS_BYTES_MAX: usize = 200;

/// Where tools may go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Whom they may ask at all. Nobody stands in an empty list.
    pub allow: Vec<Place>,
    /// Which of those may be at an address that is not everybody's.
    pub allow_private: Vec<Place>,
}

/// Checks and asks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Guard {
    places: Arc<Places>,
    resolver: Arc<dyn Resolve>,
    tls: Tls,
}

/// One request.
#[derive(Debug)]
pub struct Ask<'a> {
    method: Method,
    url: Url,
    /// What is sent with it; across hosts only what is no credential.
    pub headers: HeaderMap,
    body: Bytes,
    redirects_max: usize,
    /// Bytes of the answer that are read; at this the stream is cut.
    pub body_max: usize,
    /// How long all of it may take.
    pub within: Duration,
    /// The run's own limits: when there are any, they narrow the node's list.
    pub hostnames: &'a [String],
    /// Asked when a connection stands.
    pub leave: &'a Leave,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The head.
    pub headers: HeaderMap,
    /// The address that answered, after redirects.
    pub url: Url,
    /// The body, up to the bound.
    pub body: Vec<u8>,
    /// Whether there was more of it.
    pub is_cut: bool,
}

/// An address that may not be asked, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// It is none.
    #[error("this is no address of the web: {0}")]
    NotAUrl(String),
    /// Neither `http` nor `https`.
    #[error("only http and https are asked, this is {0}")]
    Scheme(String),
    /// A name or a password stands in it.
    #[error("an address with a user name or a password in it is not asked")]
    UserInfo,
    /// Too long.
    #[error("the address has more than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Not on the node's list.
    #[error("{0} may not be asked: it does not stand in tools.outbound.allow of this node")]
    NotAllowed(String),
    /// Not on the run's list.
    #[error("{0} may not be asked: it does not stand among the host names of this run")]
    NotOfTheRun(String),
    /// It leads to somebody's own network.
    #[error(
        "{host} may not be asked: {address} is {what}, and tools.outbound.allow_private has neither"
    )]
    Private {
        /// Who was asked for.
        host: String,
        /// Where that leads.
        address: IpAddr,
        /// What that is.
        what: &'static str,
    },
    /// Around and around.
    #[error("more than {0} redirects are not followed")]
    Redirects(usize),
    /// A redirect would tell everybody on the way.
    #[error("a redirect from https to {0} is not followed")]
    Downgrade(String),
}

/// A request that was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It was not asked, by rule. Nothing left for that address.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// It may not leave any more. Nothing left.
    #[error(transparent)]
    NotSent(#[from] NotSent),
    /// Nobody was there. Nothing left.
    #[error("{host} can not be reached: {words}")]
    Unreached {
        /// Who was asked for.
        host: String,
        /// Why.
        words: String,
    },
    /// The request had left, and no whole answer came.
    #[error("{host} was asked and did not answer in full: {words}")]
    Lost {
        /// Who was asked.
        host: String,
        /// Why.
        words: String,
    },
}

impl From<Broken> for ToolError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::NotSent(why) => Self::NotSent(why),
            Broken::Forbidden(_) | Broken::Unreached { .. } => Self::Failed(broken.to_string()),
            Broken::Lost { .. } => Self::Unknown(broken.to_string()),
        }
    }
}

impl<'a> Ask<'a> {
    /// A question that changes nothing and may be led on.
    #[must_use]
    pub fn read(method: Method, url: Url, leave: &'a Leave) -> Self {
        let (headers, body, redirects_max) = (HeaderMap::new(), Bytes::new(), REDIRECTS_MAX);
        let (body_max, within) = (1 << 16, Duration::from_secs(10));
        Self { method, url, headers, body, redirects_max, body_max, within, hostnames: &[], leave }
    }

    /// A question with a body and perhaps a key; it is never led on.
    #[must_use]
    pub fn post(url: Url, body: Bytes, leave: &'a Leave) -> Self {
        Self { body, redirects_max: 0, ..Self::read(Method::POST, url, leave) }
    }

    /// The same, but never led on: what it carries is for one host.
    #[must_use]
    pub fn here(self) -> Self {
        Self { redirects_max: 0, ..self }
    }
}

impl Guard {
    /// A guard that lets through to these places.
    ///
    /// # Errors
    ///
    /// [`ClientError`] when the TLS library refuses its own settings: give up at start.
    pub fn new(places: Places, resolver: Arc<dyn Resolve>) -> Result<Self, ClientError> {
        Ok(Self { places: Arc::new(places), resolver, tls: Tls::new()? })
    }

    /// The same for one host that an administrator configured, which then needs no entry in the list; private it must not
    /// be all the same.
    #[must_use]
    pub fn only(&self, place: Place) -> Self {
        let allow_private = self.places.allow_private.clone();
        let places = Arc::new(Places { allow: vec![place], allow_private });
        Self { places, ..self.clone() }
    }

    /// Whether anything at all may be asked.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.places.allow.is_empty()
    }

    /// Asks, follows redirects as far as they are allowed, and reads the answer up to its bound.
    ///
    /// # Errors
    ///
    /// [`Broken`]; all but [`Broken::Lost`] mean that nothing was asked of whom it names.
    pub async fn send(&self, ask: Ask<'_>) -> Result<Reply, Broken> {
        // Boxed, so that whoever waits for an answer does not carry its kilobytes.
        Box::pin(self.ask(ask)).await
    }

    async fn ask(&self, ask: Ask<'_>) -> Result<Reply, Broken> {
        let ends = Instant::now() + ask.within;
        let Ask { method, mut url, mut headers, body, redirects_max, body_max, .. } = ask;
        for led in 0..=redirects_max {
            let address = self.checked(&url, ask.hostnames, ends).await?;
            let hop = Hop { url: &url, addresses: &address, ends, leave: ask.leave };
            let sent = hop.send(&self.tls, (&method, &headers, &body)).await;
            let response = match sent {
                // Its first request left and was answered; a refusal now is not "nothing was sent".
                Err(Broken::NotSent(why)) if led > 0 => return Err(lost(&url, &why.to_string())),
                other => other?,
            };
            let Some(location) = led_on(response.status(), response.headers()) else {
                return hop.read(response, body_max).await;
            };
            let next = next_hop(&url, location)?;
            if next.origin() != url.origin() {
                headers = carried_on(&headers);
            }
            url = next;
        }
        Err(Forbidden::Redirects(redirects_max).into())
    }

    /// The addresses that may be connected to. All that a name has must be allowed: one that is half public is somebody's
    /// mistake or somebody's trick.
    async fn checked(
        &self,
        url: &Url,
        hostnames: &[String],
        ends: Instant,
    ) -> Result<Vec<SocketAddr>, Broken> {
        let (host, port) = allowed(url, &self.places.allow, hostnames)?;
        let addresses = match host {
            Host::Ipv4(address) => vec![IpAddr::V4(address)],
            Host::Ipv6(address) => vec![IpAddr::V6(address)],
            Host::Domain(name) => {
                let unreached = |words: &str| unreached(url, words);
                let found = timeout_at(ends, self.resolver.resolve(name)).await;
                let found = found.map_err(|_| unreached("its name was not found in time"))?;
                let found = found.map_err(|error| unreached(&error.to_string()))?;
                if found.is_empty() {
                    return Err(unreached("its name has no address"));
                }
                found
            }
        };
        let private = &self.places.allow_private;
        let named = private.iter().any(|place| !place.is_any() && place.names(&host, port));
        for address in &addresses {
            let held = named || private.iter().any(|place| place.holds(*address, port));
            if let (false, Some(what)) = (held, address::special(*address)) {
                let (host, address) = (host.to_string(), *address);
                return Err(Forbidden::Private { host, address, what }.into());
            }
        }
        let addresses = addresses.into_iter().take(ADDRESSES_MAX);
        Ok(addresses.map(|address| SocketAddr::new(address, port)).collect())
    }
}

/// An address as a model wrote it.
///
/// # Errors
///
/// [`Forbidden`] when it is none, or one that nobody may ask.
pub fn parse(text: &str) -> Result<Url, Forbidden> {
    if text.len() > URL_BYTES_MAX {
        return Err(Forbidden::TooLong);
    }
    let url = Url::parse(text).map_err(|error| Forbidden::NotAUrl(error.to_string()))?;
    plain(&url)?;
    Ok(url)
}

/// What holds for every address, whoever wrote it.
fn plain(url: &Url) -> Result<(), Forbidden> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Forbidden::Scheme(short(url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Forbidden::UserInfo);
    }
    if url.as_str().len() > URL_BYTES_MAX { Err(Forbidden::TooLong) } else { Ok(()) }
}

/// The host and port, if both lists have them.
fn allowed<'a>(
    url: &'a Url,
    allow: &[Place],
    hostnames: &[String],
) -> Result<(Host<&'a str>, u16), Forbidden> {
    plain(url)?;
    let none = || Forbidden::NotAUrl("it names no host".to_owned());
    let (host, port) =
        (url.host().ok_or_else(none)?, url.port_or_known_default().ok_or_else(none)?);
    if !allow.iter().any(|place| place.names(&host, port)) {
        return Err(Forbidden::NotAllowed(host.to_string()));
    }
    // An entry that can not be read names nobody: a list with a slip in it is narrower, never wider.
    let of_the_run = |text: &String| text.parse::<Place>().is_ok_and(|p| p.names(&host, port));
    if !hostnames.is_empty() && !hostnames.iter().any(of_the_run) {
        return Err(Forbidden::NotOfTheRun(host.to_string()));
    }
    Ok((host, port))
}

/// Where an answer leads, if it leads on.
fn led_on(status: StatusCode, headers: &HeaderMap) -> Option<&str> {
    let leads = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    headers.get(LOCATION).filter(|_| leads).and_then(|location| location.to_str().ok())
}

/// The address that a redirect leads to.
fn next_hop(from: &Url, location: &str) -> Result<Url, Forbidden> {
    if location.len() > URL_BYTES_MAX {
        return Err(Forbidden::TooLong);
    }
    let mut next = from.join(location).map_err(|error| Forbidden::NotAUrl(error.to_string()))?;
    next.set_fragment(None);
    plain(&next)?;
    if from.scheme() == "https" && next.scheme() != "https" {
        return Err(Forbidden::Downgrade(next.scheme().to_owned()));
    }
    Ok(next)
}

/// What goes along to another host: nothing that could be a credential.
fn carried_on(headers: &HeaderMap) -> HeaderMap {
    let harmless = [ACCEPT, USER_AGENT];
    let kept = harmless.into_iter().filter_map(|name| Some((headers.get(&name)?.clone(), name)));
    kept.map(|(value, name)| (name, value)).collect()
}

fn lost(url: &Url, words: &str) -> Broken {
    Broken::Lost { host: host(url), words: short(words) }
}

fn unreached(url: &Url, words: &str) -> Broken {
    Broken::Unreached { host: host(url), words: short(words) }
}

/// Who is asked, without the path and the query, which may hold what others must not read.
fn host(url: &Url) -> String {
    short(url.host_str().unwrap_or_default())
}

fn short(words: &str) -> String {
    words.get(..words.floor_char_boundary(WORDS_BYTES_MAX)).unwrap_or_default().to_owned()
}

#[cfg(test)]
pub(crate) mod peer;
#[cfg(test)]
mod tests;
