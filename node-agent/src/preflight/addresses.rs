//! Sockets that are bound to an address of the pod: the pod that they are restored in has another one.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Finding, sockets};
use crate::process::{proc, read};

/// States in which a bound socket counts (`include/net/tcp_states.h`): a TCP socket that listens, a UDP socket.
const LISTENS: &str = "0A";
const UNCONNECTED: &str = "07";

/// A warning: where the copy gets the same address, it is right.
pub(super) fn check(who: &str, processes: &[u32]) -> Option<Finding> {
    let inodes = sockets::of(processes);
    let first = processes.first()?;
    let mut found = BTreeSet::new();
    for (file, state) in [
        ("net/tcp", LISTENS),
        ("net/tcp6", LISTENS),
        ("net/udp", UNCONNECTED),
        ("net/udp6", UNCONNECTED),
    ] {
        let table = read(&proc(*first).join(file)).unwrap_or_default();
        found.extend(bound(&table, state, &inodes));
    }
    if found.is_empty() {
        return None;
    }
    let named: Vec<String> = found.iter().take(5).map(ToString::to_string).collect();
    Some(Finding::note(
        "addresses",
        format!(
            "{who} has {} sockets bound to an address, and can be restored only where that is: {}",
            found.len(),
            named.join(", ")
        ),
    ))
}

/// Sockets of these in a table that are bound to an address that is not everywhere.
fn bound(table: &str, state: &str, inodes: &BTreeSet<u64>) -> Vec<SocketAddr> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (local, found) = (fields.nth(1)?, fields.nth(1)?);
        let inode: u64 = fields.nth(5)?.parse().ok()?;
        let address = address(local)?;
        let ip = address.ip().to_canonical();
        let everywhere = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
        (found == state && inodes.contains(&inode) && !everywhere).then_some(address)
    };
    table.lines().skip(1).filter_map(line).collect()
}

/// An address as `/proc/net/tcp` has it: words of 32 bits in this machine's order of bytes, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at..at + 8)?, 16).ok();
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?.to_ne_bytes()).into(),
        32 => {
            let mut bytes = [0; 16];
            for (chunk, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                chunk.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_place_are_named() {
        let line = |local: &str, state: &str, inode: u64| {
            format!(" 0: {local} 00000000:0000 {state} 0:0 00:0 0 0 0 {inode} 1 0\n")
        };
        let table = [
            "head\n".to_owned(),
            line("020A610A:1F90", LISTENS, 1),
            line("00000000:1F91", LISTENS, 2),
            line("0100007F:1F92", LISTENS, 3),
            line("020A610A:1F93", "01", 4),
            line("020A610A:1F94", LISTENS, 99),
            line("000080FE000000000000000001000000:0050", LISTENS, 5),
            line("0000000000000000FFFF0000020A610A:0051", LISTENS, 6),
            line("00000000000000000000000000000000:0052", LISTENS, 7),
            "nonsense\n".to_owned(),
        ]
        .concat();
        let inodes = (1..10).collect();
        let found: Vec<String> = bound(&table, LISTENS, &inodes)
            .iter()
            .map(ToString::to_string)
            .collect();
        let wanted = ["10.97.10.2:8080", "[fe80::1]:80", "[::ffff:10.97.10.2]:81"];
        assert_eq!(found, wanted);
    }
}
