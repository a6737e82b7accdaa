//! An entry of a list of places that tools may reach: a name, all names below one, an address or a network; each with a
//! port or for all of them.

use super::address::in_network;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use url::Host;

/// Entries of one list.
pub const PLACES_MAX: usize = 256;
/// The longest name that the domain name system has.
const NAME_CHARS_MAX: usize = 253;

/// Somewhere that a tool may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    named: Named,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// `*`: whatever is public.
    Any,
    /// `example.org`.
    Name(String),
    /// `*.example.org`: the names below it, and not itself.
    Below(String),
    /// `10.0.0.7` or `10.0.0.0/8`.
    Network(IpAddr, u8),
}

/// The text names no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no place: give NAME, *.NAME, an address, or a network such as 10.0.0.0/8, each with :PORT or without, or * for all that is public"
)]
pub struct NotAPlace(String);

impl Place {
    /// Whether it stands for everything that is public.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.named == Named::Any
    }

    /// Whether a URL with this host and port is meant.
    pub(crate) fn names(&self, host: &Host<&str>, port: u16) -> bool {
        let meant = match (&self.named, host) {
            (Named::Any, _) => true,
            (Named::Name(name), Host::Domain(host)) => plain(host) == *name,
            (Named::Below(name), Host::Domain(host)) => {
                plain(host).strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (Named::Network(..), Host::Ipv4(address)) => self.holds((*address).into(), port),
            (Named::Network(..), Host::Ipv6(address)) => self.holds((*address).into(), port),
            (Named::Name(_) | Named::Below(_), Host::Ipv4(_) | Host::Ipv6(_))
            | (Named::Network(..), Host::Domain(_)) => false,
        };
        meant && self.has(port)
    }

    /// Whether this address is meant, whatever name led to it.
    pub(crate) fn holds(&self, address: IpAddr, port: u16) -> bool {
        match self.named {
            Named::Network(network, bits) => in_network(address, network, bits) && self.has(port),
            Named::Any | Named::Name(_) | Named::Below(_) => false,
        }
    }

    fn has(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

/// A name without the dot at its end, which means the same and would otherwise be another name.
fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

impl FromStr for Place {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let wrong = || NotAPlace(text.chars().take(80).collect());
        let port = |digits: &str| digits.parse::<u16>().ok().filter(|port| *port > 0);
        let (host, port) = match (text.strip_prefix('['), text.split_once(':')) {
            (Some(rest), _) => match rest.split_once(']').ok_or_else(wrong)? {
                (host, "") => (host, None),
                (host, rest) => {
                    let digits = rest.strip_prefix(':').ok_or_else(wrong)?;
                    (host, Some(port(digits).ok_or_else(wrong)?))
                }
            },
            // More than one colon is an IPv6 address.
            (None, Some((host, digits))) if !digits.contains(':') => {
                (host, Some(port(digits).ok_or_else(wrong)?))
            }
            (None, Some(_) | None) => (text, None),
        };
        Ok(Self { named: named(host).ok_or_else(wrong)?, port })
    }
}

fn named(host: &str) -> Option<Named> {
    if host == "*" {
        return Some(Named::Any);
    }
    if let Some((address, bits)) = host.split_once('/') {
        let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
        return (bits <= width(address)).then_some(Named::Network(address, bits));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Named::Network(address, width(address)));
    }
    let (below, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host),
    };
    // As an address of the web reads it, so that both are written alike: lower case, punycode, numbers as addresses.
    match (Host::parse(name).ok()?, below) {
        (Host::Domain(name), _) if name.contains('*') || name.len() > NAME_CHARS_MAX => None,
        (Host::Domain(name), true) => Some(Named::Below(plain(&name).to_owned())),
        (Host::Domain(name), false) => Some(Named::Name(plain(&name).to_owned())),
        (Host::Ipv4(address), false) => Some(Named::Network(address.into(), 32)),
        (Host::Ipv4(_), true) | (Host::Ipv6(_), _) => None,
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.named {
            Named::Any => f.write_str("*"),
            Named::Name(name) => f.write_str(name),
            Named::Below(name) => write!(f, "*.{name}"),
            Named::Network(address, bits) if *bits == width(*address) => match address {
                IpAddr::V6(address) if self.port.is_some() => write!(f, "[{address}]"),
                IpAddr::V4(_) | IpAddr::V6(_) => address.fmt(f),
            },
            Named::Network(address @ IpAddr::V6(_), bits) if self.port.is_some() => {
                write!(f, "[{address}/{bits}]")
            }
            Named::Network(address, bits) => write!(f, "{address}/{bits}"),
        }?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(place: &str, host: &str, port: u16) -> bool {
        let place: Place = place.parse().unwrap();
        assert_eq!(place.to_string().parse::<Place>().unwrap(), place, "{place}");
        let host = Host::parse(host).unwrap();
        let host = match &host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(address) => Host::Ipv4(*address),
            Host::Ipv6(address) => Host::Ipv6(*address),
        };
        place.names(&host, port)
    }

    #[test]
    fn a_name_is_itself_and_nothing_that_looks_like_it() {
        assert!(check("example.org", "example.org", 443));
        assert!(check("Example.ORG", "EXAMPLE.org.", 443));
        assert!(check("bücher.example", "xn--bcher-kva.example", 80));
        assert!(!check("example.org", "www.example.org", 443));
        assert!(!check("example.org", "example.org.evil.test", 443));
        assert!(!check("example.org", "notexample.org", 443));
        assert!(!check("example.org", "127.0.0.1", 443));
    }

    #[test]
    fn a_star_is_what_stands_below() {
        assert!(check("*.example.org", "a.b.example.org", 443));
        assert!(!check("*.example.org", "example.org", 443));
        assert!(!check("*.example.org", "notexample.org", 443));
        assert!(check("*", "anything.test", 1) && check("*", "9.9.9.9", 1));
    }

    #[test]
    fn an_address_is_meant_in_every_spelling() {
        assert!(check("127.0.0.1", "2130706433", 80));
        assert!(check("127.0.0.1", "0177.0.0.1", 80));
        assert!(check("127.0.0.1", "0x7f.1", 80));
        assert!(check("2130706433", "127.0.0.1", 80));
        assert!(check("10.0.0.0/8", "10.9.8.7", 80) && !check("10.0.0.0/8", "11.0.0.1", 80));
        assert!(check("::1", "[::1]", 80) && check("[fd00::/8]:80", "[fd12::1]", 80));
        assert!(!check("127.0.0.1", "[::ffff:127.0.0.1]", 80));
    }

    #[test]
    fn a_port_narrows() {
        assert!(check("example.org:8443", "example.org", 8_443));
        assert!(!check("example.org:8443", "example.org", 443));
        assert!(check("[::1]:8080", "[::1]", 8_080) && !check("[::1]:8080", "[::1]", 80));
        assert!(check("*:443", "a.test", 443) && !check("*:443", "a.test", 80));
    }

    #[test]
    fn what_names_no_place_is_refused() {
        for text in [
            "",
            "*.",
            "a.*.b",
            "**",
            "http://a.test",
            "a.test/",
            "a:0",
            "a:70000",
            "a:b",
            "[::1",
            "[::1]8080",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "*.10.0.0.1",
            "user@host",
            "a b",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
        let long = format!("{}.test", "a".repeat(300));
        assert!(long.parse::<Place>().is_err());
    }
}
