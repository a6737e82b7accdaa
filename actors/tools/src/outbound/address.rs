//! Which addresses are everybody's, and which are somebody's own.
//!
//! What is not known to be public is not: of IPv6 only what is given out to the public is taken, and an address that
//! carries an IPv4 one inside is judged by what it leads to. The danger is a service that trusts whoever reaches it:
//! another process of this machine, the printer, the cloud's own service that gives out credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 networks that are not public: address, bits, and what they are.
const SPECIAL_V4: [(Ipv4Addr, u8, &str); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an address of this host"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "an address of a carrier's own network"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "a loopback address"),
    // The metadata service of most clouds is in here.
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "a protocol's address"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "an address of documentation"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "an address of a relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "an address of benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "an address of documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "an address of documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "the broadcast address"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
    // Azure's own services, at a public address that leads to the host.
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a cloud's metadata address"),
];

/// IPv6 networks inside the public range that are not public.
const SPECIAL_V6: [(Ipv6Addr, u8, &str); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "a protocol's address"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "an address of documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "an address of a relay"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "an address of documentation"),
];

/// IPv6 networks outside of the public range, for a name to give them.
const OUTSIDE_V6: [(Ipv6Addr, u8, &str); 7] = [
    (Ipv6Addr::UNSPECIFIED, 128, "an address of this host"),
    (Ipv6Addr::LOCALHOST, 128, "a loopback address"),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "an IPv4 address in the form of an IPv6 one"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a unique local address"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "a site-local address"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
];

/// Where translators put an IPv4 address.
const NAT64: (Ipv6Addr, u8) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// What is given out to the public.
const PUBLIC_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What the address is, when it is not everybody's.
pub(crate) fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let inside = |net: Ipv4Addr, bits| in_network(address.into(), net.into(), bits);
    SPECIAL_V4.iter().find(|(net, bits, _)| inside(*net, *bits)).map(|(_, _, what)| *what)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let inside = |net: Ipv6Addr, bits| in_network(address.into(), net.into(), bits);
    if inside(NAT64.0, NAT64.1) {
        let [.., a, b, c, d] = address.octets();
        return special_v4(Ipv4Addr::new(a, b, c, d));
    }
    let table = if inside(PUBLIC_V6.0, PUBLIC_V6.1) { &SPECIAL_V6[..] } else { &OUTSIDE_V6[..] };
    let known = table.iter().find(|(net, bits, _)| inside(*net, *bits)).map(|(_, _, what)| *what);
    let is_public = inside(PUBLIC_V6.0, PUBLIC_V6.1);
    known.or(if is_public { None } else { Some("not a public address") })
}

/// Whether the address lies in the network of this many leading bits. Of two kinds it never does.
pub(crate) fn in_network(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let equal = |one: u128, other: u128, width: u32| {
        let low = width.saturating_sub(u32::from(bits));
        one.checked_shr(low) == other.checked_shr(low)
    };
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            equal(u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => equal(one.to_bits(), other.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_everybodys_is_named() {
        for (address, word) in [
            ("0.0.0.0", "this host"),
            ("10.255.255.255", "private"),
            ("100.64.0.1", "carrier"),
            ("100.100.100.200", "carrier"),
            ("127.0.0.1", "loopback"),
            ("127.255.0.1", "loopback"),
            ("168.63.129.16", "metadata"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.8", "protocol"),
            ("192.168.1.1", "private"),
            ("198.19.0.1", "benchmarks"),
            ("203.0.113.9", "documentation"),
            ("224.0.0.1", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("::", "this host"),
            ("::1", "loopback"),
            ("::7f00:1", "not a public"),
            ("::ffff:8.8.8.8", "in the form of"),
            ("::ffff:127.0.0.1", "in the form of"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b::a9fe:a9fe", "link-local"),
            ("64:ff9b:1::1", "not a public"),
            ("100::1", "not a public"),
            ("2001::1", "protocol"),
            ("2001:db8::1", "documentation"),
            ("2002:7f00:1::", "relay"),
            ("3fff::1", "documentation"),
            ("fd00:ec2::254", "unique local"),
            ("fe80::1", "link-local"),
            ("fec0::1", "site-local"),
            ("ff02::1", "multicast"),
        ] {
            let what = special(address.parse().unwrap());
            assert!(what.is_some_and(|what| what.contains(word)), "{address}: {what:?}");
        }
    }

    #[test]
    fn what_is_everybodys_has_no_name() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "169.253.0.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "64:ff9b::808:808",
        ] {
            assert_eq!(special(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn networks_are_compared_by_their_leading_bits() {
        let inside = |address: &str, network: &str, bits| {
            in_network(address.parse().unwrap(), network.parse().unwrap(), bits)
        };
        assert!(inside("10.1.2.3", "10.0.0.0", 8) && !inside("11.1.2.3", "10.0.0.0", 8));
        assert!(inside("10.1.2.3", "99.0.0.0", 0) && inside("::1", "fe80::", 0));
        assert!(inside("10.1.2.3", "10.1.2.3", 32) && !inside("10.1.2.2", "10.1.2.3", 32));
        assert!(!inside("10.1.2.3", "::", 0));
    }
}
