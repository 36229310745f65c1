// SPDX-License-Identifier: Apache-2.0
//! The addresses under which other hosts may find this one.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Every address of this host but loopback and link-local ones. Which of them another host can
/// reach only that host can tell, by trying.
#[must_use]
pub fn local_addresses() -> Vec<IpAddr> {
    let four = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let six = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut out: Vec<IpAddr> = parse_fib_trie(&four).into_iter().map(IpAddr::V4).collect();
    out.extend(parse_if_inet6(&six).into_iter().map(IpAddr::V6));
    out
}

/// The kernel prints an address on one line and what it is on the next:
/// ```text
///            |-- 10.0.0.7
///               /32 host LOCAL
/// ```
fn parse_fib_trie(text: &str) -> BTreeSet<Ipv4Addr> {
    let mut found = BTreeSet::new();
    let mut last = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.filter(|a| !a.is_loopback() && !a.is_link_local()));
        }
    }
    found
}

/// `fe80...0001 02 40 20 80 eth0`: address, interface, prefix length, scope (00 = global), flags.
fn parse_if_inet6(text: &str) -> BTreeSet<Ipv6Addr> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u128::from_str_radix(words.next()?, 16).ok()?;
            (words.nth(2)? == "00").then(|| Ipv6Addr::from(address))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_told_from_networks_and_loopback() {
        let text = [
            "Local:",
            "  +-- 0.0.0.0/0 3 0 5",
            "     |-- 10.0.0.0",
            "        /24 link UNICAST",
            "     |-- 10.0.0.7",
            "        /32 host LOCAL",
            "     |-- 10.0.0.255",
            "        /32 link BROADCAST",
            "     |-- 127.0.0.1",
            "        /32 host LOCAL",
        ]
        .join("\n");
        assert_eq!(parse_fib_trie(&text), BTreeSet::from([Ipv4Addr::new(10, 0, 0, 7)]));
    }

    #[test]
    fn only_global_addresses_of_ipv6_count() {
        let text = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fe800000000000000000000000000001 02 40 20 80     eth0\n\
                    20010db8000000000000000000000007 02 40 00 80     eth0\n";
        let wanted: Ipv6Addr = "2001:db8::7".parse().unwrap_or(Ipv6Addr::UNSPECIFIED);
        assert_eq!(parse_if_inet6(text), BTreeSet::from([wanted]));
    }
}
