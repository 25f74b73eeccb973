//! Connections of the container to others.

use std::collections::BTreeSet;

use super::{Finding, sockets};
use crate::process::{proc, read};
use crate::runtime::{CriuVersion, Tcp};

/// State of a connection, as `/proc/net/tcp` prints it: established.
const ESTABLISHED: &str = "01";

/// Most connections that are named.
const NAMED: usize = 5;

/// `closes`: whoever dumps can be told to close connections.
pub(super) fn check(processes: &[u32], tcp: Tcp, closes: bool) -> Option<Finding> {
    let inodes = sockets::of(processes);
    let first = processes.first()?;
    let mut connections = Vec::new();
    for file in ["net/tcp", "net/tcp6"] {
        let text = read(&proc(*first).join(file)).unwrap_or_default();
        connections.extend(established(&text, &inodes));
    }
    let (count, named) = (connections.len(), connections.join(", "));
    match (count, tcp, closes) {
        (0, _, _) => None,
        (_, Tcp::Established, _) => Some(Finding::note(
            "connections",
            format!(
                "{count} connections are kept, which works only where the address is the same: {named}"
            ),
        )),
        (_, Tcp::Close, true) => Some(Finding::note(
            "connections",
            format!("{count} connections are closed in the restored copy: {named}"),
        )),
        (_, Tcp::Close, false) => Some(Finding::refusal(
            "connections",
            format!(
                "There are {count} connections, which CRIU before {} cannot close in the copy; --tcp-established keeps them: {named}",
                CriuVersion::CLOSES
            ),
        )),
    }
}

/// Has one of them a TCP socket, in whatever state?
pub(crate) fn has_tcp(processes: &[u32]) -> bool {
    let inodes = sockets::of(processes);
    let Some(first) = processes.first() else {
        return false;
    };
    ["net/tcp", "net/tcp6"].iter().any(|file| {
        let text = read(&proc(*first).join(file)).unwrap_or_default();
        let inode = |line: &str| line.split_ascii_whitespace().nth(9)?.parse().ok();
        let mut found = text.lines().skip(1).filter_map(inode);
        found.any(|inode| inodes.contains(&inode))
    })
}

/// Local ports of established connections that belong to these sockets; the first few by name, all counted.
fn established(text: &str, inodes: &BTreeSet<u64>) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split_ascii_whitespace();
        let (local, state) = (fields.nth(1), fields.nth(1));
        let inode = fields.nth(5).and_then(|field| field.parse().ok());
        if state != Some(ESTABLISHED) || !inode.is_some_and(|inode| inodes.contains(&inode)) {
            continue;
        }
        let port = local.and_then(|local| local.rsplit(':').next());
        let port = port.and_then(|port| u16::from_str_radix(port, 16).ok());
        found.push(match (found.len() < NAMED, port) {
            (true, Some(port)) => format!("port {port}"),
            _ => "…".to_owned(),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_connections_are_told_from_others() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1
   2: 0100007F:1F91 0100007F:9C41 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1
";
        let inodes = BTreeSet::from([11, 12]);
        assert_eq!(established(text, &inodes), ["port 8080"]);
        assert!(established("", &inodes).is_empty());
    }

    #[test]
    fn a_connection_of_this_process_is_seen() {
        let own = [std::process::id()];
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        assert!(has_tcp(&own));
        let _client = std::net::TcpStream::connect(address).expect("connected");
        let _server = listener.accept().expect("accepted");
        let finding = check(&own, Tcp::Close, false).expect("there is one");
        assert!(finding.refuses);
        let finding = check(&own, Tcp::Close, true).expect("there is one");
        assert!(!finding.refuses);
        let port = format!("port {}", address.port());
        assert!(finding.text.contains(&port), "{}", finding.text);
        assert!(!check(&own, Tcp::Established, false).is_some_and(|finding| finding.refuses));
    }
}
