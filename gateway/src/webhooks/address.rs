//! Which addresses a webhook may reach: those of the open network only, unless the configuration says otherwise. The check
//! is made on what the name resolves to for this connection, so that a name can not be turned round after a check.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// Whether an address is of the open network.
pub(super) fn is_open(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_open_v4(address),
        IpAddr::V6(address) => is_open_v6(address),
    }
}

fn is_open_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_special =
        a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0) || (a == 198 && b & 0xfe == 18);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_shared
        || is_special)
}

fn is_open_v6(address: Ipv6Addr) -> bool {
    let [a, b, _, _, _, _, g, h] = address.segments();
    let embedded = || {
        let ([g1, g2], [h1, h2]) = (g.to_be_bytes(), h.to_be_bytes());
        is_open_v4(Ipv4Addr::new(g1, g2, h1, h2))
    };
    // Mapped, translated (NAT64) and 6to4 addresses are those of an older network in another dress.
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_open_v4(mapped);
    }
    if a == 0x64 && b == 0xff9b {
        return embedded();
    }
    let is_global = a & 0xe000 == 0x2000;
    let is_special = a == 0x2002 || (a == 0x2001 && (b == 0 || b == 0xdb8));
    is_global && !is_special
}

/// Whether an address that is written as a number may be reached; a name is looked up later.
pub(super) fn may(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => is_open_v4(address),
        Some(Host::Ipv6(address)) => is_open_v6(address),
        Some(Host::Domain(_)) | None => true,
    }
}

/// The name has no address that may be reached.
#[derive(Debug, thiserror::Error)]
#[error(
    "the host has only private addresses: set allow_private = true for a receiver of your own network"
)]
struct Private;

/// Looks names up and keeps what is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open;

impl Resolve for Open {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let open: Vec<_> = found.filter(|address| is_open(address.ip())).collect();
            if open.is_empty() {
                return Err(Box::new(Private).into());
            }
            let addresses: Addrs = Box::new(open.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_open_network_is_open() {
        for open in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(is_open(open.parse().unwrap()), "{open}");
        }
        let closed = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001:db8::1",
        ];
        for closed in closed {
            assert!(!is_open(closed.parse().unwrap()), "{closed}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_refused_where_it_is_looked_up() {
        let refused = Open.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(refused.to_string().contains("allow_private"), "{refused}");
        assert!(!may(&"http://127.0.0.1:1/x".parse().unwrap()));
        assert!(may(&"http://localhost:1/x".parse().unwrap()));
    }
}
